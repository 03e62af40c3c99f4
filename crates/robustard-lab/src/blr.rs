//! EM with a variational posterior learnt by the Bayesian learning rule (the paper's Table 2): a normal posterior with diagonal
//! covariance, its mean and precisions moved by natural gradients at randomly perturbed weights (IVON), instead of the exact
//! posterior.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use robustard::Settings;

/// Steps of the learning rule for every update of γ and λ.
const INNER_STEPS: usize = 10;
const LEARNING_RATE: f64 = 0.1;
const MOMENTUM: f64 = 0.9;
const HESSIAN_MOMENTUM: f64 = 0.995;

/// A posterior learnt by the rule, at the γ and λ that EM found with it.
#[derive(Debug, Clone)]
pub struct Variational {
    /// m.
    pub mean: Vec<f64>,
    /// Variances of the weights.
    pub variance: Vec<f64>,
    /// γ.
    pub weight_precision: Vec<f64>,
    /// λ.
    pub noise_variance: Vec<f64>,
}

/// The rule's state. The loss is Σ (y − xᵀθ)²/(2λ), the prior N(0, 1/γ); h is the diagonal of the loss' Hessian, so that the
/// posterior's precision is h + γ.
struct Rule {
    mean: Vec<f64>,
    hessian: Vec<f64>,
    momentum: Vec<f64>,
    steps: i32,
}

impl Rule {
    fn precision(&self, j: usize, gamma: &[f64]) -> f64 {
        (self.hessian[j] + gamma[j]).max(f64::MIN_POSITIVE)
    }

    /// One step with the gradient of the loss at `theta` = mean + perturbation.
    fn step(&mut self, theta: &[f64], gradient: &[f64], gamma: &[f64]) {
        self.steps += 1;
        let correction = 1.0 - MOMENTUM.powi(self.steps);
        for j in 0..self.mean.len() {
            let precision = self.precision(j, gamma);
            // Reparametrised Hessian: E[∇ℓ·(θ − m)]/σ².
            let hessian = gradient[j] * (theta[j] - self.mean[j]) * precision;
            let change = hessian - self.hessian[j];
            let rest = 1.0 - HESSIAN_MOMENTUM;
            // The last term keeps the precision above zero.
            self.hessian[j] += rest * change + 0.5 * (rest * change).powi(2) / precision;
            self.momentum[j] = MOMENTUM * self.momentum[j] + (1.0 - MOMENTUM) * gradient[j];
            let slope = self.momentum[j] / correction + gamma[j] * self.mean[j];
            self.mean[j] -= LEARNING_RATE * slope / self.precision(j, gamma);
        }
    }
}

/// Runs EM with the settings' damping, bounds and noise schedule. The first column's γ stays at its least (an intercept).
pub fn fit(design: MatRef<'_, f64>, target: &[f64], settings: &Settings, seed: u64) -> Variational {
    let (n, d) = (design.nrows(), design.ncols());
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let clip = |value: f64, [low, high]: [f64; 2]| value.clamp(low, high);
    let mut gamma = vec![settings.initial_weight_precision; d];
    gamma[0] = settings.weight_precision_bounds[0];
    let mut lambda = vec![settings.initial_noise_variance; n];
    // As many rows of noise as at the start; the rule learns the rest.
    let hessian = vec![n as f64 / settings.initial_noise_variance; d];
    let mut rule = Rule { mean: vec![0.0; d], hessian, momentum: vec![0.0; d], steps: 0 };
    let y = MatRef::from_column_major_slice(target, n, 1);
    let residuals = |theta: &[f64]| -> Mat<f64> {
        let mut residual = y.to_owned();
        let theta = MatRef::from_column_major_slice(theta, d, 1);
        matmul(residual.as_mut(), Accum::Add, design, theta, -1.0, Par::Seq);
        residual
    };
    for iteration in 0..settings.max_iterations {
        for _ in 0..INNER_STEPS {
            let mut draw = |j: usize| rng.sample::<f64, _>(StandardNormal) / rule.precision(j, &gamma).sqrt();
            let theta: Vec<f64> = (0..d).map(|j| rule.mean[j] + draw(j)).collect();
            let mut weighted = residuals(&theta);
            weighted.col_mut(0).iter_mut().zip(&lambda).for_each(|(r, variance)| *r /= variance);
            let mut gradient = Mat::zeros(d, 1);
            matmul(gradient.as_mut(), Accum::Replace, design.transpose(), weighted.as_ref(), -1.0, Par::Seq);
            let gradient: Vec<f64> = gradient.col(0).iter().copied().collect();
            rule.step(&theta, &gradient, &gamma);
        }
        let variance: Vec<f64> = (0..d).map(|j| 1.0 / rule.precision(j, &gamma)).collect();
        for j in 1..d {
            let new = clip(1.0 / (rule.mean[j].powi(2) + variance[j]), settings.weight_precision_bounds);
            gamma[j] += settings.damping_weights * (new - gamma[j]);
        }
        let since = (iteration + 1).checked_sub(settings.noise_start);
        if since.is_some_and(|since| since % settings.noise_every == 0) {
            let residual = residuals(&rule.mean);
            for i in 0..n {
                let latent: f64 = (0..d).map(|j| design[(i, j)].powi(2) * variance[j]).sum();
                let new = clip(residual[(i, 0)].powi(2) + latent, settings.noise_variance_bounds);
                lambda[i] += settings.damping_noise * (new - lambda[i]);
            }
        }
    }
    let variance = (0..d).map(|j| 1.0 / rule.precision(j, &gamma)).collect();
    Variational { mean: rule.mean, variance, weight_precision: gamma, noise_variance: lambda }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At fixed γ and λ the rule ends near the exact posterior's mean, and at its precisions where columns do not overlap, though it
    /// starts with precisions three times as large.
    #[test]
    fn the_rule_finds_the_posterior() {
        let (n, d) = (60, 3);
        // Orthogonal columns.
        let x = Mat::from_fn(n, d, |i, j| if i % d == j { 1.0 + 0.1 * (i as f64).sin() } else { 0.0 });
        let y: Vec<f64> = (0..n).map(|i| [1.0, -2.0, 0.5][i % d] + 0.1 * ((i * i) as f64).sin()).collect();
        let settings = Settings {
            max_iterations: 600,
            damping_weights: f64::MIN_POSITIVE,
            noise_start: usize::MAX,
            initial_weight_precision: 2.0,
            initial_noise_variance: 0.5,
            weight_precision_bounds: [1e-6, 1e6],
            ..Settings::default()
        };
        let found = fit(x.as_ref(), &y, &settings, 0);
        for j in 1..d {
            let square: f64 = (0..n).map(|i| x[(i, j)].powi(2)).sum();
            let product: f64 = (0..n).map(|i| x[(i, j)] * y[i]).sum();
            let precision = square / 0.5 + 2.0;
            let mean = product / 0.5 / precision;
            // Perturbations leave the mean about √(learning rate/2) posterior deviations of jitter.
            assert!((found.mean[j] - mean).abs() < 0.8 / precision.sqrt(), "{} {mean}", found.mean[j]);
            assert!((found.variance[j] * precision - 1.0).abs() < 0.25, "{} {precision}", found.variance[j]);
        }
    }
}
