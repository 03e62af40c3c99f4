//! Tables from Python.

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use numpy::ndarray::{ArrayView2, Axis};
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use robustard::faer::MatRef;
use robustard_table::Table;

/// A table.
#[pyclass(frozen, module = "robustard._robustard")]
pub struct Frame {
    pub table: Table,
    /// The columns that are categories because they came as such.
    #[pyo3(get)]
    categories: Vec<String>,
}

impl From<Table> for Frame {
    fn from(table: Table) -> Self {
        Self { table, categories: Vec::new() }
    }
}

/// A matrix of Python's, of any layout, where it lies. Part of a record, whose steps are no whole numbers of doubles, is refused.
pub fn view<'a>(matrix: &'a PyReadonlyArray2<'_, f64>) -> PyResult<MatRef<'a, f64>> {
    let is_whole = |bytes: &isize| bytes % size_of::<f64>() as isize == 0;
    if !matrix.strides().iter().all(is_whole) || !matrix.as_array().as_ptr().is_aligned() {
        return Err(PyValueError::new_err("the array is not aligned; give a copy of it"));
    }
    let values = matrix.as_array();
    let [rows, columns] = [values.nrows(), values.ncols()];
    let [row_stride, column_stride] = [values.strides()[0], values.strides()[1]];
    // The array stays borrowed as long as the view; shape and strides are its own.
    #[allow(unsafe_code)]
    Ok(unsafe { MatRef::from_raw_parts(values.as_ptr(), rows, columns, row_stride, column_stride) })
}

fn failed(error: arrow_schema::ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The batches of an object with the Arrow stream interface.
pub fn reader(source: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let capsule = source.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| PyTypeError::new_err("not an Arrow stream"))?;
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
    // The capsule's name promises what it points to; reading moves the stream out and leaves it released.
    #[allow(unsafe_code)]
    let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr().cast::<FFI_ArrowArrayStream>()) };
    reader.map_err(failed)
}

/// A column as it comes from Python: numbers, or texts with gaps.
#[derive(FromPyObject)]
enum Values<'py> {
    Numbers(PyReadonlyArray1<'py, f64>),
    Texts(Vec<Option<String>>),
}

fn columns(names: Vec<String>, values: Vec<Values<'_>>, categories: &[String]) -> Vec<(String, arrow_array::ArrayRef)> {
    let made = names.into_iter().zip(values).map(|(name, values)| {
        let column = match values {
            Values::Numbers(numbers) => Table::number_column(numbers.as_array().iter().copied()),
            Values::Texts(texts) if categories.contains(&name) => Table::text_column(texts),
            Values::Texts(texts) => Table::settled_column(texts),
        };
        (name, column)
    });
    made.collect()
}

/// The columns of a matrix of any layout, a block of rows at a time: the rows of most matrices lie one after the other, and whole
/// columns of them would be read through the cache again and again.
fn columns_of(matrix: ArrayView2<'_, f64>) -> Vec<Vec<f64>> {
    const BLOCK: usize = 64;
    let mut columns: Vec<Vec<f64>> = (0..matrix.ncols()).map(|_| Vec::with_capacity(matrix.nrows())).collect();
    for block in matrix.axis_chunks_iter(Axis(0), BLOCK) {
        for (column, values) in columns.iter_mut().zip(block.columns()) {
            column.extend(values.iter());
        }
    }
    columns
}

#[pymethods]
impl Frame {
    /// The columns of a matrix, with the given names.
    #[staticmethod]
    fn from_matrix(names: Vec<String>, matrix: PyReadonlyArray2<'_, f64>) -> Self {
        let columns = columns_of(matrix.as_array());
        let made = names.into_iter().zip(columns).map(|(name, values)| (name, Table::number_column(values)));
        Table::from_columns(made.collect()).into()
    }

    /// Columns of numbers (arrays) and texts (lists) of one length; texts are read as in files unless they are categories.
    #[staticmethod]
    fn from_columns(names: Vec<String>, values: Vec<Values<'_>>, categories: Vec<String>) -> Self {
        Table::from_columns(columns(names, values, &categories)).into()
    }

    /// What an object with the Arrow stream interface holds, numbers without a copy; its columns take the names.
    #[staticmethod]
    fn from_arrow(names: Vec<String>, source: &Bound<'_, PyAny>, categories: Vec<String>) -> PyResult<Self> {
        let (table, categories) = Table::from_batches(&names, reader(source)?, &categories).map_err(failed)?;
        Ok(Self { table, categories })
    }

    /// The table with more columns.
    fn with_columns(&self, names: Vec<String>, values: Vec<Values<'_>>) -> Self {
        self.table.with_columns(columns(names, values, &[])).into()
    }
}
