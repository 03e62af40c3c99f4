//! MacKay's fixed-point updates (Algorithm 2).

use super::{Point, Proposal, Solver};

/// Below this, 1 − γΣ is rounding error: the data say nothing about the weight and γ stays.
const LEAST_DETERMINED: f64 = 1e-13;

#[derive(Default)]
pub(super) struct Mackay {
    /// Σ(1 − γΣ) of each group.
    determined: Vec<f64>,
}

impl Solver for Mackay {
    fn propose(&mut self, point: &Point<'_>, proposal: &mut Proposal) {
        let Point { problem, state, moments, .. } = point;
        let groups = problem.groups();

        // γ = (1 − γΣ)/μ², numerator and denominator summed over a group's columns; xᵀΠ_y x = γ(1 − γΣ).
        let gamma = &mut proposal.weight_precision;
        groups.sum_into(gamma, |j| moments.mean[j].powi(2));
        let determined = &mut self.determined;
        determined.resize(groups.count(), 0.0);
        groups.sum_into(determined, |j| moments.column_quadratic_form[j]);
        for (group, gamma) in gamma.iter_mut().enumerate() {
            determined[group] /= state.weight_precision[group];
            *gamma = if determined[group] < LEAST_DETERMINED {
                state.weight_precision[group]
            } else {
                determined[group] / *gamma
            };
        }

        if state.noise.is_shared() {
            let freedom = problem.weight_sum() - determined.iter().sum::<f64>();
            // With as many determined weights as rows the fixed-point form has no solution; EM's always has.
            proposal.shared_variance = if freedom > f64::EPSILON * problem.weight_sum() {
                moments.residual_sum / freedom
            } else {
                (moments.residual_sum + moments.latent_sum) / problem.weight_sum()
            };
        } else {
            proposal.expected_square_residuals(moments);
        }
    }
}
