//! Passes over the rows in blocks that fit the cache: the engine of weight space.
//!
//! The rows are cut into a number of chunks that depends on the problem's size alone. Each chunk has its own sums, which
//! are added in order at the end, so the result does not depend on the number of threads.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use rayon::prelude::*;

use crate::math::sum::{STRIP, image_squares};

/// Rows in one block: 256 rows of 256 columns are half a mebibyte and stay in a second-level cache.
const BLOCK_ROWS: usize = 256;
const MOST_CHUNKS: usize = 16;

/// Sums over one chunk of rows and the buffers to form them, which are empty until they are needed.
struct Chunk {
    gram: Mat<f64>,
    projection: Vec<f64>,
    /// A block of rows times their weights.
    block: Mat<f64>,
    /// A strip of L⁻¹Xᵀ for a block.
    strip: Mat<f64>,
}

/// A chunk with its parts of the residuals and latent variances.
type Outputs<'a> = ((&'a mut Chunk, &'a mut [f64]), &'a mut [f64]);

/// The chunks of one problem size.
pub(super) struct Sweep {
    chunks: Vec<Chunk>,
    chunk_rows: usize,
    par: Par,
}

impl Sweep {
    pub(super) fn new(rows: usize, columns: usize, par: Par) -> Self {
        let wanted = (rows / (2 * columns)).clamp(if rows < 128 { 1 } else { 2 }, MOST_CHUNKS).next_power_of_two();
        let chunk_rows = rows.div_ceil(wanted).max(1);
        Self { chunks: (0..rows.div_ceil(chunk_rows)).map(|_| Chunk::empty()).collect(), chunk_rows, par }
    }

    /// Σ weightᵢ xᵢxᵢᵀ into the lower triangle of `gram` and Σ weightᵢ yᵢxᵢ into `projection`. `rows` is d × n.
    pub(super) fn gram(
        &mut self,
        rows: MatRef<'_, f64>,
        weight: &[f64],
        target: &[f64],
        gram: &mut Mat<f64>,
        projection: &mut [f64],
    ) {
        let chunk_rows = self.chunk_rows;
        let work = |(c, chunk): (usize, &mut Chunk)| {
            let start = c * chunk_rows;
            let length = chunk_rows.min(rows.ncols() - start);
            chunk.accumulate(
                rows.subcols(start, length),
                &weight[start..start + length],
                &target[start..start + length],
            );
        };
        match self.par {
            Par::Seq => self.chunks.iter_mut().enumerate().for_each(work),
            Par::Rayon(_) => self.chunks.par_iter_mut().enumerate().for_each(work),
        }
        for column in 0..rows.nrows() {
            let (first, others) = self.chunks.split_first().expect("at least one chunk");
            let sum = &mut gram.col_as_slice_mut(column)[column..];
            sum.copy_from_slice(&first.gram.col_as_slice(column)[column..]);
            for chunk in others {
                for (s, v) in sum.iter_mut().zip(&chunk.gram.col_as_slice(column)[column..]) {
                    *s += v;
                }
            }
            projection[column] = self.chunks.iter().map(|chunk| chunk.projection[column]).sum();
        }
    }

    /// rᵢ = yᵢ − xᵢᵀμ and qᵢ = ‖L⁻¹xᵢ‖² for every row.
    pub(super) fn row_forms(
        &mut self,
        rows: MatRef<'_, f64>,
        inverse_factor: MatRef<'_, f64>,
        mean: &[f64],
        target: &[f64],
        residual: &mut [f64],
        latent_variance: &mut [f64],
    ) {
        let chunk_rows = self.chunk_rows;
        let work = |(c, ((chunk, residual), latent)): (usize, Outputs<'_>)| {
            let start = c * chunk_rows;
            let length = residual.len();
            let part = rows.subcols(start, length);
            chunk.row_forms(part, inverse_factor, mean, &target[start..start + length], residual, latent);
        };
        match self.par {
            Par::Seq => self
                .chunks
                .iter_mut()
                .zip(residual.chunks_mut(chunk_rows))
                .zip(latent_variance.chunks_mut(chunk_rows))
                .enumerate()
                .for_each(work),
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
        let [gram, block, strip] = std::array::from_fn(|_| Mat::new());
        Self { gram, projection: Vec::new(), block, strip }
    }

    fn make_room_for_sums(&mut self, columns: usize, block_rows: usize) {
        if self.block.ncols() < block_rows {
            self.gram = Mat::zeros(columns, columns);
            self.projection = vec![0.0; columns];
            self.block = Mat::zeros(columns, block_rows);
        }
    }

    fn accumulate(&mut self, rows: MatRef<'_, f64>, weight: &[f64], target: &[f64]) {
        let (d, n) = (rows.nrows(), rows.ncols());
        let block_rows = BLOCK_ROWS.min(n);
        self.make_room_for_sums(d, block_rows);
        for start in (0..n).step_by(block_rows) {
            let length = block_rows.min(n - start);
            let accumulate = if start == 0 { Accum::Replace } else { Accum::Add };
            let block = rows.subcols(start, length);
            let weight = &weight[start..start + length];
            let scaled = if weight.iter().all(|w| *w == 1.0) {
                block
            } else {
                for (i, w) in weight.iter().enumerate() {
                    let source = block.col(i).try_as_col_major().expect("rows are contiguous").as_slice();
                    for (scaled, value) in self.block.col_as_slice_mut(i).iter_mut().zip(source) {
                        *scaled = w * value;
                    }
                }
                self.block.as_ref().subcols(0, length)
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
                MatRef::from_column_major_slice(&target[start..start + length], length, 1),
                1.0,
                Par::Seq,
            );
        }
    }

    fn row_forms(
        &mut self,
        rows: MatRef<'_, f64>,
        inverse_factor: MatRef<'_, f64>,
        mean: &[f64],
        target: &[f64],
        residual: &mut [f64],
        latent_variance: &mut [f64],
    ) {
        let (d, n) = (rows.nrows(), rows.ncols());
        let block_rows = BLOCK_ROWS.min(n);
        if self.strip.ncols() < block_rows {
            self.strip = Mat::zeros(STRIP, block_rows);
        }
        for start in (0..n).step_by(block_rows) {
            let length = block_rows.min(n - start);
            let block = rows.subcols(start, length);
            let range = start..start + length;
            residual[range.clone()].copy_from_slice(&target[range.clone()]);
            matmul(
                MatMut::from_column_major_slice_mut(&mut residual[range.clone()], length, 1),
                Accum::Add,
                block.transpose(),
                MatRef::from_column_major_slice(mean, d, 1),
                -1.0,
                Par::Seq,
            );
            image_squares(inverse_factor, block, &mut self.strip, &mut latent_variance[range]);
        }
    }
}
