//! Fitted models.

use std::path::PathBuf;

use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use robustard::faer::Mat;
use robustard::features::FeatureMap;
use robustard::{Control, FeatureSummary, Means, Prediction, Regression, SuspiciousRow};
use robustard_report::{Report, Source, compared_words, noise_words, reason_words, status_words};
use robustard_table::{
    Batches, Column, ColumnKind, LeftOut, Table, TableModel, diagnose_batches, load_model, model_from_bytes,
    model_to_bytes, save_model,
};

use crate::fitting::bad_value;
use crate::frame::{Frame, reader, view};
use crate::working::uninterrupted;

/// Fewer rows than these are predicted at once, on Python's own thread.
const FEW_ROWS: usize = 64;

/// Reads a model file.
#[pyfunction]
pub fn load(path: PathBuf) -> PyResult<Fitted> {
    load_model(&path).map(Fitted::known).map_err(|error| PyOSError::new_err(error.to_string()))
}

/// A fitted model.
#[pyclass(frozen, module = "robustard._robustard")]
pub struct Fitted {
    model: TableModel,
    /// Things to tell the user.
    #[pyo3(get)]
    notes: Vec<String>,
    /// Whether Ctrl-C came during the fit.
    #[pyo3(get)]
    interrupted: bool,
    /// The table, if it was read here; of a fit by passes, the rows that the model keeps.
    table: Option<Table>,
    /// The columns of the whole table, if it was read here.
    #[pyo3(get)]
    table_names: Option<Vec<String>>,
}

impl Fitted {
    fn known(model: TableModel) -> Self {
        Self::new(model, Vec::new(), false)
    }

    /// A model of a table that is not kept.
    pub fn new(model: TableModel, notes: Vec<String>, interrupted: bool) -> Self {
        Self { model, notes, interrupted, table: None, table_names: None }
    }

    /// A model of a table that was read here.
    pub fn of_table(
        model: TableModel,
        table: Table,
        names: Vec<String>,
        notes: Vec<String>,
        interrupted: bool,
    ) -> Self {
        Self { model, notes, interrupted, table: Some(table), table_names: Some(names) }
    }

    fn regression(&self) -> &Regression {
        self.model.regression()
    }

    /// Predictions as Python takes them.
    fn predicted<'py>(&self, py: Python<'py>, values: Prediction, level: f64) -> PyResult<Bound<'py, PyDict>> {
        let interval = values.interval(level).map_err(bad_value)?;
        let dict = PyDict::new(py);
        dict.set_item("notes", self.model.note_beyond(&values.beyond).into_iter().collect::<Vec<_>>())?;
        dict.set_item("mean", values.mean.into_pyarray(py))?;
        dict.set_item("median", values.median.into_pyarray(py))?;
        dict.set_item("std", values.std.into_pyarray(py))?;
        dict.set_item("lower", interval.lower.into_pyarray(py))?;
        dict.set_item("upper", interval.upper.into_pyarray(py))?;
        Ok(dict)
    }
}

fn array<'py>(py: Python<'py>, values: &[f64]) -> Bound<'py, PyArray1<f64>> {
    PyArray1::from_slice(py, values)
}

fn matrix<'py>(py: Python<'py>, values: &Mat<f64>) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let flat: Vec<f64> = values.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<_>>()).collect();
    flat.into_pyarray(py).reshape([values.nrows(), values.ncols()])
}

#[pymethods]
impl Fitted {
    #[getter]
    fn estimator(&self) -> Option<&str> {
        self.model.estimator()
    }

    #[getter]
    fn status(&self) -> PyResult<String> {
        Ok(serde_json::to_value(self.regression().status()).map_err(bad_value)?.as_str().unwrap_or_default().to_owned())
    }

    #[getter]
    fn status_words(&self) -> &'static str {
        status_words(self.regression().status())
    }

    #[getter]
    fn iterations(&self) -> usize {
        self.regression().model().iterations()
    }

    /// The whole time of the fit.
    #[getter]
    fn seconds(&self) -> f64 {
        self.regression().elapsed().as_secs_f64()
    }

    #[getter]
    fn evidence(&self) -> f64 {
        self.regression().log_evidence()
    }

    #[getter]
    fn effective_weights(&self) -> f64 {
        self.regression().model().effective_weights()
    }

    #[getter]
    fn effective_rows(&self) -> f64 {
        self.regression().model().effective_rows()
    }

    #[getter]
    fn inlier_variance(&self) -> f64 {
        self.regression().inlier_variance()
    }

    #[getter]
    fn intercept(&self) -> f64 {
        self.regression().intercept()
    }

    #[getter]
    fn features(&self) -> String {
        self.regression().features().to_string()
    }

    #[getter]
    fn noise(&self) -> String {
        self.regression().noise().to_string()
    }

    #[getter]
    fn target_transform(&self) -> String {
        self.regression().design().target().transform().to_string()
    }

    #[getter]
    fn noise_words(&self) -> String {
        noise_words(self.regression().noise())
    }

    #[getter]
    fn is_linear(&self) -> bool {
        self.regression().design().is_linear()
    }

    /// Whether the features are a learnt curve, whose weights say nothing by themselves.
    #[getter]
    fn is_curve(&self) -> bool {
        self.regression().design().map().bends().is_some()
    }

    /// Root mean square error, R², median error and coverage of each row predicted from the others, and whether they flatter.
    #[getter]
    fn quality(&self) -> (f64, f64, f64, f64, bool) {
        let quality = self.regression().quality();
        let optimistic = self.regression().quality_is_optimistic();
        (quality.loo_rmse, quality.loo_r2, quality.loo_median_error, quality.coverage_95, optimistic)
    }

    /// Why this was chosen, in words; none if nothing was.
    #[getter]
    fn reasons(&self) -> Option<Vec<String>> {
        self.regression().selection().map(|selection| selection.reasons.iter().map(reason_words).collect())
    }

    /// What was compared.
    #[getter]
    fn compared<'py>(&self, py: Python<'py>) -> PyResult<Option<Vec<Bound<'py, PyDict>>>> {
        let Some(selection) = self.regression().selection() else { return Ok(None) };
        let describe = |compared: &robustard::Compared| {
            let dict = PyDict::new(py);
            dict.set_item("fit", compared_words(compared))?;
            dict.set_item("features", compared.features.to_string())?;
            dict.set_item("noise", compared.noise.to_string())?;
            dict.set_item("set_aside", compared.set_aside)?;
            dict.set_item("bound", compared.bound)?;
            dict.set_item("loo_rmse", compared.loo_rmse)?;
            dict.set_item("loo_log_density", compared.loo_log_density)?;
            dict.set_item("chosen", compared.chosen)?;
            Ok(dict)
        };
        selection.compared.iter().map(describe).collect::<PyResult<_>>().map(Some)
    }

    /// The options that differ from their defaults, as JSON.
    #[getter]
    fn options(&self) -> PyResult<String> {
        serde_json::to_string(&self.regression().recipe().options()).map_err(bad_value)
    }

    /// The engine's settings of the fit, as JSON.
    #[getter]
    fn settings(&self) -> PyResult<String> {
        serde_json::to_string(self.regression().settings()).map_err(bad_value)
    }

    // ---- The table. --------------------------------------------------------------------------------

    #[getter]
    fn target(&self) -> &str {
        &self.model.encoder().target
    }

    #[getter]
    fn columns(&self) -> Vec<&str> {
        self.model.encoder().columns.iter().map(|column| column.name.as_str()).collect()
    }

    #[getter]
    fn categories(&self) -> Vec<&str> {
        let is_category = |column: &&Column| matches!(column.kind, ColumnKind::Category { .. });
        self.model.encoder().columns.iter().filter(is_category).map(|column| column.name.as_str()).collect()
    }

    /// Whether all inputs are numbers as they are.
    #[getter]
    fn is_numeric(&self) -> bool {
        self.model.encoder().is_numeric()
    }

    /// The columns that are not used, and why.
    #[getter]
    fn left_out(&self) -> Vec<(&str, String)> {
        let reason = |left: &LeftOut| match left.may_be_category() {
            true => format!("{}; categorical=[{:?}] uses it", left.reason, left.name),
            false => left.reason.clone(),
        };
        self.model.encoder().left_out.iter().map(|left| (left.name.as_str(), reason(left))).collect()
    }

    #[getter]
    fn missing(&self) -> PyResult<String> {
        Ok(serde_json::to_value(self.model.encoder().missing)
            .map_err(bad_value)?
            .as_str()
            .unwrap_or_default()
            .to_owned())
    }

    #[getter]
    fn weights(&self) -> Option<&str> {
        self.model.encoder().weights.as_deref()
    }

    /// The rows of the training table that were fitted.
    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<usize>> {
        PyArray1::from_slice(py, self.model.rows())
    }

    /// How many rows the table had.
    #[getter]
    fn table_rows(&self) -> usize {
        self.model.table_rows()
    }

    /// How many rows were fitted, by passes; None if all were in memory.
    #[getter]
    fn streamed_rows(&self) -> Option<u64> {
        self.regression().whole().map(|whole| whole.rows)
    }

    /// The most suspicious rows of a table that was fitted by passes: their numbers in the table, and what is known of them.
    fn suspicious<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(whole) = self.regression().whole() else { return Ok(None) };
        let rows = &whole.suspicious;
        let of = |value: fn(&SuspiciousRow) -> f64| rows.iter().map(value).collect::<Vec<f64>>();
        let dict = PyDict::new(py);
        dict.set_item("label", self.model.suspicious())?;
        dict.set_item("is_id", self.model.encoder().id.is_some())?;
        for (name, values) in [
            ("actual", of(|row| row.actual)),
            ("predicted", of(|row| row.predicted)),
            ("z", of(|row| row.z)),
            ("outlier_probability", of(|row| row.outlier_probability.unwrap_or(f64::NAN))),
        ] {
            dict.set_item(name, values.into_pyarray(py))?;
        }
        Ok(Some(dict))
    }

    /// Places, among the fitted rows, of those that were set aside as gross errors.
    #[getter]
    fn set_aside(&self) -> Vec<usize> {
        self.regression().set_aside().to_vec()
    }

    // ---- Rows, features, predictions. --------------------------------------------------------------

    /// Noise variances of the fitted rows.
    #[getter]
    fn noise_variance<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.regression().noise_variance().into_pyarray(py)
    }

    /// The fitted rows that look wrong.
    #[getter]
    fn flagged<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        PyArray1::from_slice(py, &self.regression().diagnostics().flagged)
    }

    /// Diagnostics of rows of a fit by passes, whichever of them these are, by their places; nothing if none of them were fitted.
    fn diagnose_rows<'py>(&self, py: Python<'py>, batches: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let batches: Batches = Box::new(reader(batches)?);
        let found = py.detach(|| diagnose_batches(&self.model, batches)).map_err(bad_value)?;
        let dict = PyDict::new(py);
        let Some((rows, found)) = found else { return Ok(dict) };
        dict.set_item("place", rows.into_pyarray(py))?;
        for (name, values) in [
            ("actual", found.actual),
            ("predicted", found.predicted),
            ("loo_residual", found.loo_residual),
            ("noise_variance", found.noise_variance),
            ("leverage", found.leverage),
            ("z", found.z),
        ] {
            dict.set_item(name, values.into_pyarray(py))?;
        }
        dict.set_item("flagged", found.flagged.into_pyarray(py))?;
        dict.set_item("set_aside", found.set_aside.into_pyarray(py))?;
        Ok(dict)
    }

    /// Diagnostics of the fitted rows, in the target's units where they have any.
    fn diagnose<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let diagnostics = self.regression().diagnostics();
        let dict = PyDict::new(py);
        for (name, values) in [
            ("actual", &diagnostics.actual),
            ("predicted", &diagnostics.predicted),
            ("residual", &diagnostics.residual),
            ("loo_residual", &diagnostics.loo_residual),
            ("noise_variance", &diagnostics.noise_variance),
            ("latent_variance", &diagnostics.latent_variance),
            ("loo_latent_variance", &diagnostics.loo_latent_variance),
            ("weight", &diagnostics.weight),
            ("leverage", &diagnostics.leverage),
            ("cooks_distance", &diagnostics.cooks_distance),
            ("dffits", &diagnostics.dffits),
            ("standard_residual", &diagnostics.standard_residual),
            ("student_residual", &diagnostics.student_residual),
            ("z", &diagnostics.z),
        ] {
            dict.set_item(name, array(py, values))?;
        }
        dict.set_item("flagged", PyArray1::from_slice(py, &diagnostics.flagged))?;
        dict.set_item("outlier_probability", diagnostics.outlier_probability.as_ref().map(|p| array(py, p)))?;
        dict.set_item("threshold", diagnostics.threshold)?;
        Ok(dict)
    }

    /// The features that have a meaning of their own, in their own order, in the user's units.
    fn coefficients<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let features = self.regression().features_in_units();
        let dict = PyDict::new(py);
        dict.set_item("names", features.iter().map(|feature| feature.name.as_str()).collect::<Vec<_>>())?;
        let of = |value: fn(&FeatureSummary) -> f64| -> Vec<f64> { features.iter().map(value).collect() };
        for (name, values) in [
            ("coefficient", of(|feature| feature.coefficient)),
            ("standard_error", of(|feature| feature.standard_error)),
            ("relevance", of(|feature| feature.relevance)),
            ("precision", of(|feature| feature.precision)),
        ] {
            dict.set_item(name, values.into_pyarray(py))?;
        }
        Ok(dict)
    }

    /// What each column does, as JSON.
    fn effects(&self, py: Python<'_>, threads: usize) -> PyResult<String> {
        let effects = uninterrupted(py, threads, |_| self.regression().effects())?;
        serde_json::to_string(effects).map_err(bad_value)
    }

    /// Why the rows of a table are predicted as they are: predictions, the average, contributions of columns, and which rows they are.
    fn explain<'py>(&self, py: Python<'py>, frame: &Frame, threads: usize) -> PyResult<Bound<'py, PyDict>> {
        let explained = uninterrupted(py, threads, |_| self.model.explain(&frame.table))?.map_err(bad_value)?;
        let columns = self.model.encoder().columns.len();
        let contributions = Mat::from_fn(explained.values.len(), columns, |i, j| explained.values[i].contributions[j]);
        let predictions: Vec<f64> = explained.values.iter().map(|row| row.prediction).collect();
        let dict = PyDict::new(py);
        dict.set_item("average", self.regression().effects().average)?;
        dict.set_item("prediction", predictions.into_pyarray(py))?;
        dict.set_item("contributions", matrix(py, &contributions)?)?;
        dict.set_item("rows", explained.rows.into_pyarray(py))?;
        dict.set_item("notes", explained.notes)?;
        Ok(dict)
    }

    /// Covariance of the features' coefficients in the user's units.
    fn coefficient_covariance<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        matrix(py, &self.regression().coefficient_covariance())
    }

    /// Bound on the log evidence after each iteration.
    fn scores<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.regression().scores().into_pyarray(py)
    }

    /// The names of the groups of features that share a precision, by the numbers that paths have.
    fn group_names(&self) -> Vec<String> {
        self.regression().group_names()
    }

    /// Relevances over the iterations: the iterations, and for each group of features its number and relevances.
    #[allow(clippy::type_complexity)]
    fn feature_paths(&self) -> (Vec<usize>, Vec<(usize, Vec<f64>)>) {
        let paths = self.regression().paths();
        (paths.iterations.clone(), paths.groups.iter().map(|path| (path.index, path.relevance.clone())).collect())
    }

    /// Share of the rows inside their leave-one-out interval of a level.
    fn coverage(&self, level: f64) -> PyResult<f64> {
        if !(level > 0.0 && level < 1.0) {
            return Err(bad_value(format!("the level is {level}; it must be between 0 and 1, for example 0.95")));
        }
        Ok(self.regression().coverage(level))
    }

    /// The fitted rows that kernel functions stand on, in use or not; None for other features.
    fn centre_rows(&self) -> Option<Vec<usize>> {
        match self.regression().design().map() {
            FeatureMap::Kernel(kernel) => Some(kernel.rows().to_vec()),
            _ => None,
        }
    }

    /// The kernel functions in use: fitted rows, their inputs, their weights in the target's units; None for other features.
    #[allow(clippy::type_complexity)]
    fn relevance_vectors<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(Vec<usize>, Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>)>> {
        let (design, model) = (self.regression().design(), self.regression().model());
        let FeatureMap::Kernel(kernel) = design.map() else { return Ok(None) };
        let functions: Vec<usize> =
            model.active_columns().iter().filter_map(|&column| design.feature_of(column)).collect();
        let scaling = design.inputs();
        let centres = Mat::from_fn(functions.len(), scaling.column_count(), |k, j| {
            scaling.mean[j] + scaling.scale[j] * kernel.centre(functions[k])[j]
        });
        let weights = design.per_deviation(model.coefficients());
        let weights: Vec<f64> = functions.iter().map(|&k| weights[k]).collect();
        let rows = functions.iter().map(|&k| kernel.rows()[k]).collect();
        Ok(Some((rows, matrix(py, &centres)?, array(py, &weights))))
    }

    /// Means, standard deviations and the ends of intervals of the rows of a table, and which rows they are.
    fn predict_table<'py>(
        &self,
        py: Python<'py>,
        frame: &Frame,
        level: f64,
        threads: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let prediction = uninterrupted(py, threads, |control| self.model.predict(&frame.table, control))?;
        let prediction = prediction.map_err(bad_value)?;
        let dict = self.predicted(py, prediction.values, level)?;
        dict.set_item("notes", prediction.notes)?;
        dict.set_item("rows", prediction.rows.into_pyarray(py))?;
        Ok(dict)
    }

    /// The same of rows of numbers, all of which are predicted.
    fn predict_numbers<'py>(
        &self,
        py: Python<'py>,
        inputs: PyReadonlyArray2<'py, f64>,
        level: f64,
        threads: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let rows = view(&inputs)?;
        let prediction = if rows.nrows() <= FEW_ROWS {
            self.regression().predict(rows)
        } else {
            uninterrupted(py, threads, |control| self.regression().predict_under(rows, control))?
        };
        self.predicted(py, prediction.map_err(bad_value)?, level)
    }

    /// The means alone of the rows of a table, and which rows they are.
    fn predict_table_mean<'py>(&self, py: Python<'py>, frame: &Frame, threads: usize) -> PyResult<Bound<'py, PyDict>> {
        let predicted = uninterrupted(py, threads, |control| self.model.predict_mean(&frame.table, control))?;
        let predicted = predicted.map_err(bad_value)?;
        let dict = PyDict::new(py);
        dict.set_item("rows", predicted.rows.into_pyarray(py))?;
        dict.set_item("mean", predicted.mean.into_pyarray(py))?;
        dict.set_item("notes", predicted.notes)?;
        Ok(dict)
    }

    /// The means alone of rows of numbers, and what should be said.
    fn predict_numbers_mean<'py>(
        &self,
        py: Python<'py>,
        inputs: PyReadonlyArray2<'py, f64>,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, Option<String>)> {
        let rows = view(&inputs)?;
        let means = if rows.nrows() <= FEW_ROWS {
            self.regression().predict_mean_under(rows, &Control::new())
        } else {
            uninterrupted(py, threads, |control| self.regression().predict_mean_under(rows, control))?
        };
        let Means { mean, beyond } = means.map_err(bad_value)?;
        Ok((mean.into_pyarray(py), self.model.note_beyond(&beyond)))
    }

    /// Covariance of the regression function at the rows of a table, without noise, in squared target units.
    fn covariance<'py>(&self, py: Python<'py>, frame: &Frame, threads: usize) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let covariance = uninterrupted(py, threads, |control| self.model.latent_covariance(&frame.table, control))?;
        matrix(py, &covariance.map_err(bad_value)?)
    }

    // ---- Files and pages. --------------------------------------------------------------------------

    /// Writes a model file.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        save_model(&self.model, &path).map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// The model file as bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &model_to_bytes(&self.model).map_err(bad_value)?))
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

    /// The page about the fit; the table must be that of the fit, and is not needed if it was read here.
    fn report(&self, py: Python<'_>, frame: Option<&Frame>, source: &str, threads: usize) -> PyResult<String> {
        let source = Source { name: source, reading: None };
        let page = uninterrupted(py, threads, |control| {
            let page = |model: &TableModel, table: &Table| {
                Ok(Report::new(model, table, source, control).map_err(|error| error.to_string())?.html())
            };
            match (frame, &self.table) {
                (Some(frame), _) if self.model.was_fitted_to(&frame.table).map_err(|error| error.to_string())? => {
                    page(&self.model, &frame.table)
                }
                (Some(_), _) => {
                    Err("this is not the table that the model was fitted to; give X and y as they were in fit"
                        .to_owned())
                }
                (None, Some(table)) => page(&self.model, table),
                (None, None) => Err("the model does not have its table; give X and y as in fit".to_owned()),
            }
        });
        page?.map_err(bad_value)
    }
}
