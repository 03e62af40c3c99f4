//! Shift and scale of columns.

use faer::{Mat, MatRef};
use serde::{Deserialize, Serialize};

use crate::dataset::{Dataset, DatasetError};

/// Shifts and scales every column to mean 0 and standard deviation 1. Constant columns become 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standardizer {
    /// Mean of each column.
    pub mean: Vec<f64>,
    /// Standard deviation of each column (divided by n); 1 where the column is constant.
    pub scale: Vec<f64>,
}

impl Standardizer {
    /// Learns the means and standard deviations of the columns of an n × d matrix. Values up to the largest `f64` are fine.
    pub fn fit(inputs: MatRef<'_, f64>) -> Self {
        Self::weighted(inputs, &vec![1.0; inputs.nrows()])
    }

    /// The same with rows that count as often as their weights say.
    pub fn weighted(inputs: MatRef<'_, f64>, weight: &[f64]) -> Self {
        let total = weight.iter().sum::<f64>();
        let total = if total > 0.0 { total } else { 1.0 };
        let (mut units, mut centres, mut variances) = (Vec::new(), Vec::new(), Vec::new());
        for column in inputs.col_iter() {
            // In units of the largest value, so that neither sum nor square overflows.
            let unit = column.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            let unit = if unit > 0.0 { unit } else { 1.0 };
            let weighted = || column.iter().zip(weight);
            let centre = weighted().map(|(v, w)| w * (v / unit)).sum::<f64>() / total;
            variances.push(weighted().map(|(v, w)| w * (v / unit - centre).powi(2)).sum::<f64>() / total);
            units.push(unit);
            centres.push(centre);
        }
        Self::from_moments(&units, &centres, &variances)
    }

    /// The same of a data set, whose inputs are checked on the way: they must be finite. The rows are read once.
    pub(crate) fn of(dataset: &Dataset<'_>) -> Result<Self, DatasetError> {
        let mut spread = Spread::new(dataset.input_count());
        match dataset.weights() {
            Some(weights) => dataset.blocks(|start, block| spread.add(block, |i| weights[start + i])),
            None => dataset.blocks(|_, block| spread.add(block, |_| 1.0)),
        }
        let all_finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
        if !(all_finite(&spread.mean) && all_finite(&spread.square))
            && let Some(error) = dataset.not_finite()
        {
            return Err(error);
        }
        let variance: Vec<f64> = spread.square.iter().map(|square| square / spread.weight).collect();
        let scale = variance.iter().zip(&spread.largest);
        let scale = scale.map(|(variance, unit)| deviation_or_one(variance.sqrt(), *unit)).collect();
        let mut standard = Self { mean: spread.mean, scale };
        // Squares of such columns are no numbers.
        let extreme = |unit: &f64| *unit > 0.0 && !(1e-100..=1e100).contains(unit);
        for column in (0..standard.column_count()).filter(|&column| extreme(&spread.largest[column])) {
            let ones;
            let weight = match dataset.weights() {
                Some(weights) => weights,
                None => {
                    ones = vec![1.0; dataset.row_count()];
                    &ones
                }
            };
            let alone = Self::weighted(dataset.column(column).as_mat(), weight);
            (standard.mean[column], standard.scale[column]) = (alone.mean[0], alone.scale[0]);
        }
        Ok(standard)
    }

    /// From the means and variances of columns divided by their units.
    fn from_moments(unit: &[f64], centre: &[f64], variance: &[f64]) -> Self {
        let scale = variance.iter().zip(unit).map(|(variance, unit)| deviation_or_one(variance.sqrt() * unit, *unit));
        Self { mean: centre.iter().zip(unit).map(|(centre, unit)| centre * unit).collect(), scale: scale.collect() }
    }

    /// The same without a shift.
    #[must_use]
    pub fn without_shift(self) -> Self {
        Self { mean: vec![0.0; self.mean.len()], ..self }
    }

    /// Scales the range of each column to −1…1 instead, which keeps its powers of one size.
    pub(crate) fn of_range(dataset: &Dataset<'_>) -> Self {
        let (mut mean, mut scale) = (Vec::new(), Vec::new());
        for column in dataset.columns() {
            let low = column.iter().copied().fold(f64::INFINITY, f64::min);
            let high = column.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            // Halves first: the sum of two finite numbers may not be finite.
            let half = 0.5 * high - 0.5 * low;
            mean.push(if low.is_finite() { 0.5 * low + 0.5 * high } else { 0.0 });
            scale.push(if half > 0.0 && half.is_finite() { half } else { 1.0 });
        }
        Self { mean, scale }
    }

    /// Leaves everything as it is.
    pub fn identity(columns: usize) -> Self {
        Self { mean: vec![0.0; columns], scale: vec![1.0; columns] }
    }

    /// Number of columns.
    pub fn column_count(&self) -> usize {
        self.mean.len()
    }

    /// The standardized columns of an m × p matrix; there must be as many columns as the scaling has.
    pub fn transform(&self, inputs: MatRef<'_, f64>) -> Mat<f64> {
        let mut standard = Mat::zeros(inputs.nrows(), inputs.ncols());
        for (j, column) in inputs.col_iter().enumerate() {
            let (mean, scale) = (self.mean[j], self.scale[j]);
            let target = standard.col_as_slice_mut(j);
            target.iter_mut().zip(column.iter()).for_each(|(standard, value)| *standard = (value - mean) / scale);
        }
        standard
    }

    /// One row, standardized.
    pub(crate) fn write_row(&self, row: &[f64], standard: &mut [f64]) {
        for (((standard, value), mean), scale) in standard.iter_mut().zip(row).zip(&self.mean).zip(&self.scale) {
            *standard = (value - mean) / scale;
        }
    }
}

/// A deviation of values up to `largest`. Rounding leaves a constant column a deviation of about 1e-16 of its value.
fn deviation_or_one(deviation: f64, largest: f64) -> f64 {
    if deviation > 1e-14 * largest { deviation } else { 1.0 }
}

/// Means and sums of squares about them of several columns, over blocks of rows.
struct Spread {
    weight: f64,
    mean: Vec<f64>,
    square: Vec<f64>,
    /// Largest magnitude.
    largest: Vec<f64>,
    /// The same of a block.
    block_mean: Vec<f64>,
    block_square: Vec<f64>,
}

impl Spread {
    fn new(columns: usize) -> Self {
        let zeros = || vec![0.0; columns];
        Self {
            weight: 0.0,
            mean: zeros(),
            square: zeros(),
            largest: zeros(),
            block_mean: zeros(),
            block_square: zeros(),
        }
    }

    /// Adds rows of the given weights: a mean and squares of their own first, while they are in the cache, which are then merged
    /// (Chan, Golub and LeVeque, 1979).
    fn add(&mut self, block: MatRef<'_, f64>, weight_of: impl Fn(usize) -> f64) {
        let Self { weight, mean, square, largest, block_mean, block_square } = self;
        let added: f64 = (0..block.nrows()).map(&weight_of).sum();
        block_mean.fill(0.0);
        for (i, row) in rows_of(block).enumerate() {
            let weight = weight_of(i);
            for ((sum, largest), value) in block_mean.iter_mut().zip(&mut *largest).zip(row) {
                *sum += weight * value;
                *largest = largest.max(value.abs());
            }
        }
        block_mean.iter_mut().for_each(|mean| *mean /= added);
        block_square.fill(0.0);
        for (i, row) in rows_of(block).enumerate() {
            let weight = weight_of(i);
            for ((sum, mean), value) in block_square.iter_mut().zip(&*block_mean).zip(row) {
                let off = value - mean;
                *sum += weight * (off * off);
            }
        }
        let total = *weight + added;
        let sums = mean.iter_mut().zip(square).zip(block_mean.iter().zip(block_square));
        for ((mean, square), (block_mean, block_square)) in sums {
            let off = *block_mean - *mean;
            *mean += off * (added / total);
            *square += *block_square + off * off * (*weight * added / total);
        }
        *weight = total;
    }
}

/// The rows of a block whose rows are contiguous.
pub(crate) fn rows_of(block: MatRef<'_, f64>) -> impl Iterator<Item = &[f64]> {
    block.row_iter().map(|row| row.try_as_row_major().expect("rows of a block are contiguous").as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many blocks, weights, and means that are large beside the deviations.
    #[test]
    fn blocks_are_merged() {
        let n = 5 * crate::dataset::BLOCK + 17;
        let x = Mat::from_fn(n, 2, |i, j| 1e6 * j as f64 + (i as f64 * 0.37).sin() + (i / 200) as f64);
        let weight: Vec<f64> = (0..n).map(|i| 1.0 + (i % 3) as f64).collect();
        let dataset = Dataset::new(x.as_ref(), vec![0.0; n]).unwrap();
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a / b - 1.0).abs() < 1e-10);
        for (found, wanted) in [
            (Standardizer::of(&dataset).unwrap(), Standardizer::fit(x.as_ref())),
            (
                Standardizer::of(&dataset.with_weights(&weight[..]).unwrap()).unwrap(),
                Standardizer::weighted(x.as_ref(), &weight),
            ),
        ] {
            assert!(close(&found.mean, &wanted.mean) && close(&found.scale, &wanted.scale), "{found:?} {wanted:?}");
        }
    }

    #[test]
    fn columns_of_any_scale_become_standard() {
        let x = Mat::from_fn(50, 4, |i, j| match j {
            0 => i as f64,
            1 => 1e150 * (i as f64 - 3.0),
            2 => 1e-200 * (i as f64).sin(),
            _ => 7.1,
        });
        let z = Standardizer::fit(x.as_ref()).transform(x.as_ref());
        for j in 0..4 {
            let mean = z.col(j).iter().sum::<f64>() / 50.0;
            let variance = z.col(j).iter().map(|v| v * v).sum::<f64>() / 50.0;
            assert!(mean.abs() < 1e-12, "column {j}: {mean}");
            assert!((variance - if j == 3 { 0.0 } else { 1.0 }).abs() < 1e-12, "column {j}: {variance}");
        }
        // The same by rows of a data set.
        let dataset = Dataset::new(x.as_ref(), vec![0.0; 50]).unwrap();
        let (by_rows, by_columns) = (Standardizer::of(&dataset).unwrap(), Standardizer::fit(x.as_ref()));
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-14 * b.abs());
        assert!(close(&by_rows.mean, &by_columns.mean) && close(&by_rows.scale, &by_columns.scale), "{by_rows:?}");
        // A row that counts twice is two rows.
        let (once, weight) = (Mat::from_fn(3, 1, |i, _| i as f64), [1.0, 2.0, 1.0]);
        let copied = Mat::from_fn(4, 1, |i, _| [0.0, 1.0, 1.0, 2.0][i]);
        assert_eq!(Standardizer::weighted(once.as_ref(), &weight), Standardizer::fit(copied.as_ref()));
        let z = Standardizer::of_range(&dataset).transform(x.as_ref());
        for (i, j, place) in [(0, 0, -1.0), (49, 0, 1.0), (0, 1, -1.0), (49, 1, 1.0), (0, 3, 0.0)] {
            assert!((z[(i, j)] - place).abs() < 1e-12, "{i} {j}: {}", z[(i, j)]);
        }
    }
}
