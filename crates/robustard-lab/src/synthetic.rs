//! The paper's synthetic design: sparse weights, normal features, a share of the rows with larger noise.

use std::time::Instant;

use faer::Mat;
use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use robustard::Settings;
use robustard::engine::{Problem, fit};
use robustard::metrics::{rmse, top_k_recall};

use crate::LabError;
use crate::method::{Basis, Method};
use crate::runner::LAST_MEASURE;
use crate::trial::{Measures, converged_settings, fit_default, with_intercept};

/// The design.
#[derive(Debug, Clone, Copy)]
pub struct Synthetic {
    /// n.
    pub rows: usize,
    /// d.
    pub columns: usize,
    /// |S|: weights that are not 0.
    pub support: usize,
    /// σ.
    pub sigma: f64,
    /// ρ: share of the rows with larger noise.
    pub contamination: f64,
    /// m: how much larger.
    pub multiplier: f64,
}

impl Synthetic {
    /// As in the paper, with the middle of its ranges.
    pub const PAPER: Synthetic =
        Synthetic { rows: 500, columns: 50, support: 10, sigma: 0.2, contamination: 0.2, multiplier: 10.0 };
}

/// One draw from a design.
#[derive(Debug, Clone)]
pub struct Draw {
    /// n × d.
    pub inputs: Mat<f64>,
    /// The targets.
    pub target: Vec<f64>,
    /// The true weights.
    pub theta: Vec<f64>,
    /// Columns whose weight is not 0.
    pub support: Vec<usize>,
    /// Rows with larger noise.
    pub wrong: Vec<usize>,
    /// Each row's true standard deviation.
    pub sigma: Vec<f64>,
}

impl Draw {
    /// Draws.
    pub fn new(design: &Synthetic, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut normals = |count: usize| -> Vec<f64> { (0..count).map(|_| rng.sample(StandardNormal)).collect() };
        let columns: Vec<Vec<f64>> = (0..design.columns).map(|_| normals(design.rows)).collect();
        let (values, noise) = (normals(design.support), normals(design.rows));
        let support = sample(&mut rng, design.columns, design.support).into_vec();
        let wrong = sample(&mut rng, design.rows, (design.contamination * design.rows as f64) as usize).into_vec();
        let mut theta = vec![0.0; design.columns];
        support.iter().zip(values).for_each(|(&j, value)| theta[j] = value);
        let mut sigma = vec![design.sigma; design.rows];
        wrong.iter().for_each(|&i| sigma[i] *= design.multiplier);
        let value = |i: usize| columns.iter().zip(&theta).map(|(x, w)| w * x[i]).sum::<f64>() + sigma[i] * noise[i];
        let target = (0..design.rows).map(value).collect();
        let inputs = Mat::from_fn(design.rows, design.columns, |i, j| columns[j][i]);
        Self { inputs, target, theta, support, wrong, sigma }
    }

    /// The problem when the noise of every row is known: each row divided by its standard deviation, so that all have one
    /// noise. (Row weights would not do: they count rows, and the rows of small weight would be missing from the count.)
    pub fn oracle(&self) -> Result<Problem<'static>, LabError> {
        let design = Mat::from_fn(self.inputs.nrows(), self.inputs.ncols() + 1, |i, j| {
            (if j == 0 { 1.0 } else { self.inputs[(i, j - 1)] }) / self.sigma[i]
        });
        let target: Vec<f64> = self.target.iter().zip(&self.sigma).map(|(y, sigma)| y / sigma).collect();
        Ok(Problem::new(design.as_ref(), &target).and_then(|problem| problem.with_unshrunk(0))?)
    }

    /// What a method recovers. Rows are ranked by λ; where all rows have one noise, chance is what can be had. The oracle weighs
    /// rows by their true noise and ranks them by their distance from the true line.
    pub fn measure(&self, method: Method, test_seed: u64) -> Result<Measures, LabError> {
        let start = Instant::now();
        let [n, d] = [self.inputs.nrows(), self.inputs.ncols()];
        let recall = |rows: &[f64]| if self.wrong.is_empty() { 1.0 } else { top_k_recall(rows, &self.wrong) };
        let chance = self.wrong.len() as f64 / n as f64;
        let (weights, relevance, rows) = match method {
            Method::Oracle => {
                let model = fit(&self.oracle()?, &Settings::default().with_shared_noise())?;
                let line = |i: usize| (0..d).map(|j| self.inputs[(i, j)] * self.theta[j]).sum::<f64>();
                let errors: Vec<f64> = (0..n).map(|i| (self.target[i] - line(i)).abs()).collect();
                let relevance = model.weight_precision()[1..].iter().map(|gamma| 1.0 / gamma).collect();
                (model.coefficients()[1..].to_vec(), relevance, recall(&errors))
            }
            Method::Ard { .. } | Method::Converged => {
                let problem = Problem::new(with_intercept(&self.inputs).as_ref(), &self.target)?.with_unshrunk(0)?;
                let settings = match method {
                    Method::Ard { solver, noise } => solver.settings(noise, Basis::Features),
                    _ => converged_settings(),
                };
                let model = fit(&problem, &settings)?;
                let relevance = model.weight_precision()[1..].iter().map(|gamma| 1.0 / gamma).collect();
                let rows = if settings.noise.is_shared() { chance } else { recall(&model.rows().noise_variance) };
                (model.coefficients()[1..].to_vec(), relevance, rows)
            }
            Method::Default => {
                let regression = fit_default(self.inputs.as_ref(), &self.target, 0)?;
                let doubt: Vec<f64> = regression.diagnostics().z.iter().map(|z| z.abs()).collect();
                let weights = regression.features_in_units().iter().map(|feature| feature.coefficient).collect();
                (weights, regression.relevances(), recall(&doubt))
            }
            Method::Baseline(baseline) => {
                let fitted = baseline.fit(self.inputs.as_ref(), &self.target, test_seed)?;
                let weights = fitted.coefficients().map_or(vec![0.0; d], <[f64]>::to_vec);
                let relevance = weights.iter().map(|w| w.abs()).collect();
                let row_weight = fitted.row_weight();
                let weighs = row_weight.iter().any(|weight| *weight != row_weight[0]);
                let doubt: Vec<f64> = row_weight.iter().map(|weight| -weight).collect();
                (weights, relevance, if weighs { recall(&doubt) } else { chance })
            }
            Method::Variational => return Err(LabError::NotHere { method: method.to_string() }),
        };
        Ok(vec![
            ("weight_recovery", top_k_recall(&relevance, &self.support)),
            ("row_recovery", rows),
            ("weight_error", rmse(&self.theta, &weights)),
            (LAST_MEASURE, start.elapsed().as_secs_f64()),
        ])
    }
}
