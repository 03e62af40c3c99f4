//! `robustard diagnose`.

use std::path::{Path, PathBuf};

use clap::Args;
use robustard_table::{Regression, Table, write};

use crate::args::FittedTable;
use crate::colour::say;
use crate::{Ending, Outcome, refuse_to_overwrite};

/// Options of `diagnose`.
#[derive(Args)]
#[command(after_help = "Example:
  robustard diagnose houses.model houses.csv -o rows.csv")]
pub struct Diagnose {
    #[command(flatten)]
    of: FittedTable,
    /// Where to write the rows, most suspicious first; - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

impl Diagnose {
    /// Diagnoses and writes.
    pub fn run(&self) -> Outcome<Ending> {
        refuse_to_overwrite(&self.output, self.of.force)?;
        let (regression, table) = self.of.open()?;
        write(&row_table(&regression, &table)?, &self.output)?;
        if !self.of.quiet && self.output != Path::new("-") {
            say(&format!("wrote rows to {}", self.output.display()));
        }
        Ok(Ending::Done)
    }
}

/// The columns that every diagnosis has.
const MEASURES: [&str; 10] = [
    "actual",
    "predicted",
    "loo_residual",
    "noise_variance",
    "relevance",
    "leverage",
    "cooks_distance",
    "dffits",
    "z",
    "flagged",
];

/// One line per fitted row, most suspicious first. Residuals, variances and values are in the target's units.
pub fn row_table(regression: &Regression, table: &Table) -> Outcome<Table> {
    let target = table.role(&regression.encoder.target, "the target")?;
    let diagnostics = regression.diagnose();
    let order = diagnostics.ranking();
    let deviation = regression.target.deviation;
    let column = |value: &dyn Fn(usize) -> f64| Table::number_column(order.iter().map(|&row| value(row)));
    let model = &regression.model;
    let mut columns = vec![match &regression.encoder.id {
        Some(id) => {
            let ids = table.texts(id)?;
            let name = if MEASURES.contains(&id.as_str()) { format!("id ({id})") } else { id.clone() };
            (name, Table::text_column(order.iter().map(|&row| ids[regression.rows[row]].clone())))
        }
        None => ("row".to_owned(), Table::count_column(order.iter().map(|&row| regression.rows[row] + 1))),
    }];
    columns.extend([
        ("actual".to_owned(), column(&|row| target[regression.rows[row]])),
        ("predicted".to_owned(), column(&|row| regression.actual(row) - deviation * diagnostics.loo_residual[row])),
        ("loo_residual".to_owned(), column(&|row| deviation * diagnostics.loo_residual[row])),
        ("noise_variance".to_owned(), column(&|row| deviation * deviation * model.rows.noise_variance[row])),
        ("relevance".to_owned(), column(&|row| diagnostics.relevance[row] / (deviation * deviation))),
        ("leverage".to_owned(), column(&|row| diagnostics.leverage[row])),
        ("cooks_distance".to_owned(), column(&|row| diagnostics.cooks_distance[row])),
        ("dffits".to_owned(), column(&|row| diagnostics.dffits[row])),
        ("z".to_owned(), column(&|row| diagnostics.z[row])),
        ("flagged".to_owned(), Table::boolean_column(order.iter().map(|&row| diagnostics.flagged[row]))),
    ]);
    Ok(Table::from_columns(columns))
}
