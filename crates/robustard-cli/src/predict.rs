//! `robustard predict`.

use std::path::PathBuf;

use clap::Args;
use robustard::Explanation;
use robustard_table::{ModelError, Table, load_model, read, write};

use crate::args::TableArguments;
use crate::colour::say;
use crate::progress::control;
use crate::{Ending, Outcome, refuse_to_overwrite};

/// Options of `predict`.
#[derive(Args)]
#[command(after_help = "Examples:
  robustard predict houses.model new.csv -o predicted.csv
  robustard predict houses.model new.parquet --only --level 0.8 -o - | head
  robustard predict houses.model new.csv --only --explain -o explained.csv")]
pub struct Predict {
    /// A model file, written by `robustard fit -o`
    model: PathBuf,
    /// The table to predict; columns may be in any order
    table: PathBuf,
    #[command(flatten)]
    reading: TableArguments,
    /// Where to write the predictions; - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Write only the predictions (and the id), not the input columns
    #[arg(long)]
    only: bool,
    /// Share of new observations that the intervals should hold
    #[arg(long, default_value_t = 0.95, value_parser = level)]
    level: f64,
    /// Predict medians instead of means, which differ where a transformation of the target was fitted
    #[arg(long)]
    median: bool,
    /// Add the average prediction and what each column contributes to a row's; these add up to the prediction
    #[arg(long, conflicts_with = "median")]
    explain: bool,
    /// Print errors only
    #[arg(long)]
    quiet: bool,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

fn level(text: &str) -> Result<f64, String> {
    let level = text.parse::<f64>().ok().filter(|level| *level > 0.0 && *level < 1.0);
    level.ok_or_else(|| "it must be between 0 and 1, for example 0.95".to_owned())
}

/// The columns that are added.
const OWN: [&str; 4] = ["prediction", "std", "lower", "upper"];

impl Predict {
    /// Predicts and writes.
    pub fn run(&self) -> Outcome<Ending> {
        refuse_to_overwrite(&self.output, self.force)?;
        let model = load_model(&self.model)?;
        let encoder = model.encoder();
        let table = read(&self.table, &self.reading.options(&encoder.id))?;
        let control = control(self.quiet, model.regression().settings().tolerance)?;
        let prediction = match model.predict(&table, &control) {
            Err(ModelError::Regression(robustard::Error::Stopped)) => return Ok(Ending::Interrupted),
            prediction => prediction?,
        };
        drop(control);
        let interval = prediction.values.interval(self.level)?;
        let mut notes = prediction.notes.clone();
        let used: Vec<&String> = encoder.columns.iter().map(|column| &column.name).collect();
        let is_known = |name: &String| {
            used.contains(&name)
                || *name == encoder.target
                || encoder.left_out.iter().any(|left| left.name == *name)
                || [&encoder.id, &encoder.weights].into_iter().flatten().any(|role| role == name)
        };
        let extra: Vec<String> =
            table.names().into_iter().filter(|name| !is_known(name) && !OWN.contains(&name.as_str())).collect();
        if !extra.is_empty() {
            notes.push(format!("columns that the model does not know are ignored: {}", extra.join(", ")));
        }
        let replaced: Vec<String> = table.names().into_iter().filter(|name| OWN.contains(&name.as_str())).collect();
        if !replaced.is_empty() && !self.only {
            notes.push(format!("columns of the table are replaced by the predictions: {}", replaced.join(", ")));
        }
        // Rows without a prediction stay in the table, with nothing in those columns.
        let spread = |values: &[f64]| {
            let mut all = vec![f64::NAN; table.row_count()];
            prediction.rows.iter().zip(values).for_each(|(&row, value)| all[row] = *value);
            Table::number_column(all)
        };
        let mut columns = vec![
            (
                "prediction".to_owned(),
                spread(if self.median { &prediction.values.median } else { &prediction.values.mean }),
            ),
            ("std".to_owned(), spread(&prediction.values.std)),
            ("lower".to_owned(), spread(&interval.lower)),
            ("upper".to_owned(), spread(&interval.upper)),
        ];
        if self.explain {
            let explained = model.explain(&table)?.values;
            let of = |value: &dyn Fn(&Explanation) -> f64| spread(&explained.iter().map(value).collect::<Vec<f64>>());
            columns.push(("average".to_owned(), of(&|row| row.average)));
            for (k, column) in encoder.columns.iter().enumerate() {
                columns.push((format!("contribution of {}", column.name), of(&|row| row.contributions[k])));
            }
        }
        let result = if self.only {
            let id = encoder.id.iter().filter_map(|id| Some((id.clone(), table.column(id).ok()?.clone())));
            Table::from_columns(id.chain(columns).collect())
        } else {
            table.with_columns(columns)
        };
        if !self.quiet {
            notes.iter().for_each(|note| say(&format!("note: {note}")));
        }
        write(&result, &self.output)?;
        Ok(Ending::Done)
    }
}
