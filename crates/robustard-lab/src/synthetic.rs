//! The paper's synthetic design: sparse weights, normal features, a share of the rows with larger noise.

use std::ops::ControlFlow;

use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use robustard::features::{FeatureKind, FeatureOptions, Lengthscale};
use robustard::metrics::{rmse, top_k_recall};
use robustard::{Iteration, Settings};
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

/// What the default did on one draw.
#[derive(Debug, Clone, Serialize)]
pub struct Recovery {
    /// Root mean square error of the default's weights.
    pub weight_error: f64,
    /// That of shared noise with every row weighted by its true precision.
    pub oracle_error: f64,
    /// Share of the true support among as many most relevant features.
    pub support_recall: f64,
    /// Features and noise that were chosen.
    pub fit: String,
}

const TARGET: &str = "y";
const WEIGHT: &str = "precision";

/// Draws a table and fits it.
pub fn recover(design: &Synthetic, seed: u64) -> Result<Recovery, LabError> {
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
    let target: Vec<f64> = (0..design.rows).map(value).collect();
    let precision: Vec<f64> = sigma.iter().map(|s| (design.sigma / s).powi(2)).collect();
    let mut named: Vec<(String, Vec<f64>)> =
        columns.into_iter().enumerate().map(|(j, column)| (format!("x{j}"), column)).collect();
    named.push((TARGET.to_owned(), target));
    named.push((WEIGHT.to_owned(), precision));
    let columns = named.into_iter().map(|(name, values)| (name, Table::number_column(values))).collect();
    let table = Table::from_columns(columns);

    let fit = |settings: Settings, is_auto: bool| -> Result<Regression, LabError> {
        let mut encode = EncodeOptions::new(TARGET);
        if is_auto {
            encode.exclude = vec![WEIGHT.to_owned()];
        } else {
            encode.weights = Some(WEIGHT.to_owned());
        }
        let kind = FeatureKind::Linear;
        let options = RegressionOptions {
            encode,
            features: FeatureOptions { kind, lengthscale: Lengthscale::Usual, seed, standardize: true, centre: true },
            intercept: true,
            settings,
            auto: Auto { features: is_auto, noise: is_auto },
        };
        let mut silent = |_: &Iteration<'_>| ControlFlow::Continue(());
        let failed = |error| LabError::Fit {
            set: "synthetic".to_owned(),
            seed,
            method: if is_auto { "default" } else { "oracle" }.to_owned(),
            error: Box::new(error),
        };
        Ok(Regression::fit(&table, &options, &mut silent).map_err(failed)?.regression)
    };
    let weights = |regression: &Regression| -> Vec<f64> {
        let mut weights = vec![0.0; design.columns];
        for feature in regression.feature_summaries() {
            if let Some(j) = feature.name.strip_prefix('x').and_then(|j| j.parse::<usize>().ok()) {
                weights[j] = feature.coefficient;
            }
        }
        weights
    };
    let default = fit(Settings::default(), true)?;
    let oracle = fit(Settings::default().with_shared_noise(), false)?;
    let relevance = default.relevances();
    let settings = &default.options.settings;
    Ok(Recovery {
        weight_error: rmse(&theta, &weights(&default)),
        oracle_error: rmse(&theta, &weights(&oracle)),
        support_recall: top_k_recall(&relevance, &support),
        fit: format!(
            "{} {:?} {}",
            default.options.features.kind,
            default.choice.as_ref().unwrap().reasons,
            settings.noise_prior
        ),
    })
}
