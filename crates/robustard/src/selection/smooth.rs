//! A smooth curve: its noise is chosen while lengthscales are learnt, so that only one fit to all rows is needed.

use robustard_engine::math::order::median;
use robustard_engine::metrics::{mean, rmse};
use robustard_engine::noise::NoiseModel;
use robustard_engine::{BaseNoise, Degrees, Noise, Settings};

use super::large::BEYOND_ALL;
use super::linear::worse_half;
use super::{
    Best, CLEAR_GAIN, Compared, MEDIAN_TO_DEVIATION, NoiseChoice, Reason, describe, explained_more, mean_and_error,
};
use crate::Error;
use crate::design::TargetScale;
use crate::features::{FeatureError, FeatureKind, LearntSmooth, SmoothKind, SmoothOptions};
use crate::learn::{Effort, Relevance, SKETCH_ROWS};
use crate::work::Work;

/// Robust standard deviations between which errors begin to be gross at first sight, of a curve and of lines.
const GROSS_AT_FIRST: [f64; 2] = [4.0, 30.0];
const GROSS_FOR_LINES: [f64; 2] = [1.5, 30.0];
/// Standard deviations of the rows kept beyond which it is gross.
const GROSS: f64 = 4.0;
/// Share of the rows that have to stand apart from lines to be a start of their own.
const SUSPECTS: std::ops::Range<f64> = 0.03..0.45;
/// With fewer rows of a sketch for each lengthscale (two per input), a glance at all rows is taken to guess them.
const ROWS_PER_LENGTHSCALE: usize = 10;
/// Standard errors by which inputs as a glance at all rows shows them have to be better than inputs that are all alike.
const CLEARLY_BETTER: f64 = 2.0;
/// How often the rows set aside are looked at again.
const PASSES: usize = 4;

/// The best smooth fit; if it only has to be there when the table bends, possibly why there is none.
pub(super) fn best(
    work: &Work<'_>,
    kind: SmoothKind,
    must_bend: bool,
    line_errors: &[f64],
) -> Result<Result<Best, Reason>, Error> {
    let [contaminated, shared_noise] = [Noise::Contaminated, Noise::Shared];
    let is_crowded = ROWS_PER_LENGTHSCALE * 2 * work.dataset.input_count() > SKETCH_ROWS.min(work.dataset.row_count());
    let screened = (is_crowded && !line_errors.is_empty()).then(|| work.relevance(line_errors));
    let screened = screened.filter(Relevance::is_telling);
    let line_errors: Vec<f64> = line_errors.iter().map(|error| error.abs()).collect();
    let is_lumpy = work.dataset.target_is_lumpy();
    let robust_noise = if is_lumpy { shared_noise } else { contaminated };
    let learn_about = |relevance, noise, set_aside: &[usize], effort, from: Option<&LearntSmooth>, must_bend| {
        work.learn_smooth(&SmoothOptions { kind, must_bend, effort, from, relevance }, noise, set_aside)
    };
    // Two guesses about the inputs: all alike, and what a glance at all rows shows. Rows that neither has seen decide.
    let first = |noise, set_aside: &[usize], must_bend| {
        let usual = learn_about(None, noise, set_aside, Effort::Sketch, None, must_bend);
        let Some(screened) = &screened else { return (usual, None) };
        let other = learn_about(Some(screened), noise, set_aside, Effort::Sketch, None, must_bend);
        match (&usual, &other) {
            (Ok(usual_learnt), Ok(other_learnt)) => {
                let densities = usual_learnt.held_out_densities().into_iter().zip(other_learnt.held_out_densities());
                let gains: Vec<f64> = densities.map(|(usual, other)| other - usual).collect();
                let (gain, standard_error) = mean_and_error(&gains);
                if gain > CLEARLY_BETTER * standard_error { (other, Some(screened)) } else { (usual, None) }
            }
            (Err(_), Ok(_)) => (other, Some(screened)),
            _ => (usual, None),
        }
    };
    // Noise with outliers has many optima. Wrong rows that lines tell apart are another start.
    let suspects = suspects(&line_errors);
    let (sketch, relevance) = match first(robust_noise, &[], must_bend) {
        (Err(Error::Features(FeatureError::Straight { .. })), _) if !suspects.is_empty() => {
            first(robust_noise, &[], false)
        }
        sketch => sketch,
    };
    let learn = |noise, set_aside: &[usize], effort, from: Option<&LearntSmooth>| {
        learn_about(relevance, noise, set_aside, effort, from, must_bend && from.is_none())
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
    let fit = |learnt: LearntSmooth, set_aside| {
        let given = work.recipe.settings().clone().with_shared_noise();
        let settings = Settings { base_noise: BaseNoise::LeftOut, ..given };
        let learning = work.smooth(learnt.map, learnt.start);
        work.fit(FeatureKind::Smooth(kind), learning, &settings, set_aside)
    };
    let cut_short = |learnt| {
        if must_bend {
            return Ok(Err(Reason::Interrupted));
        }
        Ok(Ok(Best::only(fit(learnt, Vec::new())?, Vec::new())))
    };
    if is_lumpy {
        let learnt = learn(shared_noise, &[], Effort::Whole, Some(&robust))?;
        return Ok(Ok(Best::only(fit(learnt, Vec::new())?, vec![Reason::FewTargetValues])));
    }
    let mut learnt = learn(shared_noise, &[], Effort::Sketch, Some(&robust))?;
    if is_stopped() {
        return cut_short(learnt);
    }
    let compare = |robust: &LearntSmooth, shared: &LearntSmooth| NoiseChoice {
        gain: robust.evidence - shared.evidence,
        rows: shared.rows as f64,
        is_crowd: Gap::widest(&errors_in_deviations(robust), GROSS_AT_FIRST).has_crowd_beyond(),
        explained: explained_more(
            work.standard_target(),
            work.dataset.weights(),
            [&robust.left_out.residual, &shared.left_out.residual],
        ),
    };
    let first_choice = compare(&robust, &learnt);
    let is_clear = first_choice.gain > CLEAR_GAIN && first_choice.is_robust();
    if !is_clear {
        robust = learn(contaminated, &[], Effort::Whole, Some(&robust))?;
        learnt = learn(shared_noise, &[], Effort::Whole, Some(&learnt))?;
        if is_stopped() {
            return cut_short(learnt);
        }
        if !compare(&robust, &learnt).is_robust() {
            let other = match &trimmed {
                Some(trimmed) => learn(contaminated, &[], Effort::Whole, Some(trimmed))?,
                None => {
                    // Or the half of the rows that fits better.
                    let half = worse_half(&errors_in_deviations(&learnt));
                    let trimmed = learn(shared_noise, &half, Effort::Settle, Some(&learnt))?;
                    learn(contaminated, &[], Effort::Settle, Some(&trimmed))?
                }
            };
            if other.evidence > robust.evidence {
                robust = other;
            }
        }
    }
    if is_stopped() {
        return cut_short(learnt);
    }
    let choice = compare(&robust, &learnt);
    let gain = choice.gain;
    let zeros = vec![0.0; work.dataset.row_count()];
    let error = |learnt: &LearntSmooth| rmse(&learnt.left_out.residual, &zeros);
    let mut compared = [(&robust, contaminated), (&learnt, shared_noise)]
        .map(|(learnt, noise)| describe_sketch(kind, learnt, noise, work.scale(), error(learnt)))
        .to_vec();
    let (set_aside, reasons) = if choice.is_robust() {
        let set_aside;
        let whole = learn(contaminated, &[], Effort::Whole, Some(&robust))?;
        let learn =
            |set_aside: &[usize], effort, from: &LearntSmooth| learn(shared_noise, set_aside, effort, Some(from));
        (learnt, set_aside) = set_wrong_rows_aside(whole, work.standard_target(), is_stopped, learn)?;
        let reason = match set_aside.len() {
            0 => Reason::NoErrorStandsApart,
            rows => Reason::GrossErrorsSetAside { rows, limit: least_set_aside(&learnt, &set_aside), gain },
        };
        (set_aside, vec![reason])
    } else {
        if is_clear {
            learnt = learn(shared_noise, &[], Effort::Whole, Some(&learnt))?;
        }
        let rare = learnt.rare_errors(BEYOND_ALL);
        let found = (!rare.is_empty()).then_some(Reason::RareErrorsSetAside { rows: rare.len() });
        (rare, [choice.why_shared(contaminated)].into_iter().chain(found).collect())
    };
    let candidate = fit(learnt, set_aside)?;
    compared.push(describe(&candidate.fit));
    Ok(Ok(Best { candidate, place: compared.len() - 1, compared, reasons }))
}

fn describe_sketch(kind: SmoothKind, learnt: &LearntSmooth, noise: Noise, scale: TargetScale, error: f64) -> Compared {
    let inlier = learnt.start.noise.variance(0.0);
    let errors = learnt.left_out.residual.iter().zip(&learnt.left_out.latent_variance);
    let densities: Vec<f64> = errors.map(|(r, q)| learnt.start.noise.log_density(*r, *q, inlier)).collect();
    Compared {
        features: FeatureKind::Smooth(kind),
        learnt_from: Some(learnt.rows),
        noise,
        set_aside: 0,
        bound: scale.log_density(learnt.evidence, 1.0),
        loo_rmse: scale.difference(error),
        loo_log_density: scale.log_density(mean(&densities), 1.0),
        chosen: false,
    }
}

/// Learns the curve without the rows that are wrong by their left-out errors: those with gross errors, and then, if predictions explain
/// no less without them, those that are more likely wrong than right.
fn set_wrong_rows_aside(
    robust: LearntSmooth,
    target: &[f64],
    is_stopped: impl Fn() -> bool,
    learn: impl Fn(&[usize], Effort, &LearntSmooth) -> Result<LearntSmooth, Error>,
) -> Result<(LearntSmooth, Vec<usize>), Error> {
    // Until the rows stay the same.
    let settle = |mut learnt: LearntSmooth, mut set_aside: Vec<usize>, find: fn(&[f64], &[usize]) -> Vec<usize>| {
        for _ in 0..PASSES {
            learnt = learn(&set_aside, Effort::Settle, &learnt)?;
            if is_stopped() {
                return Ok((learnt, set_aside));
            }
            let found = find(&errors_in_deviations(&learnt), &set_aside);
            if std::mem::replace(&mut set_aside, found.clone()) == found {
                break;
            }
        }
        learnt = learn(&set_aside, Effort::Whole, &learnt)?;
        let found = find(&errors_in_deviations(&learnt), &set_aside);
        if found != set_aside {
            learnt = learn(&found, Effort::Settle, &learnt)?;
        }
        Ok::<_, Error>((learnt, found))
    };
    let first = gross_at_first(&errors_in_deviations(&robust));
    let (learnt, gross) = settle(robust, first, gross_errors)?;
    let likely = likely_wrong(&errors_in_deviations(&learnt), &gross);
    if likely == gross || is_stopped() {
        return Ok((learnt, gross));
    }
    let (other, likely) = settle(learnt.clone(), likely, likely_wrong)?;
    // Gross errors would drown what is lost elsewhere.
    let others = |values: &[f64]| -> Vec<f64> {
        let mut is_gross = vec![false; values.len()];
        gross.iter().for_each(|&row| is_gross[row] = true);
        values.iter().zip(is_gross).filter(|(_, is_gross)| !is_gross).map(|(value, _)| *value).collect()
    };
    let target = others(target);
    let [before, after] = [&learnt, &other].map(|learnt| others(&learnt.left_out.residual));
    Ok(if explained_more(&target, None, [&after, &before]).0 >= 0.0 { (other, likely) } else { (learnt, gross) })
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
fn gross_errors(errors: &[f64], set_aside: &[usize]) -> Vec<usize> {
    beyond(errors, GROSS * kept_variance(errors, set_aside).sqrt())
}

/// Those, and of the others the ones that are more likely of another population than of any Student-t noise.
fn likely_wrong(errors: &[f64], set_aside: &[usize]) -> Vec<usize> {
    /// Improvements of share, sizes and tails; few change by then.
    const ROUNDS: usize = 100;
    const BOUNDS: [f64; 2] = [1e-10, 1e10];
    let variance = kept_variance(errors, set_aside);
    let limit = GROSS * variance.sqrt();
    let others: Vec<f64> = errors.iter().filter(|error| **error <= limit).map(|error| error * error).collect();
    let mut noise = NoiseModel::new(Noise::ContaminatedT(Degrees::Learned), variance.clamp(BOUNDS[0], BOUNDS[1]));
    let once = vec![1.0; others.len()];
    (0..ROUNDS).for_each(|_| {
        noise.fit_parameters(&others, &once, BOUNDS);
    });
    let is_likely = |error: f64| noise.outlier_probability(error * error).is_some_and(|probability| probability > 0.5);
    (0..errors.len()).filter(|&row| errors[row] > limit || is_likely(errors[row])).collect()
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
