//! Maps from raw inputs to design matrices. A fitted map is applied unchanged to new rows.

mod fourier;
mod kernel;
mod map;
mod polynomial;
mod range;
mod smooth;
mod standardize;
mod waves;

use faer::MatRef;
use thiserror::Error;

pub use crate::learn::{Curve, Effort, Shape};
pub use fourier::Fourier;
pub use kernel::Kernel;
pub use map::{
    Basis, DEFAULT_WAVES, FeatureKind, FeatureKindError, FeatureMap, FeatureOptions, Lengthscale, LengthscaleError,
};
pub use polynomial::Polynomial;
pub use range::Range;
pub use smooth::{Gap, LearntSmooth, Smooth, SmoothOptions};
pub use standardize::Standardizer;
pub use waves::{Training, Waves};

/// Why a map cannot be made or applied.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FeatureError {
    /// Wrong number of columns.
    #[error("the feature map has {expected} input columns but the rows have {found}; give the columns it was made for")]
    ColumnCount {
        /// Inputs of the map.
        expected: usize,
        /// Columns given.
        found: usize,
    },
    /// No posterior could be computed while lengthscales were learnt.
    #[error(
        "lengthscales cannot be learnt from these rows; use linear features, or rff or rbf with a given lengthscale"
    )]
    NotLearnt,
    /// A curve was asked for only if there is one.
    #[error("a curve explains {rows} rows only {gain:.1} nats better than lines; use linear features")]
    Straight {
        /// Nats.
        gain: f64,
        /// Rows.
        rows: usize,
    },
    /// A parameter out of range.
    #[error("the {name} of the feature map is {value}; it must be finite and above 0")]
    NotPositive {
        /// The parameter.
        name: &'static str,
        /// The value given.
        value: f64,
    },
}

fn check_columns(expected: usize, inputs: MatRef<'_, f64>) -> Result<(), FeatureError> {
    let found = inputs.ncols();
    if found == expected { Ok(()) } else { Err(FeatureError::ColumnCount { expected, found }) }
}

fn check_positive(name: &'static str, value: f64) -> Result<(), FeatureError> {
    if value.is_finite() && value > 0.0 { Ok(()) } else { Err(FeatureError::NotPositive { name, value }) }
}
