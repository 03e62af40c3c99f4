//! One variance for all rows: classic sparse Bayesian learning.

use serde::{Deserialize, Serialize};

use super::{COORDINATES, Model};

/// λᵢ = λ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shared {
    /// λ
    pub variance: f64,
}

impl Model for Shared {
    fn rescale(&mut self, factor: f64) {
        self.variance *= factor;
    }

    fn variance(&self, _e2: f64) -> f64 {
        self.variance
    }

    fn inlier_variance(&self, _second_moment: &[f64]) -> f64 {
        self.variance
    }

    fn to_coordinates(self) -> [f64; COORDINATES] {
        [self.variance.ln(), 0.0, 0.0, 0.0]
    }

    fn set_coordinates(&mut self, x: [f64; COORDINATES], bounds: [f64; 2]) {
        self.variance = x[0].exp().clamp(bounds[0], bounds[1]);
    }
}
