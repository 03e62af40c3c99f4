//! A data set at work: standardized once, and fitted as often as candidates are compared.

use std::sync::{Arc, OnceLock};

use faer::{ColRef, Mat};
use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;
use robustard_engine::math::order::median;
use robustard_engine::problem::UNSHRUNK;
use robustard_engine::solver::{PathRecorder, Paths};
use robustard_engine::{
    BaseNoise, FitError, LatentPrediction, LeftOut, Noise, Problem, Settings, SolverError, Start, fit_from,
};

use crate::Error;
use crate::calibration::calibrate;
use crate::control::{Control, Stage, Watched, par};
use crate::dataset::Dataset;
use crate::design::{Design, input_scaling};
use crate::features::{
    FeatureError, FeatureKind, FeatureMap, Gap, Learnt, LearntSmooth, Scaling, SmoothKind, SmoothOptions, Training,
    learn_smooth,
};
use crate::fitted::Fit;
use crate::learn::{Effort, Relevance, relevance};
use crate::moments::Moments;
use crate::range::Range;
use crate::recipe::{IntervalRows, Recipe};
use crate::scaling::{Standardizer, typing_errors_of_target};
use crate::target::{TargetScale, TargetTransform};
use crate::widths::{self, Widths};

/// Standard deviations beyond which inputs and targets are typing errors.
pub(crate) const FAR: f64 = 1e3;
/// How much rows that are set aside count.
pub(crate) const SET_ASIDE: f64 = 1e-8;

/// A data set and how it is fitted.
pub(crate) struct Work<'a> {
    pub dataset: &'a Dataset<'a>,
    pub recipe: &'a Recipe,
    pub control: &'a Control,
    scale: TargetScale,
    /// The rows whose targets can only be typing errors: nothing is learnt from them.
    pub far_targets: Vec<usize>,
    /// The target, standardized.
    standard: Arc<Vec<f64>>,
    /// Scaling of inputs to a standard deviation of 1, and the inputs scaled so.
    scaling: Standardizer,
    /// Whether scaled columns are of unit size.
    is_standard: bool,
    scaled: OnceLock<Mat<f64>>,
    /// What is known of a larger table that the data set is a sample of.
    whole: Option<&'a Moments>,
    /// Its range, standardized.
    whole_range: Option<Range>,
    /// The least variance that noise can have.
    least_variance: OnceLock<f64>,
    /// The problem of linear features, which several candidates share.
    lines: OnceLock<Problem<'a>>,
}

/// The rows whose targets can only be typing errors, and what the target is standardized by: the others. Where one noise for all rows is
/// asked for, it is that of these rows, too, and none is one.
fn target_scale(dataset: &Dataset<'_>, recipe: &Recipe) -> Result<(Vec<usize>, TargetScale), Error> {
    let is_shared = recipe.noise().given().is_some_and(|noise| noise.is_shared());
    let far = if is_shared { Vec::new() } else { typing_errors_of_target(ColRef::from_slice(dataset.target())) };
    let transform = recipe.target_transform().given().unwrap_or_default();
    let scale = scale_without(dataset, &far, recipe.intercept(), transform)?;
    Ok((far, scale))
}

/// What the target is standardized by: all rows but some.
fn scale_without(
    dataset: &Dataset<'_>,
    far: &[usize],
    intercept: bool,
    transform: TargetTransform,
) -> Result<TargetScale, Error> {
    if far.is_empty() {
        return TargetScale::of(dataset, intercept, transform);
    }
    let others: Vec<usize> = (0..dataset.row_count()).filter(|row| far.binary_search(row).is_err()).collect();
    TargetScale::of(&dataset.take(&others), intercept, transform)
}

/// The variance of rounding to the steps between the values that most rows have; 0 if many rows have values of their own. Values that two
/// thirds of the rows share are steps; fewer may be limits that a target was cut off at. Of standardized values.
fn rounding_variance(values: &[f64]) -> f64 {
    /// Steps are no larger than the standard deviation.
    const LARGEST: f64 = 1.0 / 12.0;
    /// Share of the rows that makes a value frequent: wrong rows may lie anywhere between.
    const FREQUENT: f64 = 0.01;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let least = (FREQUENT * values.len() as f64).max(2.0);
    let runs: Vec<&[f64]> = sorted.chunk_by(|a, b| a == b).filter(|run| run.len() as f64 >= least).collect();
    let rows: usize = runs.iter().map(|run| run.len()).sum();
    if runs.len() < 2 || 3 * rows < 2 * values.len() {
        return 0.0;
    }
    let step = |k: usize| {
        let to = |other: usize| runs.get(other).map_or(f64::INFINITY, |run| (run[0] - runs[k][0]).abs());
        to(k.wrapping_sub(1)).min(to(k + 1))
    };
    let steps: Vec<f64> = (0..runs.len()).flat_map(|k| std::iter::repeat_n(step(k), runs[k].len())).collect();
    (median(&steps).powi(2) / 12.0).min(LARGEST)
}

/// A fit among those compared, with its relevances over the iterations.
pub(crate) struct Candidate {
    pub fit: Fit,
    pub recorder: PathRecorder,
}

/// Features that were learnt, and where their fit starts.
pub(crate) struct Learning {
    pub design: Design,
    pub start: Option<Start>,
}

impl<'a> Work<'a> {
    pub fn new(dataset: &'a Dataset<'a>, recipe: &'a Recipe, control: &'a Control) -> Result<Self, Error> {
        Self::of_sample(dataset, None, recipe, control)
    }

    /// The same of a sample of a larger table, which inputs and target are scaled by.
    pub fn of_sample(
        dataset: &'a Dataset<'a>,
        whole: Option<&'a Moments>,
        recipe: &'a Recipe,
        control: &'a Control,
    ) -> Result<Self, Error> {
        let (far_targets, scale) = target_scale(dataset, recipe)?;
        let scale = match whole.and_then(Moments::of_target) {
            Some(moments) => scale.with_moments(moments, recipe.intercept()),
            None => scale,
        };
        let (scaling, has_typing_errors) =
            input_scaling(dataset, whole, FeatureKind::linear(), recipe.standardize(), recipe.intercept())?;
        let standard = Arc::new(scale.standardize(dataset.target()));
        let (scaled, least_variance, lines) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        // Scaled by their own means and deviations, rows that count once are of unit size.
        let is_standard =
            recipe.standardize() && recipe.intercept() && dataset.weights().is_none() && !has_typing_errors;
        let is_standard = is_standard && whole.is_none();
        let whole_range = whole.map(|whole| Range::of_ends(whole.ranges(), &scaling));
        Ok(Self {
            dataset,
            recipe,
            control,
            scale,
            far_targets,
            standard,
            scaling,
            is_standard,
            scaled,
            whole,
            whole_range,
            least_variance,
            lines,
        })
    }

    /// The same for some of the rows, with inputs in the same units and the target in its own.
    pub fn on<'b>(&self, some: &'b Dataset<'b>) -> Result<Work<'b>, Error>
    where
        'a: 'b,
    {
        let (far_targets, scale) = target_scale(some, self.recipe)?;
        Ok(self.of(some, scale, far_targets))
    }

    /// The same with the target on another scale.
    pub fn scaled_by(&self, scale: TargetScale) -> Work<'a> {
        self.of(self.dataset, scale.of_the_same(self.dataset), self.far_targets.clone())
    }

    /// The same with something else fitted instead of the target.
    pub fn transformed(&self, transform: TargetTransform) -> Result<Work<'a>, Error> {
        let scale = scale_without(self.dataset, &self.far_targets, self.recipe.intercept(), transform)?;
        Ok(self.scaled_by(scale))
    }

    fn of<'b>(&self, dataset: &'b Dataset<'b>, scale: TargetScale, far_targets: Vec<usize>) -> Work<'b>
    where
        'a: 'b,
    {
        Work {
            dataset,
            recipe: self.recipe,
            control: self.control,
            scale,
            far_targets,
            standard: Arc::new(scale.standardize(dataset.target())),
            scaling: self.scaling.clone(),
            // Of some rows, columns are only nearly of unit size.
            is_standard: self.is_standard && dataset.row_count() == self.dataset.row_count(),
            scaled: OnceLock::new(),
            whole: self.whole,
            whole_range: self.whole_range.clone(),
            least_variance: OnceLock::new(),
            lines: OnceLock::new(),
        }
    }

    /// What the target is standardized by.
    pub fn scale(&self) -> TargetScale {
        self.scale
    }

    /// The target, standardized.
    pub fn standard_target(&self) -> &[f64] {
        &self.standard
    }

    /// The least variance that noise can have, because the target is rounded.
    pub fn least_variance(&self) -> f64 {
        *self.least_variance.get_or_init(|| rounding_variance(&self.standard))
    }

    /// Standardized inputs, n × p.
    fn scaled(&self) -> &Mat<f64> {
        self.scaled.get_or_init(|| self.scaling.transform(self.dataset.inputs().as_ref()))
    }

    /// Which inputs matter for what lines leave, at a glance.
    pub fn relevance(&self, left: &[f64]) -> Relevance {
        relevance(self.scaled().as_ref(), left)
    }

    /// How often each row counts when some are set aside; none if all count once. For a learnt curve, copies of a row count as one
    /// row together and weights are relative to their mean: a curve would take the agreement of a row with itself for the absence
    /// of noise.
    fn weights(&self, set_aside: &[usize], is_curve: bool) -> Option<Vec<f64>> {
        if !is_curve && set_aside.is_empty() && self.far_targets.is_empty() && self.dataset.weights().is_none() {
            return None;
        }
        let n = self.dataset.row_count();
        let mut weights = self.dataset.weights().map_or_else(|| vec![1.0; n], <[f64]>::to_vec);
        if is_curve {
            let copies = self.dataset.copies();
            weights.iter_mut().zip(copies).for_each(|(weight, copies)| *weight /= *copies as f64);
            let distinct: f64 = copies.iter().map(|copies| 1.0 / *copies as f64).sum();
            let mean = weights.iter().sum::<f64>() / distinct;
            weights.iter_mut().for_each(|weight| *weight /= mean);
        }
        let mut is_aside = vec![false; n];
        set_aside.iter().chain(&self.far_targets).for_each(|&row| is_aside[row] = true);
        (0..n).filter(|row| is_aside[*row]).for_each(|row| weights[row] *= SET_ASIDE / self.far_square(row));
        Some(weights)
    }

    /// How often each row counts when fits are compared: typing errors in targets have no say.
    pub fn say(&self) -> Vec<f64> {
        let mut say = self.dataset.weights().map_or_else(|| vec![1.0; self.dataset.row_count()], <[f64]>::to_vec);
        self.far_targets.iter().for_each(|&row| say[row] = 0.0);
        say
    }

    /// The largest square among the standardized inputs and target of a row, where that is so large that it would count even when the
    /// row is set aside; else 1.
    fn far_square(&self, row: usize) -> f64 {
        let Standardizer { mean, scale } = &self.scaling;
        let off = |input: usize| ((self.dataset.column(input)[row] - mean[input]) / scale[input]).abs();
        let farthest = (0..self.dataset.input_count()).map(off).fold(self.standard[row].abs(), f64::max);
        if farthest > FAR { (farthest * farthest).min(1e80) } else { 1.0 }
    }

    fn training<'t>(&'t self, inputs: &'t Mat<f64>, row_weight: &'t [f64], noise: Noise) -> Training<'t> {
        Training {
            inputs: inputs.as_ref(),
            target: &self.standard,
            range: self.whole_range.as_ref(),
            levels: self.dataset.levels(),
            row_weight,
            noise,
            least_variance: self.least_variance(),
            has_transformed_target: self.scale.transform() != TargetTransform::None,
            lengthscale: self.recipe.lengthscale(),
            seed: self.recipe.seed(),
            scaling: Scaling { standardize: self.recipe.standardize(), centre: self.recipe.intercept() },
            control: self.control,
        }
    }

    fn design(&self, scaling: Standardizer, map: FeatureMap) -> Design {
        Design::new(self.dataset, scaling, map, self.scale, self.recipe.intercept())
    }

    /// The features of a kind, learnt with the given noise.
    pub fn learn(&self, kind: FeatureKind, noise: Noise) -> Result<Learning, Error> {
        let is_learnt = kind.learns(self.recipe.lengthscale());
        if kind != FeatureKind::linear() {
            self.control.enter(Stage::Learning { features: kind.to_string(), noise });
        }
        if kind == FeatureKind::linear() {
            let map = kind.learn(&self.training(&Mat::zeros(0, 0), &[], noise))?.map;
            return Ok(Learning { design: self.design(self.scaling.clone(), map), start: None });
        }
        let ranged = kind.scales_to_range().then(|| {
            let (standardize, intercept) = (self.recipe.standardize(), self.recipe.intercept());
            let (scaling, _) = input_scaling(self.dataset, self.whole, kind, standardize, intercept)?;
            let scaled = scaling.transform(self.dataset.inputs().as_ref());
            Ok::<_, Error>((scaling, scaled))
        });
        let ranged = ranged.transpose()?;
        let (scaling, scaled) = match &ranged {
            Some((scaling, scaled)) => (scaling, scaled),
            None => (&self.scaling, self.scaled()),
        };
        let weights = self.weights(&[], is_learnt && !kind.counts_copies());
        let weights = weights.unwrap_or_else(|| vec![1.0; self.dataset.row_count()]);
        let Learnt { map, start } = kind.learn(&self.training(scaled, &weights, noise))?;
        let design = self.design(scaling.clone(), map);
        Ok(Learning { start: start.map(|start| design.start(start)), design })
    }

    /// A smooth curve, learnt with the given noise and without the rows set aside.
    pub fn learn_smooth(
        &self,
        options: &SmoothOptions<'_>,
        noise: Noise,
        set_aside: &[usize],
    ) -> Result<LearntSmooth, Error> {
        self.control.enter(Stage::Learning { features: FeatureKind::Smooth(SmoothKind::default()).to_string(), noise });
        let weights = self.weights(set_aside, true).unwrap_or_default();
        Ok(learn_smooth(&self.training(self.scaled(), &weights, noise), options)?)
    }

    /// The design of a learnt curve, and where its fit starts.
    pub fn smooth(&self, kind: SmoothKind, learnt: &LearntSmooth) -> Result<Learning, Error> {
        let map = learnt.map(kind, self.scaled().as_ref())?;
        let design = self.design(self.scaling.clone(), FeatureMap::Smooth(map));
        Ok(Learning { start: Some(design.start(learnt.start.clone())), design })
    }

    /// The design of a curve that was learnt from some of the rows, seen from as many rows as suit this table, and where its fit starts.
    pub fn smooth_again(&self, kind: SmoothKind, fit: &Fit) -> Result<Learning, Error> {
        let FeatureMap::Smooth(map) = fit.design.map() else { return Err(FeatureError::NotLearnt.into()) };
        let rows = self.whole.map_or(self.dataset.row_count() as u64, Moments::rows);
        let map = map.again(kind, self.scaled().as_ref(), self.dataset.levels(), self.recipe.seed(), rows)?;
        let design = self.design(self.scaling.clone(), FeatureMap::Smooth(map));
        let noise = *fit.model.noise();
        let start = Start {
            weight_precision: fit.design.group_precisions(&fit.model),
            noise,
            noise_variance: vec![noise.variance(0.0); self.dataset.row_count()],
        };
        Ok(Learning { design, start: Some(start) })
    }

    /// What a fit to some of the rows leaves of the standardized target of all rows.
    pub fn residuals(&self, fit: &Fit) -> Result<Vec<f64>, Error> {
        let mut residual = Vec::with_capacity(self.dataset.row_count());
        let mut outcome = Ok(());
        self.dataset.blocks(|start, block| {
            let rows = self.scaling.transform(block);
            let means = match fit.folded_means(rows.as_ref(), par()) {
                Some(means) => Ok(means),
                None => fit.model.mean_rows(fit.design.columns(rows.as_ref(), par()).0.as_ref()),
            };
            match means {
                Ok(means) => residual.extend(self.standard[start..].iter().zip(means).map(|(y, mean)| y - mean)),
                Err(error) => outcome = Err(error),
            }
        });
        outcome?;
        Ok(residual)
    }

    /// How far some rows are from what a fit, which does not know them, predicts, in standard deviations of a right row.
    pub fn z_scores(&self, fit: &Fit, rows: &[usize]) -> Result<Vec<f64>, Error> {
        let LatentPrediction { mean, variance, .. } = self.predicted(fit, rows)?;
        let inlier = fit.model.inlier_variance();
        let z = |(row, (mean, latent)): (&usize, (f64, f64))| (self.standard[*row] - mean) / (inlier + latent).sqrt();
        Ok(rows.iter().zip(mean.into_iter().zip(variance)).map(z).collect())
    }

    /// Lines, and a start at those that were fitted to some of the rows, which leave `residual` of all rows.
    pub fn lines_again(&self, fit: &Fit, residual: &[f64]) -> Result<Learning, Error> {
        let learning = self.learn(FeatureKind::linear(), fit.settings.noise)?;
        let noise = *fit.model.noise();
        let rule = noise.variance_rule();
        let noise_variance = residual.iter().map(|residual| rule(residual * residual)).collect();
        let start = Start { weight_precision: fit.design.group_precisions(&fit.model), noise, noise_variance };
        Ok(Learning { start: Some(start), ..learning })
    }

    fn problem(&self, design: &Design) -> Result<(Problem<'a>, Option<Vec<Gap>>), Error> {
        if !design.is_linear() {
            return Ok(design.problem(self.dataset, Arc::clone(&self.standard), false)?);
        }
        if let Some(problem) = self.lines.get() {
            return Ok((problem.clone(), None));
        }
        let (problem, _) = design.problem(self.dataset, Arc::clone(&self.standard), self.is_standard)?;
        Ok((self.lines.get_or_init(|| problem).clone(), None))
    }

    /// Fits features without the rows set aside.
    pub fn fit(
        &self,
        features: FeatureKind,
        Learning { design, start }: Learning,
        settings: &Settings,
        mut set_aside: Vec<usize>,
    ) -> Result<Candidate, Error> {
        set_aside.extend(&self.far_targets);
        set_aside.sort_unstable();
        set_aside.dedup();
        self.control.enter(Stage::Fitting { features: features.to_string(), noise: settings.noise });
        let (problem, gaps) = self.problem(&design)?;
        let weights = self.weights(&set_aside, gaps.is_some());
        let problem = design.weighted(&problem, weights.as_deref())?;
        let recorder = PathRecorder::new(problem.groups().count(), problem.row_count());
        let mut watched = Watched { control: self.control, recorder };
        let model = fit_from(&problem, settings, start.as_ref(), &mut watched).map_err(|error| match error {
            FitError::Solver(SolverError::SharedPrecision { columns }) => {
                let names = design.feature_names();
                let of = |column: &usize| design.feature_of(*column).and_then(|feature| names.get(feature).cloned());
                Error::SharedPrecision { names: columns.iter().filter_map(of).collect() }
            }
            other => other.into(),
        })?;
        drop(problem);
        let unseen = gaps.map_or_else(Vec::new, |gaps| design.unseen_variance(&gaps, &model));
        let settings = settings.clone();
        let known = Default::default();
        let mut fit = Fit { features, settings, design, model, unseen, set_aside, widths: None, whole: None, known };
        self.calibrate_given(&mut fit);
        Ok(Candidate { fit, recorder: watched.recorder })
    }

    /// Learns the noise that predictions carry from errors of left-out rows, and what errors do to a transformed target.
    pub fn calibrate_given(&self, fit: &mut Fit) {
        if fit.settings.base_noise == BaseNoise::LeftOut {
            let mut weight = self.left_out_weights(!fit.unseen.is_empty());
            if self.recipe.noise().is_auto() {
                fit.set_aside.iter().for_each(|&row| weight[row] = 0.0);
            }
            fit.model.calibrate(&fit.unseen, &weight, 1.0);
        }
        // As far as each row is relied upon.
        let (rows, inlier) = (fit.model.rows(), fit.model.inlier_variance());
        let relied = |(weight, own): (&f64, &f64)| weight * (inlier / own).min(1.0);
        let weight: Vec<f64> = rows.weight.iter().zip(&rows.noise_variance).map(relied).collect();
        fit.set_target_errors(&weight);
    }

    /// The problem of a fit, with the weights that its rows have, and how far rows lie from what the features know.
    pub fn weighted_problem(&self, fit: &Fit) -> Result<(Problem<'a>, Option<Vec<Gap>>), Error> {
        let (problem, gaps) = self.problem(&fit.design)?;
        let weights = self.weights(&fit.set_aside, gaps.is_some());
        let problem = fit.design.weighted(&problem, weights.as_deref())?;
        // In units of the whole table, by which the target is scaled.
        let is_of_whole = self.whole.is_some_and(|whole| fit.design.target().has_moments(whole));
        let problem = if is_of_whole && fit.design.has_intercept() {
            problem.with_fixed_precision(0, UNSHRUNK)?
        } else {
            problem
        };
        Ok((problem, gaps))
    }

    /// How often each row counts in the noise that predictions carry.
    fn left_out_weights(&self, is_curve: bool) -> Vec<f64> {
        let mut weight = self.weights(&[], is_curve).unwrap_or_else(|| vec![1.0; self.dataset.row_count()]);
        if is_curve {
            // A row that has copies is never left out.
            self.dataset.copied_rows().iter().for_each(|&row| weight[row] = 0.0);
        }
        weight
    }

    /// Errors of the rows of a small table when everything is learnt again without them: what was learnt from all rows knows each of few
    /// rows too well. None for large tables, or if that fails.
    fn cross_validated(&self, fit: &Fit) -> Option<LeftOut> {
        /// Tables of up to so many rows are small; of very small ones, less can be left out at a time.
        const SMALL: usize = 400;
        const LEAST: usize = 5;
        const VERY_SMALL: usize = 100;
        let n = self.dataset.row_count();
        let is_quick = fit.features == FeatureKind::linear() || matches!(fit.features, FeatureKind::Smooth(_));
        if !(LEAST..=SMALL).contains(&n) || !is_quick || self.control.is_stopped() {
            return None;
        }
        // It takes no longer than the rest, and there is nothing to tell.
        let quiet = Control::new().with_stop(self.control.stop().clone());
        let folds = if n > VERY_SMALL { 5 } else { 10 };
        let order = sample(&mut ChaCha8Rng::seed_from_u64(self.recipe.seed()), n, n).into_vec();
        let mut errors = LeftOut { residual: vec![0.0; n], latent_variance: vec![0.0; n] };
        for fold in 0..folds.min(n) {
            let (mut inside, mut others) = (Vec::new(), Vec::new());
            order
                .iter()
                .enumerate()
                .for_each(|(k, &row)| if k % folds == fold { &mut inside } else { &mut others }.push(row));
            others.sort_unstable();
            let among = |rows: &[usize]| -> Vec<usize> {
                rows.iter().filter_map(|row| others.binary_search(row).ok()).collect()
            };
            let some = self.dataset.take(&others);
            let small = Work { control: &quiet, ..self.of(&some, self.scale, among(&self.far_targets)) };
            let refit = small.again(fit, among(&fit.set_aside)).ok()?;
            let LatentPrediction { mean, variance, .. } = self.predicted(&refit, &inside).ok()?;
            for ((row, mean), variance) in inside.into_iter().zip(mean).zip(variance) {
                errors.residual[row] = self.standard[row] - mean;
                errors.latent_variance[row] = variance;
            }
        }
        errors.residual.iter().chain(&errors.latent_variance).all(|value| value.is_finite()).then_some(errors)
    }

    /// A fit of the same kind to these rows.
    fn again(&self, fit: &Fit, set_aside: Vec<usize>) -> Result<Fit, Error> {
        let learning = match (fit.features, fit.design.map()) {
            (FeatureKind::Smooth(kind), FeatureMap::Smooth(map)) => {
                let options = SmoothOptions { start: Some(map.curve()), effort: Effort::Whole, ..Default::default() };
                self.smooth(kind, &self.learn_smooth(&options, fit.settings.noise, &set_aside)?)?
            }
            (kind, _) => self.learn(kind, fit.settings.noise)?,
        };
        Ok(self.fit(fit.features, learning, &fit.settings, set_aside)?.fit)
    }

    /// What a fit predicts for some rows, in standard units.
    fn predicted(&self, fit: &Fit, rows: &[usize]) -> Result<LatentPrediction, Error> {
        let inputs = self.scaling.transform(self.dataset.take(rows).inputs().as_ref());
        let (columns, gaps) = fit.design.columns(inputs.as_ref(), par());
        let mut predicted = fit.model.predict_rows(columns.as_ref())?;
        if let Some(gaps) = gaps {
            let unseen = fit.design.unseen_variance(&gaps, &fit.model);
            predicted.variance.iter_mut().zip(unseen).for_each(|(variance, unseen)| *variance += unseen);
        }
        Ok(predicted)
    }

    /// Learns the noise that predictions of the fit that was chosen carry, where the noise was chosen; says what is gained by widths of error
    /// bars that depend on the inputs, per left-out row with its standard error, if there are such widths.
    pub fn calibrate(&self, fit: &mut Fit) -> Option<(f64, f64)> {
        if fit.settings.base_noise != BaseNoise::LeftOut || !self.recipe.noise().is_auto() {
            return None;
        }
        // Robust noise has nothing set aside, but knows which rows are wrong.
        let is_shared = fit.model.noise().is_shared();
        let flagged = if is_shared { Vec::new() } else { fit.model.diagnose_with(&fit.unseen).flagged };
        let flagged = flagged.iter().enumerate().filter(|(_, flagged)| **flagged).map(|(row, _)| row);
        let mut wrong: Vec<usize> = fit.set_aside.iter().copied().chain(flagged).collect();
        if self.recipe.interval_rows() == IntervalRows::All {
            wrong.clear();
        }
        let weight = self.left_out_weights(!fit.unseen.is_empty());
        let work = self.scaled_by(fit.design.target());
        let errors = work.cross_validated(fit);
        let learnt = fit.design.learnt_parameters(&fit.model);
        // All rows have a say: where noise varies, its largest errors look wrong.
        let varying = work.learn_widths(fit, &weight);
        let gain = varying.as_ref().map(|varying| varying.gain);
        fit.widths = varying.map(|varying| varying.widths);
        if fit.widths.is_some() {
            // Large errors where errors are large are not wrong.
            let is_far = fit.is_far();
            wrong.retain(|&row| is_far[row]);
        }
        let widths = fit.widths.as_ref().map(|widths| widths.of_rows.as_slice());
        let right = calibrate(&mut fit.model, &fit.unseen, widths, errors.as_ref(), &weight, &wrong, learnt);
        fit.set_target_errors(&right);
        fit.known = Default::default();
        gain
    }

    /// How wide error bars should be, if that depends on the inputs; rows count as often as `weight` says.
    fn learn_widths(&self, fit: &Fit, weight: &[f64]) -> Option<widths::Learnt> {
        let is_standardized = fit.features == FeatureKind::linear() || matches!(fit.features, FeatureKind::Smooth(_));
        if !is_standardized || self.control.is_stopped() {
            return None;
        }
        let left_out = fit.left_out();
        let predicted: Vec<f64> = self.standard.iter().zip(&left_out.residual).map(|(y, error)| y - error).collect();
        let rows = widths::looked_at(predicted.len());
        let some = self.scaling.transform(self.dataset.take(&rows).inputs().as_ref());
        let inlier = fit.model.inlier_variance();
        let errors = widths::Errors { left_out: &left_out, predicted: &predicted, inlier, weight };
        let mut learnt = Widths::learn(some.as_ref(), &rows, &errors)?;
        if rows.len() < predicted.len() {
            let known = std::mem::take(&mut learnt.widths.of_rows);
            let mut all = Vec::with_capacity(predicted.len());
            self.dataset.blocks(|start, block| {
                let inputs = self.scaling.transform(block);
                all.extend(learnt.widths.at(inputs.as_ref(), &predicted[start..start + inputs.nrows()]));
            });
            rows.iter().zip(known).for_each(|(&row, width)| all[row] = width);
            learnt.widths.of_rows = all;
        }
        Some(learnt)
    }
}

impl Candidate {
    /// Relevances of the most relevant features, of the most suspicious rows and of evenly spaced others.
    pub fn paths(&self) -> Paths {
        const MOST_FEATURES: usize = 40;
        const SUSPICIOUS_ROWS: usize = 30;
        const OTHER_ROWS: usize = 70;
        let Fit { design, model, .. } = &self.fit;
        let precision = design.of_features(model.weight_precision());
        let group = design.feature_groups();
        let mut features: Vec<usize> = (0..group.len()).collect();
        features.sort_by(|&a, &b| precision[a].total_cmp(&precision[b]));
        let mut groups: Vec<usize> = Vec::new();
        for group in features.iter().map(|&feature| group[feature]) {
            if groups.len() == MOST_FEATURES {
                break;
            }
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        // With shared noise there is nothing to see in rows.
        if model.noise().is_shared() {
            return self.recorder.paths(&groups, &[]);
        }
        let ranking = self.fit.diagnostics().ranking();
        let watched: Vec<usize> = ranking.into_iter().filter(|&row| self.recorder.is_watched(row)).collect();
        let (suspicious, others) = watched.split_at(SUSPICIOUS_ROWS.min(watched.len()));
        let step = others.len().div_ceil(OTHER_ROWS).max(1);
        let rows: Vec<usize> = suspicious.iter().chain(others.iter().step_by(step)).copied().collect();
        self.recorder.paths(&groups, &rows)
    }
}
