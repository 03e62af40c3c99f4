//! Predictions for new rows.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::predictive::PredictiveNoise;

/// Rows that do not fit the model.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum PredictError {
    /// A value that is not a finite number.
    #[error("column {}, row {} is {value}; drop the row or fill the value in before predicting", .column + 1, .row + 1)]
    NotFinite {
        /// Column, counted from 0.
        column: usize,
        /// Row, counted from 0.
        row: usize,
        /// The value found.
        value: f64,
    },
    /// Wrong number of columns.
    #[error("the model has {expected} columns but the rows have {found}; give the columns that it was fitted to")]
    ColumnCount {
        /// Columns of the model.
        expected: usize,
        /// Columns given.
        found: usize,
    },
    /// A level outside (0, 1).
    #[error("the level is {0}; it must be between 0 and 1, for example 0.95")]
    Level(f64),
}

/// The regression function at new rows, without noise.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LatentPrediction {
    /// Expected value.
    pub mean: Vec<f64>,
    /// Variance.
    pub variance: Vec<f64>,
}

impl LatentPrediction {
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self { mean: Vec::with_capacity(rows), variance: Vec::with_capacity(rows) }
    }
}

/// Predictions for new rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Prediction {
    /// Expected value.
    pub mean: Vec<f64>,
    /// Variance of the regression function.
    pub latent_variance: Vec<f64>,
    /// Standard deviation of a new observation.
    pub std: Vec<f64>,
    noise: PredictiveNoise,
    /// How many times as wide the distribution of each row is; empty if all are as they are.
    widths: Vec<f64>,
}

/// Lower and upper ends of central intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Interval {
    /// Lower ends.
    pub lower: Vec<f64>,
    /// Upper ends.
    pub upper: Vec<f64>,
}

impl Prediction {
    /// Observations with this noise around a regression function of these means and variances, one of each per row.
    #[must_use]
    pub fn new(mean: Vec<f64>, latent_variance: Vec<f64>, noise: PredictiveNoise) -> Self {
        debug_assert_eq!(mean.len(), latent_variance.len());
        let std = latent_variance.iter().map(|variance| noise.total_variance(*variance).sqrt()).collect();
        Self { mean, latent_variance, std, noise, widths: Vec::new() }
    }

    /// With distributions of the rows that are so many times as wide.
    #[must_use]
    pub fn with_widths(mut self, widths: Vec<f64>) -> Self {
        self.widths.clone_from(&widths);
        self.std.iter_mut().zip(widths).for_each(|(std, width)| *std *= width);
        self
    }

    fn width(&self, row: usize) -> f64 {
        self.widths.get(row).copied().unwrap_or(1.0)
    }

    /// The noise of a new observation.
    pub fn noise(&self) -> &PredictiveNoise {
        &self.noise
    }

    /// With so much more variance of the regression function.
    #[must_use]
    pub fn widened(mut self, more: &[f64]) -> Self {
        self.latent_variance.iter_mut().zip(more).for_each(|(variance, more)| *variance += more);
        Self::new(self.mean, self.latent_variance, self.noise).with_widths(self.widths)
    }

    /// In other units: of shift + factor · target.
    #[must_use]
    pub fn scaled(mut self, shift: f64, factor: f64) -> Self {
        self.mean.iter_mut().for_each(|mean| *mean = shift + factor * *mean);
        self.latent_variance.iter_mut().for_each(|variance| *variance *= factor * factor);
        Self::new(self.mean, self.latent_variance, self.noise.scaled(factor * factor)).with_widths(self.widths)
    }

    /// Log densities of the observations that came true, under the same distribution as the intervals.
    #[must_use]
    pub fn log_density(&self, actual: &[f64]) -> Vec<f64> {
        let density = |row: usize| {
            let (residual, width) = (actual[row] - self.mean[row], self.width(row));
            self.noise.log_density(residual / width, self.latent_variance[row]) - width.ln()
        };
        (0..actual.len()).map(density).collect()
    }

    /// Central intervals that hold new observations of the model's base noise with probability `level`.
    pub fn interval(&self, level: f64) -> Result<Interval, PredictError> {
        if !(level > 0.0 && level < 1.0) {
            return Err(PredictError::Level(level));
        }
        let mut half = self.noise.half_widths(level, &self.latent_variance);
        half.iter_mut().enumerate().for_each(|(row, half)| *half *= self.width(row));
        let ends = |sign: f64| self.mean.iter().zip(&half).map(|(m, h)| m + sign * h).collect();
        Ok(Interval { lower: ends(-1.0), upper: ends(1.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// y = shift + factor·z: quantiles move with it, densities are divided by |factor|.
    #[test]
    fn other_units_are_the_same_distribution() {
        let (shift, factor) = (7.0, -3.0f64);
        for noise in [
            PredictiveNoise::Normal { variance: 0.4 },
            PredictiveNoise::StudentT { scale: 0.4, degrees: 3.0 },
            PredictiveNoise::mixture_for_tests(0.4),
        ] {
            let prediction = Prediction::new(vec![0.5, -1.0], vec![0.1, 0.3], noise).with_widths(vec![0.5, 2.0]);
            let scaled = prediction.clone().scaled(shift, factor);
            let (plain, other) = (prediction.interval(0.9).unwrap(), scaled.interval(0.9).unwrap());
            let (old, new) =
                (prediction.log_density(&[0.9, 1.0]), scaled.log_density(&[0.9, 1.0].map(|z| shift + factor * z)));
            for i in 0..2 {
                assert!((other.lower[i] - (shift + factor * plain.upper[i])).abs() < 1e-12);
                assert!((scaled.std[i] - factor.abs() * prediction.std[i]).abs() < 1e-12);
                assert!((new[i] - (old[i] - factor.abs().ln())).abs() < 1e-12);
            }
        }
    }
}
