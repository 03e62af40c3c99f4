use faer::{Mat, MatRef, Par};
use serde::{Deserialize, Serialize};

use super::range::Range;
use super::{FeatureError, Fourier, Gap, check_columns};
use crate::learn::{FourierOptions, LearningNoise, learn_fourier};
use crate::noise::{NoiseKind, NoisePrior};
use crate::solver::{Start, Stop};

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
    /// Range of the training rows.
    pub range: Range,
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
    /// Asks to end the learning.
    pub stop: &'a Stop,
}

impl Waves {
    /// Learns the lengthscales for standardized inputs; the fit of the features should start where the learning ended.
    pub fn learn(
        inputs: MatRef<'_, f64>,
        training: &Training<'_>,
        features: usize,
        per_input: bool,
        seed: u64,
    ) -> Result<(Self, Start), FeatureError> {
        let range = Range::of(inputs);
        let held = range.hold(inputs);
        let options = FourierOptions {
            features,
            seed,
            per_input,
            linear: true,
            noise: LearningNoise { kind: training.noise, prior: training.noise_prior },
            rounds: ROUNDS,
        };
        let step = held.nrows().div_ceil(MOST_LEARNING_ROWS).max(1);
        let part = |values: &[f64]| -> Vec<f64> { values.iter().copied().step_by(step).collect() };
        let (target, row_weight) = (part(training.target), part(training.row_weight));
        let some = Mat::from_fn(target.len(), held.ncols(), |i, j| held[(i * step, j)]);
        let learnt = learn_fourier(some.as_ref(), &target, &row_weight, &options, Par::rayon(0));
        let learnt = learnt.ok_or(FeatureError::NotLearnt)?;
        let [waves, lines] = learnt.weight_precision;
        let noise_variance = learnt.noise_variance(held.as_ref(), training.target, Par::rayon(0));
        let start = Start { weight_precision: vec![lines, waves], noise: learnt.noise, noise_variance };
        Ok((Self { fourier: learnt.fourier, range, log_scales: learnt.log_scales }, start))
    }

    /// n × (inputs + K): the inputs, then the waves.
    pub fn transform(&self, inputs: MatRef<'_, f64>) -> Result<Mat<f64>, FeatureError> {
        check_columns(self.log_scales.len(), inputs)?;
        let held = self.range.hold(inputs);
        let waves = self.fourier.transform(held.as_ref())?;
        let p = held.ncols();
        let mut all = Mat::zeros(held.nrows(), p + waves.ncols());
        all.as_mut().subcols_mut(0, p).copy_from(&held);
        all.as_mut().subcols_mut(p, waves.ncols()).copy_from(&waves);
        Ok(all)
    }

    /// Prior variance of the slope along each input. A wave's share of it is the mean square of its frequency.
    pub(super) fn bends(&self) -> Vec<f64> {
        let (p, k) = (self.log_scales.len(), self.fourier.phases.len() as f64);
        let of_input = |input: usize| self.fourier.frequencies.iter().skip(input).step_by(p.max(1));
        (0..p).map(|input| of_input(input).map(|w| w * w).sum::<f64>() / k).collect()
    }

    /// The gap of each row: only beyond the range, since waves carry the same variance everywhere.
    pub(super) fn gaps(&self, inputs: MatRef<'_, f64>) -> Vec<Gap> {
        let bends = self.bends();
        let held = self.range.hold(inputs);
        let beyond =
            |i: usize| (0..inputs.ncols()).map(|j| (j, inputs[(i, j)] - held[(i, j)])).collect::<Vec<(usize, f64)>>();
        (0..inputs.nrows())
            .map(|i| {
                let steps = beyond(i);
                let square: f64 = steps.iter().map(|(j, step)| bends[*j] * step * step).sum();
                let line = steps.iter().map(|(_, step)| step * step).sum();
                Gap { curve: 2.0 * (1.0 - (-0.5 * square).exp()), line }
            })
            .collect()
    }
}
