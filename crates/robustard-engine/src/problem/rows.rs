//! The transposed design matrix, which problems share.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use faer::{Mat, MatMut, MatRef};

/// Rows that lie elsewhere, in another form, and are written anew when they are looked at. With shared noise a fit looks at them
/// twice, and they are never all in memory.
pub trait RowSource: Debug + Send + Sync {
    /// Number of columns of the table, d.
    fn column_count(&self) -> usize;

    /// Number of rows of the table, n.
    fn row_count(&self) -> usize;

    /// Writes the given columns of some rows, from `first` on: row i of them is column i of `rows`.
    fn write(&self, first: usize, columns: &[usize], rows: MatMut<'_, f64>);

    /// All rows and columns: d × n.
    fn matrix(&self) -> Mat<f64> {
        /// Rows written together: they stay in the cache between making room and writing.
        const BLOCK: usize = 256;
        let (columns, n): (Vec<usize>, usize) = ((0..self.column_count()).collect(), self.row_count());
        let mut rows = Mat::with_capacity(columns.len(), n);
        for start in (0..n).step_by(BLOCK) {
            let length = BLOCK.min(n - start);
            rows.resize_with(columns.len(), start + length, |_, _| 0.0);
            self.write(start, &columns, rows.as_mut().subcols_mut(start, length));
        }
        rows
    }
}

/// Bytes of a large matrix.
const LARGE: usize = 1 << 26;

/// Where the whole d × n matrix is: row i of the table is its contiguous column i.
#[derive(Debug, Clone)]
enum Whole<'a> {
    Here(Arc<Mat<f64>>),
    Elsewhere { source: Arc<dyn RowSource + 'a>, copy: Arc<OnceLock<Mat<f64>>> },
}

/// Some or all columns of the matrix.
#[derive(Debug, Clone)]
pub(crate) struct Rows<'a> {
    whole: Whole<'a>,
    columns: Arc<Vec<usize>>,
    /// Copied only when they are looked at as a matrix: with shared noise, inner products are enough for most of a fit.
    part: OnceLock<Arc<Mat<f64>>>,
}

/// Rows that are looked at block by block.
#[derive(Clone, Copy)]
pub(crate) enum RowBlocks<'a> {
    /// As they lie in memory.
    Here(MatRef<'a, f64>),
    /// Written anew, each block when it is its turn.
    Written(&'a Rows<'a>),
}

impl<'a> Rows<'a> {
    pub(super) fn new(rows: Mat<f64>) -> Self {
        let columns = (0..rows.nrows()).collect();
        Self { whole: Whole::Here(Arc::new(rows)), columns: Arc::new(columns), part: OnceLock::new() }
    }

    pub(super) fn from_source(source: impl RowSource + 'a) -> Self {
        let columns = (0..source.column_count()).collect();
        let whole = Whole::Elsewhere { source: Arc::new(source), copy: Arc::default() };
        Self { whole, columns: Arc::new(columns), part: OnceLock::new() }
    }

    /// The rows as a matrix, which is made if there is none yet.
    pub(super) fn as_ref(&self) -> MatRef<'_, f64> {
        if self.columns.len() == self.whole.column_count() {
            return match &self.whole {
                Whole::Here(whole) => Mat::as_ref(whole),
                Whole::Elsewhere { source, copy } => Mat::as_ref(copy.get_or_init(|| source.matrix())),
            };
        }
        Mat::as_ref(self.part.get_or_init(|| {
            let mut part = Mat::zeros(self.columns.len(), self.row_count());
            self.write(0..self.row_count(), part.as_mut());
            Arc::new(part)
        }))
    }

    /// Whether a matrix of them is so large that memory matters more than the time to write them again and again.
    pub(super) fn are_large(&self) -> bool {
        size_of::<f64>() * self.row_count() * self.column_count() > LARGE
    }

    /// The rows block by block: from the matrix, if there is one, else written anew.
    pub(crate) fn blocks(&'a self) -> RowBlocks<'a> {
        let is_whole = self.columns.len() == self.whole.column_count();
        if self.part.get().is_some() || (is_whole && self.whole.matrix().is_some()) {
            RowBlocks::Here(self.as_ref())
        } else {
            RowBlocks::Written(self)
        }
    }

    /// Writes some rows.
    fn write(&self, range: Range<usize>, rows: MatMut<'_, f64>) {
        match (&self.whole, self.whole.matrix()) {
            (Whole::Elsewhere { source, .. }, None) => source.write(range.start, &self.columns, rows),
            (_, whole) => {
                let whole = whole.expect("a matrix that is here");
                select(whole.subcols(range.start, range.len()), &self.columns, rows);
            }
        }
    }

    /// Number of columns of the table, d.
    pub(super) fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// Number of rows of the table, n.
    pub(super) fn row_count(&self) -> usize {
        match &self.whole {
            Whole::Here(whole) => whole.ncols(),
            Whole::Elsewhere { source, .. } => source.row_count(),
        }
    }

    /// The same rows with only some of their columns.
    pub(super) fn part(&self, columns: &[usize]) -> Self {
        let columns = columns.iter().map(|&column| self.columns[column]).collect();
        Self { whole: self.whole.clone(), columns: Arc::new(columns), part: OnceLock::new() }
    }
}

impl Whole<'_> {
    fn column_count(&self) -> usize {
        match self {
            Self::Here(whole) => whole.nrows(),
            Self::Elsewhere { source, .. } => source.column_count(),
        }
    }

    fn matrix(&self) -> Option<MatRef<'_, f64>> {
        match self {
            Self::Here(whole) => Some(Mat::as_ref(whole)),
            Self::Elsewhere { copy, .. } => copy.get().map(Mat::as_ref),
        }
    }
}

impl RowBlocks<'_> {
    /// Number of columns of the table, d.
    pub(crate) fn column_count(&self) -> usize {
        match self {
            Self::Here(rows) => rows.nrows(),
            Self::Written(rows) => rows.column_count(),
        }
    }

    /// A block of rows, d × as many, perhaps in `room`.
    pub(crate) fn block<'b>(&'b self, range: Range<usize>, room: &'b mut Mat<f64>) -> MatRef<'b, f64> {
        match self {
            Self::Here(rows) => rows.subcols(range.start, range.len()),
            Self::Written(rows) => {
                let length = range.len();
                if room.nrows() != rows.column_count() || room.ncols() < length {
                    *room = Mat::zeros(rows.column_count(), length);
                }
                rows.write(range, room.as_mut().subcols_mut(0, length));
                room.as_ref().subcols(0, length)
            }
        }
    }
}

/// Writes some columns of rows, which are contiguous.
pub(crate) fn select(rows: MatRef<'_, f64>, columns: &[usize], mut part: MatMut<'_, f64>) {
    for i in 0..rows.ncols() {
        let row = rows.col(i).try_as_col_major().expect("rows are contiguous").as_slice();
        let part = part.as_mut().col_mut(i).try_as_col_major_mut().expect("rows are contiguous").as_slice_mut();
        part.iter_mut().zip(columns).for_each(|(value, &column)| *value = row[column]);
    }
}
