//! A regression on a table: schema, features, scaling and fitted model together, so that a new table with the same columns is
//! all that prediction needs.

use robustard::faer::{Mat, MatRef};
use robustard::features::{Basis, FeatureError, FeatureMap, FeatureOptions, Standardizer};
use robustard::solver::Paths;
use robustard::{Diagnostics, FitError, FittedModel, Observer, PredictError, Prediction, ProblemError, Settings};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::choose::{Auto, Choice, fit_chosen};
use crate::encode::{EncodeOptions, Encoded, Encoder};
use crate::error::TableError;
use crate::file::hex;
use crate::prepared::{Observed, Prepared, gap_variances, prior_variances, with_intercept};
use crate::table::Table;

/// How a table is fitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegressionOptions {
    /// Columns.
    pub encode: EncodeOptions,
    /// Features.
    pub features: FeatureOptions,
    /// Whether there is an intercept, which is not shrunk.
    pub intercept: bool,
    /// The engine.
    pub settings: Settings,
    /// What is chosen instead of given.
    pub auto: Auto,
}

/// Why a regression failed.
#[derive(Debug, Error)]
pub enum RegressionError {
    /// The table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The features.
    #[error(transparent)]
    Features(#[from] FeatureError),
    /// The numbers.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// The fit.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// The prediction.
    #[error(transparent)]
    Predict(#[from] PredictError),
}

/// Mean and standard deviation that the target was standardized by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TargetScale {
    /// Mean.
    pub mean: f64,
    /// Standard deviation; 1 for a constant target.
    pub deviation: f64,
}

/// How good the fit is, by closed-form leave-one-out at the learnt precisions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Root mean square of the leave-one-out residuals, in the target's units.
    pub loo_rmse: f64,
    /// Share of the target's variance that leave-one-out predictions explain; below 0 when the mean would do better, 0 for a
    /// target of one value.
    pub loo_r2: f64,
    /// Median absolute leave-one-out residual: what outliers do not move.
    pub loo_median_error: f64,
    /// Share of the rows inside their leave-one-out 95% interval.
    pub coverage_95: f64,
}

/// A fitted regression on a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Regression {
    /// Schema.
    pub encoder: Encoder,
    /// Features.
    pub features: FeatureMap,
    /// How it was fitted.
    pub options: RegressionOptions,
    /// Scaling of the target.
    pub target: TargetScale,
    /// The fit, on the standardized target.
    pub model: FittedModel,
    /// Quality.
    pub quality: Quality,
    /// The rows of the training table that were fitted.
    pub rows: Vec<usize>,
    /// What was compared, if features or noise were chosen automatically.
    pub choice: Option<Choice>,
    /// The fitted rows, counted among [`Regression::rows`], that the choice set aside as gross errors: they hardly count.
    pub set_aside: Vec<usize>,
    /// What the table was.
    pub fingerprint: Fingerprint,
    /// Relevances of features and rows over the iterations; groups are those of [`Regression::feature_groups`].
    pub paths: Paths,
}

/// Tells a table from others by the numbers that went into the fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Rows fitted.
    pub rows: usize,
    /// Inputs, after categories and indicators became columns.
    pub inputs: usize,
    /// SHA-256 of inputs (column by column) and target, as little-endian doubles, in hexadecimal digits.
    pub sha256: String,
}

impl Fingerprint {
    pub(crate) fn of(inputs: &Mat<f64>, target: &[f64]) -> Self {
        let mut hasher = Sha256::new();
        let mut bytes = vec![0; 8 * target.len()];
        let mut add = |values: &mut dyn Iterator<Item = &f64>| {
            bytes.chunks_exact_mut(8).zip(values).for_each(|(room, value)| room.copy_from_slice(&value.to_le_bytes()));
            hasher.update(&bytes);
        };
        inputs.col_iter().for_each(|column| add(&mut column.iter()));
        add(&mut target.iter());
        let sha256 = hex(&hasher.finalize());
        Self { rows: inputs.nrows(), inputs: inputs.ncols(), sha256 }
    }
}

/// A fit with what should be said about it.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// The regression.
    pub regression: Regression,
    /// Things to tell the user.
    pub notes: Vec<String>,
}

/// Predictions for the rows of a table, in the target's units.
#[derive(Debug, Clone)]
pub struct TablePrediction {
    /// The rows of the table that were predicted.
    pub rows: Vec<usize>,
    /// Expected value.
    pub mean: Vec<f64>,
    /// Standard deviation of a new observation.
    pub std: Vec<f64>,
    /// Lower ends of the intervals.
    pub lower: Vec<f64>,
    /// Upper ends.
    pub upper: Vec<f64>,
    /// Things to tell the user.
    pub notes: Vec<String>,
    standard: Prediction,
    scale: TargetScale,
}

/// Expected values for the rows of a table, in the target's units.
#[derive(Debug, Clone)]
pub struct TableMeans {
    /// The rows of the table that were predicted.
    pub rows: Vec<usize>,
    /// Expected value.
    pub mean: Vec<f64>,
    /// Things to tell the user.
    pub notes: Vec<String>,
}

impl TablePrediction {
    /// Log densities of the targets that came true, one for each of `rows`.
    pub fn log_density(&self, actual: &[f64]) -> Vec<f64> {
        let TargetScale { mean, deviation } = self.scale;
        let standard: Vec<f64> = actual.iter().map(|y| (y - mean) / deviation).collect();
        self.standard.log_density(&standard).into_iter().map(|density| density - deviation.ln()).collect()
    }
}

/// A feature in the user's units.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FeatureSummary {
    /// Its name.
    pub name: String,
    /// Weight: target units per unit of the input for linear features, per standardized feature otherwise.
    pub coefficient: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// 1/γ relative to the largest.
    pub relevance: f64,
    /// Whether it is still in the model.
    pub kept: bool,
}

impl Regression {
    /// Fits a table; `observer` sees every iteration and can stop it.
    pub fn fit<O: Observer + Send>(
        table: &Table,
        options: &RegressionOptions,
        observer: &mut O,
    ) -> Result<Fitted, RegressionError> {
        let prepared = Prepared::new(table, options, observer.stop())?;
        if options.auto == Auto::default() {
            let (features, start) = prepared.learn_features(options)?;
            prepared.fit(features, start, options, None, observer)
        } else {
            fit_chosen(&prepared, options, observer)
        }
    }

    /// Whether this is the table that the regression was fitted to.
    pub fn was_fitted_to(&self, table: &Table) -> Result<bool, RegressionError> {
        let Observed { inputs, rows, target: y, .. } = Observed::of(&self.encoder, table)?;
        Ok(rows == self.rows && Fingerprint::of(&inputs, &y) == self.fingerprint)
    }

    /// The group of features that shares a precision, for each feature.
    pub fn feature_groups(&self) -> Vec<usize> {
        let first = usize::from(self.options.intercept);
        self.features.groups(&self.encoder.groups()).iter().map(|group| group + first).collect()
    }

    /// Predicts the rows of a table that have all inputs, with intervals of the given level.
    pub fn predict(&self, table: &Table, level: f64) -> Result<TablePrediction, RegressionError> {
        let Encoded { inputs, rows, mut notes } = self.encoder.encode(table, &[])?;
        let features = self.features.transform(inputs.as_ref())?;
        let gaps = self.features.gaps(inputs.as_ref(), features.as_ref())?;
        let design = with_intercept(features, self.options.intercept);
        let mut prediction = self.model.predict(design.as_ref())?;
        if let Some(gaps) = gaps {
            prediction = prediction.widened(&gap_variances(&gaps, &self.model, self.options.intercept));
        }
        notes.extend(self.note_beyond(&inputs)?);
        let interval = prediction.interval(level)?;
        let TargetScale { mean, deviation } = self.target;
        let unscaled = |values: &[f64]| values.iter().map(|value| mean + deviation * value).collect();
        Ok(TablePrediction {
            rows,
            mean: unscaled(&prediction.mean),
            std: prediction.std.iter().map(|std| deviation * std).collect(),
            lower: unscaled(&interval.lower),
            upper: unscaled(&interval.upper),
            notes,
            scale: self.target,
            standard: prediction,
        })
    }

    /// The expected values alone of the rows of a table that have all inputs, which takes less time.
    pub fn predict_mean(&self, table: &Table) -> Result<TableMeans, RegressionError> {
        let Encoded { inputs, rows, mut notes } = self.encoder.encode(table, &[])?;
        let design = with_intercept(self.features.transform(inputs.as_ref())?, self.options.intercept);
        notes.extend(self.note_beyond(&inputs)?);
        let TargetScale { mean, deviation } = self.target;
        let means = self.model.predict_mean(design.as_ref())?.iter().map(|value| mean + deviation * value).collect();
        Ok(TableMeans { rows, mean: means, notes })
    }

    /// Covariance of the predicted means of the rows of a table that have all inputs, without noise, in squared target units.
    pub fn latent_covariance(&self, table: &Table) -> Result<Mat<f64>, RegressionError> {
        let inputs = self.encoder.encode(table, &[])?.inputs;
        let design = with_intercept(self.features.transform(inputs.as_ref())?, self.options.intercept);
        let standard = self.model.latent_covariance(design.as_ref())?;
        let unit = self.target.deviation.powi(2);
        Ok(Mat::from_fn(standard.nrows(), standard.ncols(), |i, j| unit * standard[(i, j)]))
    }

    /// Covariance of the telling features' coefficients in the user's units; 0 where left out.
    pub fn coefficient_covariance(&self) -> Mat<f64> {
        let (first, telling) = (usize::from(self.options.intercept), self.telling_features());
        let design = Mat::from_fn(telling, self.model.coefficients.len(), |i, j| f64::from(u8::from(j == i + first)));
        match self.model.latent_covariance(design.as_ref()) {
            Ok(standard) => Mat::from_fn(telling, telling, |i, j| self.unit(i) * self.unit(j) * standard[(i, j)]),
            Err(_) => Mat::zeros(telling, telling),
        }
    }

    /// Target units per unit of a feature.
    fn unit(&self, feature: usize) -> f64 {
        match &self.features.basis {
            Basis::Linear | Basis::Waves(_) | Basis::Smooth(_) => {
                self.target.deviation / self.features.inputs.scale[feature]
            }
            _ => self.target.deviation,
        }
    }

    fn note_beyond(&self, inputs: &Mat<f64>) -> Result<Option<String>, FeatureError> {
        let names = self.encoder.names();
        let beyond = self.features.beyond(inputs.as_ref())?;
        let columns: Vec<String> = beyond.iter().map(|(j, count)| format!("'{}' ({count})", names[*j])).collect();
        Ok((!columns.is_empty()).then(|| {
            format!(
                "rows outside the range of the training rows (or six standard deviations) in {}: the curve stays as at the \
                 border{}",
                columns.join(", "),
                if self.features.bends().is_some() { ", with wider error bars" } else { "" }
            )
        }))
    }

    /// Whether all parts fit together, as they do in every fitted regression but perhaps not in a file.
    pub fn check(&self) -> Result<(), String> {
        self.model.check()?;
        let inputs = self.encoder.names().len();
        let design = self.features.names(&self.encoder.names()).len() + usize::from(self.options.intercept);
        let scaling = &self.features.inputs;
        let agree = self.model.coefficients.len() == design
            && scaling.mean.len() == inputs
            && scaling.scale.len() == inputs
            && self.rows.len() == self.model.rows.target.len()
            && self.set_aside.iter().all(|&row| row < self.rows.len())
            && self.paths.groups.iter().all(|path| path.relevance.len() == self.paths.iterations.len())
            && self
                .paths
                .rows
                .iter()
                .all(|path| path.relevance.len() == self.paths.iterations.len() && path.index < self.rows.len())
            && self.features.is_consistent(inputs);
        if agree { Ok(()) } else { Err("its parts are of different sizes".to_owned()) }
    }

    /// Diagnostics of the training rows; residuals and predictions are in standardized units, see [`Regression::target`].
    /// Rows set aside are flagged.
    pub fn diagnose(&self) -> Diagnostics {
        let mut diagnostics = self.model.diagnose();
        for &row in &self.set_aside {
            diagnostics.flagged[row] = true;
            if let Some(probability) = &mut diagnostics.outlier_probability {
                probability[row] = 1.0;
            }
        }
        diagnostics
    }

    /// Share of the training rows inside their leave-one-out interval of a level.
    pub fn coverage(&self, level: f64) -> f64 {
        coverage(&self.model, level)
    }

    /// Actual value of a training row, in the target's units.
    pub fn actual(&self, row: usize) -> f64 {
        self.target.mean + self.target.deviation * self.model.rows.target[row]
    }

    /// The features that have a meaning of their own: all, but of learnt curves only the inputs.
    pub fn telling_features(&self) -> usize {
        match self.features.bends() {
            Some(bends) => bends.len(),
            None => self.model.coefficients.len() - usize::from(self.options.intercept),
        }
    }

    /// Relevance of each telling feature: 1/γ, or for a learnt curve its mean squared slope along the input, by the line's
    /// weight and the curve's lengthscales.
    pub fn relevances(&self) -> Vec<f64> {
        let first = usize::from(self.options.intercept);
        match self.features.bends() {
            Some(bends) => {
                let [_, curve] = prior_variances(&self.model, self.options.intercept);
                let slope = |j: usize| self.model.coefficients[j + first];
                bends.iter().enumerate().map(|(j, bend)| curve * bend + slope(j).powi(2)).collect()
            }
            None => self.model.weight_precision[first..].iter().map(|precision| 1.0 / precision).collect(),
        }
    }

    /// Precisions and lengthscales that were learnt.
    pub fn learnt_relevances(&self) -> usize {
        let model = &self.model;
        let is_learnt = |column: &&usize| !model.fixed_columns.contains(column);
        // Columns of one group have the very same precision.
        let mut precisions: Vec<u64> = model
            .active_columns
            .iter()
            .filter(is_learnt)
            .map(|&column| model.weight_precision[column].to_bits())
            .collect();
        precisions.sort_unstable();
        precisions.dedup();
        let lengthscales = match &self.features.basis {
            Basis::Waves(waves) => waves.log_scales.len(),
            Basis::Smooth(smooth) => smooth.curve.scales.len() + smooth.curve.singles.len(),
            _ => 0,
        };
        precisions.len() + lengthscales
    }

    /// Whether so many precisions were learnt from so few rows that the quality is better than that of new rows would be: they
    /// are held as learnt from all rows, the one left out among them.
    pub fn quality_is_optimistic(&self) -> bool {
        const ROWS_PER_PRECISION: usize = 10;
        ROWS_PER_PRECISION * self.learnt_relevances() > self.rows.len()
    }

    /// The features, most relevant first, in the user's units. Of learnt curves these are the inputs, and their coefficients
    /// those of the linear part.
    pub fn feature_summaries(&self) -> Vec<FeatureSummary> {
        let mut summaries = self.features_in_units();
        summaries.sort_by(|a, b| b.relevance.total_cmp(&a.relevance));
        summaries
    }

    /// The same in the order of the features.
    pub fn features_in_units(&self) -> Vec<FeatureSummary> {
        let mut names = self.features.names(&self.encoder.names());
        names.truncate(self.telling_features());
        let first = usize::from(self.options.intercept);
        let relevances = self.relevances();
        let largest = relevances.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let is_curve = self.features.bends().is_some();
        let is_active = self.model.is_active();
        names
            .into_iter()
            .enumerate()
            .map(|(j, name)| {
                let kept = if is_curve { relevances[j] >= LEAST_SLOPE * largest } else { is_active[j + first] };
                FeatureSummary {
                    name,
                    coefficient: self.model.coefficients[j + first] * self.unit(j),
                    standard_error: self.model.standard_errors[j + first] * self.unit(j),
                    relevance: if kept { relevances[j] / largest } else { 0.0 },
                    kept,
                }
            })
            .collect()
    }

    /// γ of the telling features in the user's units: precisions of the coefficients.
    pub fn precisions_in_units(&self) -> Vec<f64> {
        let first = usize::from(self.options.intercept);
        let precision = &self.model.weight_precision[first..];
        (0..self.telling_features()).map(|j| precision[j] / self.unit(j).powi(2)).collect()
    }

    /// The intercept of linear features in the user's units: the prediction where every input is zero.
    pub fn intercept_in_units(&self) -> Option<f64> {
        if !matches!(self.features.basis, Basis::Linear) {
            return None;
        }
        let first = usize::from(self.options.intercept);
        let own = if self.options.intercept { self.model.coefficients[0] } else { 0.0 };
        let scaling = &self.features.inputs;
        let shift: f64 = (0..scaling.mean.len())
            .map(|j| self.model.coefficients[j + first] * scaling.mean[j] / scaling.scale[j])
            .sum();
        Some(self.target.mean + self.target.deviation * (own - shift))
    }
}

/// Relevance of an input along which a curve is flat, relative to that of the most relevant one.
const LEAST_SLOPE: f64 = 1e-3;

impl TargetScale {
    /// Without an intercept the mean is left in.
    pub(crate) fn of(y: &[f64], weight: &[f64], intercept: bool) -> Self {
        let standard = Standardizer::weighted(MatRef::from_column_major_slice(y, y.len(), 1), weight);
        Self { mean: if intercept { standard.mean[0] } else { 0.0 }, deviation: standard.scale[0] }
    }
}

impl Quality {
    /// Rows count as often as their weights say.
    pub(crate) fn of(model: &FittedModel, scale: TargetScale) -> Self {
        let diagnostics = model.diagnose();
        let actual = &model.rows.target;
        let weight = &model.rows.weight;
        let total: f64 = weight.iter().sum();
        let mean_of = |value: &dyn Fn(usize) -> f64| -> f64 {
            (0..actual.len()).map(|row| weight[row] * value(row)).sum::<f64>() / total
        };
        let error = mean_of(&|row| diagnostics.loo_residual[row].powi(2)).sqrt();
        let mean = mean_of(&|row| actual[row]);
        let spread = mean_of(&|row| (actual[row] - mean).powi(2)).sqrt();
        Self {
            loo_rmse: scale.deviation * error,
            loo_r2: if spread > 0.0 { 1.0 - (error / spread).powi(2) } else { 0.0 },
            loo_median_error: scale.deviation * weighted_median(&diagnostics.loo_residual, weight),
            coverage_95: coverage(model, 0.95),
        }
    }
}

/// Share of the rows, each counted as often as its weight says, inside their leave-one-out interval.
fn coverage(model: &FittedModel, level: f64) -> f64 {
    let diagnostics = model.diagnose();
    let half = model.predictive_noise(model.base_noise).half_widths(level, &diagnostics.loo_latent_variance);
    let inside = diagnostics.loo_residual.iter().zip(&half).zip(&model.rows.weight);
    let inside: f64 = inside.filter(|((error, half), _)| error.abs() <= **half).map(|(_, weight)| weight).sum();
    inside / model.rows.weight.iter().sum::<f64>()
}

/// Median of absolute values, each counted as often as its weight says.
fn weighted_median(values: &[f64], weight: &[f64]) -> f64 {
    let mut order: Vec<(f64, f64)> = values.iter().zip(weight).map(|(value, w)| (value.abs(), *w)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = 0.5 * weight.iter().sum::<f64>();
    let mut before = 0.0;
    for (k, (value, w)) in order.iter().enumerate() {
        before += w;
        if before > half {
            return *value;
        }
        if before == half {
            return 0.5 * (value + order.get(k + 1).map_or(*value, |next| next.0));
        }
    }
    f64::NAN
}
