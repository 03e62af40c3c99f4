//! Models of the noise: one variance for all rows, or one per row with a prior.
//!
//! Every model works on the rows' *second moments* e²ᵢ = rᵢ² + qᵢ, the expected squared residuals under the current
//! posterior, and contributes a penalty c(λᵢ) to the objective −log p(y | γ, λ) + Σ c(λᵢ). Given e², the update
//! minimises Σ [e²ᵢ/(2λᵢ) + ½ log 2πλᵢ + c(λᵢ)] over λ and the model's own parameters, so that undamped EM never
//! raises the objective.
//!
//! | prior | noise it stands for | variance given e² |
//! |---|---|---|
//! | flat | none: the paper | e² |
//! | inverse-gamma (a, b) | Student-t, ν = 2a and s² = b/a given | (2b + e²)/(2a + 1) |
//! | Student-t | Student-t, s² learnt, ν given or learnt | (νs² + e²)/(ν + 1) |
//! | contaminated | N(0, s²), a share π with κ times the variance | 1/((1−p)/s² + p/(κs²)) |
//! | contaminated-t | Student-t, a share π normal with κ times s² | 1/((1−p)(ν+1)/(νs² + e²) + p/(κs²)) |
//!
//! Inverse-gamma variances are integrated out rather than set to their mode, which is why that prior and Student-t
//! noise are one and the same here.

mod gross;
mod prior;

use std::f64::consts::PI;

use gross::{GrossErrors, log_student};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use statrs::function::gamma::ln_gamma;

pub use prior::{Degrees, NoiseKind, NoisePrior, NoisePriorError};

/// ν of Student-t noise when none is given: a good all-rounder between clean and contaminated data.
pub const DEFAULT_DEGREES: f64 = 4.0;
/// Range of a learnt ν. Below, the scale loses its meaning; above, the noise is normal to all intents.
const DEGREES_RANGE: [f64; 2] = [0.5, 200.0];
/// Start of the contaminated share.
const START_SHARE: f64 = 0.05;
/// Beta prior of the contaminated share, as pseudo-counts of outliers and of all rows: half an outlier in ten rows.
const SHARE_COUNTS: [f64; 2] = [0.5, 10.0];
const SHARE_RANGE: [f64; 2] = [1e-6, 0.5];
/// The variance ratio of outliers starts, and is drawn by half a pseudo-row, towards 50; below 9 (three standard
/// deviations) the two components could not be told apart.
const RATIO_CENTRE: f64 = 50.0;
const RATIO_COUNT: f64 = 0.5;
const RATIO_RANGE: [f64; 2] = [9.0, 1e10];
/// Least inlier variance as a share of s²: an exact fit has a median second moment of 0.
const LEAST_INLIER_SHARE: f64 = 0.1;
/// Largest correction of the posterior covariance; more would say that the expansion behind it has failed.
const MOST_INFLATION: f64 = 4.0;
/// Median of a χ² variable with one degree of freedom: what the median of r²/σ² is under normal noise.
const MEDIAN_CHI_SQUARE: f64 = 0.454_936_423_119_572_8;

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

/// A noise model with the current values of its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "kebab-case")]
pub enum NoiseModel {
    /// One variance.
    Shared {
        /// λ
        variance: f64,
    },
    /// Per-row variances under a flat prior.
    Flat,
    /// Per-row variances under an inverse-gamma prior: Student-t noise.
    StudentT {
        /// s²
        scale: f64,
        /// ν
        degrees: f64,
        /// Which of the two are learnt.
        learning: StudentLearning,
    },
    /// Normal noise with a share of outliers.
    Contaminated {
        /// s², the variance of the inliers.
        scale: f64,
        /// π, the share of outliers.
        share: f64,
        /// κ, the outliers' variance divided by the inliers'.
        ratio: f64,
    },
    /// Student-t noise with a share of gross errors.
    ContaminatedT {
        /// s² of the inliers.
        scale: f64,
        /// ν of the inliers.
        degrees: f64,
        /// π, the share of gross errors.
        share: f64,
        /// κ, the variance of gross errors divided by s².
        ratio: f64,
        /// Whether ν is learnt.
        learns_degrees: bool,
    },
}

impl NoiseModel {
    /// The model of the given kind and prior, its scale at `variance`.
    pub fn new(kind: NoiseKind, prior: NoisePrior, variance: f64) -> Self {
        match (kind, prior) {
            (NoiseKind::Shared, _) => Self::Shared { variance },
            (NoiseKind::PerRow, NoisePrior::Flat) => Self::Flat,
            (NoiseKind::PerRow, NoisePrior::InverseGamma { shape, scale }) => {
                Self::StudentT { scale: scale / shape, degrees: 2.0 * shape, learning: StudentLearning::Nothing }
            }
            (NoiseKind::PerRow, NoisePrior::StudentT(Degrees::Fixed(degrees))) => {
                Self::StudentT { scale: variance, degrees, learning: StudentLearning::Scale }
            }
            (NoiseKind::PerRow, NoisePrior::StudentT(Degrees::Learned)) => {
                Self::StudentT { scale: variance, degrees: DEFAULT_DEGREES, learning: StudentLearning::ScaleAndDegrees }
            }
            (NoiseKind::PerRow, NoisePrior::Contaminated) => {
                Self::Contaminated { scale: variance, share: START_SHARE, ratio: RATIO_CENTRE }
            }
            (NoiseKind::PerRow, NoisePrior::ContaminatedT(degrees)) => Self::ContaminatedT {
                scale: variance,
                degrees: if let Degrees::Fixed(degrees) = degrees { degrees } else { DEFAULT_DEGREES },
                share: START_SHARE,
                ratio: RATIO_CENTRE,
                learns_degrees: degrees == Degrees::Learned,
            },
        }
    }

    /// Whether all rows have one variance.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Shared { .. })
    }

    /// Puts a learnt scale where the bulk of the rows is, whatever the outliers: the start of the noise updates.
    pub fn start_at(&mut self, second_moment: &[f64], bounds: [f64; 2]) {
        let bounds = self.scale_bounds(bounds);
        let robust = (median(second_moment) / MEDIAN_CHI_SQUARE).clamp(bounds[0], bounds[1]);
        match self {
            Self::StudentT { scale, learning: StudentLearning::Scale | StudentLearning::ScaleAndDegrees, .. }
            | Self::Contaminated { scale, .. }
            | Self::ContaminatedT { scale, .. } => *scale = robust,
            Self::Shared { .. } | Self::Flat | Self::StudentT { .. } => {}
        }
    }

    /// Multiplies a learnt scale, as when the unit of the target changes.
    pub(crate) fn rescale(&mut self, factor: f64) {
        match self {
            Self::Shared { variance: scale }
            | Self::StudentT { scale, learning: StudentLearning::Scale | StudentLearning::ScaleAndDegrees, .. }
            | Self::Contaminated { scale, .. }
            | Self::ContaminatedT { scale, .. } => *scale *= factor,
            Self::Flat | Self::StudentT { .. } => {}
        }
    }

    /// The range of a learnt scale for which every variance lies within `bounds` from below: λ ≥ νs²/(ν + 1).
    fn scale_bounds(&self, bounds: [f64; 2]) -> [f64; 2] {
        let least = match *self {
            Self::StudentT { learning: StudentLearning::ScaleAndDegrees, .. } => DEGREES_RANGE[0],
            Self::ContaminatedT { learns_degrees: true, .. } => DEGREES_RANGE[0],
            Self::StudentT { degrees, .. } | Self::ContaminatedT { degrees, .. } => degrees,
            _ => return bounds,
        };
        let low = bounds[0] * (least + 1.0) / least;
        [low, bounds[1].max(low)]
    }

    /// Improves the model's own parameters for the given second moments; says whether the scale was put on a bound.
    pub fn fit_parameters(&mut self, second_moment: &[f64], row_weight: &[f64], bounds: [f64; 2]) -> bool {
        let rows = || second_moment.iter().zip(row_weight).map(|(&e2, &w)| (e2, w));
        let weight_sum: f64 = row_weight.iter().sum();
        let bounds = self.scale_bounds(bounds);
        match self {
            Self::Shared { .. } | Self::Flat => false,
            Self::StudentT { scale, degrees, learning } => {
                if *learning != StudentLearning::Nothing {
                    let (s2, nu) = (*scale, *degrees);
                    let sum: f64 = rows().map(|(e2, w)| w * (nu + 1.0) * e2 / (nu + e2 / s2)).sum();
                    *scale = (sum / weight_sum).clamp(bounds[0], bounds[1]);
                }
                if *learning == StudentLearning::ScaleAndDegrees {
                    *degrees = improve_degrees(*degrees, *scale, second_moment, row_weight);
                }
                *learning != StudentLearning::Nothing && bounds.contains(scale)
            }
            Self::Contaminated { scale, share, ratio } => {
                let (mut inlier_sum, mut outlier_sum, mut outliers) = (0.0, 0.0, 0.0);
                for (e2, w) in rows() {
                    let p = outlier_probability(e2, *scale, *share, *ratio);
                    inlier_sum += w * (1.0 - p) * e2;
                    outlier_sum += w * p * e2;
                    outliers += w * p;
                }
                // The scale and the ratio share terms: two rounds of coordinate descent, each exact.
                for _ in 0..2 {
                    *scale = ((inlier_sum + outlier_sum / *ratio) / weight_sum).clamp(bounds[0], bounds[1]);
                    *ratio = learnt_ratio(outlier_sum / *scale, outliers);
                }
                *share = learnt_share(outliers, weight_sum);
                bounds.contains(scale)
            }
            Self::ContaminatedT { scale, degrees, share, ratio, learns_degrees } => {
                let noise = GrossErrors::new(*scale, *degrees, *share, *ratio);
                let (mut inlier_sum, mut outlier_sum, mut outliers) = (0.0, 0.0, 0.0);
                let mut inlier_weight = Vec::with_capacity(row_weight.len());
                for (e2, w) in rows() {
                    let p = noise.probability(e2);
                    inlier_sum += w * (1.0 - p) * (*degrees + 1.0) * e2 / (*degrees + e2 / *scale);
                    outlier_sum += w * p * e2;
                    outliers += w * p;
                    inlier_weight.push(w * (1.0 - p));
                }
                // As for contaminated normal noise, the inliers' squares weighted by their expected precisions.
                for _ in 0..2 {
                    *scale = ((inlier_sum + outlier_sum / *ratio) / weight_sum).clamp(bounds[0], bounds[1]);
                    *ratio = learnt_ratio(outlier_sum / *scale, outliers);
                }
                *share = learnt_share(outliers, weight_sum);
                if *learns_degrees {
                    *degrees = improve_degrees(*degrees, *scale, second_moment, &inlier_weight);
                }
                bounds.contains(scale)
            }
        }
    }

    fn gross_errors(&self) -> Option<GrossErrors> {
        match *self {
            Self::ContaminatedT { scale, degrees, share, ratio, .. } => {
                Some(GrossErrors::new(scale, degrees, share, ratio))
            }
            _ => None,
        }
    }

    /// The best variance of a row with second moment `e2` under the current parameters.
    #[inline]
    pub fn variance(&self, e2: f64) -> f64 {
        match *self {
            Self::Shared { variance } => variance,
            Self::Flat => e2,
            Self::StudentT { scale, degrees, .. } => (degrees * scale + e2) / (degrees + 1.0),
            Self::Contaminated { scale, share, ratio } => {
                let p = outlier_probability(e2, scale, share, ratio);
                scale / ((1.0 - p) + p / ratio)
            }
            Self::ContaminatedT { scale, degrees, share, ratio, .. } => {
                GrossErrors::new(scale, degrees, share, ratio).variance(e2)
            }
        }
    }

    /// [`Self::variance`] for many rows: what no row changes is worked out once.
    pub fn variance_rule(&self) -> impl Fn(f64) -> f64 + use<> {
        let (model, gross) = (*self, self.gross_errors());
        move |e2| gross.map_or_else(|| model.variance(e2), |gross| gross.variance(e2))
    }

    /// The range of variances for which [`Self::penalty`] is defined.
    pub fn range(&self) -> [f64; 2] {
        match *self {
            Self::Contaminated { scale, ratio, .. } => [scale, scale * ratio],
            Self::ContaminatedT { .. } => [self.variance(0.0), f64::INFINITY],
            _ => [0.0, f64::INFINITY],
        }
    }

    /// Σ ωᵢ c(λᵢ) plus the terms of the parameters' own priors.
    pub fn penalty(&self, noise_variance: &[f64], row_weight: &[f64]) -> f64 {
        let rows = || noise_variance.iter().zip(row_weight).map(|(&v, &w)| (v, w));
        match *self {
            Self::Shared { .. } | Self::Flat => 0.0,
            Self::StudentT { scale, degrees, .. } => {
                let StudentTerms { a, b, constant } = StudentTerms::new(scale, degrees);
                rows().map(|(v, w)| w * (a * v.ln() + b / v + constant)).sum()
            }
            Self::Contaminated { scale, share, ratio } => {
                let terms: f64 = rows()
                    .map(|(v, w)| {
                        let p = ((1.0 - scale / v) / (1.0 - 1.0 / ratio)).clamp(0.0, 1.0);
                        let divergence = entropy_term(p, share) + entropy_term(1.0 - p, 1.0 - share);
                        w * (divergence + 0.5 * (scale / v).ln() + 0.5 * p * ratio.ln())
                    })
                    .sum();
                terms + prior_of_outliers(share, ratio)
            }
            Self::ContaminatedT { scale, degrees, share, ratio, .. } => {
                GrossErrors::new(scale, degrees, share, ratio).penalty(rows()) + prior_of_outliers(share, ratio)
            }
        }
    }

    /// λ c′(λ) of one row: what the prior adds to the objective's gradient in log λ.
    #[inline]
    pub fn penalty_slope(&self, variance: f64) -> f64 {
        match *self {
            Self::Shared { .. } | Self::Flat => 0.0,
            Self::StudentT { scale, degrees, .. } => 0.5 * degrees * (1.0 - scale / variance),
            // From the conjugacy: the second moment for which this variance is the best one.
            Self::Contaminated { scale, share, ratio } => {
                let gap = 1.0 - 1.0 / ratio;
                let p = ((1.0 - scale / variance) / gap).clamp(1e-300, 1.0 - f64::EPSILON);
                let log_odds = (p / (1.0 - p)).ln() - (share / (1.0 - share)).ln() + 0.5 * ratio.ln();
                0.5 * (2.0 * scale * log_odds / gap / variance - 1.0)
            }
            Self::ContaminatedT { scale, degrees, share, ratio, .. } => {
                GrossErrors::new(scale, degrees, share, ratio).penalty_slope(variance)
            }
        }
    }

    /// Variance of the noise of a row that is not an outlier, given all rows' second moments: what is 1 for standard normal
    /// noise, whatever the model. For Student-t noise s² is not (it is 0.69 at ν = 4), so the median is taken there, and with
    /// a flat prior.
    pub fn inlier_variance(&self, second_moment: &[f64]) -> f64 {
        let bulk = || median(second_moment) / MEDIAN_CHI_SQUARE;
        match *self {
            Self::Shared { variance } => variance,
            Self::Contaminated { scale, .. } => scale,
            Self::Flat => bulk().max(f64::MIN_POSITIVE),
            Self::StudentT { scale, .. } => bulk().max(scale * LEAST_INLIER_SHARE),
            // The normal noise with the same quartiles, which gross errors do not move.
            Self::ContaminatedT { scale, degrees, .. } => scale * quartile_ratio(degrees).powi(2),
        }
    }

    /// Log density of a residual whose prediction has variance `latent` of its own; `inlier` is [`Self::inlier_variance`].
    pub fn log_density(&self, residual: f64, latent: f64, inlier: f64) -> f64 {
        match *self {
            Self::Shared { .. } | Self::Flat => log_normal(residual, inlier + latent),
            Self::StudentT { scale, degrees, .. } => log_student(residual, scale + latent, degrees),
            Self::ContaminatedT { scale, degrees, share, ratio, .. } => {
                GrossErrors::new(scale, degrees, share, ratio).log_density(residual, latent)
            }
            Self::Contaminated { scale, share, ratio } => {
                let inlier = (1.0 - share).ln() + log_normal(residual, scale + latent);
                let outlier = share.ln() + log_normal(residual, ratio * scale + latent);
                let larger = inlier.max(outlier);
                larger + ((inlier - larger).exp() + (outlier - larger).exp()).ln()
            }
        }
    }

    /// By what factor the rows' variances have to grow for the posterior, which takes them as known, to be as wide as it
    /// should be under robust noise.
    ///
    /// The weights are an M-estimate with influence ψ(r) = r/λ(r²). Its variance goes with mean ψ² over the squared mean of
    /// ψ′, where the posterior has one over the mean of 1/λ: the factor is the quotient of the two, at least 1. It is 1.4 for
    /// Student-t noise of ν = 4.
    pub fn inflation(&self, second_moment: &[f64], row_weight: &[f64]) -> f64 {
        let (gross, variance) = (self.gross_errors(), self.variance_rule());
        let slope_of_precision = |e2: f64| match *self {
            Self::Shared { .. } | Self::Flat => None,
            Self::StudentT { scale, degrees, .. } => {
                let variance = (degrees * scale + e2) / (degrees + 1.0);
                Some(-1.0 / ((degrees + 1.0) * variance * variance))
            }
            Self::Contaminated { scale, share, ratio } => {
                let p = outlier_probability(e2, scale, share, ratio);
                let gap = (1.0 - 1.0 / ratio) / scale;
                Some(-0.5 * p * (1.0 - p) * gap * gap)
            }
            Self::ContaminatedT { .. } => gross.map(|noise| noise.precision_slope(e2)),
        };
        let (mut square, mut slope, mut precision, mut count) = (0.0, 0.0, 0.0, 0.0);
        for (&e2, &w) in second_moment.iter().zip(row_weight) {
            let Some(change) = slope_of_precision(e2) else { return 1.0 };
            let row_precision = 1.0 / variance(e2);
            square += w * e2 * row_precision * row_precision;
            slope += w * (row_precision + 2.0 * e2 * change);
            precision += w * row_precision;
            count += w;
        }
        let factor = square * precision / (slope * slope).max(f64::MIN_POSITIVE);
        if count > 0.0 && factor.is_finite() { factor.clamp(1.0, MOST_INFLATION) } else { 1.0 }
    }

    /// The probability that a row with this second moment is an outlier, for the models that have one.
    pub fn outlier_probability(&self, e2: f64) -> Option<f64> {
        match *self {
            Self::Contaminated { scale, share, ratio } => Some(outlier_probability(e2, scale, share, ratio)),
            Self::ContaminatedT { .. } => self.gross_errors().map(|noise| noise.probability(e2)),
            _ => None,
        }
    }

    /// Number of coordinates of [`Self::to_coordinates`].
    pub const COORDINATES: usize = 4;

    /// The parameters on unbounded scales, for extrapolation; unused places are 0.
    pub fn to_coordinates(&self) -> [f64; Self::COORDINATES] {
        match *self {
            Self::Shared { variance } => [variance.ln(), 0.0, 0.0, 0.0],
            Self::Flat => [0.0; 4],
            Self::StudentT { scale, degrees, .. } => [scale.ln(), degrees.ln(), 0.0, 0.0],
            Self::Contaminated { scale, share, ratio } => [scale.ln(), (share / (1.0 - share)).ln(), ratio.ln(), 0.0],
            Self::ContaminatedT { scale, degrees, share, ratio, .. } => {
                [scale.ln(), (share / (1.0 - share)).ln(), ratio.ln(), degrees.ln()]
            }
        }
    }

    /// The inverse of [`Self::to_coordinates`]; values outside their range are put on its border.
    pub fn set_coordinates(&mut self, x: [f64; Self::COORDINATES], bounds: [f64; 2]) {
        let bounds = self.scale_bounds(bounds);
        match self {
            Self::Shared { variance } => *variance = x[0].exp().clamp(bounds[0], bounds[1]),
            Self::Flat => {}
            Self::StudentT { scale, degrees, learning } => {
                if *learning != StudentLearning::Nothing {
                    *scale = x[0].exp().clamp(bounds[0], bounds[1]);
                }
                if *learning == StudentLearning::ScaleAndDegrees {
                    *degrees = x[1].exp().clamp(DEGREES_RANGE[0], DEGREES_RANGE[1]);
                }
            }
            Self::Contaminated { scale, share, ratio } => {
                *scale = x[0].exp().clamp(bounds[0], bounds[1]);
                *share = (1.0 / (1.0 + (-x[1]).exp())).clamp(SHARE_RANGE[0], SHARE_RANGE[1]);
                *ratio = x[2].exp().clamp(RATIO_RANGE[0], RATIO_RANGE[1]);
            }
            Self::ContaminatedT { scale, degrees, share, ratio, learns_degrees } => {
                *scale = x[0].exp().clamp(bounds[0], bounds[1]);
                *share = (1.0 / (1.0 + (-x[1]).exp())).clamp(SHARE_RANGE[0], SHARE_RANGE[1]);
                *ratio = x[2].exp().clamp(RATIO_RANGE[0], RATIO_RANGE[1]);
                if *learns_degrees {
                    *degrees = x[3].exp().clamp(DEGREES_RANGE[0], DEGREES_RANGE[1]);
                }
            }
        }
    }
}

/// π under its beta prior.
fn learnt_share(outliers: f64, rows: f64) -> f64 {
    ((outliers + SHARE_COUNTS[0]) / (rows + SHARE_COUNTS[1])).clamp(SHARE_RANGE[0], SHARE_RANGE[1])
}

/// κ under its prior, from the outliers' squares divided by s².
fn learnt_ratio(squares: f64, outliers: f64) -> f64 {
    ((squares + RATIO_COUNT * RATIO_CENTRE) / (outliers + RATIO_COUNT)).clamp(RATIO_RANGE[0], RATIO_RANGE[1])
}

/// Minus the log density, up to a constant, of the priors of π and κ.
fn prior_of_outliers(share: f64, ratio: f64) -> f64 {
    let [outliers, all] = SHARE_COUNTS;
    -outliers * share.ln() - (all - outliers) * (1.0 - share).ln()
        + 0.5 * RATIO_COUNT * (ratio.ln() + RATIO_CENTRE / ratio)
}

/// The upper quartile of Student-t noise divided by that of normal noise.
fn quartile_ratio(degrees: f64) -> f64 {
    const UPPER_QUARTILE: f64 = 0.75;
    let normal = Normal::standard().inverse_cdf(UPPER_QUARTILE);
    StudentsT::new(0.0, 1.0, degrees).map_or(1.0, |student| student.inverse_cdf(UPPER_QUARTILE) / normal)
}

/// c(λ) = a log λ + b/λ + constant for Student-t noise. It is e²'s share of the variational bound in which the row's
/// precision has a gamma posterior of shape a + ½ and mean 1/λ, less that of a normal row of variance λ.
struct StudentTerms {
    a: f64,
    b: f64,
    constant: f64,
}

impl StudentTerms {
    fn new(scale: f64, degrees: f64) -> Self {
        let (a, b) = (0.5 * degrees, 0.5 * degrees * scale);
        let shape = a + 0.5;
        Self { a, b, constant: shape * shape.ln() - shape - ln_gamma(shape) + ln_gamma(a) - a * b.ln() }
    }
}

/// p log(p/q), 0 at p = 0.
fn entropy_term(p: f64, q: f64) -> f64 {
    if p > 0.0 { p * (p / q).ln() } else { 0.0 }
}

fn log_normal(residual: f64, variance: f64) -> f64 {
    -0.5 * ((2.0 * PI * variance).ln() + residual * residual / variance)
}

#[inline]
fn outlier_probability(e2: f64, scale: f64, share: f64, ratio: f64) -> f64 {
    let log_odds = (share / (1.0 - share)).ln() - 0.5 * ratio.ln() + 0.5 * e2 / scale * (1.0 - 1.0 / ratio);
    1.0 / (1.0 + (-log_odds).exp())
}

/// A ν at which the rows are at least as likely: golden-section search within a factor of two.
fn improve_degrees(degrees: f64, scale: f64, second_moment: &[f64], row_weight: &[f64]) -> f64 {
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

/// Median of finite values; 0 of none.
pub(crate) fn median(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { 0.5 * (sorted[middle - 1] + sorted[middle]) }
}

#[cfg(test)]
mod tests;
