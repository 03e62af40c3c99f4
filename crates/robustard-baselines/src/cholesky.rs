//! Cholesky factors of positive definite matrices.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{LltParams, cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::matmul::triangular::{BlockStructure, matmul as triangular_matmul};
use faer::linalg::triangular_inverse::invert_lower_triangular;
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::prelude::ReborrowMut;
use faer::{Accum, Mat, MatMut, MatRef, Spec};

use crate::parallelism;

/// First share of the diagonal that is added to it when the factorisation fails; grows tenfold up to the last.
const FIRST_JITTER: f64 = 1e-14;
const LAST_JITTER: f64 = 1e-8;

/// A = L Lᵀ.
#[derive(Debug, Clone)]
pub(crate) struct Cholesky {
    /// L in the lower triangle, zeros above.
    lower: Mat<f64>,
}

impl Cholesky {
    /// Factorises the matrix whose lower triangle is given; None when it is indefinite by more than rounding.
    pub fn new(matrix: MatRef<'_, f64>) -> Option<Self> {
        let size = matrix.nrows();
        let par = parallelism(size);
        let params: Spec<LltParams, f64> = Spec::default();
        let mut scratch = MemBuffer::new(cholesky_in_place_scratch::<f64>(size, par, params));
        let mut lower = Mat::zeros(size, size);
        let mut jitter = 0.0;
        while jitter <= LAST_JITTER {
            for j in 0..size {
                lower.col_mut(j).subrows_mut(j, size - j).copy_from(matrix.col(j).subrows(j, size - j));
                lower[(j, j)] *= 1.0 + jitter;
            }
            let stack = MemStack::new(&mut scratch);
            let is_done = cholesky_in_place(lower.as_mut(), Default::default(), par, stack, params).is_ok();
            if is_done && (0..size).all(|j| lower[(j, j)].is_normal()) {
                return Some(Self { lower });
            }
            jitter = if jitter == 0.0 { FIRST_JITTER } else { 10.0 * jitter };
        }
        None
    }

    pub fn log_determinant(&self) -> f64 {
        2.0 * (0..self.lower.nrows()).map(|j| self.lower[(j, j)].ln()).sum::<f64>()
    }

    /// Replaces `values` by A⁻¹ values.
    pub fn solve(&self, values: &mut [f64]) {
        self.solve_half(values);
        self.solve_other_half(values);
    }

    /// Replaces `values` by L⁻¹ values.
    pub fn solve_half(&self, values: &mut [f64]) {
        let rows = values.len();
        self.solve_half_of_columns(MatMut::from_column_major_slice_mut(values, rows, 1));
    }

    /// Replaces `values` by L⁻ᵀ values.
    pub fn solve_other_half(&self, values: &mut [f64]) {
        let rows = values.len();
        let columns = MatMut::from_column_major_slice_mut(values, rows, 1);
        solve_upper_triangular_in_place(self.lower.transpose(), columns, parallelism(1));
    }

    /// Replaces B by L⁻¹B.
    pub fn solve_half_of_columns(&self, mut columns: MatMut<'_, f64>) {
        let par = parallelism(self.lower.nrows().min(columns.ncols()));
        solve_lower_triangular_in_place(self.lower.as_ref(), columns.rb_mut(), par);
    }

    /// L⁻¹, zeros above its diagonal.
    pub fn inverse_half(&self) -> Mat<f64> {
        let size = self.lower.nrows();
        let mut inverse = Mat::zeros(size, size);
        invert_lower_triangular(inverse.as_mut(), self.lower.as_ref(), parallelism(size));
        inverse
    }

    /// A⁻¹ in the lower triangle, zeros above.
    pub fn inverse(&self) -> Mat<f64> {
        let size = self.lower.nrows();
        let half = self.inverse_half();
        let mut inverse = Mat::zeros(size, size);
        triangular_matmul(
            inverse.as_mut(),
            BlockStructure::TriangularLower,
            Accum::Replace,
            half.transpose(),
            BlockStructure::TriangularUpper,
            half.as_ref(),
            BlockStructure::TriangularLower,
            1.0,
            parallelism(size),
        );
        inverse
    }
}

/// The lower triangle of A Aᵀ, zeros above.
pub(crate) fn lower_square(matrix: MatRef<'_, f64>) -> Mat<f64> {
    let size = matrix.nrows();
    let mut square = Mat::zeros(size, size);
    triangular_matmul(
        square.as_mut(),
        BlockStructure::TriangularLower,
        Accum::Replace,
        matrix,
        BlockStructure::Rectangular,
        matrix.transpose(),
        BlockStructure::Rectangular,
        1.0,
        parallelism(size),
    );
    square
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solves_and_inverts() {
        let matrix = Mat::from_fn(3, 3, |i, j| if i == j { 4.0 + i as f64 } else { 1.0 });
        let factor = Cholesky::new(matrix.as_ref()).unwrap();
        let mut solved = vec![1.0, 2.0, 3.0];
        factor.solve(&mut solved);
        for i in 0..3 {
            let back: f64 = (0..3).map(|j| matrix[(i, j)] * solved[j]).sum();
            assert!((back - (i as f64 + 1.0)).abs() < 1e-14);
        }
        let inverse = factor.inverse();
        let symmetric = |i: usize, j: usize| inverse[(i.max(j), i.min(j))];
        for (i, j) in [(0, 0), (0, 1), (2, 1)] {
            let entry: f64 = (0..3).map(|k| matrix[(i, k)] * symmetric(k, j)).sum();
            assert!((entry - f64::from(i == j)).abs() < 1e-14);
        }
        // 4·5·6 + 2 − 4 − 5 − 6.
        assert!((factor.log_determinant() - 107f64.ln()).abs() < 1e-14);
    }

    #[test]
    fn jitter_helps_only_against_rounding() {
        let off = |value: f64| Mat::from_fn(2, 2, |i, j| if i == j { 1.0 } else { value });
        assert!(Cholesky::new(off(1.0 + 1e-12).as_ref()).is_some());
        assert!(Cholesky::new(off(2.0).as_ref()).is_none());
        assert!(Cholesky::new(off(f64::NAN).as_ref()).is_none());
    }
}
