//! Fits to files and to batches of rows, which need not fit in memory.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use robustard::Diagnostics;
use robustard_table::{
    Batches, EncodeOptions, Existing, Fitted as FittedTable, Input, PartitionRows, ReadOptions, StreamOptions,
    StreamedFit, TableError, TableModel, TableWriter, fit_stream, read_sources, row_table, rows_of, sources, write,
};

use crate::fitted::Fitted;
use crate::fitting::{Call, bad_value, run};
use crate::frame::reader;

/// When a fit is streamed, and where files go.
#[derive(FromPyObject)]
pub struct Streaming {
    #[pyo3(item)]
    memory: Option<u64>,
    #[pyo3(item)]
    cache: Option<PathBuf>,
    #[pyo3(item)]
    checkpoint: Option<PathBuf>,
    /// Where the diagnosis of all rows goes.
    #[pyo3(item)]
    rows: Option<PathBuf>,
}

impl Streaming {
    fn options(&self) -> StreamOptions {
        StreamOptions { memory: self.memory, cache: self.cache.clone(), checkpoint: self.checkpoint.clone() }
    }

    /// Fits by passes, and writes the rows in the last one.
    fn fit(&self, py: Python<'_>, input: Input<'_>, columns: &EncodeOptions, call: &Call<'_>) -> PyResult<Fitted> {
        let mut writer = self
            .rows
            .as_deref()
            .map(|path| TableWriter::create(path, Existing::Replace))
            .transpose()
            .map_err(bad_value)?;
        let mut write_rows = |labels: &[String], diagnostics: &Diagnostics| match &mut writer {
            Some(writer) => writer.write(&rows_of(None, labels.to_vec(), diagnostics, None)),
            None => Ok(()),
        };
        let (reading, options) = (ReadOptions::default(), self.options());
        let (fit, interrupted) = run(py, call, |recipe, control| {
            fit_stream(input, &reading, columns, recipe, control, &options, Some(&mut write_rows))
        })?;
        writer.map_or(Ok(()), TableWriter::finish).map_err(bad_value)?;
        let StreamedFit { model, sample, names, notes } = fit;
        Ok(Fitted::of_table(model.with_estimator(call.estimator()), sample, names, notes, interrupted))
    }
}

/// Fits the table in files, folders and patterns: in memory if it takes little of it, else by passes.
#[pyfunction]
pub fn fit_files(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    columns: &str,
    streaming: Streaming,
    call: Call<'_>,
) -> PyResult<Fitted> {
    let columns: EncodeOptions = serde_json::from_str(columns).map_err(bad_value)?;
    let files = sources(&paths).map_err(bad_value)?;
    if streaming.options().streams(&files) {
        return streaming.fit(py, Input::Files(&files), &columns, &call);
    }
    let (fitted, interrupted) = run(py, &call, |recipe, control| {
        let table = read_sources(&files, &ReadOptions::default())?;
        TableModel::fit(&table, &columns, recipe, control).map(|fitted| (fitted, table))
    })?;
    let (FittedTable { model, notes }, table) = fitted;
    if let Some(path) = &streaming.rows {
        row_table(&model, &table).and_then(|rows| write(&rows, path)).map_err(bad_value)?;
    }
    let names = table.names();
    Ok(Fitted::of_table(model.with_estimator(call.estimator()), table, names, notes, interrupted))
}

/// Fits batches of rows by passes. Each call of `open` gives an object with the Arrow stream interface, or None if they were read before
/// and cannot be read again.
#[pyfunction]
pub fn fit_batches(
    py: Python<'_>,
    open: Py<PyAny>,
    columns: &str,
    streaming: Streaming,
    call: Call<'_>,
) -> PyResult<Fitted> {
    let columns: EncodeOptions = serde_json::from_str(columns).map_err(bad_value)?;
    let open = || -> Result<Option<Batches>, TableError> {
        let opened = Python::attach(|py| -> PyResult<Option<Batches>> {
            let source = open.call0(py)?;
            if source.is_none(py) {
                return Ok(None);
            }
            let batches = reader(source.bind(py))?;
            Ok(Some(Box::new(batches)))
        });
        let name = || "the stream of batches".to_owned();
        opened.map_err(|error| TableError::Read { path: name(), reason: error.to_string() })
    };
    streaming.fit(py, Input::Batches(&open), &columns, &call)
}

/// Fits rows that lie elsewhere: `run` sends a task to all partitions and brings back what a [`Partition`] makes of it there.
#[pyfunction]
pub fn fit_partitions(
    py: Python<'_>,
    run_all: Py<PyAny>,
    columns: &str,
    streaming: Streaming,
    call: Call<'_>,
) -> PyResult<Fitted> {
    let columns: EncodeOptions = serde_json::from_str(columns).map_err(bad_value)?;
    let options = streaming.options();
    // What went wrong in Python comes back as it was.
    let raised = Mutex::new(None);
    let mut run_all = |task: &[u8]| {
        let answers = Python::attach(|py| -> PyResult<Vec<Vec<u8>>> {
            let answers = run_all.call1(py, (PyBytes::new(py, task),))?;
            answers.bind(py).try_iter()?.map(|answer| answer?.extract::<Vec<u8>>()).collect()
        });
        answers.map_err(|error| {
            let reason = error.to_string();
            if let Ok(mut raised) = raised.lock() {
                *raised = Some(error);
            }
            TableError::Partitions { reason }
        })
    };
    let fitted = run(py, &call, |recipe, control| {
        robustard_table::fit_partitions(&mut run_all, &columns, recipe, control, &options)
    });
    if let Some(error) = raised.into_inner().ok().flatten() {
        return Err(error);
    }
    let (StreamedFit { model, sample, names, notes }, interrupted) = fitted?;
    Ok(Fitted::of_table(model.with_estimator(call.estimator()), sample, names, notes, interrupted))
}

/// The rows of a partition, where they are.
#[pyclass(frozen, module = "robustard")]
pub struct Partition(Mutex<PartitionRows>);

#[pymethods]
impl Partition {
    /// Takes an object with the Arrow stream interface.
    #[new]
    fn new(py: Python<'_>, batches: &Bound<'_, PyAny>) -> PyResult<Self> {
        let batches: Batches = Box::new(reader(batches)?);
        py.detach(|| PartitionRows::new(batches)).map(|rows| Self(Mutex::new(rows))).map_err(bad_value)
    }

    /// What they come to, under what a fit has asked.
    fn sums<'py>(&self, py: Python<'py>, broadcast: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let answer = py.detach(|| {
            // A task that failed leaves rows and numbers as they were.
            let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            rows.answer(broadcast)
        });
        answer.map(|sums| PyBytes::new(py, &sums)).map_err(bad_value)
    }
}
