//! Noise that is learnt beside features, of a standardized target: how lengthscales and bases are learnt with it.

use super::{Noise, NoiseModel, Shared};

/// Range of variances, of a standardized target.
pub const VARIANCE_BOUNDS: [f64; 2] = [1e-8, 1e8];
/// Start of the noise variance, of a standardized target.
pub const START_VARIANCE: f64 = 0.1;

/// The model of noise at the start of learning.
pub fn starting_model(noise: Noise) -> NoiseModel {
    NoiseModel::new(noise, START_VARIANCE)
}

/// The model that leads to the one wanted, if there is one: noise with gross errors has many optima; Student-t noise, which has
/// fewer, leads to a good one.
pub fn leading_model(wanted: Noise) -> Option<NoiseModel> {
    matches!(wanted, Noise::Contaminated | Noise::ContaminatedT(_)).then(|| starting_model(Noise::default()))
}

/// Fits the model and the variances of the rows to second moments, within bounds.
pub fn update_noise(
    noise: &mut NoiseModel,
    variance: &mut [f64],
    second_moment: &[f64],
    row_weight: &[f64],
    bounds: [f64; 2],
) {
    let [low, high] = bounds;
    if let NoiseModel::Shared(Shared { variance: shared }) = noise {
        let total: f64 = row_weight.iter().sum();
        let sum: f64 = second_moment.iter().zip(row_weight).map(|(e2, w)| w * e2).sum();
        *shared = (sum / total).clamp(low, high);
        variance.fill(*shared);
        return;
    }
    noise.fit_parameters(second_moment, row_weight, bounds);
    let rule = noise.variance_rule();
    variance.iter_mut().zip(second_moment).for_each(|(v, e2)| *v = rule(*e2).clamp(low, high));
}
