//! The noise of new observations: densities and intervals.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Continuous, ContinuousCDF, Normal, StudentsT};

use crate::math::density::{log_normal, log_sum_exp};
use crate::math::order::spread;

/// The noise that a new row is assumed to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BaseNoise {
    /// Mean of the training rows' λ: conservative, dominated by outliers.
    Mean,
    /// Mean of the λ between their 5% and 95% quantiles.
    Trimmed,
    /// The noise of rows that are not outliers. Student-t noise keeps its tails, which makes intervals wide on normal data
    /// (97.8% for 95% at ν = 4); contaminated noise leaves its outliers out, so that intervals hold `level` of the inliers;
    /// with a flat prior, the variance whose normal noise has the same median square.
    Inlier,
    /// The noise that explains the errors of rows predicted from the others: a mixture of normals of many widths, which holds
    /// what share of new rows it says whatever the noise is like. With robust noise it knows the outliers, too.
    LeftOut,
}

/// Errors of rows that were predicted without them.
#[derive(Debug, Clone, PartialEq)]
pub struct LeftOut {
    /// Target minus prediction.
    pub residual: Vec<f64>,
    /// Variance of the regression function.
    pub latent_variance: Vec<f64>,
}

/// The noise of new observations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PredictiveNoise {
    /// N(0, variance).
    Normal {
        /// λ_b.
        variance: f64,
    },
    /// Student-t.
    StudentT {
        /// s².
        scale: f64,
        /// ν.
        degrees: f64,
    },
    /// Normals of variance 4ᵏ(v + q), k = −7…7, around predictions of latent variance q.
    Mixture {
        /// v.
        variance: f64,
        /// Their shares.
        shares: [f64; WIDTHS],
    },
}

/// 4ᵏ.
const WIDTHS: usize = 15;
const FACTORS: [f64; WIDTHS] = {
    let mut factors = [1.0 / 16384.0; WIDTHS];
    let mut k = 1;
    while k < WIDTHS {
        factors[k] = 4.0 * factors[k - 1];
        k += 1;
    }
    factors
};

/// Beyond these the quantiles of Student-t noise are taken at the border, above as normal.
const LEAST_DEGREES: f64 = 0.3;
const MOST_DEGREES: f64 = 1e3;

impl PredictiveNoise {
    fn scale(&self) -> f64 {
        match *self {
            Self::Normal { variance } | Self::Mixture { variance, .. } => variance,
            Self::StudentT { scale, .. } => scale,
        }
    }

    /// Variance of observations around a prediction with this latent variance; of noise with ν ≤ 2, which has none, that of
    /// ν = 2.1.
    pub fn total_variance(&self, latent_variance: f64) -> f64 {
        const LEAST: f64 = 2.1;
        match *self {
            Self::Normal { variance } => variance + latent_variance,
            Self::Mixture { variance, shares } => {
                let mean: f64 = shares.iter().zip(FACTORS).map(|(share, factor)| share * factor).sum();
                mean * (variance + latent_variance)
            }
            Self::StudentT { scale, degrees } => {
                let degrees = degrees.max(LEAST);
                scale * degrees / (degrees - 2.0) + latent_variance
            }
        }
    }

    /// Half the width of the central interval of `level` around predictions with these latent variances.
    pub fn half_widths(&self, level: f64, latent_variance: &[f64]) -> Vec<f64> {
        let quantile = self.quantile(level);
        latent_variance.iter().map(|q| quantile * (self.scale() + q).sqrt()).collect()
    }

    /// Log density of an observation `residual` away from a prediction with this latent variance.
    pub fn log_density(&self, residual: f64, latent_variance: f64) -> f64 {
        let scale = (self.scale() + latent_variance).sqrt();
        match *self {
            Self::StudentT { degrees, .. } if degrees <= MOST_DEGREES => {
                StudentsT::new(0.0, scale, degrees.max(LEAST_DEGREES)).map_or(f64::NEG_INFINITY, |t| t.ln_pdf(residual))
            }
            Self::Mixture { shares, .. } => {
                let parts = shares.iter().zip(FACTORS);
                log_sum_exp(parts.map(|(share, factor)| share.ln() + log_normal(residual, factor * scale * scale)))
            }
            _ => Normal::new(0.0, scale).map_or(f64::NEG_INFINITY, |normal| normal.ln_pdf(residual)),
        }
    }

    /// The noise of a target whose squared unit has grown by `factor`.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        match &mut self {
            Self::Normal { variance } | Self::Mixture { variance, .. } => *variance *= factor,
            Self::StudentT { scale, .. } => *scale *= factor,
        }
        self
    }

    #[cfg(test)]
    pub(crate) fn mixture_for_tests(variance: f64) -> Self {
        Self::Mixture { variance, shares: [1.0 / WIDTHS as f64; WIDTHS] }
    }

    /// Learns a mixture from the errors of left-out rows that count as often as their weights say; `variance` is that of its
    /// middle.
    pub fn learn(left_out: &LeftOut, weight: &[f64], variance: f64) -> Self {
        let rows = Self::looked_at(weight.len());
        Self::learn_from(rows.map(|i| (left_out.residual[i], left_out.latent_variance[i], weight[i])), variance)
    }

    /// The rows, of so many, that noise is learnt from.
    pub(crate) fn looked_at(rows: usize) -> impl Iterator<Item = usize> {
        const MOST_ROWS: usize = 4000;
        spread(rows, MOST_ROWS)
    }

    /// The same from residual, latent variance and weight of each row.
    pub(crate) fn learn_from(rows: impl Iterator<Item = (f64, f64, f64)>, variance: f64) -> Self {
        /// Updates of the shares.
        const UPDATES: usize = 60;
        let variance = variance.max(f64::MIN_POSITIVE);
        let densities: Vec<(f64, [f64; WIDTHS])> = rows
            .map(|(residual, latent_variance, weight)| {
                let total = variance + latent_variance;
                let logs = FACTORS.map(|factor| log_normal(residual, factor * total));
                let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                (weight, logs.map(|log| (log - largest).exp()))
            })
            .filter(|(_, densities)| densities.iter().all(|density| density.is_finite()))
            .collect();
        let mut shares = [1.0 / WIDTHS as f64; WIDTHS];
        for _ in 0..UPDATES {
            let mut counts = [0.0; WIDTHS];
            for (weight, densities) in &densities {
                let total: f64 = shares.iter().zip(densities).map(|(share, density)| share * density).sum();
                for k in 0..WIDTHS {
                    counts[k] += weight * shares[k] * densities[k] / total;
                }
            }
            let total: f64 = counts.iter().sum();
            if total.is_nan() || total <= 0.0 {
                return Self::Normal { variance };
            }
            shares = counts.map(|count| count / total);
        }
        Self::Mixture { variance, shares }
    }

    /// The number of scales on either side of the mean that hold `level` of the observations.
    fn quantile(&self, level: f64) -> f64 {
        let upper = 0.5 * (1.0 + level);
        match *self {
            Self::Normal { .. } => Normal::standard().inverse_cdf(upper),
            Self::Mixture { shares, .. } => mixture_quantile(level, &shares),
            Self::StudentT { degrees, .. } if degrees > MOST_DEGREES => Normal::standard().inverse_cdf(upper),
            Self::StudentT { degrees, .. } => {
                StudentsT::new(0.0, 1.0, degrees.max(LEAST_DEGREES)).map_or(f64::INFINITY, |t| t.inverse_cdf(upper))
            }
        }
    }
}

/// The quantile of a mixture, by halving.
fn mixture_quantile(level: f64, shares: &[f64; WIDTHS]) -> f64 {
    const HALVINGS: usize = 60;
    let normal = Normal::standard();
    let beyond = |half: f64| -> f64 {
        shares.iter().zip(FACTORS).map(|(share, factor)| 2.0 * share * normal.cdf(-half / factor.sqrt())).sum()
    };
    let (mut low, mut high) = (0.0, FACTORS[WIDTHS - 1].sqrt() * normal.inverse_cdf(0.5 * (1.0 + level)));
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if beyond(middle) > 1.0 - level { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Student-t errors, whose tails a normal of their variance does not have.
    #[test]
    fn mixture_holds_what_it_says() {
        let t = StudentsT::new(0.0, 0.3, 3.0).unwrap();
        let residual: Vec<f64> = (1..2000).map(|k| t.inverse_cdf(k as f64 / 2000.0)).collect();
        let left_out = LeftOut { latent_variance: vec![0.0; residual.len()], residual };
        let weight = vec![1.0; left_out.residual.len()];
        let noise = PredictiveNoise::learn(&left_out, &weight, 0.1);
        for level in [0.5, 0.8, 0.95] {
            let half = noise.half_widths(level, &[0.0])[0];
            let inside = left_out.residual.iter().filter(|r| r.abs() <= half).count() as f64 / 1999.0;
            assert!((inside - level).abs() < 0.012, "{level}: {inside}");
        }
        let exact: f64 = left_out.residual.iter().map(|r| t.ln_pdf(*r)).sum();
        let found: f64 = left_out.residual.iter().map(|r| noise.log_density(*r, 0.0)).sum();
        assert!((found - exact).abs() / 1999.0 < 0.02, "{found} {exact}");
    }

    /// The density and the intervals are of the same distribution, and both know the latent variance.
    #[test]
    fn mixture_density_integrates_to_the_interval() {
        let mut shares = [0.0; WIDTHS];
        (shares[6], shares[7], shares[9]) = (0.5, 0.3, 0.2);
        let noise = PredictiveNoise::Mixture { variance: 0.5, shares };
        let half = noise.half_widths(0.8, &[0.3])[0];
        let step = half / 1000.0;
        let mass: f64 = (0..1000).map(|k| 2.0 * step * noise.log_density((k as f64 + 0.5) * step, 0.3).exp()).sum();
        assert!((mass - 0.8).abs() < 1e-6, "{mass}");
        assert!((noise.total_variance(0.3) - 0.8 * (0.5 * 0.25 + 0.3 + 0.2 * 16.0)).abs() < 1e-12);
    }
}
