//! Regression methods that robustard is compared with, behind one interface: fit, predict a mean and a variance, and tell
//! which weights and rows are in use.
//!
//! ```
//! use faer::Mat;
//! use robustard_baselines::{Baseline, Penalty};
//!
//! let inputs = Mat::from_fn(20, 2, |i, j| ((3 * i + 7 * j) as f64).sin());
//! let target: Vec<f64> = (0..20).map(|i| 1.0 + 2.0 * inputs[(i, 0)] - inputs[(i, 1)]).collect();
//! let fitted = Baseline::Ridge { penalty: Penalty::LeaveOneOut }.fit(inputs.as_ref(), &target, 0)?;
//! let prediction = fitted.predict(inputs.as_ref())?;
//! assert!((prediction.mean[0] - target[0]).abs() < 1e-3);
//! # Ok::<(), robustard_baselines::BaselineError>(())
//! ```

mod cholesky;
mod error;
mod gp;
mod huber;
mod kernel;
mod linear;
mod named;
mod optimise;
mod sparse_gp;
mod student;

use faer::{MatRef, Par};

pub use error::BaselineError;
use gp::Process;
pub use gp::{LogEvidence, gp_log_evidence};
use linear::LinearModel;
pub use linear::{Penalty, ridge_leave_one_out};
pub use named::UnknownBaseline;
use sparse_gp::SparseProcess;
pub use sparse_gp::sparse_gp_bound;

/// A regression method to compare with.
///
/// All take a dense matrix of features, standardized by the caller. The linear ones add an intercept that is not penalised;
/// the Gaussian processes have the mean of the target as constant mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Baseline {
    /// Ordinary least squares; the solution of smallest norm when there are many.
    Ols,
    /// Least squares with a penalty on the squared weights.
    Ridge {
        /// How the penalty is chosen.
        penalty: Penalty,
    },
    /// Huber's regression with its scale σ estimated along, as in scikit-learn's `HuberRegressor` with its defaults.
    ///
    /// The variance is (σ/0.681)² everywhere, that of normal noise for which σ would be found: gross errors and the
    /// uncertainty of the weights are not part of it.
    Huber,
    /// Regression with Student-t noise, by EM (Geweke 1993).
    ///
    /// The variance is the mean of the rows' λᵢ plus that of the regression function with the λᵢ taken as known.
    StudentT {
        /// Degrees of freedom ν.
        degrees: f64,
    },
    /// Exact Gaussian process with a squared exponential kernel.
    Gp {
        /// One lengthscale per input instead of one for all.
        per_input: bool,
        /// Starts of the optimiser, at least 1; all but the first are random.
        starts: usize,
    },
    /// Sparse Gaussian process by Titsias' bound (2009), with one lengthscale.
    SparseGp {
        /// Inducing points, at least 1, chosen among the rows; all rows when there are fewer.
        points: usize,
    },
}

impl Baseline {
    /// Fits n × p inputs to n targets. The seed is used for random starts and the choice of inducing points.
    pub fn fit(&self, inputs: MatRef<'_, f64>, target: &[f64], seed: u64) -> Result<FittedBaseline, BaselineError> {
        error::check_training(inputs, target)?;
        match *self {
            Self::Ols => linear::fit_ols(inputs, target),
            Self::Ridge { penalty } => linear::fit_ridge(inputs, target, penalty),
            Self::Huber => huber::fit(inputs, target),
            Self::StudentT { degrees } => student::fit(inputs, target, degrees),
            Self::Gp { per_input, starts } => gp::fit(inputs, target, per_input, starts, seed),
            Self::SparseGp { points } => sparse_gp::fit(inputs, target, points, seed),
        }
    }
}

/// A baseline with all that was learnt.
#[derive(Debug, Clone)]
pub struct FittedBaseline {
    columns: usize,
    model: Model,
    /// One per weight, not negative.
    weight_size: Vec<f64>,
    row_weight: Vec<f64>,
    iterations: usize,
}

#[derive(Debug, Clone)]
enum Model {
    Linear(LinearModel),
    Gp(Box<Process>),
    SparseGp(Box<SparseProcess>),
}

impl FittedBaseline {
    /// Mean and variance of new observations at m × p inputs.
    pub fn predict(&self, inputs: MatRef<'_, f64>) -> Result<BaselinePrediction, BaselineError> {
        if inputs.ncols() != self.columns {
            return Err(BaselineError::Columns { expected: self.columns, found: inputs.ncols() });
        }
        error::check_inputs(inputs)?;
        Ok(match &self.model {
            Model::Linear(model) => model.predict(inputs),
            Model::Gp(process) => process.predict(inputs),
            Model::SparseGp(process) => process.predict(inputs),
        })
    }

    /// Weights of the linear methods, one per column, without the intercept.
    pub fn coefficients(&self) -> Option<&[f64]> {
        match &self.model {
            Model::Linear(model) => Some(&model.coefficients),
            Model::Gp(_) | Model::SparseGp(_) => None,
        }
    }

    /// Intercept of the linear methods.
    pub fn intercept(&self) -> Option<f64> {
        match &self.model {
            Model::Linear(model) => Some(model.intercept),
            Model::Gp(_) | Model::SparseGp(_) => None,
        }
    }

    /// Logs of the lengthscales, of σ_f² and of σ_n² of a Gaussian process, variances in the target's unit.
    #[doc(hidden)]
    pub fn kernel_logs(&self) -> Option<Vec<f64>> {
        match &self.model {
            Model::Linear(_) => None,
            Model::Gp(process) => Some(process.kernel_logs()),
            Model::SparseGp(process) => Some(process.kernel_logs()),
        }
    }

    /// Sizes of the weights, the largest of which is 1: all 1 for least squares, one |weight| per column for the other linear
    /// methods, one |dual weight| per row for the Gaussian process and per inducing point for the sparse one.
    pub fn weight_relevance(&self) -> Vec<f64> {
        let largest = self.weight_size.iter().copied().fold(0.0, f64::max);
        let unit = if largest > 0.0 { largest } else { 1.0 };
        self.weight_size.iter().map(|size| size / unit).collect()
    }

    /// Weight of each training row: min(1, εσ/|r|) for Huber, 1/λᵢ for Student-t, 1 for the others.
    pub fn row_weight(&self) -> Vec<f64> {
        self.row_weight.clone()
    }

    /// Iterations of the optimiser, evaluations of the evidence for Gaussian processes; 1 for closed forms.
    pub fn iterations(&self) -> usize {
        self.iterations
    }
}

/// Predicted distribution of new observations, one entry per row.
#[derive(Debug, Clone, PartialEq)]
pub struct BaselinePrediction {
    /// Mean.
    pub mean: Vec<f64>,
    /// Variance of a new observation, noise included.
    pub variance: Vec<f64>,
}

/// Below this size the second thread costs more than it gains.
const PARALLEL_SIZE: usize = 400;

/// Threads for work on matrices of this size.
fn parallelism(size: usize) -> Par {
    if size < PARALLEL_SIZE || rayon::current_num_threads() == 1 { Par::Seq } else { Par::rayon(0) }
}
