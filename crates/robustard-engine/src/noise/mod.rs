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

mod choice;
mod contaminated;
mod contaminated_t;
mod flat;
pub mod learning;
mod of_row;
mod outliers;
mod shared;
mod student_t;

use serde::{Deserialize, Serialize};

pub use choice::{Degrees, Noise, NoiseError};
pub use contaminated::Contaminated;
pub use contaminated_t::ContaminatedT;
pub use flat::Flat;
pub use of_row::{NoiseOfRows, OfRow};
pub use shared::Shared;
pub use student_t::{StudentLearning, StudentT};

use crate::math::density::log_normal;
use crate::math::order::median;

/// ν of Student-t noise when none is given: a good all-rounder between clean and contaminated data.
pub const DEFAULT_DEGREES: f64 = 4.0;
/// Range of a learnt ν. Below, the scale loses its meaning; above, the noise is normal to all intents.
const DEGREES_RANGE: [f64; 2] = [0.5, 200.0];
/// Largest correction of the posterior covariance; more would say that the expansion behind it has failed.
const MOST_INFLATION: f64 = 4.0;
/// Median of a χ² variable with one degree of freedom: what the median of r²/σ² is under normal noise.
const MEDIAN_CHI_SQUARE: f64 = 0.454_936_423_119_572_8;
/// Number of coordinates of a model's parameters.
const COORDINATES: usize = 4;

/// What every model answers. The defaults are those of a model without a prior and without parameters of its own; for what the
/// methods mean see [`NoiseModel`].
trait Model: Copy {
    /// Puts a learnt scale at `scale`.
    fn start_at(&mut self, _scale: f64) {}

    fn rescale(&mut self, _factor: f64) {}

    /// The range of a learnt scale for which every variance lies within `bounds` from below.
    fn scale_bounds(&self, bounds: [f64; 2]) -> [f64; 2] {
        bounds
    }

    /// `bounds` are those of the scale.
    fn fit_parameters(&mut self, _second_moment: &[f64], _row_weight: &[f64], _bounds: [f64; 2]) -> bool {
        false
    }

    fn variance(&self, e2: f64) -> f64;

    fn range(&self) -> [f64; 2] {
        [0.0, f64::INFINITY]
    }

    /// `rows` are variances and weights.
    fn penalty(&self, _rows: impl Iterator<Item = (f64, f64)>) -> f64 {
        0.0
    }

    fn penalty_slope(&self, _variance: f64) -> f64 {
        0.0
    }

    fn inlier_variance(&self, second_moment: &[f64]) -> f64;

    fn log_density(&self, residual: f64, latent: f64, inlier: f64) -> f64 {
        log_normal(residual, inlier + latent)
    }

    fn inflation(&self, _second_moment: &[f64], _row_weight: &[f64]) -> f64 {
        1.0
    }

    fn outlier_probability(&self, _e2: f64) -> Option<f64> {
        None
    }

    fn to_coordinates(self) -> [f64; COORDINATES] {
        [0.0; COORDINATES]
    }

    /// `bounds` are those of the scale.
    fn set_coordinates(&mut self, _x: [f64; COORDINATES], _bounds: [f64; 2]) {}
}

/// A noise model with the current values of its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NoiseModel {
    /// One variance.
    Shared(Shared),
    /// Per-row variances under a flat prior.
    Flat(Flat),
    /// Per-row variances under an inverse-gamma prior: Student-t noise.
    StudentT(StudentT),
    /// Normal noise with a share of outliers.
    Contaminated(Contaminated),
    /// Student-t noise with a share of gross errors.
    ContaminatedT(ContaminatedT),
}

/// The same question to whichever model it is.
macro_rules! ask {
    ($noise:expr, $model:ident => $answer:expr) => {
        match $noise {
            NoiseModel::Shared($model) => $answer,
            NoiseModel::Flat($model) => $answer,
            NoiseModel::StudentT($model) => $answer,
            NoiseModel::Contaminated($model) => $answer,
            NoiseModel::ContaminatedT($model) => $answer,
        }
    };
}

impl NoiseModel {
    /// Number of coordinates of [`Self::to_coordinates`].
    pub const COORDINATES: usize = COORDINATES;

    /// The model of the given noise, its scale at `variance`.
    pub fn new(noise: Noise, variance: f64) -> Self {
        let student = |scale, degrees, learning| Self::StudentT(StudentT { scale, degrees, learning });
        let (share, ratio) = (outliers::START_SHARE, outliers::RATIO_CENTRE);
        match noise {
            Noise::Shared => Self::shared(variance),
            Noise::Flat => Self::Flat(Flat),
            Noise::InverseGamma { shape, scale } => student(scale / shape, 2.0 * shape, StudentLearning::Nothing),
            Noise::StudentT(Degrees::Fixed(degrees)) => student(variance, degrees, StudentLearning::Scale),
            Noise::StudentT(Degrees::Learned) => student(variance, DEFAULT_DEGREES, StudentLearning::ScaleAndDegrees),
            Noise::Contaminated => Self::Contaminated(Contaminated { scale: variance, share, ratio }),
            Noise::ContaminatedT(degrees) => Self::ContaminatedT(ContaminatedT {
                scale: variance,
                degrees: if let Degrees::Fixed(degrees) = degrees { degrees } else { DEFAULT_DEGREES },
                share,
                ratio,
                learns_degrees: degrees == Degrees::Learned,
            }),
        }
    }

    /// One variance for all rows.
    pub fn shared(variance: f64) -> Self {
        Self::Shared(Shared { variance })
    }

    /// What the model is called in the settings.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Shared(_) => "shared",
            Self::Flat(_) => "flat",
            Self::StudentT(StudentT { learning: StudentLearning::Nothing, .. }) => "inverse-gamma",
            Self::StudentT(_) => "student-t",
            Self::Contaminated(_) => "contaminated",
            Self::ContaminatedT(_) => "contaminated-t",
        }
    }

    /// Whether all rows have one variance.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// Puts a learnt scale where the bulk of the rows is, whatever the outliers: the start of the noise updates.
    pub fn start_at(&mut self, second_moment: &[f64], bounds: [f64; 2]) {
        self.start_at_median(median(second_moment), bounds);
    }

    /// The same from the median of the second moments.
    pub fn start_at_median(&mut self, median: f64, bounds: [f64; 2]) {
        ask!(self, model => {
            let [low, high] = model.scale_bounds(bounds);
            model.start_at((median / MEDIAN_CHI_SQUARE).clamp(low, high));
        })
    }

    /// Multiplies a learnt scale, as when the unit of the target changes.
    pub fn rescale(&mut self, factor: f64) {
        ask!(self, model => model.rescale(factor))
    }

    /// Improves the model's own parameters for the given second moments; says whether the scale was put on a bound.
    pub fn fit_parameters(&mut self, second_moment: &[f64], row_weight: &[f64], bounds: [f64; 2]) -> bool {
        ask!(self, model => model.fit_parameters(second_moment, row_weight, model.scale_bounds(bounds)))
    }

    /// The best variance of a row with second moment `e2` under the current parameters.
    #[inline]
    pub fn variance(&self, e2: f64) -> f64 {
        ask!(self, model => model.variance(e2))
    }

    /// [`Self::variance`] for many rows: what no row changes is worked out once.
    pub fn variance_rule(&self) -> impl Fn(f64) -> f64 + use<> {
        let model = *self;
        let prepared = if let Self::ContaminatedT(model) = self { Some(model.for_rows()) } else { None };
        move |e2| prepared.map_or_else(|| model.variance(e2), |noise| noise.variance(e2))
    }

    /// The range of variances for which [`Self::penalty`] is defined.
    pub fn range(&self) -> [f64; 2] {
        ask!(self, model => model.range())
    }

    /// Σ ωᵢ c(λᵢ) plus the terms of the parameters' own priors.
    pub fn penalty(&self, noise_variance: &[f64], row_weight: &[f64]) -> f64 {
        let rows = noise_variance.iter().zip(row_weight).map(|(&v, &w)| (v, w));
        ask!(self, model => model.penalty(rows))
    }

    /// λ c′(λ) of one row: what the prior adds to the objective's gradient in log λ.
    #[inline]
    pub fn penalty_slope(&self, variance: f64) -> f64 {
        ask!(self, model => model.penalty_slope(variance))
    }

    /// Variance of the noise of a row that is not an outlier, given all rows' second moments: what is 1 for standard normal
    /// noise, whatever the model.
    pub fn inlier_variance(&self, second_moment: &[f64]) -> f64 {
        ask!(self, model => model.inlier_variance(second_moment))
    }

    /// Log density of a residual whose prediction has variance `latent` of its own; `inlier` is [`Self::inlier_variance`].
    pub fn log_density(&self, residual: f64, latent: f64, inlier: f64) -> f64 {
        ask!(self, model => model.log_density(residual, latent, inlier))
    }

    /// By what factor the rows' variances have to grow for the posterior, which takes them as known, to be as wide as it
    /// should be under robust noise.
    ///
    /// The weights are an M-estimate with influence ψ(r) = r/λ(r²). Its variance goes with mean ψ² over the squared mean of
    /// ψ′, where the posterior has one over the mean of 1/λ: the factor is the quotient of the two, at least 1. It is 1.4 for
    /// Student-t noise of ν = 4.
    pub fn inflation(&self, second_moment: &[f64], row_weight: &[f64]) -> f64 {
        ask!(self, model => model.inflation(second_moment, row_weight))
    }

    /// The probability that a row with this second moment is an outlier, for the models that have one.
    pub fn outlier_probability(&self, e2: f64) -> Option<f64> {
        ask!(self, model => model.outlier_probability(e2))
    }

    /// The parameters on unbounded scales, for extrapolation; unused places are 0.
    pub fn to_coordinates(&self) -> [f64; Self::COORDINATES] {
        ask!(self, model => model.to_coordinates())
    }

    /// The inverse of [`Self::to_coordinates`]; values outside their range are put on its border.
    pub fn set_coordinates(&mut self, x: [f64; Self::COORDINATES], bounds: [f64; 2]) {
        ask!(self, model => model.set_coordinates(x, model.scale_bounds(bounds)))
    }
}

/// The variance of normal noise whose squares have the median of `second_moment`.
fn bulk_variance(second_moment: &[f64]) -> f64 {
    median(second_moment) / MEDIAN_CHI_SQUARE
}

/// How a row pulls the weights: its variance λ(e²) and d(1/λ)/de².
struct Influence {
    variance: f64,
    precision_slope: f64,
}

/// [`NoiseModel::inflation`] from the influence of a row with second moment e².
fn inflation(second_moment: &[f64], row_weight: &[f64], influence: impl Fn(f64) -> Influence) -> f64 {
    let (mut square, mut slope, mut precision, mut count) = (0.0, 0.0, 0.0, 0.0);
    for (&e2, &w) in second_moment.iter().zip(row_weight) {
        let Influence { variance, precision_slope } = influence(e2);
        let row_precision = 1.0 / variance;
        square += w * e2 * row_precision * row_precision;
        slope += w * (row_precision + 2.0 * e2 * precision_slope);
        precision += w * row_precision;
        count += w;
    }
    let factor = square * precision / (slope * slope).max(f64::MIN_POSITIVE);
    if count > 0.0 && factor.is_finite() { factor.clamp(1.0, MOST_INFLATION) } else { 1.0 }
}

#[cfg(test)]
mod tests;
