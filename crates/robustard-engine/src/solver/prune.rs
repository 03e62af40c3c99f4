//! Which columns leave the work, and which come back. Both rules are free of scale.
//!
//! Without column j the evidence as a function of γⱼ has, in Tipping and Faul's terms, sparsity s = (1 − γΣ)/Σ and
//! quality q = μ/Σ; it is largest at γ = ∞ exactly when q² ≤ s.

use crate::math::product::matmul;
use faer::{Accum, Mat, Par};

use super::Point;
use crate::posterior::InnerProducts;
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

/// The left-out groups of `whole` that would raise the evidence at `point`, whose problem has only `active` columns. With the
/// inner products of all columns no row is looked at; else the rows' moments are needed.
pub(super) fn readmissions(
    whole: &Problem,
    point: &Point<'_>,
    active: &[usize],
    products: Option<&InnerProducts>,
) -> Vec<Readmission> {
    let groups = whole.groups();
    let mut is_active = vec![false; groups.count()];
    active.iter().for_each(|&column| is_active[groups.of_column()[column]] = true);
    let left_out: Vec<usize> = (0..whole.column_count()).filter(|&j| !is_active[groups.of_column()[j]]).collect();
    let mut sparsity = vec![0.0; groups.count()];
    let mut quality = vec![0.0; groups.count()];
    for columns in left_out.chunks(BLOCK_COLUMNS) {
        let sums = match products {
            Some(products) => sums_from_products(products, point, active, columns),
            None => sums_from_rows(whole, point, columns),
        };
        for (k, form) in sums.forms(point).enumerate() {
            let group = groups.of_column()[columns[k]];
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
    /// xᵀΠ_y x
    sparsity: f64,
    /// xᵀΠ_y y
    quality: f64,
}

/// Sums over the rows for columns x outside the point's problem, C = Λ⁻¹.
struct ColumnSums {
    /// XᵀCx, active × columns.
    cross: Mat<f64>,
    /// xᵀCx.
    square: Vec<f64>,
    /// xᵀCr.
    with_residual: Vec<f64>,
}

impl ColumnSums {
    /// xᵀΠ_y x = xᵀCx − (XᵀCx)ᵀΣ(XᵀCx) and xᵀΠ_y y = xᵀCr.
    fn forms(&self, point: &Point<'_>) -> impl Iterator<Item = ColumnForm> {
        (0..self.square.len()).map(|k| {
            let (cross, square) = (self.cross.col_as_slice(k), self.square[k]);
            let mut solved = cross.to_vec();
            point.posterior.apply_covariance(point.problem, &mut solved);
            let sparsity = square - cross.iter().zip(&solved).map(|(a, b)| a * b).sum::<f64>();
            ColumnForm {
                sparsity: if sparsity > ROUNDING * square { sparsity } else { 0.0 },
                quality: self.with_residual[k],
            }
        })
    }
}

/// With shared noise, from the inner products of all columns: XᵀCr = XᵀC(y − Xμ).
fn sums_from_products(products: &InnerProducts, point: &Point<'_>, active: &[usize], columns: &[usize]) -> ColumnSums {
    let precision = 1.0 / point.state.noise_variance[0];
    let cross = Mat::from_fn(active.len(), columns.len(), |i, k| precision * products.between(active[i], columns[k]));
    let with_residual = columns.iter().enumerate().map(|(k, &column)| {
        let fitted: f64 = cross.col_as_slice(k).iter().zip(&point.moments.mean).map(|(x, m)| x * m).sum();
        precision * products.with_target(column) - fitted
    });
    ColumnSums {
        square: columns.iter().map(|&column| precision * products.between(column, column)).collect(),
        with_residual: with_residual.collect(),
        cross,
    }
}

fn sums_from_rows(whole: &Problem, point: &Point<'_>, columns: &[usize]) -> ColumnSums {
    /// Rows of large tables that are looked at together.
    const BLOCK: usize = 4096;
    let Point { problem, state, moments, .. } = point;
    let n = problem.row_count();
    let length = if whole.is_large() { BLOCK } else { n };
    let others = whole.some_columns(columns);
    let (own_rows, other_rows) = (problem.rows_of_passes(), others.blocks());
    let mut sums = ColumnSums {
        cross: Mat::zeros(problem.column_count(), columns.len()),
        square: vec![0.0; columns.len()],
        with_residual: vec![0.0; columns.len()],
    };
    let [mut own_room, mut other_room] = [Mat::new(), Mat::new()];
    for start in (0..n).step_by(length) {
        let range = start..(start + length).min(n);
        let x = other_rows.block(range.clone(), &mut other_room);
        let precision: Vec<f64> = range.clone().map(|i| problem.row_weight()[i] / state.variance(i)).collect();
        let weighted = Mat::from_fn(range.len(), columns.len(), |i, k| precision[i] * x[(k, i)]);
        let own = own_rows.block(range.clone(), &mut own_room);
        matmul(sums.cross.as_mut(), Accum::Add, own, weighted.as_ref(), 1.0, Par::Seq);
        for k in 0..columns.len() {
            let values = weighted.col_as_slice(k);
            sums.square[k] += values.iter().zip(x.row(k).iter()).map(|(v, x)| v * x).sum::<f64>();
            let residual = &moments.residual[range.clone()];
            sums.with_residual[k] += values.iter().zip(residual).map(|(v, r)| v * r).sum::<f64>();
        }
    }
    sums
}

/// `state` for the groups that stay.
pub(super) fn keep_groups(state: &State, keep: &[bool]) -> State {
    let weight_precision = state.weight_precision.iter().zip(keep).filter(|(_, kept)| **kept).map(|(value, _)| *value);
    State { weight_precision: weight_precision.collect(), ..state.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::NoiseModel;
    use crate::posterior::{Moments, Route, route};

    /// What is known of left-out columns is the same from the rows and from inner products.
    #[test]
    fn products_tell_what_rows_tell() {
        let x = Mat::from_fn(50, 6, |i, j| ((i * (j + 2)) as f64 * 0.7 + j as f64).sin());
        let y: Vec<f64> = (0..50).map(|i| x[(i, 0)] - 2.0 * x[(i, 3)] + 0.1 * (i as f64).cos()).collect();
        let weights: Vec<f64> = (0..50).map(|i| 1.0 + (i % 3) as f64).collect();
        let whole = Problem::new(x.as_ref(), &y).unwrap().with_row_weights(&weights).unwrap();
        let active = [0, 2, 5];
        let part = whole.select_groups(&[true, false, true, false, false, true]);
        let noise = NoiseModel::shared(0.2);
        let state = State { weight_precision: vec![0.5, 2.0, 1.0], noise_variance: vec![0.2; 50], noise };
        let mut posterior = route(Route::WeightSpace, &part, Par::Seq);
        let mut moments = Moments::new(&part);
        posterior.factorise(&part, &state.weight_precision, state.row_noise(), &mut moments).unwrap();
        posterior.weight_moments(&part, &mut moments);
        posterior.row_moments(&part, &mut moments);
        let point = Point { problem: &part, state: &state, moments: &moments, posterior: posterior.as_ref() };
        let products = InnerProducts::new(&whole, Par::Seq);
        let from_rows = readmissions(&whole, &point, &active, None);
        let from_products = readmissions(&whole, &point, &active, Some(&products));
        assert!(from_rows.iter().any(|back| back.group == 3), "{from_rows:?}");
        assert_eq!(from_rows.len(), from_products.len());
        for (a, b) in from_rows.iter().zip(&from_products) {
            assert_eq!(a.group, b.group);
            assert!((a.weight_precision / b.weight_precision - 1.0).abs() < 1e-9, "{a:?} {b:?}");
        }
    }
}
