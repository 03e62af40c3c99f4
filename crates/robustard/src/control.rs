//! Who watches long work: a flag to stop it, an observer of its progress, the threads it may use.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Mutex;

use faer::Par;
use robustard_engine::solver::PathRecorder;
use robustard_engine::{Iteration, IterationRecord, Noise, Observer, Stop};
use thiserror::Error;

/// What long work is doing.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Stage {
    /// A table is read and converted.
    Reading,
    /// Lengthscales of features are learnt.
    Learning {
        /// Which features, as text.
        features: String,
        /// The noise they are learnt with.
        noise: Noise,
    },
    /// Weights and noise are fitted.
    Fitting {
        /// Which features, as text.
        features: String,
        /// The noise.
        noise: Noise,
    },
    /// Weights and noise are fitted by passes over rows that do not lie in memory.
    Passing,
    /// The fitted rows are diagnosed.
    Diagnosing,
    /// Rows are predicted.
    Predicting,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Learning { features, noise } => write!(f, "learning {features} features, {noise} noise"),
            Self::Fitting { features, noise } => write!(f, "fitting {features} features, {noise} noise"),
            Self::Reading => f.write_str("reading"),
            Self::Passing => f.write_str("fitting"),
            Self::Diagnosing => f.write_str("diagnosing rows"),
            Self::Predicting => f.write_str("predicting rows"),
        }
    }
}

/// What an observer is told.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// A part of the work begins.
    Stage(&'a Stage),
    /// Part of a stage is done: a share from 0 to 1.
    Share(f64),
    /// Part of a pass over the rows is done.
    Pass {
        /// Which pass, counted from 1; none if it is the last one, which diagnoses all rows.
        pass: Option<usize>,
        /// The objective after the pass before.
        objective: Option<f64>,
        /// Rows seen in this pass.
        seen: u64,
        /// All rows.
        rows: u64,
    },
    /// An iteration of a fit is done.
    Iteration(&'a IterationRecord),
}

type Watcher = Box<dyn FnMut(Progress<'_>) + Send>;

/// Passed to everything that takes time.
///
/// ```
/// use robustard::{Control, Progress, Stop};
///
/// let stop = Stop::default(); // raise it from another thread to end the work with what there is
/// let control = Control::new().with_stop(stop.clone()).with_threads(2)?.with_observer(|progress| {
///     if let Progress::Stage(stage) = progress {
///         eprintln!("{stage:?}");
///     }
/// });
/// # drop(control);
/// # Ok::<(), robustard::ControlError>(())
/// ```
#[derive(Default)]
pub struct Control {
    stop: Stop,
    pool: Option<rayon::ThreadPool>,
    watcher: Option<Mutex<Watcher>>,
}

/// Threads that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot start {threads} threads: {reason}; ask for fewer")]
pub struct ControlError {
    /// How many were asked for.
    pub threads: usize,
    /// What the system said.
    pub reason: String,
}

/// More threads than any machine has cores would only wait for each other.
const MOST_THREADS: usize = 1024;

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("stop", &self.stop)
            .field("threads", &self.pool.as_ref().map(rayon::ThreadPool::current_num_threads))
            .field("is_watched", &self.watcher.is_some())
            .finish()
    }
}

impl Control {
    /// All cores, nobody watching.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With a flag that asks to stop.
    #[must_use]
    pub fn with_stop(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }

    /// On so many threads, 0 for the pool of the caller. The number changes no result.
    pub fn with_threads(self, threads: usize) -> Result<Self, ControlError> {
        if threads == 0 {
            return Ok(Self { pool: None, ..self });
        }
        let failed = |reason: String| ControlError { threads, reason };
        if threads > MOST_THREADS {
            return Err(failed(format!("at most {MOST_THREADS} are allowed")));
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        Ok(Self { pool: Some(pool.map_err(|error| failed(error.to_string()))?), ..self })
    }

    /// With an observer of progress.
    #[must_use]
    pub fn with_observer(self, observer: impl FnMut(Progress<'_>) + Send + 'static) -> Self {
        Self { watcher: Some(Mutex::new(Box::new(observer))), ..self }
    }

    /// The flag.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Whether to end with what there is.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_raised()
    }

    /// Runs `work` on the threads of this control.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    /// Tells the observer.
    pub fn tell(&self, progress: Progress<'_>) {
        if let Some(Ok(mut watcher)) = self.watcher.as_ref().map(Mutex::lock) {
            watcher(progress);
        }
    }

    pub(crate) fn enter(&self, stage: Stage) {
        self.tell(Progress::Stage(&stage));
    }
}

/// How products are split among the threads of the present pool.
pub(crate) fn par() -> Par {
    if rayon::current_num_threads() == 1 { Par::Seq } else { Par::rayon(0) }
}

/// A fit as the engine shows it: on to the control's observer, and its relevances kept.
pub(crate) struct Watched<'a> {
    pub control: &'a Control,
    pub recorder: PathRecorder,
}

impl Observer for Watched<'_> {
    fn iteration(&mut self, iteration: &Iteration<'_>) -> ControlFlow<()> {
        self.recorder.record(iteration);
        self.control.tell(Progress::Iteration(iteration.record));
        if self.control.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn stop(&self) -> Stop {
        self.control.stop.clone()
    }
}
