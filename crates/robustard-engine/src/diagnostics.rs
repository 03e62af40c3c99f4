//! What the fit says about each training row, in closed form and without refits.
//!
//! All formulas hold γ and λ fixed at their learnt values. With the leverage hᵢ = qᵢ/λ̃ᵢ, λ̃ = λ/ω:
//!
//! | quantity | formula |
//! |---|---|
//! | leave-one-out residual | rᵢ/(1 − hᵢ) |
//! | leave-one-out latent variance | q̃ᵢ/(1 − h̃ᵢ), q̃ and h̃ under the posterior of predictions, whose noise is κ times as large: what `predict` would give |
//! | Cook's distance | rᵢ² hᵢ / (λ̃ᵢ (1 − hᵢ)² Σh): the shift of all weights, measured by Σ_θ⁻¹, per effective weight |
//! | DFFITS | rᵢ √hᵢ / (√λ̃ᵢ (1 − hᵢ)): the shift of the row's own fit in its standard deviations (internal: λ is not refitted) |
//! | standardized residual | rᵢ / √(λ̃ᵢ (1 − hᵢ)) |
//! | studentized residual | with shared noise the same with λ estimated without the row, else z |
//! | z | leave-one-out residual / √(σ² + leave-one-out latent variance), σ² the noise variance of inliers |

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

use crate::model::{FittedModel, TrainingRows};
use crate::posterior::LEAST_FREEDOM;
use crate::predictive::LeftOut;

/// Rows that a clean table of normal noise would flag, on average, whatever its size.
const EXPECTED_FALSE_FLAGS: f64 = 0.5;
/// No row within three standard deviations is flagged.
const LEAST_THRESHOLD: f64 = 3.0;
/// A row that is more likely an outlier than not is flagged.
const PROBABILITY_THRESHOLD: f64 = 0.5;

/// Diagnostics of all training rows, in their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Diagnostics {
    /// y − xᵀμ.
    pub residual: Vec<f64>,
    /// How strongly the row pulls its own fit; between 0 and 1.
    pub leverage: Vec<f64>,
    /// Residual had the row been left out.
    pub loo_residual: Vec<f64>,
    /// Variance of the regression function at the row, had it been left out.
    pub loo_latent_variance: Vec<f64>,
    /// Log density of the row's target under the noise model, had the row been left out.
    pub loo_log_density: Vec<f64>,
    /// Cook's distance.
    pub cooks_distance: Vec<f64>,
    /// DFFITS.
    pub dffits: Vec<f64>,
    /// Residual in its standard deviations under the row's own noise (internally studentized).
    pub standard_residual: Vec<f64>,
    /// The same under noise that does not know the row (externally studentized).
    pub student_residual: Vec<f64>,
    /// Leave-one-out residual in standard deviations of an inlier.
    pub z: Vec<f64>,
    /// Probability of being an outlier, if the noise model has one.
    pub outlier_probability: Option<Vec<f64>>,
    /// Relevance 1/λ of the row.
    pub relevance: Vec<f64>,
    /// Rows to look at: outlier probability above ½ if there is one, else |z| above `threshold`.
    pub flagged: Vec<bool>,
    /// The threshold for |z|: at least 3, and so large that a clean table of this size would show half a row on average.
    pub threshold: f64,
}

impl Diagnostics {
    /// Indices of all rows, most suspicious first.
    pub fn ranking(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.z.len()).collect();
        let suspicion = |i: usize| (self.outlier_probability.as_ref().map_or(0.0, |p| p[i]), self.z[i].abs());
        order.sort_by(|&a, &b| {
            let (a, b) = (suspicion(a), suspicion(b));
            b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
        });
        order
    }
}

impl Diagnostics {
    /// Indices of the flagged rows, most suspicious first.
    pub fn flagged_rows(&self) -> Vec<usize> {
        self.ranking().into_iter().filter(|&row| self.flagged[row]).collect()
    }
}

/// The |z| above which a row of a table with `rows` rows is flagged.
pub fn z_threshold(rows: usize) -> f64 {
    let tail = EXPECTED_FALSE_FLAGS / 2.0 / rows.max(1) as f64;
    Normal::standard().inverse_cdf(1.0 - tail).max(LEAST_THRESHOLD)
}

impl FittedModel {
    /// Diagnoses every training row.
    #[must_use]
    pub fn diagnose(&self) -> Diagnostics {
        self.diagnose_with(&[])
    }

    /// The same with `more` variance of the regression function at each row than the features carry (one value per row, or
    /// none): in the leave-one-out variances, densities, z and flags.
    #[must_use]
    pub fn diagnose_with(&self, more: &[f64]) -> Diagnostics {
        self.diagnose_rows(self.rows(), more)
    }

    /// The same of rows of which the fit says this: those of [`Self::rows`], or of a part of all rows that were fitted.
    #[must_use]
    pub fn diagnose_rows(&self, rows: &TrainingRows, more: &[f64]) -> Diagnostics {
        let n = rows.count();
        let variance: Vec<f64> = rows.noise_variance.iter().zip(rows.weight.iter()).map(|(v, w)| v / w).collect();
        let residual: Vec<f64> = rows.target.iter().zip(&rows.fitted).map(|(y, f)| y - f).collect();
        let leverage = rows.leverage();
        let freedom = |i: usize| (1.0 - leverage[i]).max(LEAST_FREEDOM);
        let of_all = self.seen().map_or_else(|| leverage.iter().sum(), |seen| seen.effective_weights);
        let effective_weights = of_all.max(f64::MIN_POSITIVE);
        let per_row = |value: &dyn Fn(usize) -> f64| -> Vec<f64> { (0..n).map(value).collect() };

        let LeftOut { residual: loo_residual, latent_variance: loo_latent_variance } = self.left_out_of(rows, more);
        let inlier = self.inlier_variance();
        let z = per_row(&|i| loo_residual[i] / (inlier + loo_latent_variance[i]).sqrt());
        let standard_residual = per_row(&|i| residual[i] / (variance[i] * freedom(i)).sqrt());
        let student_residual = match self.noise().is_shared() {
            // One of very many rows does not change what noise is estimated to be.
            true if self.seen().is_some() => standard_residual.clone(),
            true => externally_studentized(&standard_residual, &leverage, &rows.weight),
            false => z.clone(),
        };
        let outlier_probability: Option<Vec<f64>> =
            (0..n).map(|i| self.noise().outlier_probability(residual[i].powi(2) + rows.latent_variance[i])).collect();
        let threshold = z_threshold(usize::try_from(self.row_count()).unwrap_or(usize::MAX));
        let flagged = match &outlier_probability {
            Some(probability) => probability.iter().map(|p| *p > PROBABILITY_THRESHOLD).collect(),
            None => z.iter().map(|z| z.abs() > threshold).collect(),
        };
        Diagnostics {
            loo_log_density: per_row(&|i| self.noise().log_density(loo_residual[i], loo_latent_variance[i], inlier)),
            cooks_distance: per_row(&|i| {
                let shift = loo_residual[i] * (leverage[i] / variance[i]).sqrt();
                if leverage[i] > 0.0 { shift * shift / effective_weights } else { 0.0 }
            }),
            dffits: per_row(&|i| loo_residual[i] * (leverage[i] / variance[i]).sqrt()),
            relevance: rows.noise_variance.iter().map(|v| 1.0 / v).collect(),
            residual,
            standard_residual,
            student_residual,
            loo_residual,
            loo_latent_variance,
            z,
            outlier_probability,
            flagged,
            threshold,
            leverage,
        }
    }
}

/// Standardized residuals with λ estimated without the row itself.
fn externally_studentized(standard_residual: &[f64], leverage: &[f64], weight: &[f64]) -> Vec<f64> {
    let freedom_left = weight.iter().sum::<f64>() - leverage.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let freedom = leverage.iter().map(|h| (1.0 - h).max(LEAST_FREEDOM));
    let squares: f64 = standard_residual.iter().zip(freedom).map(|(r, freedom)| r * r * freedom).sum();
    let studentize = |(r, weight): (&f64, &f64)| {
        // In units of λ: the squares that are left without the row, per degree of freedom.
        let left = freedom_left - weight;
        let without = (squares - r.powi(2)).max(LEAST_FREEDOM * squares) / left;
        if left > 0.0 && without > 0.0 { r / without.sqrt() } else { *r }
    };
    standard_residual.iter().zip(weight).map(studentize).collect()
}
