//! The motorcycle data with six targets made wrong: the paper's Figures 1 and 2.

use faer::Mat;
use robustard::Standardizer;
use robustard::metrics::{nll, rmse};
use robustard_table::samples::motorcycle::{DEGREE, Fold, Motorcycle};

use crate::LabError;
use crate::method::{Basis, Method};
use crate::runner::LAST_MEASURE;
use crate::trial::{Measures, Sample, moments};

/// Powers of time, which is scaled to −1…1, each standardized; targets standardized.
pub fn sample(data: &Motorcycle, train: &[usize], test: &[f64], test_target: Vec<f64>) -> Sample {
    let times: Vec<f64> = train.iter().map(|&row| data.times[row]).collect();
    let first = times.iter().copied().fold(f64::INFINITY, f64::min);
    let last = times.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (middle, half) = (0.5 * first + 0.5 * last, 0.5 * last - 0.5 * first);
    let inputs = [&times, test].map(|times| Mat::from_fn(times.len(), 1, |i, _| (times[i] - middle) / half));
    let powers =
        inputs.each_ref().map(|time| Mat::from_fn(time.nrows(), DEGREE, |i, k| time[(i, 0)].powi(k as i32 + 1)));
    let standard = Standardizer::fit(powers[0].as_ref());
    let design = powers.map(|powers| standard.transform(powers.as_ref()));
    let dirty: Vec<f64> = train.iter().map(|&row| data.target[row]).collect();
    let scale = moments(&dirty);
    let target = dirty.iter().map(|y| (y - scale.0) / scale.1).collect();
    let wrong = (0..train.len()).filter(|&i| data.wrong.contains(&train[i])).collect();
    Sample { inputs, basis: Basis::Features, design, target, test_target, scale, wrong }
}

/// Cross-validated: trained on wrong targets too, tested on the original ones.
pub fn measure(method: Method, seed: u64) -> Result<Measures, LabError> {
    let start = std::time::Instant::now();
    let data = Motorcycle::new(seed);
    let (mut actual, mut predicted, mut deviation) = (Vec::new(), Vec::new(), Vec::new());
    for Fold { train, test } in data.folds(seed) {
        let of = |values: &[f64]| -> Vec<f64> { test.iter().map(|&row| values[row]).collect() };
        let sample = sample(&data, &train, &of(&data.times), of(&data.original));
        let (mean, std) = sample.predictions(method, seed)?;
        actual.extend(of(&data.original));
        predicted.extend(mean);
        deviation.extend(std);
    }
    let n = data.times.len();
    let whole = sample(&data, &(0..n).collect::<Vec<_>>(), &data.times, data.original.clone());
    let mut measures = vec![("rmse", rmse(&actual, &predicted)), ("nll", nll(&actual, &predicted, &deviation))];
    let of_whole = whole.measure(method, seed)?;
    measures.extend(of_whole.into_iter().filter(|(name, _)| ["ess_weights", "ess_rows", "recall"].contains(name)));
    measures.push((LAST_MEASURE, start.elapsed().as_secs_f64()));
    Ok(measures)
}
