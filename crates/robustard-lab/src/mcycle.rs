//! The motorcycle data with six targets made wrong: the paper's Figures 1 and 2.

use faer::Mat;
use robustard::features::{Polynomial, Standardizer};
use robustard::metrics::{nll, rmse};
use robustard_table::samples::motorcycle::{DEGREE, Fold, Motorcycle};

use crate::LabError;
use crate::method::{Basis, Method};
use crate::runner::LAST_MEASURE;
use crate::trial::{Measures, Sample, moments};

/// Powers of time, which is scaled to −1…1, each standardized; targets standardized.
pub fn sample(data: &Motorcycle, train: &[usize], test: &[f64], test_target: Vec<f64>) -> Result<Sample, LabError> {
    let times = Mat::from_fn(train.len(), 1, |i, _| data.times[train[i]]);
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
    let dirty: Vec<f64> = train.iter().map(|&row| data.target[row]).collect();
    let scale = moments(&dirty);
    let target = dirty.iter().map(|y| (y - scale.0) / scale.1).collect();
    let wrong = (0..train.len()).filter(|&i| data.wrong.contains(&train[i])).collect();
    Ok(Sample { inputs, basis: Basis::Features, design, target, test_target, scale, wrong })
}

/// Cross-validated: trained on wrong targets too, tested on the original ones.
pub fn measure(method: Method, seed: u64) -> Result<Measures, LabError> {
    let start = std::time::Instant::now();
    let data = Motorcycle::new(seed);
    let (mut actual, mut predicted, mut deviation) = (Vec::new(), Vec::new(), Vec::new());
    for Fold { train, test } in data.folds(seed) {
        let of = |values: &[f64]| -> Vec<f64> { test.iter().map(|&row| values[row]).collect() };
        let sample = sample(&data, &train, &of(&data.times), of(&data.original))?;
        let (mean, std) = sample.predictions(method, seed)?;
        actual.extend(of(&data.original));
        predicted.extend(mean);
        deviation.extend(std);
    }
    let n = data.times.len();
    let whole = sample(&data, &(0..n).collect::<Vec<_>>(), &data.times, data.original.clone())?;
    let mut measures = vec![("rmse", rmse(&actual, &predicted)), ("nll", nll(&actual, &predicted, &deviation))];
    let of_whole = whole.measure(method, seed)?;
    measures.extend(of_whole.into_iter().filter(|(name, _)| ["ess_weights", "ess_rows", "recall"].contains(name)));
    measures.push((LAST_MEASURE, start.elapsed().as_secs_f64()));
    Ok(measures)
}
