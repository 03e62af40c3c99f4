//! Experiments: [`protocol`] makes splits of public data sets, [`default`] compares the default with what it replaces on them,
//! [`verdict`] sums that up; [`synthetic`] has sparse linear data of which everything is known.

pub mod default;
pub mod protocol;
pub mod synthetic;
pub mod verdict;

use robustard_table::{RegressionError, TableError};
use thiserror::Error;

/// Why an experiment could not be run.
#[derive(Debug, Error)]
pub enum LabError {
    /// A data set cannot be read.
    #[error("{0}; give the folder of the data sets by --data or ROBUSTARD_DATA")]
    Data(#[from] TableError),
    /// There is no such data set.
    #[error("there is no data set '{name}'; they are {known}")]
    UnknownSet {
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A matrix cannot be a problem.
    #[error(transparent)]
    Problem(#[from] robustard::ProblemError),
    /// A solver failed.
    #[error(transparent)]
    Solver(#[from] robustard::FitError),
    /// A fit failed.
    #[error("{set}, seed {seed}, {method}: {error}")]
    Fit {
        /// Data set.
        set: String,
        /// Seed.
        seed: u64,
        /// Method.
        method: String,
        /// Why.
        error: Box<RegressionError>,
    },
}
