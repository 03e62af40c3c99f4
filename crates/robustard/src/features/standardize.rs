use faer::{Mat, MatRef};
use serde::{Deserialize, Serialize};

use super::{FeatureError, check_columns};

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
        let (mut mean, mut scale) = (Vec::new(), Vec::new());
        for column in inputs.col_iter() {
            // In units of the largest value, so that neither sum nor square overflows.
            let unit = column.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            let unit = if unit > 0.0 { unit } else { 1.0 };
            let weighted = || column.iter().zip(weight);
            let centre = weighted().map(|(v, w)| w * (v / unit)).sum::<f64>() / total;
            let variance = weighted().map(|(v, w)| w * (v / unit - centre).powi(2)).sum::<f64>() / total;
            let deviation = variance.sqrt();
            mean.push(centre * unit);
            // Rounding leaves a constant column a deviation of about 1e-16 of its value.
            scale.push(if deviation > 1e-14 { deviation * unit } else { 1.0 });
        }
        Self { mean, scale }
    }

    /// Scales the range of each column to −1…1 instead, which keeps its powers of one size.
    pub fn of_range(inputs: MatRef<'_, f64>) -> Self {
        let (mut mean, mut scale) = (Vec::new(), Vec::new());
        for column in inputs.col_iter() {
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

    /// The standardized columns.
    pub fn transform(&self, inputs: MatRef<'_, f64>) -> Result<Mat<f64>, FeatureError> {
        check_columns(self.mean.len(), inputs)?;
        let mut standard = Mat::zeros(inputs.nrows(), inputs.ncols());
        for (j, column) in inputs.col_iter().enumerate() {
            let (mean, scale) = (self.mean[j], self.scale[j]);
            let target = standard.col_as_slice_mut(j);
            target.iter_mut().zip(column.iter()).for_each(|(standard, value)| *standard = (value - mean) / scale);
        }
        Ok(standard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_any_scale_become_standard() {
        let x = Mat::from_fn(50, 4, |i, j| match j {
            0 => i as f64,
            1 => 1e150 * (i as f64 - 3.0),
            2 => 1e-200 * (i as f64).sin(),
            _ => 7.1,
        });
        let z = Standardizer::fit(x.as_ref()).transform(x.as_ref()).unwrap();
        for j in 0..4 {
            let mean = z.col(j).iter().sum::<f64>() / 50.0;
            let variance = z.col(j).iter().map(|v| v * v).sum::<f64>() / 50.0;
            assert!(mean.abs() < 1e-12, "column {j}: {mean}");
            assert!((variance - if j == 3 { 0.0 } else { 1.0 }).abs() < 1e-12, "column {j}: {variance}");
        }
        // A row that counts twice is two rows.
        let (once, weight) = (Mat::from_fn(3, 1, |i, _| i as f64), [1.0, 2.0, 1.0]);
        let copied = Mat::from_fn(4, 1, |i, _| [0.0, 1.0, 1.0, 2.0][i]);
        assert_eq!(Standardizer::weighted(once.as_ref(), &weight), Standardizer::fit(copied.as_ref()));
        let z = Standardizer::of_range(x.as_ref()).transform(x.as_ref()).unwrap();
        for (i, j, place) in [(0, 0, -1.0), (49, 0, 1.0), (0, 1, -1.0), (49, 1, 1.0), (0, 3, 0.0)] {
            assert!((z[(i, j)] - place).abs() < 1e-12, "{i} {j}: {}", z[(i, j)]);
        }
    }
}
