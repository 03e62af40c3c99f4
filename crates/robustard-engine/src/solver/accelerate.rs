//! Anderson acceleration of a fixed-point solver, in log space.
//!
//! The plain step is a map x ↦ g(x) on x = (log γ, log λ, the noise model's coordinates). From the last few residuals
//! f = g(x) − x the accelerator extrapolates to where f would vanish if g were affine. The driver takes the extrapolated
//! state only if its objective is no worse than the present one, and the plain step otherwise; after such a rejection a
//! few plain steps are made longer instead.

use std::collections::VecDeque;

use super::driver::SETTLING_ITERATIONS;
use super::safeguard::{Limits, confine};
use crate::noise::{NoiseModel, Shared};
use crate::problem::Problem;
use crate::state::State;

/// Ridge of the least-squares problem, relative to its largest diagonal.
const RIDGE: f64 = 1e-10;
/// Longest extrapolated step in any log coordinate.
const LONGEST_STEP: f64 = 1.0;

#[derive(Default)]
struct Difference {
    x: Vec<f64>,
    f: Vec<f64>,
}

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
    memory: usize,
    mode: Mode,
    /// Differences between successive points, oldest first.
    differences: VecDeque<Difference>,
    /// Discarded differences, whose room is used again.
    spare: Vec<Difference>,
    last: Difference,
    has_last: bool,
    calls: usize,
    x: Vec<f64>,
    f: Vec<f64>,
    target: Vec<f64>,
}

impl Anderson {
    pub(super) fn new(memory: usize) -> Self {
        Self {
            memory,
            mode: Mode::Anderson,
            differences: VecDeque::with_capacity(memory + 1),
            spare: Vec::with_capacity(memory + 1),
            last: Difference::default(),
            has_last: false,
            calls: 0,
            x: Vec::new(),
            f: Vec::new(),
            target: Vec::new(),
        }
    }

    /// Forgets the history.
    pub(super) fn restart(&mut self) {
        self.spare.extend(self.differences.drain(..));
        self.has_last = false;
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
        if self.has_last {
            self.remember(&x, &f);
        }
        let found = self.calls > SETTLING_ITERATIONS && self.target(&x, &f) && {
            let target = &mut self.target;
            for k in 0..x.len() {
                target[k] = target[k].clamp(x[k] - LONGEST_STEP, x[k] + LONGEST_STEP);
            }
            from_coordinates(problem, target, state, limits, next)
        };
        // The buffers change places: (x, f) is the last point now.
        self.x = std::mem::replace(&mut self.last.x, x);
        self.f = std::mem::replace(&mut self.last.f, f);
        self.has_last = true;
        found
    }

    /// Writes the extrapolated point into `self.target`; false when there is none.
    fn target(&mut self, x: &[f64], f: &[f64]) -> bool {
        let target = &mut self.target;
        target.clear();
        match self.mode {
            Mode::Stretch { factor, .. } => target.extend(x.iter().zip(f).map(|(x, f)| x + factor * f)),
            Mode::Anderson => {
                target.extend(x.iter().zip(f).map(|(x, f)| x + f));
                if self.differences.is_empty() {
                    return false;
                }
                let Some(coefficients) = self.solve(f) else { return false };
                // x + f − Σ c (Δx + Δf)
                for (difference, c) in self.differences.iter().zip(&coefficients) {
                    for (target, (dx, df)) in self.target.iter_mut().zip(difference.x.iter().zip(&difference.f)) {
                        *target -= c * (dx + df);
                    }
                }
            }
        }
        true
    }

    fn remember(&mut self, x: &[f64], f: &[f64]) {
        let mut difference = if self.differences.len() >= self.memory {
            self.differences.pop_front().expect("memory is at least 1")
        } else {
            self.spare.pop().unwrap_or_default()
        };
        let fill = |room: &mut Vec<f64>, now: &[f64], before: &[f64]| {
            room.clear();
            room.extend(now.iter().zip(before).map(|(a, b)| a - b));
        };
        fill(&mut difference.x, x, &self.last.x);
        fill(&mut difference.f, f, &self.last.f);
        self.differences.push_back(difference);
    }

    /// The coefficients c that minimise ‖f − Σ cΔf‖² with a small ridge.
    fn solve(&self, f: &[f64]) -> Option<[f64; MOST_MEMORY]> {
        let m = self.differences.len();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut gram = [[0.0; MOST_MEMORY]; MOST_MEMORY];
        let mut c = [0.0; MOST_MEMORY];
        for i in 0..m {
            for j in 0..=i {
                gram[i][j] = dot(&self.differences[i].f, &self.differences[j].f);
            }
            c[i] = dot(&self.differences[i].f, f);
        }
        let largest = (0..m).map(|i| gram[i][i]).fold(0.0, f64::max);
        for (i, row) in gram.iter_mut().enumerate().take(m) {
            row[i] += RIDGE * largest;
        }
        solve_in_place(&mut gram, &mut c, m).then_some(c)
    }
}

/// The largest `acceleration_memory`.
const MOST_MEMORY: usize = 50;

/// Cholesky solve of a system small enough for the stack.
fn solve_in_place(a: &mut [[f64; MOST_MEMORY]; MOST_MEMORY], b: &mut [f64; MOST_MEMORY], m: usize) -> bool {
    for j in 0..m {
        let pivot = a[j][j] - (0..j).map(|k| a[j][k] * a[j][k]).sum::<f64>();
        if !(pivot > 0.0 && pivot.is_finite()) {
            return false;
        }
        a[j][j] = pivot.sqrt();
        for i in j + 1..m {
            a[i][j] = (a[i][j] - (0..j).map(|k| a[i][k] * a[j][k]).sum::<f64>()) / a[j][j];
        }
    }
    for i in 0..m {
        b[i] = (b[i] - (0..i).map(|k| a[i][k] * b[k]).sum::<f64>()) / a[i][i];
    }
    for i in (0..m).rev() {
        b[i] = (b[i] - (i + 1..m).map(|k| a[k][i] * b[k]).sum::<f64>()) / a[i][i];
    }
    b[..m].iter().all(|value| value.is_finite())
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
