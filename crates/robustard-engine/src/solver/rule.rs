//! What a solver is: a rule for the next (γ, λ).

use super::{CheckedSettings, SolverKind, em, gradient, irls_l1, irls_l2, mackay};
use crate::posterior::{Moments, Posterior};
use crate::problem::Problem;
use crate::state::State;

/// A state and the posterior at it.
pub struct Point<'a> {
    /// The problem.
    pub problem: &'a Problem<'a>,
    /// (γ, λ).
    pub state: &'a State,
    /// The posterior's moments at the state.
    pub moments: &'a Moments,
    /// The posterior itself.
    pub posterior: &'a dyn Posterior,
}

/// How a proposal speaks of per-row noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoiseStep {
    /// By second moments, which the noise model turns into variances.
    SecondMoment,
    /// By the variances themselves.
    Variance,
}

/// What a solver proposes.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// γ per group; ignored where fixed.
    pub weight_precision: Vec<f64>,
    /// λ of shared noise.
    pub shared_variance: f64,
    /// e²ᵢ of per-row noise; empty when the noise is shared.
    pub second_moment: Vec<f64>,
    /// λᵢ of per-row noise, when given outright; empty when the noise is shared.
    pub noise_variance: Vec<f64>,
    /// Which of the two is meant.
    pub noise_step: NoiseStep,
}

impl Proposal {
    /// Room for proposals about `problem`, whose noise is shared or not.
    pub fn new(problem: &Problem, is_shared: bool) -> Self {
        let rows = if is_shared { 0 } else { problem.row_count() };
        Self {
            weight_precision: vec![1.0; problem.groups().count()],
            shared_variance: 1.0,
            second_moment: vec![1.0; rows],
            noise_variance: vec![1.0; rows],
            noise_step: NoiseStep::SecondMoment,
        }
    }

    /// e²ᵢ = rᵢ² + qᵢ.
    pub(super) fn expected_square_residuals(&mut self, moments: &Moments) {
        for ((e2, r), q) in self.second_moment.iter_mut().zip(&moments.residual).zip(&moments.latent_variance) {
            *e2 = r * r + q;
        }
        self.noise_step = NoiseStep::SecondMoment;
    }
}

/// A rule for the next (γ, λ).
pub trait Solver: Send {
    /// Writes the proposal at `point`.
    fn propose(&mut self, point: &Point<'_>, proposal: &mut Proposal);

    /// Forgets what was learnt about the problem's columns, because some have left or come back.
    fn restart(&mut self) {}
}

/// The solver of the given kind.
pub fn solver(settings: &CheckedSettings) -> Box<dyn Solver> {
    match settings.solver {
        SolverKind::Em | SolverKind::Growing | SolverKind::Passes => Box::new(em::Em),
        SolverKind::Mackay => Box::new(mackay::Mackay::default()),
        SolverKind::IrlsL2 => Box::new(irls_l2::IrlsL2),
        SolverKind::IrlsL1 => Box::new(irls_l1::IrlsL1::new(settings)),
        SolverKind::Gradient => Box::new(gradient::AdamInLogSpace::new(settings.learning_rate)),
    }
}
