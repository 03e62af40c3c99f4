use faer::{Mat, MatRef, Par};
use serde::{Deserialize, Serialize};

use super::{FeatureError, Fourier, check_columns};
use crate::lengthscale::{LengthscaleOptions, learn};
use crate::noise::{NoiseKind, NoisePrior};
use crate::solver::Start;

/// Standardized inputs are held within ± this: farther out a wave would be anywhere.
const FARTHEST: f64 = 6.0;
/// Lengthscales of larger tables are learnt from so many evenly spaced rows; the weights, from all.
const MOST_LEARNING_ROWS: usize = 2000;
/// Rounds of learning; most fits need fewer.
const ROUNDS: usize = 12;

/// The inputs themselves, and Fourier features of them with one learnt lengthscale per input. Beyond the range of the training
/// rows an input counts as at its border.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waves {
    /// The Fourier features, their frequencies scaled.
    pub fourier: Fourier,
    /// Smallest value of each standardized input.
    pub low: Vec<f64>,
    /// Largest.
    pub high: Vec<f64>,
    /// Minus the log of each input's lengthscale, 0 for that of [`super::FeatureOptions`]: the larger, the more the curve
    /// bends along this input.
    pub log_scales: Vec<f64>,
}

/// What lengthscales are learnt from, beside the inputs.
#[derive(Debug, Clone, Copy)]
pub struct Training<'a> {
    /// Standardized target.
    pub target: &'a [f64],
    /// How often each row counts.
    pub row_weight: &'a [f64],
    /// Noise.
    pub noise: NoiseKind,
    /// Its prior.
    pub noise_prior: NoisePrior,
}

impl Waves {
    /// Learns the lengthscales for standardized inputs; the fit of the features should start where the learning ended.
    pub fn learn(
        inputs: MatRef<'_, f64>,
        training: &Training<'_>,
        features: usize,
        seed: u64,
    ) -> Result<(Self, Start), FeatureError> {
        let end = |pick: fn(f64, f64) -> f64, start: f64| -> Vec<f64> {
            let limited = |value: &f64| value.clamp(-FARTHEST, FARTHEST);
            inputs.col_iter().map(|column| column.iter().map(limited).fold(start, pick)).collect()
        };
        let (low, high) = (end(f64::min, FARTHEST), end(f64::max, -FARTHEST));
        let held = hold(inputs, &low, &high);
        let options = LengthscaleOptions {
            features,
            seed,
            per_input: true,
            linear: true,
            noise: training.noise,
            noise_prior: training.noise_prior,
            rounds: ROUNDS,
        };
        let step = held.nrows().div_ceil(MOST_LEARNING_ROWS).max(1);
        let part = |values: &[f64]| -> Vec<f64> { values.iter().copied().step_by(step).collect() };
        let (target, row_weight) = (part(training.target), part(training.row_weight));
        let some = Mat::from_fn(target.len(), held.ncols(), |i, j| held[(i * step, j)]);
        let learnt = learn(some.as_ref(), &target, &row_weight, &options, Par::rayon(0));
        let learnt = learnt.ok_or(FeatureError::NotLearnt)?;
        let [waves, lines] = learnt.weight_precision;
        let noise_variance = learnt.noise_variance(held.as_ref(), training.target, Par::rayon(0));
        let start = Start { weight_precision: vec![lines, waves], noise: learnt.noise, noise_variance };
        Ok((Self { fourier: learnt.fourier, low, high, log_scales: learnt.log_scales }, start))
    }

    /// n × (inputs + K): the inputs, then the waves.
    pub fn transform(&self, inputs: MatRef<'_, f64>) -> Result<Mat<f64>, FeatureError> {
        check_columns(self.low.len(), inputs)?;
        let held = hold(inputs, &self.low, &self.high);
        let waves = self.fourier.transform(held.as_ref())?;
        let p = held.ncols();
        let mut all = Mat::zeros(held.nrows(), p + waves.ncols());
        all.as_mut().subcols_mut(0, p).copy_from(&held);
        all.as_mut().subcols_mut(p, waves.ncols()).copy_from(&waves);
        Ok(all)
    }
}

fn hold(inputs: MatRef<'_, f64>, low: &[f64], high: &[f64]) -> Mat<f64> {
    Mat::from_fn(inputs.nrows(), inputs.ncols(), |i, j| inputs[(i, j)].max(low[j]).min(high[j]))
}
