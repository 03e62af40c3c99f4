//! `robustard report`, and the page and figures that other commands write too.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use robustard::Control;
use robustard_report::{Report, Source, counted};
use robustard_table::{Table, TableModel, io_words, write_whole};

use crate::args::FittedTable;
use crate::colour::say;
use crate::progress::control;
use crate::{Ending, Outcome, refuse_to_overwrite};

/// Options of `report`.
#[derive(Args)]
#[command(after_help = "Examples:
  robustard report houses.model houses.csv -o houses.html
  robustard report houses.model houses.csv -o houses.html --figures figures")]
pub struct ReportCommand {
    #[command(flatten)]
    of: FittedTable,
    /// Where to write the page; - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Write the charts as SVG files into this folder
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
}

impl ReportCommand {
    /// Reads the model and its table and writes the page.
    pub fn run(&self) -> Outcome<Ending> {
        refuse_to_overwrite(&self.output, self.of.force)?;
        if let Some(folder) = &self.figures {
            refuse_figures(folder, self.of.force)?;
        }
        let started = Instant::now();
        let (model, table) = self.of.open_in_memory("report")?;
        let name = source_name(&self.of.tables[0]);
        let source = Source { name: &name, reading: Some(started.elapsed()) };
        let pages = Pages { page: Some(&self.output), figures: self.figures.as_deref() };
        let control = control(self.of.quiet, model.regression().settings().tolerance)?;
        for written in pages.write(&model, &table, source, &control)? {
            if !self.of.quiet {
                say(&format!("wrote {written}"));
            }
        }
        Ok(Ending::Done)
    }
}

/// What a table is called on the page.
pub fn source_name(path: &Path) -> String {
    match path.file_name() {
        Some(name) if path != Path::new("-") => name.to_string_lossy().into_owned(),
        _ => "standard input".to_owned(),
    }
}

/// A folder that has figures already is left alone unless asked.
pub fn refuse_figures(folder: &Path, force: bool) -> Outcome<()> {
    let Ok(mut entries) = folder.read_dir() else { return Ok(()) };
    let is_figure = |path: &Path| path.extension().is_some_and(|extension| extension == "svg");
    if !force && entries.any(|entry| entry.is_ok_and(|entry| is_figure(&entry.path()))) {
        return Err(format!("{} has figures in it; use --force to overwrite them", folder.display()).into());
    }
    Ok(())
}

/// Where the report goes.
pub struct Pages<'a> {
    /// The page.
    pub page: Option<&'a Path>,
    /// A folder for the charts.
    pub figures: Option<&'a Path>,
}

impl Pages<'_> {
    /// Writes what is asked for; the result says what was written.
    pub fn write(
        &self,
        model: &TableModel,
        table: &Table,
        source: Source<'_>,
        control: &Control,
    ) -> Outcome<Vec<String>> {
        if self.page.is_none() && self.figures.is_none() {
            return Ok(Vec::new());
        }
        let report = Report::new(model, table, source, control)?;
        let mut written = Vec::new();
        if let Some(folder) = self.figures {
            let figures = report.figures();
            std::fs::create_dir_all(folder)
                .map_err(|error| format!("cannot make the folder {}: {}", folder.display(), io_words(&error)))?;
            let files: Vec<_> =
                figures.iter().map(|figure| (folder.join(format!("{}.svg", figure.name)), &figure.svg)).collect();
            files.iter().try_for_each(|(path, svg)| write_text(path, svg))?;
            written.push(format!("{} to {}", counted(files.len(), "figure"), folder.display()));
        }
        if let Some(path) = self.page {
            write_text(path, &report.html())?;
            written.push(format!("report to {}", path.display()));
        }
        Ok(written)
    }
}

fn write_text(path: &Path, text: &str) -> Outcome<()> {
    if path == Path::new("-") {
        return Ok(std::io::stdout().lock().write_all(text.as_bytes())?);
    }
    write_whole(path, text.as_bytes())
        .map_err(|error| format!("cannot write {}: {}", path.display(), io_words(&error)).into())
}
