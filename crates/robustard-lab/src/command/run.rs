//! Runs experiments of the paper and writes what came out.

use std::fmt::Write;
use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use robustard::Stop;
use robustard_lab::document::{self, RunNote};
use robustard_lab::experiment::{Experiment, Laboratory, Part};
use robustard_lab::findings::Finding;
use robustard_lab::results::compressed;
use robustard_lab::runner::{self, Progress};

use crate::{Ending, Outcome, Usage};

/// Jobs between two lines about progress where there is no terminal.
const LINE_EVERY: usize = 200;

/// Options of the experiments.
#[derive(Args)]
pub struct Run {
    /// The folder with the data sets
    #[arg(long, value_name = "DIR", env = "ROBUSTARD_DATA")]
    data: Option<PathBuf>,
    /// Where results are kept, one compressed CSV file per experiment; the document is written beside it as DIR.md
    #[arg(long, value_name = "DIR", default_value = "reproduction")]
    results: PathBuf,
    /// At most so many trials
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    trials: Option<u64>,
    /// Only these data sets
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    datasets: Vec<String>,
    /// Only these methods, such as em, em_shared, gp, default
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    methods: Vec<String>,
    /// Two trials of the small data sets and the quick methods
    #[arg(long)]
    quick: bool,
    /// Embeddings for `neural` instead of the images: a table with a column `target` of counts
    #[arg(long, value_name = "FILE")]
    embeddings: Option<PathBuf>,
    /// Jobs that run at a time [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

impl Run {
    /// Runs what is not done yet and writes the document.
    pub fn run(&self, experiments: &[Experiment]) -> Outcome<Ending> {
        let part = Part {
            trials: self.trials,
            datasets: self.datasets.clone(),
            methods: self.methods.clone(),
            quick: self.quick,
            embeddings: self
                .embeddings
                .as_ref()
                .and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned())),
        };
        if self.data.is_none() && experiments.iter().any(|experiment| experiment.needs_data()) {
            return Err(Usage("give the folder of the data sets by --data or ROBUSTARD_DATA".to_owned()).into());
        }
        let laboratory = Laboratory::new(&self.data.clone().unwrap_or_default(), self.embeddings.as_deref());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.map_or(cores, usize::from);
        let stop = stopped_by_interrupt()?;
        for &experiment in experiments {
            let jobs = experiment.jobs(&part)?;
            if jobs.is_empty() {
                if experiments.len() == 1 {
                    return Err(experiment.nothing_to_run().into());
                }
                continue;
            }
            let path = self.results.join(format!("{}.csv", experiment.name()));
            let bar = progress_bar();
            let (start, count) = (Instant::now(), AtomicUsize::new(0));
            let show = |progress: Progress<'_>| {
                let Progress { done, all, job } = progress;
                count.store(done, Ordering::Relaxed);
                let left = start.elapsed().mul_f64((all - done) as f64 / done as f64).as_secs();
                let time = if left >= 120 { format!("{} min", left / 60) } else { format!("{left} s") };
                // Without a terminal a line now and then.
                if !std::io::stderr().is_terminal() && done.is_multiple_of(LINE_EVERY) {
                    eprintln!("{}: {done} of {all}, {time} left", experiment.name());
                }
                bar.set_length(all as u64);
                bar.set_position(done as u64);
                bar.set_message(format!("{}: {time} left ({} {})", experiment.name(), job.dataset, job.method));
            };
            let measure = |job: &_| experiment.measure(&laboratory, job);
            let ended = runner::run(&jobs, &path, &experiment.description(), threads, &measure, &stop, &show);
            bar.finish_and_clear();
            let note = RunNote {
                experiment: experiment.name(),
                date: today(),
                commit: env!("ROBUSTARD_COMMIT").to_owned(),
                machine: processor(),
                threads,
                jobs: count.into_inner(),
                seconds: start.elapsed().as_secs_f64(),
            };
            if note.jobs > 0 {
                document::note_run(&self.results, &note)?;
            }
            ended?;
            if stop.is_raised() {
                eprintln!("stopped; the same command goes on from here");
                return Ok(Ending::Interrupted);
            }
            eprintln!("{}: {} jobs are in {}", experiment.name(), jobs.len(), compressed(&path).display());
        }
        let (path, findings) = document::write(&self.results)?;
        let mut out = String::new();
        for Finding { claim, holds, detail } in &findings {
            writeln!(out, "{} {claim}\n        {detail}", if *holds { "holds  " } else { "does NOT" })?;
        }
        writeln!(out, "Wrote {} with its figures.", path.display())?;
        std::io::stdout().lock().write_all(out.as_bytes())?;
        Ok(Ending::Done)
    }
}

/// A bar on standard error, on a terminal only.
fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    match ProgressStyle::with_template("{bar:20} {pos} of {len} {wide_msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
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

/// The day by universal time, as 2026-01-31.
fn today() -> String {
    Timestamp::now().to_zoned(TimeZone::UTC).date().to_string()
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    line.map_or("unknown".to_owned(), |(_, name)| name.trim().to_owned())
}
