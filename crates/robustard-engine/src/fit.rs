//! The ways into a fit.

use std::ops::ControlFlow;

use thiserror::Error;

use crate::model::FittedModel;
use crate::problem::Problem;
use crate::solver::{Iteration, Observer, Settings, SettingsError, SolverError, Start, solve};

/// Why a fit gave no model.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum FitError {
    /// A setting is wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The solver could not begin.
    #[error(transparent)]
    Solver(#[from] SolverError),
}

/// Fits `problem` on the threads of the current rayon pool; their number does not change the result.
pub fn fit(problem: &Problem, settings: &Settings) -> Result<FittedModel, FitError> {
    fit_observed(problem, settings, &mut |_: &Iteration<'_>| ControlFlow::Continue(()))
}

/// Fits `problem` and shows each iteration to `observer`, which can stop it.
pub fn fit_observed<O: Observer + ?Sized>(
    problem: &Problem,
    settings: &Settings,
    observer: &mut O,
) -> Result<FittedModel, FitError> {
    fit_from(problem, settings, None, observer)
}

/// Fits `problem` from a start of its own, which must be of the problem's size and of the settings' noise.
pub fn fit_from<O: Observer + ?Sized>(
    problem: &Problem,
    settings: &Settings,
    start: Option<&Start>,
    observer: &mut O,
) -> Result<FittedModel, FitError> {
    let settings = settings.check()?;
    let solution = solve(problem, &settings, start, observer)?;
    Ok(FittedModel::new(problem, solution, settings.base_noise))
}
