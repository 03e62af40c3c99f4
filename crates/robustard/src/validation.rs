//! Cross-validation: every row predicted by a fit that has not seen it.

use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use robustard_engine::metrics::{coverage, mae, mean, rmse};

use crate::Error;
use crate::control::{Control, Progress};
use crate::dataset::Dataset;
use crate::recipe::Recipe;
use crate::regression::{Prediction, fit};

/// Level of the intervals that are assessed.
const LEVEL: f64 = 0.95;

/// Rows of one part of a cross-validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    /// Rows to train on.
    pub train: Vec<usize>,
    /// Rows to test on.
    pub test: Vec<usize>,
}

/// So many folds of the given rows, drawn at random: every row is tested once.
pub fn folds(mut rows: Vec<usize>, count: usize, seed: u64) -> Vec<Fold> {
    rows.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let tests: Vec<Vec<usize>> =
        (0..count).map(|fold| rows.iter().copied().skip(fold).step_by(count.max(1)).collect()).collect();
    let others = |fold: usize| tests.iter().enumerate().filter(move |(k, _)| *k != fold).flat_map(|(_, rows)| rows);
    (0..count).map(|fold| Fold { train: others(fold).copied().collect(), test: tests[fold].clone() }).collect()
}

/// Predictions of rows that were not seen, beside what came true.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scores {
    /// What came true.
    pub actual: Vec<f64>,
    /// What was predicted.
    pub predicted: Vec<f64>,
    /// Log density of what came true.
    pub log_density: Vec<f64>,
    /// Lower ends of 95% intervals.
    pub lower: Vec<f64>,
    /// Upper ends.
    pub upper: Vec<f64>,
    /// Time of the fits.
    pub elapsed: Duration,
}

impl Scores {
    /// Does work whose time counts.
    pub fn timed<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.elapsed += start.elapsed();
        result
    }

    /// Adds predictions of rows with these targets.
    pub fn add(&mut self, actual: &[f64], prediction: &Prediction) -> Result<(), Error> {
        let interval = prediction.interval(LEVEL)?;
        self.log_density.extend(prediction.log_density(actual));
        self.actual.extend(actual);
        self.predicted.extend(&prediction.mean);
        self.lower.extend(interval.lower);
        self.upper.extend(interval.upper);
        Ok(())
    }

    /// Adds a normal prediction.
    pub fn add_normal(&mut self, actual: f64, mean: f64, std: f64) {
        /// Standard deviations of a normal variable that hold it with probability 0.95.
        const NORMAL_HALF_WIDTH: f64 = 1.959_963_984_540_054;
        self.log_density.push(robustard_engine::math::density::log_normal(actual - mean, std * std));
        self.actual.push(actual);
        self.predicted.push(mean);
        self.lower.push(mean - NORMAL_HALF_WIDTH * std);
        self.upper.push(mean + NORMAL_HALF_WIDTH * std);
    }

    /// Root mean square error.
    pub fn rmse(&self) -> f64 {
        rmse(&self.actual, &self.predicted)
    }

    /// Mean absolute error.
    pub fn mae(&self) -> f64 {
        mae(&self.actual, &self.predicted)
    }

    /// Mean negative log density.
    pub fn nll(&self) -> f64 {
        -mean(&self.log_density)
    }

    /// Share of the rows in their 95% interval.
    pub fn coverage_95(&self) -> f64 {
        coverage(&self.actual, &self.lower, &self.upper)
    }
}

/// Goes through the folds: `predict` fits the rows to train on and adds its predictions of the others. The share of folds that are
/// done is told to the control, which can stop between them.
pub fn validate<E: From<Error>>(
    folds: &[Fold],
    control: &Control,
    mut predict: impl FnMut(&Fold, &mut Scores) -> Result<(), E>,
) -> Result<Scores, E> {
    let mut scores = Scores::default();
    for (done, fold) in folds.iter().enumerate() {
        control.tell(Progress::Share(done as f64 / folds.len() as f64));
        predict(fold, &mut scores)?;
        if control.is_stopped() {
            return Err(Error::Stopped.into());
        }
    }
    Ok(scores)
}

/// Cross-validates a recipe on a data set.
pub fn cross_validate(
    dataset: &Dataset<'_>,
    recipe: &Recipe,
    folds: &[Fold],
    control: &Control,
) -> Result<Scores, Error> {
    validate(folds, control, |Fold { train, test }, scores| {
        let regression = scores.timed(|| fit(&dataset.take(train), recipe, control))?;
        let test = dataset.take(test);
        scores.add(test.target(), &regression.predict_under(test.inputs().as_ref(), control)?)
    })
}

#[cfg(test)]
mod tests {
    use faer::Mat;

    use super::*;
    use crate::features::FeatureKind;
    use crate::recipe::Choice;

    #[test]
    fn every_row_is_tested_once() {
        let folds = folds((3..20).collect(), 4, 0);
        let mut tested: Vec<usize> = folds.iter().flat_map(|fold| fold.test.clone()).collect();
        tested.sort_unstable();
        assert_eq!(tested, (3..20).collect::<Vec<_>>());
        assert!(folds.iter().all(|fold| fold.test.iter().all(|row| !fold.train.contains(row))));
        assert!(folds.iter().all(|fold| fold.train.len() + fold.test.len() == 17));
    }

    #[test]
    fn a_line_is_predicted_within_its_noise() {
        let x = Mat::from_fn(80, 2, |i, j| ((i * (3 * j + 5)) as f64 * 0.37).sin());
        let noise = |i: usize| 0.1 * ((i * i) as f64 * 1.7).sin();
        let y: Vec<f64> = (0..80).map(|i| 5.0 + 2.0 * x[(i, 0)] + noise(i)).collect();
        let dataset = Dataset::new(x.as_ref(), y).unwrap();
        let recipe = Recipe::new(Choice::Given(FeatureKind::linear()), Choice::Auto).unwrap();
        let scores = cross_validate(&dataset, &recipe, &folds((0..80).collect(), 5, 1), &Control::new()).unwrap();
        assert!(scores.rmse() < 0.09 && scores.mae() < scores.rmse(), "{}", scores.rmse());
        assert!(scores.coverage_95() > 0.9 && scores.nll() < -0.8, "{} {}", scores.coverage_95(), scores.nll());
    }
}
