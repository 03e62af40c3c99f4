//! The one loop that runs every solver: propose → damp and clip → extrapolate → factorise → accept or fall back →
//! observe → stop.

use std::ops::ControlFlow;
use std::time::Instant;

use faer::Par;

use super::accelerate::Anderson;
use super::active::{Active, ActiveSet, Effort};
use super::safeguard::{Limits, Safeguard, confine};
use super::solution::{Outcome, Solution, Uncertainty};
use super::start::Start;
use super::stopping::{Change, Status, Stopping};
use super::{
    CheckedSettings, Iteration, IterationRecord, Observer, Proposal, Solver, SolverError, SolverKind, growing, passes,
};
use crate::noise::{NoiseModel, Shared};
use crate::posterior::FactorError;
use crate::problem::Problem;
use crate::state::State;
use crate::stop::Stop;

/// Plain iterations before the first shortcut, be it an extrapolated step or pruning. From far away both lead to other, often
/// worse optima; after 50 plain steps nearly all of 27 designs ended where the plain solver does, or below
/// (`cargo xtask bench acceleration`).
pub(super) const SETTLING_ITERATIONS: usize = 50;
/// Halvings of a plain step before the fit gives up.
const MOST_HALVINGS: usize = 12;
/// Columns leave together, at least this share of the active ones at a time, because each time the rows are copied; or
/// fewer, when none has left for so many iterations.
const LEAST_PRUNED_SHARE: f64 = 0.02;
const LONGEST_PRUNING_WAIT: usize = 20;
/// An extrapolated state may be worse than the present one by this much: rounding, not a worse fit.
const ROUNDING: f64 = 1e-6;
/// Longest history for which room is made in advance.
const LONGEST_RESERVED_TRACE: usize = 10_000;

/// A fit under way.
pub(super) struct Fit<'a> {
    settings: &'a CheckedSettings,
    /// What is being worked on; the states below speak of its columns.
    set: ActiveSet<'a>,
    /// The plain step.
    plain: State,
    /// The extrapolated step.
    extrapolated: State,
    proposal: Proposal,
    solver: Box<dyn Solver>,
    safeguard: Safeguard,
    accelerator: Option<Anderson>,
    stopping: Stopping,
    noise_started: bool,
    last_pruned: usize,
    effort: Effort,
    stop: Stop,
    started: Instant,
    trace: Vec<IterationRecord>,
}

impl<'a> Fit<'a> {
    pub(super) fn start(
        problem: &'a Problem<'a>,
        settings: &'a CheckedSettings,
        start: Option<&Start>,
        stop: Stop,
        par: Par,
    ) -> Result<Self, SolverError> {
        let started = Instant::now();
        let limits = Limits::new(problem, settings);
        let mut state = limits.initial_state(problem, settings);
        if let Some(start) = start {
            start.check(problem, &state)?;
            start.apply(problem, &limits, &mut state);
        }
        let mut fit = Self {
            settings,
            plain: state.clone(),
            extrapolated: state.clone(),
            set: ActiveSet::new(problem, settings, limits, state, par),
            proposal: Proposal::new(problem, settings.noise.is_shared()),
            solver: super::solver(settings),
            safeguard: Safeguard::new(settings),
            accelerator: settings.accelerates().then(|| Anderson::new(history_length(problem, settings))),
            stopping: Stopping::new(settings),
            noise_started: start.is_some(),
            last_pruned: 0,
            effort: Effort::default(),
            stop,
            started,
            trace: Vec::with_capacity(settings.max_iterations.min(LONGEST_RESERVED_TRACE)),
        };
        if !fit.noise_started {
            fit.start_by_solver(problem, par);
        }
        fit.set.active.evaluate(&mut fit.effort)?;
        if settings.noise_start == 0 && !fit.noise_started {
            fit.start_noise()?;
        }
        Ok(fit)
    }

    /// Begins where a solver that has a start of its own says, on the columns that it finds.
    fn start_by_solver(&mut self, problem: &Problem, par: Par) {
        let (state, limits) = (&self.set.active.state, self.set.whole_limits());
        let grown = match self.settings.solver {
            SolverKind::Growing => growing::start(problem, self.settings, limits, state, &self.stop, par),
            SolverKind::Passes => passes::start(problem, self.settings, limits, state, &self.stop, par).map(|start| {
                self.effort.evaluations += start.1;
                start.0
            }),
            _ => None,
        };
        if let Some(grown) = grown
            && self.set.start_with(grown, &mut self.effort)
        {
            self.follow_the_set();
            self.noise_started = true;
        }
    }

    pub(super) fn run<O: Observer + ?Sized>(mut self, observer: &mut O) -> Solution {
        let status = self.iterate(observer);
        self.finish(status)
    }

    fn iterate<O: Observer + ?Sized>(&mut self, observer: &mut O) -> Status {
        for iteration in 1..=self.settings.max_iterations {
            let noise_moves = self.noise_moves(iteration);
            if noise_moves && !self.noise_started && self.start_noise().is_err() {
                return Status::NumericalTrouble;
            }
            self.set.active.complete_moments();
            self.prune_now_and_then(iteration);
            self.propose(noise_moves);
            let change = self.stopping.observe(&self.set.active.state, &self.plain, noise_moves);
            let Some(step) = self.advance() else { return Status::NumericalTrouble };
            if self.show(iteration, change, step, observer).is_break() || self.stop.is_raised() {
                return Status::Interrupted;
            }
            if self.stopping.converged() {
                if !self.tidy() {
                    return Status::Converged;
                }
                self.stopping.restart();
            }
        }
        Status::IterationLimit
    }

    fn noise_moves(&self, iteration: usize) -> bool {
        let since = iteration.checked_sub(self.settings.noise_start.saturating_add(1));
        since.is_some_and(|since| since % self.settings.noise_every == 0)
    }

    /// Before the noise first moves, its scale is put where the bulk of the rows is. On failure all is as before.
    fn start_noise(&mut self) -> Result<(), FactorError> {
        self.noise_started = true;
        let active = &mut self.set.active;
        if active.state.noise.is_shared() {
            return Ok(());
        }
        active.complete_moments();
        let before = active.state.clone();
        self.proposal.expected_square_residuals(&active.moments);
        active.state.noise.start_at(&self.proposal.second_moment, active.limits.noise_variance);
        if active.state.noise == before.noise {
            return Ok(());
        }
        confine(&mut active.state);
        active.evaluate(&mut self.effort).inspect_err(|_| active.go_back_to(&before, &mut self.effort))
    }

    /// Writes the plain step from the present state into `self.plain`: propose → damp → clip.
    fn propose(&mut self, noise_moves: bool) {
        self.solver.propose(&self.set.active.point(), &mut self.proposal);
        let Active { problem, state, moments, limits, .. } = &self.set.active;
        if !state.noise.is_shared() {
            self.safeguard.studentize(problem, state, moments, &mut self.proposal);
        }
        let counts = self.safeguard.step(problem, state, &self.proposal, limits, noise_moves, &mut self.plain);
        self.effort.interventions.add(counts);
    }

    /// Moves to the extrapolated state if that is no worse, else to the plain one: factorise → objective → accept or fall back.
    /// None when no step can be factorised: the posterior is then that of the unmoved state.
    fn advance(&mut self) -> Option<Step> {
        if self.extrapolate() {
            return Some(Step::Extrapolated);
        }
        let active = &mut self.set.active;
        for halving in 0..=MOST_HALVINGS {
            if halving > 0 {
                self.effort.interventions.shortened_steps += 1;
                halve_step(&active.state, &mut self.plain);
            }
            if active.try_move(&self.plain, f64::INFINITY, &mut self.effort) {
                return Some(Step::Plain);
            }
        }
        let unmoved = active.state.clone();
        active.go_back_to(&unmoved, &mut self.effort);
        None
    }

    /// Moves to the extrapolated state, if there is one that is no worse.
    fn extrapolate(&mut self) -> bool {
        let Some(accelerator) = &mut self.accelerator else { return false };
        let active = &mut self.set.active;
        let next = &mut self.extrapolated;
        if !accelerator.extrapolate(&active.problem, &active.state, &self.plain, &active.limits, next) {
            return false;
        }
        let accepted = active.try_move(next, active.objective + ROUNDING, &mut self.effort);
        if accepted {
            accelerator.accepted();
        } else {
            self.effort.interventions.rejected_extrapolations += 1;
            accelerator.rejected();
        }
        accepted
    }

    /// Notes the iteration and shows it to the observer.
    fn show<O: Observer + ?Sized>(
        &mut self,
        iteration: usize,
        change: Change,
        step: Step,
        observer: &mut O,
    ) -> ControlFlow<()> {
        let Active { state, columns, groups, objective, .. } = &self.set.active;
        let record = IterationRecord {
            iteration,
            objective: *objective,
            weight_change: change.weights,
            noise_change: change.noise.is_finite().then_some(change.noise),
            active_columns: columns.len(),
            accelerated: step == Step::Extrapolated,
            evaluations: self.effort.evaluations,
            elapsed: self.started.elapsed(),
        };
        self.trace.push(record);
        let interventions = &self.effort.interventions;
        observer.iteration(&Iteration { record: &record, state, columns, groups, interventions })
    }

    /// Once settled, takes irrelevant columns out when there are many of them, or rarely.
    fn prune_now_and_then(&mut self, iteration: usize) {
        if !self.settings.pruning || iteration <= SETTLING_ITERATIONS {
            return;
        }
        let waited = iteration - self.last_pruned >= LONGEST_PRUNING_WAIT;
        if self.set.prune(if waited { 0.0 } else { LEAST_PRUNED_SHARE }, &mut self.effort) {
            self.follow_the_set();
            self.last_pruned = iteration;
        }
    }

    /// At convergence: takes out whatever is irrelevant, then lets back in what is not; true if anything changed.
    fn tidy(&mut self) -> bool {
        if !self.settings.pruning {
            return false;
        }
        self.set.active.complete_moments();
        let changed = self.set.prune(0.0, &mut self.effort) || self.set.readmit(&mut self.effort);
        if changed {
            self.follow_the_set();
        }
        changed
    }

    /// The active groups are others now: room for their steps, and nothing remembered of the old ones.
    fn follow_the_set(&mut self) {
        let Active { problem, state, .. } = &self.set.active;
        self.proposal = Proposal::new(problem, state.noise.is_shared());
        self.plain = state.clone();
        self.extrapolated = state.clone();
        self.solver.restart();
        if let Some(accelerator) = &mut self.accelerator {
            accelerator.restart();
        }
    }

    fn finish(self, status: Status) -> Solution {
        let Self { mut set, mut trace, effort, started, accelerator, proposal, plain, extrapolated, .. } = self;
        // What steps were made with takes much room, and the last look at the rows needs some.
        drop((accelerator, proposal, plain, extrapolated));
        set.active.all_moments();
        let weight_precision = set.weight_precision();
        let Active { problem, columns, state, moments, mut posterior, objective, .. } = set.active;
        // Columns may have left or come back after the last record was made.
        if let Some(last) = trace.last_mut() {
            (last.objective, last.active_columns) = (objective, columns.len());
        }
        let uncertainty = Uncertainty::new(&problem, &state, &moments, posterior.as_mut());
        let outcome = Outcome {
            status,
            objective,
            evaluations: effort.evaluations,
            trace,
            interventions: effort.interventions,
            elapsed: started.elapsed(),
        };
        Solution { columns, weight_precision, state, moments, uncertainty, outcome }
    }
}

/// How many steps the accelerator looks back. With noise per row a remembered step has two numbers per row; beside large tables that
/// is at most two fifths of what the table is.
fn history_length(problem: &Problem, settings: &CheckedSettings) -> usize {
    let most = (problem.column_count() / 5).max(1);
    let is_limited = problem.is_large() && !settings.noise.is_shared();
    if is_limited { settings.acceleration_memory.min(most) } else { settings.acceleration_memory }
}

/// Which step was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Plain,
    Extrapolated,
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
    if let NoiseModel::Shared(Shared { variance }) = next.noise {
        next.noise_variance.fill(variance);
    }
    confine(next);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_step_is_half_of_the_way_in_logs() {
        let state = |gamma: f64, lambda: f64| State {
            weight_precision: vec![gamma],
            noise_variance: vec![lambda; 2],
            noise: NoiseModel::shared(lambda),
        };
        let mut next = state(1e200, 4.0);
        halve_step(&state(1e180, 1.0), &mut next);
        assert!((next.weight_precision[0] / 1e190 - 1.0).abs() < 1e-12);
        assert!((next.noise_variance[1] - 2.0).abs() < 1e-12);
        assert!(matches!(next.noise, NoiseModel::Shared(Shared { variance }) if (variance - 2.0).abs() < 1e-12));
    }
}
