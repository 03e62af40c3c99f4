use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, RecordBatch, RecordBatchReader, StringArray, UInt64Array,
};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use arrow_select::concat::{concat, concat_batches};
use arrow_select::take::take;
use rayon::prelude::*;

use crate::error::TableError;
use crate::read::Reading;

/// What stands for a missing value in text columns, beside nothing at all.
const MISSING_WORDS: [&str; 9] = ["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "?"];

/// A table in memory.
#[derive(Debug, Clone)]
pub struct Table {
    batch: RecordBatch,
    /// Where each column is; the first of a name.
    places: Arc<HashMap<String, usize>>,
}

impl Table {
    /// Checks that names are distinct; text columns that hold only numbers and words for missing values become numbers.
    pub(crate) fn new(batch: RecordBatch, path: &str, reading: &Reading<'_>) -> Result<Self, TableError> {
        let names: Vec<&String> = batch.schema_ref().fields().iter().map(|field| field.name()).collect();
        let mut seen = HashSet::with_capacity(names.len());
        if let Some(twice) = names.iter().find(|name| !seen.insert(**name)) {
            return Err(TableError::DuplicateColumn { path: path.to_owned(), column: twice.to_string() });
        }
        let settle = |(column, name): (&ArrayRef, &&String)| {
            if reading.text_columns.contains(*name) {
                column.clone()
            } else {
                settle_text(column, reading.decimal_comma)
            }
        };
        let columns: Vec<ArrayRef> = batch.columns().par_iter().zip(&names).map(settle).collect();
        Ok(Self::from_columns(names.iter().map(|name| name.to_string()).zip(columns).collect()))
    }

    /// A table of batches with the same columns, which take the names. Text is read as in files, except in columns that are
    /// categories: those named, and dictionaries, which are returned.
    pub fn from_batches(
        names: &[String],
        batches: impl RecordBatchReader,
        categories: &[String],
    ) -> Result<(Self, Vec<String>), ArrowError> {
        let schema = batches.schema();
        let batches = batches.collect::<Result<Vec<RecordBatch>, _>>()?;
        let whole = concat_batches(&schema, &batches)?;
        let (mut columns, mut dictionaries) = (Vec::new(), Vec::new());
        for (name, column) in names.iter().zip(whole.columns()) {
            let is_dictionary = matches!(column.data_type(), DataType::Dictionary(..));
            let column = match () {
                () if is_dictionary => cast(column, &DataType::Utf8)?,
                () if categories.contains(name) => column.clone(),
                () => settle_text(column, false),
            };
            dictionaries.extend(is_dictionary.then(|| name.clone()));
            columns.push((name.clone(), column));
        }
        Ok((Self::from_columns(columns), dictionaries))
    }

    /// A table of columns of one length.
    pub fn from_columns(columns: Vec<(String, ArrayRef)>) -> Self {
        let fields: Vec<Field> =
            columns.iter().map(|(name, values)| Field::new(name, values.data_type().clone(), true)).collect();
        let arrays = columns.into_iter().map(|(_, values)| values).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("columns of one length");
        let names = batch.schema_ref().fields().iter().map(|field| field.name().clone());
        // In reverse, so that the first of a name stays.
        let places = names.enumerate().map(|(place, name)| (name, place)).collect::<Vec<_>>().into_iter().rev();
        let places = Arc::new(places.collect());
        Self { batch, places }
    }

    /// Whether there is a column of this name.
    pub fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// Number of rows.
    pub fn row_count(&self) -> usize {
        self.batch.num_rows()
    }

    /// Names of the columns.
    pub fn names(&self) -> Vec<String> {
        self.batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The values of a column.
    pub fn column(&self, name: &str) -> Result<&ArrayRef, TableError> {
        let unknown = || TableError::NoSuchColumn { column: name.to_owned(), known: self.names() };
        self.places.get(name).map(|place| self.batch.column(*place)).ok_or_else(unknown)
    }

    /// A numeric or boolean column as numbers, NaN where missing; None if it holds something else.
    pub fn numbers(&self, name: &str) -> Result<Option<Cow<'_, [f64]>>, TableError> {
        Ok(numbers(self.column(name)?))
    }

    /// Any column as text, None where missing.
    pub fn texts(&self, name: &str) -> Result<Vec<Option<String>>, TableError> {
        let column = self.column(name)?;
        let text = cast(column, &DataType::Utf8)
            .map_err(|error| TableError::Unusable { column: name.to_owned(), reason: error.to_string() })?;
        Ok(text.as_string::<i32>().iter().map(|value| value.map(str::to_owned)).collect())
    }

    /// The rows of tables with the same columns, one after the other; with the names of the files in messages.
    pub(crate) fn joined(tables: &[(Self, String)]) -> Result<Self, TableError> {
        let names = tables.first().map_or_else(Vec::new, |(table, _)| table.names());
        let column = |name: &String| {
            let mut parts = Vec::with_capacity(tables.len());
            for (table, path) in tables {
                let missing = |_| TableError::FileColumn { path: path.clone(), column: name.clone() };
                parts.push(table.column(name).map_err(missing)?.clone());
            }
            let is_same = parts.iter().all(|part| part.data_type() == parts[0].data_type());
            let is_number = |part: &ArrayRef| part.data_type().is_numeric() || *part.data_type() == DataType::Null;
            let wanted = match () {
                () if is_same => parts[0].data_type().clone(),
                () if parts.iter().all(is_number) => DataType::Float64,
                () => DataType::Utf8,
            };
            let unusable = |error: ArrowError| TableError::Unusable { column: name.clone(), reason: error.to_string() };
            let parts: Vec<ArrayRef> =
                parts.iter().map(|part| cast(part, &wanted)).collect::<Result<_, _>>().map_err(unusable)?;
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            Ok((name.clone(), concat(&parts).map_err(unusable)?))
        };
        Ok(Self::from_columns(names.iter().map(column).collect::<Result<_, TableError>>()?))
    }

    /// The rows with the given indices, in that order.
    pub fn take(&self, rows: &[usize]) -> Table {
        let indices = UInt64Array::from_iter_values(rows.iter().map(|&row| row as u64));
        let columns =
            self.batch.columns().iter().map(|column| take(column, &indices, None).expect("rows of the table"));
        Self::from_columns(self.names().into_iter().zip(columns).collect())
    }

    /// The table with more columns; one of the same name is replaced.
    pub fn with_columns(&self, columns: Vec<(String, ArrayRef)>) -> Table {
        let new: HashSet<String> = columns.iter().map(|(name, _)| name.clone()).collect();
        let kept = self.names().into_iter().zip(self.batch.columns().iter().cloned());
        Self::from_columns(kept.filter(|(name, _)| !new.contains(name)).chain(columns).collect())
    }

    /// A column of numbers, missing where NaN.
    pub fn number_column(values: impl IntoIterator<Item = f64>) -> ArrayRef {
        let values: Vec<f64> = values.into_iter().collect();
        if values.iter().any(|value| value.is_nan()) {
            return Arc::new(
                values.into_iter().map(|value| (!value.is_nan()).then_some(value)).collect::<Float64Array>(),
            );
        }
        Arc::new(Float64Array::from(values))
    }

    /// A column of counts.
    pub fn count_column(values: impl IntoIterator<Item = usize>) -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(values.into_iter().map(|value| value as u64)))
    }

    /// A column of truth values.
    pub fn boolean_column(values: impl IntoIterator<Item = bool>) -> ArrayRef {
        Arc::new(values.into_iter().map(Some).collect::<BooleanArray>())
    }

    /// A column of text, read as in files: numbers if all of it is, missing where a word says so.
    pub fn settled_column(values: impl IntoIterator<Item = Option<String>>) -> ArrayRef {
        settle_text(&Self::text_column(values), false)
    }

    /// A column of text.
    pub fn text_column(values: impl IntoIterator<Item = Option<String>>) -> ArrayRef {
        Arc::new(values.into_iter().collect::<StringArray>())
    }

    pub(crate) fn batch(&self) -> &RecordBatch {
        &self.batch
    }
}

pub(crate) fn numbers(column: &ArrayRef) -> Option<Cow<'_, [f64]>> {
    use DataType as T;
    if let Some(values) = column.as_primitive_opt::<arrow_array::types::Float64Type>().filter(|v| v.null_count() == 0) {
        return Some(Cow::Borrowed(values.values()));
    }
    let is_number = column.data_type().is_numeric() || matches!(column.data_type(), T::Boolean | T::Null);
    let values = is_number.then(|| cast(column, &T::Float64).ok()).flatten()?;
    let values = values.as_primitive::<arrow_array::types::Float64Type>();
    if values.null_count() == 0 {
        return Some(Cow::Owned(values.values().to_vec()));
    }
    Some(Cow::Owned(values.iter().map(|value| value.unwrap_or(f64::NAN)).collect()))
}

/// What a text means: nothing if it stands for a missing value.
pub(crate) fn meant(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !MISSING_WORDS.contains(text))
}

/// Words for missing values become missing values; what is left becomes numbers if all of it is.
fn settle_text(column: &ArrayRef, decimal_comma: bool) -> ArrayRef {
    let is_text = match column.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => {
            matches!(values.as_ref(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
        }
        _ => false,
    };
    if !is_text {
        return column.clone();
    }
    let Ok(column) = cast(column, &DataType::Utf8) else { return column.clone() };
    let text = column.as_string::<i32>();
    let first = text.iter().flatten().map(str::trim).find(|value| !MISSING_WORDS.contains(value));
    let number = |value: &str| match value.parse::<f64>() {
        Err(_) if decimal_comma && !value.contains('.') => value.replacen(',', ".", 1).parse().ok(),
        parsed => parsed.ok(),
    };
    let may_be_numeric = first.is_some_and(|value| number(value).is_some());
    let is_as_meant = |value: &str| value.trim().len() == value.len() && !MISSING_WORDS.contains(&value);
    if !may_be_numeric && text.iter().flatten().all(is_as_meant) {
        return column.clone();
    }
    let meant = || text.iter().map(meant);
    if may_be_numeric && meant().flatten().all(|value| number(value).is_some()) {
        Arc::new(meant().map(|value| value.and_then(number)).collect::<Float64Array>())
    } else {
        Arc::new(meant().collect::<StringArray>())
    }
}
