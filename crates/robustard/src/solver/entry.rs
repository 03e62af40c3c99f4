//! The ways into the driver.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use faer::Par;
use thiserror::Error;

use super::driver::Fit;
use super::start::Start;
use super::{Iteration, Observer, Settings, SettingsError};
use crate::model::FittedModel;
use crate::posterior::FactorError;
use crate::problem::Problem;

/// Why a fit gave no model.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FitError {
    /// A setting is wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The posterior cannot be computed even at the start.
    #[error(
        "the posterior at the initial values cannot be computed ({0}); rescale the columns or change the initial values and bounds"
    )]
    Start(#[from] FactorError),
    /// The threads could not be started.
    #[error("could not start {threads} threads: {reason}; set threads to 1")]
    Threads {
        /// Threads asked for.
        threads: usize,
        /// What the system said.
        reason: String,
    },
}

/// Fits `problem`.
pub fn fit(problem: &Problem, settings: &Settings) -> Result<FittedModel, FitError> {
    fit_observed(problem, settings, &mut |_: &Iteration<'_>| ControlFlow::Continue(()))
}

/// Fits `problem` and shows each iteration to `observer`, which can stop it.
pub fn fit_observed<O: Observer + Send>(
    problem: &Problem,
    settings: &Settings,
    observer: &mut O,
) -> Result<FittedModel, FitError> {
    fit_from(problem, settings, None, observer)
}

/// Fits `problem` from a start of its own, which is passed over if it is of another size or noise.
pub fn fit_from<O: Observer + Send>(
    problem: &Problem,
    settings: &Settings,
    start: Option<&Start>,
    observer: &mut O,
) -> Result<FittedModel, FitError> {
    let settings = settings.check()?;
    let run = |par: Par, observer: &mut O| Fit::start(problem, &settings, start, par)?.run(observer);
    match settings.threads {
        1 => run(Par::Seq, observer),
        0 => run(if rayon::current_num_threads() == 1 { Par::Seq } else { Par::rayon(0) }, observer),
        threads => {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let pool = pool.map_err(|error| FitError::Threads { threads, reason: error.to_string() })?;
            pool.install(|| run(NonZeroUsize::new(threads).map_or(Par::Seq, Par::Rayon), observer))
        }
    }
}
