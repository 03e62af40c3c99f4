//! Passes over the rows in blocks that fit the cache: the engine of weight space.
//!
//! The rows are cut into a number of chunks that depends on the problem's size alone. Each chunk has its own sums, which
//! are added in order at the end, so the result does not depend on the number of threads.

use std::ops::Range;

use crate::math::product::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use rayon::prelude::*;

use crate::math::sum::{STRIP, image_squares};
use crate::problem::RowBlocks;

/// Rows in one block: 256 rows of 256 columns are half a mebibyte and stay in a second-level cache.
pub(crate) const BLOCK_ROWS: usize = 256;
const MOST_CHUNKS: usize = 16;

/// Sums over one chunk of rows and the buffers to form them, which are empty until they are needed. A single thread has one for
/// all chunks.
struct Chunk {
    sums: BlockSums,
    forms: BlockForms,
    /// A block of rows that lie elsewhere.
    written: Mat<f64>,
}

/// Σ wᵢ xᵢxᵢᵀ and Σ wᵢ yᵢxᵢ over blocks of rows.
pub(crate) struct BlockSums {
    /// The lower triangle.
    pub(crate) gram: Mat<f64>,
    pub(crate) projection: Vec<f64>,
    /// A block of rows times their weights.
    weighted: Mat<f64>,
}

/// Residuals and quadratic forms of blocks of rows.
pub(crate) struct BlockForms {
    /// A strip of L⁻¹Xᵀ for a block.
    strip: Mat<f64>,
}

/// A chunk with its parts of the residuals and latent variances.
type Outputs<'a> = ((&'a mut Chunk, &'a mut [f64]), &'a mut [f64]);

/// The chunks of one problem size.
pub(super) struct Sweep {
    chunks: Vec<Chunk>,
    chunk_count: usize,
    chunk_rows: usize,
    par: Par,
}

impl Sweep {
    pub(super) fn new(rows: usize, columns: usize, par: Par) -> Self {
        let wanted = (rows / (2 * columns)).clamp(if rows < 128 { 1 } else { 2 }, MOST_CHUNKS).next_power_of_two();
        let chunk_rows = rows.div_ceil(wanted).max(1);
        let chunk_count = rows.div_ceil(chunk_rows);
        let buffers = if matches!(par, Par::Seq) { 1 } else { chunk_count };
        Self { chunks: (0..buffers).map(|_| Chunk::empty()).collect(), chunk_count, chunk_rows, par }
    }

    /// Σ weightᵢ xᵢxᵢᵀ into the lower triangle of `gram` and Σ weightᵢ yᵢxᵢ into `projection`.
    pub(super) fn gram(
        &mut self,
        rows: RowBlocks<'_>,
        weight: &[f64],
        target: &[f64],
        gram: &mut Mat<f64>,
        projection: &mut [f64],
    ) {
        let chunk_rows = self.chunk_rows;
        let work = |c: usize, chunk: &mut Chunk| {
            let range = c * chunk_rows..((c + 1) * chunk_rows).min(target.len());
            chunk.accumulate(rows, range, weight, target);
        };
        let mut add = |c: usize, chunk: &Chunk| {
            for column in 0..rows.column_count() {
                let sum = &mut gram.col_as_slice_mut(column)[column..];
                let values = &chunk.sums.gram.col_as_slice(column)[column..];
                if c == 0 {
                    sum.copy_from_slice(values);
                    projection[column] = chunk.sums.projection[column];
                } else {
                    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
                    projection[column] += chunk.sums.projection[column];
                }
            }
        };
        match self.par {
            Par::Seq => {
                for c in 0..self.chunk_count {
                    work(c, &mut self.chunks[0]);
                    add(c, &self.chunks[0]);
                }
            }
            Par::Rayon(_) => {
                self.chunks.par_iter_mut().enumerate().for_each(|(c, chunk)| work(c, chunk));
                self.chunks.iter().enumerate().for_each(|(c, chunk)| add(c, chunk));
            }
        }
    }

    /// rᵢ = yᵢ − xᵢᵀμ and qᵢ = ‖L⁻¹xᵢ‖² for every row.
    pub(super) fn row_forms(
        &mut self,
        rows: RowBlocks<'_>,
        inverse_factor: MatRef<'_, f64>,
        mean: &[f64],
        target: &[f64],
        residual: &mut [f64],
        latent_variance: &mut [f64],
    ) {
        let chunk_rows = self.chunk_rows;
        let work = |(c, ((chunk, residual), latent)): (usize, Outputs<'_>)| {
            chunk.row_forms(rows, c * chunk_rows, inverse_factor, mean, target, residual, latent);
        };
        match self.par {
            Par::Seq => {
                let rows = residual.chunks_mut(chunk_rows).zip(latent_variance.chunks_mut(chunk_rows));
                for (c, (residual, latent)) in rows.enumerate() {
                    work((c, ((&mut self.chunks[0], residual), latent)));
                }
            }
            Par::Rayon(_) => self
                .chunks
                .par_iter_mut()
                .zip(residual.par_chunks_mut(chunk_rows))
                .zip(latent_variance.par_chunks_mut(chunk_rows))
                .enumerate()
                .for_each(work),
        }
    }
}

impl Chunk {
    fn empty() -> Self {
        Self { sums: BlockSums::new(), forms: BlockForms::new(), written: Mat::new() }
    }

    /// Sums over a range of rows.
    fn accumulate(&mut self, rows: RowBlocks<'_>, range: Range<usize>, weight: &[f64], target: &[f64]) {
        let block_rows = BLOCK_ROWS.min(range.len());
        self.sums.make_room(rows.column_count());
        for start in range.clone().step_by(block_rows) {
            let length = block_rows.min(range.end - start);
            let accumulate = if start == range.start { Accum::Replace } else { Accum::Add };
            let block = rows.block(start..start + length, &mut self.written);
            let of_block = start..start + length;
            self.sums.add(block, &weight[of_block.clone()], &target[of_block], accumulate);
        }
    }

    /// Those of as many rows, from `first` on, as there are residuals.
    #[allow(clippy::too_many_arguments)]
    fn row_forms(
        &mut self,
        rows: RowBlocks<'_>,
        first: usize,
        inverse_factor: MatRef<'_, f64>,
        mean: &[f64],
        target: &[f64],
        residual: &mut [f64],
        latent_variance: &mut [f64],
    ) {
        let n = residual.len();
        let block_rows = BLOCK_ROWS.min(n);
        for start in (0..n).step_by(block_rows) {
            let length = block_rows.min(n - start);
            let place = first + start..first + start + length;
            let block = rows.block(place.clone(), &mut self.written);
            let range = start..start + length;
            let (residual, latent_variance) = (&mut residual[range.clone()], &mut latent_variance[range]);
            self.forms.of_block(block, inverse_factor, mean, &target[place], residual, latent_variance);
        }
    }
}

impl BlockSums {
    pub(crate) fn new() -> Self {
        Self { gram: Mat::new(), projection: Vec::new(), weighted: Mat::new() }
    }

    /// Room for so many columns.
    pub(crate) fn make_room(&mut self, columns: usize) {
        if self.gram.nrows() < columns {
            self.gram = Mat::zeros(columns, columns);
            self.projection = vec![0.0; columns];
        }
    }

    /// Adds a block of rows, d × m, or begins with it.
    pub(crate) fn add(&mut self, block: MatRef<'_, f64>, weight: &[f64], target: &[f64], accumulate: Accum) {
        let (d, length) = (block.nrows(), block.ncols());
        let scaled = if weight.iter().all(|w| *w == 1.0) {
            block
        } else {
            if self.weighted.ncols() < length {
                self.weighted = Mat::zeros(d, length);
            }
            for (i, w) in weight.iter().enumerate() {
                let source = block.col(i).try_as_col_major().expect("rows are contiguous").as_slice();
                for (scaled, value) in self.weighted.col_as_slice_mut(i).iter_mut().zip(source) {
                    *scaled = w * value;
                }
            }
            self.weighted.as_ref().subcols(0, length)
        };
        for column in (0..d).step_by(STRIP) {
            let width = STRIP.min(d - column);
            matmul(
                self.gram.as_mut().submatrix_mut(column, column, d - column, width),
                accumulate,
                scaled.subrows(column, d - column),
                block.subrows(column, width).transpose(),
                1.0,
                Par::Seq,
            );
        }
        matmul(
            MatMut::from_column_major_slice_mut(&mut self.projection, d, 1),
            accumulate,
            scaled,
            MatRef::from_column_major_slice(target, length, 1),
            1.0,
            Par::Seq,
        );
    }
}

impl BlockForms {
    pub(crate) fn new() -> Self {
        Self { strip: Mat::new() }
    }

    /// rᵢ = yᵢ − xᵢᵀμ and qᵢ = ‖L⁻¹xᵢ‖² of a block of rows, d × m.
    pub(crate) fn of_block(
        &mut self,
        block: MatRef<'_, f64>,
        inverse_factor: MatRef<'_, f64>,
        mean: &[f64],
        target: &[f64],
        residual: &mut [f64],
        latent_variance: &mut [f64],
    ) {
        let (d, length) = (block.nrows(), block.ncols());
        if self.strip.ncols() < length {
            self.strip = Mat::zeros(STRIP, length);
        }
        residual.copy_from_slice(target);
        matmul(
            MatMut::from_column_major_slice_mut(residual, length, 1),
            Accum::Add,
            block.transpose(),
            MatRef::from_column_major_slice(mean, d, 1),
            -1.0,
            Par::Seq,
        );
        image_squares(inverse_factor, block, &mut self.strip, latent_variance);
    }
}
