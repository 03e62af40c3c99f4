//! The state of a fit: the precisions and variances being learnt.

use crate::noise::{NoiseModel, Shared};
use crate::posterior::RowNoise;

/// γ per group, λ per row and the noise model's own parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// γ, one per group of columns.
    pub weight_precision: Vec<f64>,
    /// λ, one per row; one for all when the noise is shared.
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

    /// λ of a row.
    #[inline]
    pub(crate) fn variance(&self, row: usize) -> f64 {
        self.row_noise().variance(row)
    }

    pub(crate) fn copy_from(&mut self, other: &State) {
        self.weight_precision.copy_from_slice(&other.weight_precision);
        self.noise_variance.copy_from_slice(&other.noise_variance);
        self.noise = other.noise;
    }
}
