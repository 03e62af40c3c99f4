//! Random frequencies and the waves that they make.

use std::f64::consts::TAU;

use faer::{Mat, MatRef};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

/// Random Fourier features √(2/K) cos(xᵀw + b), which approximate the kernel exp(−γ‖x − x′‖²).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fourier {
    /// w, inputs × K, feature by feature.
    pub frequencies: Vec<f64>,
    /// b, one per feature.
    pub phases: Vec<f64>,
    /// Number of inputs.
    pub inputs: usize,
}

impl Fourier {
    /// Draws K features for `inputs` inputs; w ~ N(0, 2γ), b uniform. scikit-learn's `RBFSampler` uses γ = 1/inputs on
    /// standardized inputs by default, and so does the paper.
    pub fn new(inputs: usize, features: usize, gamma: f64, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let scale = (2.0 * gamma).sqrt();
        let frequencies = (0..inputs * features).map(|_| scale * rng.sample::<f64, _>(StandardNormal)).collect();
        let phases = (0..features).map(|_| TAU * rng.random::<f64>()).collect();
        Self { frequencies, phases, inputs }
    }

    /// Whether the parts agree about the number of inputs.
    pub(crate) fn is_consistent(&self, inputs: usize) -> bool {
        self.inputs == inputs && inputs.checked_mul(self.phases.len()) == Some(self.frequencies.len())
    }

    /// n × K features.
    pub fn transform(&self, inputs: MatRef<'_, f64>) -> Mat<f64> {
        let scale = (2.0 / self.phases.len() as f64).sqrt();
        let frequencies = MatRef::from_column_major_slice(&self.frequencies, self.inputs, self.phases.len());
        let mut features = inputs * frequencies;
        for (k, phase) in self.phases.iter().enumerate() {
            features.col_as_slice_mut(k).iter_mut().for_each(|value| *value = scale * (*value + phase).cos());
        }
        features
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_approximate_the_kernel_and_follow_the_seed() {
        let x = Mat::from_fn(6, 2, |i, j| (i as f64 * 0.4 - j as f64).sin());
        let features = Fourier::new(2, 20_000, 0.5, 3).transform(x.as_ref());
        for a in 0..6 {
            for b in 0..6 {
                let distance: f64 = (0..2).map(|j| (x[(a, j)] - x[(b, j)]).powi(2)).sum();
                let product: f64 = (0..20_000).map(|k| features[(a, k)] * features[(b, k)]).sum();
                assert!((product - (-0.5 * distance).exp()).abs() < 0.03);
            }
        }
        assert_eq!(Fourier::new(2, 5, 0.5, 3), Fourier::new(2, 5, 0.5, 3));
        assert_ne!(Fourier::new(2, 5, 0.5, 3), Fourier::new(2, 5, 0.5, 4));
    }
}
