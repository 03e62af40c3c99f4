//! Solvers, and the one driver that runs them.
//!
//! A solver sees the problem, a state and the posterior at that state, and proposes the next (γ, λ). It does nothing
//! else: damping, clipping, factorising, accepting, extrapolating, pruning and stopping belong to the driver.

mod accelerate;
mod active;
mod driver;
mod em;
mod gradient;
mod growing;
pub(crate) mod inner_lasso;
mod irls_l1;
mod irls_l2;
mod mackay;
mod passes;
mod paths;
mod prune;
pub(crate) mod rule;
mod safeguard;
mod settings;
mod solution;
mod start;
mod stopping;
mod trace;

pub use paths::{Path, PathRecorder, Paths};
pub use safeguard::Interventions;
pub use settings::{Acceleration, CheckedSettings, Preset, Settings, SettingsError, SolverKind, Units};
pub use solution::Outcome;
pub(crate) use solution::{Solution, Uncertainty};
pub use start::{Start, StartError};
pub use stopping::Status;
pub use trace::{Iteration, IterationRecord, Observer};

use faer::Par;
use thiserror::Error;

use self::driver::Fit;
use self::rule::{NoiseStep, Point, Proposal, Solver, solver};
use crate::posterior::FactorError;
use crate::problem::Problem;

/// Why there is no solution.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SolverError {
    /// The posterior cannot be computed even at the start.
    #[error(
        "the posterior at the initial values cannot be computed ({0}); rescale the columns or change the initial values and bounds"
    )]
    Posterior(#[from] FactorError),
    /// The start is of another problem.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Columns share a precision.
    #[error("the growing solver needs one precision per column; columns {} share one; use em", list(.columns))]
    SharedPrecision {
        /// The columns of the first group that has several, counted from 0.
        columns: Vec<usize>,
    },
}

/// Columns as users count them; of many, the first few.
fn list(columns: &[usize]) -> String {
    const MOST_LISTED: usize = 5;
    let mut names: Vec<String> = columns.iter().take(MOST_LISTED).map(|column| (column + 1).to_string()).collect();
    if columns.len() > MOST_LISTED {
        names.push("…".to_owned());
    }
    names.join(", ")
}

/// Runs the solver that the settings name, on the threads of the current rayon pool.
pub(crate) fn solve<O: Observer + ?Sized>(
    problem: &Problem,
    settings: &CheckedSettings,
    start: Option<&Start>,
    observer: &mut O,
) -> Result<Solution, SolverError> {
    if settings.solver == SolverKind::Growing
        && let Some(columns) = problem.groups().first_shared()
    {
        return Err(SolverError::SharedPrecision { columns });
    }
    let par = if rayon::current_num_threads() == 1 { Par::Seq } else { Par::rayon(0) };
    Ok(Fit::start(problem, settings, start, observer.stop(), par)?.run(observer))
}
