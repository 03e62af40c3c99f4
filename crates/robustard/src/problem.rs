//! The regression problem: design matrix, target, row weights and column groups, with every check of the input.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use thiserror::Error;

/// Largest magnitude accepted. Squares, and squares divided by variances, must stay inside the range of `f64`.
const LARGEST: f64 = 1e100;

/// What is wrong with the input. Rows and columns are counted from 0 in the fields and from 1 in the message.
#[derive(Debug, Clone, PartialEq, Error)]
#[allow(missing_docs)] // the fields are explained by the messages
pub enum ProblemError {
    #[error("there are no rows to fit; give at least one")]
    NoRows,
    #[error("there are no columns to fit; give at least one feature")]
    NoColumns,
    #[error("the design matrix has {rows} rows but the target has {targets} values; give one target per row")]
    TargetLength { rows: usize, targets: usize },
    #[error(
        "column {}, row {} of the design matrix is {value}; drop the row or fill the value in before fitting",
        .column + 1, .row + 1
    )]
    NotFinite { column: usize, row: usize, value: f64 },
    #[error("the target in row {} is {value}; drop the row before fitting", .row + 1)]
    TargetNotFinite { row: usize, value: f64 },
    #[error(
        "column {}, row {} is {value:e}, beyond ±1e100; rescale or standardize the column",
        .column + 1, .row + 1
    )]
    TooLarge { column: usize, row: usize, value: f64 },
    #[error("the target in row {} is {value:e}, beyond ±1e100; rescale the target", .row + 1)]
    TargetTooLarge { row: usize, value: f64 },
    #[error("there are {rows} rows but {weights} row weights; give one weight per row")]
    WeightLength { rows: usize, weights: usize },
    #[error(
        "the weight of row {} is {value}; weights must be above zero (leave rows of weight zero out) and at most 1e100",
        .row + 1
    )]
    BadWeight { row: usize, value: f64 },
    #[error("there are {columns} columns but {labels} group labels; give one label per column")]
    GroupLength { columns: usize, labels: usize },
    #[error("group {group} has no column; number the groups 0, 1, 2, … without gaps")]
    EmptyGroup { group: usize },
    #[error("column {} does not exist; there are {columns} columns", .column + 1)]
    NoSuchColumn { column: usize, columns: usize },
    #[error("the fixed precision of column {} is {value}; it must be finite and above zero", .column + 1)]
    BadPrecision { column: usize, value: f64 },
}

/// Which columns share one weight precision, and which precisions are fixed rather than learnt.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    of_column: Vec<usize>,
    size: Vec<usize>,
    fixed: Vec<Option<f64>>,
}

impl Groups {
    fn one_per_column(columns: usize) -> Self {
        Self { of_column: (0..columns).collect(), size: vec![1; columns], fixed: vec![None; columns] }
    }

    fn from_labels(labels: &[usize]) -> Result<Self, ProblemError> {
        let count = labels.iter().max().map_or(0, |&last| last.saturating_add(1));
        // More groups than columns always leaves one of the first `len + 1` labels unused.
        let mut size = vec![0; count.min(labels.len() + 1)];
        for &group in labels {
            if let Some(members) = size.get_mut(group) {
                *members += 1;
            }
        }
        if let Some(group) = size.iter().position(|&members| members == 0) {
            return Err(ProblemError::EmptyGroup { group });
        }
        Ok(Self { of_column: labels.to_vec(), fixed: vec![None; count], size })
    }

    /// Number of groups.
    pub fn count(&self) -> usize {
        self.size.len()
    }

    /// The group of each column.
    pub fn of_column(&self) -> &[usize] {
        &self.of_column
    }

    /// Number of columns in each group.
    pub fn size(&self) -> &[usize] {
        &self.size
    }

    /// The precision of a group whose precision is not learnt.
    pub fn fixed(&self, group: usize) -> Option<f64> {
        self.fixed[group]
    }

    /// Writes the sum over each group's columns of `per_column(j)` into `sums`.
    pub(crate) fn sum_into(&self, sums: &mut [f64], per_column: impl Fn(usize) -> f64) {
        sums.fill(0.0);
        for (column, &group) in self.of_column.iter().enumerate() {
            sums[group] += per_column(column);
        }
    }

    /// Writes each column's value, taken from its group, into `columns`.
    pub(crate) fn spread(&self, per_group: &[f64], columns: &mut [f64]) {
        for (value, &group) in columns.iter_mut().zip(&self.of_column) {
            *value = per_group[group];
        }
    }
}

/// The units in which relative settings are given: what 1.0 means for a noise variance and a weight precision.
#[derive(Debug, Clone, PartialEq)]
pub struct NaturalUnits {
    /// Mean square of the target.
    pub noise_variance: f64,
    /// Mean square of a group's columns divided by that of the target, one per group.
    pub weight_precision: Vec<f64>,
}

/// Weighted sums that give a mean square and a variance.
#[derive(Debug, Clone, Copy, Default)]
struct MeanSquare {
    /// The first value, about which the others are summed: large means then cost no digits.
    origin: Option<f64>,
    shift: f64,
    shift_square: f64,
    square: f64,
}

impl MeanSquare {
    fn add(&mut self, value: f64, share: f64) {
        let shift = value - *self.origin.get_or_insert(value);
        self.shift += share * shift;
        self.shift_square += share * shift * shift;
        self.square += share * value * value;
    }

    fn is_constant(&self) -> bool {
        self.shift_square == 0.0 && self.square > 0.0
    }

    fn about_zero(&self) -> f64 {
        positive_or_one(self.square)
    }

    /// The variance; of a constant, the mean square.
    fn about_mean(&self) -> f64 {
        let variance = self.shift_square - self.shift * self.shift;
        if variance > 0.0 { positive_or_one(variance) } else { self.about_zero() }
    }
}

fn positive_or_one(value: f64) -> f64 {
    if value > 0.0 && value.is_finite() { value } else { 1.0 }
}

/// A checked regression problem: `n` rows, `d` columns.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The transposed design matrix, d × n: row i of the table is the contiguous column i.
    rows: Mat<f64>,
    target: Vec<f64>,
    row_weight: Vec<f64>,
    weight_sum: f64,
    log_weight_sum: f64,
    groups: Groups,
}

impl Problem {
    /// Checks and copies an n × d design matrix and its n targets. All rows weigh 1, each column is its own group.
    ///
    /// No intercept is added: unless the target has mean zero, give a column of ones and leave it unshrunk
    /// ([`Problem::with_unshrunk`]). With an intercept, columns whose mean is many times their spread are best centred.
    pub fn new(design: MatRef<'_, f64>, target: &[f64]) -> Result<Self, ProblemError> {
        let (n, d) = (design.nrows(), design.ncols());
        if n == 0 {
            return Err(ProblemError::NoRows);
        }
        if d == 0 {
            return Err(ProblemError::NoColumns);
        }
        if n != target.len() {
            return Err(ProblemError::TargetLength { rows: n, targets: target.len() });
        }
        // Column by column, as they lie; the first wrong row is then looked for.
        let is_fine = |value: &f64| value.abs() <= LARGEST;
        let columns = if design.col_iter().all(|column| column.iter().all(is_fine)) { 0 } else { d };
        for row in 0..n {
            for column in 0..columns {
                let value = design[(row, column)];
                if !value.is_finite() {
                    return Err(ProblemError::NotFinite { column, row, value });
                }
                if value.abs() > LARGEST {
                    return Err(ProblemError::TooLarge { column, row, value });
                }
            }
            let value = target[row];
            if !value.is_finite() {
                return Err(ProblemError::TargetNotFinite { row, value });
            }
            if value.abs() > LARGEST {
                return Err(ProblemError::TargetTooLarge { row, value });
            }
        }
        Ok(Self {
            rows: design.transpose().to_owned(),
            target: target.to_vec(),
            row_weight: vec![1.0; n],
            weight_sum: n as f64,
            log_weight_sum: 0.0,
            groups: Groups::one_per_column(d),
        })
    }

    /// Counts row i `weights[i]` times: to the evidence and the weights, 2 is the same as the row given twice. Summaries over
    /// rows (base noise, effective share, medians) count every row once.
    pub fn with_row_weights(mut self, weights: &[f64]) -> Result<Self, ProblemError> {
        if weights.len() != self.row_count() {
            return Err(ProblemError::WeightLength { rows: self.row_count(), weights: weights.len() });
        }
        check_row_weights(weights)?;
        self.row_weight = weights.to_vec();
        self.weight_sum = weights.iter().sum();
        self.log_weight_sum = weights.iter().map(|w| w.ln()).sum();
        Ok(self)
    }

    /// Lets columns with the same label share one precision; labels are 0, 1, 2, … without gaps.
    ///
    /// A precision fixed before stays, for the whole group that its column is now in.
    pub fn with_groups(mut self, labels: &[usize]) -> Result<Self, ProblemError> {
        if labels.len() != self.column_count() {
            return Err(ProblemError::GroupLength { columns: self.column_count(), labels: labels.len() });
        }
        let mut groups = Groups::from_labels(labels)?;
        for (column, &label) in labels.iter().enumerate() {
            groups.fixed[label] = groups.fixed[label].or(self.groups.fixed[self.groups.of_column[column]]);
        }
        self.groups = groups;
        Ok(self)
    }

    /// Fixes the precision of the group that holds `column`: it is neither learnt nor pruned.
    ///
    /// A small value leaves the weight practically unshrunk, as one wants for an intercept.
    pub fn with_fixed_precision(mut self, column: usize, precision: f64) -> Result<Self, ProblemError> {
        if column >= self.column_count() {
            return Err(ProblemError::NoSuchColumn { column, columns: self.column_count() });
        }
        if !(precision.is_finite() && precision > 0.0) {
            return Err(ProblemError::BadPrecision { column, value: precision });
        }
        let group = self.groups.of_column[column];
        self.groups.fixed[group] = Some(precision);
        Ok(self)
    }

    /// Leaves the weight of `column` practically unshrunk: its prior standard deviation is a thousand times what
    /// the scale of column and target suggests.
    pub fn with_unshrunk(self, column: usize) -> Result<Self, ProblemError> {
        const RELATIVE_PRECISION: f64 = 1e-6;
        if column >= self.column_count() {
            return Err(ProblemError::NoSuchColumn { column, columns: self.column_count() });
        }
        let unit = self.natural_units().weight_precision[self.groups.of_column[column]];
        self.with_fixed_precision(column, RELATIVE_PRECISION * unit)
    }

    /// Number of rows, n.
    pub fn row_count(&self) -> usize {
        self.rows.ncols()
    }

    /// Number of columns, d.
    pub fn column_count(&self) -> usize {
        self.rows.nrows()
    }

    /// The transposed design matrix, d × n.
    pub fn rows(&self) -> MatRef<'_, f64> {
        self.rows.as_ref()
    }

    /// The targets, n.
    pub fn target(&self) -> &[f64] {
        &self.target
    }

    /// How often each row counts, n.
    pub fn row_weight(&self) -> &[f64] {
        &self.row_weight
    }

    /// Sum of the row weights; n without weights.
    pub fn weight_sum(&self) -> f64 {
        self.weight_sum
    }

    /// Sum of the logarithms of the row weights; 0 without weights.
    pub fn log_weight_sum(&self) -> f64 {
        self.log_weight_sum
    }

    /// The groups of columns.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Writes y − Xθ.
    pub(crate) fn residual_of(&self, weights: &[f64], residual: &mut [f64], par: Par) {
        residual.copy_from_slice(&self.target);
        matmul(
            MatMut::from_column_major_slice_mut(residual, self.row_count(), 1),
            Accum::Add,
            self.rows.transpose(),
            MatRef::from_column_major_slice(weights, self.column_count(), 1),
            -1.0,
            par,
        );
    }

    /// The data's own units for variances and precisions; 1 where the data is all zero. With an intercept (a constant column
    /// of fixed precision) they are taken about the means, as the intercept takes those up.
    pub fn natural_units(&self) -> NaturalUnits {
        let mut of_column = vec![MeanSquare::default(); self.column_count()];
        let mut of_target = MeanSquare::default();
        for (i, row) in self.rows.col_iter().enumerate() {
            let share = self.row_weight[i] / self.weight_sum;
            of_target.add(self.target[i], share);
            of_column.iter_mut().zip(row.iter()).for_each(|(sum, value)| sum.add(*value, share));
        }
        let is_fixed = |column: usize| self.groups.fixed[self.groups.of_column[column]].is_some();
        let has_intercept = (0..self.column_count()).any(|j| is_fixed(j) && of_column[j].is_constant());
        let unit = |sum: &MeanSquare| if has_intercept { sum.about_mean() } else { sum.about_zero() };
        let target = unit(&of_target);
        let mut weight_precision = vec![0.0; self.groups.count()];
        self.groups.sum_into(&mut weight_precision, |column| unit(&of_column[column]));
        for (unit, &size) in weight_precision.iter_mut().zip(&self.groups.size) {
            *unit = positive_or_one(*unit / size as f64 / target);
        }
        NaturalUnits { noise_variance: target, weight_precision }
    }

    /// The columns of the groups for which `keep` is true, in order.
    pub(crate) fn columns_of(&self, keep: &[bool]) -> Vec<usize> {
        (0..self.column_count()).filter(|&column| keep[self.groups.of_column[column]]).collect()
    }

    /// The same rows with only the groups for which `keep` is true.
    pub(crate) fn select_groups(&self, keep: &[bool]) -> Problem {
        let columns = self.columns_of(keep);
        let new_label: Vec<usize> = keep
            .iter()
            .scan(0, |next, &kept| {
                let label = *next;
                *next += usize::from(kept);
                Some(label)
            })
            .collect();
        let kept = |values: &[Option<f64>]| values.iter().zip(keep).filter(|(_, k)| **k).map(|(v, _)| *v).collect();
        let groups = Groups {
            of_column: columns.iter().map(|&column| new_label[self.groups.of_column[column]]).collect(),
            size: self.groups.size.iter().zip(keep).filter(|(_, k)| **k).map(|(s, _)| *s).collect(),
            fixed: kept(&self.groups.fixed),
        };
        Problem {
            rows: Mat::from_fn(columns.len(), self.row_count(), |j, i| self.rows[(columns[j], i)]),
            target: self.target.clone(),
            row_weight: self.row_weight.clone(),
            weight_sum: self.weight_sum,
            log_weight_sum: self.log_weight_sum,
            groups,
        }
    }
}

/// Whether every weight is one that a row can have.
pub fn check_row_weights(weights: &[f64]) -> Result<(), ProblemError> {
    match weights.iter().position(|w| !(*w >= 1.0 / LARGEST && *w <= LARGEST)) {
        Some(row) => Err(ProblemError::BadWeight { row, value: weights[row] }),
        None => Ok(()),
    }
}
