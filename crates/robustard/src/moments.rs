//! Means, variances and ranges of the columns of a table that is seen part by part.

use serde::{Deserialize, Serialize};

use crate::dataset::Dataset;
use crate::scaling::{MOST_TYPING_ERRORS, Standardizer};

/// Of one column; the rows count as often as their weights say.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Moment {
    mean: f64,
    /// Σ ω(x − mean)².
    squares: f64,
    low: f64,
    high: f64,
}

impl Moment {
    const NONE: Self = Self { mean: 0.0, squares: 0.0, low: f64::INFINITY, high: f64::NEG_INFINITY };

    /// Of a part of all rows, whose weights have this sum.
    fn of(values: impl Iterator<Item = (f64, f64)> + Clone, weight: f64) -> Self {
        let mean = values.clone().map(|(value, weight)| weight * value).sum::<f64>() / weight;
        let mut moment = Self { mean, ..Self::NONE };
        for (value, weight) in values {
            moment.squares += weight * (value - mean).powi(2);
            moment.low = moment.low.min(value);
            moment.high = moment.high.max(value);
        }
        moment
    }

    /// Adds rows of another weight (Chan, Golub and LeVeque, 1983).
    fn merge(&mut self, own: f64, other: &Self, weight: f64) {
        let (total, shift) = (own + weight, other.mean - self.mean);
        self.mean += shift * (weight / total);
        self.squares += other.squares + shift * shift * (own * (weight / total));
        (self.low, self.high) = (self.low.min(other.low), self.high.max(other.high));
    }

    /// Whether a few values are most of the variance, or it is beyond the largest number.
    fn is_far(&self, total: f64) -> bool {
        let variance = self.squares / total;
        let largest = (self.high - self.mean).max(self.mean - self.low).powi(2);
        !variance.is_finite() || largest > variance / (2.0 * MOST_TYPING_ERRORS)
    }

    fn deviation(&self, total: f64) -> f64 {
        (self.squares / total).sqrt()
    }
}

/// Means, variances and ranges of inputs and target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    rows: u64,
    weight: f64,
    inputs: Vec<Moment>,
    target: Moment,
}

impl Moments {
    /// Of no rows.
    pub fn none(inputs: usize) -> Self {
        Self { rows: 0, weight: 0.0, inputs: vec![Moment::NONE; inputs], target: Moment::NONE }
    }

    /// Of all rows of a data set.
    pub fn of(rows: &Dataset<'_>) -> Self {
        let weights = rows.weights();
        let weight = weights.map_or(rows.row_count() as f64, |weights| weights.iter().sum());
        let weight_of = |row: usize| weights.map_or(1.0, |weights| weights[row]);
        let weighted = |(row, value): (usize, &f64)| (*value, weight_of(row));
        let inputs = rows.columns().map(|column| {
            let values = (0..column.nrows()).map(|row| (column[row], weight_of(row)));
            Moment::of(values, weight)
        });
        let inputs = inputs.collect();
        let target = Moment::of(rows.target().iter().enumerate().map(weighted), weight);
        Self { rows: rows.row_count() as u64, weight, inputs, target }
    }

    /// Adds those of other rows.
    pub fn merge(&mut self, other: &Self) {
        if other.weight > 0.0 {
            let parts = self.inputs.iter_mut().zip(&other.inputs).chain([(&mut self.target, &other.target)]);
            parts.for_each(|(own, more)| own.merge(self.weight, more, other.weight));
            self.rows += other.rows;
            self.weight += other.weight;
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The scaling of inputs by their means and deviations; where a few values would have most say, that of the rows at hand.
    pub(crate) fn scaling(&self, of_some: &Standardizer) -> Standardizer {
        let mut scaling = of_some.clone();
        for (j, moment) in self.inputs.iter().enumerate() {
            let deviation = moment.deviation(self.weight);
            if !moment.is_far(self.weight) && deviation > LEAST_DEVIATION * moment.high.abs().max(moment.low.abs()) {
                (scaling.mean[j], scaling.scale[j]) = (moment.mean, deviation);
            }
        }
        scaling
    }

    /// The scaling of the ranges of inputs to −1…1.
    pub(crate) fn scaling_of_range(&self) -> Standardizer {
        let halves = self.inputs.iter().map(|moment| (0.5 * moment.low, 0.5 * moment.high));
        let scale = |(low, high): (f64, f64)| if high > low { high - low } else { 1.0 };
        Standardizer {
            mean: halves.clone().map(|(low, high)| low + high).collect(),
            scale: halves.map(scale).collect(),
        }
    }

    /// Least and largest value of each input.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (f64, f64)> {
        self.inputs.iter().map(|moment| (moment.low, moment.high))
    }

    /// Mean and deviation of the target, unless a few values have most say in them.
    pub(crate) fn of_target(&self) -> Option<(f64, f64)> {
        let deviation = self.target.deviation(self.weight);
        (!self.target.is_far(self.weight) && deviation > 0.0).then_some((self.target.mean, deviation))
    }
}

/// Rounding leaves a constant column a deviation of about 1e-16 of its value.
const LEAST_DEVIATION: f64 = 1e-14;

#[cfg(test)]
mod tests {
    use faer::Mat;

    use super::*;

    #[test]
    fn parts_have_the_moments_of_the_whole() {
        let inputs = Mat::from_fn(500, 2, |i, j| 1e6 * j as f64 + ((i * (j + 3)) as f64).sin());
        let target: Vec<f64> = (0..500).map(|i| f64::from(i).cos()).collect();
        let weights: Vec<f64> = (0..500).map(|i| 1.0 + f64::from(i % 3)).collect();
        let whole = Dataset::new(inputs.as_ref(), &target).unwrap().with_weights(&weights).unwrap();
        let mut merged = Moments::none(2);
        for start in (0..500).step_by(70) {
            let rows: Vec<usize> = (start..(start + 70).min(500)).collect();
            merged.merge(&Moments::of(&whole.take(&rows)));
        }
        assert_eq!(merged.rows(), 500);
        let standard = Standardizer::weighted(inputs.as_ref(), &weights);
        let found = merged.scaling(&Standardizer::identity(2));
        for j in 0..2 {
            assert!((found.mean[j] / standard.mean[j] - 1.0).abs() < 1e-9, "{j}");
            assert!((found.scale[j] / standard.scale[j] - 1.0).abs() < 1e-6, "{j}");
        }
        // One value far out does not set the scale.
        let mut far = target.clone();
        far[3] = 1e9;
        let dataset = Dataset::new(inputs.as_ref(), &far).unwrap();
        assert_eq!(Moments::of(&dataset).of_target(), None);
    }
}
