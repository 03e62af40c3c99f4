//! Why a regression failed.

use robustard_engine::{FitError, PredictError, ProblemError};
use thiserror::Error;

use crate::control::ControlError;
use crate::dataset::DatasetError;
use crate::features::FeatureError;
use crate::recipe::RecipeError;

/// Why a regression failed.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// The numbers.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The options.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The features.
    #[error(transparent)]
    Features(#[from] FeatureError),
    /// The design.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// The fit.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// The prediction.
    #[error(transparent)]
    Predict(#[from] PredictError),
    /// The threads.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Inputs that share a precision, with a solver that needs one for each.
    #[error(
        "the growing solver needs one precision per column, but {} share one (the levels of a category do); use em or another solver",
        .names.join(", ")
    )]
    SharedPrecision {
        /// What they are called.
        names: Vec<String>,
    },
    /// A checkpoint of another fit, or a damaged one.
    #[error("the checkpoint is of another fit, or damaged: {reason}; remove it to begin anew")]
    Checkpoint {
        /// What is wrong.
        reason: String,
    },
    /// The logarithm of a target that has none.
    #[error(
        "the target is {value} in row {}: log is for targets that are all above 0; use asinh, which is nearly the same where targets \
         are large, or none", .row + 1
    )]
    LogOfTarget {
        /// Row, counted from 0.
        row: usize,
        /// The target.
        value: f64,
    },
    /// The work was stopped and has no result.
    #[error("stopped before there was a result")]
    Stopped,
}
