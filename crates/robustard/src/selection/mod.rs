//! Features and noise chosen instead of given.
//!
//! *Noise*: robust noise replaces shared noise when its bound on the log evidence is better by more than two parameters bring by
//! chance, and its left-out predictions explain no less of the target ([`explained_more`]) or large errors are a crowd of their own. A smooth
//! curve that needs robust noise is then fitted with shared noise and the wrong rows set aside ([`smooth`]). *Leverage*: rows far from the
//! others in the inputs have to be confirmed by the others, or they are set aside ([`linear`]). *Features*: a smooth curve replaces lines
//! when the log density of left-out rows, each predicted from the others, is better by more than its standard error and by more than one
//! hundredth: it contains the lines, and the evidence shrinks it where there is nothing to find. Ties go to the simpler fit, which can be
//! read. *Large tables* ([`large`]): all this is decided on some of the rows.
//!
//! Work that is stopped compares nothing that has not converged: it ends with the best fit that was finished, or with the only
//! one there is.

mod distance;
mod large;
mod linear;
mod reasons;
mod smooth;

use robustard_engine::Status;
use robustard_engine::metrics::mean;

use self::distance::few_far_rows;
pub use self::reasons::{Compared, Reason, Selection};
use crate::Error;
use crate::features::{FeatureKind, SmoothKind};
use crate::fitted::Fit;
use crate::recipe::Choice;
use crate::scaling::MEDIAN_TO_DEVIATION;
use crate::work::{Candidate, Work};

/// Gain of robust noise in nats per row, found from few rows, that more rows need not confirm.
const CLEAR_GAIN: f64 = 0.5;
/// Fewer rows have no curve.
const LEAST_CURVE_ROWS: usize = 30;
/// Gain of a curve in nats per row below which lines are kept, which can be read: errors would be smaller by one in a hundred.
const LEAST_CURVE_GAIN: f64 = 0.01;

/// The best fit of one kind of features, with what it was compared to.
struct Best {
    candidate: Candidate,
    compared: Vec<Compared>,
    /// Its place among them.
    place: usize,
    reasons: Vec<Reason>,
}

impl Best {
    /// The only one there is.
    fn only(candidate: Candidate, reasons: Vec<Reason>) -> Self {
        Self { compared: vec![describe(&candidate.fit)], place: 0, reasons, candidate }
    }
}

/// What is chosen, and why, if there was a choice.
pub(crate) struct Chosen {
    pub candidate: Candidate,
    pub selection: Option<Selection>,
}

fn describe(fit: &Fit) -> Compared {
    Compared {
        features: fit.features,
        learnt_from: None,
        noise: fit.settings.noise,
        set_aside: fit.set_aside.len(),
        bound: fit.design.target().log_density(fit.bound(), 1.0),
        loo_rmse: fit.quality().loo_rmse,
        loo_log_density: fit.left_out_density(),
        chosen: false,
    }
}

/// Whether a fit was cut short by the stop.
fn is_cut_short(candidate: &Candidate) -> bool {
    candidate.fit.model.status() == Status::Interrupted
}

/// Fits what the recipe gives, or every candidate, and keeps the best.
pub(crate) fn choose(work: &Work<'_>) -> Result<Chosen, Error> {
    let (features, noise) = (work.recipe.features(), work.recipe.noise());
    if let (Choice::Given(kind), Choice::Given(noise)) = (features, noise) {
        let learning = work.learn(kind, noise)?;
        let candidate = work.fit(kind, learning, work.recipe.settings(), Vec::new())?;
        return Ok(Chosen { candidate, selection: None });
    }
    let is_large = work.dataset.row_count() > large::CHOICE_ROWS;
    let mut best = if is_large { large::best(work)? } else { best(work)? };
    if work.control.is_stopped() {
        best.reasons.push(Reason::Interrupted);
    }
    best.compared[best.place].chosen = true;
    let selection = Selection { compared: best.compared, reasons: best.reasons };
    Ok(Chosen { candidate: best.candidate, selection: Some(selection) })
}

/// The best of what the recipe leaves open.
fn best(work: &Work<'_>) -> Result<Best, Error> {
    match work.recipe.features() {
        Choice::Given(FeatureKind::Smooth(kind)) if work.recipe.noise().is_auto() => {
            Ok(smooth::best(work, kind, false, &[])?.map_err(|_| crate::features::FeatureError::NotLearnt)?)
        }
        Choice::Given(kind) => linear::best(work, kind),
        Choice::Auto => lines_or_curve(work),
    }
}

fn lines_or_curve(work: &Work<'_>) -> Result<Best, Error> {
    let lines = linear::best(work, FeatureKind::linear())?;
    let with = |lines: Best, reason| Best { reasons: [lines.reasons, vec![reason]].concat(), ..lines };
    if work.control.is_stopped() {
        return Ok(lines);
    }
    let rows = work.dataset.distinct_rows();
    if rows < LEAST_CURVE_ROWS {
        return Ok(with(lines, Reason::TooFewRowsForCurve { rows }));
    }
    let kind = SmoothKind::default();
    let curve = match work.recipe.noise() {
        Choice::Auto => {
            let errors = &lines.candidate.fit.diagnostics().loo_residual;
            let errors = errors.iter().map(|error| work.scale().standard_difference(*error));
            smooth::best(work, kind, true, &errors.collect::<Vec<f64>>())?
        }
        Choice::Given(_) => Ok(linear::best(work, FeatureKind::Smooth(kind))?),
    };
    match curve {
        // What was not finished is not compared.
        _ if work.control.is_stopped() => Ok(lines),
        Ok(curve) => {
            let silent = [few_far_rows(work.dataset), work.dataset.copied_rows()].concat();
            Ok(choose_features(lines, curve, &silent))
        }
        Err(why_not) => Ok(with(lines, why_not)),
    }
}

/// Rows far from the others in their inputs have no say, since a curve can bend to any of them, and no row that has copies.
fn choose_features(lines: Best, curve: Best, silent: &[usize]) -> Best {
    let mut kept = curve.candidate.fit.kept();
    silent.iter().for_each(|&row| kept[row] = 0.0);
    let [line, bent] = [&lines, &curve].map(|best| best.candidate.fit.error_densities(&kept));
    let gains: Vec<f64> = bent
        .iter()
        .zip(&line)
        .zip(&kept)
        .filter(|(_, kept)| **kept > 0.0)
        .map(|((bent, line), _)| bent - line)
        .collect();
    let (gain, standard_error) = mean_and_error(&gains);
    let is_curve = gain > standard_error.max(LEAST_CURVE_GAIN);
    let reason = if is_curve {
        Reason::CurveGains { gain, standard_error }
    } else {
        Reason::CurveGainsTooLittle { gain, standard_error }
    };
    let place = if is_curve { lines.compared.len() + curve.place } else { lines.place };
    let reasons = [vec![reason], if is_curve { curve.reasons } else { lines.reasons }].concat();
    let candidate = if is_curve { curve.candidate } else { lines.candidate };
    Best { candidate, compared: [lines.compared, curve.compared].concat(), place, reasons }
}

/// The mean and its standard error.
fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let (n, mean) = (values.len() as f64, mean(values));
    let deviation = (values.iter().map(|own| (own - mean).powi(2)).sum::<f64>() / n).sqrt();
    (mean, deviation / n.sqrt())
}

/// Robust noise or shared noise.
struct NoiseChoice {
    /// Of robust noise, in nats per row, and the rows that it was found from, each as often as it counts.
    gain: f64,
    rows: f64,
    /// Whether large errors are a crowd of their own, which heavy tails are not.
    is_crowd: bool,
    /// What robust noise explains more of left-out rows than shared noise, and its standard error.
    explained: (f64, f64),
}

impl NoiseChoice {
    /// Whether the gain is more than two parameters, share and size of large errors, bring by chance (Schwarz's criterion).
    fn is_certain(&self) -> bool {
        self.gain * self.rows > self.rows.ln()
    }

    fn is_robust(&self) -> bool {
        let (more, standard_error) = self.explained;
        self.is_certain() && (self.is_crowd || more >= -standard_error)
    }

    fn why_shared(&self, noise: robustard_engine::Noise) -> Reason {
        if self.is_certain() {
            Reason::RobustNoisePredictsWorse { noise }
        } else {
            Reason::RobustNoiseGainsTooLittle { noise, gain: self.gain }
        }
    }
}

/// What one fit explains more of a target than another, per row, and the standard error of that, by the errors of left-out rows. Wrong
/// targets, whether exchanged, shifted or in another unit, make the best guess a multiple of what is right, plus a constant: a fit that
/// gives in to them has smaller errors. So both fits' predictions are first made the best guesses that they can be so.
fn explained_more(target: &[f64], weights: Option<&[f64]>, [own, other]: [&[f64]; 2]) -> (f64, f64) {
    let once = vec![1.0; target.len()];
    let weight = weights.unwrap_or(&once);
    let [own, other] = [own, other].map(|residual| squares_of_best_guess(target, weight, residual));
    let differences: Vec<f64> = own.iter().zip(&other).map(|(own, other)| other - own).collect();
    let more = weighted_mean(&differences, weight);
    let spread = weighted_mean(&differences.iter().map(|own| (own - more).powi(2)).collect::<Vec<f64>>(), weight);
    (more, (spread / weight.iter().sum::<f64>()).sqrt())
}

fn weighted_mean(values: &[f64], weight: &[f64]) -> f64 {
    values.iter().zip(weight).map(|(value, weight)| value * weight).sum::<f64>() / weight.iter().sum::<f64>()
}

/// Squared errors of the best guess a + bf at a target, b ≥ 0, where f is what was predicted.
fn squares_of_best_guess(target: &[f64], weight: &[f64], residual: &[f64]) -> Vec<f64> {
    let predicted: Vec<f64> = target.iter().zip(residual).map(|(y, r)| y - r).collect();
    let [y, f] = [target, &predicted].map(|values| weighted_mean(values, weight));
    let (mut ff, mut yf) = (0.0, 0.0);
    for ((target, predicted), weight) in target.iter().zip(&predicted).zip(weight) {
        let off = predicted - f;
        (ff, yf) = (ff + weight * off * off, yf + weight * off * (target - y));
    }
    let slope = if ff > 0.0 { (yf / ff).max(0.0) } else { 0.0 };
    target.iter().zip(&predicted).map(|(target, predicted)| (target - y - slope * (predicted - f)).powi(2)).collect()
}
