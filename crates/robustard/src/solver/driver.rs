//! The one loop that runs every solver: propose → damp and clip → extrapolate → factorise → accept or fall back →
//! observe → stop.

use std::borrow::Cow;
use std::time::Instant;

use faer::Par;

use super::accelerate::Anderson;
use super::entry::FitError;
use super::prune::{Pruner, Readmission, keep_groups, readmissions};
use super::safeguard::{Interventions, Limits, Safeguard};
use super::start::Start;
use super::stopping::{Status, Stopping};
use super::{CheckedSettings, Iteration, IterationRecord, Observer, Point, Proposal, Solver, SolverKind, growing};
use crate::evidence::objective;
use crate::model::{FittedModel, Outcome};
use crate::posterior::{FactorError, Moments, Posterior, RowNoise, route};
use crate::problem::Problem;
use crate::state::State;

/// Plain iterations before the first shortcut, be it an extrapolated step or pruning. From far away both lead to other, often
/// worse optima; after 50 plain steps nearly all of 27 designs ended where the plain solver does, or below
/// (`cargo xtask bench acceleration`).
pub(super) const SETTLING_ITERATIONS: usize = 50;
/// Halvings of a plain step before the fit gives up.
const MOST_HALVINGS: usize = 12;
/// Rounds in which left-out columns may come back.
const MOST_READMISSION_ROUNDS: usize = 5;
/// Columns leave together, at least this share of the active ones at a time, because each time the rows are copied; or
/// fewer, when none has left for so many iterations.
const LEAST_PRUNED_SHARE: f64 = 0.02;
const LONGEST_PRUNING_WAIT: usize = 20;
/// An extrapolated state may be worse than the present one by this much: rounding, not a worse fit.
const ROUNDING: f64 = 1e-6;
/// Pruning several groups at once may cost this much of the objective; each by itself would gain.
const LARGEST_PRUNING_LOSS: f64 = 0.01;
/// Longest history for which room is made in advance.
const LONGEST_RESERVED_TRACE: usize = 10_000;

/// The part of the problem that has not been pruned, with its state and the posterior at that state.
struct Active<'a> {
    problem: Cow<'a, Problem>,
    /// The whole problem's group that each active group is.
    groups: Vec<usize>,
    /// The whole problem's column that each active column is.
    columns: Vec<usize>,
    limits: Limits,
    posterior: Box<dyn Posterior>,
    moments: Moments,
    state: State,
    objective: f64,
}

impl<'a> Active<'a> {
    /// The active part with the groups of `whole` for which `is_active` is true; `state` is already that part's.
    fn part_of(
        whole: &Problem,
        whole_limits: &Limits,
        is_active: &[bool],
        posterior: impl FnOnce(&Problem) -> Box<dyn Posterior>,
        state: State,
    ) -> Self {
        let problem = whole.select_groups(is_active);
        let mut limits = whole_limits.clone();
        limits.keep(is_active);
        Self {
            groups: (0..is_active.len()).filter(|&group| is_active[group]).collect(),
            columns: whole.columns_of(is_active),
            limits,
            posterior: posterior(&problem),
            moments: Moments::new(&problem),
            state,
            objective: f64::NAN,
            problem: Cow::Owned(problem),
        }
    }

    fn point(&self) -> Point<'_> {
        let Self { problem, state, moments, posterior, .. } = self;
        Point { problem, state, moments, posterior: posterior.as_ref() }
    }

    /// Factorises at the state and notes the objective.
    fn evaluate(&mut self, counts: &mut Interventions) -> Result<(), FactorError> {
        let Self { problem, state, moments, posterior, .. } = self;
        self.objective = evaluate(problem, state, posterior.as_mut(), moments, counts)?;
        Ok(())
    }

    /// Fills the moments that solvers need beyond the factorisation.
    fn complete_moments(&mut self) {
        self.posterior.weight_moments(&self.problem, &mut self.moments);
        if !self.state.noise.is_shared() {
            self.posterior.row_moments(&self.problem, &mut self.moments);
        }
    }

    /// Fills all moments.
    fn all_moments(&mut self) {
        self.posterior.weight_moments(&self.problem, &mut self.moments);
        self.posterior.row_moments(&self.problem, &mut self.moments);
    }
}

/// A fit under way.
pub(super) struct Fit<'a> {
    /// The problem as given.
    whole: &'a Problem,
    settings: &'a CheckedSettings,
    whole_limits: Limits,
    /// What is being worked on; everything below speaks of its columns.
    active: Active<'a>,
    /// Groups of the whole problem that must stay, because leaving made the objective worse.
    protected: Vec<bool>,
    /// Groups that came back once; if they leave again they stay out.
    returned: Vec<bool>,
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
    par: Par,
    started: Instant,
    trace: Vec<IterationRecord>,
}

impl<'a> Fit<'a> {
    pub(super) fn start(
        problem: &'a Problem,
        settings: &'a CheckedSettings,
        start: Option<&Start>,
        par: Par,
    ) -> Result<Self, FactorError> {
        let started = Instant::now();
        let limits = Limits::new(problem, settings);
        let mut state = limits.initial_state(problem, settings);
        let start = start.filter(|start| start.fits(&state));
        if let Some(start) = start {
            start.apply(problem, &limits, &mut state);
        }
        let active = Active {
            problem: Cow::Borrowed(problem),
            groups: (0..problem.groups().count()).collect(),
            columns: (0..problem.column_count()).collect(),
            limits: limits.clone(),
            posterior: route(settings.route, problem, par),
            moments: Moments::new(problem),
            state: state.clone(),
            objective: f64::NAN,
        };
        let mut fit = Self {
            whole: problem,
            settings,
            whole_limits: limits,
            active,
            protected: vec![false; problem.groups().count()],
            returned: vec![false; problem.groups().count()],
            plain: state.clone(),
            extrapolated: state,
            proposal: Proposal::new(problem),
            solver: super::solver(settings),
            safeguard: Safeguard::new(settings),
            accelerator: settings.accelerates().then(|| Anderson::new(settings.acceleration_memory)),
            pruner: Pruner::default(),
            stopping: Stopping::new(settings),
            noise_started: start.is_some(),
            readmission_rounds: 0,
            evaluations: 0,
            interventions: Interventions::default(),
            par,
            started,
            trace: Vec::with_capacity(settings.max_iterations.min(LONGEST_RESERVED_TRACE)),
        };
        if settings.solver == SolverKind::Growing && !fit.noise_started {
            fit.grow();
        }
        fit.evaluate_state()?;
        if settings.noise_start == 0 && !fit.noise_started {
            fit.start_noise()?;
        }
        Ok(fit)
    }

    /// Works on few columns, if growth finds them.
    fn grow(&mut self) {
        let grown = growing::start(self.whole, self.settings, &self.whole_limits, &self.active.state, self.par);
        if let Some((is_active, state)) = grown {
            let posterior = |problem: &Problem| route(self.settings.route, problem, self.par);
            let state = keep_groups(&state, &is_active);
            let mut active = Active::part_of(self.whole, &self.whole_limits, &is_active, posterior, state);
            if active.evaluate(&mut self.interventions).is_ok() {
                self.work_on(active);
                self.noise_started = true;
            }
        }
    }

    pub(super) fn run<O: Observer + ?Sized>(mut self, observer: &mut O) -> Result<FittedModel, FitError> {
        let mut status = Status::IterationLimit;
        let mut last_pruned = 0;
        for iteration in 1..=self.settings.max_iterations {
            let noise_moves = self.noise_moves(iteration);
            if noise_moves && !self.noise_started && self.start_noise().is_err() {
                status = Status::NumericalTrouble;
                break;
            }
            self.active.complete_moments();
            if self.settings.pruning && iteration > SETTLING_ITERATIONS {
                let waited = iteration - last_pruned >= LONGEST_PRUNING_WAIT;
                if self.prune(if waited { 0.0 } else { LEAST_PRUNED_SHARE }) {
                    last_pruned = iteration;
                }
            }
            self.propose(noise_moves);
            let change = self.stopping.observe(&self.active.state, &self.plain, noise_moves);
            let Some(step) = self.advance() else {
                status = Status::NumericalTrouble;
                break;
            };
            let Active { state, columns, groups, objective, .. } = &self.active;
            let record = IterationRecord {
                iteration,
                objective: *objective,
                weight_change: change.weights,
                noise_change: change.noise.is_finite().then_some(change.noise),
                active_columns: columns.len(),
                accelerated: step == Step::Extrapolated,
                evaluations: self.evaluations,
                elapsed: self.started.elapsed(),
            };
            self.trace.push(record);
            let interventions = &self.interventions;
            if observer.iteration(&Iteration { record: &record, state, columns, groups, interventions }).is_break() {
                status = Status::Interrupted;
                break;
            }
            if self.stopping.converged() {
                if !self.tidy() {
                    status = Status::Converged;
                    break;
                }
                self.stopping.restart();
            }
        }
        Ok(self.finish(status))
    }

    fn noise_moves(&self, iteration: usize) -> bool {
        let since = iteration.checked_sub(self.settings.noise_start.saturating_add(1));
        since.is_some_and(|since| since % self.settings.noise_every == 0)
    }

    fn evaluate_state(&mut self) -> Result<(), FactorError> {
        self.evaluations += 1;
        self.active.evaluate(&mut self.interventions)
    }

    /// Before the noise first moves, its scale is put where the bulk of the rows is. On failure all is as before.
    fn start_noise(&mut self) -> Result<(), FactorError> {
        self.noise_started = true;
        if self.active.state.noise.is_shared() {
            return Ok(());
        }
        self.active.complete_moments();
        let before = self.active.state.clone();
        self.proposal.expected_square_residuals(&self.active.moments);
        let state = &mut self.active.state;
        state.noise.start_at(&self.proposal.second_moment, self.active.limits.noise_variance);
        if state.noise == before.noise {
            return Ok(());
        }
        super::safeguard::confine(state);
        self.evaluate_state().inspect_err(|_| self.go_back_to(&before))
    }

    /// Puts the state back to one that was factorised before, so that it can be again.
    fn go_back_to(&mut self, state: &State) {
        self.active.state.copy_from(state);
        let restored = self.active.evaluate(&mut self.interventions);
        debug_assert!(restored.is_ok());
    }

    /// Writes the plain step from the present state into `self.plain`.
    fn propose(&mut self, noise_moves: bool) {
        self.solver.propose(&self.active.point(), &mut self.proposal);
        let Active { problem, state, moments, limits, .. } = &self.active;
        if !state.noise.is_shared() {
            self.safeguard.studentize(problem, state, moments, &mut self.proposal);
        }
        let counts = self.safeguard.step(problem, state, &self.proposal, limits, noise_moves, &mut self.plain);
        self.interventions.add(counts);
    }

    /// Moves to the extrapolated state if that is no worse, else to the plain one. None when no step can be factorised: the
    /// posterior is then that of the unmoved state.
    fn advance(&mut self) -> Option<Step> {
        let Active { problem, limits, posterior, moments, state, objective, .. } = &mut self.active;
        let counts = &mut self.interventions;
        if let Some(accelerator) = &mut self.accelerator {
            let next = &mut self.extrapolated;
            if accelerator.extrapolate(problem, state, &self.plain, limits, next) {
                self.evaluations += 1;
                match evaluate(problem, next, posterior.as_mut(), moments, counts) {
                    Ok(value) if value <= *objective + ROUNDING => {
                        state.copy_from(next);
                        *objective = value;
                        accelerator.accepted();
                        return Some(Step::Extrapolated);
                    }
                    _ => {
                        counts.rejected_extrapolations += 1;
                        accelerator.rejected();
                    }
                }
            }
        }
        for halving in 0..=MOST_HALVINGS {
            if halving > 0 {
                counts.shortened_steps += 1;
                halve_step(state, &mut self.plain);
            }
            self.evaluations += 1;
            if let Ok(value) = evaluate(problem, &self.plain, posterior.as_mut(), moments, counts) {
                state.copy_from(&self.plain);
                *objective = value;
                return Some(Step::Plain);
            }
        }
        let unmoved = self.active.state.clone();
        self.go_back_to(&unmoved);
        None
    }

    /// At convergence: takes out whatever is irrelevant, then lets back in what is not; true if anything changed.
    fn tidy(&mut self) -> bool {
        if !self.settings.pruning {
            return false;
        }
        self.active.complete_moments();
        self.prune(0.0) || self.readmit()
    }

    /// Takes irrelevant groups out of the work if they are at least a share of all, unless the objective would suffer; true
    /// if any left.
    fn prune(&mut self, least_share: f64) -> bool {
        let (groups, protected) = (&self.active.groups, &self.protected);
        let leaving = self.pruner.mark(&self.active.point(), |group| protected[groups[group]]);
        if leaving == 0 || (leaving as f64) < least_share * groups.len() as f64 {
            return false;
        }
        let keep = &self.pruner.keep;
        let mut is_active = vec![false; self.whole.groups().count()];
        groups.iter().zip(keep).for_each(|(&group, &kept)| is_active[group] = kept);
        let columns = self.active.problem.columns_of(keep);
        let old = &self.active.posterior;
        let posterior = |reduced: &Problem| old.reduce(self.settings.route, reduced, &columns);
        let state = keep_groups(&self.active.state, keep);
        let mut reduced = Active::part_of(self.whole, &self.whole_limits, &is_active, posterior, state);
        self.evaluations += 1;
        let evaluated = reduced.evaluate(&mut self.interventions);
        if evaluated.is_ok() && reduced.objective <= self.active.objective + LARGEST_PRUNING_LOSS {
            self.interventions.pruned_columns += self.active.columns.len() - reduced.columns.len();
            self.work_on(reduced);
            self.active.complete_moments();
            true
        } else {
            // Together they matter: they stay.
            let left = groups.iter().zip(keep).filter(|(_, kept)| !**kept).map(|(&group, _)| group);
            left.collect::<Vec<_>>().into_iter().for_each(|group| self.protected[group] = true);
            false
        }
    }

    /// Lets pruned groups back in that raise the evidence; true if there were any.
    fn readmit(&mut self) -> bool {
        let whole_groups = self.whole.groups().count();
        if self.active.groups.len() == whole_groups || self.readmission_rounds == MOST_READMISSION_ROUNDS {
            return false;
        }
        self.readmission_rounds += 1;
        self.active.all_moments();
        let mut is_active = vec![false; whole_groups];
        self.active.groups.iter().for_each(|&group| is_active[group] = true);
        let mut back = readmissions(self.whole, &self.active.point(), &is_active);
        back.retain(|readmission| !self.returned[readmission.group]);
        if back.is_empty() {
            return false;
        }
        let mut weight_precision: Vec<f64> =
            self.whole_limits.weight_precision.iter().map(|bounds| bounds[1]).collect();
        for (&group, value) in self.active.groups.iter().zip(&self.active.state.weight_precision) {
            weight_precision[group] = *value;
        }
        for &Readmission { group, weight_precision: value } in &back {
            let [low, high] = self.whole_limits.weight_precision[group];
            weight_precision[group] = value.clamp(low, high);
            is_active[group] = true;
        }
        let state = keep_groups(&State { weight_precision, ..self.active.state.clone() }, &is_active);
        let posterior = |problem: &Problem| route(self.settings.route, problem, self.par);
        let mut wider = Active::part_of(self.whole, &self.whole_limits, &is_active, posterior, state);
        self.evaluations += 1;
        let evaluated = wider.evaluate(&mut self.interventions);
        if evaluated.is_err() || wider.objective >= self.active.objective {
            return false;
        }
        self.interventions.readmitted_columns += wider.columns.len() - self.active.columns.len();
        back.iter().for_each(|readmission| self.returned[readmission.group] = true);
        self.work_on(wider);
        true
    }

    /// Goes on with another set of groups.
    fn work_on(&mut self, active: Active<'a>) {
        self.proposal = Proposal::new(&active.problem);
        self.plain = active.state.clone();
        self.extrapolated = active.state.clone();
        self.active = active;
        self.solver.restart();
        if let Some(accelerator) = &mut self.accelerator {
            accelerator.restart();
        }
    }

    fn finish(mut self, status: Status) -> FittedModel {
        self.active.all_moments();
        let Active { problem, columns, state, moments, posterior, objective, .. } = &mut self.active;
        // Columns may have left or come back after the last record was made.
        if let Some(last) = self.trace.last_mut() {
            (last.objective, last.active_columns) = (*objective, columns.len());
        }
        let mut weight_precision = vec![0.0; self.whole.column_count()];
        let most: Vec<f64> = self.whole_limits.weight_precision.iter().map(|bounds| bounds[1]).collect();
        self.whole.groups().spread(&most, &mut weight_precision);
        for (&column, &group) in columns.iter().zip(problem.groups().of_column()) {
            weight_precision[column] = state.weight_precision[group];
        }
        let outcome = Outcome {
            status,
            objective: *objective,
            evaluations: self.evaluations,
            trace: self.trace,
            interventions: self.interventions,
            elapsed: self.started.elapsed(),
        };
        let mut model = FittedModel::new(
            self.whole,
            weight_precision,
            std::mem::take(columns),
            state,
            moments,
            self.settings.base_noise,
            outcome,
        );
        let uncertainty = widened(problem, state, moments, posterior.as_mut(), model.noise_inflation);
        model.set_uncertainty(&uncertainty.moments, posterior.covariance(problem), uncertainty.inflation);
        model
    }
}

/// Which step was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Plain,
    Extrapolated,
}

/// The posterior that error bars are taken from.
struct Uncertainty {
    moments: Moments,
    inflation: f64,
}

/// The posterior with the noise made `inflation` times as large ([`crate::noise::NoiseModel::inflation`]); the posterior as
/// it is if that cannot be factorised.
fn widened(
    problem: &Problem,
    state: &State,
    moments: &Moments,
    posterior: &mut dyn Posterior,
    inflation: f64,
) -> Uncertainty {
    let mut wide = moments.clone();
    if inflation > 1.0 {
        let variance: Vec<f64> = state.noise_variance.iter().map(|v| inflation * v).collect();
        if posterior.factorise(problem, &state.weight_precision, RowNoise::PerRow(&variance), &mut wide).is_ok() {
            posterior.weight_moments(problem, &mut wide);
            return Uncertainty { moments: wide, inflation };
        }
        // The state itself was factorised before.
        let restored = posterior.factorise(problem, &state.weight_precision, state.row_noise(), &mut wide);
        debug_assert!(restored.is_ok());
        posterior.weight_moments(problem, &mut wide);
    }
    Uncertainty { moments: wide, inflation: 1.0 }
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
        to.iter_mut().zip(from).for_each(|(to, from)| *to = to.sqrt() * from.sqrt());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::NoiseModel;

    #[test]
    fn half_a_step_is_half_of_the_way_in_logs() {
        let state = |gamma: f64, lambda: f64| State {
            weight_precision: vec![gamma],
            noise_variance: vec![lambda; 2],
            noise: NoiseModel::Shared { variance: lambda },
        };
        let mut next = state(1e200, 4.0);
        halve_step(&state(1e180, 1.0), &mut next);
        assert!((next.weight_precision[0] / 1e190 - 1.0).abs() < 1e-12);
        assert!((next.noise_variance[1] - 2.0).abs() < 1e-12);
        assert!(matches!(next.noise, NoiseModel::Shared { variance } if (variance - 2.0).abs() < 1e-12));
    }
}
