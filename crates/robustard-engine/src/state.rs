//! The state of a fit: the precisions and variances being learnt.

use crate::noise::{NoiseModel, Shared};
use crate::posterior::RowNoise;

/// γ per group, λ per row and the noise model's own parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// γ, one per group of columns.
    pub weight_precision: Vec<f64>,
    /// λ, one per row; all equal when the noise is shared.
    pub noise_variance: Vec<f64>,
    /// The noise model.
    pub noise: NoiseModel,
}

impl State {
    /// λ as the posterior takes it.
    pub(crate) fn row_noise(&self) -> RowNoise<'_> {
        match self.noise {
            NoiseModel::Shared(Shared { variance }) => RowNoise::Shared(variance),
            _ => RowNoise::PerRow(&self.noise_variance),
        }
    }

    /// The variances that can differ: one when the noise is shared, else one per row.
    pub(crate) fn distinct_variances(&self) -> &[f64] {
        if self.noise.is_shared() { &self.noise_variance[..1] } else { &self.noise_variance }
    }

    pub(crate) fn copy_from(&mut self, other: &State) {
        self.weight_precision.copy_from_slice(&other.weight_precision);
        self.noise_variance.copy_from_slice(&other.noise_variance);
        self.noise = other.noise;
    }
}
