//! The transposed design matrix, which problems share.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use faer::{Mat, MatRef};

/// A d × n matrix: row i of the table is the contiguous column i.
#[derive(Debug, Clone)]
pub(super) enum Rows {
    Whole(Arc<Mat<f64>>),
    /// Some columns of the table, copied only when they are looked at: with shared noise, inner products are enough for most of
    /// a fit.
    Part {
        whole: Arc<Mat<f64>>,
        columns: Vec<usize>,
        part: OnceLock<Arc<Mat<f64>>>,
    },
}

impl Rows {
    pub(super) fn as_ref(&self) -> MatRef<'_, f64> {
        match self {
            Self::Whole(whole) => Mat::as_ref(whole),
            Self::Part { whole, columns, part } => {
                Mat::as_ref(part.get_or_init(|| Arc::new(select(Mat::as_ref(whole), columns))))
            }
        }
    }

    /// Whether they lie in memory as they are.
    pub(super) fn are_there(&self) -> bool {
        match self {
            Self::Whole(_) => true,
            Self::Part { part, .. } => part.get().is_some(),
        }
    }

    /// A copy of some rows.
    pub(super) fn copy(&self, range: Range<usize>) -> Mat<f64> {
        match self {
            Self::Whole(whole) => Mat::as_ref(whole).subcols(range.start, range.len()).to_owned(),
            Self::Part { whole, columns, .. } => select(Mat::as_ref(whole).subcols(range.start, range.len()), columns),
        }
    }

    /// Number of columns of the table, d.
    pub(super) fn column_count(&self) -> usize {
        match self {
            Self::Whole(whole) => whole.nrows(),
            Self::Part { columns, .. } => columns.len(),
        }
    }

    /// Number of rows of the table, n.
    pub(super) fn row_count(&self) -> usize {
        match self {
            Self::Whole(whole) | Self::Part { whole, .. } => whole.ncols(),
        }
    }

    /// The same rows with only some of their columns.
    pub(super) fn part(&self, columns: Vec<usize>) -> Self {
        let (whole, columns) = match self {
            Self::Whole(whole) => (whole, columns),
            Self::Part { whole, columns: own, .. } => (whole, columns.into_iter().map(|column| own[column]).collect()),
        };
        Self::Part { whole: Arc::clone(whole), columns, part: OnceLock::new() }
    }
}

fn select(rows: MatRef<'_, f64>, columns: &[usize]) -> Mat<f64> {
    let mut part = Mat::zeros(columns.len(), rows.ncols());
    for i in 0..rows.ncols() {
        let row = rows.col(i).try_as_col_major().expect("rows are contiguous").as_slice();
        part.col_as_slice_mut(i).iter_mut().zip(columns).for_each(|(value, &column)| *value = row[column]);
    }
    part
}
