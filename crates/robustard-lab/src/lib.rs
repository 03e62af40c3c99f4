//! Experiments: [`protocol`] makes splits of public data sets, [`default`] compares the default with what it replaces on them,
//! [`verdict`] sums that up; [`synthetic`] has sparse linear data of which everything is known.

pub mod blr;
pub mod default;
pub mod document;
pub mod experiment;
pub mod findings;
pub mod kernel;
pub mod mcycle;
pub mod method;
pub mod neural;
pub mod paper;
pub mod protocol;
pub mod results;
pub mod runner;
pub mod stars;
pub mod synthetic;
pub mod tabular;
pub mod trial;
pub mod verdict;

use robustard_table::TableError;
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
    /// There is no such method.
    #[error("there is no method '{name}'; they are {known}")]
    UnknownMethod {
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Nobody knows the noise of real data.
    #[error("there is an oracle for synthetic data only")]
    NoOracle,
    /// A baseline failed.
    #[error(transparent)]
    Baseline(#[from] robustard_baselines::BaselineError),
    /// A model cannot predict.
    #[error(transparent)]
    Predict(#[from] robustard::PredictError),
    /// A regression failed.
    #[error(transparent)]
    Regression(#[from] robustard::Error),
    /// A file cannot be read or written.
    #[error("{path}: {reason}")]
    File {
        /// Which.
        path: String,
        /// Why.
        reason: String,
    },
    /// A file of results is damaged.
    #[error("line {line} of {path} is not a result; remove the file to run the experiment again")]
    BadResults {
        /// Which.
        path: String,
        /// The line, from 1.
        line: usize,
    },
    /// Threads could not be started.
    #[error("no thread could be started: {0}")]
    Threads(String),
    /// Several jobs failed.
    #[error("{count} jobs failed; the first: {first}")]
    Failures {
        /// How many.
        count: usize,
        /// One of them.
        first: Box<LabError>,
    },
    /// Another process adds to the same results.
    #[error("another process is adding to {0}; wait for it, or give another folder by --results")]
    Busy(String),
    /// Results of other settings or data.
    #[error(
        "{path} holds results of other settings or data; give another folder by --results, or remove it to begin anew"
    )]
    Stale {
        /// The file.
        path: String,
    },
    /// Nothing to run.
    #[error(
        "none of these methods and data sets belong to {experiment}; its methods are {methods}; its data sets {datasets}"
    )]
    NothingToRun {
        /// The experiment.
        experiment: &'static str,
        /// Its methods.
        methods: String,
        /// Its data sets.
        datasets: String,
    },
    /// A method that this experiment does not have.
    #[error("{method} is no method of this experiment")]
    NotHere {
        /// The method.
        method: String,
    },
    /// A job failed.
    #[error("{dataset}, {condition}, {method}, trial {trial}: {error}")]
    Job {
        /// Data set.
        dataset: String,
        /// Condition.
        condition: String,
        /// Method.
        method: String,
        /// Trial.
        trial: u64,
        /// Why.
        error: Box<LabError>,
    },
    /// A condition lacks a number.
    #[error("the condition '{condition}' has no {name}")]
    BadCondition {
        /// The condition.
        condition: String,
        /// What is missing.
        name: &'static str,
    },
    /// A matrix cannot be a problem.
    #[error(transparent)]
    Problem(#[from] robustard::engine::ProblemError),
    /// A solver failed.
    #[error(transparent)]
    Solver(#[from] robustard::engine::FitError),
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
        error: Box<robustard_table::ModelError>,
    },
}

impl LabError {
    fn file(path: &std::path::Path, error: std::io::Error) -> Self {
        Self::File { path: path.display().to_string(), reason: error.to_string() }
    }

    fn job(job: &results::Job, error: LabError) -> Self {
        let results::Job { dataset, condition, method, trial } = job.clone();
        Self::Job { dataset, condition, method, trial, error: Box::new(error) }
    }
}
