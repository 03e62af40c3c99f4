//! Cholesky factor of a positive definite matrix, its inverse factor, and jitter that is used only when needed.

use crate::math::product::{clean_registers, solve_lower_triangular, solve_upper_triangular};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{LltParams, cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::triangular_inverse::invert_lower_triangular;
use faer::prelude::ReborrowMut;
use faer::{Mat, MatMut, MatRef, Par, Spec};
use thiserror::Error;

use super::sum::square_sum;

/// Below this size the second thread costs more than it gains.
const PARALLEL_SIZE: usize = 400;
/// First share of the diagonal that is added to it when the factorisation fails; grows tenfold up to the last.
const FIRST_JITTER: f64 = 1e-14;
const LAST_JITTER: f64 = 1e-6;

/// The matrix could not be factorised, even with jitter.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a {size} × {size} matrix stayed indefinite after adding jitter")]
pub struct FactorError {
    /// Rows of the matrix.
    pub size: usize,
}

/// Share of the diagonal that was added to it; 0 when none was needed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jitter(pub f64);

/// A = L Lᵀ with room for L⁻¹. Only lower triangles are read and written.
pub struct Factor {
    lower: Mat<f64>,
    inverse: Mat<f64>,
    scratch: MemBuffer,
    par: Par,
}

impl Factor {
    /// Room for a matrix of so many rows.
    pub fn new(size: usize, par: Par) -> Self {
        let par = if size < PARALLEL_SIZE { Par::Seq } else { par };
        let params: Spec<LltParams, f64> = Spec::default();
        let scratch = MemBuffer::new(cholesky_in_place_scratch::<f64>(size, par, params));
        Self { lower: Mat::zeros(size, size), inverse: Mat::zeros(size, size), scratch, par }
    }

    /// Factorises the matrix whose lower triangle is in `matrix`.
    pub fn factorise(&mut self, matrix: MatRef<'_, f64>) -> Result<Jitter, FactorError> {
        let size = matrix.nrows();
        let mut jitter = 0.0;
        loop {
            for column in 0..size {
                let source = &matrix.col(column).try_as_col_major().expect("owned matrix").as_slice()[column..];
                let target = &mut self.lower.col_as_slice_mut(column)[column..];
                target.copy_from_slice(source);
                target[0] *= 1.0 + jitter;
            }
            let params: Spec<LltParams, f64> = Spec::default();
            let stack = MemStack::new(&mut self.scratch);
            let done = cholesky_in_place(self.lower.as_mut(), Default::default(), self.par, stack, params).is_ok();
            clean_registers();
            if done && (0..size).all(|j| self.lower[(j, j)].is_normal()) {
                return Ok(Jitter(jitter));
            }
            jitter = if jitter == 0.0 { FIRST_JITTER } else { 10.0 * jitter };
            if jitter > LAST_JITTER {
                return Err(FactorError { size });
            }
        }
    }

    /// Computes L⁻¹ of the current factor.
    pub fn invert(&mut self) {
        invert_lower_triangular(self.inverse.as_mut(), self.lower.as_ref(), self.par);
        clean_registers();
    }

    /// L in the lower triangle.
    pub fn lower(&self) -> MatRef<'_, f64> {
        self.lower.as_ref()
    }

    /// L⁻¹ in the lower triangle; zeros above.
    pub fn inverse(&self) -> MatRef<'_, f64> {
        self.inverse.as_ref()
    }

    /// log |A|.
    pub fn log_determinant(&self) -> f64 {
        2.0 * (0..self.lower.nrows()).map(|j| self.lower[(j, j)].ln()).sum::<f64>()
    }

    /// Replaces `values` by A⁻¹ values.
    pub fn solve(&self, values: &mut [f64]) {
        let rows = values.len();
        let mut rhs = MatMut::from_column_major_slice_mut(values, rows, 1);
        solve_lower_triangular(self.lower.as_ref(), rhs.rb_mut(), Par::Seq);
        solve_upper_triangular(self.lower.transpose(), rhs, Par::Seq);
    }

    /// Writes the diagonal of A⁻¹, from L⁻¹.
    pub fn inverse_diagonal(&self, diagonal: &mut [f64]) {
        for (j, value) in diagonal.iter_mut().enumerate() {
            *value = square_sum(&self.inverse.col_as_slice(j)[j..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_used_only_when_needed_and_told() {
        let mut factor = Factor::new(2, Par::Seq);
        let sound = Mat::from_fn(2, 2, |i, j| if i == j { 2.0 } else { 1.0 });
        assert_eq!(factor.factorise(sound.as_ref()).unwrap(), Jitter(0.0));
        assert!((factor.log_determinant() - 3f64.ln()).abs() < 1e-14);
        // Barely indefinite, at any scale: jitter is relative to the diagonal.
        for scale in [1e-30, 1.0, 1e30] {
            let singular = Mat::from_fn(2, 2, |i, j| if i == j { scale } else { scale * (1.0 + 1e-12) });
            let Jitter(share) = factor.factorise(singular.as_ref()).unwrap();
            assert!(share > 1e-13 && share < 1e-9, "{share}");
        }
        let indefinite = Mat::from_fn(2, 2, |i, j| if i == j { 1.0 } else { 2.0 });
        assert_eq!(factor.factorise(indefinite.as_ref()), Err(FactorError { size: 2 }));
        let broken = Mat::from_fn(2, 2, |_, _| f64::NAN);
        assert!(factor.factorise(broken.as_ref()).is_err());
    }
}
