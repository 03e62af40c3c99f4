//! How far rows lie from the bulk of the others, in their inputs.

use faer::{Mat, MatRef, Side};
use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;
use robustard_engine::math::order::median;
use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::dataset::Dataset;

/// Share of normal rows that count as far.
const FAR: f64 = 0.01;

/// Larger shares of far rows are another population, not errors.
const MOST_FAR: f64 = 0.3;

/// Rows that show what the bulk is: medians are then known to a hundredth of a deviation.
const BULK_ROWS: usize = 10_000;

/// Gaps in the tail of the distances that are less likely than this are no chance.
const CHANCE: f64 = 0.05;

/// The rows that are far from the others and stand apart from them, none if they are too many for that.
pub(super) fn few_far_rows(dataset: &Dataset<'_>) -> Vec<usize> {
    let n = dataset.row_count();
    let Some(bulk) = Bulk::of(dataset) else { return Vec::new() };
    let mut squares = Vec::with_capacity(n);
    dataset.blocks(|_, block| squares.extend(bulk.squares(block)));
    let limit = apart(&squares, bulk.limit);
    let far: Vec<usize> = (0..n).filter(|&row| squares[row] > limit).collect();
    if far.len() as f64 > MOST_FAR * n as f64 { Vec::new() } else { far }
}

/// Where the squares beyond the limit that stand apart begin; infinite if none do. In a tail as heavy as 1/d², the k largest distances are all
/// at least ρ times the next one with probability ρ^-2k: a gap that is wider than that makes likely is none of a tail.
fn apart(squares: &[f64], limit: f64) -> f64 {
    let mut sorted = squares.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let is_gap = |k: usize| {
        let (inner, outer) = (sorted[k].max(limit), sorted[k - 1]);
        outer > limit && k as f64 * (outer / inner).ln() > -CHANCE.ln()
    };
    // The innermost: what lies beyond belongs to it.
    (1..sorted.len()).rfind(|&k| is_gap(k)).map_or(f64::INFINITY, |k| sorted[k].max(limit))
}

/// Where most rows are. Inputs are scaled by medians and median deviations; the main directions are those of the spatial signs, which far
/// rows hardly turn; along each direction the distance is again in median deviations. Inputs of which half the rows have one value
/// (indicators) say nothing about distance.
struct Bulk {
    inputs: Vec<Along>,
    directions: Mat<f64>,
    /// Along the directions.
    along: Vec<Along>,
    /// Square of the distance beyond which rows are far.
    limit: f64,
}

/// A column of numbers, with its median and median deviation.
struct Along {
    column: usize,
    median: f64,
    deviation: f64,
}

impl Along {
    /// None if half the values are equal.
    fn of(column: usize, values: &[f64]) -> Option<Self> {
        let middle = median(values);
        let off: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
        let deviation = super::MEDIAN_TO_DEVIATION * median(&off);
        (deviation > 0.0).then_some(Self { column, median: middle, deviation })
    }
}

/// The columns that vary, in median deviations.
fn scaled(along: &[Along], values: MatRef<'_, f64>) -> Mat<f64> {
    Mat::from_fn(values.nrows(), along.len(), |i, j| {
        let Along { column, median, deviation } = &along[j];
        (values[(i, *column)] - median) / deviation
    })
}

impl Bulk {
    /// None if too few rows show it.
    fn of(dataset: &Dataset<'_>) -> Option<Self> {
        let n = dataset.row_count();
        let rows = (n > BULK_ROWS).then(|| sample(&mut ChaCha8Rng::seed_from_u64(0), n, BULK_ROWS).into_vec());
        let inputs = rows.map_or_else(|| dataset.inputs(), |rows| dataset.take(&rows).inputs());
        let kept = |values: MatRef<'_, f64>| -> Vec<Along> {
            let of = |column| Along::of(column, &values.col(column).iter().copied().collect::<Vec<f64>>());
            (0..values.ncols()).filter_map(of).collect()
        };
        let of_inputs = kept(inputs.as_ref());
        if of_inputs.is_empty() || inputs.nrows() <= 2 * of_inputs.len() {
            return None;
        }
        let rows = scaled(&of_inputs, inputs.as_ref());
        let norms: Vec<f64> = rows.row_iter().map(|row| row.norm_l2().max(f64::MIN_POSITIVE)).collect();
        let signs = Mat::from_fn(rows.nrows(), rows.ncols(), |i, j| rows[(i, j)] / norms[i]);
        let directions = (signs.transpose() * &signs).self_adjoint_eigen(Side::Lower).ok()?.U().to_owned();
        let along = kept((rows * &directions).as_ref());
        let chi = ChiSquared::new(along.len().max(1) as f64).ok()?;
        Some(Self { inputs: of_inputs, directions, along, limit: chi.inverse_cdf(1.0 - FAR) })
    }

    /// Squared distances of rows.
    fn squares(&self, rows: MatRef<'_, f64>) -> Vec<f64> {
        let along = scaled(&self.inputs, rows) * &self.directions;
        scaled(&self.along, along.as_ref()).row_iter().map(|row| row.squared_norm_l2()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A far cluster off the main direction, inside the range of every single input.
    #[test]
    fn far_rows_are_found_across_correlated_inputs() {
        let wave = |i: usize, k: f64| (i as f64 * k).sin();
        let inputs = Mat::from_fn(100, 3, |i, j| match (i < 10, j) {
            (_, 2) => f64::from(u8::from(i % 4 == 0)),
            (true, j) => 2.0 * if j == 0 { 1.0 } else { -1.0 } + 0.1 * wave(i, 1.7),
            (false, j) => 2.5 * wave(i, 2.3) + 0.2 * wave(i, 5.1 + j as f64),
        });
        let dataset = Dataset::new(inputs.as_ref(), vec![0.0; 100]).unwrap();
        assert_eq!(few_far_rows(&dataset), (0..10).collect::<Vec<_>>());
    }
}
