//! Student-t noise with a share of gross errors: (1−π)·t_ν(0, s²) + π·N(0, κs²), which nests Student-t noise (π = 0) and
//! contaminated normal noise (ν → ∞).
//!
//! Like every scale mixture of normals its density is exp(−f(e²)) with a concave f, so that the best variance of a row is
//! λ(e²) = 1/(2f′(e²)) and the penalty that leads there is c(λ) = f(e²) − e²/(2λ) − ½ log 2πλ at the e² with λ(e²) = λ. That
//! e² has no closed form and is found by Newton's method.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::outliers::{Parameters, Split, prior_cost, ratio_at, share_at};
use super::student_t::{improve_degrees, scale_bounds};
use super::{COORDINATES, DEGREES_RANGE, Influence, Model, inflation};
use crate::math::density::{log_normal, log_student, log_sum_exp};

/// Student-t noise with a share of gross errors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ContaminatedT {
    /// s² of the inliers.
    pub scale: f64,
    /// ν of the inliers.
    pub degrees: f64,
    /// π, the share of gross errors.
    pub share: f64,
    /// κ, the variance of gross errors divided by s².
    pub ratio: f64,
    /// Whether ν is learnt.
    pub learns_degrees: bool,
}

impl Model for ContaminatedT {
    fn start_at(&mut self, scale: f64) {
        self.scale = scale;
    }

    fn rescale(&mut self, factor: f64) {
        self.scale *= factor;
    }

    fn scale_bounds(&self, bounds: [f64; 2]) -> [f64; 2] {
        scale_bounds(if self.learns_degrees { DEGREES_RANGE[0] } else { self.degrees }, bounds)
    }

    fn fit_parameters(&mut self, second_moment: &[f64], row_weight: &[f64], bounds: [f64; 2]) -> bool {
        let (noise, s2, nu) = (self.for_rows(), self.scale, self.degrees);
        let mut split = Split::default();
        let mut inlier_weight = Vec::with_capacity(row_weight.len());
        for (&e2, &w) in second_moment.iter().zip(row_weight) {
            let p = noise.probability(e2);
            // The inliers' squares count by their expected precisions.
            split.inlier_sum += w * (1.0 - p) * (nu + 1.0) * e2 / (nu + e2 / s2);
            split.outlier_sum += w * p * e2;
            split.outliers += w * p;
            inlier_weight.push(w * (1.0 - p));
        }
        let Parameters { scale, share, ratio } = split.parameters(self.ratio, row_weight.iter().sum(), bounds);
        *self = Self { scale, share, ratio, ..*self };
        if self.learns_degrees {
            self.degrees = improve_degrees(nu, scale, second_moment, &inlier_weight);
        }
        bounds.contains(&scale)
    }

    fn variance(&self, e2: f64) -> f64 {
        self.for_rows().variance(e2)
    }

    fn range(&self) -> [f64; 2] {
        [self.variance(0.0), f64::INFINITY]
    }

    fn penalty(&self, rows: impl Iterator<Item = (f64, f64)>) -> f64 {
        self.for_rows().penalty(rows) + prior_cost(self.share, self.ratio)
    }

    fn penalty_slope(&self, variance: f64) -> f64 {
        self.for_rows().penalty_slope(variance)
    }

    /// Of the normal noise with the same quartiles, which gross errors do not move.
    fn inlier_variance(&self, _second_moment: &[f64]) -> f64 {
        self.scale * quartile_ratio(self.degrees).powi(2)
    }

    fn log_density(&self, residual: f64, latent: f64, _inlier: f64) -> f64 {
        let inlier = (1.0 - self.share).ln() + log_student(residual, self.scale + latent, self.degrees);
        let outlier = self.share.ln() + log_normal(residual, self.ratio * self.scale + latent);
        log_sum_exp([inlier, outlier].into_iter())
    }

    fn inflation(&self, second_moment: &[f64], row_weight: &[f64]) -> f64 {
        let noise = self.for_rows();
        inflation(second_moment, row_weight, |e2| Influence {
            variance: noise.variance(e2),
            precision_slope: noise.precision_slope(e2),
        })
    }

    fn outlier_probability(&self, e2: f64) -> Option<f64> {
        Some(self.for_rows().probability(e2))
    }

    fn to_coordinates(self) -> [f64; COORDINATES] {
        [self.scale.ln(), (self.share / (1.0 - self.share)).ln(), self.ratio.ln(), self.degrees.ln()]
    }

    fn set_coordinates(&mut self, x: [f64; COORDINATES], bounds: [f64; 2]) {
        self.scale = x[0].exp().clamp(bounds[0], bounds[1]);
        (self.share, self.ratio) = (share_at(x[1]), ratio_at(x[2]));
        if self.learns_degrees {
            self.degrees = x[3].exp().clamp(DEGREES_RANGE[0], DEGREES_RANGE[1]);
        }
    }
}

/// The upper quartile of Student-t noise divided by that of normal noise.
fn quartile_ratio(degrees: f64) -> f64 {
    const UPPER_QUARTILE: f64 = 0.75;
    let normal = Normal::standard().inverse_cdf(UPPER_QUARTILE);
    StudentsT::new(0.0, 1.0, degrees).map_or(1.0, |student| student.inverse_cdf(UPPER_QUARTILE) / normal)
}

/// The noise, ready for many rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct ForRows {
    scale: f64,
    degrees: f64,
    ratio: f64,
    /// Log density of an inlier at 0.
    student: f64,
    /// Log odds of a gross error at 0.
    odds: f64,
}

/// 1/λ of the two components at a second moment, and the probability of the second.
struct Components {
    inlier: f64,
    outlier: f64,
    log_odds: f64,
    probability: f64,
}

impl ContaminatedT {
    /// With what no row changes worked out.
    pub(super) fn for_rows(&self) -> ForRows {
        let Self { scale, degrees, share, ratio, .. } = *self;
        let at_zero = log_student(0.0, scale, degrees);
        let odds = (share / (1.0 - share)).ln() + log_normal(0.0, ratio * scale) - at_zero;
        ForRows { scale, degrees, ratio, student: at_zero + (1.0 - share).ln(), odds }
    }
}

impl ForRows {
    fn components(&self, e2: f64) -> Components {
        let (nu, s2) = (self.degrees, self.scale);
        let outlier = 1.0 / (self.ratio * s2);
        let log_odds = self.odds - 0.5 * e2 * outlier + 0.5 * (nu + 1.0) * (e2 / (nu * s2)).ln_1p();
        let probability = 1.0 / (1.0 + (-log_odds).exp());
        Components { inlier: (nu + 1.0) / (nu * s2 + e2), outlier, log_odds, probability }
    }

    fn precision(&self, e2: f64) -> f64 {
        let Components { inlier, outlier, probability: p, .. } = self.components(e2);
        (1.0 - p) * inlier + p * outlier
    }

    /// d(1/λ)/de².
    pub(super) fn precision_slope(&self, e2: f64) -> f64 {
        let Components { inlier, outlier, probability: p, .. } = self.components(e2);
        -(1.0 - p) * inlier * inlier / (self.degrees + 1.0) - 0.5 * p * (1.0 - p) * (inlier - outlier).powi(2)
    }

    /// λ(e²).
    pub(super) fn variance(&self, e2: f64) -> f64 {
        1.0 / self.precision(e2)
    }

    /// Probability that a row is a gross error.
    pub(super) fn probability(&self, e2: f64) -> f64 {
        self.components(e2).probability
    }

    /// Log density of the noise at a second moment.
    pub(super) fn log_density(&self, e2: f64) -> f64 {
        // log(a + b) = log a + log(1 + b/a), the components being a and b.
        let log_odds = self.components(e2).log_odds;
        let excess = log_odds.max(0.0) + (-log_odds.abs()).exp().ln_1p();
        self.student - 0.5 * (self.degrees + 1.0) * (e2 / (self.degrees * self.scale)).ln_1p() + excess
    }

    /// Σ ωᵢ c(λᵢ).
    pub(super) fn penalty(&self, rows: impl Iterator<Item = (f64, f64)>) -> f64 {
        rows.map(|(variance, weight)| {
            let e2 = self.moment_at(variance);
            let density = self.log_density(e2);
            weight * (-density - 0.5 * e2 / variance - 0.5 * (2.0 * PI * variance).ln())
        })
        .sum()
    }

    /// λ c′(λ).
    pub(super) fn penalty_slope(&self, variance: f64) -> f64 {
        0.5 * (self.moment_at(variance) / variance - 1.0)
    }

    /// The e² with λ(e²) = `variance`; 0 if the variance is smaller than any.
    fn moment_at(&self, variance: f64) -> f64 {
        const STEPS: usize = 60;
        const TOLERANCE: f64 = 1e-13;
        let wanted = 1.0 / variance;
        if self.precision(0.0) <= wanted {
            return 0.0;
        }
        // λ ≥ the inliers' own, which is e² = (ν+1)λ − νs²: a bracket from above unless gross errors raise λ beyond it.
        let (mut low, mut high) = (0.0, (self.degrees + 1.0) * variance);
        while self.precision(high) > wanted && high < f64::MAX / 4.0 {
            high *= 4.0;
        }
        // Right where gross errors play no part.
        let mut e2 = ((self.degrees + 1.0) * variance - self.degrees * self.scale).clamp(0.01 * variance, high);
        for _ in 0..STEPS {
            let gap = self.precision(e2) - wanted;
            // Of a gross error λ hardly depends on e², and neither does the penalty: rounding is the limit.
            if gap.abs() <= 4.0 * f64::EPSILON * wanted {
                return e2;
            }
            if gap > 0.0 {
                low = e2
            } else {
                high = e2
            }
            let newton = e2 - gap / self.precision_slope(e2);
            let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
            if (next - e2).abs() <= TOLERANCE * e2 {
                return next;
            }
            e2 = next;
        }
        e2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_variances_are_inverse() {
        for degrees in [1.0, 4.0, 50.0] {
            for share in [1e-6, 0.1, 0.5] {
                let noise = ContaminatedT { scale: 0.7, degrees, share, ratio: 60.0, learns_degrees: false }.for_rows();
                let mut before = 0.0;
                for e2 in [1e-6, 0.1, 1.0, 5.0, 20.0, 100.0, 1e4, 1e8] {
                    let variance = noise.variance(e2);
                    assert!(variance > before, "{noise:?} {e2}");
                    before = variance;
                    let back = noise.moment_at(variance);
                    // Where λ hardly depends on e², e² cannot be known better than λ.
                    let loss = -noise.precision(e2) / noise.precision_slope(e2) / e2;
                    assert!((back - e2).abs() < 1e-9 * e2 * (1.0 + loss), "{noise:?}: {e2} {back}");
                }
            }
        }
    }
}
