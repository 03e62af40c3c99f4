//! What a solver ends with.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Interventions, IterationRecord, Status};
use crate::posterior::{Covariance, Moments, Posterior, RowNoise};
use crate::problem::Problem;
use crate::state::State;

/// How a fit went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// The objective at the end.
    pub objective: f64,
    /// Posteriors computed.
    pub evaluations: usize,
    /// One record per iteration.
    pub trace: Vec<IterationRecord>,
    /// How often the fit was helped.
    pub interventions: Interventions,
    /// Time taken; not saved.
    #[serde(skip)]
    pub elapsed: Duration,
}

/// Where a solver ended.
pub(crate) struct Solution {
    /// The columns that were not pruned.
    pub columns: Vec<usize>,
    /// γ of every column of the whole problem; at its upper bound where pruned.
    pub weight_precision: Vec<f64>,
    /// γ of the groups that were not pruned, and λ.
    pub state: State,
    /// All moments at the state.
    pub moments: Moments,
    pub uncertainty: Uncertainty,
    pub outcome: Outcome,
}

/// The posterior that error bars are taken from: with the noise made `inflation` times as large.
pub(crate) struct Uncertainty {
    /// Factor of the noise variances ([`crate::noise::NoiseModel::inflation`]).
    pub inflation: f64,
    /// Σⱼⱼ of the active columns.
    pub covariance_diagonal: Vec<f64>,
    /// qᵢ of the rows; empty if the noise is as it is.
    pub latent_variance: Vec<f64>,
    pub covariance: Covariance,
}

impl Uncertainty {
    /// At the state whose posterior has these `moments`; without inflation if the widened posterior cannot be factorised.
    pub(super) fn new(problem: &Problem, state: &State, moments: &Moments, posterior: &mut dyn Posterior) -> Self {
        let inflation = if state.noise.is_shared() {
            1.0
        } else {
            let errors = moments.residual.iter().zip(&moments.latent_variance);
            let second_moment: Vec<f64> = errors.map(|(r, q)| r * r + q).collect();
            state.noise.inflation(&second_moment, problem.row_weight())
        };
        if inflation > 1.0 {
            let mut wide = Moments::new(problem);
            let variance: Vec<f64> = state.noise_variance.iter().map(|v| inflation * v).collect();
            let noise = RowNoise::PerRow(&variance);
            if posterior.factorise(problem, &state.weight_precision, noise, &mut wide).is_ok() {
                posterior.weight_moments(problem, &mut wide);
                posterior.row_moments(problem, &mut wide);
                return Self {
                    inflation,
                    covariance_diagonal: wide.covariance_diagonal,
                    latent_variance: wide.latent_variance,
                    covariance: posterior.covariance(problem),
                };
            }
            // The state itself was factorised before.
            let restored = posterior.factorise(problem, &state.weight_precision, state.row_noise(), &mut wide);
            debug_assert!(restored.is_ok());
            posterior.weight_moments(problem, &mut wide);
        }
        Self {
            inflation: 1.0,
            covariance_diagonal: moments.covariance_diagonal.clone(),
            latent_variance: Vec::new(),
            covariance: posterior.covariance(problem),
        }
    }
}
