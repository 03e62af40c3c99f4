//! Long work beside Python: in threads of its own, while Python's looks after signals and progress.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use robustard::{Control, IterationRecord, Progress, Stop};

/// How often Python's signals are looked at.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);

/// What the work tells the thread that watches it, and the other way round.
#[derive(Default)]
pub struct Watch {
    stop: Stop,
    latest: Arc<Mutex<Latest>>,
}

/// What the work is doing.
#[derive(Default)]
struct Latest {
    /// Counts what was told.
    told: usize,
    stage: String,
    record: Option<IterationRecord>,
}

impl Watch {
    /// A control that tells this watch.
    pub fn control(&self) -> Control {
        let latest = self.latest.clone();
        Control::new().with_stop(self.stop.clone()).with_observer(move |progress| {
            let Ok(mut latest) = latest.lock() else { return };
            latest.told += 1;
            match progress {
                Progress::Stage(stage) => (latest.stage, latest.record) = (stage.to_string(), None),
                Progress::Iteration(record) => latest.record = Some(*record),
                _ => {}
            }
        })
    }
}

/// Runs `work` on so many threads (0 for all cores) without holding Python up. Ctrl-C asks the work to stop; the second value
/// says whether it came. An exception of `progress` (stage, iteration, objective, columns) asks so, too, and
/// is raised.
pub fn watched<T: Send>(
    py: Python<'_>,
    threads: usize,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&Watch) -> T + Send,
) -> PyResult<(T, bool)> {
    let (result, raised) = run(py, threads, progress, work)?;
    match raised {
        Some(error) if error.is_instance_of::<PyKeyboardInterrupt>(py) => Ok((result, true)),
        Some(error) => Err(error),
        None => Ok((result, false)),
    }
}

/// The same for work that has no result when it is stopped; Ctrl-C is raised.
pub fn uninterrupted<T: Send>(py: Python<'_>, threads: usize, work: impl FnOnce(&Control) -> T + Send) -> PyResult<T> {
    let (result, raised) = run(py, threads, None, |watch| work(&watch.control()))?;
    raised.map_or(Ok(result), Err)
}

/// Threads that wait for the next call: starting them, and finding their room for matrix products, takes longer than a small fit.
struct Kept {
    /// As asked for, 0 for all cores.
    threads: usize,
    process: u32,
    pool: rayon::ThreadPool,
}

/// Never rayon's global pool: a process that Python forks would wait for threads that it does not have.
static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

impl Kept {
    fn of(threads: usize) -> Result<Self, rayon::ThreadPoolBuildError> {
        let process = std::process::id();
        // Who is told that it is locked starts threads of its own: another call is at work, or was when the process was forked.
        let kept = KEPT.try_lock().ok().and_then(|mut kept| kept.take());
        if let Some(kept) = kept {
            if kept.process != process {
                // Its threads are in another process: nothing of them may be touched.
                std::mem::forget(kept);
            } else if kept.threads == threads {
                return Ok(kept);
            }
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        Ok(Self { threads, process, pool })
    }

    /// Lets them wait for the next call.
    fn keep(self) {
        if let Ok(mut kept) = KEPT.try_lock() {
            *kept = Some(self);
        }
    }
}

fn run<T: Send>(
    py: Python<'_>,
    threads: usize,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&Watch) -> T + Send,
) -> PyResult<(T, Option<PyErr>)> {
    let watch = Watch::default();
    let kept = Kept::of(threads)
        .map_err(|error| PyRuntimeError::new_err(format!("cannot start {threads} threads: {error}")))?;
    let mut raised: Option<PyErr> = None;
    let result = py.detach(|| {
        kept.pool.in_place_scope(|scope| {
            let (sender, receiver) = channel();
            let watch = &watch;
            scope.spawn(move |_| {
                // A panic is a defect; as a RuntimeError it stays within this one fit. The receiver waits until it has received.
                let _ = sender.send(catch_unwind(AssertUnwindSafe(|| work(watch))));
            });
            let mut shown = 0;
            loop {
                match receiver.recv_timeout(WATCH_INTERVAL) {
                    Ok(result) => return result.ok(),
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) => {}
                }
                let looked = Python::attach(|py| {
                    py.check_signals()?;
                    let (Some(progress), None) = (progress, &raised) else { return Ok(()) };
                    let latest = watch.latest.lock().ok().filter(|latest| latest.told != shown);
                    let Some(latest) = latest else { return Ok(()) };
                    shown = latest.told;
                    let record =
                        latest.record.map(|record| (record.iteration, record.objective, record.active_columns));
                    let stage = latest.stage.clone();
                    drop(latest);
                    progress.call1(py, (stage, record)).map(|_| ())
                });
                if let Err(error) = looked {
                    watch.stop.raise();
                    raised.get_or_insert(error);
                }
            }
        })
    });
    kept.keep();
    let failed =
        || PyRuntimeError::new_err("robustard failed unexpectedly; please report it with the table that caused it");
    Ok((result.ok_or_else(failed)?, raised))
}
