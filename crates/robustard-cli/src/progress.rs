//! Progress of long work, on standard error and on a terminal only.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use robustard::{Iteration, Observer, Stop};

use crate::Outcome;

/// Work that is done sooner shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);
/// Steps of the bar.
const LENGTH: f64 = 1000.0;

/// A bar that appears when work takes long and goes away with it.
pub struct Bar {
    bar: Option<ProgressBar>,
    is_shown: bool,
    started: Instant,
}

impl Bar {
    pub fn new(quiet: bool) -> Self {
        Self { bar: None, is_shown: !quiet && std::io::stderr().is_terminal(), started: Instant::now() }
    }

    /// Shows that the share `done` of the work is done; the bar never goes back.
    pub fn show(&mut self, done: f64, message: impl FnOnce() -> String) {
        if !self.is_shown || self.started.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(LENGTH as u64);
            match ProgressStyle::with_template("{bar:20} {elapsed} {wide_msg}") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        bar.set_position(bar.position().max((done.clamp(0.0, 1.0) * LENGTH) as u64));
        bar.set_message(message());
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// A flag that Ctrl-C raises. A second Ctrl-C does not wait for what is under way.
fn stopped_by_interrupt() -> Outcome<Stop> {
    let stop = Stop::default();
    let seen = stop.clone();
    ctrlc::set_handler(move || {
        if seen.is_raised() {
            std::process::exit(130);
        }
        seen.raise();
    })?;
    Ok(stop)
}

/// Shows a fit and stops it at Ctrl-C.
pub struct FitProgress {
    stop: Stop,
    bar: Bar,
    /// The change at which the fit is done, and the largest so far.
    tolerance: f64,
    first_change: f64,
}

impl FitProgress {
    pub fn new(quiet: bool, tolerance: f64) -> Outcome<Self> {
        let stop = stopped_by_interrupt()?;
        Ok(Self { stop, bar: Bar::new(quiet), tolerance, first_change: tolerance })
    }
}

impl Observer for FitProgress {
    fn iteration(&mut self, iteration: &Iteration<'_>) -> ControlFlow<()> {
        let record = iteration.record;
        let change = record.weight_change.max(record.noise_change.unwrap_or(0.0));
        self.first_change = self.first_change.max(change);
        // How much of the way from the first change to the tolerance is done, on a log scale.
        let done = (self.first_change / change.max(self.tolerance)).ln() / (self.first_change / self.tolerance).ln();
        self.bar.show(done, || {
            format!("iteration {}, objective {:.2} (Ctrl-C keeps what there is)", record.iteration, record.objective)
        });
        if self.stop.is_raised() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn stop(&self) -> Stop {
        self.stop.clone()
    }
}
