//! A smooth curve: its noise is chosen while lengthscales are learnt, so that only one fit to all rows is needed.

use robustard::features::{Effort, FeatureError, LearntSmooth};
use robustard::predictive::BaseNoise;
use robustard::{NoiseKind, NoisePrior, Observer};

use super::distance::median;
use super::linear::{lumpy_reason, worse_half};
use super::{Best, CLEAR_GAIN, Candidate, Compared, LEAST_GAIN, MEDIAN_TO_DEVIATION, needs_robust_noise, why_shared};
use crate::prepared::Prepared;
use crate::regression::{RegressionError, RegressionOptions};

/// Robust standard deviations between which errors begin to be gross at first sight, of a curve and of lines.
const GROSS_AT_FIRST: [f64; 2] = [4.0, 30.0];
const GROSS_FOR_LINES: [f64; 2] = [1.5, 30.0];
/// Standard deviations of the rows kept beyond which it is gross.
const GROSS: f64 = 4.0;
/// Share of the rows that have to stand apart from lines to be a start of their own.
const SUSPECTS: std::ops::Range<f64> = 0.03..0.45;
/// Gain in nats per row that robust noise has to bring when the large errors are a crowd of their own, which heavy tails are not.
const LEAST_GAIN_OF_CROWD: f64 = 0.03;
/// How often the rows set aside are looked at again.
const PASSES: usize = 4;

/// The best smooth fit; if it only has to be there when the table bends, possibly why there is none.
pub(super) fn best<O: Observer + Send>(
    prepared: &Prepared,
    options: &RegressionOptions,
    must_bend: bool,
    line_errors: &[f64],
    observer: &mut O,
) -> Result<Result<Best, String>, RegressionError> {
    let features = &options.features;
    let kind = features.kind;
    let [contaminated, shared_noise] =
        [(NoiseKind::PerRow, NoisePrior::Contaminated), (NoiseKind::Shared, NoisePrior::Flat)];
    let learn = |noise, set_aside: &[usize], effort, from: Option<&LearntSmooth>| {
        prepared.learn_smooth(features, noise, set_aside, must_bend && from.is_none(), effort, from)
    };
    // Noise with outliers has many optima. Wrong rows that lines tell apart are another start.
    let suspects = suspects(line_errors);
    let trimmed = (!suspects.is_empty()).then(|| learn(shared_noise, &suspects, Effort::Sketch, None));
    let trimmed = trimmed.and_then(Result::ok);
    let sketch = match learn(contaminated, &[], Effort::Sketch, None) {
        Err(RegressionError::Features(FeatureError::Straight { .. })) if trimmed.is_some() => {
            prepared.learn_smooth(features, contaminated, &[], false, Effort::Sketch, None)
        }
        sketch => sketch,
    };
    let mut robust = match sketch {
        Ok(learnt) => learnt,
        Err(RegressionError::Features(FeatureError::Straight { gain, rows })) => {
            let why = if gain > 0.05 {
                format!("lines, because a curve explains {rows} rows only {gain:.1} nats better")
            } else {
                format!("lines, because a curve explains {rows} rows no better")
            };
            return Ok(Err(why));
        }
        Err(RegressionError::Features(FeatureError::NotLearnt)) if must_bend => {
            return Ok(Err("lines, because no curve could be learnt".to_owned()));
        }
        Err(error) => return Err(error),
    };
    let mut learnt = learn(shared_noise, &[], Effort::Sketch, Some(&robust))?;
    let gain = |robust: &LearntSmooth, shared: &LearntSmooth| robust.evidence - shared.evidence;
    let is_clear = gain(&robust, &learnt) > CLEAR_GAIN;
    if !is_clear {
        robust = learn(contaminated, &[], Effort::Whole, Some(&robust))?;
        learnt = learn(shared_noise, &[], Effort::Whole, Some(&learnt))?;
        if gain(&robust, &learnt) <= LEAST_GAIN {
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
    let gain = gain(&robust, &learnt);
    let error = |learnt: &LearntSmooth| robustard::metrics::rmse(&learnt.left_out.residual, &vec![0.0; prepared.len()]);
    let gap = Gap::widest(&errors_in_deviations(&robust), GROSS_AT_FIRST);
    let is_apart = gain > LEAST_GAIN_OF_CROWD && gap.has_crowd_beyond();
    let is_dirty =
        !prepared.target_is_lumpy() && (is_apart || needs_robust_noise(gain, error(&robust), error(&learnt)));
    let compared = [(&robust, "contaminated"), (&learnt, "shared")].map(|(learnt, noise)| {
        let inlier = learnt.start.noise.variance(0.0);
        let errors = learnt.left_out.residual.iter().zip(&learnt.left_out.latent_variance);
        let densities: Vec<f64> = errors.map(|(r, q)| learnt.start.noise.log_density(*r, *q, inlier)).collect();
        Compared {
            features: format!("{kind} (learnt from {} rows)", learnt.rows),
            noise: noise.to_owned(),
            set_aside: 0,
            bound: learnt.evidence,
            loo_rmse: prepared.deviation() * error(learnt),
            loo_log_density: robustard::metrics::mean(&densities) - prepared.deviation().ln(),
            chosen: false,
        }
    });
    let (set_aside, reason) = if is_dirty {
        let set_aside;
        let whole = learn(contaminated, &[], Effort::Whole, Some(&robust))?;
        (learnt, set_aside) = set_gross_errors_aside(whole, |set_aside, effort, from| {
            learn(shared_noise, set_aside, effort, Some(from))
        })?;
        let count = set_aside.len();
        let rows = if count == 1 { "row" } else { "rows" };
        let reason = if count == 0 {
            "shared noise, because no error stands apart".to_owned()
        } else {
            format!(
                "{count} {rows} set aside, whose errors are beyond {GROSS} standard deviations of the others: noise with outliers \
             gains {gain:.2} nats per row on shared noise"
            )
        };
        (set_aside, reason)
    } else {
        if is_clear {
            learnt = learn(shared_noise, &[], Effort::Whole, Some(&learnt))?;
        }
        let reason = if prepared.target_is_lumpy() { lumpy_reason() } else { why_shared("contaminated", gain) };
        (Vec::new(), reason)
    };
    let mut chosen = options.clone();
    chosen.settings = chosen.settings.with_shared_noise();
    chosen.settings.base_noise = BaseNoise::LeftOut;
    let map = prepared.smooth_map(features, learnt.smooth);
    let fitted = prepared.fit(map, Some(learnt.start), &chosen, Some(set_aside), observer)?;
    let candidate = Candidate::new(fitted);
    let compared = [compared.to_vec(), vec![candidate.describe()]].concat();
    Ok(Ok(Best { candidate, place: compared.len() - 1, compared, reasons: vec![reason] }))
}

/// Learns the curve without the rows whose left-out errors are gross, by the standard deviation of the rows kept, until they stay
/// the same.
fn set_gross_errors_aside(
    robust: LearntSmooth,
    mut learn: impl FnMut(&[usize], Effort, &LearntSmooth) -> Result<LearntSmooth, RegressionError>,
) -> Result<(LearntSmooth, Vec<usize>), RegressionError> {
    let mut set_aside = gross_at_first(&errors_in_deviations(&robust));
    let look_again = |learnt: &LearntSmooth, set_aside: &[usize]| -> Vec<usize> {
        let z = errors_in_deviations(learnt);
        let mut kept = z.clone();
        set_aside.iter().for_each(|&row| kept[row] = 0.0);
        let count = (z.len() - set_aside.len()) as f64;
        let unit = (kept.iter().map(|z| z * z).sum::<f64>() / count).sqrt();
        beyond(&z, GROSS * unit)
    };
    let mut learnt = robust;
    for _ in 0..PASSES {
        learnt = learn(&set_aside, Effort::Settle, &learnt)?;
        let found = look_again(&learnt, &set_aside);
        if std::mem::replace(&mut set_aside, found.clone()) == found {
            break;
        }
    }
    learnt = learn(&set_aside, Effort::Whole, &learnt)?;
    let found = look_again(&learnt, &set_aside);
    if found != set_aside {
        learnt = learn(&found, Effort::Settle, &learnt)?;
    }
    Ok((learnt, found))
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
