//! ℓ1-reweighted least squares (Algorithm 4): a doubly ℓ1-penalised problem in every iteration.

use super::inner_lasso::{InnerLasso, LassoWeights};
use super::{CheckedSettings, NoiseStep, Point, Proposal, Solver};
use crate::noise::{NoiseModel, Shared};

pub(super) struct IrlsL1 {
    inner: Option<InnerLasso>,
    tolerance: f64,
    max_iterations: usize,
}

impl IrlsL1 {
    pub(super) fn new(settings: &CheckedSettings) -> Self {
        Self { inner: None, tolerance: settings.inner_tolerance, max_iterations: settings.inner_max_iterations }
    }
}

impl Solver for IrlsL1 {
    fn propose(&mut self, point: &Point<'_>, proposal: &mut Proposal) {
        let Point { problem, state, moments, .. } = point;
        let groups = problem.groups();
        let inner = self.inner.get_or_insert_with(|| InnerLasso::new(problem));

        // w = √(xᵀΠ_y x), over a group the root of the sum; v = √[Π_y]ᵢᵢ.
        let LassoWeights { weight, residual } = &mut inner.weights;
        groups.sum_into(weight, |j| moments.column_quadratic_form[j]);
        weight.iter_mut().for_each(|w| *w = w.sqrt());
        // What one copy of a row adds to the trace of Π_y. Less than one copy of a row makes log|Σ_y| convex in its λ, and
        // the surrogate is no bound: such rows take EM's update and no penalty.
        let is_whole = |i: usize| problem.row_weight()[i] >= 1.0;
        let copy_precision = |i: usize| {
            let variance = state.noise_variance[i];
            (1.0 - moments.latent_variance[i] / variance).max(0.0) / variance
        };
        if state.noise.is_shared() {
            residual.fill(0.0); // a weighted lasso
        } else {
            for (i, v) in residual.iter_mut().enumerate() {
                *v = if is_whole(i) { problem.row_weight()[i] * copy_precision(i).sqrt() } else { 0.0 };
            }
        }
        inner.solve(point, self.tolerance, self.max_iterations);

        // Map back: γ = w/|θ|, λ = |r|/v.
        let gamma = &mut proposal.weight_precision;
        groups.sum_into(gamma, |j| inner.solution()[j].powi(2));
        for (gamma, w) in gamma.iter_mut().zip(&inner.weights.weight) {
            *gamma = w / gamma.sqrt();
        }
        match state.noise {
            NoiseModel::Shared(Shared { variance }) => {
                let squares: f64 = inner.residual().iter().zip(problem.row_weight()).map(|(r, w)| w * r * r).sum();
                let trace = problem.weight_sum() / variance - moments.latent_sum / (variance * variance);
                proposal.shared_variance = if trace > 0.0 {
                    (squares / trace).sqrt()
                } else {
                    (squares + moments.latent_sum) / problem.weight_sum() // EM's, as for a row of weight below 1
                };
            }
            NoiseModel::Flat(_) => {
                // The second moment is the variance under a flat prior.
                for (i, variance) in proposal.second_moment.iter_mut().enumerate() {
                    let residual = inner.residual()[i];
                    *variance = if is_whole(i) {
                        residual.abs() / copy_precision(i).sqrt()
                    } else {
                        residual.powi(2) + moments.latent_variance[i]
                    };
                }
                proposal.noise_step = NoiseStep::SecondMoment;
            }
            // With a prior, stationarity of the surrogate reads e²(λ) = r² + λ − λ²z, which is r² + q.
            NoiseModel::StudentT(_) | NoiseModel::Contaminated(_) | NoiseModel::ContaminatedT(_) => {
                for (i, e2) in proposal.second_moment.iter_mut().enumerate() {
                    *e2 = inner.residual()[i].powi(2) + moments.latent_variance[i];
                }
                proposal.noise_step = NoiseStep::SecondMoment;
            }
        }
    }

    fn restart(&mut self) {
        self.inner = None;
    }
}
