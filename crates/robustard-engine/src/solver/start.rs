//! A fit that goes on from what is known already.

use thiserror::Error;

use super::safeguard::{Limits, confine};
use crate::noise::{NoiseModel, Shared};
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

/// A start that is of another problem.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StartError {
    /// Too few or too many values.
    #[error(
        "the start has {found} {what} but {expected} are expected, one per {}; start from a fit of a problem of this size",
        if *.what == "noise variances" { "row" } else { "group of columns" }
    )]
    Length {
        /// Of what.
        what: &'static str,
        /// As many as the problem has.
        expected: usize,
        /// As many as there are.
        found: usize,
    },
    /// Another noise model than that of the settings.
    #[error("the start has {found} noise but the settings ask for {expected}; start from a fit with the same noise")]
    Noise {
        /// The settings' model.
        expected: &'static str,
        /// The start's.
        found: &'static str,
    },
}

impl Start {
    /// Whether it is of this problem's size and of this state's noise.
    pub(super) fn check(&self, problem: &Problem, state: &State) -> Result<(), StartError> {
        let length = |what, expected: usize, found: usize| {
            if expected == found { Ok(()) } else { Err(StartError::Length { what, expected, found }) }
        };
        length("weight precisions", state.weight_precision.len(), self.weight_precision.len())?;
        length("noise variances", problem.row_count(), self.noise_variance.len())?;
        if std::mem::discriminant(&self.noise) != std::mem::discriminant(&state.noise) {
            return Err(StartError::Noise { expected: state.noise.name(), found: self.noise.name() });
        }
        Ok(())
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
        if let NoiseModel::Shared(Shared { variance }) = &mut state.noise {
            *variance = variance.clamp(low, high);
            state.noise_variance.fill(*variance);
            return;
        }
        state.noise_variance.iter_mut().zip(&self.noise_variance).for_each(|(v, start)| *v = start.clamp(low, high));
        confine(state);
    }
}
