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
pub(crate) mod large;
mod linear;
mod reasons;
mod smooth;
mod transform;

use robustard_engine::math::order::median;
use robustard_engine::metrics::mean;
use robustard_engine::{LeftOut, Status};

use self::distance::few_far_rows;
pub use self::reasons::{Compared, Reason, Selection};
use crate::Error;
use crate::calibration::GROSS;
use crate::features::{FeatureKind, SmoothKind};
use crate::fitted::{Fit, error_densities};
use crate::recipe::Choice;
use crate::scaling::MEDIAN_TO_DEVIATION;
use crate::work::{Candidate, Work};

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
        target_transform: fit.design.target().transform(),
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
    if !work.far_targets.is_empty() {
        best.reasons.push(Reason::TypingErrorsSetAside { rows: work.far_targets.len() });
    }
    if work.control.is_stopped() {
        best.reasons.push(Reason::Interrupted);
    }
    if let Some((gain, standard_error)) = work.calibrate(&mut best.candidate.fit) {
        let [narrow, wide] = usual_range(best.candidate.fit.row_widths().unwrap_or_default());
        best.reasons.push(Reason::WidthsVary { narrow, wide, gain, standard_error });
    }
    best.compared[best.place] = Compared { chosen: true, ..describe(&best.candidate.fit) };
    let selection = Selection { compared: best.compared, reasons: best.reasons };
    Ok(Chosen { candidate: best.candidate, selection: Some(selection) })
}

/// The range of nine tenths of the values.
fn usual_range(values: &[f64]) -> [f64; 2] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1) as f64;
    [0.05, 0.95].map(|share| sorted.get((share * last).round() as usize).copied().unwrap_or(1.0))
}

/// The best of what the recipe leaves open.
fn best(work: &Work<'_>) -> Result<Best, Error> {
    let recipe = work.recipe;
    let is_open = recipe.features().is_auto() && recipe.noise().is_auto() && recipe.target_transform().is_auto();
    if is_open && recipe.intercept() { transform::best(work) } else { on_this_scale(work) }
}

/// The same with the target on the scale that it has.
fn on_this_scale(work: &Work<'_>) -> Result<Best, Error> {
    match work.recipe.features() {
        Choice::Given(FeatureKind::Smooth(kind)) if work.recipe.noise().is_auto() => smooth::best(work, kind),
        Choice::Given(kind) => linear::best(work, kind, linear::Care::Full),
        Choice::Auto => lines_or_curve(work),
    }
}

fn lines_or_curve(work: &Work<'_>) -> Result<Best, Error> {
    if work.recipe.noise().is_auto() {
        return finish(work, begin(work)?);
    }
    let [lines, curve] = [FeatureKind::linear(), FeatureKind::Smooth(SmoothKind::default())];
    let lines = linear::best(work, lines, linear::Care::Full)?;
    let rows = work.dataset.distinct_rows();
    if rows < LEAST_CURVE_ROWS || work.control.is_stopped() {
        let reasons = if work.control.is_stopped() { Vec::new() } else { vec![Reason::TooFewRowsForCurve { rows }] };
        return Ok(Best { reasons, ..lines });
    }
    let curve = linear::best(work, curve, linear::Care::Full)?;
    Ok(if work.control.is_stopped() {
        lines
    } else {
        better(work, lines, curve).unwrap_or_else(|(lines, compared, reason)| Best {
            compared: [lines.compared, compared].concat(),
            reasons: vec![reason],
            ..lines
        })
    })
}

/// Lines with plain noise, and sketches of a curve, or why there is none: what it takes to choose the target's scale.
struct Begun {
    lines: Best,
    curve: Result<smooth::Sketched, Reason>,
}

impl Begun {
    fn compared(&self, work: &Work<'_>) -> Vec<Compared> {
        let curve = self.curve.as_ref().map_or_else(|_| Vec::new(), |sketched| sketched.compared(work));
        [self.lines.compared.clone(), curve].concat()
    }
}

/// A curve has to be better than lines of plain noise; only if it is not, all of their noise models are compared.
fn begin(work: &Work<'_>) -> Result<Begun, Error> {
    let lines = linear::best(work, FeatureKind::linear(), linear::Care::Plain)?;
    let rows = work.dataset.distinct_rows();
    let curve = if work.control.is_stopped() {
        Err(Reason::Interrupted)
    } else if rows < LEAST_CURVE_ROWS {
        Err(Reason::TooFewRowsForCurve { rows })
    } else {
        smooth::sketch(work, SmoothKind::default(), true, &lines.candidate.fit.left_out().residual)?
    };
    Ok(Begun { lines, curve })
}

fn finish(work: &Work<'_>, Begun { lines, curve }: Begun) -> Result<Best, Error> {
    let fallen_back = |plain: Best, compared: Vec<Compared>, reason| {
        let full = linear::best(work, FeatureKind::linear(), linear::Care::Full)?;
        // What was not finished is not taken.
        let lines = if work.control.is_stopped() { plain } else { full };
        let compared = [lines.compared, compared].concat();
        Ok(Best { reasons: [vec![reason], lines.reasons].concat(), compared, ..lines })
    };
    if work.control.is_stopped() {
        return Ok(lines);
    }
    let learnt = match curve {
        Err(why_not) => return fallen_back(lines, Vec::new(), why_not),
        Ok(sketched) => smooth::learn(work, sketched)?,
    };
    // What was not finished is not compared.
    if work.control.is_stopped() {
        return Ok(lines);
    }
    // A curve that was learnt from some rows would gain a little from the others.
    let of_curve = Said { left_out: &learnt.learnt.left_out, inlier: learnt.learnt.start.noise.variance(0.0) };
    let gains = Gains::of(work, &lines.candidate.fit, of_curve, &learnt.set_aside);
    let more = if learnt.learnt.rows < work.dataset.row_count() { 2.0 * gains.standard_error } else { 0.0 };
    if !gains.is_curve(more) {
        return fallen_back(lines, learnt.compared, gains.reason(false));
    }
    let curve = smooth::fit(work, learnt)?;
    if work.control.is_stopped() {
        return Ok(lines);
    }
    better(work, lines, curve).or_else(|(lines, compared, reason)| fallen_back(lines, compared, reason))
}

/// A curve, if it is better than lines; else the lines again, with what they were compared to and why they are better.
#[allow(clippy::result_large_err)]
fn better(work: &Work<'_>, lines: Best, curve: Best) -> Result<Best, (Best, Vec<Compared>, Reason)> {
    let fit = &curve.candidate.fit;
    let of_curve = Said { left_out: &fit.left_out(), inlier: fit.model.inlier_variance() };
    let gains = Gains::of(work, &lines.candidate.fit, of_curve, &fit.set_aside);
    if !gains.is_curve(0.0) {
        return Err((lines, curve.compared, gains.reason(false)));
    }
    let place = lines.compared.len() + curve.place;
    let reasons = [vec![gains.reason(true)], curve.reasons].concat();
    Ok(Best { compared: [lines.compared, curve.compared].concat(), place, reasons, ..curve })
}

/// What a fit says of left-out rows.
struct Said<'a> {
    left_out: &'a LeftOut,
    inlier: f64,
}

/// What a curve gains on lines, in nats per left-out row.
struct Gains {
    gain: f64,
    standard_error: f64,
}

impl Gains {
    /// Rows far from the others in their inputs have no say, since a curve can bend to any of them, and no row that has copies.
    fn of(work: &Work<'_>, lines: &Fit, curve: Said<'_>, set_aside: &[usize]) -> Self {
        let silent = &[few_far_rows(work.dataset), work.dataset.copied_rows(), work.far_targets.clone()].concat();
        let least = work.least_variance();
        let mut kept = vec![1.0; curve.left_out.residual.len()];
        set_aside.iter().chain(silent).for_each(|&row| kept[row] = 0.0);
        let of_lines = Said { left_out: &lines.left_out(), inlier: lines.model.inlier_variance() };
        let [line, bent] = [of_lines, curve].map(|said| error_densities(said.left_out, &kept, said.inlier, least));
        let gains = bent.iter().zip(&line).zip(&kept).filter(|(_, kept)| **kept > 0.0);
        let (gain, standard_error) = mean_and_error(&gains.map(|((bent, line), _)| bent - line).collect::<Vec<f64>>());
        Self { gain, standard_error }
    }

    /// Whether a curve is worth it, if it gains so much more than is known.
    fn is_curve(&self, more: f64) -> bool {
        self.gain + more > self.standard_error.max(LEAST_CURVE_GAIN)
    }

    fn reason(&self, is_curve: bool) -> Reason {
        let Self { gain, standard_error } = *self;
        if is_curve {
            Reason::CurveGains { gain, standard_error }
        } else {
            Reason::CurveGainsTooLittle { gain, standard_error }
        }
    }
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

    /// Whether robust noise is better, and explains no less.
    fn explains_no_less(&self) -> bool {
        let (more, standard_error) = self.explained;
        self.is_certain() && more >= -standard_error
    }

    /// Whether robust noise is better and explains more, or sees a crowd: rows are set aside by it.
    fn explains_more(&self) -> bool {
        let (more, standard_error) = self.explained;
        self.is_certain() && (self.is_crowd || more > standard_error)
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
fn explained_more(target: &[f64], weight: &[f64], [own, other]: [&[f64]; 2]) -> (f64, f64) {
    let [own, other] = [own, other].map(|residual| squares_of_best_guess(target, weight, residual));
    let differences: Vec<f64> = own.iter().zip(&other).map(|(own, other)| other - own).collect();
    let more = weighted_mean(&differences, weight);
    let spread = weighted_mean(&differences.iter().map(|own| (own - more).powi(2)).collect::<Vec<f64>>(), weight);
    (more, (spread / weight.iter().sum::<f64>()).sqrt())
}

/// The same of all rows, or of those that do not have gross errors by both fits, which may drown what is explained of all others: whichever
/// speaks more for the first fit.
fn explained_more_of_some(target: &[f64], weight: &[f64], residuals: [&[f64]; 2]) -> (f64, f64) {
    let [own, other] = residuals.map(is_gross);
    let say = |row: usize| if own[row] && other[row] { 0.0 } else { weight[row] };
    let of_some: Vec<f64> = (0..weight.len()).map(say).collect();
    let [all, some] = [weight, &of_some].map(|weight| explained_more(target, weight, residuals));
    let certainty = |(more, standard_error): (f64, f64)| more / standard_error.max(f64::MIN_POSITIVE);
    if certainty(some) > certainty(all) { some } else { all }
}

/// Whether errors are gross; half of the rows say what is usual.
fn is_gross(errors: &[f64]) -> Vec<bool> {
    let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    let limit = GROSS * MEDIAN_TO_DEVIATION * median(&sizes);
    sizes.iter().map(|size| *size > limit).collect()
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
