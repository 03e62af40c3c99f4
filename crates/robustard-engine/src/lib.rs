//! Regression that decides for itself which features and which rows deserve trust.
//!
//! robustard learns one precision γⱼ per feature and one noise variance λᵢ per row by maximizing the marginal likelihood
//! ("joint automatic relevance determination"):
//!
//! ```text
//! y = X θ + ε,    θⱼ ~ N(0, 1/γⱼ),    εᵢ ~ N(0, λᵢ)
//! ```
//!
//! A large γⱼ means that feature j does not matter, a large λᵢ that row i is not to be relied upon. Out come a sparse and
//! robust predictor with error bars, the features that matter and a ranked list of rows to look at.
//!
//! ```
//! use robustard_engine::faer::Mat;
//! use robustard_engine::{Problem, Settings, fit};
//!
//! // Three columns, of which the third does not matter; row 7 is wrong.
//! let x = Mat::from_fn(40, 3, |i, j| ((i * (2 * j + 3)) as f64 * 0.7).sin());
//! let mut y: Vec<f64> = (0..40).map(|i| 2.0 * x[(i, 0)] - x[(i, 1)] + 0.01 * (i as f64 * 1.9).cos()).collect();
//! y[7] += 5.0;
//!
//! let problem = Problem::new(x.as_ref(), &y)?;
//! let model = fit(&problem, &Settings::default())?;
//!
//! assert!((model.coefficients()[0] - 2.0).abs() < 0.02);
//! assert!(model.coefficients()[2].abs() < 0.02);
//! assert_eq!(model.diagnose().ranking()[0], 7);
//!
//! let prediction = model.predict(x.as_ref())?;
//! let interval = prediction.interval(0.95)?;
//! println!("{} in [{}, {}]", prediction.mean[0], interval.lower[0], interval.upper[0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The way the data goes: a [`Problem`] holds the checked design matrix and target, [`Settings`] choose the solver and the
//! noise, [`fit`] runs the solver under one driver, and the [`FittedModel`] predicts and diagnoses.

//!
//! Modules, each of which uses only those before it: stop, math, metrics, problem, noise, predictive, prediction, posterior,
//! state, evidence, growth, passes, solver, model, diagnostics, fit.

pub use faer;

pub mod diagnostics;
mod evidence;
mod fit;
pub mod growth;
pub mod math;
pub mod metrics;
mod model;
pub mod noise;
pub mod passes;
mod posterior;
mod prediction;
mod predictive;
pub mod problem;
pub mod solver;
pub mod state;
mod stop;

pub use diagnostics::Diagnostics;
pub use fit::{FitError, fit, fit_from, fit_observed};
pub use model::{Course, FittedModel, RowRule, Seen, TrainingRows};
pub use noise::{Degrees, Noise};
pub use posterior::Route;
pub use prediction::{Interval, LatentPrediction, PredictError, Prediction};
pub use predictive::{BaseNoise, LeftOut, PredictiveNoise};
pub use problem::{Problem, ProblemError, RowSource};
pub use solver::{
    Acceleration, Iteration, IterationRecord, Observer, Outcome, Preset, Settings, SettingsError, SolverError,
    SolverKind, Start, StartError, Status, Units,
};
pub use stop::Stop;

/// Tests that look inside: everything else is tested from outside, in `tests/`.
#[cfg(test)]
mod tests;
#[cfg(test)]
extern crate self as robustard_engine;
