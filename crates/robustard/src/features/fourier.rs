use faer::{Mat, MatMut, MatRef, Par};
use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;
use robustard_engine::Start;
use serde::{Deserialize, Serialize};

use super::{FeatureError, Gap, Kind, Learnt, Lengthscale, Map, Training, count_in, lines_and_curve, write_inputs};
use crate::control::par;
use crate::learn::{Fourier, FourierOptions, learn_fourier};
use crate::range::{Range, Reach};

/// Features when no number is given.
const DEFAULT_COUNT: usize = 256;
/// Lengthscales of larger tables are learnt from so many rows, drawn at random; the weights, from all.
const MOST_LEARNING_ROWS: usize = 2000;
/// Rounds of learning; most fits need fewer.
const ROUNDS: usize = 12;

/// Random Fourier features; with learnt lengthscales, and the inputs beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FourierKind {
    count: usize,
}

/// Random Fourier features. Beyond the range of the training rows an input counts as at its border.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FourierMap {
    fourier: Fourier,
    range: Range,
    /// If lengthscales were learnt, minus the log of each input's, 0 for √(inputs/2): the larger, the more the curve bends along
    /// this input. The inputs themselves are then features, too.
    log_scales: Option<Vec<f64>>,
}

impl Kind for FourierKind {
    type Map = FourierMap;
    const NAME: &'static str = "rff";
    const USAGE: &'static str = "rff[:COUNT] (1 to 100000)";

    fn parse(argument: Option<&str>) -> Option<Self> {
        Some(Self { count: argument.map_or(Some(DEFAULT_COUNT), |count| count_in(count, 1..=100_000))? })
    }

    fn argument(&self) -> Option<String> {
        Some(self.count.to_string())
    }

    fn learns(&self, lengthscale: Lengthscale) -> bool {
        lengthscale.is_learnt()
    }

    fn takes_lengthscale(&self) -> bool {
        true
    }

    fn learn(&self, training: &Training<'_>) -> Result<Learnt<FourierMap>, FeatureError> {
        let inputs = training.inputs.ncols();
        match training.lengthscale.fixed(inputs) {
            Some(length) => {
                let fourier = Fourier::new(inputs, self.count, 0.5 / (length * length), training.seed);
                let range = training.range.cloned().unwrap_or_else(|| Range::whole(training.inputs));
                Ok(Learnt { map: FourierMap { fourier, range, log_scales: None }, start: None })
            }
            None => self.learn_lengthscales(training),
        }
    }
}

impl FourierKind {
    fn learn_lengthscales(&self, training: &Training<'_>) -> Result<Learnt<FourierMap>, FeatureError> {
        let range = Range::of(training.inputs, training.levels, Reach::BULK);
        let held = range.hold(training.inputs);
        let options = FourierOptions {
            features: self.count,
            seed: training.seed,
            per_input: training.lengthscale == Lengthscale::Each,
            linear: true,
            noise: training.noise,
            rounds: ROUNDS,
        };
        let rows = learning_rows(held.nrows(), training.seed);
        let part = |values: &[f64]| -> Vec<f64> { rows.iter().map(|&row| values[row]).collect() };
        let (target, row_weight) = (part(training.target), part(training.row_weight));
        let some = Mat::from_fn(rows.len(), held.ncols(), |i, j| held[(rows[i], j)]);
        let learnt = learn_fourier(some.as_ref(), &target, &row_weight, &options, training.control, par());
        let learnt = learnt.ok_or(FeatureError::NotLearnt)?;
        let [waves, lines] = learnt.weight_precision;
        let noise_variance = learnt.noise_variance(held.as_ref(), training.target, par());
        let start = Start { weight_precision: vec![lines, waves], noise: learnt.noise, noise_variance };
        let map = FourierMap { fourier: learnt.fourier, range, log_scales: Some(learnt.log_scales) };
        Ok(Learnt { map, start: Some(start) })
    }
}

/// The rows that lengthscales are learnt from, in order: all, or as many as there may be, drawn at random. (Every k-th would not
/// do: ordered tables have patterns.)
fn learning_rows(rows: usize, seed: u64) -> Vec<usize> {
    if rows <= MOST_LEARNING_ROWS {
        return (0..rows).collect();
    }
    let mut drawn = sample(&mut ChaCha8Rng::seed_from_u64(seed), rows, MOST_LEARNING_ROWS).into_vec();
    drawn.sort_unstable();
    drawn
}

impl FourierMap {
    fn lines(&self) -> usize {
        if self.log_scales.is_some() { self.fourier.inputs } else { 0 }
    }

    fn waves(&self) -> usize {
        self.fourier.phases.len()
    }
}

impl Map for FourierMap {
    fn count(&self, _inputs: usize) -> usize {
        self.lines() + self.waves()
    }

    fn write(&self, inputs: MatRef<'_, f64>, mut features: MatMut<'_, f64>, _par: Par) {
        let held = self.range.hold(inputs);
        if self.log_scales.is_some() {
            write_inputs(held.as_ref(), features.as_mut());
        }
        let waves = self.fourier.transform(held.as_ref());
        features.subrows_mut(self.lines(), self.waves()).copy_from(waves.transpose());
    }

    fn names(&self, inputs: &[String]) -> Vec<String> {
        let lines = inputs.iter().take(self.lines()).cloned();
        lines.chain((1..=self.waves()).map(|k| format!("wave {k}"))).collect()
    }

    fn groups(&self, _inputs: &[usize]) -> Vec<usize> {
        match &self.log_scales {
            Some(_) => lines_and_curve(self.lines(), self.waves()),
            None => (0..self.waves()).collect(),
        }
    }

    fn is_consistent(&self, inputs: usize) -> bool {
        self.range.is_consistent(inputs)
            && self.fourier.is_consistent(inputs)
            && self.log_scales.as_ref().is_none_or(|scales| scales.len() == inputs)
    }

    fn range(&self) -> Option<&Range> {
        Some(&self.range)
    }

    /// Prior variance of the slope along each input. A wave's share of it is the mean square of its frequency.
    fn bends(&self) -> Option<Vec<f64>> {
        let (p, k) = (self.log_scales.as_ref()?.len(), self.waves() as f64);
        let of_input = |input: usize| self.fourier.frequencies.iter().skip(input).step_by(p.max(1));
        Some((0..p).map(|input| of_input(input).map(|w| w * w).sum::<f64>() / k).collect())
    }

    /// Only beyond the range, since waves carry the same variance everywhere.
    fn gaps(&self, inputs: MatRef<'_, f64>, _features: MatRef<'_, f64>) -> Option<Vec<Gap>> {
        let bends = self.bends()?;
        let held = self.range.hold(inputs);
        let gap = |i: usize| {
            let step = |j: usize| inputs[(i, j)] - held[(i, j)];
            let square: f64 = (0..inputs.ncols()).map(|j| bends[j] * step(j) * step(j)).sum();
            let line = (0..inputs.ncols()).map(|j| step(j) * step(j)).sum();
            Gap { curve: 2.0 * (1.0 - (-0.5 * square).exp()), line }
        };
        Some((0..inputs.nrows()).map(gap).collect())
    }

    fn learnt_lengthscales(&self) -> usize {
        self.log_scales.as_ref().map_or(0, Vec::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table that is ordered with a period would show every k-th row of it alike.
    #[test]
    fn learning_rows_have_no_pattern() {
        let rows = learning_rows(10_000, 0);
        assert_eq!(rows.len(), MOST_LEARNING_ROWS);
        assert!(rows.windows(2).all(|pair| pair[0] < pair[1]));
        let mut of_period = [0; 5];
        rows.iter().for_each(|row| of_period[row % 5] += 1);
        assert!(of_period.iter().all(|count| (300..=500).contains(count)), "{of_period:?}");
        assert_eq!(learning_rows(3, 0), [0, 1, 2]);
        assert_ne!(learning_rows(10_000, 0), learning_rows(10_000, 1));
    }
}
