//! `robustard diagnose`.

use std::path::PathBuf;

use clap::Args;
use robustard::Diagnostics;
use robustard_table::{
    ReadOptions, Source, TableModel, TableWriter, diagnose_files, is_stdout, publish, row_table, rows_of,
};

use crate::args::{FittedData, FittedTable};
use crate::colour::say;
use crate::output::write_table;
use crate::progress::control;
use crate::{Ending, Outcome};

/// Options of `diagnose`.
#[derive(Args)]
#[command(after_help = "Example:
  robustard diagnose houses.model houses.csv -o rows.csv")]
pub struct Diagnose {
    #[command(flatten)]
    of: FittedTable,
    /// Where to write the rows, most suspicious first (in their order for models of tables larger than memory); - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

impl Diagnose {
    /// Diagnoses and writes.
    pub fn run(&self) -> Outcome<Ending> {
        self.of.plan().writes([&self.output]).check()?;
        match self.of.open()? {
            FittedData::Table(model, table) => {
                write_table(&row_table(&model, &table)?, &self.output, self.of.existing())?
            }
            FittedData::Files(model, files, reading) => self.stream(&model, &files, &reading)?,
        }
        if !self.of.quiet && !is_stdout(&self.output) {
            say(&format!("wrote rows to {}", self.output.display()));
        }
        Ok(Ending::Done)
    }

    /// Writes the rows of a table larger than memory in their order.
    fn stream(&self, model: &TableModel, files: &[Source], reading: &ReadOptions) -> Outcome<()> {
        let control = control(self.of.quiet, model.regression().settings().tolerance)?;
        let mut writer = TableWriter::create(&self.output, self.of.existing())?;
        let id = model.encoder().id.as_deref();
        let mut write_rows = |labels: &[String], diagnostics: &Diagnostics| {
            writer.write(&rows_of(id, labels.to_vec(), diagnostics, None))
        };
        diagnose_files(model, files, reading, &control, &mut write_rows)?;
        let whole = writer.seal()?;
        if control.is_stopped() { Err(robustard::Error::Stopped.into()) } else { Ok(publish(vec![whole])?) }
    }
}
