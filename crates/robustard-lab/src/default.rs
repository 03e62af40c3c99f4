//! The default against what it replaces: shared noise, the paper's recipe, fixed lengthscales; and against itself with the wrong
//! rows removed.

use std::ops::ControlFlow;
use std::time::Instant;

use robustard::features::{FeatureKind, FeatureOptions, Lengthscale};
use robustard::metrics::{coverage, mean, rmse, top_k_recall};
use robustard::{Iteration, Preset, Settings};
use robustard_table::{Auto, EncodeOptions, Regression, RegressionOptions};
use serde::{Deserialize, Serialize};

use crate::LabError;
use crate::protocol::{DataSet, Split};

const FEATURES: usize = 256;

/// A way to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Features and noise chosen.
    Default,
    /// The same, with the wrong rows removed: what could be had at best.
    Cleaned,
    /// Learnt lengthscales, shared noise.
    LearntShared,
    /// Fixed lengthscales, one precision per weight, shared noise.
    FixedShared,
    /// Fixed lengthscales, Student-t noise.
    FixedRobust,
    /// The paper's recipe.
    Paper,
}

impl Method {
    /// All methods.
    pub const ALL: [Method; 6] =
        [Self::Default, Self::Cleaned, Self::LearntShared, Self::FixedShared, Self::FixedRobust, Self::Paper];

    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Cleaned => "bad rows removed",
            Self::LearntShared => "shared, learnt",
            Self::FixedShared => "shared, fixed",
            Self::FixedRobust => "robust, fixed",
            Self::Paper => "paper's recipe",
        }
    }

    fn options(self, target: &str, seed: u64) -> RegressionOptions {
        let (kind, settings, is_auto) = match self {
            Self::Default | Self::Cleaned => (FeatureKind::Linear, Settings::default(), true),
            Self::LearntShared => {
                (FeatureKind::Smooth { centres: None }, Settings::default().with_shared_noise(), false)
            }
            Self::FixedShared => {
                (FeatureKind::Fourier { features: FEATURES }, Settings::default().with_shared_noise(), false)
            }
            Self::FixedRobust => (FeatureKind::Fourier { features: FEATURES }, Settings::default(), false),
            Self::Paper => (FeatureKind::Fourier { features: FEATURES }, Settings::preset(Preset::Paper), false),
        };
        RegressionOptions {
            encode: EncodeOptions::new(target),
            features: FeatureOptions { kind, lengthscale: Lengthscale::Usual, seed, standardize: true, centre: true },
            intercept: true,
            settings,
            auto: Auto { features: is_auto, noise: is_auto },
        }
    }
}

/// What one method did on one split.
#[derive(Debug, Clone, Serialize)]
pub struct Score {
    /// Data set.
    pub set: &'static str,
    /// Share of wrong training rows.
    pub contamination: f64,
    /// Seed of the split.
    pub seed: u64,
    /// The method.
    pub method: Method,
    /// Features and noise of the fit.
    pub fit: String,
    /// Why this fit was chosen.
    pub reasons: Vec<String>,
    /// On the test rows.
    pub rmse: f64,
    /// Mean negative log density of the test targets.
    pub nll: f64,
    /// Shares of test targets in their 50, 80 and 95% intervals.
    pub coverage: [f64; 3],
    /// Share of the wrong rows among as many most suspicious ones; none without wrong rows.
    pub recall: Option<f64>,
    /// Time of the fit.
    pub seconds: f64,
}

/// Fits one split by one method.
pub fn score(set: &DataSet, split: &Split, contamination: f64, seed: u64, method: Method) -> Result<Score, LabError> {
    let failed = |error| LabError::Fit {
        set: set.name.to_owned(),
        seed,
        method: method.name().to_owned(),
        error: Box::new(error),
    };
    let table = if method == Method::Cleaned { split.clean() } else { split.train.clone() };
    let start = Instant::now();
    let mut silent = |_: &Iteration<'_>| ControlFlow::Continue(());
    let fitted = Regression::fit(&table, &method.options(set.target, seed), &mut silent).map_err(failed)?;
    let seconds = start.elapsed().as_secs_f64();
    let regression = fitted.regression;
    let mut covered = [0.0; 3];
    for (share, level) in covered.iter_mut().zip([0.5, 0.8, 0.95]) {
        let prediction = regression.predict(&split.test, level).map_err(failed)?;
        *share = coverage(&split.test_target, &prediction.lower, &prediction.upper);
    }
    let prediction = regression.predict(&split.test, 0.95).map_err(failed)?;
    let settings = &regression.options.settings;
    let noise = match settings.noise {
        robustard::NoiseKind::Shared => "shared".to_owned(),
        robustard::NoiseKind::PerRow => settings.noise_prior.to_string(),
    };
    let recall = (!split.wrong.is_empty() && method != Method::Cleaned).then(|| {
        let z: Vec<f64> = regression.diagnose().z.iter().map(|z| z.abs()).collect();
        top_k_recall(&z, &split.wrong)
    });
    Ok(Score {
        set: set.name,
        contamination,
        seed,
        method,
        fit: format!("{} {noise}", regression.options.features.kind),
        reasons: regression.choice.as_ref().map_or(Vec::new(), |choice| choice.reasons.clone()),
        rmse: rmse(&split.test_target, &prediction.mean),
        nll: -mean(&prediction.log_density(&split.test_target)),
        coverage: covered,
        recall,
        seconds,
    })
}
