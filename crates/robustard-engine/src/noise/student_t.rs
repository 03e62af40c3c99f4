//! Per-row variances under an inverse-gamma prior, which is Student-t noise.
//!
//! The variances are integrated out rather than set to their mode: in the variational bound the row's precision has a gamma
//! posterior of shape a + ½ and mean 1/λ.

use serde::{Deserialize, Serialize};
use statrs::function::gamma::ln_gamma;

use super::{COORDINATES, DEGREES_RANGE, Influence, Model, bulk_variance, inflation};
use crate::math::density::log_student;

/// Least inlier variance as a share of s²: an exact fit has a median second moment of 0.
const LEAST_INLIER_SHARE: f64 = 0.1;

/// What is learnt about Student-t noise beyond the per-row variances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StudentLearning {
    /// Nothing: inverse-gamma prior with given shape and scale.
    Nothing,
    /// s².
    Scale,
    /// s² and ν.
    ScaleAndDegrees,
}

/// Student-t noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StudentT {
    /// s²
    pub scale: f64,
    /// ν
    pub degrees: f64,
    /// Which of the two are learnt.
    pub learning: StudentLearning,
}

impl StudentT {
    fn learns_scale(&self) -> bool {
        self.learning != StudentLearning::Nothing
    }

    fn learns_degrees(&self) -> bool {
        self.learning == StudentLearning::ScaleAndDegrees
    }
}

impl Model for StudentT {
    fn start_at(&mut self, scale: f64) {
        if self.learns_scale() {
            self.scale = scale;
        }
    }

    fn rescale(&mut self, factor: f64) {
        if self.learns_scale() {
            self.scale *= factor;
        }
    }

    fn scale_bounds(&self, bounds: [f64; 2]) -> [f64; 2] {
        scale_bounds(if self.learns_degrees() { DEGREES_RANGE[0] } else { self.degrees }, bounds)
    }

    fn fit_parameters(&mut self, second_moment: &[f64], row_weight: &[f64], bounds: [f64; 2]) -> bool {
        if self.learns_scale() {
            let (s2, nu) = (self.scale, self.degrees);
            let rows = second_moment.iter().zip(row_weight);
            let sum: f64 = rows.map(|(e2, w)| w * (nu + 1.0) * e2 / (nu + e2 / s2)).sum();
            self.scale = (sum / row_weight.iter().sum::<f64>()).clamp(bounds[0], bounds[1]);
        }
        if self.learns_degrees() {
            self.degrees = improve_degrees(self.degrees, self.scale, second_moment, row_weight);
        }
        self.learns_scale() && bounds.contains(&self.scale)
    }

    fn variance(&self, e2: f64) -> f64 {
        (self.degrees * self.scale + e2) / (self.degrees + 1.0)
    }

    /// Σ ω [a log λ + b/λ + constant]: the rows' share of the variational bound, less that of normal rows of variance λ.
    fn penalty(&self, rows: impl Iterator<Item = (f64, f64)>) -> f64 {
        let (a, b) = (0.5 * self.degrees, 0.5 * self.degrees * self.scale);
        let shape = a + 0.5;
        let constant = shape * shape.ln() - shape - ln_gamma(shape) + ln_gamma(a) - a * b.ln();
        rows.map(|(v, w)| w * (a * v.ln() + b / v + constant)).sum()
    }

    fn penalty_slope(&self, variance: f64) -> f64 {
        0.5 * self.degrees * (1.0 - self.scale / variance)
    }

    /// Of normal noise s² is not the variance (it is 0.69 of it at ν = 4), so the median is taken.
    fn inlier_variance(&self, second_moment: &[f64]) -> f64 {
        bulk_variance(second_moment).max(self.scale * LEAST_INLIER_SHARE)
    }

    fn log_density(&self, residual: f64, latent: f64, _inlier: f64) -> f64 {
        log_student(residual, self.scale + latent, self.degrees)
    }

    fn inflation(&self, second_moment: &[f64], row_weight: &[f64]) -> f64 {
        inflation(second_moment, row_weight, |e2| {
            let variance = self.variance(e2);
            Influence { variance, precision_slope: -1.0 / ((self.degrees + 1.0) * variance * variance) }
        })
    }

    fn to_coordinates(self) -> [f64; COORDINATES] {
        [self.scale.ln(), self.degrees.ln(), 0.0, 0.0]
    }

    fn set_coordinates(&mut self, x: [f64; COORDINATES], bounds: [f64; 2]) {
        if self.learns_scale() {
            self.scale = x[0].exp().clamp(bounds[0], bounds[1]);
        }
        if self.learns_degrees() {
            self.degrees = x[1].exp().clamp(DEGREES_RANGE[0], DEGREES_RANGE[1]);
        }
    }
}

/// The range of s² for which every variance lies within `bounds` from below: λ ≥ νs²/(ν + 1), ν being at least `degrees`.
pub(super) fn scale_bounds(degrees: f64, bounds: [f64; 2]) -> [f64; 2] {
    let low = bounds[0] * (degrees + 1.0) / degrees;
    [low, bounds[1].max(low)]
}

/// A ν at which the rows are at least as likely: golden-section search within a factor of two.
pub(super) fn improve_degrees(degrees: f64, scale: f64, second_moment: &[f64], row_weight: &[f64]) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    const STEPS: usize = 8;
    let cost = |log_nu: f64| -> f64 {
        let nu = log_nu.exp();
        let half = 0.5 * (nu + 1.0);
        let constant = ln_gamma(0.5 * nu) - ln_gamma(half) + 0.5 * nu.ln();
        second_moment.iter().zip(row_weight).map(|(e2, w)| w * (constant + half * (e2 / (nu * scale)).ln_1p())).sum()
    };
    let [low, high] = DEGREES_RANGE.map(f64::ln);
    let start = degrees.ln();
    let (mut left, mut right) = ((start - 2f64.ln()).max(low), (start + 2f64.ln()).min(high));
    let mut inner = [right - GOLDEN * (right - left), left + GOLDEN * (right - left)];
    let mut costs = inner.map(cost);
    for _ in 0..STEPS {
        if costs[0] <= costs[1] {
            right = inner[1];
            inner = [right - GOLDEN * (right - left), inner[0]];
            costs = [cost(inner[0]), costs[0]];
        } else {
            left = inner[0];
            inner = [inner[1], left + GOLDEN * (right - left)];
            costs = [costs[1], cost(inner[1])];
        }
    }
    let best = if costs[0] <= costs[1] { 0 } else { 1 };
    if costs[best] < cost(start) { inner[best].exp() } else { degrees }
}
