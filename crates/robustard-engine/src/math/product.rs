//! faer's products and solutions of triangular systems, after which registers are clean.
//!
//! The kernels of faer's products end with values in the upper halves of vector registers. Until these are zeroed, each instruction of
//! code that was compiled for any processor has to merge with them, which takes some processors longer.

use faer::linalg::matmul as faer_matmul;
use faer::linalg::triangular_solve as faer_solve;
use faer::{Accum, MatMut, MatRef, Par};

pub use faer::linalg::matmul::triangular::BlockStructure;

/// Zeroes the upper halves of vector registers.
#[inline]
pub fn clean_registers() {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        simd.avx._mm256_zeroupper();
    }
}

/// faer's `matmul`: `target`, or what is added to it, becomes `factor · left · right`.
pub fn matmul(
    target: MatMut<'_, f64>,
    accum: Accum,
    left: MatRef<'_, f64>,
    right: MatRef<'_, f64>,
    factor: f64,
    par: Par,
) {
    faer_matmul::matmul(target, accum, left, right, factor, par);
    clean_registers();
}

/// faer's `matmul` of matrices with a structure.
#[allow(clippy::too_many_arguments)]
pub fn triangular_matmul(
    target: MatMut<'_, f64>,
    of_target: BlockStructure,
    accum: Accum,
    left: MatRef<'_, f64>,
    of_left: BlockStructure,
    right: MatRef<'_, f64>,
    of_right: BlockStructure,
    factor: f64,
    par: Par,
) {
    faer_matmul::triangular::matmul(target, of_target, accum, left, of_left, right, of_right, factor, par);
    clean_registers();
}

/// Replaces `right` by L⁻¹ `right`.
pub fn solve_lower_triangular(lower: MatRef<'_, f64>, right: MatMut<'_, f64>, par: Par) {
    faer_solve::solve_lower_triangular_in_place(lower, right, par);
    clean_registers();
}

/// Replaces `right` by U⁻¹ `right`.
pub fn solve_upper_triangular(upper: MatRef<'_, f64>, right: MatMut<'_, f64>, par: Par) {
    faer_solve::solve_upper_triangular_in_place(upper, right, par);
    clean_registers();
}
