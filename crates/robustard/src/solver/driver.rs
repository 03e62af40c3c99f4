//! The one loop that runs every solver: propose → damp and clip → extrapolate → factorise → accept or fall back →
//! observe → stop.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::time::Instant;

use faer::Par;
use thiserror::Error;

use super::accelerate::Anderson;
use super::prune::{Pruner, Readmission, keep_groups, readmissions};
use super::safeguard::{Interventions, Limits, Safeguard};
use super::stopping::{Status, Stopping};
use super::{CheckedSettings, Iteration, IterationRecord, Observer, Point, Proposal, Settings, SettingsError, Solver};
use crate::evidence::objective;
use crate::model::{FittedModel, Outcome};
use crate::posterior::{FactorError, Moments, Posterior, route};
use crate::problem::Problem;
use crate::state::State;

/// Halvings of a plain step before the fit gives up.
const MOST_HALVINGS: usize = 12;
/// Rounds in which left-out columns may come back.
const MOST_READMISSION_ROUNDS: usize = 5;
/// Columns leave together, at least this share of the active ones at a time, because each time the rows are copied.
const LEAST_PRUNED_SHARE: f64 = 0.02;
/// An extrapolated state may be worse than the present one by this much: rounding, not a worse fit.
const ROUNDING: f64 = 1e-6;
/// Longest history for which room is made in advance.
const LONGEST_RESERVED_TRACE: usize = 10_000;

/// Why a fit gave no model.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FitError {
    /// A setting is wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The posterior cannot be computed even at the start.
    #[error(
        "the posterior at the initial values cannot be computed ({0}); rescale the columns or change the initial values and bounds"
    )]
    Start(#[from] FactorError),
    /// The threads could not be started.
    #[error("could not start {threads} threads: {reason}; set threads to 1")]
    Threads {
        /// Threads asked for.
        threads: usize,
        /// What the system said.
        reason: String,
    },
}

/// Fits `problem`.
pub fn fit(problem: &Problem, settings: &Settings) -> Result<FittedModel, FitError> {
    fit_observed(problem, settings, &mut |_: &Iteration<'_>| ControlFlow::Continue(()))
}

/// Fits `problem` and shows each iteration to `observer`, which can stop it.
pub fn fit_observed<O: Observer + Send>(
    problem: &Problem,
    settings: &Settings,
    observer: &mut O,
) -> Result<FittedModel, FitError> {
    let settings = settings.check()?;
    match settings.threads {
        1 => Fit::start(problem, &settings, Par::Seq)?.run(observer),
        0 => {
            let par = Par::rayon(0);
            Fit::start(problem, &settings, if rayon::current_num_threads() == 1 { Par::Seq } else { par })?
                .run(observer)
        }
        threads => {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let pool = pool.map_err(|error| FitError::Threads { threads, reason: error.to_string() })?;
            let par = NonZeroUsize::new(threads).map_or(Par::Seq, Par::Rayon);
            pool.install(|| Fit::start(problem, &settings, par)?.run(observer))
        }
    }
}

/// A fit under way.
struct Fit<'a> {
    /// The problem as given.
    whole: &'a Problem,
    settings: &'a CheckedSettings,
    /// The problem with the active groups only; everything below speaks of this one.
    problem: Cow<'a, Problem>,
    /// The whole problem's group that each active group is.
    groups: Vec<usize>,
    /// The whole problem's column that each active column is.
    columns: Vec<usize>,
    /// Groups of the whole problem that came back once and do not leave again.
    protected: Vec<bool>,
    whole_limits: Limits,
    limits: Limits,
    posterior: Box<dyn Posterior>,
    moments: Moments,
    state: State,
    objective: f64,
    /// The plain step.
    plain: State,
    /// The extrapolated step.
    extrapolated: State,
    proposal: Proposal,
    solver: Box<dyn Solver>,
    safeguard: Safeguard,
    accelerator: Option<Anderson>,
    pruner: Pruner,
    stopping: Stopping,
    noise_started: bool,
    readmission_rounds: usize,
    evaluations: usize,
    interventions: Interventions,
    started: Instant,
    trace: Vec<IterationRecord>,
}

impl<'a> Fit<'a> {
    fn start(problem: &'a Problem, settings: &'a CheckedSettings, par: Par) -> Result<Self, FactorError> {
        let started = Instant::now();
        let limits = Limits::new(problem, settings);
        let state = limits.initial_state(problem, settings);
        let mut fit = Self {
            whole: problem,
            settings,
            problem: Cow::Borrowed(problem),
            groups: (0..problem.groups().count()).collect(),
            columns: (0..problem.column_count()).collect(),
            protected: vec![false; problem.groups().count()],
            whole_limits: limits.clone(),
            limits,
            posterior: route(settings.route, problem, par),
            moments: Moments::new(problem),
            plain: state.clone(),
            extrapolated: state.clone(),
            state,
            objective: f64::NAN,
            proposal: Proposal::new(problem),
            solver: super::solver(settings),
            safeguard: Safeguard::new(settings),
            accelerator: settings.accelerates().then(|| Anderson::new(settings.acceleration_memory)),
            pruner: Pruner::default(),
            stopping: Stopping::new(settings),
            noise_started: false,
            readmission_rounds: 0,
            evaluations: 0,
            interventions: Interventions::default(),
            started,
            trace: Vec::with_capacity(settings.max_iterations.min(LONGEST_RESERVED_TRACE)),
        };
        fit.objective = fit.evaluate_state()?;
        if settings.noise_start == 0 {
            fit.start_noise()?;
        }
        Ok(fit)
    }

    fn run<O: Observer + ?Sized>(mut self, observer: &mut O) -> Result<FittedModel, FitError> {
        let mut status = Status::IterationLimit;
        for iteration in 1..=self.settings.max_iterations {
            let noise_moves = self.noise_moves(iteration);
            if noise_moves && !self.noise_started {
                self.start_noise()?;
            }
            self.complete_moments();
            if self.settings.pruning && self.prune().is_err() {
                status = Status::NumericalTrouble;
                break;
            }
            self.propose(noise_moves);
            let change = self.stopping.observe(&self.state, &self.plain, noise_moves);
            let Some(accelerated) = self.advance() else {
                status = Status::NumericalTrouble;
                break;
            };
            let record = IterationRecord {
                iteration,
                objective: self.objective,
                weight_change: change.weights,
                noise_change: change.noise.is_finite().then_some(change.noise),
                active_columns: self.columns.len(),
                accelerated,
                evaluations: self.evaluations,
                elapsed: self.started.elapsed(),
            };
            self.trace.push(record);
            let (state, columns, interventions) = (&self.state, &self.columns, &self.interventions);
            if observer.iteration(&Iteration { record: &record, state, columns, interventions }).is_break() {
                status = Status::Interrupted;
                break;
            }
            if self.stopping.converged() {
                if !self.readmit() {
                    status = Status::Converged;
                    break;
                }
                self.stopping.restart();
            }
        }
        Ok(self.finish(status))
    }

    fn noise_moves(&self, iteration: usize) -> bool {
        let since = iteration.checked_sub(self.settings.noise_start + 1);
        since.is_some_and(|since| since % self.settings.noise_every == 0)
    }

    /// Factorises at `self.state` and returns the objective.
    fn evaluate_state(&mut self) -> Result<f64, FactorError> {
        self.evaluations += 1;
        evaluate(&self.problem, &self.state, self.posterior.as_mut(), &mut self.moments, &mut self.interventions)
    }

    /// Fills the moments that the solver needs beyond the factorisation.
    fn complete_moments(&mut self) {
        self.posterior.weight_moments(&self.problem, &mut self.moments);
        if !self.state.noise.is_shared() {
            self.posterior.row_moments(&self.problem, &mut self.moments);
        }
    }

    /// Before the noise first moves, its scale is put where the bulk of the rows is.
    fn start_noise(&mut self) -> Result<(), FactorError> {
        self.noise_started = true;
        if self.state.noise.is_shared() {
            return Ok(());
        }
        self.complete_moments();
        let before = self.state.noise;
        let moments = &self.moments;
        let rows = self.proposal.second_moment.iter_mut().zip(&moments.residual).zip(&moments.latent_variance);
        rows.for_each(|((e2, r), q)| *e2 = r * r + q);
        self.state.noise.start_at(&self.proposal.second_moment, self.limits.noise_variance);
        if self.state.noise != before {
            super::safeguard::confine(&mut self.state);
            self.objective = self.evaluate_state()?;
        }
        Ok(())
    }

    /// Writes the plain step from the present state into `self.plain`.
    fn propose(&mut self, noise_moves: bool) {
        let point = Point {
            problem: &self.problem,
            state: &self.state,
            moments: &self.moments,
            posterior: self.posterior.as_ref(),
        };
        self.solver.propose(&point, &mut self.proposal);
        if !self.state.noise.is_shared() {
            self.safeguard.studentize(&self.problem, &self.state, &self.moments, &mut self.proposal);
        }
        let (state, proposal, limits) = (&self.state, &self.proposal, &self.limits);
        let counts = self.safeguard.step(&self.problem, state, proposal, limits, noise_moves, &mut self.plain);
        self.interventions.add(counts);
    }

    /// Moves to the extrapolated state if that is no worse, else to the plain one; says whether it was extrapolated.
    /// None when no step can be factorised: the posterior is then that of the unmoved state.
    fn advance(&mut self) -> Option<bool> {
        if let Some(accelerator) = &mut self.accelerator {
            let next = &mut self.extrapolated;
            if accelerator.extrapolate(&self.problem, &self.state, &self.plain, &self.limits, next) {
                self.evaluations += 1;
                let (posterior, moments) = (self.posterior.as_mut(), &mut self.moments);
                let found = evaluate(&self.problem, next, posterior, moments, &mut self.interventions);
                match found {
                    Ok(value) if value <= self.objective + ROUNDING => {
                        self.state.copy_from(next);
                        self.objective = value;
                        accelerator.accepted();
                        return Some(true);
                    }
                    _ => {
                        self.interventions.rejected_extrapolations += 1;
                        accelerator.rejected();
                    }
                }
            }
        }
        for halving in 0..=MOST_HALVINGS {
            if halving > 0 {
                self.interventions.shortened_steps += 1;
                halve_step(&self.state, &mut self.plain);
            }
            self.evaluations += 1;
            let (posterior, moments) = (self.posterior.as_mut(), &mut self.moments);
            if let Ok(value) = evaluate(&self.problem, &self.plain, posterior, moments, &mut self.interventions) {
                self.state.copy_from(&self.plain);
                self.objective = value;
                return Some(false);
            }
        }
        // The state itself was factorised before, so this cannot fail.
        let _ = self.evaluate_state();
        None
    }

    /// Takes irrelevant groups out of the work.
    fn prune(&mut self) -> Result<(), FactorError> {
        let point = Point {
            problem: &self.problem,
            state: &self.state,
            moments: &self.moments,
            posterior: self.posterior.as_ref(),
        };
        let (groups, protected) = (&self.groups, &self.protected);
        let leaving = self.pruner.mark(&point, |group| protected[groups[group]]);
        if leaving == 0 || (leaving as f64) < LEAST_PRUNED_SHARE * self.groups.len() as f64 {
            return Ok(());
        }
        let keep = std::mem::take(&mut self.pruner.keep);
        self.interventions.pruned_columns += self.columns.len();
        let columns = self.problem.columns_of(&keep);
        let reduced = self.problem.select_groups(&keep);
        let posterior = self.posterior.reduce(self.settings.route, &reduced, &columns);
        let state = keep_groups(&self.state, &keep);
        self.limits.keep(&keep);
        self.groups = self.groups.iter().zip(&keep).filter(|(_, kept)| **kept).map(|(group, _)| *group).collect();
        self.change_problem(reduced, posterior, state);
        self.interventions.pruned_columns -= self.columns.len();
        self.objective = self.evaluate_state()?;
        self.complete_moments();
        Ok(())
    }

    /// Lets pruned groups back in that would raise the evidence; true if there were any.
    fn readmit(&mut self) -> bool {
        if self.groups.len() == self.whole.groups().count() || self.readmission_rounds == MOST_READMISSION_ROUNDS {
            return false;
        }
        self.posterior.weight_moments(&self.problem, &mut self.moments);
        self.posterior.row_moments(&self.problem, &mut self.moments);
        let point = Point {
            problem: &self.problem,
            state: &self.state,
            moments: &self.moments,
            posterior: self.posterior.as_ref(),
        };
        let mut is_active = vec![false; self.whole.groups().count()];
        self.groups.iter().for_each(|&group| is_active[group] = true);
        let back = readmissions(self.whole, &point, &is_active);
        if back.is_empty() {
            return false;
        }
        self.readmission_rounds += 1;
        let before = (self.problem.clone(), self.groups.clone(), self.limits.clone(), self.state.clone());
        let columns_before = self.columns.len();
        self.add_groups(&back, is_active);
        match self.evaluate_state() {
            Ok(value) => {
                self.objective = value;
                self.interventions.readmitted_columns += self.columns.len() - columns_before;
                true
            }
            Err(_) => {
                // Go back to the problem that could be factorised.
                let (problem, groups, limits, state) = before;
                self.groups = groups;
                self.limits = limits;
                let posterior = route(self.settings.route, &problem, self.par());
                self.change_problem(problem.into_owned(), posterior, state);
                let _ = self.evaluate_state();
                false
            }
        }
    }

    fn add_groups(&mut self, back: &[Readmission], mut is_active: Vec<bool>) {
        let mut weight_precision: Vec<f64> =
            self.whole_limits.weight_precision.iter().map(|bounds| bounds[1]).collect();
        for (&group, value) in self.groups.iter().zip(&self.state.weight_precision) {
            weight_precision[group] = *value;
        }
        for &Readmission { group, weight_precision: value } in back {
            let [low, high] = self.whole_limits.weight_precision[group];
            weight_precision[group] = value.clamp(low, high);
            is_active[group] = true;
            self.protected[group] = true;
        }
        let problem = self.whole.select_groups(&is_active);
        let posterior = route(self.settings.route, &problem, self.par());
        let state = keep_groups(&State { weight_precision, ..self.state.clone() }, &is_active);
        self.limits = self.whole_limits.clone();
        self.limits.keep(&is_active);
        self.groups = (0..is_active.len()).filter(|&group| is_active[group]).collect();
        self.change_problem(problem, posterior, state);
    }

    fn par(&self) -> Par {
        if self.settings.threads == 1 { Par::Seq } else { Par::rayon(0) }
    }

    /// Goes on with another set of groups; `self.groups` and `self.limits` are already those.
    fn change_problem(&mut self, problem: Problem, posterior: Box<dyn Posterior>, state: State) {
        let mut is_active = vec![false; self.whole.groups().count()];
        self.groups.iter().for_each(|&group| is_active[group] = true);
        self.columns = self.whole.columns_of(&is_active);
        self.moments = Moments::new(&problem);
        self.proposal = Proposal::new(&problem);
        self.posterior = posterior;
        self.problem = Cow::Owned(problem);
        self.plain = state.clone();
        self.extrapolated = state.clone();
        self.state = state;
        self.solver.restart();
        if let Some(accelerator) = &mut self.accelerator {
            accelerator.restart();
        }
    }

    fn finish(mut self, status: Status) -> FittedModel {
        self.posterior.weight_moments(&self.problem, &mut self.moments);
        self.posterior.row_moments(&self.problem, &mut self.moments);
        let covariance = self.posterior.covariance(&self.problem);
        let outcome = Outcome {
            status,
            objective: self.objective,
            evaluations: self.evaluations,
            trace: self.trace,
            interventions: self.interventions,
            elapsed: self.started.elapsed(),
        };
        let mut weight_precision = vec![0.0; self.whole.column_count()];
        let most: Vec<f64> = self.whole_limits.weight_precision.iter().map(|bounds| bounds[1]).collect();
        self.whole.groups().spread(&most, &mut weight_precision);
        let active_groups = self.problem.groups().of_column();
        for (&column, &group) in self.columns.iter().zip(active_groups) {
            weight_precision[column] = self.state.weight_precision[group];
        }
        let (columns, base_noise) = (self.columns, self.settings.base_noise);
        FittedModel::new(
            self.whole,
            weight_precision,
            columns,
            &self.state,
            &self.moments,
            covariance,
            base_noise,
            outcome,
        )
    }
}

fn evaluate(
    problem: &Problem,
    state: &State,
    posterior: &mut dyn Posterior,
    moments: &mut Moments,
    counts: &mut Interventions,
) -> Result<f64, FactorError> {
    let jitter = posterior.factorise(problem, &state.weight_precision, state.row_noise(), moments)?.0;
    if jitter > 0.0 {
        counts.jittered += 1;
        counts.largest_jitter = counts.largest_jitter.max(jitter);
    }
    let value = objective(problem, state, moments);
    if value.is_finite() && moments.mean.iter().all(|m| m.is_finite()) {
        Ok(value)
    } else {
        Err(FactorError { size: problem.column_count() })
    }
}

/// Moves `next` half of the way back to `state`, in logs.
fn halve_step(state: &State, next: &mut State) {
    let halve = |from: &[f64], to: &mut [f64]| {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = (*to * from).sqrt());
    };
    halve(&state.weight_precision, &mut next.weight_precision);
    halve(&state.noise_variance, &mut next.noise_variance);
    let (old, new) = (state.noise.to_coordinates(), next.noise.to_coordinates());
    let middle = std::array::from_fn(|k| 0.5 * (old[k] + new[k]));
    next.noise.set_coordinates(middle, [0.0, f64::INFINITY]);
    if let crate::noise::NoiseModel::Shared { variance } = next.noise {
        next.noise_variance.fill(variance);
    }
    super::safeguard::confine(next);
}
