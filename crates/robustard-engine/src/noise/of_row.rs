//! What one row gets from a noise model, for passes over many rows: what no row changes is worked out once.

use std::f64::consts::TAU;

use super::contaminated_t::ForRows;
use super::{Contaminated, NoiseModel, Shared, StudentT};
use crate::math::density::{log_normal, log_student};

/// The best variance of a row, and what the row adds to the objective there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OfRow {
    /// λ(e²).
    pub variance: f64,
    /// e²/(2λ) + ½ log 2πλ + c(λ), which is minus the log density of the noise at e².
    pub cost: f64,
}

/// A noise model, ready for many rows.
#[derive(Debug, Clone, Copy)]
pub struct NoiseOfRows(Prepared);

#[derive(Debug, Clone, Copy)]
enum Prepared {
    Shared { variance: f64, at_zero: f64 },
    Flat,
    StudentT { scale: f64, degrees: f64, at_zero: f64 },
    Contaminated { scale: f64, ratio: f64, inlier: f64, outlier: f64 },
    ContaminatedT(ForRows),
}

impl NoiseModel {
    /// The model, ready for many rows.
    pub fn of_rows(&self) -> NoiseOfRows {
        NoiseOfRows(match *self {
            Self::Shared(Shared { variance }) => Prepared::Shared { variance, at_zero: -log_normal(0.0, variance) },
            Self::Flat(_) => Prepared::Flat,
            Self::StudentT(StudentT { scale, degrees, .. }) => {
                Prepared::StudentT { scale, degrees, at_zero: -log_student(0.0, scale, degrees) }
            }
            Self::Contaminated(Contaminated { scale, share, ratio }) => Prepared::Contaminated {
                scale,
                ratio,
                inlier: (1.0 - share).ln() + log_normal(0.0, scale),
                outlier: share.ln() + log_normal(0.0, ratio * scale),
            },
            Self::ContaminatedT(model) => Prepared::ContaminatedT(model.for_rows()),
        })
    }
}

impl NoiseOfRows {
    /// Of a row with second moment e².
    #[inline]
    pub fn at(&self, e2: f64) -> OfRow {
        match self.0 {
            Prepared::Shared { variance, at_zero } => OfRow { variance, cost: at_zero + 0.5 * e2 / variance },
            Prepared::Flat => OfRow { variance: e2, cost: 0.5 * (1.0 + (TAU * e2).ln()) },
            Prepared::StudentT { scale, degrees, at_zero } => OfRow {
                variance: (degrees * scale + e2) / (degrees + 1.0),
                cost: at_zero + 0.5 * (degrees + 1.0) * (e2 / (degrees * scale)).ln_1p(),
            },
            Prepared::Contaminated { scale, ratio, inlier, outlier } => {
                let inlier = inlier - 0.5 * e2 / scale;
                let outlier = outlier - 0.5 * e2 / (ratio * scale);
                let gap = outlier - inlier;
                let excess = (-gap.abs()).exp();
                let probability = if gap > 0.0 { 1.0 / (1.0 + excess) } else { excess / (1.0 + excess) };
                OfRow {
                    variance: scale / ((1.0 - probability) + probability / ratio),
                    cost: -inlier.max(outlier) - excess.ln_1p(),
                }
            }
            Prepared::ContaminatedT(noise) => OfRow { variance: noise.variance(e2), cost: -noise.log_density(e2) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    /// Two routes: the penalty of the variances, and the density of the errors.
    #[test]
    fn costs_are_those_of_the_penalty() {
        for noise in ["shared", "flat", "inverse-gamma:2,0.1", "student-t:4", "contaminated", "contaminated-t:5"] {
            let model = NoiseModel::new(noise.parse::<Noise>().unwrap(), 0.7);
            let rule = model.of_rows();
            for e2 in [1e-9, 1e-3, 0.4, 3.0, 20.0, 1e3, 1e7] {
                let OfRow { variance, cost } = rule.at(e2);
                assert!((variance / model.variance(e2) - 1.0).abs() < 1e-12, "{noise} {e2}");
                let own = model.penalty(&[variance], &[1.0]) - model.penalty(&[], &[]);
                let expected = 0.5 * e2 / variance + 0.5 * (TAU * variance).ln() + own;
                assert!((cost - expected).abs() < 1e-9 * (1.0 + expected.abs()), "{noise} {e2}: {cost} {expected}");
            }
        }
    }
}
