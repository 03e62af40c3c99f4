//! Fits to rows that do not lie in memory: choices are made on a sample, weights and noise are learnt by passes over all rows.

use std::time::{Duration, Instant};

use faer::{ColRef, Mat, MatRef};
use rayon::prelude::*;
use robustard_engine::passes::{Broadcast, Histogram, Known, Learner, Partition, Plan, Step, Sums};
use robustard_engine::solver::Units;
use robustard_engine::{Course, FittedModel, IterationRecord, RowRule, Settings, SolverError, Status};
use serde::{Deserialize, Serialize};
use thiserror::Error as ThisError;

use crate::Error;
use crate::control::{Control, Progress, Stage, par};
use crate::dataset::Dataset;
use crate::design::Design;
use crate::diagnostics::Diagnostics;
use crate::features::{FeatureKind, Gap};
use crate::fitted::{Block, Fit, SuspiciousRow, WeightRule, Whole};
use crate::moments::Moments;
use crate::quality::Quality;
use crate::recipe::Recipe;
use crate::regression::Regression;
use crate::scaling::typing_limit;
use crate::selection::large::{CHOICE_ROWS, gross_limit};
use crate::selection::{Chosen, Compared, choose};
use crate::work::{FAR, SET_ASIDE, Work};

/// Rows made into features together: few, so that they stay in the cache; features that are products of matrices take more.
const FEW: usize = 256;
const MORE: usize = 2048;
/// Suspicious rows that a model remembers.
const MOST_SUSPICIOUS: usize = 1000;
/// Passes after which a fit stops unconverged, unless the recipe allows fewer iterations.
const MOST_PASSES: usize = 300;

/// Rows that lie elsewhere, in partitions whose order is theirs.
pub trait RowStream: Sync {
    /// What can go wrong on the way.
    type Error: Send;

    /// Number of rows.
    fn row_count(&self) -> u64;

    /// Number of partitions.
    fn partition_count(&self) -> usize;

    /// The rows of a partition.
    fn read(&self, partition: usize) -> Result<Dataset<'_>, Self::Error>;
}

/// Why a fit to a stream failed.
#[derive(Debug, ThisError)]
pub enum StreamError<E> {
    /// The rows could not be read, or what was asked for could not be done with them.
    #[error(transparent)]
    Rows(E),
    /// The fit.
    #[error(transparent)]
    Fit(#[from] Error),
}

impl<E> From<SolverError> for StreamError<E> {
    fn from(error: SolverError) -> Self {
        Self::Fit(Error::Fit(error.into()))
    }
}

/// Shown each partition's diagnostics, with the number of its first row.
pub type Show<'s, E> = dyn FnMut(u64, &Diagnostics) -> Result<(), E> + Send + 's;
/// The same, with which rows are in their 95% interval.
type ShowAll<'s, E> = dyn FnMut(u64, &Diagnostics, &[bool]) -> Result<(), E> + Send + 's;
/// Given the bytes by which a fit can go on after a pass.
pub type Keep<'s, E> = dyn FnMut(&[u8]) -> Result<(), E> + Send + 's;

/// What is fitted to a stream.
pub struct StreamTask<'t, E> {
    /// Some rows, drawn at random: features and noise are chosen on them, and the model keeps them.
    pub sample: &'t Dataset<'t>,
    /// Means and ranges of all rows.
    pub moments: &'t Moments,
    /// How.
    pub recipe: &'t Recipe,
    /// Who watches.
    pub control: &'t Control,
    /// What [`Keep`] was last given by a fit of the same rows that did not end.
    pub resume: Option<&'t [u8]>,
    /// Called after each pass.
    pub keep: Option<&'t mut Keep<'t, E>>,
    /// Called in the last pass, partition by partition.
    pub show: Option<&'t mut Show<'t, E>>,
}

/// Rows that features and noise are chosen on: a larger sample makes no better choice.
pub const SAMPLE_ROWS: usize = CHOICE_ROWS;

/// How rows of a table become rows of the problem: all that has to be known where the rows are, beside a broadcast.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RowMaker {
    design: Design,
    rule: WeightRule,
}

/// Some rows of a partition as the engine takes them.
struct Made<'m> {
    /// d × m.
    rows: MatRef<'m, f64>,
    /// Standardized.
    target: &'m [f64],
    weight: &'m [f64],
    set_aside: &'m [usize],
    /// Standardized inputs, m × p; empty if they are not asked for.
    standard: MatRef<'m, f64>,
    gaps: Option<&'m [Gap]>,
}

impl RowMaker {
    /// Sums over the rows of a partition under what is broadcast.
    pub fn sums(&self, rows: &Dataset<'_>, known: &Known) -> Sums {
        let mut partition = Partition::new(known);
        self.make(rows, false, |made| partition.add(made.rows, made.target, made.weight));
        partition.finish()
    }

    /// Shows all rows, some at a time; those with numbers that are not finite are the caller's to keep out.
    fn make(&self, dataset: &Dataset<'_>, with_standard: bool, mut show: impl FnMut(Made<'_>)) {
        let (design, n) = (&self.design, dataset.row_count());
        let length = if design.is_linear() { FEW } else { MORE }.min(n);
        let columns: Vec<ColRef<'_, f64>> = dataset.columns().collect();
        let target = design.target().standardize(dataset.target());
        let mut room = Mat::zeros(design.column_count(), length);
        let (mut weight, mut set_aside) = (Vec::with_capacity(length), Vec::new());
        for start in (0..n).step_by(length) {
            let m = length.min(n - start);
            let range = start..start + m;
            let mut rows = room.as_mut().subcols_mut(0, m);
            let standard = if with_standard || !design.is_linear() {
                design.standardized_columns(&columns, range.clone())
            } else {
                Mat::new()
            };
            let gaps = if design.is_linear() {
                design.write_linear(&columns, range.clone(), rows.as_mut());
                None
            } else {
                design.write(standard.as_ref(), rows.as_mut(), faer::Par::Seq)
            };
            let target = &target[range.clone()];
            self.weigh(dataset, range, rows.as_ref(), target, &mut weight, &mut set_aside);
            let (rows, gaps) = (rows.as_ref(), gaps.as_deref());
            show(Made { rows, target, weight: &weight, set_aside: &set_aside, standard: standard.as_ref(), gaps });
        }
    }

    /// How often rows count: those set aside hardly do.
    fn weigh(
        &self,
        dataset: &Dataset<'_>,
        range: std::ops::Range<usize>,
        rows: MatRef<'_, f64>,
        target: &[f64],
        weight: &mut Vec<f64>,
        set_aside: &mut Vec<usize>,
    ) {
        weight.clear();
        set_aside.clear();
        match dataset.weights() {
            Some(weights) => weight.extend(weights[range.clone()].iter().map(|weight| weight / self.rule.unit)),
            None => weight.resize(range.len(), 1.0 / self.rule.unit),
        }
        let WeightRule { gross, typing, .. } = &self.rule;
        let is_typing =
            |row: usize| typing.is_some_and(|(centre, limit)| (dataset.target()[row] - centre).abs() > limit);
        let is_gross = |i: usize| {
            gross.as_ref().is_some_and(|(weights, limit)| {
                let fitted: f64 = rows.col(i).iter().zip(weights).map(|(value, weight)| value * weight).sum();
                (target[i] - fitted).abs() > *limit
            })
        };
        if gross.is_none() && typing.is_none() {
            return;
        }
        for (i, row) in range.enumerate() {
            if is_typing(row) || is_gross(i) {
                set_aside.push(i);
                let farthest = rows.col(i).iter().fold(target[i].abs(), |largest, value| largest.max(value.abs()));
                let square = if farthest > FAR { (farthest * farthest).min(1e80) } else { 1.0 };
                weight[i] *= SET_ASIDE / square;
            }
        }
    }

    /// What the rows of a partition are under a fit.
    fn diagnose(&self, fit: &Fit, rule: &RowRule, dataset: &Dataset<'_>) -> (Diagnostics, Vec<bool>) {
        let mut all: Option<(Diagnostics, Vec<bool>)> = None;
        self.make(dataset, true, |Made { rows, target, weight, set_aside, standard, gaps }| {
            let rows = rule.of(rows, target, weight);
            let (diagnostics, inside) = fit.diagnose(&rows, &Block { standard, gaps, set_aside });
            match &mut all {
                Some((known, known_inside)) => {
                    known.append(diagnostics);
                    known_inside.extend(inside);
                }
                None => all = Some((diagnostics, inside)),
            }
        });
        all.expect("a partition has rows")
    }
}

/// Fits all rows of a stream.
///
/// Features, lengthscales, noise and the scale of the target are chosen on the sample, as a fit in memory would do; weights, their precisions
/// and the noise are then learnt from all rows in passes over them. The model keeps the sample; what is known of all rows is in
/// [`Regression::whole`].
pub fn fit_stream<R: RowStream>(rows: &R, task: StreamTask<'_, R::Error>) -> Result<Regression, StreamError<R::Error>> {
    let StreamTask { sample, moments, recipe, control, resume, mut keep, mut show } = task;
    let recipe = &recipe.clone().checked().map_err(Error::from)?;
    control.run(|| {
        let started = Instant::now();
        let work = Work::of_sample(sample, Some(moments), recipe, control)?;
        let Chosen { candidate, mut selection } = choose(&work)?;
        if control.is_stopped() {
            return Err(Error::Stopped.into());
        }
        let few = sample.row_count();
        let work = work.scaled_by(candidate.fit.design.target());
        let mut small = candidate.fit;
        if let FeatureKind::Smooth(kind) = small.features {
            // As many centres as so many rows allow.
            let learning = work.smooth_again(kind, &small)?;
            if learning.design.column_count() != small.design.column_count() {
                let set_aside = small.set_aside.clone();
                small = work.fit(small.features, learning, &small.settings.clone(), set_aside)?.fit;
            }
        }
        let maker = RowMaker { rule: weight_rule(&work, &small), design: small.design.clone() };
        let plan = plan(&work, &small)?;
        let mut learner = Learner::new(plan, par());
        if let Some(bytes) = resume {
            learner.go_on(bytes).map_err(|error| Error::Checkpoint { reason: error.to_string() })?;
        }
        control.enter(Stage::Passing);
        let (status, last) = pass_until_done(rows, &maker, &mut learner, control, &mut keep)?;
        let end = learner.end(&last.0, &last.1).map_err(SolverError::from)?.ok_or(Error::Stopped)?;
        let course = Course { status, trace: trace(&learner), rejected: learner.rejected(), elapsed: Duration::ZERO };
        let (problem, gaps) = work.weighted_problem(&small)?;
        let model = FittedModel::from_passes(&end, &problem, small.settings.base_noise, course);
        drop(problem);
        let unseen = gaps.map_or_else(Vec::new, |gaps| small.design.unseen_variance(&gaps, &model));
        let mut fit = Fit { model, unseen, widths: None, whole: None, known: Default::default(), ..small };
        work.calibrate_given(&mut fit);
        work.calibrate(&mut fit);
        let mut summing = Summing::default();
        let rule = fit.model.row_rule().ok_or(Error::Stopped)?;
        if !control.is_stopped() {
            control.enter(Stage::Diagnosing);
            diagnose_all(rows, &maker, &fit, &rule, control, &mut |first, diagnostics, inside| {
                summing.add(first, diagnostics, inside);
                show.as_mut().map_or(Ok(()), |show| show(first, diagnostics))
            })?;
        }
        fit.whole = Some(summing.whole(rows.row_count(), few, learner.passes(), maker.rule));
        if let Some(selection) = &mut selection {
            let of_some = |compared: &mut Compared| compared.learnt_from = compared.learnt_from.or(Some(few));
            selection.compared.iter_mut().for_each(of_some);
        }
        Ok(Regression::of_passes(recipe, fit, selection, sample, started.elapsed()))
    })
}

/// Shows the diagnostics of all rows of a stream that a regression was fitted to, partition by partition.
pub fn diagnose_stream<R: RowStream>(
    regression: &Regression,
    rows: &R,
    control: &Control,
    show: &mut Show<'_, R::Error>,
) -> Result<(), StreamError<R::Error>> {
    let fit = regression.fit();
    let rule = fit.model.row_rule().ok_or(Error::Stopped)?;
    let maker = &RowMaker {
        design: fit.design.clone(),
        rule: fit.whole.as_ref().map(|whole| whole.rule.clone()).unwrap_or_default(),
    };
    control.enter(Stage::Diagnosing);
    control
        .run(|| diagnose_all(rows, maker, fit, &rule, control, &mut |first, diagnostics, _| show(first, diagnostics)))
}

/// How rows of the whole table are weighed, by the fit to the sample.
fn weight_rule(work: &Work<'_>, small: &Fit) -> WeightRule {
    let is_chosen = work.recipe.noise().is_auto();
    let is_curve = matches!(small.features, FeatureKind::Smooth(_));
    // Robust noise of lines needs no help.
    let sets_aside = is_curve || (small.design.is_linear() && small.model.noise().is_shared());
    let gross = (is_chosen && sets_aside).then(|| (small.model.coefficients().to_vec(), gross_limit(work, small).0));
    let typing = is_chosen.then(|| typing_limit(ColRef::from_slice(work.dataset.target()))).flatten();
    let unit = match work.dataset.weights() {
        Some(weights) if !small.unseen.is_empty() => weights.iter().sum::<f64>() / weights.len() as f64,
        _ => 1.0,
    };
    WeightRule { unit, gross, typing }
}

/// What passes have to learn, from where the sample has led.
fn plan(work: &Work<'_>, small: &Fit) -> Result<Plan, Error> {
    let Settings { units, weight_precision_bounds, noise_variance_bounds, noise, max_iterations, .. } = small.settings;
    let (problem, _) = work.weighted_problem(small)?;
    let natural = problem.natural_units();
    let [of_weights, of_noise] = match units {
        Units::Absolute => [vec![1.0; problem.groups().count()], vec![1.0]],
        Units::Relative => [natural.weight_precision, vec![natural.noise_variance]],
    };
    let scaled = |bounds: [f64; 2], unit: &f64| bounds.map(|bound| (bound * unit).clamp(1e-250, 1e250));
    let fixed = |group: usize| problem.groups().fixed(group);
    let learnt = small.design.group_precisions(&small.model);
    let start = (0..problem.groups().count()).map(|group| fixed(group).unwrap_or(learnt[group]));
    Ok(Plan {
        weight_precision: start.collect(),
        groups: problem.groups().clone(),
        weight_precision_bounds: of_weights.iter().map(|unit| scaled(weight_precision_bounds, unit)).collect(),
        start: small.model.belief().map(|belief| (belief, *small.model.noise())),
        noise,
        noise_variance_bounds: scaled(noise_variance_bounds, &of_noise[0]),
        most_passes: max_iterations.min(MOST_PASSES),
    })
}

/// The sums of the last pass, and the columns that they are of.
type Last = (Sums, Vec<usize>);

fn pass_until_done<R: RowStream>(
    rows: &R,
    maker: &RowMaker,
    learner: &mut Learner,
    control: &Control,
    keep: &mut Option<&mut Keep<'_, R::Error>>,
) -> Result<(Status, Last), StreamError<R::Error>> {
    let mut last: Option<Last> = None;
    loop {
        let broadcast = learner.broadcast();
        let Some(sums) = pass(rows, maker, &broadcast, learner, control)? else {
            return last.map(|last| (Status::Interrupted, last)).ok_or(Error::Stopped.into());
        };
        let step = learner.learn(&sums).map_err(SolverError::from)?;
        last = Some((sums, broadcast.columns));
        // The last pass is made again: what follows needs its sums.
        if let (Some(keep), Step::Pass) = (&mut *keep, step) {
            keep(&learner.to_bytes()).map_err(StreamError::Rows)?;
        }
        let status = match step {
            Step::Pass => continue,
            Step::Converged => Status::Converged,
            Step::PassLimit => Status::IterationLimit,
        };
        return Ok((status, last.expect("there was a pass")));
    }
}

/// The sums over all rows; none if it was stopped.
fn pass<R: RowStream>(
    rows: &R,
    maker: &RowMaker,
    broadcast: &Broadcast,
    learner: &Learner,
    control: &Control,
) -> Result<Option<Sums>, StreamError<R::Error>> {
    let known = Known::new(broadcast);
    let mut total = Sums::zero(broadcast.columns.len());
    let (pass, objective) = (Some(learner.passes() + 1), learner.objectives().last().copied());
    let of_partition = |partition| rows.read(partition).map(|rows| maker.sums(&rows, &known));
    let is_whole = in_order(rows, control, of_partition, |sums| {
        total.merge(&sums);
        control.tell(Progress::Pass { pass, objective, seen: total.rows, rows: rows.row_count() });
        Ok(())
    })?;
    Ok(is_whole.then_some(total))
}

fn diagnose_all<R: RowStream>(
    rows: &R,
    maker: &RowMaker,
    fit: &Fit,
    rule: &RowRule,
    control: &Control,
    show: &mut ShowAll<'_, R::Error>,
) -> Result<(), StreamError<R::Error>> {
    let mut first = 0;
    let of_partition = |partition| rows.read(partition).map(|rows| maker.diagnose(fit, rule, &rows));
    let is_whole = in_order(rows, control, of_partition, |(diagnostics, inside)| {
        show(first, &diagnostics, &inside)?;
        first += inside.len() as u64;
        control.tell(Progress::Pass { pass: None, objective: None, seen: first, rows: rows.row_count() });
        Ok(())
    })?;
    if is_whole { Ok(()) } else { Err(Error::Stopped.into()) }
}

/// Works on several partitions at a time and takes what comes of them in their order; whether all were taken.
fn in_order<R: RowStream, T: Send>(
    rows: &R,
    control: &Control,
    work: impl Fn(usize) -> Result<T, R::Error> + Sync,
    mut take: impl FnMut(T) -> Result<(), R::Error>,
) -> Result<bool, StreamError<R::Error>> {
    let partitions: Vec<usize> = (0..rows.partition_count()).collect();
    // As many at a time as there are threads, and some more so that none waits long: what waits to be taken is little.
    for some in partitions.chunks(4 * rayon::current_num_threads()) {
        if control.is_stopped() {
            return Ok(false);
        }
        let done: Vec<Result<T, R::Error>> = some.par_iter().map(|&partition| work(partition)).collect();
        done.into_iter().try_for_each(|done| take(done?)).map_err(StreamError::Rows)?;
    }
    Ok(true)
}

/// One record per pass. Times would make two equal fits differ.
fn trace(learner: &Learner) -> Vec<IterationRecord> {
    let record = |(k, objective): (usize, &f64)| IterationRecord {
        iteration: k + 1,
        objective: *objective,
        weight_change: 0.0,
        noise_change: None,
        active_columns: learner.broadcast().columns.len(),
        accelerated: false,
        evaluations: k + 1,
        elapsed: Duration::ZERO,
    };
    learner.objectives().iter().enumerate().map(record).collect()
}

/// What is found out about all rows in the last pass.
#[derive(Default)]
struct Summing {
    weight: f64,
    target: f64,
    target_square: f64,
    error_square: f64,
    inside: f64,
    errors: Histogram,
    flagged: u64,
    set_aside: u64,
    suspicious: Vec<SuspiciousRow>,
}

impl Summing {
    fn add(&mut self, first: u64, diagnostics: &Diagnostics, inside: &[bool]) {
        let Diagnostics { actual, loo_residual, weight, flagged, set_aside, .. } = diagnostics;
        // About a value near the mean, so that no digits are lost.
        for (row, weight) in weight.iter().enumerate() {
            self.weight += weight;
            self.error_square += weight * loo_residual[row].powi(2);
            self.inside += if inside[row] { *weight } else { 0.0 };
            self.flagged += u64::from(flagged[row]);
            self.set_aside += u64::from(set_aside[row]);
            let before = self.target;
            self.target += weight / self.weight * (actual[row] - before);
            self.target_square += weight * (actual[row] - before) * (actual[row] - self.target);
        }
        let squares: Vec<f64> = loo_residual.iter().map(|error| error * error).collect();
        self.errors.add(&squares, weight);
        let of = |row: usize| SuspiciousRow {
            row: first + row as u64,
            actual: actual[row],
            predicted: diagnostics.predicted[row],
            z: diagnostics.z[row],
            outlier_probability: diagnostics.outlier_probability.as_ref().map(|probability| probability[row]),
            set_aside: set_aside[row],
        };
        self.suspicious.extend(diagnostics.flagged_rows().into_iter().take(MOST_SUSPICIOUS).map(of));
        if self.suspicious.len() > 2 * MOST_SUSPICIOUS {
            self.keep_the_worst();
        }
    }

    fn keep_the_worst(&mut self) {
        let suspicion = |row: &SuspiciousRow| (row.outlier_probability.unwrap_or(0.0), row.z.abs());
        self.suspicious.sort_by(|a, b| {
            let (a, b) = (suspicion(a), suspicion(b));
            b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
        });
        self.suspicious.truncate(MOST_SUSPICIOUS);
    }

    fn whole(mut self, rows: u64, chosen_on: usize, passes: usize, rule: WeightRule) -> Whole {
        self.keep_the_worst();
        let mean_square = self.error_square / self.weight;
        let spread = self.target_square / self.weight;
        let quality = Quality {
            loo_rmse: mean_square.sqrt(),
            loo_r2: if spread > 0.0 { 1.0 - mean_square / spread } else { 0.0 },
            loo_median_error: self.errors.median().sqrt(),
            coverage_95: self.inside / self.weight,
        };
        let Self { flagged, set_aside, suspicious, .. } = self;
        Whole { rows, chosen_on, passes, quality, flagged, set_aside, suspicious, rule }
    }
}
