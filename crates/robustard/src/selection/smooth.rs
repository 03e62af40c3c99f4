//! A smooth curve: its noise is chosen while lengthscales are learnt, so that only one fit to all rows is needed.

use robustard_engine::math::order::median;
use robustard_engine::{BaseNoise, Degrees, Noise, Settings};

use super::large::BEYOND_ALL;
use super::linear::worse_half;
use super::{
    Best, Compared, MEDIAN_TO_DEVIATION, NoiseChoice, Reason, describe, explained_more, explained_more_of_some,
    mean_and_error, weighted_mean,
};
use crate::Error;
use crate::calibration::GROSS;
use crate::features::{FeatureError, FeatureKind, LearntSmooth, SmoothKind, SmoothOptions};
use crate::learn::{Effort, Relevance, SKETCH_ROWS, Shape};
use crate::work::Work;

/// Robust standard deviations between which errors begin to be gross at first sight, of a curve and of lines.
const GROSS_AT_FIRST: [f64; 2] = [4.0, 30.0];
const GROSS_FOR_LINES: [f64; 2] = [1.5, 30.0];
/// Share of the rows that have to stand apart from lines to be a start of their own.
const SUSPECTS: std::ops::Range<f64> = 0.03..0.45;
/// With fewer rows of a sketch for each lengthscale (two per input), a glance at all rows is taken to guess them.
const ROWS_PER_LENGTHSCALE: usize = 10;
/// Standard errors by which inputs as a glance at all rows shows them have to be better than inputs that are all alike.
const CLEARLY_BETTER: f64 = 2.0;
/// Standard errors by which a rough curve may be worse in a sketch for more rows to be asked: beyond, they would not change that.
const HOPELESS: f64 = 4.0;
/// How often the rows set aside are looked at again.
const PASSES: usize = 2;
/// Standard deviations within which a row is not wrong: those of a 95% interval.
const WITHIN: f64 = 1.96;
/// A curve is learnt again when more than this share of the rows has been set aside or taken back since.
const MANY_CHANGED: f64 = 0.03;
/// Relative change of precisions and noise from which on a fit of a curve, which begins where learning has ended, has converged, the first
/// time.
const CURVE_TOLERANCE: f64 = 1e-2;

/// A curve that was learnt, to be fitted to all rows.
pub(super) struct Learnt {
    pub learnt: LearntSmooth,
    pub set_aside: Vec<usize>,
    pub compared: Vec<Compared>,
    kind: SmoothKind,
    reasons: Vec<Reason>,
}

/// Sketches of a curve with noise that has wrong rows and without, to be learnt whole.
pub(super) struct Sketched {
    robust: LearntSmooth,
    shared: LearntSmooth,
    choice: NoiseChoice,
    kind: SmoothKind,
    /// What a glance at all rows shows of the inputs, if it helps.
    relevance: Option<Relevance>,
    is_two_valued: bool,
}

impl Sketched {
    /// Whether some rows are wrong.
    fn has_wrong_rows(&self) -> bool {
        self.choice.explains_more() && !self.is_two_valued
    }

    /// The sketch with the noise that is chosen, and the rows that are wrong for it.
    pub fn chosen(&self) -> (&LearntSmooth, Vec<usize>) {
        if !self.has_wrong_rows() {
            return (&self.shared, Vec::new());
        }
        (&self.robust, likely_wrong(&self.robust, &gross_at_first(&errors_in_deviations(&self.robust))))
    }

    pub fn compared(&self, work: &Work<'_>) -> Vec<Compared> {
        let sketches = [(&self.robust, Noise::Contaminated), (&self.shared, Noise::Shared)];
        sketches.map(|(learnt, noise)| describe_sketch(work, self.kind, learnt, noise)).to_vec()
    }
}

/// The best smooth fit.
pub(super) fn best(work: &Work<'_>, kind: SmoothKind) -> Result<Best, Error> {
    let sketched = sketch(work, kind, false, &[])?.map_err(|_| FeatureError::NotLearnt)?;
    fit(work, learn(work, sketched)?)
}

/// Fits a learnt curve to all rows.
pub(super) fn fit(work: &Work<'_>, learnt: Learnt) -> Result<Best, Error> {
    let Learnt { learnt, set_aside, mut compared, kind, reasons } = learnt;
    let given = work.recipe.settings().clone().with_shared_noise();
    let is_usual = given.tolerance == Settings::default().tolerance;
    let (tolerance, patience) = if is_usual { (CURVE_TOLERANCE, 1) } else { (given.tolerance, given.patience) };
    let [low, high] = given.noise_variance_bounds;
    let least = work.least_variance();
    let noise_variance_bounds = [if least < high { low.max(least) } else { low }, high];
    let initial_noise_variance = given.initial_noise_variance.max(noise_variance_bounds[0]);
    let settings = Settings {
        base_noise: BaseNoise::LeftOut,
        tolerance,
        patience,
        noise_variance_bounds,
        initial_noise_variance,
        ..given
    };
    let learning = work.smooth(kind, &learnt)?;
    drop(learnt);
    let candidate = work.fit(FeatureKind::Smooth(kind), learning, &settings, set_aside)?;
    compared.push(describe(&candidate.fit));
    Ok(Best { candidate, place: compared.len() - 1, compared, reasons })
}

/// Sketches a curve, beside lines with the given errors if there are any; if it only has to be there when the table bends, possibly why
/// there is none.
pub(super) fn sketch(
    work: &Work<'_>,
    kind: SmoothKind,
    must_bend: bool,
    line_errors: &[f64],
) -> Result<Result<Sketched, Reason>, Error> {
    let [contaminated, shared_noise] = [Noise::Contaminated, Noise::Shared];
    let is_crowded = ROWS_PER_LENGTHSCALE * 2 * work.dataset.input_count() > SKETCH_ROWS.min(work.dataset.row_count());
    let screened = (is_crowded && !line_errors.is_empty()).then(|| work.relevance(line_errors));
    let screened = screened.filter(Relevance::is_telling);
    let line_errors: Vec<f64> = line_errors.iter().map(|error| error.abs()).collect();
    let learn_about = |relevance, noise, set_aside: &[usize], effort, from: Option<&LearntSmooth>, must_bend| {
        work.learn_smooth(
            &SmoothOptions { must_bend, effort, from, relevance, start: None, shape: None },
            noise,
            set_aside,
        )
    };
    // Two guesses about the inputs: all alike, and what a glance at all rows shows. Rows that neither has seen decide.
    let first = |noise, set_aside: &[usize], must_bend| {
        let usual = learn_about(None, noise, set_aside, Effort::Sketch, None, must_bend);
        let Some(screened) = &screened else { return (usual, None) };
        let other = learn_about(Some(screened), noise, set_aside, Effort::Sketch, None, must_bend);
        match (&usual, &other) {
            (Ok(usual_learnt), Ok(other_learnt)) => {
                if is_clearly_better(other_learnt, usual_learnt) {
                    (other, Some(screened))
                } else {
                    (usual, None)
                }
            }
            (Err(_), Ok(_)) => (other, Some(screened)),
            _ => (usual, None),
        }
    };
    // Noise with outliers has many optima. Wrong rows that lines tell apart are another start.
    let suspects = suspects(&line_errors);
    let (sketch, relevance) = match first(contaminated, &[], must_bend) {
        (Err(Error::Features(FeatureError::Straight { .. })), _) if !suspects.is_empty() => {
            first(contaminated, &[], false)
        }
        // Where many rows share a target, noise with outliers may take all others for wrong.
        (Err(Error::Features(FeatureError::Straight { .. })), _) => first(shared_noise, &[], must_bend),
        sketch => sketch,
    };
    let is_better_seen_from_more = |one: &LearntSmooth, other: &LearntSmooth, noise| -> Result<bool, Error> {
        if one.rows == work.dataset.row_count() {
            return Ok(false);
        }
        let review = |learnt: &LearntSmooth| {
            let options = SmoothOptions { effort: Effort::Review, from: Some(learnt), ..Default::default() };
            work.learn_smooth(&options, noise, &[])
        };
        let (gain, standard_error) = gain_on(&review(one)?, &review(other)?, LearntSmooth::left_out_densities);
        Ok(gain > CLEARLY_BETTER * standard_error)
    };
    // Smooth functions need fewer rows, if they are what is there; values that mean different things need functions that are not smooth.
    let sketch = sketch.and_then(|usual| {
        let noise = if usual.start.noise.is_shared() { shared_noise } else { contaminated };
        for shape in [Shape::Gauss, Shape::Laplace] {
            let options = SmoothOptions { from: Some(&usual), relevance, shape: Some(shape), ..Default::default() };
            let other = work.learn_smooth(&options, noise, &[])?;
            let (gain, standard_error) = gain_on(&other, &usual, LearntSmooth::held_out_densities);
            // A rough curve follows the nearest rows, which are nearer in the whole table than in a sketch.
            let is_open = shape == Shape::Laplace && gain > -HOPELESS * standard_error;
            if gain > CLEARLY_BETTER * standard_error || is_open && is_better_seen_from_more(&other, &usual, noise)? {
                return Ok(other);
            }
        }
        Ok(usual)
    });
    let shape = sketch.as_ref().ok().map(LearntSmooth::shape);
    let learn = |noise, set_aside: &[usize], effort, from: Option<&LearntSmooth>| {
        let must_bend = must_bend && from.is_none();
        work.learn_smooth(&SmoothOptions { must_bend, effort, from, relevance, shape, start: None }, noise, set_aside)
    };
    let trimmed = (!suspects.is_empty()).then(|| learn(shared_noise, &suspects, Effort::Sketch, None));
    let trimmed = trimmed.and_then(Result::ok);
    let mut robust = match sketch {
        Ok(learnt) => learnt,
        Err(Error::Features(FeatureError::Straight { gain, rows })) => {
            return Ok(Err(Reason::CurveExplainsNoMore { gain, rows }));
        }
        Err(Error::Features(FeatureError::NotLearnt)) if must_bend => return Ok(Err(Reason::NoCurveLearnt)),
        Err(error) => return Err(error),
    };
    // There are lines already: a curve that is cut short is not worth fitting. One that was asked for is what there is.
    let is_stopped = || work.control.is_stopped();
    if must_bend && is_stopped() {
        return Ok(Err(Reason::Interrupted));
    }
    let shared = if robust.start.noise.is_shared() {
        let shared = robust;
        robust = learn(contaminated, &[], Effort::Sketch, Some(&shared))?;
        shared
    } else {
        learn(shared_noise, &[], Effort::Sketch, Some(&robust))?
    };
    let mut choice = compare(work, &robust, &shared);
    if !choice.explains_more() && !is_stopped() {
        let other = match &trimmed {
            Some(trimmed) => learn(contaminated, &[], Effort::Sketch, Some(trimmed))?,
            None => {
                // Or the half of the rows that fits better.
                let half = worse_half(&errors_in_deviations(&shared));
                let trimmed = learn(shared_noise, &half, Effort::Settle, Some(&shared))?;
                learn(contaminated, &[], Effort::Settle, Some(&trimmed))?
            }
        };
        if other.evidence > robust.evidence {
            robust = other;
            choice = compare(work, &robust, &shared);
        }
    }
    let (relevance, is_two_valued) = (relevance.cloned(), work.dataset.target_has_two_values());
    Ok(Ok(Sketched { robust, shared, choice, kind, relevance, is_two_valued }))
}

/// Whether rows that were not learnt from are explained better by one sketch than by another, beyond doubt.
fn is_clearly_better(one: &LearntSmooth, other: &LearntSmooth) -> bool {
    let (gain, standard_error) = gain_on(one, other, LearntSmooth::held_out_densities);
    gain > CLEARLY_BETTER * standard_error
}

/// By how much densities of some rows are better by one sketch than by another, and the standard error of that.
fn gain_on(one: &LearntSmooth, other: &LearntSmooth, densities: impl Fn(&LearntSmooth) -> Vec<f64>) -> (f64, f64) {
    let both = densities(one).into_iter().zip(densities(other));
    mean_and_error(&both.map(|(one, other)| one - other).collect::<Vec<f64>>())
}

/// Learns a curve that was sketched, without the rows that are wrong.
pub(super) fn learn(work: &Work<'_>, sketched: Sketched) -> Result<Learnt, Error> {
    let (has_wrong_rows, compared) = (sketched.has_wrong_rows(), sketched.compared(work));
    let Sketched { robust, shared, mut choice, kind, relevance, is_two_valued } = sketched;
    let is_stopped = || work.control.is_stopped();
    if is_stopped() {
        return Ok(Learnt { learnt: shared, set_aside: Vec::new(), compared, kind, reasons: Vec::new() });
    }
    let learn = |noise, set_aside: &[usize], effort, from: &LearntSmooth| {
        let relevance = relevance.as_ref();
        let options = SmoothOptions { effort, from: Some(from), relevance, ..Default::default() };
        work.learn_smooth(&options, noise, set_aside)
    };
    let mut collapsed = false;
    if has_wrong_rows {
        let (learnt, set_aside) = set_wrong_rows_aside(work, &robust, is_stopped, learn)?;
        let (learnt, set_aside) = contradicted(learnt, set_aside, learn)?;
        let is_possible = set_aside.len() <= work.dataset.most_wrong_rows();
        let residuals = [&learnt, &shared].map(|learnt| learnt.left_out.residual.as_slice());
        let (more, standard_error) = explained_more_of_some(work.standard_target(), &work.say(), residuals);
        // Setting rows aside can lead to a curve for which more and more rows are wrong.
        if is_possible && more >= -standard_error {
            let reason = match set_aside.len() {
                0 => Reason::NoErrorStandsApart,
                rows => {
                    let limit = least_set_aside(&learnt, &set_aside);
                    Reason::GrossErrorsSetAside { rows, limit, gain: choice.gain }
                }
            };
            return Ok(Learnt { learnt, set_aside, compared, kind, reasons: vec![reason] });
        }
        choice.explained = (more, standard_error);
        collapsed = !is_possible;
    }
    let learnt = learn(Noise::Shared, &[], Effort::Whole, &shared)?;
    let set_aside = learnt.rare_errors(BEYOND_ALL, &work.far_targets);
    let rare = (!set_aside.is_empty()).then_some(Reason::RareErrorsSetAside { rows: set_aside.len() });
    let why = if is_two_valued || collapsed { Reason::FewTargetValues } else { choice.why_shared(Noise::Contaminated) };
    let reasons = [why].into_iter().chain(rare).collect();
    Ok(Learnt { learnt, set_aside, compared, kind, reasons })
}

/// Log densities of all rows, those that the curve was learnt from without themselves.
fn densities(learnt: &LearntSmooth) -> Vec<f64> {
    let inlier = learnt.start.noise.variance(0.0);
    let errors = learnt.left_out.residual.iter().zip(&learnt.left_out.latent_variance);
    errors.map(|(r, q)| learnt.start.noise.log_density(*r, *q, inlier)).collect()
}

fn compare(work: &Work<'_>, robust: &LearntSmooth, shared: &LearntSmooth) -> NoiseChoice {
    let gains: Vec<f64> =
        densities(robust).iter().zip(densities(shared)).map(|(robust, shared)| robust - shared).collect();
    let say = work.say();
    NoiseChoice {
        gain: weighted_mean(&gains, &say),
        rows: say.iter().sum(),
        is_crowd: Gap::widest(&errors_in_deviations(robust), GROSS_AT_FIRST).has_crowd_beyond(),
        explained: explained_more_of_some(
            work.standard_target(),
            &say,
            [&robust.left_out.residual, &shared.left_out.residual],
        ),
    }
}

fn describe_sketch(work: &Work<'_>, kind: SmoothKind, learnt: &LearntSmooth, noise: Noise) -> Compared {
    let (scale, say) = (work.scale(), work.say());
    let errors = work.standard_target().iter().zip(&learnt.left_out.residual);
    let squares: Vec<f64> = errors.map(|(y, residual)| scale.error(*y, *residual).powi(2)).collect();
    Compared {
        features: FeatureKind::Smooth(kind),
        learnt_from: Some(learnt.rows),
        noise,
        target_transform: scale.transform(),
        set_aside: 0,
        bound: scale.log_density(learnt.evidence, 1.0),
        loo_rmse: weighted_mean(&squares, &say).sqrt(),
        loo_log_density: scale.log_density(weighted_mean(&densities(learnt), &say), 1.0),
        chosen: false,
    }
}

/// Learns the curve without the rows that are wrong by their left-out errors: those with gross errors, and then, if predictions explain
/// no less without them, those that are more likely wrong than right.
fn set_wrong_rows_aside(
    work: &Work<'_>,
    robust: &LearntSmooth,
    is_stopped: impl Fn() -> bool,
    learn: impl Fn(Noise, &[usize], Effort, &LearntSmooth) -> Result<LearntSmooth, Error>,
) -> Result<(LearntSmooth, Vec<usize>), Error> {
    let (target, least_variance) = (work.standard_target(), work.least_variance());
    let first = gross_at_first(&errors_in_deviations(robust));
    let mut learnt = learn(Noise::Shared, &first, Effort::Whole, robust)?;
    let mut gross = first.clone();
    // Until the rows stay the same.
    for _ in 0..PASSES {
        let least = least_variance / learnt.start.noise.variance(0.0);
        let found = gross_errors(&errors_in_deviations(&learnt), &gross, least);
        if found == gross || is_stopped() {
            break;
        }
        gross = found;
        learnt = learn(Noise::Shared, &gross, Effort::Settle, &learnt)?;
    }
    // The others may have been of two populations, beside tails of any weight.
    let mixed = learn(Noise::ContaminatedT(Degrees::Learned), &gross, Effort::Settle, &learnt)?;
    let likely = likely_wrong(&mixed, &gross);
    let other = learn(Noise::Shared, &likely, Effort::Settle, &learnt)?;
    // Gross errors would drown what is lost elsewhere.
    let mut say = work.say();
    gross.iter().for_each(|&row| say[row] = 0.0);
    let residuals = [&other, &learnt].map(|learnt| learnt.left_out.residual.as_slice());
    let is_better = explained_more(target, &say, residuals).0 >= 0.0;
    let (learnt, set_aside) = if is_better { (other, likely) } else { (learnt, gross) };
    if changes(&first, &set_aside) as f64 > MANY_CHANGED * target.len() as f64 && !is_stopped() {
        return Ok((learn(Noise::Shared, &set_aside, Effort::Whole, &learnt)?, set_aside));
    }
    Ok((learnt, set_aside))
}

/// The same without the rows set aside that the others do not contradict, now that these are known.
fn contradicted(
    learnt: LearntSmooth,
    set_aside: Vec<usize>,
    learn: impl Fn(Noise, &[usize], Effort, &LearntSmooth) -> Result<LearntSmooth, Error>,
) -> Result<(LearntSmooth, Vec<usize>), Error> {
    let errors = errors_in_deviations(&learnt);
    let limit = WITHIN * kept_variance(&errors, &set_aside).sqrt();
    let wrong: Vec<usize> = set_aside.iter().copied().filter(|&row| errors[row] > limit).collect();
    if wrong.len() == set_aside.len() {
        return Ok((learnt, set_aside));
    }
    Ok((learn(Noise::Shared, &wrong, Effort::Settle, &learnt)?, wrong))
}

/// How many rows are in one of two ordered lists only.
fn changes(one: &[usize], other: &[usize]) -> usize {
    let missing =
        |from: &[usize], in_list: &[usize]| from.iter().filter(|row| in_list.binary_search(row).is_err()).count();
    missing(one, other) + missing(other, one)
}

/// The smallest error among the rows set aside, in standard deviations of the rows kept.
fn least_set_aside(learnt: &LearntSmooth, set_aside: &[usize]) -> f64 {
    let errors = errors_in_deviations(learnt);
    let least = set_aside.iter().map(|&row| errors[row]).fold(f64::INFINITY, f64::min);
    least / kept_variance(&errors, set_aside).sqrt()
}

/// The variance of errors of the rows kept so far.
fn kept_variance(errors: &[f64], set_aside: &[usize]) -> f64 {
    let mut kept = errors.to_vec();
    set_aside.iter().for_each(|&row| kept[row] = 0.0);
    kept.iter().map(|error| error * error).sum::<f64>() / (errors.len() - set_aside.len()) as f64
}

/// The rows whose errors are gross by the standard deviation of the rows kept so far.
fn gross_errors(errors: &[f64], set_aside: &[usize], least_variance: f64) -> Vec<usize> {
    beyond(errors, GROSS * kept_variance(errors, set_aside).max(least_variance).sqrt())
}

/// Gross errors, and of the others those that are more likely of another population than of Student-t noise.
fn likely_wrong(mixed: &LearntSmooth, gross: &[usize]) -> Vec<usize> {
    let (noise, inlier) = (mixed.start.noise, mixed.start.noise.variance(0.0));
    let errors = errors_in_deviations(mixed);
    let is_likely = |error: f64| noise.outlier_probability(inlier * error * error).is_some_and(|p| p > 0.5);
    (0..errors.len()).filter(|row| gross.binary_search(row).is_ok() || is_likely(errors[*row])).collect()
}

fn beyond(errors: &[f64], limit: f64) -> Vec<usize> {
    (0..errors.len()).filter(|&row| errors[row] > limit).collect()
}

/// The rows whose errors stand apart.
fn gross_at_first(errors: &[f64]) -> Vec<usize> {
    let gap = Gap::widest(errors, GROSS_AT_FIRST);
    beyond(errors, gap.limit)
}

/// The rows whose errors stand apart from lines, if they are a crowd of their own.
fn suspects(line_errors: &[f64]) -> Vec<usize> {
    if line_errors.is_empty() {
        return Vec::new();
    }
    let gap = Gap::widest(line_errors, GROSS_FOR_LINES);
    let found = if gap.has_crowd_beyond() { beyond(line_errors, gap.limit) } else { Vec::new() };
    let share = found.len() as f64 / line_errors.len() as f64;
    if SUSPECTS.contains(&share) { found } else { Vec::new() }
}

/// Where fewest errors are.
struct Gap {
    limit: f64,
    /// Errors near the limit, and most of them near any limit beyond.
    near: usize,
    crowd: usize,
}

impl Gap {
    /// In a range of robust standard deviations, with at least half of all large errors beyond: ordinary errors get rarer with
    /// size, gross ones come in a crowd of their own.
    fn widest(errors: &[f64], [low, high]: [f64; 2]) -> Self {
        const STEPS: i32 = 40;
        /// Errors within this share of a limit are counted.
        const NEAR: f64 = 0.2;
        let unit = (MEDIAN_TO_DEVIATION * median(errors)).max(f64::MIN_POSITIVE);
        let near = |limit: f64| errors.iter().filter(|e| (*e / unit - limit).abs() < NEAR * limit).count();
        let beyond = |limit: f64| errors.iter().filter(|e| *e / unit > limit).count();
        let limits = (0..=STEPS).map(|step| low * (high / low).powf(f64::from(step) / f64::from(STEPS)));
        let counts: Vec<(f64, usize)> = limits.map(|limit| (limit, near(limit))).collect();
        let large = beyond(low);
        let many_beyond = counts.iter().filter(|(limit, _)| 2 * beyond(*limit) >= large);
        // The last of equals: in doubt an error is not gross.
        let &(limit, fewest) = many_beyond.rev().min_by_key(|(_, near)| *near).unwrap_or(&counts[0]);
        let crowd = counts.iter().filter(|(other, _)| *other > limit).map(|(_, near)| *near).max().unwrap_or(0);
        Self { limit: unit * limit, near: fewest, crowd }
    }

    /// Whether there are more errors somewhere beyond, and not by chance.
    fn has_crowd_beyond(&self) -> bool {
        self.crowd as f64 > self.near as f64 + 3.0 * (self.near as f64).sqrt()
    }
}

/// Errors of left-out rows, in standard deviations given what the curve knows there.
fn errors_in_deviations(learnt: &LearntSmooth) -> Vec<f64> {
    let noise = learnt.start.noise.variance(0.0);
    let errors = learnt.left_out.residual.iter().zip(&learnt.left_out.latent_variance);
    errors.map(|(residual, latent)| residual.abs() / (noise + latent).sqrt()).collect()
}
