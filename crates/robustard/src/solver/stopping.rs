//! When a fit ends, and how it ended.

use serde::{Deserialize, Serialize};

use super::CheckedSettings;
use crate::state::State;

/// How a fit ended. The model is usable in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The changes stayed below the tolerance.
    Converged,
    /// `max_iterations` were used up.
    IterationLimit,
    /// The observer asked to stop.
    Interrupted,
    /// No step could be factorised; the model is that of the last good state.
    NumericalTrouble,
}

/// Size of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Change {
    pub weights: f64,
    pub noise: f64,
}

/// The paper's criterion: relative ℓ∞ change of the logs, small for some iterations in a row.
pub(super) struct Stopping {
    tolerance: f64,
    patience: usize,
    quiet: usize,
    noise_change: f64,
}

impl Stopping {
    pub(super) fn new(settings: &CheckedSettings) -> Self {
        Self { tolerance: settings.tolerance, patience: settings.patience, quiet: 0, noise_change: f64::INFINITY }
    }

    /// Notes the step from `state` to `next`; `noise_moved` is false in iterations that leave λ alone.
    pub(super) fn observe(&mut self, state: &State, next: &State, noise_moved: bool) -> Change {
        if noise_moved {
            self.noise_change = relative_change(state.distinct_variances(), next.distinct_variances());
        }
        let change = Change {
            weights: relative_change(&state.weight_precision, &next.weight_precision),
            noise: self.noise_change,
        };
        self.quiet = if change.weights < self.tolerance && change.noise < self.tolerance { self.quiet + 1 } else { 0 };
        change
    }

    pub(super) fn converged(&self) -> bool {
        self.quiet >= self.patience
    }

    /// The problem has changed: what was quiet need not be.
    pub(super) fn restart(&mut self) {
        self.quiet = 0;
    }
}

/// ‖log b − log a‖∞ / (1 + ‖log b‖∞).
fn relative_change(a: &[f64], b: &[f64]) -> f64 {
    let (mut change, mut size) = (0.0f64, 0.0f64);
    for (a, b) in a.iter().zip(b) {
        let log_b = b.ln();
        // Equal values need no logarithm, and most clipped ones are equal.
        if a != b {
            change = change.max((log_b - a.ln()).abs());
        }
        size = size.max(log_b.abs());
    }
    change / (1.0 + size)
}
