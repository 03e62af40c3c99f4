//! How far rows lie from the bulk of the others, in their inputs.

use faer::{ColRef, Mat, Side};
use robustard_engine::math::order::median;
use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::dataset::Dataset;

/// Share of normal rows that count as far.
const FAR: f64 = 0.01;

/// Rows looked at together.
const BLOCK: usize = 4096;

/// Larger shares of far rows are another population, not errors.
const MOST_FAR: f64 = 0.3;

/// The rows that are far from the others, none if they are too many for that.
pub(super) fn few_far_rows(dataset: &Dataset<'_>) -> Vec<usize> {
    let far = far_rows(dataset.row_count(), dataset.columns());
    if far.len() as f64 > MOST_FAR * dataset.row_count() as f64 { Vec::new() } else { far }
}

/// The rows that are far from the others. Inputs are scaled by medians and median deviations; the main directions are those of the
/// spatial signs, which far rows hardly turn; along each direction the distance is again in median deviations. Inputs of which
/// half the rows have one value (indicators) say nothing about distance.
fn far_rows<'c>(n: usize, inputs: impl Iterator<Item = ColRef<'c, f64>>) -> Vec<usize> {
    let mut scaled: Vec<Vec<f64>> =
        inputs.filter_map(|column| scaled(&column.iter().copied().collect::<Vec<f64>>())).collect();
    let p = scaled.len();
    if p == 0 || n <= 2 * p {
        return Vec::new();
    }
    // A block of rows at a time: the room for it does not grow with the table.
    let block = |scaled: &[Vec<f64>], start: usize| Mat::from_fn(BLOCK.min(n - start), p, |i, j| scaled[j][start + i]);
    let mut spread = Mat::<f64>::zeros(p, p);
    for start in (0..n).step_by(BLOCK) {
        let rows = block(&scaled, start);
        let norms: Vec<f64> = rows.row_iter().map(|row| row.norm_l2().max(f64::MIN_POSITIVE)).collect();
        let signs = Mat::from_fn(rows.nrows(), p, |i, j| rows[(i, j)] / norms[i]);
        spread += signs.transpose() * &signs;
    }
    let Ok(directions) = spread.self_adjoint_eigen(Side::Lower) else { return Vec::new() };
    for start in (0..n).step_by(BLOCK) {
        let along = block(&scaled, start) * directions.U();
        for (column, values) in scaled.iter_mut().zip(along.col_iter()) {
            column[start..].iter_mut().zip(values.iter()).for_each(|(to, from)| *to = *from);
        }
    }
    let mut squares = vec![0.0; n];
    let mut dimensions = 0;
    for along in &scaled {
        if let Some(distances) = self::scaled(along) {
            squares.iter_mut().zip(distances).for_each(|(square, distance)| *square += distance * distance);
            dimensions += 1;
        }
    }
    let Ok(chi) = ChiSquared::new(f64::from(dimensions.max(1))) else { return Vec::new() };
    let limit = chi.inverse_cdf(1.0 - FAR);
    (0..n).filter(|&row| squares[row] > limit).collect()
}

/// Values in median deviations from their median; none if half of them are equal.
fn scaled(values: &[f64]) -> Option<Vec<f64>> {
    let centre = median(values);
    let off: Vec<f64> = values.iter().map(|value| (value - centre).abs()).collect();
    let deviation = super::MEDIAN_TO_DEVIATION * median(&off);
    (deviation > 0.0).then(|| values.iter().map(|value| (value - centre) / deviation).collect())
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
        assert_eq!(far_rows(100, inputs.col_iter()), (0..10).collect::<Vec<_>>());
    }
}
