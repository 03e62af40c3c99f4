//! `robustard report`, and the page and figures that other commands write too.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use robustard::Control;
use robustard_report::{Report, Source, counted};
use robustard_table::{Existing, Sealed, Table, TableModel, make_output_folder, publish, sealed};

use crate::args::FittedTable;
use crate::colour::say;
use crate::output::check_figures;
use crate::progress::{begin_what_is_not_kept, begin_writing, control};
use crate::{Ending, Outcome};

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
        self.of.plan().writes([&self.output]).check()?;
        if let Some(folder) = &self.figures {
            check_figures(folder, self.of.force)?;
        }
        let started = Instant::now();
        let (model, table) = self.of.open_in_memory("report")?;
        let name = source_name(&self.of.tables[0]);
        let source = Source { name: &name, reading: Some(started.elapsed()) };
        let pages = Pages { page: Some(&self.output), figures: self.figures.as_deref(), existing: self.of.existing() };
        let control = control(self.of.quiet, model.regression().settings().tolerance)?;
        begin_what_is_not_kept();
        let Written { words, files } = pages.write(&model, &table, source, &control)?;
        if control.is_stopped() {
            return Err(robustard::Error::Stopped.into());
        }
        publish(files)?;
        for written in words {
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

/// Where the report goes.
pub struct Pages<'a> {
    /// The page.
    pub page: Option<&'a Path>,
    /// A folder for the charts.
    pub figures: Option<&'a Path>,
    /// What becomes of files that are there.
    pub existing: Existing,
}

/// A report on the disk, still without its names.
#[derive(Default)]
pub struct Written {
    /// What was written, in words.
    pub words: Vec<String>,
    /// The files.
    pub files: Vec<Sealed>,
}

impl Pages<'_> {
    /// Writes what is asked for; the files get their names by [`publish`].
    pub fn write(&self, model: &TableModel, table: &Table, source: Source<'_>, control: &Control) -> Outcome<Written> {
        let mut written = Written::default();
        if self.page.is_none() && self.figures.is_none() {
            return Ok(written);
        }
        let report = Report::new(model, table, source, control)?;
        begin_writing();
        if let Some(folder) = self.figures {
            make_output_folder(folder)?;
            for figure in report.figures() {
                let path = folder.join(format!("{}.svg", figure.name));
                written.files.push(sealed(&path, figure.svg.as_bytes(), self.existing)?);
            }
            written.words.push(format!("{} to {}", counted(written.files.len(), "figure"), folder.display()));
        }
        if let Some(path) = self.page {
            written.files.push(sealed(path, report.html().as_bytes(), self.existing)?);
            written.words.push(format!("report to {}", path.display()));
        }
        Ok(written)
    }
}
