//! The paper's synthetic design: sparse weights, normal features, a share of the rows with larger noise.

use std::ops::ControlFlow;

use faer::Mat;
use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use robustard::features::{FeatureKind, FeatureOptions, Lengthscale};
use robustard::metrics::{rmse, top_k_recall};
use robustard::{Iteration, Problem, Settings};
use robustard_table::{Auto, EncodeOptions, Regression, RegressionOptions, Table};
use serde::Serialize;

use crate::LabError;

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
    pub fn oracle(&self) -> Result<Problem, LabError> {
        let design = Mat::from_fn(self.inputs.nrows(), self.inputs.ncols() + 1, |i, j| {
            (if j == 0 { 1.0 } else { self.inputs[(i, j - 1)] }) / self.sigma[i]
        });
        let target: Vec<f64> = self.target.iter().zip(&self.sigma).map(|(y, sigma)| y / sigma).collect();
        Ok(Problem::new(design.as_ref(), &target).and_then(|problem| problem.with_unshrunk(0))?)
    }

    fn table(&self) -> Table {
        let column = |j: usize| Table::number_column((0..self.inputs.nrows()).map(move |i| self.inputs[(i, j)]));
        let mut columns: Vec<(String, _)> = (0..self.inputs.ncols()).map(|j| (format!("x{j}"), column(j))).collect();
        columns.push((TARGET.to_owned(), Table::number_column(self.target.iter().copied())));
        Table::from_columns(columns)
    }
}

const TARGET: &str = "y";

/// What the default did on one draw.
#[derive(Debug, Clone, Serialize)]
pub struct Recovery {
    /// Root mean square error of the default's weights.
    pub weight_error: f64,
    /// That of shared noise when the noise of every row is known.
    pub oracle_error: f64,
    /// Share of the true support among as many most relevant features.
    pub support_recall: f64,
}

/// Draws a table and fits it.
pub fn recover(design: &Synthetic, seed: u64) -> Result<Recovery, LabError> {
    let draw = Draw::new(design, seed);
    let kind = FeatureKind::Linear;
    let options = RegressionOptions {
        encode: EncodeOptions::new(TARGET),
        features: FeatureOptions { kind, lengthscale: Lengthscale::Usual, seed, standardize: true, centre: true },
        intercept: true,
        settings: Settings::default(),
        auto: Auto { features: true, noise: true },
    };
    let mut silent = |_: &Iteration<'_>| ControlFlow::Continue(());
    let failed = |error| LabError::Fit {
        set: "synthetic".to_owned(),
        seed,
        method: "default".to_owned(),
        error: Box::new(error),
    };
    let default = Regression::fit(&draw.table(), &options, &mut silent).map_err(failed)?.regression;
    let mut weights = vec![0.0; design.columns];
    for feature in default.feature_summaries() {
        if let Some(j) = feature.name.strip_prefix('x').and_then(|j| j.parse::<usize>().ok()) {
            weights[j] = feature.coefficient;
        }
    }
    let oracle = robustard::fit(&draw.oracle()?, &Settings::default().with_shared_noise())?;
    Ok(Recovery {
        weight_error: rmse(&draw.theta, &weights),
        oracle_error: rmse(&draw.theta, &oracle.coefficients[1..]),
        support_recall: top_k_recall(&default.relevances(), &draw.support),
    })
}
