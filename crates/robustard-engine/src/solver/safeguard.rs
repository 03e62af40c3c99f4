//! From a proposal to a step that can be taken: noise model, damping, clipping; every intervention is counted.

use serde::{Deserialize, Serialize};

use super::{CheckedSettings, NoiseStep, Proposal, Units};
use crate::noise::{NoiseModel, Shared};
use crate::posterior::{LEAST_FREEDOM, Moments};
use crate::problem::{NaturalUnits, Problem};
use crate::state::State;

/// How often a fit was helped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Interventions {
    /// Factorisations that needed jitter.
    pub jittered: usize,
    /// Largest share of the diagonal added as jitter.
    pub largest_jitter: f64,
    /// Values of γ put on a bound, summed over iterations.
    pub clipped_weights: usize,
    /// Values of λ, or of a noise model's scale, put on a bound, summed over iterations.
    pub clipped_noise: usize,
    /// Proposed values that were not numbers and were left where they were.
    pub repaired: usize,
    /// Extrapolated steps that would have worsened the objective.
    pub rejected_extrapolations: usize,
    /// Plain steps that had to be shortened because the posterior could not be computed.
    pub shortened_steps: usize,
    /// Columns taken out of the work, summed over iterations.
    pub pruned_columns: usize,
    /// Columns let back in.
    pub readmitted_columns: usize,
}

/// The bounds in the units of the problem.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    /// One range per group.
    pub weight_precision: Vec<[f64; 2]>,
    pub noise_variance: [f64; 2],
    units: NaturalUnits,
}

impl Limits {
    pub(super) fn new(problem: &Problem, settings: &CheckedSettings) -> Self {
        let units = match settings.units {
            Units::Absolute => {
                NaturalUnits { noise_variance: 1.0, weight_precision: vec![1.0; problem.groups().count()] }
            }
            Units::Relative => problem.natural_units(),
        };
        let scaled = |bounds: [f64; 2], unit: f64| bounds.map(|bound| (bound * unit).clamp(1e-250, 1e250));
        Self {
            weight_precision: units
                .weight_precision
                .iter()
                .map(|&unit| scaled(settings.weight_precision_bounds, unit))
                .collect(),
            noise_variance: scaled(settings.noise_variance_bounds, units.noise_variance),
            units,
        }
    }

    /// The start: every value at the same place between its bounds.
    pub(super) fn initial_state(&self, problem: &Problem, settings: &CheckedSettings) -> State {
        let groups = problem.groups();
        let weight_precision = self.weight_precision.iter().enumerate().map(|(group, bounds)| {
            groups
                .fixed(group)
                .unwrap_or(bounds[0] * (settings.initial_weight_precision / settings.weight_precision_bounds[0]))
        });
        let [low, high] = self.noise_variance;
        let variance = (settings.initial_noise_variance * self.units.noise_variance).clamp(low, high);
        let distinct = if settings.noise.is_shared() { 1 } else { problem.row_count() };
        State {
            weight_precision: weight_precision.collect(),
            noise_variance: vec![variance; distinct],
            noise: NoiseModel::new(settings.noise, variance),
        }
    }

    pub(super) fn keep(&mut self, keep: &[bool]) {
        let mut kept = keep.iter();
        self.weight_precision.retain(|_| *kept.next().expect("one flag per group"));
        let mut kept = keep.iter();
        self.units.weight_precision.retain(|_| *kept.next().expect("one flag per group"));
    }
}

/// What one step needed.
#[derive(Default)]
pub(super) struct StepCounts {
    clipped_weights: usize,
    clipped_noise: usize,
    repaired: usize,
}

impl Interventions {
    pub(super) fn add(&mut self, counts: StepCounts) {
        self.clipped_weights += counts.clipped_weights;
        self.clipped_noise += counts.clipped_noise;
        self.repaired += counts.repaired;
    }
}

/// Turns a proposal at `state` into the plain step `next`.
pub(super) struct Safeguard {
    damping_weights: f64,
    damping_noise: f64,
    studentized_power: Option<f64>,
}

impl Safeguard {
    pub(super) fn new(settings: &CheckedSettings) -> Self {
        Self {
            damping_weights: settings.damping_weights,
            damping_noise: settings.damping_noise,
            studentized_power: settings.studentized_power,
        }
    }

    /// The studentized update, λᵢ ← rᵢ²/(1 − hᵢ)ᵖ, in place of the second moments.
    pub(super) fn studentize(&self, problem: &Problem, state: &State, moments: &Moments, proposal: &mut Proposal) {
        let Some(power) = self.studentized_power else { return };
        for (i, e2) in proposal.second_moment.iter_mut().enumerate() {
            let leverage = moments.latent_variance[i] * problem.row_weight()[i] / state.noise_variance[i];
            *e2 = moments.residual[i].powi(2) / (1.0 - leverage).max(LEAST_FREEDOM).powf(power);
        }
        proposal.noise_step = NoiseStep::SecondMoment;
    }

    /// Writes the step that `proposal` means at `state` into `next`; without `noise_moves` the noise stays.
    pub(super) fn step(
        &self,
        problem: &Problem,
        state: &State,
        proposal: &Proposal,
        limits: &Limits,
        noise_moves: bool,
        next: &mut State,
    ) -> StepCounts {
        let mut counts = StepCounts::default();
        let groups = problem.groups();
        for (group, value) in next.weight_precision.iter_mut().enumerate() {
            let old = state.weight_precision[group];
            *value = if groups.fixed(group).is_some() {
                old
            } else {
                let proposed = proposal.weight_precision[group];
                let bounds = limits.weight_precision[group];
                bounded(old, proposed, self.damping_weights, bounds, &mut counts.clipped_weights, &mut counts.repaired)
            };
        }
        next.noise = state.noise;
        if !noise_moves {
            next.noise_variance.copy_from_slice(&state.noise_variance);
            return counts;
        }
        let bounds = limits.noise_variance;
        if let NoiseModel::Shared(Shared { variance }) = &mut next.noise {
            let (clipped, repaired) = (&mut counts.clipped_noise, &mut counts.repaired);
            *variance = bounded(*variance, proposal.shared_variance, self.damping_noise, bounds, clipped, repaired);
            next.noise_variance.fill(*variance);
            return counts;
        }
        let at_bound = next.noise.fit_parameters(&proposal.second_moment, problem.row_weight(), bounds);
        counts.clipped_noise += usize::from(at_bound);
        if self.damping_noise < 1.0 {
            let (old, new) = (state.noise.to_coordinates(), next.noise.to_coordinates());
            let damped = std::array::from_fn(|k| old[k] + self.damping_noise * (new[k] - old[k]));
            next.noise.set_coordinates(damped, bounds);
        }
        let clipped_before = counts.clipped_noise;
        self.row_variances(state, proposal, bounds, next, &mut counts);
        // The parameters were fitted as if every row could have its best variance. Where bounds forbid that, the old ones
        // may be better.
        if counts.clipped_noise > clipped_before && self.damping_noise == 1.0 {
            let cost = |candidate: &State| row_cost(problem, proposal, candidate);
            let fitted_cost = cost(next);
            let fitted = (next.noise, std::mem::take(&mut next.noise_variance));
            next.noise = state.noise;
            next.noise_variance = vec![0.0; fitted.1.len()];
            self.row_variances(state, proposal, bounds, next, &mut StepCounts::default());
            if fitted_cost <= cost(next) {
                (next.noise, next.noise_variance) = fitted;
            }
        }
        counts
    }

    /// Fills λ from the proposal under `next.noise`, damped and clipped.
    fn row_variances(
        &self,
        state: &State,
        proposal: &Proposal,
        bounds: [f64; 2],
        next: &mut State,
        counts: &mut StepCounts,
    ) {
        let rule = next.noise.variance_rule();
        for (i, value) in next.noise_variance.iter_mut().enumerate() {
            let proposed = match proposal.noise_step {
                NoiseStep::SecondMoment => rule(proposal.second_moment[i]),
                NoiseStep::Variance => proposal.noise_variance[i],
            };
            let old = state.noise_variance[i];
            *value =
                bounded(old, proposed, self.damping_noise, bounds, &mut counts.clipped_noise, &mut counts.repaired);
        }
        confine(next);
    }
}

/// What the rows cost given their second moments: Σ ω [e²/(2λ) + ½ log λ] plus the noise model's penalty.
fn row_cost(problem: &Problem, proposal: &Proposal, state: &State) -> f64 {
    let weight = problem.row_weight();
    let rows = state.noise_variance.iter().zip(&proposal.second_moment).zip(weight);
    let likelihood: f64 = rows.map(|((v, e2), w)| 0.5 * w * (e2 / v + v.ln())).sum();
    likelihood + state.noise.penalty(&state.noise_variance, weight)
}

/// Puts the variances where the noise model's penalty is defined.
pub(super) fn confine(state: &mut State) {
    let [low, high] = state.noise.range();
    if low > 0.0 || high.is_finite() {
        state.noise_variance.iter_mut().for_each(|value| *value = value.clamp(low, high));
    }
}

/// Damps and clips one value.
fn bounded(old: f64, proposed: f64, damping: f64, bounds: [f64; 2], clipped: &mut usize, repaired: &mut usize) -> f64 {
    if proposed.is_nan() {
        *repaired += 1;
        return old;
    }
    let within = proposed.clamp(bounds[0], bounds[1]);
    *clipped += usize::from(within != proposed);
    if damping == 1.0 { within } else { ((1.0 - damping) * old + damping * within).clamp(bounds[0], bounds[1]) }
}
