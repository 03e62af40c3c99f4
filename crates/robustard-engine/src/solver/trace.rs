//! The history of a fit and those who watch it.

use std::ops::ControlFlow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Interventions;
use crate::state::State;
use crate::stop::Stop;

/// One line of a fit's history.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct IterationRecord {
    /// Counted from 1.
    pub iteration: usize,
    /// The objective after the step.
    pub objective: f64,
    /// Relative change of log γ.
    pub weight_change: f64,
    /// Relative change of log λ, as of the last iteration that moved λ; none before.
    pub noise_change: Option<f64>,
    /// Columns still in the work.
    pub active_columns: usize,
    /// Whether the step was an extrapolated one.
    pub accelerated: bool,
    /// Posteriors computed so far.
    pub evaluations: usize,
    /// Time since the start; not saved.
    #[serde(skip)]
    pub elapsed: Duration,
}

/// What an observer sees after each iteration.
pub struct Iteration<'a> {
    /// The record that goes into the history.
    pub record: &'a IterationRecord,
    /// The new state; γ is that of the groups still in the work.
    pub state: &'a State,
    /// The columns still in the work.
    pub columns: &'a [usize],
    /// The group of columns that each γ of the state belongs to.
    pub groups: &'a [usize],
    /// Interventions so far.
    pub interventions: &'a Interventions,
}

/// Watches a fit. `ControlFlow::Break` stops it with the model so far.
///
/// Every `FnMut(&Iteration) -> ControlFlow<()>` is an observer.
pub trait Observer {
    /// Called after each iteration.
    fn iteration(&mut self, iteration: &Iteration<'_>) -> ControlFlow<()>;

    /// A flag by which to stop between iterations and in what comes before them, such as the growth of a basis. It is asked for
    /// once, at the start.
    fn stop(&self) -> Stop {
        Stop::default()
    }
}

impl<F: FnMut(&Iteration<'_>) -> ControlFlow<()>> Observer for F {
    fn iteration(&mut self, iteration: &Iteration<'_>) -> ControlFlow<()> {
        self(iteration)
    }
}
