//! A fit that goes on from what is known already.

use super::safeguard::{Limits, confine};
use crate::noise::NoiseModel;
use crate::problem::Problem;
use crate::state::State;

/// Where a fit starts, instead of where the settings say.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// γ, one per group of columns; groups of fixed precision keep theirs.
    pub weight_precision: Vec<f64>,
    /// The noise model.
    pub noise: NoiseModel,
    /// λ, one per row.
    pub noise_variance: Vec<f64>,
}

impl Start {
    /// Whether it is of this problem's size and of this state's noise.
    pub(super) fn fits(&self, state: &State) -> bool {
        self.weight_precision.len() == state.weight_precision.len()
            && self.noise_variance.len() == state.noise_variance.len()
            && std::mem::discriminant(&self.noise) == std::mem::discriminant(&state.noise)
    }

    /// Puts the state there, within the limits.
    pub(super) fn apply(&self, problem: &Problem, limits: &Limits, state: &mut State) {
        for (group, precision) in state.weight_precision.iter_mut().enumerate() {
            if problem.groups().fixed(group).is_none() {
                let [low, high] = limits.weight_precision[group];
                *precision = self.weight_precision[group].clamp(low, high);
            }
        }
        let [low, high] = limits.noise_variance;
        state.noise = self.noise;
        state.noise_variance.iter_mut().zip(&self.noise_variance).for_each(|(v, start)| *v = start.clamp(low, high));
        confine(state);
    }
}
