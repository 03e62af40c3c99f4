//! Normal noise of which a share π has κ times the variance.

use serde::{Deserialize, Serialize};

use super::outliers::{Parameters, Split, prior_cost, ratio_at, share_at};
use super::{COORDINATES, Influence, Model, inflation};
use crate::math::density::{log_normal, log_sum_exp};

/// Normal noise with a share of outliers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Contaminated {
    /// s², the variance of the inliers.
    pub scale: f64,
    /// π, the share of outliers.
    pub share: f64,
    /// κ, the outliers' variance divided by the inliers'.
    pub ratio: f64,
}

impl Contaminated {
    #[inline]
    fn probability(&self, e2: f64) -> f64 {
        let Self { scale, share, ratio } = *self;
        let log_odds = (share / (1.0 - share)).ln() - 0.5 * ratio.ln() + 0.5 * e2 / scale * (1.0 - 1.0 / ratio);
        1.0 / (1.0 + (-log_odds).exp())
    }
}

impl Model for Contaminated {
    fn start_at(&mut self, scale: f64) {
        self.scale = scale;
    }

    fn rescale(&mut self, factor: f64) {
        self.scale *= factor;
    }

    fn fit_parameters(&mut self, second_moment: &[f64], row_weight: &[f64], bounds: [f64; 2]) -> bool {
        let mut split = Split::default();
        for (&e2, &w) in second_moment.iter().zip(row_weight) {
            let p = self.probability(e2);
            split.inlier_sum += w * (1.0 - p) * e2;
            split.outlier_sum += w * p * e2;
            split.outliers += w * p;
        }
        let Parameters { scale, share, ratio } = split.parameters(self.ratio, row_weight.iter().sum(), bounds);
        *self = Self { scale, share, ratio };
        bounds.contains(&scale)
    }

    fn variance(&self, e2: f64) -> f64 {
        let p = self.probability(e2);
        self.scale / ((1.0 - p) + p / self.ratio)
    }

    fn range(&self) -> [f64; 2] {
        [self.scale, self.scale * self.ratio]
    }

    fn penalty(&self, rows: impl Iterator<Item = (f64, f64)>) -> f64 {
        let Self { scale, share, ratio } = *self;
        let terms: f64 = rows
            .map(|(v, w)| {
                let p = ((1.0 - scale / v) / (1.0 - 1.0 / ratio)).clamp(0.0, 1.0);
                let divergence = entropy_term(p, share) + entropy_term(1.0 - p, 1.0 - share);
                w * (divergence + 0.5 * (scale / v).ln() + 0.5 * p * ratio.ln())
            })
            .sum();
        terms + prior_cost(share, ratio)
    }

    /// From the conjugacy: the second moment for which this variance is the best one.
    fn penalty_slope(&self, variance: f64) -> f64 {
        let Self { scale, share, ratio } = *self;
        let gap = 1.0 - 1.0 / ratio;
        let p = ((1.0 - scale / variance) / gap).clamp(1e-300, 1.0 - f64::EPSILON);
        let log_odds = (p / (1.0 - p)).ln() - (share / (1.0 - share)).ln() + 0.5 * ratio.ln();
        0.5 * (2.0 * scale * log_odds / gap / variance - 1.0)
    }

    fn inlier_variance(&self, _second_moment: &[f64]) -> f64 {
        self.scale
    }

    fn log_density(&self, residual: f64, latent: f64, _inlier: f64) -> f64 {
        let Self { scale, share, ratio } = *self;
        let inlier = (1.0 - share).ln() + log_normal(residual, scale + latent);
        let outlier = share.ln() + log_normal(residual, ratio * scale + latent);
        log_sum_exp([inlier, outlier].into_iter())
    }

    fn inflation(&self, second_moment: &[f64], row_weight: &[f64]) -> f64 {
        let gap = (1.0 - 1.0 / self.ratio) / self.scale;
        inflation(second_moment, row_weight, |e2| {
            let p = self.probability(e2);
            Influence { variance: self.variance(e2), precision_slope: -0.5 * p * (1.0 - p) * gap * gap }
        })
    }

    fn outlier_probability(&self, e2: f64) -> Option<f64> {
        Some(self.probability(e2))
    }

    fn to_coordinates(self) -> [f64; COORDINATES] {
        [self.scale.ln(), (self.share / (1.0 - self.share)).ln(), self.ratio.ln(), 0.0]
    }

    fn set_coordinates(&mut self, x: [f64; COORDINATES], bounds: [f64; 2]) {
        *self = Self { scale: x[0].exp().clamp(bounds[0], bounds[1]), share: share_at(x[1]), ratio: ratio_at(x[2]) };
    }
}

/// p log(p/q), 0 at p = 0.
fn entropy_term(p: f64, q: f64) -> f64 {
    if p > 0.0 { p * (p / q).ln() } else { 0.0 }
}
