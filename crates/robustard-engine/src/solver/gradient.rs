//! Adam on the objective in log γ and log λ. The route chosen in the settings decides whether the n × n or the d × d
//! form of the objective is differentiated; both give the same gradient.

use super::{NoiseStep, Point, Proposal, Solver};
use crate::evidence::{Gradient, gradient};

const BETA: [f64; 2] = [0.9, 0.999];
const EPSILON: f64 = 1e-8;

/// Running means of the gradient and its square.
#[derive(Default)]
struct Adam {
    first: Vec<f64>,
    second: Vec<f64>,
}

impl Adam {
    /// Calls `apply(k, step)` with the step in every coordinate.
    fn steps(&mut self, slopes: &[f64], time: i32, mut apply: impl FnMut(usize, f64)) {
        self.first.resize(slopes.len(), 0.0);
        self.second.resize(slopes.len(), 0.0);
        let correction = BETA.map(|beta| 1.0 - beta.powi(time));
        for (k, slope) in slopes.iter().enumerate() {
            self.first[k] = BETA[0] * self.first[k] + (1.0 - BETA[0]) * slope;
            self.second[k] = BETA[1] * self.second[k] + (1.0 - BETA[1]) * slope * slope;
            let scale = (self.second[k] / correction[1]).sqrt() + EPSILON;
            apply(k, self.first[k] / correction[0] / scale);
        }
    }
}

pub(super) struct AdamInLogSpace {
    rate: f64,
    time: i32,
    weights: Adam,
    noise: Adam,
    gradient: Gradient,
}

impl AdamInLogSpace {
    pub(super) fn new(rate: f64) -> Self {
        Self { rate, time: 0, weights: Adam::default(), noise: Adam::default(), gradient: Gradient::default() }
    }
}

impl Solver for AdamInLogSpace {
    fn propose(&mut self, point: &Point<'_>, proposal: &mut Proposal) {
        let Point { problem, state, moments, .. } = point;
        gradient(problem, state, moments, &mut self.gradient);
        self.time = self.time.saturating_add(1);
        let (rate, time) = (self.rate, self.time);
        self.weights.steps(&self.gradient.log_weight_precision, time, |group, step| {
            proposal.weight_precision[group] = state.weight_precision[group] * (-rate * step).exp();
        });
        if state.noise.is_shared() {
            self.noise.steps(&self.gradient.log_noise_variance, time, |_, step| {
                proposal.shared_variance = state.noise_variance[0] * (-rate * step).exp();
            });
        } else {
            proposal.expected_square_residuals(moments); // the noise model's parameters are fitted to them
            proposal.noise_step = NoiseStep::Variance;
            self.noise.steps(&self.gradient.log_noise_variance, time, |i, step| {
                proposal.noise_variance[i] = state.noise_variance[i] * (-rate * step).exp();
            });
        }
    }

    fn restart(&mut self) {
        *self = Self::new(self.rate);
    }
}
