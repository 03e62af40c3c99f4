//! Features and noise chosen instead of given.
//!
//! Every candidate is fitted to all rows. *Noise*: robust noise replaces shared noise when its bound on the log evidence is
//! better by more than half a nat per row, which a share of wrong rows brings and merely heavy tails do not; or by more than a
//! quarter if it predicts left-out rows no worse in the mean square. (The mean square alone would not do: wrong rows that all
//! err to one side are predicted better by a fit that gives in to them.) Among robust noise models the best bound wins. *Features*: waves replace
//! the linear fit when the log density of left-out rows, each predicted from the others, is better by more than two standard
//! errors of the difference, row by row. Ties go to the simpler fit, which can be read.

use robustard::features::{FeatureKind, FeatureOptions};
use robustard::{Degrees, NoiseKind, NoisePrior, Observer, Settings};
use serde::{Deserialize, Serialize};

use crate::regression::{Fitted, Regression, RegressionError, RegressionOptions};
use crate::table::Table;

/// Gain in nats per row that robust noise has to bring, and the one that needs no other proof.
const LEAST_GAIN: f64 = 0.25;
const CLEAR_GAIN: f64 = 0.5;
/// Standard errors by which waves have to be better.
const LEAST_ERRORS: f64 = 2.0;

/// What is chosen instead of given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Auto {
    /// Linear features or waves.
    pub features: bool,
    /// Shared or robust noise.
    pub noise: bool,
}

/// What was compared, and why one was chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// All fits.
    pub compared: Vec<Compared>,
    /// The reason, as a sentence or two.
    pub reason: String,
}

/// One of the fits compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Its features.
    pub features: String,
    /// Its noise.
    pub noise: String,
    /// Bound on the log evidence per row, in nats, of the standardized target.
    pub bound: f64,
    /// Root mean square of the leave-one-out residuals, in the target's units.
    pub loo_rmse: f64,
    /// Mean log density of left-out rows, in the target's units.
    pub loo_log_density: f64,
    /// Whether it was chosen.
    pub chosen: bool,
}

/// A fit and its place among those compared.
struct Candidate {
    fitted: Fitted,
    place: usize,
}

impl Candidate {
    fn regression(&self) -> &Regression {
        &self.fitted.regression
    }

    /// Bound on the log evidence per row.
    fn bound(&self) -> f64 {
        let model = &self.regression().model;
        -model.outcome.objective / model.rows.weight.iter().sum::<f64>()
    }

    /// Log densities of the left-out rows.
    fn densities(&self) -> Vec<f64> {
        let scale = self.regression().target.deviation.ln();
        self.regression().diagnose().loo_log_density.iter().map(|density| density - scale).collect()
    }
}

/// Fits every candidate and keeps the best.
pub(crate) fn fit_chosen<O: Observer + Send>(
    table: &Table,
    options: &RegressionOptions,
    observer: &mut O,
) -> Result<Fitted, RegressionError> {
    let kinds = if options.auto.features {
        vec![FeatureKind::Linear, FeatureKind::Smooth { centres: None }]
    } else {
        vec![options.features.kind]
    };
    let mut compared = Vec::new();
    let mut reasons = Vec::new();
    let mut best: Option<Candidate> = None;
    for kind in kinds {
        let features = FeatureOptions { kind, ..options.features };
        let mut candidates = Vec::new();
        for settings in noises(options, kind) {
            let given = RegressionOptions { features, settings, auto: Auto::default(), ..options.clone() };
            let fitted = Regression::fit_given(table, &given, observer)?;
            let candidate = Candidate { fitted, place: compared.len() };
            compared.push(describe(&candidate));
            candidates.push(candidate);
        }
        let (candidate, reason) = choose_noise(candidates);
        reasons.extend(reason.map(|reason| format!("{kind}: {reason}")));
        best = Some(match best {
            None => candidate,
            Some(simpler) => {
                let (chosen, reason) = choose_features(simpler, candidate);
                reasons.push(reason);
                chosen
            }
        });
    }
    let Candidate { mut fitted, place } = best.expect("at least one kind of features");
    compared[place].chosen = true;
    fitted.regression.choice = Some(Choice { compared, reason: reasons.join("; ") });
    Ok(fitted)
}

/// The noise models to compare, shared noise first. Where lengthscales are learnt for each, Student-t noise is left to the model
/// that nests it.
fn noises(options: &RegressionOptions, kind: FeatureKind) -> Vec<Settings> {
    let given = options.settings.clone();
    if !options.auto.noise {
        return vec![given];
    }
    let robust = |noise_prior| Settings { noise: NoiseKind::PerRow, noise_prior, ..given.clone() };
    let mut all = vec![given.clone().with_shared_noise(), robust(NoisePrior::ContaminatedT(Degrees::Learned))];
    if !matches!(kind, FeatureKind::Waves { .. } | FeatureKind::Smooth { .. }) {
        all.push(robust(NoisePrior::StudentT(Degrees::Fixed(robustard::noise::DEFAULT_DEGREES))));
    }
    all
}

fn describe(candidate: &Candidate) -> Compared {
    let regression = candidate.regression();
    let settings = &regression.options.settings;
    Compared {
        features: regression.options.features.kind.to_string(),
        noise: if settings.noise == NoiseKind::Shared { "shared".to_owned() } else { settings.noise_prior.to_string() },
        bound: candidate.bound(),
        loo_rmse: regression.quality.loo_rmse,
        loo_log_density: robustard::metrics::mean(&candidate.densities()),
        chosen: false,
    }
}

/// The first candidate has shared noise, if there are more than one.
fn choose_noise(candidates: Vec<Candidate>) -> (Candidate, Option<String>) {
    let mut candidates = candidates.into_iter();
    let shared = candidates.next().expect("at least one noise model");
    let Some(robust) = candidates.max_by(|a, b| a.bound().total_cmp(&b.bound())) else { return (shared, None) };
    let gain = robust.bound() - shared.bound();
    let predicts = robust.regression().quality.loo_rmse <= shared.regression().quality.loo_rmse;
    let name = describe(&robust).noise;
    if gain > CLEAR_GAIN || gain > LEAST_GAIN && predicts {
        (robust, Some(format!("{name} noise gains {gain:.2} nats per row on shared noise")))
    } else {
        let why =
            if gain > LEAST_GAIN { "predicts worse".to_owned() } else { format!("gains only {gain:.2} nats per row") };
        (shared, Some(format!("shared noise, because {name} noise {why}")))
    }
}

fn choose_features(simpler: Candidate, richer: Candidate) -> (Candidate, String) {
    let (a, b) = (simpler.densities(), richer.densities());
    let gains: Vec<f64> = b.iter().zip(&a).map(|(b, a)| b - a).collect();
    let n = gains.len() as f64;
    let mean = robustard::metrics::mean(&gains);
    let error = (gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() / n).sqrt() / n.sqrt();
    let (before, after) = (simpler.regression().options.features.kind, richer.regression().options.features.kind);
    if mean > LEAST_ERRORS * error {
        let reason = format!("{after} features gain {mean:.2} ± {error:.2} nats per left-out row on {before}");
        (richer, reason)
    } else {
        let reason = format!(
            "{before} features, because {after} gain no more than {mean:.2} ± {error:.2} nats per left-out row"
        );
        (simpler, reason)
    }
}
