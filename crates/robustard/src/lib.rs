//! Regression that decides for itself which features and which rows deserve trust.
//!
//! robustard learns one precision γⱼ per feature and one noise variance λᵢ per row by maximizing the marginal likelihood
//! ("joint automatic relevance determination"):
//!
//! ```text
//! y = Φ(x) θ + ε,    θⱼ ~ N(0, 1/γⱼ),    εᵢ ~ N(0, λᵢ)
//! ```
//!
//! A large γⱼ means that feature j does not matter, a large λᵢ that row i is not to be relied upon. Out come a sparse and
//! robust predictor with error bars, the features that matter and a ranked list of rows to look at.
//!
//! ```
//! use robustard::faer::Mat;
//! use robustard::{Control, Dataset, Recipe, fit};
//!
//! // Three inputs, of which the third does not matter; row 7 is wrong.
//! let inputs = Mat::from_fn(60, 3, |i, j| ((i * (2 * j + 3)) as f64 * 0.7).sin());
//! let value = |i: usize| 10.0 + 2.0 * inputs[(i, 0)] - inputs[(i, 1)] + 0.01 * (i as f64 * 1.9).cos();
//! let mut target: Vec<f64> = (0..60).map(value).collect();
//! target[7] += 5.0;
//!
//! let dataset = Dataset::new(inputs.as_ref(), &target)?;
//! let regression = fit(&dataset, &Recipe::default(), &Control::new())?;
//!
//! assert_eq!(regression.diagnostics().flagged_rows(), [7]);
//! let prediction = regression.predict(inputs.as_ref())?;
//! let interval = prediction.interval(0.95)?;
//! println!("{} in [{}, {}]", prediction.mean[0], interval.lower[0], interval.upper[0]);
//! # assert!((prediction.mean[7] - (target[7] - 5.0)).abs() < 0.05);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The way the data goes, in one direction: a [`Dataset`] holds the checked numbers; a [`Recipe`] says what is fitted, or leaves
//! it to the data; [`fit()`] makes a [`Design`] (scaling, intercept, [`features`]), hands the problem to the [`engine`] and gives
//! back a [`Regression`], which predicts and diagnoses in the target's units. A [`Control`] watches and stops all of it. Those who
//! study solvers use the [`engine`] itself.

pub use faer;
pub use robustard_engine as engine;

/// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod calibration;
mod control;
mod dataset;
mod design;
mod diagnostics;
mod effects;
mod error;
pub mod features;
mod fitted;
mod input_column;
mod learn;
mod moments;
mod quality;
mod range;
mod recipe;
mod regression;
mod scaling;
mod selection;
mod standard_errors;
mod stream;
mod summary;
mod target;
mod triangle;
mod validation;
mod widths;
mod work;

pub use control::{Control, ControlError, Progress, Stage};
pub use dataset::{Column, Dataset, DatasetError};
pub use design::{Beyond, Design};
pub use diagnostics::Diagnostics;
pub use effects::{
    Collinear, ColumnEffect, ColumnValue, EffectPoint, Effects, Explanation, Interaction, SimilarRow, Standing,
};
pub use error::Error;
pub use fitted::{SuspiciousRow, Whole};
pub use input_column::{InputColumn, InputKind};
pub use moments::Moments;
pub use quality::{Miscoverage, Part, PartCoverage, Quality};
pub use range::Range;
pub use recipe::{Choice, IntervalRows, Options, Recipe, RecipeError, suggestion};
pub use regression::{Means, Prediction, Regression, fit};
pub use robustard_engine::{
    BaseNoise, Degrees, Interval, IterationRecord, Noise, PredictError, Preset, Settings, SolverKind, Status, Stop,
    metrics,
};
pub use scaling::Standardizer;
pub use selection::{Compared, Reason, Selection};
pub use stream::{
    Keep, RowMaker, RowPasses, RowStream, RowSummary, SAMPLE_ROWS, Show, StreamError, StreamTask, diagnose_stream,
    fit_passes, fit_stream,
};
pub use summary::FeatureSummary;
pub use target::{TargetScale, TargetTransform};
pub use validation::{Fold, Scores, cross_validate, folds, validate};
