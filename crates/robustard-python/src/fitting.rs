//! Fits to tables and to numbers in memory.

use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use robustard::{Control, Dataset, Options, Recipe};
use robustard_table::{EncodeOptions, Encoder, ModelError, TableModel};

use crate::fitted::Fitted;
use crate::frame::{Frame, view};
use crate::working::watched;

/// The messages speak of options as the command line has them.
pub fn bad_value(error: impl std::fmt::Display) -> PyErr {
    let mut text = error.to_string();
    for value in ["drop", "impute"] {
        text = text.replace(&format!("--missing {value}"), &format!("missing=\"{value}\""));
    }
    for (own, python) in [("max_iterations", "max_iter"), ("tolerance", "tol"), ("seed", "random_state")] {
        for what in ["option", "setting"] {
            text = text.replace(&format!("the {what} {own} "), &format!("the {what} {python} "));
        }
    }
    PyValueError::new_err(text)
}

fn recipe(options: &str) -> PyResult<Recipe> {
    if let Ok(options) = serde_json::from_str::<Options>(options) {
        return options.recipe().map_err(bad_value);
    }
    // One by one, the wrong one is named.
    let all: serde_json::Map<String, serde_json::Value> = serde_json::from_str(options).map_err(bad_value)?;
    let mut options = Options::default();
    all.iter().try_for_each(|(name, value)| options.set(name, value)).map_err(bad_value)?;
    options.recipe().map_err(bad_value)
}

/// The names of all options.
#[pyfunction]
pub fn option_names() -> Vec<&'static str> {
    Options::names()
}

/// Where a fit is made and how it is called.
#[derive(FromPyObject)]
pub struct Call<'py> {
    #[pyo3(item)]
    options: String,
    #[pyo3(item)]
    threads: usize,
    #[pyo3(item)]
    progress: Option<Bound<'py, PyAny>>,
    #[pyo3(item)]
    estimator: String,
}

impl Call<'_> {
    /// The class and the parameters that the model is made by.
    pub fn estimator(&self) -> &str {
        &self.estimator
    }
}

pub fn run<T: Send>(
    py: Python<'_>,
    call: &Call<'_>,
    work: impl FnOnce(&Recipe, &Control) -> Result<T, ModelError> + Send,
) -> PyResult<(T, bool)> {
    let recipe = recipe(&call.options)?;
    let progress = call.progress.as_ref().map(|progress| progress.clone().unbind());
    let (result, interrupted) = watched(py, call.threads, progress, |control| work(&recipe, control))?;
    Ok((result.map_err(bad_value)?, interrupted))
}

/// Fits a column of a table; `columns` (JSON) says which, and how the others are used.
#[pyfunction]
pub fn fit_table(py: Python<'_>, frame: &Frame, columns: &str, call: Call<'_>) -> PyResult<Fitted> {
    let columns: EncodeOptions = serde_json::from_str(columns).map_err(bad_value)?;
    let table = &frame.table;
    let (fitted, interrupted) = run(py, &call, |recipe, control| TableModel::fit(table, &columns, recipe, control))?;
    let model = fitted.model.with_estimator(&call.estimator);
    Ok(Fitted::new(model, fitted.notes, interrupted))
}

/// What the columns of numbers are called, and what is done where they are missing.
#[derive(FromPyObject)]
pub struct Names {
    /// None for the usual names, x0, x1, …
    #[pyo3(item)]
    inputs: Option<Vec<String>>,
    #[pyo3(item)]
    target: String,
    #[pyo3(item)]
    weights: Option<String>,
    #[pyo3(item)]
    missing: String,
}

/// Fits numbers: all rows of a matrix of any layout, which is not copied on the way.
#[pyfunction]
pub fn fit_numbers(
    py: Python<'_>,
    inputs: PyReadonlyArray2<'_, f64>,
    target: PyReadonlyArray1<'_, f64>,
    weights: Option<PyReadonlyArray1<'_, f64>>,
    names: Names,
    call: Call<'_>,
) -> PyResult<Fitted> {
    let missing = serde_json::from_value(names.missing.into()).map_err(bad_value)?;
    let matrix = view(&inputs)?;
    let target = target.as_slice().map_err(bad_value)?;
    let mut dataset = Dataset::new(matrix, target).map_err(bad_value)?;
    if let Some(inputs) = names.inputs {
        dataset = dataset.with_names(inputs).map_err(bad_value)?;
    }
    if let Some(weights) = &weights {
        dataset = dataset.with_weights(weights.as_slice().map_err(bad_value)?).map_err(bad_value)?;
    }
    let encoder = Encoder::of_numbers(dataset.names().to_vec(), names.target, names.weights, missing);
    let (model, interrupted) =
        run(py, &call, |recipe, control| TableModel::fit_data(encoder, &dataset, recipe, control))?;
    Ok(Fitted::new(model.with_estimator(&call.estimator), Vec::new(), interrupted))
}
