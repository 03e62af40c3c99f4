//! When a fit ends, and how it ended.

use serde::{Deserialize, Serialize};

use super::{CheckedSettings, SolverKind};
use crate::state::State;

/// How a fit ended. The model is usable in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Status {
    /// The changes stayed below the tolerance.
    Converged,
    /// `max_iterations` were used up.
    IterationLimit,
    /// The observer, or the flag that it gave, asked to stop.
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
    /// Length of a step that is not small.
    unit: f64,
    patience: usize,
    quiet: usize,
    noise_change: f64,
}

impl Stopping {
    pub(super) fn new(settings: &CheckedSettings) -> Self {
        let unit = if settings.solver == SolverKind::Gradient { settings.learning_rate.min(1.0) } else { 1.0 };
        Self { tolerance: settings.tolerance, unit, patience: settings.patience, quiet: 0, noise_change: f64::INFINITY }
    }

    /// Notes the step from `state` to `next`; `noise_moved` is false in iterations that leave λ alone.
    pub(super) fn observe(&mut self, state: &State, next: &State, noise_moved: bool) -> Change {
        if noise_moved {
            self.noise_change = relative_change(&state.noise_variance, &next.noise_variance);
        }
        let change = Change {
            weights: relative_change(&state.weight_precision, &next.weight_precision),
            noise: self.noise_change,
        };
        let is_small = |change: f64| change < self.tolerance * self.unit;
        self.quiet = if is_small(change.weights) && is_small(change.noise) { self.quiet + 1 } else { 0 };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Flat, NoiseModel};
    use crate::solver::Settings;

    fn state(gamma: f64, lambda: f64) -> State {
        State { weight_precision: vec![gamma, 1.0], noise_variance: vec![lambda; 3], noise: NoiseModel::Flat(Flat) }
    }

    #[test]
    fn change_is_relative_to_the_logs() {
        let (a, b) = (state(1.0, 1.0), state(f64::exp(4.0), f64::exp(-1.0)));
        let mut stopping = Stopping::new(&Settings::default().check().unwrap());
        let change = stopping.observe(&a, &b, true);
        assert!((change.weights - 4.0 / 5.0).abs() < 1e-15);
        assert!((change.noise - 0.5).abs() < 1e-15);
    }

    #[test]
    fn convergence_needs_patience_and_noise_that_has_moved() {
        let settings = Settings { patience: 3, ..Settings::default() };
        let mut stopping = Stopping::new(&settings.check().unwrap());
        let (same, other) = (state(1.0, 1.0), state(2.0, 1.0));
        for _ in 0..5 {
            stopping.observe(&same, &same, false); // λ has not been updated yet
        }
        assert!(!stopping.converged());
        for quiet in 1..=2 {
            stopping.observe(&same, &same, true);
            assert!(!stopping.converged(), "{quiet}");
        }
        stopping.observe(&same, &other, true);
        for _ in 0..3 {
            assert!(!stopping.converged());
            stopping.observe(&same, &same, true);
        }
        assert!(stopping.converged());
    }

    #[test]
    fn gradient_steps_are_measured_by_their_rate() {
        let settings =
            Settings { solver: SolverKind::Gradient, learning_rate: 1e-5, patience: 1, ..Settings::default() };
        let mut stopping = Stopping::new(&settings.check().unwrap());
        stopping.observe(&state(1.0, 1.0), &state(f64::exp(1e-5), 1.0), true);
        assert!(!stopping.converged(), "a step as long as the rate is not small");
    }
}
