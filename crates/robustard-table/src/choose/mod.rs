//! Features and noise chosen instead of given.
//!
//! *Noise*: robust noise replaces shared noise when its bound on the log evidence is better by more than half a nat per row, which
//! a share of wrong rows brings and merely heavy tails do not; or by more than a quarter if it predicts left-out rows no worse in
//! the mean square. (The mean square alone would not do: wrong rows that all err to one side are predicted better by a fit that
//! gives in to them.) A smooth curve that needs robust noise is then fitted with shared noise and the gross errors set aside: the
//! rows whose left-out error is beyond four standard deviations of the rows kept. *Leverage*:
//! rows far from the others in the inputs have to be confirmed by the others, or they are set aside ([`linear`]). *Features*: a
//! smooth curve replaces lines when the log density of left-out rows, each predicted from the others, is better by more than three
//! standard errors of the difference, row by row. Ties go to the simpler fit, which can be read.

mod distance;
mod linear;
mod smooth;

use robustard::features::FeatureKind;
use robustard::predictive::{LeftOut, PredictiveNoise};
use robustard::{NoiseKind, Observer};
use serde::{Deserialize, Serialize};

use self::distance::few_far_rows;
use crate::prepared::Prepared;
use crate::regression::{Fitted, Regression, RegressionError, RegressionOptions};

/// Gain in nats per row that robust noise has to bring, and the one that needs no other proof.
const LEAST_GAIN: f64 = 0.25;
const CLEAR_GAIN: f64 = 0.5;
/// Of a standard normal variable, over the median of its absolute value.
const MEDIAN_TO_DEVIATION: f64 = 1.482_602_218_505_602;
/// Fewer rows have no curve.
const LEAST_CURVE_ROWS: usize = 30;
/// Standard errors by which a curve has to be better.
const LEAST_ERRORS: f64 = 3.0;

/// What is chosen instead of given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Auto {
    /// Linear features or a smooth curve.
    pub features: bool,
    /// Shared or robust noise.
    pub noise: bool,
}

/// What was compared, and why one was chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// All fits.
    pub compared: Vec<Compared>,
    /// The reasons, as sentences.
    pub reasons: Vec<String>,
}

/// One of the fits compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Its features.
    pub features: String,
    /// Its noise.
    pub noise: String,
    /// Rows that it sets aside as gross errors.
    pub set_aside: usize,
    /// Bound on the log evidence per row, in nats, of the standardized target.
    pub bound: f64,
    /// Root mean square of the errors of left-out rows, in the target's units, without rows set aside.
    pub loo_rmse: f64,
    /// Mean log density of all left-out rows, in the target's units.
    pub loo_log_density: f64,
    /// Whether it was chosen.
    pub chosen: bool,
}

/// A fit among those compared.
struct Candidate {
    fitted: Fitted,
    /// Log densities of the left-out rows, in the target's units.
    densities: Vec<f64>,
}

impl Candidate {
    fn new(fitted: Fitted) -> Self {
        let densities = left_out_densities(&fitted.regression);
        Self { fitted, densities }
    }

    fn regression(&self) -> &Regression {
        &self.fitted.regression
    }

    /// Bound on the log evidence per row.
    fn bound(&self) -> f64 {
        let model = &self.regression().model;
        -model.outcome.objective / model.rows.weight.iter().sum::<f64>()
    }

    /// 1 for each row, 0 for those set aside.
    fn kept(&self) -> Vec<f64> {
        let mut kept = vec![1.0; self.densities.len()];
        self.regression().set_aside.iter().for_each(|&row| kept[row] = 0.0);
        kept
    }

    /// Log densities of the errors of left-out rows under the noise that explains those of the rows kept best, whatever the
    /// noise of the fit: what tells fits of different noise apart by their errors alone.
    fn error_densities(&self, kept: &[f64]) -> Vec<f64> {
        let model = &self.regression().model;
        let diagnostics = model.diagnose();
        let left_out = LeftOut { residual: diagnostics.loo_residual, latent_variance: diagnostics.loo_latent_variance };
        let noise = PredictiveNoise::learn(&left_out, kept, model.inlier_variance());
        let errors = left_out.residual.iter().zip(&left_out.latent_variance);
        errors.map(|(residual, latent)| noise.log_density(*residual, *latent)).collect()
    }

    fn describe(&self) -> Compared {
        let regression = self.regression();
        let settings = &regression.options.settings;
        let is_shared = settings.noise == NoiseKind::Shared;
        Compared {
            features: regression.options.features.kind.to_string(),
            noise: if is_shared { "shared".to_owned() } else { settings.noise_prior.to_string() },
            set_aside: regression.set_aside.len(),
            bound: self.bound(),
            loo_rmse: regression.quality.loo_rmse,
            loo_log_density: robustard::metrics::mean(&self.densities),
            chosen: false,
        }
    }
}

/// Log densities of the left-out rows, in the target's units. Rows set aside are a share of all with a wide normal density, so
/// that a fit gains nothing by setting rows aside that it could explain.
fn left_out_densities(regression: &Regression) -> Vec<f64> {
    let model = &regression.model;
    let diagnostics = model.diagnose();
    let unit = regression.target.deviation.ln();
    let n = diagnostics.loo_residual.len();
    let own: Vec<f64> = if model.noise.is_shared() {
        let noise = model.predictive_noise(model.base_noise);
        let errors = diagnostics.loo_residual.iter().zip(&diagnostics.loo_latent_variance);
        errors.map(|(residual, latent)| noise.log_density(*residual, *latent)).collect()
    } else {
        diagnostics.loo_log_density.clone()
    };
    let aside = &regression.set_aside;
    if aside.is_empty() {
        return own.iter().map(|density| density - unit).collect();
    }
    let share = (aside.len() as f64 + 0.5) / (n as f64 + 1.0);
    let square = aside.iter().map(|&row| diagnostics.loo_residual[row].powi(2)).sum::<f64>() / aside.len() as f64;
    let gross = |residual: f64| -0.5 * (residual * residual / square + (std::f64::consts::TAU * square).ln());
    (0..n)
        .map(|i| {
            let [a, b] = [(1.0 - share).ln() + own[i], share.ln() + gross(diagnostics.loo_residual[i])];
            let largest = a.max(b);
            largest + ((a - largest).exp() + (b - largest).exp()).ln() - unit
        })
        .collect()
}

/// The best fit of one kind of features, with what it was compared to.
struct Best {
    candidate: Candidate,
    compared: Vec<Compared>,
    /// Its place among them.
    place: usize,
    reasons: Vec<String>,
}

/// Fits every candidate and keeps the best.
pub(crate) fn fit_chosen<O: Observer + Send>(
    prepared: &Prepared,
    options: &RegressionOptions,
    observer: &mut O,
) -> Result<Fitted, RegressionError> {
    let given = |kind: FeatureKind| {
        let mut given = options.clone();
        (given.features.kind, given.auto) = (kind, Auto::default());
        given
    };
    let best_of = |kind: FeatureKind, line_errors: &[f64], observer: &mut O| match kind {
        FeatureKind::Smooth { .. } if options.auto.noise => {
            smooth::best(prepared, &given(kind), options.auto.features, line_errors, observer)
        }
        _ => linear::best(prepared, &given(kind), options.auto.noise, observer).map(Ok),
    };
    let mut best = if options.auto.features {
        let lines = linear::best(prepared, &given(FeatureKind::Linear), options.auto.noise, observer)?;
        let curve = if prepared.distinct_rows() < LEAST_CURVE_ROWS {
            Err(format!("lines, because {} rows are too few for a curve", prepared.distinct_rows()))
        } else {
            let left_out = lines.candidate.regression().diagnose().loo_residual;
            let errors: Vec<f64> = left_out.iter().map(|error| error.abs()).collect();
            best_of(FeatureKind::Smooth { centres: None }, &errors, observer)?
        };
        match curve {
            Ok(curve) => {
                let silent = [few_far_rows(prepared.inputs()), prepared.copied_rows()].concat();
                choose_features(lines, curve, &silent)
            }
            Err(why_not) => Best { reasons: [lines.reasons, vec![why_not]].concat(), ..lines },
        }
    } else {
        best_of(options.features.kind, &[], observer)?.expect("a kind that was asked for is fitted")
    };
    best.compared[best.place].chosen = true;
    let mut fitted = best.candidate.fitted;
    fitted.regression.options.auto = options.auto;
    fitted.regression.choice = Some(Choice { compared: best.compared, reasons: best.reasons });
    Ok(fitted)
}

/// Rows far from the others in their inputs have no say, since a curve can bend to any of them, and no row that has copies.
fn choose_features(lines: Best, curve: Best, silent: &[usize]) -> Best {
    let mut kept = curve.candidate.kept();
    silent.iter().for_each(|&row| kept[row] = 0.0);
    let [line, bent] = [&lines, &curve].map(|best| best.candidate.error_densities(&kept));
    let gains: Vec<f64> = bent
        .iter()
        .zip(&line)
        .zip(&kept)
        .filter(|(_, kept)| **kept > 0.0)
        .map(|((bent, line), _)| bent - line)
        .collect();
    let n = gains.len() as f64;
    let mean = robustard::metrics::mean(&gains);
    let error = (gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() / n).sqrt() / n.sqrt();
    let is_curve = mean > LEAST_ERRORS * error;
    let reason = if is_curve {
        format!("a smooth curve gains {mean:.2} ± {error:.2} nats per left-out row on lines")
    } else {
        format!("lines, because a smooth curve gains no more than {mean:.2} ± {error:.2} nats per left-out row")
    };
    let place = if is_curve { lines.compared.len() + curve.place } else { lines.place };
    let reasons = [vec![reason], if is_curve { curve.reasons } else { lines.reasons }].concat();
    let candidate = if is_curve { curve.candidate } else { lines.candidate };
    Best { candidate, compared: [lines.compared, curve.compared].concat(), place, reasons }
}

/// Whether robust noise replaces shared noise, by its gain in nats per row and by the root mean square errors of left-out rows.
fn needs_robust_noise(gain: f64, robust_error: f64, shared_error: f64) -> bool {
    gain > CLEAR_GAIN || gain > LEAST_GAIN && robust_error <= shared_error
}

fn why_shared(name: &str, gain: f64) -> String {
    if gain <= 0.0 {
        format!("shared noise, because {name} noise gains nothing")
    } else if gain > LEAST_GAIN {
        format!("shared noise, because {name} noise predicts left-out rows worse")
    } else {
        format!("shared noise, because {name} noise gains only {gain:.2} nats per row")
    }
}
