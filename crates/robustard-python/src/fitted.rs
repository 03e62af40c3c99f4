//! Fitted regressions.

use std::path::PathBuf;
use std::time::Instant;

use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use robustard::Settings;
use robustard::faer::Mat;
use robustard::features::Basis;
use robustard_report::{Report, noise_words, status_words};
use robustard_table::{
    Column, ColumnKind, NamedOptions, Regression, TableMeans, load_model, model_from_bytes, model_to_bytes, save_model,
};

use crate::frame::Frame;
use crate::working::{uninterrupted, watched};

/// The engine's messages speak of options as the command line has them.
fn bad_value(error: impl std::fmt::Display) -> PyErr {
    let mut text = error.to_string();
    for value in ["drop", "impute"] {
        text = text.replace(&format!("--missing {value}"), &format!("missing=\"{value}\""));
    }
    PyValueError::new_err(text)
}

fn named(options: &str) -> PyResult<NamedOptions> {
    serde_json::from_str(options).map_err(bad_value)
}

/// The settings that hold where none are given, as JSON.
#[pyfunction]
pub fn default_settings() -> PyResult<String> {
    serde_json::to_string(&Settings::default()).map_err(bad_value)
}

/// Fits the column that the options (JSON) call target.
#[pyfunction]
#[pyo3(signature = (frame, options, progress=None))]
pub fn fit(py: Python<'_>, frame: &Frame, options: &str, progress: Option<Py<PyAny>>) -> PyResult<Fitted> {
    let mut options = named(options)?.options().map_err(bad_value)?;
    // The pool of threads holds for everything; the engine then uses all of it.
    let threads = std::mem::take(&mut options.settings.threads);
    let table = &frame.table;
    let work = |mut watch: &_| {
        let started = Instant::now();
        (Regression::fit(table, &options, &mut watch), started.elapsed().as_secs_f64())
    };
    let ((fitted, seconds), interrupted) = watched(py, threads, progress.as_ref(), work)?;
    let fitted = fitted.map_err(bad_value)?;
    Ok(Fitted { regression: fitted.regression, notes: fitted.notes, interrupted, seconds })
}

/// Reads a model file.
#[pyfunction]
pub fn load(path: PathBuf) -> PyResult<Fitted> {
    load_model(&path).map(Fitted::known).map_err(|error| PyOSError::new_err(error.to_string()))
}

/// A fitted regression.
#[pyclass(frozen, module = "robustard._robustard")]
pub struct Fitted {
    regression: Regression,
    /// Things to tell the user.
    #[pyo3(get)]
    notes: Vec<String>,
    /// Whether Ctrl-C came during the fit.
    #[pyo3(get)]
    interrupted: bool,
    /// What the fit took.
    #[pyo3(get)]
    seconds: f64,
}

impl Fitted {
    fn known(regression: Regression) -> Self {
        Self { regression, notes: Vec::new(), interrupted: false, seconds: 0.0 }
    }
}

fn array<'py>(py: Python<'py>, values: &[f64]) -> Bound<'py, PyArray1<f64>> {
    PyArray1::from_slice(py, values)
}

fn scaled<'py>(py: Python<'py>, values: &[f64], factor: f64) -> Bound<'py, PyArray1<f64>> {
    values.iter().map(|value| factor * value).collect::<Vec<f64>>().into_pyarray(py)
}

fn matrix<'py>(py: Python<'py>, values: &Mat<f64>) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let flat: Vec<f64> = values.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<_>>()).collect();
    flat.into_pyarray(py).reshape([values.nrows(), values.ncols()])
}

#[pymethods]
impl Fitted {
    /// Writes a model file.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        save_model(&self.regression, &path).map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// The model file as bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &model_to_bytes(&self.regression).map_err(bad_value)?))
    }

    /// The model in bytes.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        model_from_bytes(bytes).map(Self::known).map_err(bad_value)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let bytes = self.to_bytes(py)?;
        Ok((py.get_type::<Self>().getattr("from_bytes")?, PyTuple::new(py, [bytes])?))
    }

    /// Means, standard deviations and the ends of intervals, and which rows they are of.
    fn predict<'py>(&self, py: Python<'py>, frame: &Frame, level: f64, threads: usize) -> PyResult<Bound<'py, PyDict>> {
        let prediction = uninterrupted(py, threads, || self.regression.predict(&frame.table, level))?;
        let prediction = prediction.map_err(bad_value)?;
        let dict = PyDict::new(py);
        dict.set_item("rows", prediction.rows.into_pyarray(py))?;
        for (name, values) in [
            ("mean", prediction.mean),
            ("std", prediction.std),
            ("lower", prediction.lower),
            ("upper", prediction.upper),
        ] {
            dict.set_item(name, values.into_pyarray(py))?;
        }
        dict.set_item("notes", prediction.notes)?;
        Ok(dict)
    }

    /// The means alone.
    fn predict_mean<'py>(&self, py: Python<'py>, frame: &Frame, threads: usize) -> PyResult<Bound<'py, PyDict>> {
        let predicted = uninterrupted(py, threads, || self.regression.predict_mean(&frame.table))?;
        let TableMeans { rows, mean, notes } = predicted.map_err(bad_value)?;
        let dict = PyDict::new(py);
        dict.set_item("rows", rows.into_pyarray(py))?;
        dict.set_item("mean", mean.into_pyarray(py))?;
        dict.set_item("notes", notes)?;
        Ok(dict)
    }

    /// Covariance of the regression function at the rows, without noise, in squared target units.
    fn covariance<'py>(&self, py: Python<'py>, frame: &Frame, threads: usize) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let covariance = uninterrupted(py, threads, || self.regression.latent_covariance(&frame.table))?;
        matrix(py, &covariance.map_err(bad_value)?)
    }

    /// Covariance of the features' coefficients in the user's units.
    fn coefficient_covariance<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        matrix(py, &self.regression.coefficient_covariance())
    }

    /// Diagnostics of the fitted rows, in the target's units where they have any.
    fn diagnose<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let diagnostics = self.regression.diagnose();
        let unit = self.regression.target.deviation;
        let dict = PyDict::new(py);
        for (name, values, factor) in [
            ("residual", &diagnostics.residual, unit),
            ("loo_residual", &diagnostics.loo_residual, unit),
            ("noise_variance", &self.regression.model.rows.noise_variance, unit * unit),
            ("latent_variance", &self.regression.model.rows.latent_variance, unit * unit),
            ("loo_latent_variance", &diagnostics.loo_latent_variance, unit * unit),
            ("weight", &self.regression.model.rows.weight, 1.0),
            ("leverage", &diagnostics.leverage, 1.0),
            ("cooks_distance", &diagnostics.cooks_distance, 1.0),
            ("dffits", &diagnostics.dffits, 1.0),
            ("standard_residual", &diagnostics.standard_residual, 1.0),
            ("student_residual", &diagnostics.student_residual, 1.0),
            ("z", &diagnostics.z, 1.0),
        ] {
            dict.set_item(name, scaled(py, values, factor))?;
        }
        dict.set_item("flagged", diagnostics.flagged.into_pyarray(py))?;
        dict.set_item("outlier_probability", diagnostics.outlier_probability.map(|p| p.into_pyarray(py)))?;
        dict.set_item("threshold", diagnostics.threshold)?;
        let actual: Vec<f64> = (0..self.regression.rows.len()).map(|row| self.regression.actual(row)).collect();
        dict.set_item("actual", actual.into_pyarray(py))?;
        Ok(dict)
    }

    /// The features that have a meaning of their own, in their own order, in the user's units.
    fn features<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let features = self.regression.features_in_units();
        let dict = PyDict::new(py);
        dict.set_item("names", features.iter().map(|feature| feature.name.clone()).collect::<Vec<_>>())?;
        let of =
            |value: fn(&robustard_table::FeatureSummary) -> f64| -> Vec<f64> { features.iter().map(value).collect() };
        dict.set_item("coefficient", of(|feature| feature.coefficient).into_pyarray(py))?;
        dict.set_item("standard_error", of(|feature| feature.standard_error).into_pyarray(py))?;
        dict.set_item("relevance", of(|feature| feature.relevance).into_pyarray(py))?;
        dict.set_item("precision", self.regression.precisions_in_units().into_pyarray(py))?;
        let kept: Vec<bool> = features.iter().map(|feature| feature.kept).collect();
        dict.set_item("kept", kept.into_pyarray(py))?;
        Ok(dict)
    }

    /// Everything about the fit that is small, as JSON.
    fn facts(&self) -> String {
        let Regression { model, options, target, quality, rows, choice, set_aside, encoder, .. } = &self.regression;
        let is_category = |column: &&Column| matches!(column.kind, ColumnKind::Category { .. });
        let own = if options.intercept { model.coefficients[0] } else { 0.0 };
        let intercept = self.regression.intercept_in_units().unwrap_or(target.mean + target.deviation * own);
        serde_json::json!({
            "status": model.status(),
            "status_words": status_words(model.status()),
            "iterations": model.iterations(),
            "seconds": model.outcome.elapsed.as_secs_f64(),
            "objective": model.outcome.objective,
            "evidence": -model.neg_log_evidence - model.rows.weight.iter().sum::<f64>() * target.deviation.ln(),
            "effective_weights": model.effective_weights(),
            "effective_rows": model.effective_rows(),
            "inlier_variance": model.inlier_variance() * target.deviation.powi(2),
            "intercept": intercept,
            "target": encoder.target,
            "features": options.features.kind.to_string(),
            "noise": options.settings.noise,
            "noise_words": noise_words(&options.settings),
            "solver": options.settings.solver,
            "quality": quality,
            "optimistic": self.regression.quality_is_optimistic(),
            "rows": rows.len(),
            "choice": choice,
            "set_aside": set_aside,
            "left_out": encoder.left_out,
            "columns": encoder.columns.iter().map(|column| &column.name).collect::<Vec<_>>(),
            "categories": encoder.columns.iter().filter(is_category).map(|column| &column.name).collect::<Vec<_>>(),
            "missing": encoder.missing,
            "weights": encoder.weights,
        })
        .to_string()
    }

    /// How the model was fitted, as JSON: every option by name.
    fn options(&self) -> PyResult<String> {
        serde_json::to_string(&self.regression.options).map_err(bad_value)
    }

    /// The rows of the training table that were fitted.
    fn rows<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<usize>> {
        PyArray1::from_slice(py, &self.regression.rows)
    }

    /// Minus the objective after each iteration.
    fn scores<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        let trace = &self.regression.model.outcome.trace;
        trace.iter().map(|record| -record.objective).collect::<Vec<f64>>().into_pyarray(py)
    }

    /// The names of the groups of features that share a precision, by the numbers that paths have.
    fn group_names(&self) -> Vec<String> {
        let regression = &self.regression;
        let names = regression.features.names(&regression.encoder.names());
        let groups = regression.feature_groups();
        let count = groups.iter().max().map_or(0, |last| last + 1);
        let mut joined = vec![String::new(); count];
        for (name, &group) in names.iter().zip(&groups) {
            match joined[group].as_str() {
                "" => joined[group].clone_from(name),
                known if !known.ends_with('…') => joined[group].push_str(", …"),
                _ => {}
            }
        }
        joined
    }

    /// Share of the rows inside their leave-one-out interval of a level.
    fn coverage(&self, level: f64) -> PyResult<f64> {
        if !(level > 0.0 && level < 1.0) {
            return Err(bad_value(format!("the level is {level}; it must be between 0 and 1, for example 0.95")));
        }
        Ok(self.regression.coverage(level))
    }

    /// Relevances over the iterations, as JSON.
    fn paths(&self) -> PyResult<String> {
        serde_json::to_string(&self.regression.paths).map_err(bad_value)
    }

    /// The fitted rows that kernel functions stand on, in use or not; None for other features.
    fn centre_rows(&self) -> Option<Vec<usize>> {
        match &self.regression.features.basis {
            Basis::Kernel(kernel) => Some(kernel.rows.clone()),
            _ => None,
        }
    }

    /// The kernel functions in use: fitted rows, their inputs, their weights in the target's units; None for other features.
    #[allow(clippy::type_complexity)]
    fn relevance_vectors<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(Vec<usize>, Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>)>> {
        let regression = &self.regression;
        let Basis::Kernel(kernel) = &regression.features.basis else { return Ok(None) };
        let first = usize::from(regression.options.intercept);
        let columns = regression.model.active_columns.iter().filter_map(|column| column.checked_sub(first));
        let columns: Vec<usize> = columns.collect();
        let scaling = &regression.features.inputs;
        let inputs = scaling.mean.len();
        let centres = Mat::from_fn(columns.len(), inputs, |k, j| {
            scaling.mean[j] + scaling.scale[j] * kernel.centres[columns[k] * inputs + j]
        });
        let weights: Vec<f64> = columns
            .iter()
            .map(|column| regression.target.deviation * regression.model.coefficients[column + first])
            .collect();
        let rows = columns.iter().map(|&column| kernel.rows[column]).collect();
        Ok(Some((rows, matrix(py, &centres)?, array(py, &weights))))
    }

    /// The page about the fit; the table must be that of the fit.
    fn report(&self, py: Python<'_>, frame: &Frame, source: &str, threads: usize) -> PyResult<String> {
        let page = uninterrupted(py, threads, || {
            if !self.regression.was_fitted_to(&frame.table).map_err(|error| error.to_string())? {
                return Err(
                    "this is not the table that the model was fitted to; give X and y as they were in fit".to_owned()
                );
            }
            Ok(Report::new(&self.regression, &frame.table, source).map_err(|error| error.to_string())?.html())
        });
        page?.map_err(bad_value)
    }
}
