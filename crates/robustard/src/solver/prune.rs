//! Which columns leave the work, and which come back. Both rules are free of scale.
//!
//! Without column j the evidence as a function of γⱼ has, in Tipping and Faul's terms, sparsity s = (1 − γΣ)/Σ and
//! quality q = μ/Σ; it is largest at γ = ∞ exactly when q² ≤ s.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};

use super::Point;
use crate::problem::Problem;
use crate::state::State;

/// A group can leave when the data determine at most this share of each weight: 1 − γΣ on average over the group.
const LARGEST_DETERMINED: f64 = 0.02;
/// Gain in log evidence below which a column is not worth its work.
const LEAST_GAIN: f64 = 1e-3;
/// A column whose part outside the others is below this share of it repeats them.
const ROUNDING: f64 = 1e-9;
/// Columns of the left-out part handled together.
const BLOCK_COLUMNS: usize = 64;

/// Marks irrelevant groups; keeps its room between calls.
#[derive(Default)]
pub(super) struct Pruner {
    /// Which groups stay.
    pub keep: Vec<bool>,
    determined: Vec<f64>,
    fit: Vec<f64>,
}

impl Pruner {
    /// Fills `keep` and returns how many groups leave. `is_protected` groups always stay.
    pub(super) fn mark(&mut self, point: &Point<'_>, is_protected: impl Fn(usize) -> bool) -> usize {
        let Point { problem, state, moments, .. } = point;
        let groups = problem.groups();
        let Self { keep, determined, fit } = self;
        determined.resize(groups.count(), 0.0);
        fit.resize(groups.count(), 0.0);
        groups.sum_into(determined, |j| moments.column_quadratic_form[j]);
        // For one column q² ≤ s is μ²/Σ ≤ 1 − γΣ; for a group the sums must agree on it.
        groups.sum_into(fit, |j| moments.mean[j].powi(2) / moments.covariance_diagonal[j].max(f64::MIN_POSITIVE));
        keep.clear();
        keep.extend((0..groups.count()).map(|group| {
            let share = determined[group] / state.weight_precision[group];
            let irrelevant = share <= LARGEST_DETERMINED * groups.size()[group] as f64 && fit[group] <= share;
            groups.fixed(group).is_some() || is_protected(group) || !irrelevant
        }));
        // A problem has at least one column.
        if !keep.contains(&true) {
            keep[0] = true;
        }
        keep.iter().filter(|kept| !**kept).count()
    }
}

/// A group that should come back, with the precision that suits it best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Readmission {
    pub group: usize,
    pub weight_precision: f64,
}

/// The left-out groups of `whole` that would raise the evidence at `point`, whose problem has only the others.
pub(super) fn readmissions(whole: &Problem, point: &Point<'_>, is_active: &[bool]) -> Vec<Readmission> {
    let groups = whole.groups();
    let left_out: Vec<usize> = (0..whole.column_count()).filter(|&j| !is_active[groups.of_column()[j]]).collect();
    let mut sparsity = vec![0.0; groups.count()];
    let mut quality = vec![0.0; groups.count()];
    for columns in left_out.chunks(BLOCK_COLUMNS) {
        for form in column_forms(whole, point, columns) {
            let group = groups.of_column()[form.column];
            sparsity[group] += form.sparsity;
            quality[group] += form.quality * form.quality;
        }
    }
    let gain = |group: usize| {
        let ratio = quality[group] / sparsity[group];
        if ratio > 1.0 { 0.5 * groups.size()[group] as f64 * (ratio - 1.0 - ratio.ln()) } else { 0.0 }
    };
    (0..groups.count())
        .filter(|&group| !is_active[group] && sparsity[group] > 0.0 && gain(group) > LEAST_GAIN)
        .map(|group| {
            // γ = s²/(q² − s), with a group's means for s and q².
            let size = groups.size()[group] as f64;
            let (s, q2) = (sparsity[group] / size, quality[group] / size);
            Readmission { group, weight_precision: s * s / (q2 - s) }
        })
        .collect()
}

struct ColumnForm {
    column: usize,
    /// xᵀΠ_y x
    sparsity: f64,
    /// xᵀΠ_y y
    quality: f64,
}

/// xᵀΠ_y x = xᵀCx − (XᵀCx)ᵀΣ(XᵀCx) and xᵀΠ_y y = xᵀCr with C = Λ⁻¹, for columns x of `whole` outside the point's problem.
fn column_forms(whole: &Problem, point: &Point<'_>, columns: &[usize]) -> Vec<ColumnForm> {
    let Point { problem, state, moments, posterior } = point;
    let precision = |i: usize| problem.row_weight()[i] / state.noise_variance[i];
    let weighted =
        Mat::from_fn(problem.row_count(), columns.len(), |i, k| precision(i) * whole.rows()[(columns[k], i)]);
    let mut cross = Mat::<f64>::zeros(problem.column_count(), columns.len());
    matmul(cross.as_mut(), Accum::Replace, problem.rows(), weighted.as_ref(), 1.0, Par::Seq);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    columns
        .iter()
        .enumerate()
        .map(|(k, &column)| {
            let square: f64 =
                weighted.col_as_slice(k).iter().enumerate().map(|(i, v)| v * whole.rows()[(column, i)]).sum();
            let mut solved = cross.col_as_slice(k).to_vec();
            posterior.apply_covariance(problem, &mut solved);
            let sparsity = square - dot(cross.col_as_slice(k), &solved);
            ColumnForm {
                column,
                sparsity: if sparsity > ROUNDING * square { sparsity } else { 0.0 },
                quality: dot(weighted.col_as_slice(k), &moments.residual),
            }
        })
        .collect()
}

/// `state` for the groups that stay.
pub(super) fn keep_groups(state: &State, keep: &[bool]) -> State {
    let weight_precision = state.weight_precision.iter().zip(keep).filter(|(_, kept)| **kept).map(|(value, _)| *value);
    State { weight_precision: weight_precision.collect(), ..state.clone() }
}
