//! Features as given: one fit for each noise model, and a guard against rows that decide the fit because they lie far out.

use robustard_engine::diagnostics::z_threshold;
use robustard_engine::math::order::median;
use robustard_engine::noise::NoiseModel;
use robustard_engine::{BaseNoise, Degrees, Noise, Settings, Start};

use super::distance::few_far_rows;
use super::{Best, NoiseChoice, Reason, describe, explained_more_of_some, is_cut_short};
use crate::Error;
use crate::features::FeatureKind;
use crate::fitted::Fit;
use crate::recipe::Choice;
use crate::work::{Candidate, Learning, Work};

/// Standard errors beyond which a far row is not confirmed by the others, at least.
const UNCONFIRMED: f64 = 3.5;
/// Least variance of a start, of a standardized target.
const LEAST_VARIANCE: f64 = 1e-8;

/// How many noise models are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Care {
    /// Shared and contaminated noise, from one start.
    Plain,
    /// All, from several starts.
    Full,
}

/// The best fit of the given features over noise models, the noise as given if it is not to be chosen.
pub(super) fn best(work: &Work<'_>, kind: FeatureKind, care: Care) -> Result<Best, Error> {
    let given = &Settings { base_noise: BaseNoise::LeftOut, ..work.recipe.settings().clone() };
    let fit = |settings: &Settings, start: Option<Start>, set_aside: Vec<usize>| {
        let learnt = work.learn(kind, settings.noise)?;
        let start = start.or(learnt.start);
        work.fit(kind, Learning { design: learnt.design, start }, settings, set_aside)
    };
    // Candidates wait without their rows' diagnostics.
    let described = |mut candidate: Candidate| {
        let compared = describe(&candidate.fit);
        let residual = candidate.fit.left_out().residual;
        candidate.fit.forget_rows();
        (Waiting { candidate, residual }, compared)
    };
    if let Choice::Given(noise) = work.recipe.noise() {
        return Ok(Best::only(fit(&work.recipe.settings().clone().with_noise(noise), None, Vec::new())?, Vec::new()));
    }
    let shared = given.clone().with_shared_noise();
    let first = fit(&shared, None, Vec::new())?;
    if work.dataset.target_is_lumpy() {
        return Ok(Best::only(first, vec![Reason::FewTargetValues]));
    }
    let (first, of_first) = described(first);
    let (mut candidates, mut compared) = (vec![first], vec![of_first]);
    let mut noises = vec![Noise::Contaminated];
    if care == Care::Full {
        noises.push(Noise::ContaminatedT(Degrees::Learned));
    }
    // Where lengthscales are learnt for each, Student-t noise is left to the models that nest it.
    if care == Care::Full && !kind.learns(work.recipe.lengthscale()) {
        noises.push(Noise::default());
    }
    for noise in noises {
        if work.control.is_stopped() {
            break;
        }
        let (candidate, of_candidate) = described(fit(&given.clone().with_noise(noise), None, Vec::new())?);
        candidates.push(candidate);
        compared.push(of_candidate);
    }
    let is_lines = kind == FeatureKind::linear();
    if is_lines && care == Care::Full && !work.control.is_stopped() && choose_noise(work, &candidates).0 == 0 {
        // Noise with outliers has many optima: another start, from a fit without the half of the rows that fits worse.
        let errors: Vec<f64> = candidates[0].residual.iter().map(|r| r.abs()).collect();
        let start = start_from(&fit(&shared, None, worse_half(&errors))?.fit);
        let other = fit(&given.clone().with_noise(Noise::Contaminated), Some(start), Vec::new())?;
        if other.fit.bound() > candidates[1].fit().bound() && !is_cut_short(&other) {
            (candidates[1], compared[1]) = described(other);
        }
    }
    if work.control.is_stopped() {
        // What was cut short is compared with nothing, unless nothing was finished.
        while candidates.len() > 1 && candidates.last().is_some_and(|last| is_cut_short(&last.candidate)) {
            candidates.pop();
            compared.pop();
        }
    }
    if candidates.len() == 1 {
        let only = candidates.swap_remove(0).candidate;
        return Ok(Best::only(only, Vec::new()));
    }
    let (mut place, reason) = choose_noise(work, &candidates);
    let mut reasons = vec![reason];
    let mut candidate = candidates.swap_remove(place).candidate;
    drop(candidates);
    if let Some((guarded, reason)) = guarded(work, kind, &candidate)? {
        reasons.push(reason);
        (candidate, place) = (guarded, compared.len());
        compared.push(describe(&candidate.fit));
    }
    Ok(Best { candidate, compared, place, reasons })
}

/// The same lines without rows that decide them because they lie far out, if there are such rows.
fn guarded(work: &Work<'_>, kind: FeatureKind, free: &Candidate) -> Result<Option<(Candidate, Reason)>, Error> {
    if kind != FeatureKind::linear() || work.control.is_stopped() {
        return Ok(None);
    }
    let settings = free.fit.settings.clone();
    let fit = &mut |set_aside| work.fit(kind, work.learn(kind, settings.noise)?, &settings, set_aside);
    Ok(guard(work, free, fit)?.filter(|(guarded, _)| !is_cut_short(guarded)))
}

/// The rows with the larger half of the errors.
pub(super) fn worse_half(errors: &[f64]) -> Vec<usize> {
    let middle = median(errors);
    (0..errors.len()).filter(|&row| errors[row] > middle).collect()
}

/// A start with contaminated noise at the curve or lines of a fit, with the scale of its smaller errors.
fn start_from(Fit { design, model, .. }: &Fit) -> Start {
    let weight_precision = design.group_precisions(model);
    let rows = model.rows();
    let residuals: Vec<f64> = rows.target.iter().zip(&rows.fitted).map(|(y, f)| (y - f).abs()).collect();
    let deviation = super::MEDIAN_TO_DEVIATION * median(&residuals);
    let noise = NoiseModel::new(Noise::Contaminated, (deviation * deviation).max(LEAST_VARIANCE));
    let rule = noise.variance_rule();
    Start { weight_precision, noise, noise_variance: rows.second_moments().iter().map(|e2| rule(*e2)).collect() }
}

/// A fit that waits for the others, and its errors of left-out rows, in standard units.
struct Waiting {
    candidate: Candidate,
    residual: Vec<f64>,
}

impl Waiting {
    fn fit(&self) -> &Fit {
        &self.candidate.fit
    }
}

/// The place of the best; the first has shared noise.
fn choose_noise(work: &Work<'_>, candidates: &[Waiting]) -> (usize, Reason) {
    let bound = |place: usize| candidates[place].fit().bound();
    let robust = (1..candidates.len()).max_by(|&a, &b| bound(a).total_cmp(&bound(b)));
    let Some(place) = robust else { return (0, Reason::Interrupted) };
    let gain = bound(place) - bound(0);
    let noise = candidates[place].fit().settings.noise;
    let choice = NoiseChoice {
        gain,
        rows: candidates[0].fit().model.rows().weight.iter().sum(),
        is_crowd: false,
        explained: explained_more_of_some(
            work.standard_target(),
            &work.say(),
            [place, 0].map(|place| candidates[place].residual.as_slice()),
        ),
    };
    if choice.explains_no_less() {
        (place, Reason::RobustNoiseGains { noise, gain })
    } else {
        (0, choice.why_shared(noise))
    }
}

/// Rows far from the others in their inputs can draw a fit to themselves. They are left out at first, and only those that the
/// fit to the others predicts within its errors come back. None if all of them do.
fn guard(
    work: &Work<'_>,
    free: &Candidate,
    fit: &mut dyn FnMut(Vec<usize>) -> Result<Candidate, Error>,
) -> Result<Option<(Candidate, Reason)>, Error> {
    let far = few_far_rows(work.dataset);
    if far.is_empty() {
        return Ok(None);
    }
    let without = fit(far.clone())?;
    let diagnostics = without.fit.diagnostics();
    let limit = diagnostics.threshold.max(UNCONFIRMED);
    let unconfirmed: Vec<usize> = far.into_iter().filter(|&row| diagnostics.z[row].abs() > limit).collect();
    // What the free fit sees as outliers has not drawn it.
    let flagged = &free.fit.diagnostics().flagged;
    if unconfirmed.iter().all(|&row| flagged[row]) {
        return Ok(None);
    }
    let reason = Reason::LeverageSetAside { rows: unconfirmed.len() };
    Ok(Some((fit(unconfirmed)?, reason)))
}

/// The same for a large table, from fits to some of its rows alone: the far rows of the whole table that are to be set aside.
pub(super) fn unconfirmed(work: &Work<'_>, small: &Work<'_>, chosen: &Fit) -> Result<Vec<usize>, Error> {
    let far = few_far_rows(work.dataset);
    if far.is_empty() || work.control.is_stopped() {
        return Ok(Vec::new());
    }
    let limit = z_threshold(work.dataset.row_count()).max(UNCONFIRMED);
    let (kind, settings) = (chosen.features, &chosen.settings);
    let without = small.fit(kind, small.learn(kind, settings.noise)?, settings, few_far_rows(small.dataset))?;
    let z = work.z_scores(&without.fit, &far)?;
    let unconfirmed: Vec<usize> = far.into_iter().zip(z).filter(|(_, z)| z.abs() > limit).map(|(row, _)| row).collect();
    let is_guarded = chosen.set_aside.len() > small.far_targets.len();
    let is_seen = || Ok::<_, Error>(work.z_scores(chosen, &unconfirmed)?.iter().all(|z| z.abs() > limit));
    Ok(if !is_guarded && is_seen()? { Vec::new() } else { unconfirmed })
}
