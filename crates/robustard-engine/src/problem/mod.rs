//! The regression problem: design matrix, target, row weights and column groups, with every check of the input.

mod groups;
mod rows;
mod units;

use std::sync::{Arc, OnceLock};

use crate::math::product::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use thiserror::Error;

pub use groups::Groups;
pub use rows::RowSource;
pub(crate) use rows::{RowBlocks, Rows, select};
pub use units::NaturalUnits;
use units::Sizes;

/// Largest magnitude accepted. Squares, and squares divided by variances, must stay inside the range of `f64`.
const LARGEST: f64 = 1e100;

/// What is wrong with the input. Rows and columns are counted from 0 in the fields and from 1 in the message.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
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

/// Precision of a weight that is practically not shrunk, in units of column and target.
pub const UNSHRUNK: f64 = 1e-6;

/// A checked regression problem: `n` rows, `d` columns. Clones share the design matrix and the target.
#[derive(Debug, Clone)]
pub struct Problem<'a> {
    rows: Rows<'a>,
    target: Arc<Vec<f64>>,
    row_weight: Arc<Vec<f64>>,
    weight_sum: f64,
    log_weight_sum: f64,
    groups: Groups,
    /// Computed when first asked for.
    sizes: OnceLock<Arc<Sizes>>,
}

impl<'a> Problem<'a> {
    /// Checks and copies an n × d design matrix and its n targets. All rows weigh 1, each column is its own group.
    ///
    /// No intercept is added: unless the target has mean zero, give a column of ones and leave it unshrunk
    /// ([`Problem::with_unshrunk`]). With an intercept, columns whose mean is many times their spread are best centred.
    pub fn new(design: MatRef<'_, f64>, target: &[f64]) -> Result<Self, ProblemError> {
        Self::from_rows(design.transpose().to_owned(), target.to_vec())
    }

    /// Checks a transposed design matrix, d × n with one column per row of the table, and its n targets; neither is copied.
    /// Else as [`Problem::new`].
    pub fn from_rows(rows: Mat<f64>, target: impl Into<Arc<Vec<f64>>>) -> Result<Self, ProblemError> {
        let target = target.into();
        let (d, n) = (rows.nrows(), rows.ncols());
        if n == 0 {
            return Err(ProblemError::NoRows);
        }
        if d == 0 {
            return Err(ProblemError::NoColumns);
        }
        if n != target.len() {
            return Err(ProblemError::TargetLength { rows: n, targets: target.len() });
        }
        check_values(&rows, &target)?;
        Ok(Self::of_known(Rows::new(rows), target))
    }

    /// The same of rows and targets that are known to be finite and of unit size: every column has mean 0 and variance 1, or is 0,
    /// but the first `ones` columns, which are 1. That is taken on trust. The rows are written when they are looked at.
    ///
    /// # Panics
    /// If there are no rows or columns, or not one target per row.
    pub fn from_standard_source(source: impl RowSource + 'a, target: impl Into<Arc<Vec<f64>>>, ones: usize) -> Self {
        let target = target.into();
        let (d, n) = (source.column_count(), source.row_count());
        assert!(n > 0 && d > 0 && n == target.len(), "{n} rows, {d} columns, {} targets", target.len());
        let problem = Self::of_known(Rows::from_source(source), target);
        Self { sizes: Arc::new(Sizes::standard(d, ones)).into(), ..problem }
    }

    fn of_known(rows: Rows<'a>, target: Arc<Vec<f64>>) -> Self {
        let (d, n) = (rows.column_count(), rows.row_count());
        Self {
            rows,
            target,
            row_weight: Arc::new(vec![1.0; n]),
            weight_sum: n as f64,
            log_weight_sum: 0.0,
            groups: Groups::one_per_column(d),
            sizes: OnceLock::new(),
        }
    }

    /// Counts row i `weights[i]` times: to the evidence and the weights, 2 is the same as the row given twice. Summaries over
    /// rows (base noise, effective share, medians) count every row once.
    pub fn with_row_weights(mut self, weights: &[f64]) -> Result<Self, ProblemError> {
        if weights.len() != self.row_count() {
            return Err(ProblemError::WeightLength { rows: self.row_count(), weights: weights.len() });
        }
        check_row_weights(weights)?;
        self.row_weight = Arc::new(weights.to_vec());
        self.weight_sum = weights.iter().sum();
        self.log_weight_sum = weights.iter().map(|w| w.ln()).sum();
        self.sizes = OnceLock::new();
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
        if column >= self.column_count() {
            return Err(ProblemError::NoSuchColumn { column, columns: self.column_count() });
        }
        let unit = self.natural_units().weight_precision[self.groups.of_column[column]];
        self.with_fixed_precision(column, UNSHRUNK * unit)
    }

    /// Number of rows, n.
    pub fn row_count(&self) -> usize {
        self.rows.row_count()
    }

    /// Number of columns, d.
    pub fn column_count(&self) -> usize {
        self.rows.column_count()
    }

    /// The transposed design matrix, d × n.
    pub fn rows(&self) -> MatRef<'_, f64> {
        self.rows.as_ref()
    }

    /// The same block by block, for those who look once or twice: no matrix is made.
    pub(crate) fn row_blocks(&self) -> RowBlocks<'_> {
        self.rows.blocks()
    }

    /// The same for those who look at every iteration: as a matrix, unless that would be large.
    pub(crate) fn rows_of_passes(&self) -> RowBlocks<'_> {
        if self.is_large() { self.rows.blocks() } else { RowBlocks::Here(self.rows.as_ref()) }
    }

    /// Some columns of the rows.
    pub(crate) fn some_columns(&self, columns: &[usize]) -> Rows<'a> {
        self.rows.part(columns)
    }

    /// Whether a copy of the design matrix is to be avoided.
    pub(crate) fn is_large(&self) -> bool {
        self.rows.are_large()
    }

    /// The targets, n.
    pub fn target(&self) -> &[f64] {
        &self.target
    }

    /// The targets and the row weights, to keep when the problem is gone.
    pub(crate) fn shared_rows(&self) -> [Arc<Vec<f64>>; 2] {
        [Arc::clone(&self.target), Arc::clone(&self.row_weight)]
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
        /// Rows that are written together where they lie elsewhere.
        const BLOCK: usize = 1024;
        residual.copy_from_slice(&self.target);
        let rows = self.row_blocks();
        let length = if matches!(rows, RowBlocks::Here(_)) { self.row_count() } else { BLOCK };
        let mut room = Mat::new();
        for start in (0..self.row_count()).step_by(length) {
            let range = start..(start + length).min(self.row_count());
            let residual = &mut residual[range.clone()];
            let count = residual.len();
            matmul(
                MatMut::from_column_major_slice_mut(residual, count, 1),
                Accum::Add,
                rows.block(range, &mut room).transpose(),
                MatRef::from_column_major_slice(weights, self.column_count(), 1),
                -1.0,
                par,
            );
        }
    }

    /// The data's own units for variances and precisions; 1 where the data is all zero. With an intercept (a constant column
    /// of fixed precision) they are taken about the means, as the intercept takes those up.
    pub fn natural_units(&self) -> NaturalUnits {
        let sizes = || Arc::new(Sizes::new(self.rows(), &self.target, &self.row_weight, self.weight_sum));
        self.sizes.get_or_init(sizes).units(&self.groups)
    }

    /// The same rows with only the groups for which `keep` is true.
    pub(crate) fn select_groups(&self, keep: &[bool]) -> Problem<'a> {
        Problem {
            rows: self.rows.part(&self.groups.columns_of(keep)),
            groups: self.groups.select(keep),
            sizes: OnceLock::new(),
            ..self.clone()
        }
    }
}

/// Whether every value is finite and not too large. Names the first that is not, row by row, the target last.
fn check_values(rows: &Mat<f64>, target: &[f64]) -> Result<(), ProblemError> {
    let is_fine = |value: &f64| value.abs() <= LARGEST;
    // No early end within a row, so that the comparison vectorises.
    let all_fine = |row: &[f64]| row.iter().fold(true, |fine, value| fine & is_fine(value));
    let wrong_row = (0..rows.ncols()).find(|&row| !all_fine(rows.col_as_slice(row)));
    let wrong_target = target.iter().position(|value| !is_fine(value));
    if let Some(row) = wrong_row.filter(|&row| wrong_target.is_none_or(|other| row <= other)) {
        let mut values = rows.col_as_slice(row).iter().enumerate();
        if let Some((column, &value)) = values.find(|(_, value)| !is_fine(value)) {
            return Err(if value.is_finite() {
                ProblemError::TooLarge { column, row, value }
            } else {
                ProblemError::NotFinite { column, row, value }
            });
        }
    }
    let Some(row) = wrong_target else { return Ok(()) };
    let value = target[row];
    Err(if value.is_finite() {
        ProblemError::TargetTooLarge { row, value }
    } else {
        ProblemError::TargetNotFinite { row, value }
    })
}

/// Whether every weight is one that a row can have.
pub fn check_row_weights(weights: &[f64]) -> Result<(), ProblemError> {
    match weights.iter().position(|w| !(*w >= 1.0 / LARGEST && *w <= LARGEST)) {
        Some(row) => Err(ProblemError::BadWeight { row, value: weights[row] }),
        None => Ok(()),
    }
}
