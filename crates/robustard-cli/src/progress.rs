//! Progress of long work, on standard error and on a terminal only.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use robustard::{Control, Progress, Stop};

use crate::colour::say;
use crate::{INTERRUPTED, NOTHING_WRITTEN, Outcome};

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

    /// Another part of the work begins: the bar starts anew.
    pub fn restart(&mut self) {
        if let Some(bar) = &self.bar {
            bar.set_position(0);
        }
    }

    /// Shows that the share `done` of the work is done; within a part the bar never goes back.
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

/// Whether Ctrl-C ends the command at once: while nothing is being written and nothing of the work would be kept.
static ENDS_AT_ONCE: AtomicBool = AtomicBool::new(false);

/// A flag that Ctrl-C raises. A second Ctrl-C does not wait for what is under way.
pub fn stopped_by_interrupt() -> Outcome<Stop> {
    let stop = Stop::default();
    let seen = stop.clone();
    ctrlc::set_handler(move || {
        if seen.is_raised() {
            std::process::exit(INTERRUPTED.into());
        }
        if ENDS_AT_ONCE.load(Ordering::SeqCst) {
            say(NOTHING_WRITTEN);
            std::process::exit(INTERRUPTED.into());
        }
        seen.raise();
    })?;
    Ok(stop)
}

/// From here on Ctrl-C ends the command at once.
pub fn begin_what_is_not_kept() {
    ENDS_AT_ONCE.store(true, Ordering::SeqCst);
}

/// From here on Ctrl-C waits, so that no file is left half written.
pub fn begin_writing() {
    ENDS_AT_ONCE.store(false, Ordering::SeqCst);
}

/// Shows work and stops it at Ctrl-C.
pub fn control(quiet: bool, tolerance: f64) -> Outcome<Control> {
    let mut shown = Shown::new(Bar::new(quiet), tolerance);
    Ok(Control::new().with_stop(stopped_by_interrupt()?).with_observer(move |progress| shown.update(progress)))
}

/// What a bar shows of work.
struct Shown {
    bar: Bar,
    stage: String,
    /// The change at which a fit is done, and the largest so far.
    tolerance: f64,
    first_change: f64,
    /// Rows seen in a pass, and when it began.
    seen: u64,
    pass_started: Instant,
}

impl Shown {
    fn new(bar: Bar, tolerance: f64) -> Self {
        Self { bar, stage: String::new(), tolerance, first_change: tolerance, seen: 0, pass_started: Instant::now() }
    }

    fn update(&mut self, progress: Progress<'_>) {
        match progress {
            Progress::Stage(stage) => {
                self.stage = stage.to_string();
                self.first_change = self.tolerance;
                self.bar.restart();
                self.show(0.0, String::new());
            }
            Progress::Share(share) => self.show(share, String::new()),
            Progress::Pass { pass, objective, seen, rows } => {
                if seen < self.seen {
                    (self.pass_started, self.seen) = (Instant::now(), 0);
                    self.bar.restart();
                }
                self.seen = seen;
                let rate = seen as f64 / self.pass_started.elapsed().as_secs_f64().max(1e-3) / 1e6;
                let pass = pass.map_or_else(String::new, |pass| format!(", pass {pass}"));
                let objective = objective.map_or_else(String::new, |objective| format!(", objective {objective:.2}"));
                self.show(
                    seen as f64 / rows.max(1) as f64,
                    format!("{pass}{objective}, {rate:.1} million rows per second"),
                );
            }
            Progress::Iteration(record) => {
                let change = record.weight_change.max(record.noise_change.unwrap_or(0.0));
                self.first_change = self.first_change.max(change);
                // How much of the way from the first change to the tolerance is done, on a log scale.
                let way = (self.first_change / self.tolerance).ln();
                let done = (self.first_change / change.max(self.tolerance)).ln() / way.max(f64::MIN_POSITIVE);
                self.show(done, format!(", iteration {}, objective {:.2}", record.iteration, record.objective));
            }
            _ => {}
        }
    }

    fn show(&mut self, done: f64, detail: String) {
        let stage = &self.stage;
        self.bar.show(done, || format!("{stage}{detail} (Ctrl-C ends it)"));
    }
}

#[cfg(test)]
mod tests {
    use robustard::Stage;

    use super::*;

    /// A full bar of one part does not stay full in the next.
    #[test]
    fn the_bar_starts_anew_with_every_stage() {
        let bar = Bar { bar: Some(ProgressBar::hidden()), is_shown: true, started: Instant::now() - 2 * PATIENCE };
        let mut shown = Shown::new(bar, 1e-4);
        let position = |shown: &Shown| shown.bar.bar.as_ref().unwrap().position();
        shown.update(Progress::Share(1.0));
        assert_eq!(position(&shown), LENGTH as u64);
        shown.update(Progress::Stage(&Stage::Diagnosing));
        assert_eq!(position(&shown), 0);
        shown.update(Progress::Share(0.5));
        assert_eq!(position(&shown), 500);
        assert_eq!(shown.stage, "diagnosing rows");
    }
}
