//! The motorcycle data (Silverman, 1985) with six targets made wrong: the paper's Figures 1 and 2.

use faer::Mat;
use rand::seq::SliceRandom;
use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use robustard::features::{Polynomial, Standardizer};
use robustard::metrics::{nll, rmse};

use crate::LabError;
use crate::method::{Basis, Method};
use crate::runner::LAST_MEASURE;
use crate::trial::{Measures, Sample, moments};

/// Head acceleration in a simulated motorcycle crash.
const MCYCLE: &str = include_str!("../data/mcycle.csv");
/// Powers of time.
pub const DEGREE: usize = 12;
/// Targets made wrong.
pub const WRONG_ROWS: usize = 6;
/// Wrong targets are moved by ±SHIFT·N(1, SPREAD²) standard deviations, as in the paper's tabular experiments.
pub const SHIFT: f64 = 3.0;
/// See [`SHIFT`].
pub const SPREAD: f64 = 0.25;
/// Parts of the cross-validation.
pub const FOLDS: usize = 10;

/// The data with some targets made wrong.
#[derive(Debug, Clone)]
pub struct Motorcycle {
    /// Time after the impact (ms).
    pub times: Vec<f64>,
    /// Acceleration (g).
    pub original: Vec<f64>,
    /// The same with wrong values.
    pub target: Vec<f64>,
    /// The wrong rows.
    pub wrong: Vec<usize>,
}

impl Motorcycle {
    /// The seed decides which rows are made wrong.
    pub fn new(seed: u64) -> Self {
        let numbers = |line: &str| -> Option<(f64, f64)> {
            let (time, acceleration) = line.split_once(',')?;
            Some((time.parse().ok()?, acceleration.parse().ok()?))
        };
        let (times, original): (Vec<f64>, Vec<f64>) = MCYCLE.lines().filter_map(numbers).unzip();
        let scale = moments(&original).1;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut wrong = sample(&mut rng, times.len(), WRONG_ROWS).into_vec();
        wrong.sort_unstable();
        let mut target = original.clone();
        for &row in &wrong {
            let sign = if rng.random::<bool>() { 1.0 } else { -1.0 };
            target[row] += sign * SHIFT * scale * (1.0 + SPREAD * rng.sample::<f64, _>(StandardNormal));
        }
        Self { times, original, target, wrong }
    }

    /// Training and test rows of each fold. The first and the last row are always trained on: beyond the rows it has seen, a
    /// polynomial of this degree can be anywhere.
    pub fn folds(&self, seed: u64) -> Vec<(Vec<usize>, Vec<usize>)> {
        let n = self.times.len();
        let mut order: Vec<usize> = (1..n - 1).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        let fold = |k: usize| {
            let test: Vec<usize> = order.iter().copied().skip(k).step_by(FOLDS).collect();
            let train = (0..n).filter(|row| !test.contains(row)).collect();
            (train, test)
        };
        (0..FOLDS).map(fold).collect()
    }

    /// Powers of time, which is scaled to −1…1, each standardized; targets standardized.
    pub fn sample(&self, train: &[usize], test: &[f64], test_target: Vec<f64>) -> Result<Sample, LabError> {
        let times = Mat::from_fn(train.len(), 1, |i, _| self.times[train[i]]);
        let range = Standardizer::of_range(times.as_ref());
        let map = Polynomial { degree: DEGREE };
        let powers = |times: Mat<f64>| -> Result<Mat<f64>, LabError> {
            Ok(map.transform(range.transform(times.as_ref())?.as_ref()))
        };
        let test = Mat::from_fn(test.len(), 1, |i, _| test[i]);
        let inputs = [range.transform(times.as_ref())?, range.transform(test.as_ref())?];
        let (train_powers, test_powers) = (powers(times)?, powers(test)?);
        let standard = Standardizer::fit(train_powers.as_ref());
        let design = [standard.transform(train_powers.as_ref())?, standard.transform(test_powers.as_ref())?];
        let dirty: Vec<f64> = train.iter().map(|&row| self.target[row]).collect();
        let scale = moments(&dirty);
        let target = dirty.iter().map(|y| (y - scale.0) / scale.1).collect();
        let wrong = (0..train.len()).filter(|&i| self.wrong.contains(&train[i])).collect();
        Ok(Sample { inputs, basis: Basis::Features, design, target, test_target, scale, wrong })
    }
}

/// Cross-validated: trained on wrong targets too, tested on the original ones.
pub fn measure(method: Method, seed: u64) -> Result<Measures, LabError> {
    let start = std::time::Instant::now();
    let data = Motorcycle::new(seed);
    let (mut actual, mut predicted, mut deviation) = (Vec::new(), Vec::new(), Vec::new());
    for (train, test) in data.folds(seed) {
        let of = |values: &[f64]| -> Vec<f64> { test.iter().map(|&row| values[row]).collect() };
        let sample = data.sample(&train, &of(&data.times), of(&data.original))?;
        let (mean, std) = sample.predictions(method, seed)?;
        actual.extend(of(&data.original));
        predicted.extend(mean);
        deviation.extend(std);
    }
    let n = data.times.len();
    let whole = data.sample(&(0..n).collect::<Vec<_>>(), &data.times, data.original.clone())?;
    let mut measures = vec![("rmse", rmse(&actual, &predicted)), ("nll", nll(&actual, &predicted, &deviation))];
    let of_whole = whole.measure(method, seed)?;
    measures.extend(of_whole.into_iter().filter(|(name, _)| ["ess_weights", "ess_rows", "recall"].contains(name)));
    measures.push((LAST_MEASURE, start.elapsed().as_secs_f64()));
    Ok(measures)
}
