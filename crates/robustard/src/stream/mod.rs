//! Fits to rows that do not lie in memory: choices are made on a sample, weights and noise are learnt by passes over all rows.

mod maker;
mod rows;
mod summary;

use std::time::{Duration, Instant};

use robustard_engine::passes::{Broadcast, Learner, Plan, Step, Sums};
use robustard_engine::solver::Units;
use robustard_engine::{Course, FittedModel, IterationRecord, Settings, SolverError, Status};
use thiserror::Error as ThisError;

pub use self::maker::RowMaker;
pub use self::rows::{RowStream, Show, diagnose_stream, fit_stream};
pub use self::summary::RowSummary;
use crate::Error;
use crate::control::{Control, Progress, Stage, par};
use crate::dataset::Dataset;
use crate::features::FeatureKind;
use crate::fitted::{Fit, WeightRule, Whole};
use crate::moments::Moments;
use crate::recipe::Recipe;
use crate::regression::{Regression, Times};
use crate::scaling::typing_limit;
use crate::selection::large::{CHOICE_ROWS, gross_limit};
use crate::selection::{Chosen, Compared, choose};
use crate::work::Work;

/// Passes after which a fit stops unconverged, unless the recipe allows fewer iterations.
const MOST_PASSES: usize = 300;

/// All rows, wherever they lie: what is asked is sent to them, and what comes back is taken in the order of the partitions.
pub trait RowPasses {
    /// What can go wrong on the way.
    type Error: Send;

    /// Number of rows.
    fn row_count(&self) -> u64;

    /// Sums over each partition under what is broadcast: [`RowMaker::sums`]. False if it was stopped before the end.
    fn sums(
        &mut self,
        maker: &RowMaker,
        broadcast: &Broadcast,
        control: &Control,
        take: &mut dyn FnMut(&Sums),
    ) -> Result<bool, Self::Error>;

    /// What the rows of each partition are under a fit: [`Regression::summary`]. False if it was stopped before the end.
    fn summaries(
        &mut self,
        regression: &Regression,
        control: &Control,
        take: &mut dyn FnMut(&RowSummary),
    ) -> Result<bool, Self::Error>;
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

/// Given the bytes by which a fit can go on after a pass.
pub type Keep<'s, E> = dyn FnMut(&[u8]) -> Result<(), E> + Send + 's;

/// What is fitted to rows that do not lie in memory.
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
}

/// Rows that features and noise are chosen on: a larger sample makes no better choice.
pub const SAMPLE_ROWS: usize = CHOICE_ROWS;

/// Fits all rows, wherever they lie.
///
/// Features, lengthscales, noise and the scale of the target are chosen on the sample, as a fit in memory would do; weights, their precisions
/// and the noise are then learnt from all rows in passes over them. The model keeps the sample; what is known of all rows is in
/// [`Regression::whole`]. A fit that is stopped is an error: what was kept after its last pass is there to go on from.
pub fn fit_passes<P: RowPasses + Send>(
    rows: &mut P,
    task: StreamTask<'_, P::Error>,
) -> Result<Regression, StreamError<P::Error>> {
    let StreamTask { sample, moments, recipe, control, resume, mut keep } = task;
    let recipe = &recipe.clone().checked().map_err(Error::from)?;
    control.run(|| {
        let started = Instant::now();
        let work = Work::of_sample(sample, Some(moments), recipe, control)?;
        let Chosen { candidate, mut selection } = choose(&work)?;
        let choosing = started.elapsed();
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
        if let Some(selection) = &mut selection {
            let of_some = |compared: &mut Compared| compared.learnt_from = compared.learnt_from.or(Some(few));
            selection.compared.iter_mut().for_each(of_some);
        }
        // Until all rows have been looked at, what is known of them is what is known of the sample.
        let quality = *fit.quality();
        fit.whole = Some(Whole {
            rows: rows.row_count(),
            chosen_on: few,
            passes: learner.passes(),
            quality,
            flagged: 0,
            set_aside: 0,
            suspicious: Vec::new(),
            rule: maker.rule.clone(),
        });
        let regression = Regression::of_passes(recipe, fit, selection, sample);
        control.enter(Stage::Diagnosing);
        let (mut summary, rows_in_all) = (RowSummary::default(), rows.row_count());
        let is_whole = rows.summaries(&regression, control, &mut |more| {
            summary.merge(more);
            let seen = summary.rows();
            control.tell(Progress::Pass { pass: None, objective: None, seen, rows: rows_in_all });
        });
        if !is_whole.map_err(StreamError::Rows)? {
            return Err(Error::Stopped.into());
        }
        let regression = regression.with_whole(summary.whole(few, learner.passes(), maker.rule));
        let elapsed = started.elapsed();
        Ok(regression.with_times(Times { elapsed, fitting: elapsed.saturating_sub(choosing) }))
    })
}

/// How rows of the whole table are weighed, by the fit to the sample.
fn weight_rule(work: &Work<'_>, small: &Fit) -> WeightRule {
    let is_chosen = work.recipe.noise().is_auto();
    let is_curve = matches!(small.features, FeatureKind::Smooth(_));
    // Robust noise of lines needs no help.
    let sets_aside = is_curve || (small.design.is_linear() && small.model.noise().is_shared());
    let gross = (is_chosen && sets_aside).then(|| (small.model.coefficients().to_vec(), gross_limit(work, small).0));
    let typing = is_chosen.then(|| typing_limit(faer::ColRef::from_slice(work.dataset.target()))).flatten();
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

fn pass_until_done<P: RowPasses>(
    rows: &mut P,
    maker: &RowMaker,
    learner: &mut Learner,
    control: &Control,
    keep: &mut Option<&mut Keep<'_, P::Error>>,
) -> Result<(Status, Last), StreamError<P::Error>> {
    loop {
        let broadcast = learner.broadcast();
        let mut total = Sums::zero(broadcast.columns.len());
        let (pass, objective) = (Some(learner.passes() + 1), learner.objectives().last().copied());
        let rows_in_all = rows.row_count();
        let is_whole = rows.sums(maker, &broadcast, control, &mut |sums| {
            total.merge(sums);
            control.tell(Progress::Pass { pass, objective, seen: total.rows, rows: rows_in_all });
        });
        if !is_whole.map_err(StreamError::Rows)? {
            return Err(Error::Stopped.into());
        }
        let step = learner.learn(&total).map_err(SolverError::from)?;
        // The last pass is made again: what follows needs its sums.
        if let (Some(keep), Step::Pass) = (&mut *keep, step) {
            keep(&learner.to_bytes()).map_err(StreamError::Rows)?;
        }
        let status = match step {
            Step::Pass => continue,
            Step::Converged => Status::Converged,
            Step::PassLimit => Status::IterationLimit,
        };
        return Ok((status, (total, broadcast.columns)));
    }
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
