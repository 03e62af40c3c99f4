//! A fitted regression: all that prediction, diagnosis and reports need, in the target's units.

use std::time::{Duration, Instant};

use faer::{Mat, MatRef, Par};
use robustard_engine::solver::Paths;
use robustard_engine::{FittedModel, Interval, Noise, PredictError, PredictiveNoise, Settings, Status};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::control::{Control, Progress, Stage, par};
use crate::dataset::Dataset;
use crate::design::{Beyond, Design};
use crate::diagnostics::Diagnostics;
use crate::effects::{Background, Effects, Explanation, KnownEffects, SimilarRow};
use crate::features::FeatureKind;
use crate::fitted::{Fit, Whole};
use crate::quality::{CHECKED_LEVELS, PartCoverage, Quality};
use crate::recipe::Recipe;
use crate::scaling::Standardizer;
use crate::selection::{Chosen, Selection, choose};
use crate::target::{Predicted, TargetTransform};
use crate::work::Work;

/// Rows predicted together, so that the room needed does not grow with the table.
const BLOCK: usize = 1024;
/// Fewer rows than these are predicted on the caller's own thread.
const FEW_ROWS: usize = 64;

/// Fits a data set.
///
/// A fit that is stopped ends with what there is; its [`Regression::status`] says so.
pub fn fit(dataset: &Dataset<'_>, recipe: &Recipe, control: &Control) -> Result<Regression, Error> {
    let recipe = &recipe.clone().checked()?;
    control.run(|| {
        let started = Instant::now();
        let work = Work::new(dataset, recipe, control)?;
        let Chosen { candidate, selection } = choose(&work)?;
        drop(work);
        control.enter(Stage::Diagnosing);
        let paths = candidate.paths();
        let status = if control.is_stopped() { Status::Interrupted } else { candidate.fit.model.status() };
        let recipe = recipe.clone();
        let background = Background::of(dataset, &candidate.fit.set_aside, recipe.seed());
        let elapsed = started.elapsed();
        let fitting = if selection.is_some() { candidate.fit.model.outcome().elapsed } else { elapsed };
        let times = Times { elapsed, fitting };
        let effects = KnownEffects::default();
        Ok(Regression { recipe, fit: candidate.fit, selection, paths, status, times, background, effects })
    })
}

/// A fitted regression.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Regression {
    recipe: Recipe,
    #[serde(flatten)]
    fit: Fit,
    selection: Option<Selection>,
    paths: Paths,
    status: Status,
    /// Not saved, so that two equal fits are equal files.
    #[serde(skip)]
    times: Times,
    background: Background,
    #[serde(skip)]
    effects: KnownEffects,
}

/// Where the time went.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Times {
    /// All of it.
    pub elapsed: Duration,
    /// The last fit, of what was chosen.
    pub fitting: Duration,
}

/// Predictions of rows, in the target's units.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Prediction {
    /// Expected value.
    pub mean: Vec<f64>,
    /// As many targets are expected above as below; the mean, unless the target is transformed.
    pub median: Vec<f64>,
    /// Standard deviation of a new observation; of a transformed target, half the width of the interval of one standard deviation.
    pub std: Vec<f64>,
    /// Variance of the regression function.
    pub latent_variance: Vec<f64>,
    values: Predicted,
    /// Inputs that lie outside the range of the training rows, where a curve stays as at its border.
    pub beyond: Vec<Beyond>,
}

/// Expected values of rows, in the target's units.
#[derive(Debug, Clone, PartialEq)]
pub struct Means {
    /// The expected values.
    pub mean: Vec<f64>,
    /// Inputs that lie outside the range of the training rows.
    pub beyond: Vec<Beyond>,
}

impl Prediction {
    fn new(values: Predicted, beyond: Vec<Beyond>) -> Self {
        let (mean, median) = (values.mean(), values.median());
        let (std, latent_variance) = (values.std(), values.latent_variance());
        Self { mean, median, std, latent_variance, values, beyond }
    }

    /// Central intervals that hold new observations with probability `level`.
    pub fn interval(&self, level: f64) -> Result<Interval, PredictError> {
        self.values.interval(level)
    }

    /// The noise of a new observation, in units of what is fitted: of the target, unless that is transformed.
    pub fn noise(&self) -> &PredictiveNoise {
        self.values.noise()
    }

    /// Log densities of the observations that came true, under the same distribution as the intervals.
    #[must_use]
    pub fn log_density(&self, actual: &[f64]) -> Vec<f64> {
        self.values.log_density(actual)
    }
}

impl Regression {
    /// How it was asked for.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The features that were fitted.
    pub fn features(&self) -> FeatureKind {
        self.fit.features
    }

    /// The noise that was fitted.
    pub fn noise(&self) -> Noise {
        self.fit.settings.noise
    }

    /// The engine's settings of the fit.
    pub fn settings(&self) -> &Settings {
        &self.fit.settings
    }

    /// Scaling, intercept and features.
    pub fn design(&self) -> &Design {
        &self.fit.design
    }

    /// The engine's model, in standard units.
    pub fn model(&self) -> &FittedModel {
        &self.fit.model
    }

    /// What was compared, if anything was chosen.
    pub fn selection(&self) -> Option<&Selection> {
        self.selection.as_ref()
    }

    /// The training rows that were set aside as gross errors.
    pub fn set_aside(&self) -> &[usize] {
        &self.fit.set_aside
    }

    /// Relevances of features and rows over the iterations, in standard units; groups are those of [`Design::feature_groups`].
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// How the work ended. The model is usable in every case.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The time that the whole work took, choosing included; 0 of a regression that was saved.
    pub fn elapsed(&self) -> Duration {
        self.times.elapsed
    }

    /// How much of that went into the last fit, of what was chosen.
    pub fn fitting_time(&self) -> Duration {
        self.times.fitting
    }

    /// The rest: learning features, and comparing them and noise models, if there was a choice.
    pub fn choosing_time(&self) -> Duration {
        self.times.elapsed.saturating_sub(self.times.fitting)
    }

    /// A fit by passes over all rows, of which it keeps some.
    pub(crate) fn of_passes(recipe: &Recipe, fit: Fit, selection: Option<Selection>, kept: &Dataset<'_>) -> Self {
        let background = Background::of(kept, &fit.set_aside, recipe.seed());
        let (status, effects, times) = (fit.model.status(), KnownEffects::default(), Times::default());
        Self { recipe: recipe.clone(), fit, selection, paths: Paths::default(), status, times, background, effects }
    }

    /// With what is known of all rows.
    pub(crate) fn with_whole(mut self, whole: Whole) -> Self {
        self.fit.whole = Some(whole);
        self.fit.known = Default::default();
        self
    }

    pub(crate) fn with_times(self, times: Times) -> Self {
        Self { times, ..self }
    }

    pub(crate) fn fit(&self) -> &Fit {
        &self.fit
    }

    /// What is known of all rows, if the model keeps only some of them.
    pub fn whole(&self) -> Option<&Whole> {
        self.fit.whole.as_ref()
    }

    /// Number of rows fitted.
    pub fn fitted_rows(&self) -> u64 {
        self.fit.model.row_count()
    }

    /// Number of training rows that the model keeps: all, unless it was fitted by passes over them.
    pub fn row_count(&self) -> usize {
        self.fit.model.rows().count()
    }

    /// Diagnostics of the training rows; worked out once.
    pub fn diagnostics(&self) -> &Diagnostics {
        self.fit.diagnostics()
    }

    /// The training rows, by their places among those that the model keeps, that explanations may call similar.
    pub fn explaining_rows(&self) -> &[usize] {
        &self.background.rows
    }

    /// How well each row is predicted from the others; worked out once.
    pub fn quality(&self) -> &Quality {
        self.fit.quality()
    }

    /// Share of the training rows inside their leave-one-out interval of a level: the interval that predictions have.
    pub fn coverage(&self, level: f64) -> f64 {
        self.fit.coverage(level)
    }

    /// The same at many levels.
    pub fn coverages(&self, levels: &[f64]) -> Vec<f64> {
        self.fit.coverages(levels, &self.fit.model.rows().weight)
    }

    /// The same of the rows that are not flagged.
    pub fn coverages_of_unflagged(&self, levels: &[f64]) -> Vec<f64> {
        let rows = self.fit.model.rows().weight.iter().zip(&self.diagnostics().flagged);
        let weight: Vec<f64> = rows.map(|(weight, flagged)| if *flagged { 0.0 } else { *weight }).collect();
        self.fit.coverages(levels, &weight)
    }

    /// Coverage of the leave-one-out intervals of half and of 95% of the rows, of all rows and of thirds of the predictions, where rows are
    /// enough to tell: what says whether intervals can be trusted.
    pub fn coverage_checks(&self) -> Vec<PartCoverage> {
        let level = |level: f64| {
            let inside = self.fit.inside(level);
            let all = PartCoverage::all(self.diagnostics(), &inside, level);
            all.into_iter().chain(PartCoverage::thirds(self.diagnostics(), &inside, level))
        };
        CHECKED_LEVELS.into_iter().flat_map(level).collect()
    }

    /// What each column does to predictions; worked out once.
    pub fn effects(&self) -> &Effects {
        self.effects.get(&self.fit, &self.background)
    }

    /// What each column contributes to the predictions of rows of inputs (m × p), in the target's units.
    pub fn explain(&self, inputs: MatRef<'_, f64>) -> Result<Vec<Explanation>, Error> {
        self.fit.design.check(inputs)?;
        Ok(self.effects().explain(&self.fit, &self.background, inputs))
    }

    /// The training rows, of up to 1000 that the model keeps, whose targets have most weight in the prediction of each row of inputs
    /// (m × p).
    pub fn similar_rows(&self, inputs: MatRef<'_, f64>, most: usize) -> Result<Vec<Vec<SimilarRow>>, Error> {
        self.fit.design.check(inputs)?;
        Ok(self.background.similar(&self.fit, inputs, most))
    }

    /// How unusual each column's value is in each row of inputs (m × p) among the training rows that the model keeps,
    /// as the standard deviations beyond which two normal tails hold as
    /// many rows as are as far out, or have a level as rare; beyond all rows, the distance from the median in robust standard deviations.
    pub fn unusual(&self, inputs: MatRef<'_, f64>) -> Result<Vec<Vec<f64>>, Error> {
        self.fit.design.check(inputs)?;
        Ok(self.background.unusual(inputs))
    }

    /// Log evidence of the target, in its units.
    pub fn log_evidence(&self) -> f64 {
        self.in_target_units(-self.fit.model.neg_log_evidence())
    }

    /// Bound on the log evidence of the target after each iteration, in its units; for shared noise the log evidence itself.
    pub fn scores(&self) -> Vec<f64> {
        let trace = &self.fit.model.outcome().trace;
        trace.iter().map(|record| self.in_target_units(-record.objective)).collect()
    }

    /// A log density of all standardized targets, as one of the targets.
    fn in_target_units(&self, log_density: f64) -> f64 {
        let of_kept = || self.fit.model.rows().weight.iter().sum();
        let rows = self.fit.model.seen().map_or_else(of_kept, |seen| seen.weight);
        self.fit.design.target().log_density(log_density, rows)
    }

    /// λ of each training row, in squared target units where the row is expected.
    pub fn noise_variance(&self) -> Vec<f64> {
        let (scale, rows) = (self.fit.design.target(), self.fit.model.rows());
        if scale.transform() == TargetTransform::None {
            return rows.noise_variance.iter().map(|variance| scale.variance(*variance)).collect();
        }
        self.diagnostics().noise_variance.clone()
    }

    /// Variance of the noise of a row that is not an outlier, in squared target units where the mean of what is fitted is expected.
    pub fn inlier_variance(&self) -> f64 {
        self.fit.design.target().variance_at(0.0, self.fit.model.inlier_variance())
    }

    /// Predicts rows of inputs (m × p), in the target's units.
    pub fn predict(&self, inputs: MatRef<'_, f64>) -> Result<Prediction, Error> {
        self.predict_under(inputs, &Control::new())
    }

    /// The same under a control, which can stop it.
    pub fn predict_under(&self, inputs: MatRef<'_, f64>, control: &Control) -> Result<Prediction, Error> {
        let Fit { design, model, .. } = &self.fit;
        let m = inputs.nrows();
        let (mut mean, mut variance, mut widths) = (Vec::with_capacity(m), Vec::with_capacity(m), Vec::new());
        let beyond = self.by_blocks(inputs, control, |standard, par| {
            let (rows, gaps) = design.columns(standard, par);
            let latent = model.predict_rows(rows.as_ref())?;
            // The same numbers as without variances.
            let means = self.fit.folded_means(standard, par).unwrap_or(latent.mean);
            widths.extend(self.fit.widths.iter().flat_map(|widths| widths.at(standard, &means)));
            mean.extend(means);
            match &gaps {
                Some(gaps) => {
                    let unseen = design.unseen_variance(gaps, model);
                    variance.extend(latent.variance.iter().zip(unseen).map(|(variance, unseen)| variance + unseen));
                }
                None => variance.extend(latent.variance),
            }
            Ok(())
        })?;
        let standard = robustard_engine::Prediction::new(mean, variance, self.fit.predictive_noise());
        let standard = standard.with_widths(widths);
        Ok(Prediction::new(design.target().prediction(standard), beyond))
    }

    /// The expected values alone, which takes less time.
    pub fn predict_mean(&self, inputs: MatRef<'_, f64>) -> Result<Vec<f64>, Error> {
        Ok(self.predict_mean_under(inputs, &Control::new())?.mean)
    }

    /// The same under a control, which can stop it, with what lies outside the range.
    pub fn predict_mean_under(&self, inputs: MatRef<'_, f64>, control: &Control) -> Result<Means, Error> {
        let Fit { design, model, .. } = &self.fit;
        let mut mean = Vec::with_capacity(inputs.nrows());
        let beyond = self.by_blocks(inputs, control, |standard, par| {
            let means = match self.fit.folded_means(standard, par) {
                Some(means) => means,
                None => model.mean_rows(design.columns(standard, par).0.as_ref())?,
            };
            mean.extend(means.into_iter().map(|value| design.target().expected(value)));
            Ok(())
        })?;
        Ok(Means { mean, beyond })
    }

    /// Covariance of the regression function at rows of inputs (m × p), without noise, in squared target units: m × m. Its diagonal
    /// is the latent variance of predictions.
    pub fn latent_covariance(&self, inputs: MatRef<'_, f64>) -> Result<Mat<f64>, Error> {
        self.latent_covariance_under(inputs, &Control::new())
    }

    /// The same under a control, which can stop it before it begins.
    pub fn latent_covariance_under(&self, inputs: MatRef<'_, f64>, control: &Control) -> Result<Mat<f64>, Error> {
        let Fit { design, model, .. } = &self.fit;
        design.check(inputs)?;
        if control.is_stopped() {
            return Err(Error::Stopped);
        }
        control.enter(Stage::Predicting);
        control.run(|| {
            let standard = design.standardize(inputs);
            let (rows, gaps) = design.columns(standard.as_ref(), par());
            let mut covariance = model.latent_covariance(rows.transpose())?;
            if let Some(unseen) = design.unseen_covariance(standard.as_ref(), rows.as_ref(), model) {
                covariance += unseen;
            }
            // To the last bit the variances of predictions.
            let own = model.predict_rows(rows.as_ref())?.variance;
            let unseen = gaps.map_or_else(|| vec![0.0; own.len()], |gaps| design.unseen_variance(&gaps, model));
            own.iter().zip(unseen).enumerate().for_each(|(i, (own, unseen))| covariance[(i, i)] = own + unseen);
            let scale = design.target();
            let (m, whole) = (covariance.nrows(), |i, j| scale.variance(covariance[(i, j)]));
            if scale.transform() == TargetTransform::None {
                return Ok(Mat::from_fn(m, m, whole));
            }
            let means = match self.fit.folded_means(standard.as_ref(), par()) {
                Some(means) => means,
                None => model.mean_rows(rows.as_ref())?,
            };
            let unit = scale.variance(1.0);
            let slopes: Vec<f64> = means.iter().map(|mean| (scale.variance_at(*mean, 1.0) / unit).sqrt()).collect();
            Ok(Mat::from_fn(m, m, |i, j| slopes[i] * slopes[j] * whole(i, j)))
        })
    }

    /// Shows blocks of rows, standardized; gives back which inputs are out of range.
    fn by_blocks(
        &self,
        inputs: MatRef<'_, f64>,
        control: &Control,
        mut show: impl FnMut(MatRef<'_, f64>, Par) -> Result<(), Error> + Send,
    ) -> Result<Vec<Beyond>, Error> {
        let design = &self.fit.design;
        design.check(inputs)?;
        let m = inputs.nrows();
        let mut beyond = vec![0; inputs.ncols()];
        let mut show_block = |start: usize, par: Par| {
            let standard = design.standardize(inputs.subrows(start, BLOCK.min(m - start)));
            design.beyond(standard.as_ref()).iter().for_each(|(input, rows)| beyond[*input] += rows);
            show(standard.as_ref(), par)
        };
        if m <= FEW_ROWS {
            (0..m).step_by(BLOCK).try_for_each(|start| show_block(start, Par::Seq))?;
        } else {
            control.enter(Stage::Predicting);
            control.run(|| {
                for start in (0..m).step_by(BLOCK) {
                    if control.is_stopped() {
                        return Err(Error::Stopped);
                    }
                    show_block(start, par())?;
                    control.tell(Progress::Share((start + BLOCK).min(m) as f64 / m as f64));
                }
                Ok(())
            })?;
        }
        let outside = beyond.iter().enumerate().filter(|(_, rows)| **rows > 0);
        Ok(outside.map(|(input, &rows)| Beyond { name: design.input_names()[input].clone(), rows }).collect())
    }

    /// Whether all parts fit together, as they do in every fitted regression but perhaps not in a file.
    pub fn check(&self) -> Result<(), String> {
        self.fit.check()?;
        if !self.background.is_consistent(self.fit.design.input_names().len(), self.row_count()) {
            return Err("its parts are of different sizes".to_owned());
        }
        let iterations = self.paths.iterations.len();
        let fits = |path: &robustard_engine::solver::Path| path.relevance.len() == iterations;
        let agree = self.paths.groups.iter().all(fits)
            && self.paths.rows.iter().all(|path| fits(path) && path.index < self.row_count());
        if !agree {
            return Err("its parts are of different sizes".to_owned());
        }
        if self.predicts() { Ok(()) } else { Err("its predictions are not finite".to_owned()) }
    }

    /// Whether predictions in the middle of the training rows, and a standard deviation from it, are finite.
    fn predicts(&self) -> bool {
        let Standardizer { mean, scale } = self.fit.design.inputs();
        [-1.0, 0.0, 1.0].into_iter().all(|step| {
            let row = Mat::from_fn(1, mean.len(), |_, input| mean[input] + step * scale[input]);
            // Inputs near the largest number have no neighbours.
            let is_place = row.row(0).iter().all(|value| value.is_finite());
            let is_finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
            !is_place
                || self
                    .predict(row.as_ref())
                    .is_ok_and(|Prediction { mean, std, .. }| is_finite(&mean) && is_finite(&std))
        })
    }
}
