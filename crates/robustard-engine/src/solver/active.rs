//! The part of the problem that is worked on: columns leave it when they do not matter and come back when they do.

use std::sync::Arc;

use faer::Par;

use super::growing::GrownStart;
use super::prune::{Pruner, Readmission, keep_groups, readmissions};
use super::safeguard::{Interventions, Limits};
use super::{CheckedSettings, Point};
use crate::evidence::objective;
use crate::posterior::{FactorError, InnerProducts, Moments, Posterior, Route, cancellation_limit, route};
use crate::problem::Problem;
use crate::state::State;

/// Rounds in which left-out columns may come back.
const MOST_READMISSION_ROUNDS: usize = 5;
/// Pruning several groups at once may cost this much of the objective; each by itself would gain.
const LARGEST_PRUNING_LOSS: f64 = 0.01;

/// What a fit has needed so far.
#[derive(Default)]
pub(super) struct Effort {
    /// Posteriors computed.
    pub evaluations: usize,
    pub interventions: Interventions,
}

/// Some groups of columns, with their state and the posterior at that state.
pub(super) struct Active<'a> {
    pub problem: Problem<'a>,
    /// The whole problem's group that each active group is.
    pub groups: Vec<usize>,
    /// The whole problem's column that each active column is.
    pub columns: Vec<usize>,
    pub limits: Limits,
    pub posterior: Box<dyn Posterior>,
    pub moments: Moments,
    pub state: State,
    pub objective: f64,
}

impl<'a> Active<'a> {
    /// All groups of `problem`.
    fn all(problem: &Problem<'a>, limits: &Limits, posterior: Box<dyn Posterior>, state: State) -> Self {
        Self {
            problem: problem.clone(),
            groups: (0..problem.groups().count()).collect(),
            columns: (0..problem.column_count()).collect(),
            limits: limits.clone(),
            posterior,
            moments: Moments::new(problem),
            state,
            objective: f64::NAN,
        }
    }

    /// The groups of `whole` for which `is_active` is true; `state` is already theirs.
    fn part_of(
        whole: &Problem<'a>,
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
            columns: whole.groups().columns_of(is_active),
            limits,
            posterior: posterior(&problem),
            moments: Moments::new(&problem),
            state,
            objective: f64::NAN,
            problem,
        }
    }

    pub(super) fn point(&self) -> Point<'_> {
        let Self { problem, state, moments, posterior, .. } = self;
        Point { problem, state, moments, posterior: posterior.as_ref() }
    }

    /// Factorises at the state and notes the objective.
    pub(super) fn evaluate(&mut self, effort: &mut Effort) -> Result<(), FactorError> {
        let Self { problem, state, moments, posterior, .. } = self;
        self.objective = evaluate(problem, state, posterior.as_mut(), moments, effort)?;
        Ok(())
    }

    /// Factorises at `next` and moves there if the objective is at most `worst`; says whether it did. The posterior is that of
    /// `next` in any case.
    pub(super) fn try_move(&mut self, next: &State, worst: f64, effort: &mut Effort) -> bool {
        let Self { problem, moments, posterior, .. } = self;
        match evaluate(problem, next, posterior.as_mut(), moments, effort) {
            Ok(value) if value <= worst => {
                self.state.copy_from(next);
                self.objective = value;
                true
            }
            _ => false,
        }
    }

    /// Puts the state back to one that was factorised before, so that it can be again.
    pub(super) fn go_back_to(&mut self, state: &State, effort: &mut Effort) {
        self.state.copy_from(state);
        let restored = self.evaluate(effort);
        debug_assert!(restored.is_ok());
    }

    /// Fills the moments that solvers need beyond the factorisation.
    pub(super) fn complete_moments(&mut self) {
        self.posterior.weight_moments(&self.problem, &mut self.moments);
        if !self.state.noise.is_shared() {
            self.posterior.row_moments(&self.problem, &mut self.moments);
        }
    }

    /// Fills all moments.
    pub(super) fn all_moments(&mut self) {
        self.posterior.weight_moments(&self.problem, &mut self.moments);
        self.posterior.row_moments(&self.problem, &mut self.moments);
    }
}

/// The objective at `state`, whose posterior is left in `posterior` and `moments`.
fn evaluate(
    problem: &Problem,
    state: &State,
    posterior: &mut dyn Posterior,
    moments: &mut Moments,
    effort: &mut Effort,
) -> Result<f64, FactorError> {
    effort.evaluations += 1;
    let jitter = posterior.factorise(problem, &state.weight_precision, state.row_noise(), moments)?.0;
    if jitter > 0.0 {
        let counts = &mut effort.interventions;
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

/// The active part and what decides about the rest.
pub(super) struct ActiveSet<'a> {
    /// The problem as given.
    whole: &'a Problem<'a>,
    whole_limits: Limits,
    pub active: Active<'a>,
    /// Groups of the whole problem that must stay, because leaving made the objective worse.
    protected: Vec<bool>,
    /// Inner products of all columns, if there were any when the first left.
    products: Option<Arc<InnerProducts>>,
    /// Groups that came back once; if they leave again they stay out.
    returned: Vec<bool>,
    pruner: Pruner,
    readmission_rounds: usize,
    route: Route,
    par: Par,
}

impl<'a> ActiveSet<'a> {
    /// All groups, at `state`.
    pub(super) fn new(
        whole: &'a Problem<'a>,
        settings: &CheckedSettings,
        whole_limits: Limits,
        state: State,
        par: Par,
    ) -> Self {
        let count = whole.groups().count();
        Self {
            whole,
            active: Active::all(whole, &whole_limits, route(settings.route, whole, par), state),
            whole_limits,
            protected: vec![false; count],
            products: None,
            returned: vec![false; count],
            pruner: Pruner::default(),
            readmission_rounds: 0,
            route: settings.route,
            par,
        }
    }

    pub(super) fn whole_limits(&self) -> &Limits {
        &self.whole_limits
    }

    /// γ of every column of the whole problem; at its upper bound where pruned.
    pub(super) fn weight_precision(&self) -> Vec<f64> {
        let Active { problem, columns, state, .. } = &self.active;
        let most: Vec<f64> = self.whole_limits.weight_precision.iter().map(|bounds| bounds[1]).collect();
        let mut weight_precision = vec![0.0; self.whole.column_count()];
        self.whole.groups().spread(&most, &mut weight_precision);
        for (&column, &group) in columns.iter().zip(problem.groups().of_column()) {
            weight_precision[column] = state.weight_precision[group];
        }
        weight_precision
    }

    /// The groups for which `is_active` is true, at `whole_state`, with the posterior from scratch.
    fn part(&self, is_active: &[bool], whole_state: &State) -> Active<'a> {
        let posterior = |problem: &Problem| route(self.route, problem, self.par);
        let state = keep_groups(whole_state, is_active);
        Active::part_of(self.whole, &self.whole_limits, is_active, posterior, state)
    }

    /// Works on the groups that have grown, if their posterior can be computed; says whether it does.
    pub(super) fn start_with(&mut self, grown: GrownStart, effort: &mut Effort) -> bool {
        let mut part = self.part(&grown.is_active, &grown.state);
        if let Some(products) = &grown.products {
            part.posterior.set_inner_products(products.part(&part.columns));
        }
        let evaluated = part.evaluate(effort).is_ok();
        if evaluated {
            self.active = part;
            self.products = grown.products;
        }
        evaluated
    }

    /// Takes irrelevant groups out of the work if they are at least a share of all, unless the objective would suffer; true
    /// if any left.
    pub(super) fn prune(&mut self, least_share: f64, effort: &mut Effort) -> bool {
        let (groups, protected) = (&self.active.groups, &self.protected);
        let leaving = self.pruner.mark(&self.active.point(), |group| protected[groups[group]]);
        if leaving == 0 || (leaving as f64) < least_share * groups.len() as f64 {
            return false;
        }
        let keep = &self.pruner.keep;
        let mut is_active = vec![false; self.whole.groups().count()];
        groups.iter().zip(keep).for_each(|(&group, &kept)| is_active[group] = kept);
        let columns = self.active.problem.groups().columns_of(keep);
        let posterior = |reduced: &Problem| self.active.posterior.reduce(self.route, reduced, &columns);
        let state = keep_groups(&self.active.state, keep);
        let mut reduced = Active::part_of(self.whole, &self.whole_limits, &is_active, posterior, state);
        let evaluated = reduced.evaluate(effort);
        if evaluated.is_ok() && reduced.objective <= self.active.objective + LARGEST_PRUNING_LOSS {
            if self.active.groups.len() == is_active.len() {
                self.products = self.active.posterior.inner_products();
            }
            effort.interventions.pruned_columns += self.active.columns.len() - reduced.columns.len();
            self.active = reduced;
            self.active.complete_moments();
            true
        } else {
            // Together they matter: they stay.
            for (&group, _) in groups.iter().zip(keep).filter(|(_, kept)| !**kept) {
                self.protected[group] = true;
            }
            false
        }
    }

    /// Lets pruned groups back in that raise the evidence; true if there were any.
    pub(super) fn readmit(&mut self, effort: &mut Effort) -> bool {
        let whole_groups = self.whole.groups().count();
        if self.active.groups.len() == whole_groups || self.readmission_rounds == MOST_READMISSION_ROUNDS {
            return false;
        }
        self.readmission_rounds += 1;
        let products = self.usable_products();
        if products.is_none() {
            self.active.all_moments();
        }
        let mut back = readmissions(self.whole, &self.active.point(), &self.active.columns, products.as_deref());
        back.retain(|readmission| !self.returned[readmission.group]);
        if back.is_empty() {
            return false;
        }
        let mut is_active = vec![false; whole_groups];
        let returning = back.iter().map(|readmission| readmission.group);
        self.active.groups.iter().copied().chain(returning).for_each(|group| is_active[group] = true);
        let mut wider = self.part(&is_active, &self.state_with(&back));
        let evaluated = wider.evaluate(effort);
        if evaluated.is_err() || wider.objective >= self.active.objective {
            return false;
        }
        effort.interventions.readmitted_columns += wider.columns.len() - self.active.columns.len();
        back.iter().for_each(|readmission| self.returned[readmission.group] = true);
        self.active = wider;
        true
    }

    /// The inner products of all columns, where residuals taken from them are exact enough.
    fn usable_products(&self) -> Option<Arc<InnerProducts>> {
        let variance = self.active.state.noise_variance[0];
        let limit = cancellation_limit(self.whole.row_count());
        self.products.clone().filter(|products| products.target_square() / variance <= limit)
    }

    /// The whole problem's state with some groups back at the precisions that suit them.
    fn state_with(&self, back: &[Readmission]) -> State {
        let bounds = &self.whole_limits.weight_precision;
        let mut weight_precision: Vec<f64> = bounds.iter().map(|bounds| bounds[1]).collect();
        for (&group, value) in self.active.groups.iter().zip(&self.active.state.weight_precision) {
            weight_precision[group] = *value;
        }
        for &Readmission { group, weight_precision: value } in back {
            weight_precision[group] = value.clamp(bounds[group][0], bounds[group][1]);
        }
        State { weight_precision, ..self.active.state.clone() }
    }
}
