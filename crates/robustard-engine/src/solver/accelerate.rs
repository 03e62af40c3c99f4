//! Anderson acceleration of a fixed-point solver, in log space.
//!
//! The plain step is a map x ↦ g(x) on x = (log γ, log λ, the noise model's coordinates). From the last few residuals
//! f = g(x) − x the accelerator extrapolates to where f would vanish if g were affine. The driver takes the extrapolated
//! state only if its objective is no worse than the present one, and the plain step otherwise; after such a rejection a
//! few plain steps are made longer instead.

use super::driver::SETTLING_ITERATIONS;
use super::safeguard::{Limits, confine};
use crate::math::anderson::History;
use crate::noise::{NoiseModel, Shared};
use crate::problem::Problem;
use crate::state::State;

/// Longest extrapolated step in any log coordinate.
const LONGEST_STEP: f64 = 1.0;

/// How the next state is found.
#[derive(Clone, Copy)]
enum Mode {
    Anderson,
    /// Plain steps made longer. Where the plain solver leaves a saddle, the zero of f lies behind it and Anderson's
    /// guess is rejected; the way on is the plain direction.
    Stretch {
        factor: f64,
        left: usize,
    },
}

/// Stretched steps tried after a rejected extrapolation, each twice as long as the one before.
const STRETCHED_STEPS: usize = 5;

pub(super) struct Anderson {
    mode: Mode,
    history: History,
    calls: usize,
    x: Vec<f64>,
    f: Vec<f64>,
    target: Vec<f64>,
}

impl Anderson {
    pub(super) fn new(memory: usize) -> Self {
        Self {
            mode: Mode::Anderson,
            history: History::new(memory),
            calls: 0,
            x: Vec::new(),
            f: Vec::new(),
            target: Vec::new(),
        }
    }

    /// Forgets the history.
    pub(super) fn restart(&mut self) {
        self.history.restart();
    }

    /// The last extrapolation was taken.
    pub(super) fn accepted(&mut self) {
        self.mode = match self.mode {
            Mode::Stretch { factor, left } if left > 1 => Mode::Stretch { factor: 2.0 * factor, left: left - 1 },
            _ => Mode::Anderson,
        };
    }

    /// The last extrapolation would have been a step back.
    pub(super) fn rejected(&mut self) {
        self.restart();
        self.mode = match self.mode {
            Mode::Anderson => Mode::Stretch { factor: 2.0, left: STRETCHED_STEPS },
            Mode::Stretch { .. } => Mode::Anderson,
        };
    }

    /// Writes the extrapolation from `state`, whose plain step is `plain`, into `next`; false when there is no history yet.
    pub(super) fn extrapolate(
        &mut self,
        problem: &Problem,
        state: &State,
        plain: &State,
        limits: &Limits,
        next: &mut State,
    ) -> bool {
        let mut x = std::mem::take(&mut self.x);
        let mut f = std::mem::take(&mut self.f);
        to_coordinates(state, &mut x);
        to_coordinates(plain, &mut f);
        f.iter_mut().zip(&x).for_each(|(f, x)| *f -= x);
        self.calls += 1;
        self.history.remember(&x, &f);
        let found = self.calls > SETTLING_ITERATIONS && self.target(&x, &f) && {
            let target = &mut self.target;
            for k in 0..x.len() {
                target[k] = target[k].clamp(x[k] - LONGEST_STEP, x[k] + LONGEST_STEP);
            }
            from_coordinates(problem, target, state, limits, next)
        };
        self.history.set_last(&mut x, &mut f);
        (self.x, self.f) = (x, f);
        found
    }

    /// Writes the extrapolated point into `self.target`; false when there is none.
    fn target(&mut self, x: &[f64], f: &[f64]) -> bool {
        let target = &mut self.target;
        match self.mode {
            Mode::Stretch { factor, .. } => {
                target.clear();
                target.extend(x.iter().zip(f).map(|(x, f)| x + factor * f));
                true
            }
            Mode::Anderson => self.history.extrapolate(x, f, target),
        }
    }
}

fn to_coordinates(state: &State, x: &mut Vec<f64>) {
    x.clear();
    x.reserve_exact(state.weight_precision.len() + state.noise_variance.len() + NoiseModel::COORDINATES);
    x.extend(state.weight_precision.iter().map(|value| value.ln()));
    if !state.noise.is_shared() {
        x.extend(state.noise_variance.iter().map(|value| value.ln()));
    }
    x.extend(state.noise.to_coordinates());
}

fn from_coordinates(problem: &Problem, x: &[f64], from: &State, limits: &Limits, state: &mut State) -> bool {
    if x.iter().any(|value| !value.is_finite()) {
        return false;
    }
    let (weights, rest) = x.split_at(from.weight_precision.len());
    for (group, (value, log)) in state.weight_precision.iter_mut().zip(weights).enumerate() {
        let [low, high] = limits.weight_precision[group];
        *value = problem.groups().fixed(group).unwrap_or_else(|| log.exp().clamp(low, high));
    }
    let [low, high] = limits.noise_variance;
    let (rows, coordinates) = rest.split_at(rest.len() - NoiseModel::COORDINATES);
    state.noise = from.noise;
    state.noise.set_coordinates(std::array::from_fn(|k| coordinates[k]), limits.noise_variance);
    match state.noise {
        NoiseModel::Shared(Shared { variance }) => state.noise_variance.fill(variance),
        _ => {
            for (value, log) in state.noise_variance.iter_mut().zip(rows) {
                *value = log.exp().clamp(low, high);
            }
            confine(state);
        }
    }
    true
}
