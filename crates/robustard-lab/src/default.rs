//! The default against what it replaces: shared noise, the paper's recipe, fixed lengthscales; and against itself with the wrong
//! rows removed.

use std::time::Instant;

use cpu_time::ProcessTime;
use robustard::features::{FeatureKind, Lengthscale};
use robustard::metrics::{coverage, mean, rmse, top_k_recall};
use robustard::{Choice, Control, Degrees, Interval, Noise, Preset, Recipe, RecipeError, Settings};
use robustard_report::reason_words;
use robustard_table::{EncodeOptions, ModelError, TableModel};
use serde::{Deserialize, Serialize};

use crate::LabError;
use crate::protocol::{Damage, DataSet, Split};

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
    /// Learnt lengthscales, Student-t noise with learnt degrees of freedom.
    LearntStudent,
    /// Learnt lengthscales, noise with gross errors.
    LearntContaminated,
    /// Learnt lengthscales, noise that has both.
    LearntNested,
    /// Fixed lengthscales, one precision per weight, shared noise.
    FixedShared,
    /// Fixed lengthscales, Student-t noise.
    FixedRobust,
    /// The paper's recipe.
    Paper,
}

impl Method {
    /// All methods.
    pub const ALL: [Method; 9] = [
        Self::Default,
        Self::Cleaned,
        Self::LearntShared,
        Self::LearntStudent,
        Self::LearntContaminated,
        Self::LearntNested,
        Self::FixedShared,
        Self::FixedRobust,
        Self::Paper,
    ];

    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Cleaned => "bad rows removed",
            Self::LearntShared => "shared, learnt",
            Self::LearntStudent => "Student-t, learnt",
            Self::LearntContaminated => "contaminated, learnt",
            Self::LearntNested => "nested, learnt",
            Self::FixedShared => "shared, fixed",
            Self::FixedRobust => "robust, fixed",
            Self::Paper => "paper's recipe",
        }
    }

    fn recipe(self, seed: u64) -> Result<Recipe, RecipeError> {
        let smooth = Choice::Given(FeatureKind::smooth());
        let fourier = Choice::Given(FeatureKind::fourier(FEATURES).expect("so many features are fine"));
        let [shared, robust] = [Noise::Shared, Noise::default()].map(Choice::Given);
        let recipe = match self {
            Self::Default | Self::Cleaned => Recipe::default(),
            Self::LearntShared => Recipe::new(smooth, shared)?,
            Self::LearntStudent => Recipe::new(smooth, Choice::Given(Noise::StudentT(Degrees::Learned)))?,
            Self::LearntContaminated => Recipe::new(smooth, Choice::Given(Noise::Contaminated))?,
            Self::LearntNested => Recipe::new(smooth, Choice::Given(Noise::ContaminatedT(Degrees::Learned)))?,
            Self::FixedShared => Recipe::new(fourier, shared)?.with_lengthscale(Lengthscale::Usual)?,
            Self::FixedRobust => Recipe::new(fourier, robust)?.with_lengthscale(Lengthscale::Usual)?,
            Self::Paper => Recipe::new(fourier, robust)?
                .with_settings(Settings::preset(Preset::Paper))?
                .with_lengthscale(Lengthscale::Usual)?,
        };
        Ok(recipe.with_seed(seed))
    }
}

/// What one method did on one split.
#[derive(Debug, Clone, Serialize)]
pub struct Score {
    /// Data set.
    pub set: &'static str,
    /// What is wrong with some training rows.
    pub damage: String,
    /// Share of wrong training rows.
    pub contamination: f64,
    /// Seed of the split.
    pub seed: u64,
    /// Training rows.
    pub rows: usize,
    /// What the files of the split are called.
    pub split: String,
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
    /// Mean width of the 95% intervals of the test rows.
    pub width: f64,
    /// What that width would be if all intervals were stretched alike to hold these shares of the test rows ([`HELD`]).
    pub widths: [f64; HELD.len()],
    /// Time of the fit.
    pub seconds: f64,
    /// The processors' time of the fit.
    pub cpu_seconds: f64,
}

/// Shares of test rows that widths are compared at.
pub const HELD: [f64; 11] = [0.90, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99, 1.0];

impl Score {
    /// The mean width of intervals that were stretched to hold a share of the test rows.
    pub fn width_holding(&self, share: f64) -> f64 {
        let place = (100.0 * (share - HELD[0])).clamp(0.0, HELD.len() as f64 - 1.0);
        let below = (place as usize).min(HELD.len() - 2);
        let part = place - below as f64;
        (1.0 - part) * self.widths[below] + part * self.widths[below + 1]
    }
}

/// What the files of a split are called.
pub fn split_name(set: &DataSet, damage: Damage, rows: usize, seed: u64) -> String {
    format!("{}-{damage}-{rows}-{seed}", set.name).replace(':', "-")
}

/// Fits one split by one method.
pub fn score(
    set: &DataSet,
    split: &Split,
    damage: Damage,
    rows: usize,
    seed: u64,
    method: Method,
) -> Result<Score, LabError> {
    let failed = |error: ModelError| LabError::Fit {
        set: set.name.to_owned(),
        seed,
        method: method.name().to_owned(),
        error: Box::new(error),
    };
    let table = if method == Method::Cleaned { split.clean() } else { split.train.clone() };
    let recipe = method.recipe(seed).map_err(robustard::Error::from)?;
    let (columns, control) = (EncodeOptions::new(set.target), Control::new());
    let (start, cpu_start) = (Instant::now(), ProcessTime::now());
    let model = TableModel::fit(&table, &columns, &recipe, &control).map_err(failed)?.model;
    let (seconds, cpu_seconds) = (start.elapsed().as_secs_f64(), cpu_start.elapsed().as_secs_f64());
    let prediction = model.predict(&split.test, &control).map_err(failed)?.values;
    let regression = model.regression();
    let intervals = [0.5, 0.8, 0.95].map(|level| prediction.interval(level));
    let [half, most, all] = intervals;
    let intervals = [half?, most?, all?];
    let covered = [0, 1, 2].map(|k| coverage(&split.test_target, &intervals[k].lower, &intervals[k].upper));
    let Interval { lower, upper, .. } = &intervals[2];
    let width = mean(&lower.iter().zip(upper).map(|(low, high)| high - low).collect::<Vec<_>>());
    // How far each target is from the middle of its interval, in half widths.
    let mut offs: Vec<f64> = (split.test_target.iter().zip(lower).zip(upper))
        .map(|((y, low), high)| (2.0 * y - low - high).abs() / (high - low).max(f64::MIN_POSITIVE))
        .collect();
    offs.sort_by(f64::total_cmp);
    let widths = HELD.map(|share| width * offs[((share * offs.len() as f64).ceil() as usize).clamp(1, offs.len()) - 1]);
    let recall = (!split.wrong.is_empty() && method != Method::Cleaned).then(|| {
        let z: Vec<f64> = regression.diagnostics().z.iter().map(|z| z.abs()).collect();
        top_k_recall(&z, &split.wrong)
    });
    Ok(Score {
        set: set.name,
        damage: damage.to_string(),
        contamination: damage.share,
        seed,
        rows: table.row_count(),
        split: split_name(set, damage, rows, seed),
        method,
        fit: format!("{} {}", regression.features(), regression.noise()),
        reasons: regression.selection().map_or(Vec::new(), |chosen| chosen.reasons.iter().map(reason_words).collect()),
        rmse: rmse(&split.test_target, &prediction.mean),
        nll: -mean(&prediction.log_density(&split.test_target)),
        coverage: covered,
        recall,
        width,
        widths,
        seconds,
        cpu_seconds,
    })
}
