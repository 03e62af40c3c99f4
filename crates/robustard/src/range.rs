//! The range of training rows.

use faer::{Mat, MatRef};
use serde::{Deserialize, Serialize};

/// Standardized inputs are held within ± this: farther out a curve would be anywhere.
pub(crate) const FARTHEST: f64 = 6.0;

/// The range of the training rows, in which standardized inputs are held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// Smallest value of each input.
    pub low: Vec<f64>,
    /// Largest.
    pub high: Vec<f64>,
}

impl Range {
    /// The range of these rows, at most to ±6.
    pub fn of(inputs: MatRef<'_, f64>) -> Self {
        Self::within(inputs, FARTHEST)
    }

    /// The whole range of these rows.
    pub fn whole(inputs: MatRef<'_, f64>) -> Self {
        Self::within(inputs, f64::INFINITY)
    }

    fn within(inputs: MatRef<'_, f64>, farthest: f64) -> Self {
        let end = |pick: fn(f64, f64) -> f64, start: f64| -> Vec<f64> {
            let limited = |value: &f64| value.clamp(-farthest, farthest);
            inputs.col_iter().map(|column| column.iter().map(limited).fold(start, pick)).collect()
        };
        Self { low: end(f64::min, farthest), high: end(f64::max, -farthest) }
    }

    /// Rows with every input inside.
    pub fn hold(&self, inputs: MatRef<'_, f64>) -> Mat<f64> {
        let held = |i, j| f64::min(f64::max(inputs[(i, j)], self.low[j]), self.high[j]);
        Mat::from_fn(inputs.nrows(), inputs.ncols(), held)
    }

    /// The inputs with rows outside, and how many rows.
    pub(crate) fn beyond(&self, inputs: MatRef<'_, f64>) -> Vec<(usize, usize)> {
        let is_outside = |j: usize, value: f64| value < self.low[j] || value > self.high[j];
        let count = |j: usize| inputs.col(j).iter().filter(|value| is_outside(j, **value)).count();
        (0..inputs.ncols()).map(|j| (j, count(j))).filter(|(_, count)| *count > 0).collect()
    }

    pub(crate) fn is_consistent(&self, inputs: usize) -> bool {
        self.low.len() == inputs && self.high.len() == inputs
    }
}
