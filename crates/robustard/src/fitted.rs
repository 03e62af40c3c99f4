//! One fit of given features and noise, with what can be said of it.

use std::sync::OnceLock;

use faer::{MatRef, Par};
use robustard_engine::diagnostics::z_threshold;
use robustard_engine::math::density::{log_normal, log_sum_exp};
use robustard_engine::math::order::median;
use robustard_engine::metrics::mean;
use robustard_engine::{FittedModel, Settings, TrainingRows};
use robustard_engine::{LeftOut, PredictiveNoise};
use serde::{Deserialize, Serialize};

use crate::design::Design;
use crate::diagnostics::Diagnostics;
use crate::features::{FeatureKind, Gap};
use crate::quality::Quality;
use crate::scaling::MEDIAN_TO_DEVIATION;
use crate::standard_errors::Coefficients;
use crate::target::TargetTransform;
use crate::widths::Widths;

/// A level of intervals that all others are compared with.
const MIDDLE: f64 = 0.5;

/// Features, weights and noise that were fitted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Fit {
    /// Which features.
    pub features: FeatureKind,
    /// The engine's settings, noise included.
    pub settings: Settings,
    pub design: Design,
    /// In standard units.
    pub model: FittedModel,
    /// Variance of each training row that the features do not carry, in standard units; empty if they carry all.
    pub unseen: Vec<f64>,
    /// The training rows that hardly count, because they are gross errors.
    pub set_aside: Vec<usize>,
    /// How wide error bars are, if that depends on the inputs.
    #[serde(default)]
    pub widths: Option<Widths>,
    /// What is known of all rows, if the model keeps only some of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<Whole>,
    #[serde(skip)]
    pub known: Known,
}

/// A row to look at, of a table of which the model keeps only some rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SuspiciousRow {
    /// Its number among the rows that were fitted, counted from 0.
    pub row: u64,
    /// y.
    pub actual: f64,
    /// Predicted from the other rows.
    pub predicted: f64,
    /// Leave-one-out residual in standard deviations of an inlier.
    pub z: f64,
    /// Probability of being an outlier, if the noise model has one.
    pub outlier_probability: Option<f64>,
    /// Whether it was set aside as a gross error.
    pub set_aside: bool,
}

/// What is known of all rows of a fit by passes over them, which keeps only some.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Whole {
    /// Number of rows fitted.
    pub rows: u64,
    /// Rows, drawn at random, on which features and noise were chosen.
    pub chosen_on: usize,
    /// Passes over the rows.
    pub passes: usize,
    /// Of all rows.
    pub quality: Quality,
    /// Rows flagged.
    pub flagged: u64,
    /// Rows set aside as gross errors.
    pub set_aside: u64,
    /// The most suspicious of the flagged rows, most suspicious first.
    pub suspicious: Vec<SuspiciousRow>,
    pub(crate) rule: WeightRule,
}

/// How often rows count that are not kept: those that the fit to a sample leaves too much of, and typing errors, hardly do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WeightRule {
    /// The weight that counts as 1.
    pub unit: f64,
    /// Weights of that fit and the largest residual, in standard units.
    pub gross: Option<(Vec<f64>, f64)>,
    /// Centre of the target and the distance from it beyond which it can only be a typing error.
    pub typing: Option<(f64, f64)>,
}

impl Default for WeightRule {
    fn default() -> Self {
        Self { unit: 1.0, gross: None, typing: None }
    }
}

/// Rows of a table that is seen part by part.
pub(crate) struct Block<'b> {
    /// Standardized inputs, m × p.
    pub standard: MatRef<'b, f64>,
    pub gaps: Option<&'b [Gap]>,
    /// The numbers of those that are set aside.
    pub set_aside: &'b [usize],
}

/// What is worked out once, when it is asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    diagnostics: OnceLock<Diagnostics>,
    quality: OnceLock<Quality>,
    /// The weights as expected values alone need them, if the design has such a form.
    folded: OnceLock<Option<Vec<f64>>>,
    coefficients: OnceLock<Option<Coefficients>>,
}

impl PartialEq for Fit {
    /// What is worked out follows from the rest.
    fn eq(&self, other: &Self) -> bool {
        let Self { features, settings, design, model, unseen, set_aside, widths, whole, known: _ } = self;
        (features, settings, design, model) == (&other.features, &other.settings, &other.design, &other.model)
            && (unseen, set_aside, widths, whole) == (&other.unseen, &other.set_aside, &other.widths, &other.whole)
    }
}

impl Fit {
    pub fn diagnostics(&self) -> &Diagnostics {
        let Self { design, model, unseen, set_aside, known, .. } = self;
        known.diagnostics.get_or_init(|| Diagnostics::new(design, model, unseen, set_aside, self.row_widths()))
    }

    /// Expected values at standardized inputs, in standard units, by folded weights; none if the design has no such form.
    pub fn folded_means(&self, standard: MatRef<'_, f64>, par: Par) -> Option<Vec<f64>> {
        let Self { design, model, known, .. } = self;
        let folded = known.folded.get_or_init(|| design.fold(model.coefficients())).as_ref()?;
        Some(design.folded_means(standard, folded, model.coefficients(), par))
    }

    /// Takes the errors of left-out rows, each counted as often as `weight` says, for those of new rows where a target is transformed.
    pub fn set_target_errors(&mut self, weight: &[f64]) {
        let target = self.design.target();
        if target.transform() != TargetTransform::None {
            let errors = self.left_out().residual;
            let largest = weight.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
            let rows = self.model.rows().target.iter().zip(weight).map(|(target, weight)| (*target, weight / largest));
            let target = target.with_range(rows);
            self.design.set_target(target.with_errors(errors.into_iter().zip(weight.iter().copied())));
        }
    }

    /// Lets go of the diagnostics, which are many numbers for each row; the quality stays.
    pub fn forget_rows(&mut self) {
        self.quality();
        self.known.diagnostics = OnceLock::new();
    }

    pub fn quality(&self) -> &Quality {
        if let Some(whole) = &self.whole {
            return &whole.quality;
        }
        self.known.quality.get_or_init(|| Quality::of(self.diagnostics(), self.coverage(0.95)))
    }

    /// Errors of left-out rows, in standard units.
    pub fn left_out(&self) -> LeftOut {
        self.model.left_out(&self.unseen)
    }

    /// The noise that predictions carry, in standard units.
    pub fn predictive_noise(&self) -> PredictiveNoise {
        self.model.predictive_noise(self.model.base_noise())
    }

    /// How wide error bars of the training rows are, relative to what they would be if all were alike; none if they are.
    pub fn row_widths(&self) -> Option<&[f64]> {
        self.widths.as_ref().map(|widths| widths.of_rows.as_slice())
    }

    fn row_width(&self, row: usize) -> f64 {
        self.row_widths().map_or(1.0, |widths| widths[row])
    }

    /// Whether each left-out row is off by more standard deviations, where it is, than one of so many is by chance; half of the rows say what a
    /// standard deviation is.
    pub fn is_far(&self) -> Vec<bool> {
        let LeftOut { residual, latent_variance } = self.left_out();
        let inlier = self.model.inlier_variance();
        let off = |row: usize| residual[row].abs() / ((inlier + latent_variance[row]).sqrt() * self.row_width(row));
        let offs: Vec<f64> = (0..residual.len()).map(off).collect();
        let limit = z_threshold(offs.len()) * MEDIAN_TO_DEVIATION * median(&offs);
        offs.iter().map(|off| *off > limit).collect()
    }

    /// How far each left-out row is off, in half widths of the interval of level ½ that predictions have there.
    fn offs(&self) -> Vec<f64> {
        self.offs_of(&self.left_out(), self.row_widths())
    }

    fn offs_of(&self, LeftOut { residual, latent_variance }: &LeftOut, widths: Option<&[f64]>) -> Vec<f64> {
        let half = self.predictive_noise().half_widths(MIDDLE, latent_variance);
        let width = |row: usize| widths.map_or(1.0, |widths| widths[row]);
        let off = |(row, (error, half)): (usize, (&f64, f64))| error.abs() / (half * width(row));
        residual.iter().zip(half).enumerate().map(off).collect()
    }

    /// How many times the noise of the fit errors of left-out rows are, as standard deviations; at least one.
    fn optimism(&self) -> f64 {
        let said = PredictiveNoise::Normal { variance: self.model.noise_inflation() * self.model.inlier_variance() };
        let [said, found] = [said, self.predictive_noise()].map(|noise| noise.half_widths(MIDDLE, &[0.0])[0]);
        let optimism = found / said;
        if optimism.is_finite() { optimism.max(1.0) } else { 1.0 }
    }

    /// The coefficients under the noise that left-out rows have; none of a learnt curve, whose features have no meaning of their own, and of
    /// very many.
    pub fn coefficients(&self) -> Option<&Coefficients> {
        let Self { design, model, known, .. } = self;
        let of = || if design.map().bends().is_some() { None } else { Coefficients::of(model, self.optimism()) };
        known.coefficients.get_or_init(of).as_ref()
    }

    /// Diagnostics of rows that the model does not keep, and which of them are in their leave-one-out 95% interval.
    pub fn diagnose(&self, rows: &TrainingRows, block: &Block<'_>) -> (Diagnostics, Vec<bool>) {
        let Self { design, model, .. } = self;
        let unseen = block.gaps.map_or_else(Vec::new, |gaps| design.unseen_variance(gaps, model));
        let left_out = model.left_out_of(rows, &unseen);
        let predicted: Vec<f64> = rows.target.iter().zip(&left_out.residual).map(|(y, error)| y - error).collect();
        let widths = self.widths.as_ref().map(|widths| widths.at(block.standard, &predicted));
        let inside = self.inside_of(&left_out, widths.as_deref(), 0.95);
        (Diagnostics::of_rows(design, model, rows, &unseen, block.set_aside, widths.as_deref()), inside)
    }

    fn inside_of(&self, left_out: &LeftOut, widths: Option<&[f64]>, level: f64) -> Vec<bool> {
        let noise = self.predictive_noise();
        let limit = noise.half_widths(level, &[0.0])[0] / noise.half_widths(MIDDLE, &[0.0])[0];
        self.offs_of(left_out, widths).into_iter().map(|off| off <= limit).collect()
    }

    /// Standard deviations of predictions of the training rows, given what is not known of their means, in standard units: half of the
    /// intervals that hold as much as one of a normal density.
    pub fn predictive_deviations(&self, latent_variance: &[f64]) -> Vec<f64> {
        /// A normal variable is within one standard deviation so often.
        const WITHIN_ONE: f64 = 0.682_689_492_137_085_9;
        let half = self.predictive_noise().half_widths(WITHIN_ONE, latent_variance);
        half.into_iter().enumerate().map(|(row, half)| half * self.row_width(row)).collect()
    }

    /// Shares of the rows, each counted as often as `weight` says, inside their leave-one-out intervals of the given levels:
    /// the intervals that predictions of new rows have.
    pub fn coverages(&self, levels: &[f64], weight: &[f64]) -> Vec<f64> {
        let noise = self.predictive_noise();
        // Intervals of all rows widen alike with the level.
        let width = |level: f64| noise.half_widths(level, &[0.0])[0];
        let (offs, middle, total) = (self.offs(), width(MIDDLE), weight.iter().sum::<f64>());
        let inside = |level: &f64| {
            let limit = width(*level) / middle;
            offs.iter().zip(weight).filter(|(off, _)| **off <= limit).map(|(_, weight)| weight).sum::<f64>() / total
        };
        levels.iter().map(inside).collect()
    }

    /// Whether each row is inside its leave-one-out interval of a level.
    pub fn inside(&self, level: f64) -> Vec<bool> {
        self.inside_of(&self.left_out(), self.row_widths(), level)
    }

    /// The share of all rows inside, each counted as often as it counted in the fit, at one level.
    pub fn coverage(&self, level: f64) -> f64 {
        self.coverages(&[level], &self.model.rows().weight)[0]
    }

    /// Bound on the log evidence per row, of the standardized target.
    pub fn bound(&self) -> f64 {
        -self.model.outcome().objective / self.model.rows().weight.iter().sum::<f64>()
    }

    /// Mean log density of the left-out rows, in the target's units.
    pub fn left_out_density(&self) -> f64 {
        self.design.target().log_density(mean(&self.left_out_densities()), 1.0)
    }

    /// Log densities of the left-out rows, in standard units. Rows set aside are a share of all with a wide normal density, so that a
    /// fit gains nothing by setting rows aside that it could explain.
    pub fn left_out_densities(&self) -> Vec<f64> {
        let LeftOut { residual, latent_variance } = self.left_out();
        let n = residual.len();
        let own: Vec<f64> = if self.model.noise().is_shared() {
            let noise = self.predictive_noise();
            let density = |row: usize| {
                let width = self.row_width(row);
                noise.log_density(residual[row] / width, latent_variance[row]) - width.ln()
            };
            (0..n).map(density).collect()
        } else {
            self.model.diagnose_with(&self.unseen).loo_log_density
        };
        let aside = &self.set_aside;
        if aside.is_empty() {
            own
        } else {
            let share = (aside.len() as f64 + 0.5) / (n as f64 + 1.0);
            let square = aside.iter().map(|&row| residual[row].powi(2)).sum::<f64>() / aside.len() as f64;
            let mixed = |i: usize| {
                let parts = [(1.0 - share).ln() + own[i], share.ln() + log_normal(residual[i], square)];
                log_sum_exp(parts.into_iter())
            };
            (0..n).map(mixed).collect()
        }
    }

    /// Whether all parts fit together, as they do unless they come from a damaged file.
    pub fn check(&self) -> Result<(), String> {
        self.model.check()?;
        let rows = self.model.rows().weight.len();
        let agree = self.design.is_consistent()
            && self.model.coefficients().len() == self.design.column_count()
            && (self.unseen.is_empty() || self.unseen.len() == rows)
            && self.widths.as_ref().is_none_or(|widths| widths.is_consistent(self.design.input_names().len(), rows))
            && self.set_aside.iter().all(|&row| row < rows);
        if agree { Ok(()) } else { Err("its parts are of different sizes".to_owned()) }
    }
}

/// Log densities of the errors of left-out rows under the noise that explains those of the rows kept best, whatever the noise of the
/// fit: what tells fits of different noise apart by their errors alone. Targets that are rounded are known to `least_variance` only.
pub(crate) fn error_densities(left_out: &LeftOut, kept: &[f64], inlier: f64, least_variance: f64) -> Vec<f64> {
    let latent_variance = left_out.latent_variance.iter().map(|latent| latent + least_variance).collect();
    let left_out = LeftOut { residual: left_out.residual.clone(), latent_variance };
    let noise = PredictiveNoise::learn(&left_out, kept, inlier);
    let errors = left_out.residual.iter().zip(&left_out.latent_variance);
    errors.map(|(residual, latent)| noise.log_density(*residual, *latent)).collect()
}
