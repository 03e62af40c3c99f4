//! A start by passes over the rows, between which the precisions take many steps: few looks at many rows. From there on it is EM.

use std::convert::Infallible;

use faer::Par;

use super::CheckedSettings;
use super::growing::GrownStart;
use super::safeguard::{Limits, confine};
use crate::noise::Noise;
use crate::passes::{InMemory, Learner, Plan, RowPass, Step};
use crate::problem::Problem;
use crate::state::State;
use crate::stop::Stop;

/// Where EM starts, and the passes it took. None where passes are no help: with a flat prior, whose variances have to be damped, and where
/// there are more columns than rows; or where nothing could be computed.
pub(super) fn start(
    problem: &Problem,
    settings: &CheckedSettings,
    limits: &Limits,
    state: &State,
    stop: &Stop,
    par: Par,
) -> Option<(GrownStart, usize)> {
    if settings.noise == Noise::Flat || problem.column_count() > problem.row_count() {
        return None;
    }
    let plan = Plan {
        groups: problem.groups().clone(),
        weight_precision_bounds: limits.weight_precision.clone(),
        weight_precision: state.weight_precision.clone(),
        start: None,
        noise: settings.noise,
        noise_variance_bounds: limits.noise_variance,
        most_passes: settings.max_iterations,
    };
    let mut rows = InMemory::new(problem, par);
    let mut learner = Learner::new(plan, par);
    loop {
        let sums = rows.pass(&learner.broadcast()).unwrap_or_else(|error: Infallible| match error {});
        if learner.learn(&sums).ok()? != Step::Pass || stop.is_raised() {
            break;
        }
    }
    let groups = problem.groups();
    let precision = learner.weight_precision();
    // What the passes have taken out is at its bound.
    let is_active: Vec<bool> = (0..groups.count())
        .map(|group| groups.fixed(group).is_some() || precision[group] < limits.weight_precision[group][1])
        .collect();
    let mut state = state.clone();
    state.weight_precision.copy_from_slice(precision);
    state.noise = learner.noise()?;
    match learner.shared_variance() {
        Some(variance) => state.noise_variance.fill(variance),
        None => state.noise_variance = rows.variances(&learner.broadcast()),
    }
    confine(&mut state);
    let passes = learner.passes();
    is_active.contains(&true).then_some((GrownStart { is_active, state, products: None }, passes))
}
