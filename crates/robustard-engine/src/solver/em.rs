//! Expectation maximization (Algorithm 1).

use super::{Point, Proposal, Solver};

pub(super) struct Em;

impl Solver for Em {
    fn propose(&mut self, point: &Point<'_>, proposal: &mut Proposal) {
        let Point { problem, state, moments, .. } = point;
        let groups = problem.groups();

        // Alg. 1, M-step: γ = 1/E[θ²], pooled over a group's columns.
        let gamma = &mut proposal.weight_precision;
        groups.sum_into(gamma, |j| moments.mean[j].powi(2) + moments.covariance_diagonal[j]);
        for (gamma, &size) in gamma.iter_mut().zip(groups.size()) {
            *gamma = size as f64 / *gamma;
        }

        // λ = E[(y − xᵀθ)²], averaged over the rows when shared.
        if state.noise.is_shared() {
            proposal.shared_variance = (moments.residual_sum + moments.latent_sum) / problem.weight_sum();
        } else {
            proposal.expected_square_residuals(moments);
        }
    }
}
