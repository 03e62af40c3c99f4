//! The document about the reproduction and its figures, made from files of results alone. Nothing in it is typed by hand but the
//! explanations.

mod figures;
mod recovery;
mod small;
mod tables;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::LabError;
use crate::experiment::Experiment;
use crate::findings::{self, Finding};
use crate::method::{Basis, Method, RowNoise, Solver};
use crate::results::Results;
use crate::runner::one_thread;

/// A figure of the document.
pub(crate) struct Figure {
    /// Name of its file without the ending.
    name: String,
    svg: String,
}

/// A part of the document.
#[derive(Default)]
pub(crate) struct Section {
    text: String,
    figures: Vec<Figure>,
}

impl Section {
    fn say(&mut self, text: impl AsRef<str>) {
        self.text.push_str(text.as_ref());
        self.text.push_str("\n\n");
    }

    fn show(&mut self, name: &str, alt: &str, svg: String) {
        self.say(format!("![{alt}]({FIGURES}/{name}.svg)"));
        self.figures.push(Figure { name: name.to_owned(), svg });
    }
}

/// Where figures are, as seen from the document: `FOLDER/figures`. The folder is put in when the document is written.
const FIGURES: &str = "@FOLDER@/figures";
const RUNS: &str = "runs.csv";
const RUNS_HEADER: &str = "experiment,date,commit,machine,threads,jobs,seconds";

/// A run to be noted beside the results.
#[derive(Debug, Clone)]
pub struct RunNote {
    /// The experiment's name.
    pub experiment: &'static str,
    /// The day.
    pub date: String,
    /// The commit of the source, if known.
    pub commit: String,
    /// The processor.
    pub machine: String,
    /// Jobs at a time.
    pub threads: usize,
    /// Jobs run.
    pub jobs: usize,
    /// Time taken.
    pub seconds: f64,
}

/// Adds a note about a run to the results folder.
pub fn note_run(folder: &Path, note: &RunNote) -> Result<(), LabError> {
    let path = folder.join(RUNS);
    let mut text = std::fs::read_to_string(&path).unwrap_or_else(|_| format!("{RUNS_HEADER}\n"));
    let RunNote { experiment, date, commit, machine, threads, jobs, seconds } = note;
    let machine = machine.replace(',', " ");
    let _ = writeln!(text, "{experiment},{date},{commit},{machine},{threads},{jobs},{seconds:.0}");
    write_whole(&path, &text)
}

fn write_whole(path: &Path, text: &str) -> Result<(), LabError> {
    let failed = |error| LabError::file(path, error);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let new = path.with_extension("new");
    std::fs::write(&new, text).map_err(failed)?;
    std::fs::rename(&new, path).map_err(failed)
}

/// Writes `FOLDER.md` and `FOLDER/figures` from the results in the folder; returns the document's path and the findings.
pub fn write(folder: &Path) -> Result<(PathBuf, Vec<Finding>), LabError> {
    let read = |experiment: Experiment| Results::read(&folder.join(format!("{}.csv", experiment.name())));
    let mut document = Section::default();
    document.say(include_str!("introduction.md").trim());
    runs(&mut document, folder);

    let tabular = read(Experiment::Tabular)?;
    let kernel = read(Experiment::Kernel)?;
    let neural = read(Experiment::Neural)?;
    let synthetic = read(Experiment::Synthetic)?;
    let [blr, mcycle, stars] = [read(Experiment::Blr)?, read(Experiment::Mcycle)?, read(Experiment::Stars)?];
    let findings: Vec<Finding> = [
        findings::tabular(&tabular),
        findings::kernel(&kernel),
        findings::neural(&neural),
        findings::synthetic(&synthetic),
        findings::mcycle(&mcycle),
        findings::stars(&stars),
    ]
    .concat();
    document.say("## What the paper found, and whether it holds here");
    document.say(
        findings
            .iter()
            .map(|Finding { claim, holds, detail }| {
                format!("- **{}** {claim}: {detail}.", if *holds { "holds:" } else { "does not hold:" })
            })
            .collect::<Vec<_>>()
            .join("\n"),
    );
    tables::tabular(&mut document, &tabular);
    tables::kernel(&mut document, &kernel);
    tables::neural(&mut document, &neural);
    recovery::synthetic(&mut document, &synthetic);
    small::blr(&mut document, &blr);
    one_thread()?.install(|| {
        small::mcycle(&mut document, &mcycle)?;
        small::stars(&mut document, &stars)
    })?;
    settings(&mut document);
    document.say(include_str!("deviations.md").trim());

    for figure in &document.figures {
        write_whole(&folder.join("figures").join(format!("{}.svg", figure.name)), &figure.svg)?;
    }
    let folder = &std::path::absolute(folder).map_err(|error| LabError::file(folder, error))?;
    let name = folder.file_name().map_or("reproduction".into(), |name| name.to_string_lossy().into_owned());
    let path = folder.with_file_name(format!("{name}.md"));
    write_whole(&path, &(document.text.replace("@FOLDER@", &name).trim_end().to_owned() + "\n"))?;
    Ok((path, findings))
}

fn runs(document: &mut Section, folder: &Path) {
    let Ok(text) = std::fs::read_to_string(folder.join(RUNS)) else { return };
    let mut table = String::from(
        "| experiment | date | commit | machine | jobs at a time | jobs | seconds |\n|---|---|---|---|---|---|---|\n",
    );
    for line in text.lines().skip(1) {
        let _ = writeln!(table, "| {} |", line.split(',').collect::<Vec<_>>().join(" | "));
    }
    document.say("Runs behind these figures:");
    document.say(table.trim_end());
}

fn settings(document: &mut Section) {
    document.say("## Settings");
    document.say(
        "One setting per solver for all data sets, and one for kernel functions. What is not listed is as in the `paper` preset \
         (docs of `Settings`): flat prior, first λ 0.1, bounds 1e-6 and 1e6, absolute units, no acceleration, no pruning.",
    );
    for (basis, title) in [(Basis::Features, "Features:"), (Basis::Kernel, "Kernel functions:")] {
        let mut table = String::from(
            "| solver | η of γ | η of λ | learning rate | first γ | λ starts after | λ moves every | iterations |\n|---|---|---|---|---|---|---|---|\n",
        );
        for solver in Solver::ALL {
            let settings = solver.settings(RowNoise::PerRow, basis);
            let is_gradient = matches!(solver, Solver::GradientPrimal | Solver::GradientDual);
            let damping = |eta: f64| if is_gradient { "–".to_owned() } else { eta.to_string() };
            let rate = if is_gradient { settings.learning_rate.to_string() } else { "–".to_owned() };
            let _ = writeln!(
                table,
                "| {} | {} | {} | {rate} | {} | {} | {} | {} |",
                Method::per_row(solver),
                damping(settings.damping_weights),
                damping(settings.damping_noise),
                settings.initial_weight_precision,
                settings.noise_start,
                settings.noise_every,
                settings.max_iterations,
            );
        }
        document.say(title);
        document.say(table.trim_end());
    }
}
