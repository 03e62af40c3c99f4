//! Runs the jobs of an experiment that are not done yet, on all cores, and keeps every result at once.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use robustard::Stop;

use crate::LabError;
use crate::results::{Job, Results, ResultsFile, compressed};
use crate::trial::Measures;

/// How far a run is.
#[derive(Debug, Clone)]
pub struct Progress<'a> {
    /// Jobs done in this run.
    pub done: usize,
    /// Jobs of this run.
    pub all: usize,
    /// The job just done.
    pub job: &'a Job,
}

/// Runs what is not in the file at `path` yet, whose results must be of the same `description`. `threads` jobs run at a time, each
/// on one thread, so that neither results nor times depend on their number. Jobs left when `stop` becomes true are not begun.
/// Returns all results of the file.
pub fn run(
    jobs: &[Job],
    path: &Path,
    description: &str,
    threads: usize,
    measure: &(dyn Fn(&Job) -> Result<Measures, LabError> + Sync),
    stop: &Stop,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Results, LabError> {
    let _lock = Lock::take(path)?;
    check_description(path, description)?;
    let mut results = Results::read(path)?;
    // A job whose last measures were cut off is repeated.
    let known = results.done();
    let is_whole = |job: &Job| results_are_whole(&results, job);
    let left: Vec<&Job> = jobs.iter().filter(|job| !known.contains(job) || !is_whole(job)).collect();
    results.retain(|job| !left.contains(&job));
    if left.is_empty() {
        ResultsFile::finish(path, &results)?;
        return Ok(results);
    }
    let file = Mutex::new((ResultsFile::create(path, &results)?, &mut results));
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failures: Mutex<Vec<LabError>> = Mutex::default();
    let fail = |error: LabError| failures.lock().expect("no job panics here").push(error);
    let work = || {
        let pool = match one_thread() {
            Ok(pool) => pool,
            Err(error) => return fail(error),
        };
        while let Some(job) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
            if stop.is_raised() {
                return;
            }
            let kept = pool.install(|| measure(job)).map_err(|error| LabError::job(job, error)).and_then(|measures| {
                let mut guard = file.lock().expect("no job panics here");
                guard.1.add(job, &measures);
                guard.0.add(job, &measures)
            });
            match kept {
                Ok(()) => {
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    progress(Progress { done, all: left.len(), job });
                }
                // The others may still be done.
                Err(error) => fail(error),
            }
        }
    };
    thread::scope(|scope| (0..threads.max(1)).for_each(|_| drop(scope.spawn(work))));
    drop(file);
    // In order, so that the file does not depend on which job ended first.
    ResultsFile::finish(path, &results)?;
    let mut failures = failures.into_inner().expect("no job panics here");
    match failures.len() {
        0 => Ok(results),
        1 => Err(failures.remove(0)),
        count => Err(LabError::Failures { count, first: Box::new(failures.remove(0)) }),
    }
}

/// A pool for one job: what is fitted inside it uses this thread and no other.
pub(crate) fn one_thread() -> Result<rayon::ThreadPool, LabError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    pool.map_err(|error| LabError::Threads(error.to_string()))
}

/// Results are kept with the settings they were made with, and not mixed with others.
fn check_description(path: &Path, description: &str) -> Result<(), LabError> {
    let beside = path.with_extension("settings");
    match std::fs::read_to_string(&beside) {
        Ok(known) if known != description && (path.exists() || compressed(path).exists()) => {
            Err(LabError::Stale { path: path.display().to_string() })
        }
        Ok(known) if known == description => Ok(()),
        _ => std::fs::write(&beside, description).map_err(|error| LabError::file(&beside, error)),
    }
}

/// Keeps other processes from a file of results, as long as it lives.
struct Lock {
    _file: File,
}

impl Lock {
    fn take(path: &Path) -> Result<Self, LabError> {
        let failed = |error| LabError::file(path, error);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let file = File::create(path.with_extension("lock")).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(LabError::Busy(path.display().to_string())),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

/// Measures end with the time.
fn results_are_whole(results: &Results, job: &Job) -> bool {
    !results.values_of(job, LAST_MEASURE).is_empty()
}

/// The last measure of every job.
pub const LAST_MEASURE: &str = "seconds";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_jobs_are_not_run_again() {
        let folder = std::env::temp_dir().join(format!("robustard-runner-{}", std::process::id()));
        let path = folder.join("a.csv");
        let job = |trial: u64| Job { dataset: "a".into(), condition: "b=1".into(), method: "c".into(), trial };
        let jobs: Vec<Job> = (0..6).map(job).collect();
        let count = AtomicUsize::new(0);
        let measure = |job: &Job| -> Result<Measures, LabError> {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(vec![("rmse", job.trial as f64), (LAST_MEASURE, 0.0)])
        };
        let (go, silent) = (Stop::default(), |_: Progress<'_>| {});
        run(&jobs[..4], &path, "a", 2, &measure, &go, &silent).unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 4);
        // One more is cut off in the middle.
        let text = Results::read(&path).unwrap().text();
        std::fs::write(&path, text.strip_suffix("a,b=1,c,3,seconds,0\n").unwrap()).unwrap();
        let results = run(&jobs, &path, "a", 2, &measure, &go, &silent).unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 7);
        assert_eq!(results.values("a", "b=1", "c", "rmse"), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        // A failure is told with its job, and what was done before stays.
        let failing = |job: &Job| if job.trial == 7 { Err(LabError::NoOracle) } else { measure(job) };
        let jobs: Vec<Job> = (0..8).map(job).collect();
        let error = run(&jobs, &path, "a", 1, &failing, &go, &silent).unwrap_err().to_string();
        assert!(error.contains("trial 7"), "{error}");
        assert_eq!(Results::read(&path).unwrap().done().len(), 7);
        // Nothing is begun after a stop.
        let error = run(&jobs, &path, "b", 1, &measure, &go, &silent).unwrap_err().to_string();
        assert!(error.contains("other settings"), "{error}");
        let held = Lock::take(&path).unwrap();
        let error = run(&jobs, &path, "a", 1, &measure, &go, &silent).unwrap_err().to_string();
        assert!(error.contains("another"), "{error}");
        drop(held);
        go.raise();
        let stopped = run(&jobs, &path, "a", 1, &measure, &go, &silent).unwrap();
        assert_eq!(stopped.done().len(), 7);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
