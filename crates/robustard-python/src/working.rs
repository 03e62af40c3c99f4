//! Long work beside Python: on its main thread between looks at signals and progress, or in threads of its own while that one looks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use robustard::{Control, IterationRecord, Progress, Stop};

/// How often Python's signals are looked at.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);

/// What the work tells who watches it, and the other way round.
#[derive(Default)]
pub struct Watch {
    stop: Stop,
    /// Called with stage, iteration, objective and columns.
    progress: Option<Py<PyAny>>,
    /// Whether the work runs on the thread that looks.
    is_here: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    latest: Latest,
    looked: Option<Instant>,
    /// What a signal or the progress has raised.
    raised: Option<PyErr>,
}

/// What the work is doing.
#[derive(Default)]
struct Latest {
    /// Whether it is known to the progress.
    is_shown: bool,
    stage: String,
    record: Option<IterationRecord>,
}

impl Watch {
    /// A control that tells this watch, and looks if the work runs here.
    pub fn control(self: &Arc<Self>) -> Control {
        let (told, looking) = (self.clone(), self.clone());
        let stop = self.stop.clone();
        let stop = if self.is_here { stop.with_look(move || looking.look_in_time()) } else { stop };
        Control::new().with_stop(stop).with_observer(move |progress| {
            told.hear(progress);
            if told.is_here {
                told.look_in_time();
            }
        })
    }

    /// Notes what is told.
    fn hear(&self, progress: Progress<'_>) {
        let Ok(mut state) = self.state.lock() else { return };
        let latest = &mut state.latest;
        match progress {
            Progress::Stage(stage) => *latest = Latest { stage: stage.to_string(), ..Latest::default() },
            Progress::Pass { pass, seen, rows, .. } => {
                let what = pass.map_or_else(|| "diagnosing rows".to_owned(), |pass| format!("pass {pass}"));
                *latest = Latest { stage: format!("{what}, {seen} of {rows} rows"), ..Latest::default() };
            }
            Progress::Iteration(record) => (latest.record, latest.is_shown) = (Some(*record), false),
            _ => {}
        }
    }

    /// Looks, if the last look is long enough ago.
    fn look_in_time(&self) {
        let is_time = self.state.lock().is_ok_and(|mut state| {
            let looked = state.looked.get_or_insert_with(Instant::now);
            let is_time = looked.elapsed() > WATCH_INTERVAL;
            if is_time {
                *looked = Instant::now();
            }
            is_time
        });
        if is_time {
            self.look();
        }
    }

    /// Looks at signals and shows progress; the first thing that they raise stops the work.
    fn look(&self) {
        let looked = Python::attach(|py| {
            py.check_signals()?;
            let Some(progress) = &self.progress else { return Ok(()) };
            let told = {
                let Ok(mut state) = self.state.lock() else { return Ok(()) };
                let State { latest, raised, .. } = &mut *state;
                if latest.is_shown || raised.is_some() {
                    return Ok(());
                }
                latest.is_shown = true;
                let record = latest.record.map(|record| (record.iteration, record.objective, record.active_columns));
                (latest.stage.clone(), record)
            };
            progress.call1(py, told).map(|_| ())
        });
        if let (Err(error), Ok(mut state)) = (looked, self.state.lock()) {
            self.stop.raise();
            state.raised.get_or_insert(error);
        }
    }

    fn raised(&self) -> Option<PyErr> {
        self.state.lock().ok()?.raised.take()
    }
}

/// Runs `work` on so many threads (0 for all cores) without holding Python up. Ctrl-C asks the work to stop; the second value
/// says whether it came. An exception of `progress` asks so, too, and is raised.
pub fn watched<T: Send>(
    py: Python<'_>,
    threads: usize,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&Control) -> T + Send,
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
    let (result, raised) = run(py, threads, None, work)?;
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

thread_local! {
    /// A pool of this thread alone, for one that lives as long as the process: rayon does not take such pools apart.
    static ALONE: Option<&'static rayon::ThreadPool> = {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
        pool.ok().map(|pool| &*Box::leak(Box::new(pool)))
    };
}

/// Whether this is the thread on which Python runs the handlers of signals.
fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?;
    threading.call_method0("current_thread").map(|current| current.is(&main))
}

fn run<T: Send>(
    py: Python<'_>,
    threads: usize,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&Control) -> T + Send,
) -> PyResult<(T, Option<PyErr>)> {
    // Handing work to another thread and back takes a tenth of a millisecond, and its caches are cold.
    let alone = if threads == 1 && is_main_thread(py)? { ALONE.with(|alone| *alone) } else { None };
    let watch = Arc::new(Watch { progress, is_here: alone.is_some(), ..Watch::default() });
    let control = watch.control();
    // A panic is a defect; as a RuntimeError it stays within this one call.
    let work = || catch_unwind(AssertUnwindSafe(|| work(&control))).ok();
    let result = match alone {
        Some(alone) => py.detach(|| alone.install(work)),
        None => run_beside(py, threads, &watch, work)?,
    };
    let failed =
        || PyRuntimeError::new_err("robustard failed unexpectedly; please report it with the table that caused it");
    Ok((result.ok_or_else(failed)?, watch.raised()))
}

/// Runs `work` in other threads while this one looks after signals and progress.
fn run_beside<T: Send>(
    py: Python<'_>,
    threads: usize,
    watch: &Watch,
    work: impl FnOnce() -> Option<T> + Send,
) -> PyResult<Option<T>> {
    let kept = Kept::of(threads)
        .map_err(|error| PyRuntimeError::new_err(format!("cannot start {threads} threads: {error}")))?;
    let result = py.detach(|| {
        kept.pool.in_place_scope(|scope| {
            let (sender, receiver) = channel();
            // The receiver waits until it has received.
            scope.spawn(move |_| drop(sender.send(work())));
            loop {
                match receiver.recv_timeout(WATCH_INTERVAL) {
                    Ok(result) => return result,
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) => watch.look(),
                }
            }
        })
    });
    kept.keep();
    Ok(result)
}
