//! `robustard diagnose`.

use std::path::{Path, PathBuf};

use clap::Args;
use robustard_table::{Table, TableModel, write};

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
        let (model, table) = self.of.open()?;
        write(&row_table(&model, &table)?, &self.output)?;
        if !self.of.quiet && self.output != Path::new("-") {
            say(&format!("wrote rows to {}", self.output.display()));
        }
        Ok(Ending::Done)
    }
}

/// The columns that every diagnosis has.
const MEASURES: [&str; 11] = [
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
    "set_aside",
];

/// One line per fitted row, most suspicious first. Residuals, variances and values are in the target's units.
pub fn row_table(model: &TableModel, table: &Table) -> Outcome<Table> {
    let diagnostics = model.regression().diagnostics();
    let order = diagnostics.ranking();
    let column = |name: &str, value: &dyn Fn(usize) -> f64| {
        (name.to_owned(), Table::number_column(order.iter().map(|&row| value(row))))
    };
    let mut columns = vec![match &model.encoder().id {
        Some(id) => {
            let ids = table.texts(id)?;
            let name = if MEASURES.contains(&id.as_str()) { format!("id ({id})") } else { id.clone() };
            (name, Table::text_column(order.iter().map(|&row| ids[model.rows()[row]].clone())))
        }
        None => ("row".to_owned(), Table::count_column(order.iter().map(|&row| model.rows()[row] + 1))),
    }];
    columns.extend([
        column("actual", &|row| diagnostics.actual[row]),
        column("predicted", &|row| diagnostics.predicted[row]),
        column("loo_residual", &|row| diagnostics.loo_residual[row]),
        column("noise_variance", &|row| diagnostics.noise_variance[row]),
        column("relevance", &|row| diagnostics.relevance(row)),
        column("leverage", &|row| diagnostics.leverage[row]),
        column("cooks_distance", &|row| diagnostics.cooks_distance[row]),
        column("dffits", &|row| diagnostics.dffits[row]),
        column("z", &|row| diagnostics.z[row]),
        ("flagged".to_owned(), Table::boolean_column(order.iter().map(|&row| diagnostics.flagged[row]))),
        ("set_aside".to_owned(), Table::boolean_column(order.iter().map(|&row| diagnostics.set_aside[row]))),
    ]);
    Ok(Table::from_columns(columns))
}
