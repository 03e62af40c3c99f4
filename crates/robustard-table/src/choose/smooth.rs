//! A smooth curve: its noise is chosen while lengthscales are learnt, so that only one fit to all rows is needed.

use robustard::features::{Effort, FeatureError, LearntSmooth};
use robustard::predictive::BaseNoise;
use robustard::{NoiseKind, NoisePrior, Observer};

use super::linear::{lumpy_reason, worse_half};
use super::{Best, CLEAR_GAIN, Candidate, Compared, LEAST_GAIN, MEDIAN_TO_DEVIATION, needs_robust_noise, why_shared};
use crate::prepared::Prepared;
use crate::regression::{RegressionError, RegressionOptions};

/// Robust standard deviations between which errors begin to be gross at first sight.
const GROSS_AT_FIRST: [f64; 2] = [4.0, 30.0];
/// Standard deviations of the rows kept beyond which it is gross.
const GROSS: f64 = 4.0;
/// How often the rows set aside are looked at again.
const PASSES: usize = 4;

/// The best smooth fit; if it only has to be there when the table bends, possibly why there is none.
pub(super) fn best<O: Observer + Send>(
    prepared: &Prepared,
    options: &RegressionOptions,
    must_bend: bool,
    observer: &mut O,
) -> Result<Result<Best, String>, RegressionError> {
    let features = &options.features;
    let kind = features.kind;
    let contaminated = (NoiseKind::PerRow, NoisePrior::Contaminated);
    let mut robust = match prepared.learn_smooth(features, contaminated, &[], must_bend, Effort::Sketch, None) {
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
    let shared_noise = (NoiseKind::Shared, NoisePrior::Flat);
    let mut learnt = prepared.learn_smooth(features, shared_noise, &[], false, Effort::Sketch, None)?;
    let gain = |robust: &LearntSmooth, shared: &LearntSmooth| robust.evidence - shared.evidence;
    if gain(&robust, &learnt) <= CLEAR_GAIN {
        robust = prepared.learn_smooth(features, contaminated, &[], false, Effort::Whole, Some(&robust))?;
        learnt = prepared.learn_smooth(features, shared_noise, &[], false, Effort::Whole, Some(&learnt))?;
        if gain(&robust, &learnt) <= LEAST_GAIN {
            // Noise with outliers has many optima: another start, without the half of the rows that fits worse.
            let half = worse_half(&errors_in_deviations(&learnt));
            let trimmed = prepared.learn_smooth(features, shared_noise, &half, false, Effort::Settle, Some(&learnt))?;
            let other = prepared.learn_smooth(features, contaminated, &[], false, Effort::Settle, Some(&trimmed))?;
            if other.evidence > robust.evidence {
                robust = other;
            }
        }
    }
    let gain = gain(&robust, &learnt);
    let error = |learnt: &LearntSmooth| robustard::metrics::rmse(&learnt.left_out.residual, &vec![0.0; prepared.len()]);
    let is_dirty = !prepared.target_is_lumpy() && needs_robust_noise(gain, error(&robust), error(&learnt));
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
        let whole = prepared.learn_smooth(features, contaminated, &[], false, Effort::Whole, Some(&robust))?;
        (learnt, set_aside) = set_gross_errors_aside(whole, |set_aside, effort, from| {
            prepared.learn_smooth(features, shared_noise, set_aside, false, effort, Some(from))
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
        learnt = prepared.learn_smooth(features, shared_noise, &[], false, Effort::Whole, Some(&learnt))?;
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
    let z = errors_in_deviations(&robust);
    let mut sorted = z.clone();
    sorted.sort_by(f64::total_cmp);
    let unit = (MEDIAN_TO_DEVIATION * sorted[sorted.len() / 2]).max(f64::MIN_POSITIVE);
    let beyond = |z: &[f64], limit: f64| -> Vec<usize> { (0..z.len()).filter(|&row| z[row] > limit).collect() };
    let mut set_aside = beyond(&z, unit * emptiest(&z, unit));
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

/// Where fewest errors are, with at least half of all large ones beyond: ordinary errors get rarer with size, gross ones come in a
/// crowd of their own.
fn emptiest(z: &[f64], unit: f64) -> f64 {
    const STEPS: i32 = 40;
    /// Errors within this share of a limit are counted.
    const NEAR: f64 = 0.2;
    let [low, high] = GROSS_AT_FIRST;
    let near = |limit: f64| z.iter().filter(|z| (*z / unit - limit).abs() < NEAR * limit).count();
    let beyond = |limit: f64| z.iter().filter(|z| *z / unit > limit).count();
    let limits = (0..=STEPS).map(|step| low * (high / low).powf(f64::from(step) / f64::from(STEPS)));
    // The last of equals: in doubt an error is not gross.
    limits.rev().filter(|limit| 2 * beyond(*limit) >= beyond(low)).min_by_key(|limit| near(*limit)).unwrap_or(low)
}

/// Errors of left-out rows, in standard deviations given what the curve knows there.
fn errors_in_deviations(learnt: &LearntSmooth) -> Vec<f64> {
    let noise = learnt.start.noise.variance(0.0);
    let errors = learnt.left_out.residual.iter().zip(&learnt.left_out.latent_variance);
    errors.map(|(residual, latent)| residual.abs() / (noise + latent).sqrt()).collect()
}
