//! What a fit says about each training row, in the target's units.

use robustard_engine::diagnostics::Diagnostics as Standard;
use robustard_engine::{FittedModel, TrainingRows};
use serde::Serialize;

use crate::design::Design;

/// Diagnostics of all training rows, in their order and in the target's units; see the engine's
/// [`diagnostics`](robustard_engine::diagnostics) for the formulas.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Diagnostics {
    /// y.
    pub actual: Vec<f64>,
    /// Predicted from the other rows.
    pub predicted: Vec<f64>,
    /// y − fitted value.
    pub residual: Vec<f64>,
    /// y − predicted from the other rows.
    pub loo_residual: Vec<f64>,
    /// λ: noise variance of the row.
    pub noise_variance: Vec<f64>,
    /// Variance of the regression function at the row, as predictions have it.
    pub latent_variance: Vec<f64>,
    /// The same had the row been left out.
    pub loo_latent_variance: Vec<f64>,
    /// Log density of the target under the noise model, had the row been left out.
    pub loo_log_density: Vec<f64>,
    /// How often the row counted in the fit.
    pub weight: Vec<f64>,
    /// How strongly the row pulls its own fit; between 0 and 1.
    pub leverage: Vec<f64>,
    /// Cook's distance.
    pub cooks_distance: Vec<f64>,
    /// DFFITS.
    pub dffits: Vec<f64>,
    /// Residual in its standard deviations under the row's own noise (internally studentized).
    pub standard_residual: Vec<f64>,
    /// The same under noise that does not know the row (externally studentized).
    pub student_residual: Vec<f64>,
    /// Leave-one-out residual in standard deviations of an inlier, where the row is.
    pub z: Vec<f64>,
    /// Probability of being an outlier, if the noise model has one.
    pub outlier_probability: Option<Vec<f64>>,
    /// Rows to look at.
    pub flagged: Vec<bool>,
    /// Rows that were set aside as gross errors: they hardly count, and are flagged.
    pub set_aside: Vec<bool>,
    /// |z| from which rows are flagged.
    pub threshold: f64,
}

impl Diagnostics {
    /// `widths` says how wide error bars of the rows are, if they are not all alike.
    pub(crate) fn new(
        design: &Design,
        model: &FittedModel,
        unseen: &[f64],
        set_aside: &[usize],
        widths: Option<&[f64]>,
    ) -> Self {
        Self::of_rows(design, model, model.rows(), unseen, set_aside, widths)
    }

    /// The same of rows that the model does not keep.
    pub(crate) fn of_rows(
        design: &Design,
        model: &FittedModel,
        rows: &TrainingRows,
        unseen: &[f64],
        set_aside: &[usize],
        widths: Option<&[f64]>,
    ) -> Self {
        let scale = design.target();
        let mut standard: Standard = model.diagnose_rows(rows, unseen);
        if let Some(widths) = widths {
            standard.z.iter_mut().zip(widths).for_each(|(z, width)| *z /= width);
            if standard.outlier_probability.is_none() {
                standard.flagged = standard.z.iter().map(|z| z.abs() > standard.threshold).collect();
            }
        }
        let errors = |values: &[f64]| -> Vec<f64> {
            rows.target.iter().zip(values).map(|(y, error)| scale.error(*y, *error)).collect()
        };
        // Where a row is expected from the others.
        let variance =
            |row: usize, variance: f64| scale.variance_at(rows.target[row] - standard.loo_residual[row], variance);
        let variances = |values: &[f64]| -> Vec<f64> {
            values.iter().enumerate().map(|(row, value)| variance(row, *value)).collect()
        };
        let actual: Vec<f64> = rows.target.iter().map(|y| scale.unscaled(*y)).collect();
        let loo_residual = errors(&standard.loo_residual);
        let mut is_aside = vec![false; actual.len()];
        set_aside.iter().for_each(|&row| is_aside[row] = true);
        let flagged = standard.flagged.iter().zip(&is_aside).map(|(flagged, aside)| *flagged || *aside).collect();
        let outlier_probability = standard.outlier_probability.map(|mut probability| {
            set_aside.iter().for_each(|&row| probability[row] = 1.0);
            probability
        });
        Self {
            predicted: actual.iter().zip(&loo_residual).map(|(y, r)| y - r).collect(),
            residual: errors(&standard.residual),
            noise_variance: variances(&rows.noise_variance),
            latent_variance: rows
                .predictive_latent_variance()
                .iter()
                .enumerate()
                .map(|(row, latent)| variance(row, latent + unseen.get(row).copied().unwrap_or(0.0)))
                .collect(),
            loo_latent_variance: variances(&standard.loo_latent_variance),
            loo_log_density: rows
                .target
                .iter()
                .zip(&standard.loo_log_density)
                .map(|(y, density)| scale.log_density_at(*y, *density))
                .collect(),
            weight: rows.weight.to_vec(),
            leverage: standard.leverage,
            cooks_distance: standard.cooks_distance,
            dffits: standard.dffits,
            standard_residual: standard.standard_residual,
            student_residual: standard.student_residual,
            z: standard.z,
            outlier_probability,
            flagged,
            set_aside: is_aside,
            threshold: standard.threshold,
            actual,
            loo_residual,
        }
    }

    /// Adds those of more rows.
    pub(crate) fn append(&mut self, more: Self) {
        self.actual.extend(more.actual);
        self.predicted.extend(more.predicted);
        self.residual.extend(more.residual);
        self.loo_residual.extend(more.loo_residual);
        self.noise_variance.extend(more.noise_variance);
        self.latent_variance.extend(more.latent_variance);
        self.loo_latent_variance.extend(more.loo_latent_variance);
        self.loo_log_density.extend(more.loo_log_density);
        self.weight.extend(more.weight);
        self.leverage.extend(more.leverage);
        self.cooks_distance.extend(more.cooks_distance);
        self.dffits.extend(more.dffits);
        self.standard_residual.extend(more.standard_residual);
        self.student_residual.extend(more.student_residual);
        self.z.extend(more.z);
        if let (Some(own), Some(more)) = (&mut self.outlier_probability, more.outlier_probability) {
            own.extend(more);
        }
        self.flagged.extend(more.flagged);
        self.set_aside.extend(more.set_aside);
    }

    /// 1/λ: how far the row is to be relied upon.
    pub fn relevance(&self, row: usize) -> f64 {
        1.0 / self.noise_variance[row]
    }

    /// Indices of all rows, most suspicious first.
    pub fn ranking(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.z.len()).collect();
        let suspicion = |i: usize| (self.outlier_probability.as_ref().map_or(0.0, |p| p[i]), self.z[i].abs());
        order.sort_by(|&a, &b| {
            let (a, b) = (suspicion(a), suspicion(b));
            b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
        });
        order
    }

    /// Number of rows that are flagged for having been set aside alone: they are within [`Self::threshold`] of what the others predict.
    pub fn flagged_within(&self) -> usize {
        let is_within = |row: usize| self.set_aside[row] && self.z[row].abs() <= self.threshold;
        (0..self.z.len()).filter(|&row| is_within(row)).count()
    }

    /// Indices of the flagged rows, most suspicious first.
    pub fn flagged_rows(&self) -> Vec<usize> {
        self.ranking().into_iter().filter(|&row| self.flagged[row]).collect()
    }
}
