//! The objective and its gradient, for one state.
//!
//! The objective is −log p(y | γ, λ) plus the noise prior's terms. The evidence itself is computed with the posterior,
//! by either route; see [`crate::posterior`].

use crate::noise::{NoiseModel, Shared};
use crate::posterior::Moments;
use crate::problem::Problem;
use crate::state::State;

/// −log p(y | γ, λ) + Σ c(λ), at the state whose posterior is in `moments`. For shared noise and for per-row noise with
/// a flat prior it is the negative log evidence itself.
pub fn objective(problem: &Problem, state: &State, moments: &Moments) -> f64 {
    moments.neg_log_evidence + state.noise.penalty(&state.noise_variance, problem.row_weight())
}

/// Derivatives of the objective.
#[derive(Debug, Clone, Default)]
pub struct Gradient {
    /// In log γ, one per group.
    pub log_weight_precision: Vec<f64>,
    /// In log λ, one per row; a single sum when the noise is shared.
    pub log_noise_variance: Vec<f64>,
}

/// The gradient at the state whose posterior is in `moments`, written into `gradient`.
///
/// ∂/∂log γ = ½ Σⱼ [γ(μⱼ² + Σⱼⱼ) − 1] over a group's columns, ∂/∂log λᵢ = ½ ωᵢ [1 − (rᵢ² + qᵢ)/λᵢ] + ωᵢ λᵢ c′(λᵢ).
pub fn gradient(problem: &Problem, state: &State, moments: &Moments, gradient: &mut Gradient) {
    let groups = problem.groups();
    gradient.log_weight_precision.resize(groups.count(), 0.0);
    groups.sum_into(&mut gradient.log_weight_precision, |j| moments.mean[j].powi(2) + moments.covariance_diagonal[j]);
    for (group, slope) in gradient.log_weight_precision.iter_mut().enumerate() {
        let size = groups.size()[group] as f64;
        *slope =
            if groups.fixed(group).is_some() { 0.0 } else { 0.5 * (state.weight_precision[group] * *slope - size) };
    }
    if let NoiseModel::Shared(Shared { variance }) = state.noise {
        gradient.log_noise_variance.resize(1, 0.0);
        gradient.log_noise_variance[0] =
            0.5 * (problem.weight_sum() - (moments.residual_sum + moments.latent_sum) / variance);
        return;
    }
    gradient.log_noise_variance.resize(problem.row_count(), 0.0);
    for (i, slope) in gradient.log_noise_variance.iter_mut().enumerate() {
        let variance = state.noise_variance[i];
        let e2 = moments.residual[i].powi(2) + moments.latent_variance[i];
        *slope = problem.row_weight()[i] * (0.5 * (1.0 - e2 / variance) + state.noise.penalty_slope(variance));
    }
}
