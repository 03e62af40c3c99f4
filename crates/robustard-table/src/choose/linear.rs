//! Features as given: one fit for each noise model, and a guard against rows that decide the fit because they lie far out.

use robustard::features::FeatureKind;
use robustard::noise::NoiseModel;
use robustard::predictive::BaseNoise;
use robustard::solver::Start;
use robustard::{Degrees, NoiseKind, NoisePrior, Observer, Settings};

use super::distance::few_far_rows;
use super::{Best, Candidate, Compared, needs_robust_noise, why_shared};
use crate::prepared::Prepared;
use crate::regression::{Regression, RegressionError, RegressionOptions};

/// Standard errors beyond which a far row is not confirmed by the others, at least.
const UNCONFIRMED: f64 = 3.5;

/// The best fit of the given features over noise models, the noise as given if it is not to be chosen.
pub(super) fn best<O: Observer + Send>(
    prepared: &Prepared,
    options: &RegressionOptions,
    chooses_noise: bool,
    observer: &mut O,
) -> Result<Best, RegressionError> {
    let mut fit = |settings: Settings, start: Option<Start>, set_aside: Option<Vec<usize>>| {
        let given = RegressionOptions { settings, ..options.clone() };
        let (features, learnt) = prepared.learn_features(&given)?;
        let fitted = prepared.fit(features, start.or(learnt), &given, set_aside, observer)?;
        Ok::<Candidate, RegressionError>(Candidate::new(fitted))
    };
    if !chooses_noise {
        let candidate = fit(options.settings.clone(), None, None)?;
        return Ok(Best { compared: vec![candidate.describe()], place: 0, reasons: Vec::new(), candidate });
    }
    let mut shared = options.settings.clone().with_shared_noise();
    shared.base_noise = BaseNoise::LeftOut;
    let robust = |noise_prior| Settings { noise: NoiseKind::PerRow, noise_prior, ..options.settings.clone() };
    let mut priors = vec![NoisePrior::Contaminated, NoisePrior::ContaminatedT(Degrees::Learned)];
    // Where lengthscales are learnt for each, Student-t noise is left to the models that nest it.
    if !options.features.learns_lengthscales() {
        priors.push(NoisePrior::StudentT(Degrees::Fixed(robustard::noise::DEFAULT_DEGREES)));
    }
    let mut candidates = vec![fit(shared.clone(), None, None)?];
    if prepared.target_is_lumpy() {
        let candidate = candidates.swap_remove(0);
        let compared = vec![candidate.describe()];
        return Ok(Best { candidate, compared, place: 0, reasons: vec![lumpy_reason()] });
    }
    for prior in priors {
        candidates.push(fit(robust(prior), None, None)?);
    }
    if options.features.kind == FeatureKind::Linear && choose_noise(&candidates).0 == 0 {
        // Noise with outliers has many optima: another start, from a fit without the half of the rows that fits worse.
        let errors: Vec<f64> = candidates[0].regression().diagnose().loo_residual.iter().map(|r| r.abs()).collect();
        let start = start_from(fit(shared, None, Some(worse_half(&errors)))?.regression());
        let other = fit(robust(NoisePrior::Contaminated), Some(start), None)?;
        if other.bound() > candidates[1].bound() {
            candidates[1] = other;
        }
    }
    let mut compared: Vec<Compared> = candidates.iter().map(Candidate::describe).collect();
    let (mut place, reason) = choose_noise(&candidates);
    let mut reasons = vec![reason];
    let mut candidate = candidates.swap_remove(place);
    if options.features.kind == FeatureKind::Linear
        && let Some((guarded, reason)) = guard(prepared, &candidate, &mut |set_aside| {
            fit(candidate.regression().options.settings.clone(), None, Some(set_aside))
        })?
    {
        reasons.push(reason);
        (candidate, place) = (guarded, compared.len());
        compared.push(candidate.describe());
    }
    Ok(Best { candidate, compared, place, reasons })
}

pub(super) fn lumpy_reason() -> String {
    "shared noise, because most targets are one of very few values".to_owned()
}

/// The rows with the larger half of the errors.
pub(super) fn worse_half(errors: &[f64]) -> Vec<usize> {
    let middle = super::distance::median(errors);
    (0..errors.len()).filter(|&row| errors[row] > middle).collect()
}

/// A start with contaminated noise at the curve or lines of a fit, with the scale of its smaller errors.
fn start_from(regression: &Regression) -> Start {
    let model = &regression.model;
    let first = usize::from(regression.options.intercept);
    let groups = regression.feature_groups();
    let count = groups.iter().max().map_or(0, |last| last + 1 - first);
    let mut weight_precision = vec![1.0; count];
    groups
        .iter()
        .enumerate()
        .for_each(|(j, group)| weight_precision[group - first] = model.weight_precision[j + first]);
    let residuals: Vec<f64> = model.rows.target.iter().zip(&model.rows.fitted).map(|(y, f)| (y - f).abs()).collect();
    let deviation = super::MEDIAN_TO_DEVIATION * super::distance::median(&residuals);
    let noise = NoiseModel::new(NoiseKind::PerRow, NoisePrior::Contaminated, (deviation * deviation).max(1e-8));
    let rule = noise.variance_rule();
    Start { weight_precision, noise, noise_variance: model.rows.second_moments().iter().map(|e2| rule(*e2)).collect() }
}

/// The place of the best; the first has shared noise.
fn choose_noise(candidates: &[Candidate]) -> (usize, String) {
    let robust = (1..candidates.len()).max_by(|&a, &b| candidates[a].bound().total_cmp(&candidates[b].bound()));
    let place = robust.expect("at least one robust noise model");
    let (shared, robust) = (&candidates[0], &candidates[place]);
    let gain = robust.bound() - shared.bound();
    let name = robust.describe().noise;
    let [robust_error, shared_error] = [robust, shared].map(|candidate| candidate.regression().quality.loo_rmse);
    if needs_robust_noise(gain, robust_error, shared_error) {
        (place, format!("{name} noise, which gains {gain:.2} nats per row on shared noise"))
    } else {
        (0, why_shared(&name, gain))
    }
}

/// Rows far from the others in their inputs can draw a fit to themselves. They are left out at first, and only those that the
/// fit to the others predicts within its errors come back. None if all of them do.
fn guard(
    prepared: &Prepared,
    free: &Candidate,
    fit: &mut dyn FnMut(Vec<usize>) -> Result<Candidate, RegressionError>,
) -> Result<Option<(Candidate, String)>, RegressionError> {
    let far = few_far_rows(prepared.inputs());
    if far.is_empty() {
        return Ok(None);
    }
    let flagged = free.regression().diagnose().flagged;
    let without = fit(far.clone())?;
    let diagnostics = without.regression().diagnose();
    let limit = diagnostics.threshold.max(UNCONFIRMED);
    let unconfirmed: Vec<usize> = far.into_iter().filter(|&row| diagnostics.z[row].abs() > limit).collect();
    // What the free fit sees as outliers has not drawn it.
    if unconfirmed.iter().all(|&row| flagged[row]) {
        return Ok(None);
    }
    let count = unconfirmed.len();
    let guarded = fit(unconfirmed)?;
    let rows = if count == 1 { "row" } else { "rows" };
    let reason =
        format!("{count} {rows} far from the others in their inputs set aside, because the others contradict them");
    Ok(Some((guarded, reason)))
}
