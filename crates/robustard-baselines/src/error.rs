//! What can be wrong with the input, and the checks for it.

use faer::MatRef;
use thiserror::Error;

/// Why a baseline could not be fitted or asked for predictions. Rows and columns are counted from 1.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum BaselineError {
    /// No rows to learn from.
    #[error("there are no rows to fit; give at least one")]
    NoRows,
    /// No columns to learn from.
    #[error("there are no input columns; give at least one")]
    NoColumns,
    /// Inputs and target differ in length.
    #[error("the inputs have {rows} rows but the target has {values} values; give one value per row")]
    Lengths {
        /// Rows of the inputs.
        rows: usize,
        /// Values of the target.
        values: usize,
    },
    /// An input that is not a number, or infinite.
    #[error("the input in row {row}, column {column} is {value}; remove the row or fill in a finite number")]
    InputNotFinite {
        /// Row, counted from 1.
        row: usize,
        /// Column, counted from 1.
        column: usize,
        /// What was found.
        value: f64,
    },
    /// A target that is not a number, or infinite.
    #[error("the target in row {row} is {value}; remove the row or fill in a finite number")]
    TargetNotFinite {
        /// Row, counted from 1.
        row: usize,
        /// What was found.
        value: f64,
    },
    /// Inputs to predict from with another number of columns.
    #[error("the model was fitted to {expected} columns but the new inputs have {found}; give the same columns")]
    Columns {
        /// Columns of the training inputs.
        expected: usize,
        /// Columns of the new inputs.
        found: usize,
    },
    /// A setting out of its range.
    #[error("{name} is {value}; it must be {expected}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// What was given.
        value: f64,
        /// What is allowed.
        expected: &'static str,
    },
    /// A matrix that could not be decomposed.
    #[error("{what} could not be decomposed; look for inputs or targets of extreme size and standardize them")]
    Decomposition {
        /// The matrix.
        what: &'static str,
    },
}

pub(crate) fn check_training(inputs: MatRef<'_, f64>, target: &[f64]) -> Result<(), BaselineError> {
    if inputs.nrows() != target.len() {
        return Err(BaselineError::Lengths { rows: inputs.nrows(), values: target.len() });
    }
    if inputs.nrows() == 0 {
        return Err(BaselineError::NoRows);
    }
    if inputs.ncols() == 0 {
        return Err(BaselineError::NoColumns);
    }
    check_inputs(inputs)?;
    match target.iter().position(|value| !value.is_finite()) {
        Some(row) => Err(BaselineError::TargetNotFinite { row: row + 1, value: target[row] }),
        None => Ok(()),
    }
}

pub(crate) fn check_inputs(inputs: MatRef<'_, f64>) -> Result<(), BaselineError> {
    for (j, column) in inputs.col_iter().enumerate() {
        if let Some(i) = column.iter().position(|value| !value.is_finite()) {
            return Err(BaselineError::InputNotFinite { row: i + 1, column: j + 1, value: column[i] });
        }
    }
    Ok(())
}

pub(crate) fn check_setting(
    name: &'static str,
    value: f64,
    is_allowed: bool,
    expected: &'static str,
) -> Result<(), BaselineError> {
    if is_allowed { Ok(()) } else { Err(BaselineError::Setting { name, value, expected }) }
}
