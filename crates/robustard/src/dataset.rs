//! The numbers of a regression: inputs, target, weights, groups of inputs and names, checked once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

use faer::{ColRef, Mat, MatRef};
use thiserror::Error;

use crate::input_column::{InputColumn, InputKind};

/// Largest weight of a row, and the inverse of the smallest.
const LARGEST_WEIGHT: f64 = 1e100;
/// Rows looked at together: columns of any layout are then read through the cache once.
pub(crate) const BLOCK: usize = 128;

/// What is wrong with the numbers. Rows are counted from 0 in the fields and from 1 in the message.
#[derive(Debug, Clone, PartialEq, Error)]
#[allow(missing_docs)] // the fields are explained by the messages
#[non_exhaustive]
pub enum DatasetError {
    #[error("there are no rows to fit; give at least one")]
    NoRows,
    #[error("there are no columns to fit; give at least one input")]
    NoColumns,
    #[error("the inputs have {rows} rows but the target has {targets} values; give one target per row")]
    TargetLength { rows: usize, targets: usize },
    #[error("column '{name}' has {found} rows, but the first has {expected}; give columns of one length")]
    ColumnLength { name: String, expected: usize, found: usize },
    #[error("column '{name}', row {}, is {value}; drop the row or fill the value in", .row + 1)]
    NotFinite { name: String, column: usize, row: usize, value: f64 },
    #[error("the target in row {} is {value}; drop the row", .row + 1)]
    TargetNotFinite { row: usize, value: f64 },
    #[error("the largest target is {largest:e}, too small to compute with; multiply the targets by a large number")]
    TargetTooSmall { largest: f64 },
    #[error("there are {rows} rows but {weights} weights; give one weight per row")]
    WeightLength { rows: usize, weights: usize },
    #[error(
        "the weight of row {} is {value}; weights must be above zero (leave rows of weight zero out) and at most 1e100",
        .row + 1
    )]
    BadWeight { row: usize, value: f64 },
    #[error(
        "column '{name}' is said to have other inputs than its kind has, or than there are; give the numbers of its inputs"
    )]
    InputColumn { name: String },
    #[error("there are {columns} inputs but {labels} {what}; give one per input")]
    LabelCount { columns: usize, labels: usize, what: &'static str },
}

/// Where targets are all smaller, numbers between them have too few digits left.
const SMALLEST_TARGET: f64 = 1e-290;

/// An input column, the caller's or its own.
#[derive(Debug, Clone)]
pub enum Column<'a> {
    /// The caller's memory, of any stride.
    Borrowed(ColRef<'a, f64>),
    /// Its own.
    Owned(Vec<f64>),
}

impl Column<'_> {
    /// The values.
    pub fn values(&self) -> ColRef<'_, f64> {
        match self {
            Self::Borrowed(column) => *column,
            Self::Owned(values) => ColRef::from_slice(values),
        }
    }
}

/// A checked set of rows. Inputs stay where they are in the caller's memory.
///
/// ```
/// use robustard::Dataset;
/// use robustard::faer::Mat;
///
/// let inputs = Mat::from_fn(4, 2, |i, j| (i + j) as f64);
/// let dataset = Dataset::new(inputs.as_ref(), &[1.0, 2.0, 3.0, 4.0])?.with_names(["width", "height"])?;
/// assert_eq!((dataset.row_count(), dataset.input_count()), (4, 2));
/// # Ok::<(), robustard::DatasetError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Dataset<'a> {
    columns: Vec<Column<'a>>,
    /// The inputs as a matrix whose rows are contiguous, if that is what they came as.
    by_rows: Option<MatRef<'a, f64>>,
    target: Cow<'a, [f64]>,
    weights: Option<Cow<'a, [f64]>>,
    groups: Vec<usize>,
    names: Vec<String>,
    copies: OnceLock<Vec<usize>>,
    levels: OnceLock<Vec<Option<usize>>>,
    input_columns: OnceLock<Vec<InputColumn>>,
}

impl<'a> Dataset<'a> {
    /// An n × p matrix of inputs, of any layout, and n targets. All rows count once, inputs are called x0, x1, …
    pub fn new(inputs: MatRef<'a, f64>, target: impl Into<Cow<'a, [f64]>>) -> Result<Self, DatasetError> {
        if inputs.nrows() == 0 {
            return Err(DatasetError::NoRows);
        }
        let dataset = Self::from_columns(inputs.col_iter().map(Column::Borrowed).collect(), target)?;
        Ok(Self { by_rows: (inputs.col_stride() == 1).then_some(inputs), ..dataset })
    }

    /// Columns of inputs of one length, and the targets.
    pub fn from_columns(columns: Vec<Column<'a>>, target: impl Into<Cow<'a, [f64]>>) -> Result<Self, DatasetError> {
        let names = (0..columns.len()).map(|j| format!("x{j}")).collect();
        let groups = (0..columns.len()).collect();
        let dataset = Self {
            columns,
            by_rows: None,
            target: target.into(),
            weights: None,
            groups,
            names,
            copies: OnceLock::new(),
            levels: OnceLock::new(),
            input_columns: OnceLock::new(),
        };
        dataset.check()?;
        Ok(dataset)
    }

    /// Row i counts `weights[i]` times.
    pub fn with_weights(mut self, weights: impl Into<Cow<'a, [f64]>>) -> Result<Self, DatasetError> {
        let weights = weights.into();
        let rows = self.row_count();
        if weights.len() != rows {
            return Err(DatasetError::WeightLength { rows, weights: weights.len() });
        }
        let is_fine = |weight: &f64| (1.0 / LARGEST_WEIGHT..=LARGEST_WEIGHT).contains(weight);
        if let Some(row) = weights.iter().position(|weight| !is_fine(weight)) {
            return Err(DatasetError::BadWeight { row, value: weights[row] });
        }
        self.weights = weights.iter().any(|weight| *weight != 1.0).then_some(weights);
        Ok(self)
    }

    /// Inputs with the same label share one precision, as the levels of a category do; labels are 0, 1, 2, … without gaps.
    pub fn with_groups(mut self, labels: &[usize]) -> Result<Self, DatasetError> {
        self.check_labels(labels.len(), "group labels")?;
        self.groups = labels.to_vec();
        self.levels = OnceLock::new();
        Ok(self)
    }

    /// The columns of the table that the inputs stand for; by default every input is one, and the levels of a category are one together.
    pub fn with_input_columns(mut self, columns: Vec<InputColumn>) -> Result<Self, DatasetError> {
        let labels = columns.iter().map(|column| column.inputs.len()).sum();
        self.check_labels(labels, "inputs of columns")?;
        match columns.iter().find(|column| !column.is_consistent(self.input_count())) {
            Some(column) => Err(DatasetError::InputColumn { name: column.name.clone() }),
            None => {
                self.input_columns = columns.into();
                Ok(self)
            }
        }
    }

    /// What the inputs are called.
    pub fn with_names<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Result<Self, DatasetError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        self.check_labels(names.len(), "names")?;
        self.names = names;
        Ok(self)
    }

    fn check_labels(&self, labels: usize, what: &'static str) -> Result<(), DatasetError> {
        let columns = self.columns.len();
        if labels == columns { Ok(()) } else { Err(DatasetError::LabelCount { columns, labels, what }) }
    }

    fn check(&self) -> Result<(), DatasetError> {
        let Some(first) = self.columns.first() else { return Err(DatasetError::NoColumns) };
        let expected = first.values().nrows();
        if expected == 0 {
            return Err(DatasetError::NoRows);
        }
        for (name, column) in self.names.iter().zip(&self.columns) {
            let found = column.values().nrows();
            if found != expected {
                return Err(DatasetError::ColumnLength { name: name.clone(), expected, found });
            }
        }
        if self.target.len() != expected {
            return Err(DatasetError::TargetLength { rows: expected, targets: self.target.len() });
        }
        if let Some(row) = self.target.iter().position(|value| !value.is_finite()) {
            return Err(DatasetError::TargetNotFinite { row, value: self.target[row] });
        }
        let largest = self.target.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
        if largest > 0.0 && largest < SMALLEST_TARGET {
            return Err(DatasetError::TargetTooSmall { largest });
        }
        Ok(())
    }

    /// The first input that is not a finite number.
    pub(crate) fn not_finite(&self) -> Option<DatasetError> {
        let found = |(column, values): (usize, ColRef<'_, f64>)| {
            let (row, value) = values.iter().copied().enumerate().find(|(_, value)| !value.is_finite())?;
            Some(DatasetError::NotFinite { name: self.names[column].clone(), column, row, value })
        };
        self.columns().enumerate().find_map(found)
    }

    /// Number of rows, n.
    pub fn row_count(&self) -> usize {
        self.target.len()
    }

    /// Number of inputs, p.
    pub fn input_count(&self) -> usize {
        self.columns.len()
    }

    /// The inputs.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = ColRef<'_, f64>> + '_ {
        self.columns.iter().map(Column::values)
    }

    /// The target.
    pub fn target(&self) -> &[f64] {
        &self.target
    }

    /// How often each row counts; none if all count once.
    pub fn weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }

    /// The group of inputs that shares a precision, for each input.
    pub fn groups(&self) -> &[usize] {
        &self.groups
    }

    /// What the inputs are called.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Shows blocks of rows, row after row, each with the number of its first row. Rows that lie one after the other in memory are
    /// shown as they are, others are gathered.
    pub fn blocks(&self, mut show: impl FnMut(usize, MatRef<'_, f64>)) {
        let (n, p) = (self.row_count(), self.input_count());
        if let Some(inputs) = self.by_rows {
            (0..n).step_by(BLOCK).for_each(|start| show(start, inputs.subrows(start, BLOCK.min(n - start))));
            return;
        }
        let columns: Vec<ColRef<'_, f64>> = self.columns().collect();
        let mut room = vec![0.0; BLOCK.min(n) * p];
        for start in (0..n).step_by(BLOCK) {
            let rows = BLOCK.min(n - start);
            for (j, column) in columns.iter().enumerate() {
                for (value, room) in column.subrows(start, rows).iter().zip(room[j..].iter_mut().step_by(p)) {
                    *room = *value;
                }
            }
            show(start, MatRef::from_row_major_slice(&room[..rows * p], rows, p));
        }
    }

    /// The inputs as a matrix whose rows are contiguous, if that is what they came as.
    pub(crate) fn by_rows(&self) -> Option<MatRef<'a, f64>> {
        self.by_rows
    }

    /// An input.
    pub(crate) fn column(&self, input: usize) -> ColRef<'_, f64> {
        self.columns[input].values()
    }

    /// How many rows have the same inputs and target, each row itself included.
    pub fn copies(&self) -> &[usize] {
        self.copies.get_or_init(|| count_copies(self))
    }

    /// Number of rows that are not copies of others.
    pub fn distinct_rows(&self) -> usize {
        self.copies().iter().map(|copies| 1.0 / *copies as f64).sum::<f64>().round() as usize
    }

    /// The rows that have copies, unless most have: leaving one out does not take it away.
    pub fn copied_rows(&self) -> Vec<usize> {
        let copied: Vec<usize> = (0..self.row_count()).filter(|&row| self.copies()[row] > 1).collect();
        if 2 * copied.len() > self.row_count() { Vec::new() } else { copied }
    }

    /// How many rows have each value of the target, in the order of the values.
    fn rows_by_target(&self) -> Vec<usize> {
        let mut sorted = self.target.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.chunk_by(|a, b| a == b).map(<[f64]>::len).collect()
    }

    /// Whether the target has two values only, or one value in most rows: noise with outliers would take the rest for wrong.
    pub fn target_is_lumpy(&self) -> bool {
        let runs = self.rows_by_target();
        runs.len() <= 2 || runs.iter().any(|run| 2 * run > self.target.len())
    }

    /// Most rows that can be wrong: half of those that do not have the commonest target. If more are taken for wrong, it is because they
    /// are not like the others, of which many share a value.
    pub(crate) fn most_wrong_rows(&self) -> usize {
        let commonest = self.rows_by_target().into_iter().max().unwrap_or(0);
        (self.target.len() - commonest) / 2
    }

    /// Whether the target has two values at most, of which neither can be wrong by much.
    pub fn target_has_two_values(&self) -> bool {
        let first = self.target[0];
        let Some(second) = self.target.iter().find(|value| **value != first) else { return true };
        self.target.iter().all(|value| *value == first || value == second)
    }

    /// The given rows alone, as a set of its own.
    pub fn take(&self, rows: &[usize]) -> Dataset<'static> {
        let take = |values: &[f64]| -> Vec<f64> { rows.iter().map(|&row| values[row]).collect() };
        let columns = self.columns().map(|column| Column::Owned(rows.iter().map(|&row| column[row]).collect()));
        Dataset {
            columns: columns.collect(),
            by_rows: None,
            target: Cow::Owned(take(&self.target)),
            weights: self.weights.as_deref().map(|weights| Cow::Owned(take(weights))),
            groups: self.groups.clone(),
            names: self.names.clone(),
            copies: OnceLock::new(),
            // What is a level in all rows is one in some.
            levels: self.levels().to_vec().into(),
            input_columns: self.input_columns().to_vec().into(),
        }
    }

    /// The columns of the table that the inputs stand for.
    pub fn input_columns(&self) -> &[InputColumn] {
        self.input_columns.get_or_init(|| {
            let mut columns: Vec<InputColumn> = Vec::new();
            let mut of_category: HashMap<usize, usize> = HashMap::new();
            for (input, (name, category)) in self.names.iter().zip(self.levels()).enumerate() {
                let known = category.and_then(|category| of_category.get(&category).copied());
                match (category, known.map(|place| &mut columns[place])) {
                    (_, Some(InputColumn { inputs, kind: InputKind::Category { levels }, .. })) => {
                        inputs.push(input);
                        levels.push(name.clone());
                    }
                    (Some(category), _) => {
                        of_category.insert(*category, columns.len());
                        let kind = InputKind::Category { levels: vec![name.clone()] };
                        columns.push(InputColumn::new(format!("group {category}"), vec![input], kind));
                    }
                    (None, _) => columns.push(InputColumn::new(name.clone(), vec![input], InputKind::Number)),
                }
            }
            columns
        })
    }

    /// For each input the category, by its group label, that it is a level of: a group of several inputs that are 0 or 1.
    pub(crate) fn levels(&self) -> &[Option<usize>] {
        self.levels.get_or_init(|| {
            let mut sizes = vec![0; self.groups.iter().max().map_or(0, |last| last + 1)];
            self.groups.iter().for_each(|&group| sizes[group] += 1);
            let mut is_category: Vec<bool> = sizes.iter().map(|size| *size > 1).collect();
            for (column, &group) in self.columns().zip(&self.groups) {
                is_category[group] = is_category[group] && column.iter().all(|value| *value == 0.0 || *value == 1.0);
            }
            self.groups.iter().map(|&group| is_category[group].then_some(group)).collect()
        })
    }

    /// The inputs as one matrix, n × p.
    pub fn inputs(&self) -> Mat<f64> {
        let mut inputs = Mat::zeros(self.row_count(), self.input_count());
        for (j, column) in self.columns().enumerate() {
            inputs.col_as_slice_mut(j).iter_mut().zip(column.iter()).for_each(|(to, from)| *to = *from);
        }
        inputs
    }
}

/// How many rows are equal to each row, bit by bit. Rows are told apart by a hash first.
fn count_copies(dataset: &Dataset<'_>) -> Vec<usize> {
    /// An odd number without a pattern, to spread bits by multiplication.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let n = dataset.row_count();
    let mix = |hash: u64, value: f64| (hash.rotate_left(29) ^ value.to_bits()).wrapping_mul(SPREAD);
    let mut hashes = vec![0u64; n];
    dataset.blocks(|start, block| {
        for (hash, row) in hashes[start..].iter_mut().zip(block.row_iter()) {
            *hash = row.iter().fold(*hash, |hash, value| mix(hash, *value));
        }
    });
    hashes.iter_mut().zip(dataset.target()).for_each(|(hash, value)| *hash = mix(*hash, *value));
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|&row| hashes[row]);
    let key = |row: usize| -> Vec<u64> {
        let inputs = dataset.columns().map(|column| column[row].to_bits());
        inputs.chain([dataset.target()[row].to_bits()]).collect()
    };
    let mut copies = vec![1; n];
    for alike in order.chunk_by(|a, b| hashes[*a] == hashes[*b]).filter(|alike| alike.len() > 1) {
        let mut counts: HashMap<Vec<u64>, usize> = HashMap::new();
        alike.iter().for_each(|&row| *counts.entry(key(row)).or_default() += 1);
        alike.iter().for_each(|&row| copies[row] = counts[&key(row)]);
    }
    copies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_numbers_are_named() {
        let x = Mat::from_fn(3, 2, |i, j| (i * 2 + j) as f64);
        let message = |result: Result<Dataset<'_>, DatasetError>| result.unwrap_err().to_string();
        assert!(message(Dataset::new(x.as_ref(), &[1.0, 2.0])).contains("3 rows but the target has 2"));
        assert!(message(Dataset::new(x.as_ref(), &[1.0, f64::NAN, 2.0])).contains("row 2"));
        assert!(message(Dataset::new(x.as_ref().subrows(0, 0), &[])).contains("no rows"));
        assert!(message(Dataset::new(x.as_ref().subcols(0, 0), &[1.0, 2.0, 3.0])).contains("no columns"));
        let good = || Dataset::new(x.as_ref(), &[1.0, 2.0, 3.0]).unwrap();
        assert!(message(good().with_weights(vec![1.0, 0.0, 1.0])).contains("row 2 is 0"));
        assert!(message(good().with_weights(vec![1.0])).contains("3 rows but 1 weights"));
        assert!(message(good().with_groups(&[0])).contains("group labels"));
        let mut bad = x.clone();
        bad[(1, 1)] = f64::INFINITY;
        let dataset = Dataset::new(bad.as_ref(), &[1.0, 2.0, 3.0]).unwrap().with_names(["a", "b"]).unwrap();
        assert!(dataset.not_finite().unwrap().to_string().contains("column 'b', row 2"));
    }

    #[test]
    fn copies_are_counted_whatever_the_layout() {
        let values = [1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 1.0, 2.0];
        let by_rows = MatRef::from_row_major_slice(&values, 4, 2);
        let by_columns = by_rows.to_owned();
        let target = [7.0, 7.0, 7.0, 8.0];
        for inputs in [by_rows, by_columns.as_ref()] {
            let dataset = Dataset::new(inputs, &target).unwrap();
            assert_eq!(dataset.copies(), [2, 1, 2, 1]);
            assert_eq!(dataset.distinct_rows(), 3);
            assert_eq!(dataset.copied_rows(), [0, 2]);
            assert_eq!(dataset.take(&[1, 3]).inputs(), Mat::from_fn(2, 2, |i, j| [[3.0, 4.0], [1.0, 2.0]][i][j]));
        }
    }
}
