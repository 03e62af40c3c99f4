//! How good a fit is, by closed-form leave-one-out at the learnt precisions.

use robustard_engine::math::order::weighted_median_of_magnitudes;
use serde::{Deserialize, Serialize};

use crate::diagnostics::Diagnostics;

/// How well each row is predicted from the others, in the target's units. Rows count as often as in the fit: those set aside hardly
/// do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Quality {
    /// Root mean square of the leave-one-out residuals.
    pub loo_rmse: f64,
    /// Share of the target's variance that leave-one-out predictions explain; below 0 when the mean would do better, 0 for a
    /// target of one value.
    pub loo_r2: f64,
    /// Median absolute leave-one-out residual: what outliers do not move.
    pub loo_median_error: f64,
    /// Share of the rows inside their leave-one-out 95% interval.
    pub coverage_95: f64,
}

impl Quality {
    pub(crate) fn of(diagnostics: &Diagnostics, coverage_95: f64) -> Self {
        let Diagnostics { actual, loo_residual, weight, .. } = diagnostics;
        let total: f64 = weight.iter().sum();
        let mean_of = |value: &dyn Fn(usize) -> f64| -> f64 {
            (0..actual.len()).map(|row| weight[row] * value(row)).sum::<f64>() / total
        };
        let error = mean_of(&|row| loo_residual[row].powi(2)).sqrt();
        let mean = mean_of(&|row| actual[row]);
        let spread = mean_of(&|row| (actual[row] - mean).powi(2)).sqrt();
        Self {
            loo_rmse: error,
            loo_r2: if spread > 0.0 { 1.0 - (error / spread).powi(2) } else { 0.0 },
            loo_median_error: weighted_median_of_magnitudes(loo_residual, weight),
            coverage_95,
        }
    }
}
