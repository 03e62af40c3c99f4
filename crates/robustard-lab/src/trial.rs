//! One method on one sample of training and test rows.

use std::time::Instant;

use faer::{Mat, MatRef};
use robustard::engine::{Problem, fit};
use robustard::metrics::{effective_support, mae, mean, nll, rmse, standard_deviation, top_k_recall};
use robustard::{BaseNoise, Control, Dataset, Recipe, Regression, Settings};
use robustard_baselines::Baseline;

use crate::method::{Basis, Method, RowNoise, Solver};
use crate::runner::LAST_MEASURE;
use crate::{LabError, blr};

/// What was measured, by name.
pub type Measures = Vec<(&'static str, f64)>;

/// Training and test rows, ready for every method. Targets are those of training in standard units; test targets are in the
/// target's own.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Inputs, standardized.
    pub inputs: [Mat<f64>; 2],
    /// What the features are.
    pub basis: Basis,
    /// Features made of them, training and test.
    pub design: [Mat<f64>; 2],
    /// Training targets.
    pub target: Vec<f64>,
    /// Test targets.
    pub test_target: Vec<f64>,
    /// Mean and standard deviation that training targets were standardized by.
    pub scale: (f64, f64),
    /// Training rows that were made wrong.
    pub wrong: Vec<usize>,
}

/// What a method says.
struct Answer {
    mean: Vec<f64>,
    variance: Vec<f64>,
    weight_relevance: Vec<f64>,
    row_relevance: Vec<f64>,
    /// What rows are ranked by, the worst first: λ or row weights where there are any, else the size of the error.
    doubt: Vec<f64>,
    /// Log densities of the test targets, in standard units, where predictions are not normal.
    log_density: Option<Vec<f64>>,
    iterations: usize,
}

/// The standard deviation below which a prediction is not believed, in units of the target's.
const LEAST_DEVIATION: f64 = 1e-9;

impl Sample {
    fn answer(&self, method: Method, seed: u64) -> Result<Answer, LabError> {
        match method {
            Method::Baseline(baseline) => self.baseline(baseline, seed),
            Method::Ard { solver, noise } => self.ard(&solver.settings(noise, self.basis)),
            Method::Converged => self.ard(&converged_settings()),
            Method::Variational => self.variational(seed),
            Method::Default => self.default(seed),
            Method::Oracle => Err(LabError::NoOracle),
        }
    }

    /// What training rows are ranked by, the worst first: by λ; by the size of the error where all rows have one noise.
    pub fn doubt(&self, method: Method, seed: u64) -> Result<Vec<f64>, LabError> {
        Ok(self.answer(method, seed)?.doubt)
    }

    /// Rows by their relevance if it tells them apart, else by the size of their errors.
    fn ranked(&self, relevance: &[f64], fitted: &[f64]) -> Vec<f64> {
        if relevance.iter().any(|value| *value != relevance[0]) {
            relevance.iter().map(|value| -value).collect()
        } else {
            self.target.iter().zip(fitted).map(|(y, fitted)| (y - fitted).abs()).collect()
        }
    }

    /// The same with fewer training rows, which must be in order.
    pub fn rows(&self, kept: &[usize]) -> Self {
        let part = |x: &Mat<f64>| Mat::from_fn(kept.len(), x.ncols(), |i, j| x[(kept[i], j)]);
        let of = |[train, test]: &[Mat<f64>; 2]| [part(train), test.clone()];
        Self {
            inputs: of(&self.inputs),
            design: of(&self.design),
            target: kept.iter().map(|&row| self.target[row]).collect(),
            wrong: (0..kept.len()).filter(|&i| self.wrong.binary_search(&kept[i]).is_ok()).collect(),
            test_target: self.test_target.clone(),
            scale: self.scale,
            basis: self.basis,
        }
    }

    /// Means and standard deviations of the test targets, in the target's units.
    pub fn predictions(&self, method: Method, seed: u64) -> Result<(Vec<f64>, Vec<f64>), LabError> {
        Ok(self.in_units(&self.answer(method, seed)?))
    }

    fn in_units(&self, answer: &Answer) -> (Vec<f64>, Vec<f64>) {
        let (centre, scale) = self.scale;
        let deviation = |v: &f64| scale * v.max(LEAST_DEVIATION * LEAST_DEVIATION).sqrt();
        let mean = answer.mean.iter().map(|mean| centre + scale * mean).collect();
        (mean, answer.variance.iter().map(deviation).collect())
    }

    /// Fits and measures.
    pub fn measure(&self, method: Method, seed: u64) -> Result<Measures, LabError> {
        let start = Instant::now();
        let answer = self.answer(method, seed)?;
        let seconds = start.elapsed().as_secs_f64();
        let (predicted, deviation) = self.in_units(&answer);
        let likelihood = match &answer.log_density {
            Some(densities) => self.scale.1.ln() - mean(densities),
            None => nll(&self.test_target, &predicted, &deviation),
        };
        let mut measures = vec![
            ("rmse", rmse(&self.test_target, &predicted)),
            ("mae", mae(&self.test_target, &predicted)),
            ("nll", likelihood),
            ("ess_weights", 100.0 * effective_support(answer.weight_relevance.iter().copied())),
            ("ess_rows", 100.0 * effective_support(answer.row_relevance.iter().copied())),
            ("iterations", answer.iterations as f64),
        ];
        if !self.wrong.is_empty() {
            measures.push(("recall", top_k_recall(&answer.doubt, &self.wrong)));
        }
        measures.push((LAST_MEASURE, seconds));
        Ok(measures)
    }

    /// Gaussian processes see the inputs, linear methods the features.
    fn baseline(&self, baseline: Baseline, seed: u64) -> Result<Answer, LabError> {
        let is_process = matches!(baseline, Baseline::Gp { .. } | Baseline::SparseGp { .. });
        let [train, test] = if is_process { &self.inputs } else { &self.design };
        let fitted = baseline.fit(train.as_ref(), &self.target, seed)?;
        let prediction = fitted.predict(test.as_ref())?;
        let (fitted_mean, row_relevance) = (fitted.predict(train.as_ref())?.mean, fitted.row_weight());
        let has_relevance = is_process || matches!(baseline, Baseline::Ridge { .. });
        Ok(Answer {
            mean: prediction.mean,
            variance: prediction.variance,
            // As in the paper's tables: 100% for methods that do not weigh features.
            weight_relevance: if has_relevance { fitted.weight_relevance() } else { vec![1.0; train.ncols()] },
            doubt: self.ranked(&row_relevance, &fitted_mean),
            row_relevance,
            log_density: None,
            iterations: fitted.iterations(),
        })
    }

    fn ard(&self, settings: &Settings) -> Result<Answer, LabError> {
        let [train, test] = &self.design;
        let problem = Problem::new(with_intercept(train).as_ref(), &self.target)?.with_unshrunk(0)?;
        let model = fit(&problem, settings)?;
        let prediction = model.predict(with_intercept(test).as_ref())?;
        let precision = |values: &[f64]| -> Vec<f64> { values.iter().map(|value| 1.0 / value).collect() };
        let row_relevance = if settings.noise.is_shared() {
            vec![1.0; self.target.len()]
        } else {
            precision(&model.rows().noise_variance)
        };
        Ok(Answer {
            mean: prediction.mean,
            variance: prediction.std.iter().map(|std| std * std).collect(),
            weight_relevance: precision(&model.weight_precision()[1..]),
            doubt: self.ranked(&row_relevance, &model.rows().fitted),
            row_relevance,
            log_density: None,
            iterations: model.iterations(),
        })
    }

    /// EM with the posterior of the Bayesian learning rule.
    fn variational(&self, seed: u64) -> Result<Answer, LabError> {
        let [train, test] = [with_intercept(&self.design[0]), with_intercept(&self.design[1])];
        let settings = Solver::Em.settings(RowNoise::PerRow, self.basis);
        let found = blr::fit(train.as_ref(), &self.target, &settings, seed);
        let noise = mean(&found.noise_variance);
        let sum = |i: usize, of: &dyn Fn(usize) -> f64| (0..test.ncols()).map(|j| test[(i, j)] * of(j)).sum::<f64>();
        let rows = 0..test.nrows();
        Ok(Answer {
            mean: rows.clone().map(|i| sum(i, &|j| found.mean[j])).collect(),
            variance: rows.map(|i| noise + sum(i, &|j| test[(i, j)] * found.variance[j])).collect(),
            weight_relevance: found.weight_precision[1..].iter().map(|gamma| 1.0 / gamma).collect(),
            row_relevance: found.noise_variance.iter().map(|lambda| 1.0 / lambda).collect(),
            doubt: found.noise_variance,
            log_density: None,
            iterations: settings.max_iterations,
        })
    }

    fn default(&self, seed: u64) -> Result<Answer, LabError> {
        // As a table's encoder does, which leaves out columns of one value.
        let kept = varying_columns(&self.inputs[0]);
        let part = |x: &Mat<f64>| Mat::from_fn(x.nrows(), kept.len(), |i, j| x[(i, kept[j])]);
        let [train, test] = self.inputs.each_ref().map(part);
        let regression = fit_default(train.as_ref(), &self.target, seed)?;
        let prediction = regression.predict(test.as_ref())?;
        let (centre, scale) = self.scale;
        let actual: Vec<f64> = self.test_target.iter().map(|y| (y - centre) / scale).collect();
        let mut row_relevance: Vec<f64> = regression.model().rows().noise_variance.iter().map(|v| 1.0 / v).collect();
        regression.set_aside().iter().for_each(|&row| row_relevance[row] = 0.0);
        Ok(Answer {
            mean: prediction.mean.clone(),
            variance: prediction.std.iter().map(|std| std * std).collect(),
            weight_relevance: regression.relevances(),
            row_relevance,
            doubt: regression.diagnostics().z.iter().map(|z| z.abs()).collect(),
            log_density: Some(prediction.log_density(&actual)),
            iterations: regression.model().iterations(),
        })
    }
}

fn varying_columns(x: &Mat<f64>) -> Vec<usize> {
    (0..x.ncols()).filter(|&j| x.col(j).iter().any(|value| *value != x[(0, j)])).collect()
}

/// What robustard does unasked.
pub(crate) fn fit_default(inputs: MatRef<'_, f64>, target: &[f64], seed: u64) -> Result<Regression, robustard::Error> {
    let dataset = Dataset::new(inputs, target)?;
    robustard::fit(&dataset, &Recipe::default().with_seed(seed), &Control::new())
}

/// Model-only ARD, run to convergence.
pub fn converged_settings() -> Settings {
    Settings { base_noise: BaseNoise::Mean, ..Settings::default().with_shared_noise() }
}

/// The columns after one of ones.
pub fn with_intercept(x: &Mat<f64>) -> Mat<f64> {
    Mat::from_fn(x.nrows(), x.ncols() + 1, |i, j| if j == 0 { 1.0 } else { x[(i, j - 1)] })
}

/// Mean and standard deviation.
pub fn moments(values: &[f64]) -> (f64, f64) {
    (mean(values), standard_deviation(values))
}
