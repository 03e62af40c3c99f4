//! ℓ2-reweighted least squares (Algorithm 3): EM's updates, written with Π_y.

use super::{NoiseStep, Point, Proposal, Solver};
use crate::noise::{NoiseModel, Shared};

pub(super) struct IrlsL2;

impl Solver for IrlsL2 {
    fn propose(&mut self, point: &Point<'_>, proposal: &mut Proposal) {
        let Point { problem, state, moments, .. } = point;
        let groups = problem.groups();
        let precision_of = |j: usize| state.weight_precision[groups.of_column()[j]];

        // γ = [θ² + 1/γ − xᵀΠ_y x/γ²]⁻¹ with the ridge solution θ = μ.
        let gamma = &mut proposal.weight_precision;
        groups.sum_into(gamma, |j| {
            let precision = precision_of(j);
            let z = (1.0 / precision) * (1.0 - moments.column_quadratic_form[j] / precision);
            moments.mean[j].powi(2) + z
        });
        for (gamma, &size) in gamma.iter_mut().zip(groups.size()) {
            *gamma = size as f64 / *gamma;
        }

        match state.noise {
            // λ = ‖r‖²/n + λ − (λ²/n) tr Π_y, the expanded form of the paper's update, which is the right one; rows counted
            // by weight have Σω(1/λ − q/λ²) for the trace.
            NoiseModel::Shared(Shared { variance }) => {
                let count = problem.weight_sum();
                let trace = count / variance - moments.latent_sum / (variance * variance);
                proposal.shared_variance =
                    moments.residual_sum / count + variance - variance * variance * trace / count;
            }
            _ => {
                for (i, e2) in proposal.second_moment.iter_mut().enumerate() {
                    let variance = state.noise_variance[i] / problem.row_weight()[i];
                    let latent = variance * (1.0 - variance * moments.sample_precision_diagonal[i]);
                    *e2 = moments.residual[i].powi(2) + latent;
                }
                proposal.noise_step = NoiseStep::SecondMoment;
            }
        }
    }
}
