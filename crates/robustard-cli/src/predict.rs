//! `robustard predict`.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;
use robustard::{Beyond, Control, Explanation};
use robustard_table::{
    ModelError, PieceReader, Table, TableError, TableModel, TablePrediction, TableWriter, is_pipe, load_model, publish,
    read, sources,
};

use crate::args::TableArguments;
use crate::colour::say;
use crate::output::{Plan, existing};
use crate::progress::control;
use crate::{Ending, Outcome};

/// Options of `predict`.
#[derive(Args)]
#[command(after_help = "Examples:
  robustard predict houses.model new.csv -o predicted.csv
  robustard predict load.model 'new/*.parquet' -o predicted.parquet
  robustard predict houses.model new.parquet --only --level 0.8 -o - | head
  robustard predict houses.model new.csv --only --explain -o explained.csv")]
pub struct Predict {
    /// A model file, written by `robustard fit -o`
    model: PathBuf,
    /// The table to predict; columns may be in any order; several files, folders or patterns are one table. It is read in pieces
    #[arg(required = true, value_name = "TABLE")]
    tables: Vec<PathBuf>,
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
    /// Predicts and writes, some rows at a time.
    pub fn run(&self) -> Outcome<Ending> {
        let plan = Plan::new(self.force).writes([&self.output]).keeps("the model", [&self.model]);
        plan.reads_table(&self.tables).check()?;
        let model = load_model(&self.model)?;
        let reading = self.reading.options(&model.encoder().id);
        let control = control(self.quiet, model.regression().settings().tolerance)?;
        let mut notes = Notes::default();
        let mut writer = TableWriter::create(&self.output, existing(self.force))?;
        if let [only] = self.tables.as_slice()
            && is_pipe(only)
        {
            // What comes through a pipe comes once.
            let table = read(only, &reading)?;
            writer.write(&self.predict(&model, &table, &control, &mut notes)?)?;
        } else {
            let sources = sources(&self.tables)?;
            let mut pieces = PieceReader::new(&sources, &reading);
            let mut is_any = false;
            while let Some((table, before)) = pieces.read()? {
                is_any = true;
                let predicted = self.predict(&model, &table, &control, &mut notes);
                writer.write(&predicted.map_err(|error| further_down(error, before))?)?;
            }
            if !is_any {
                let path = self.tables[0].display().to_string();
                return Err(TableError::NoRows { path }.into());
            }
        }
        let whole = writer.seal()?;
        if control.is_stopped() {
            return Err(robustard::Error::Stopped.into());
        }
        drop(control);
        publish(vec![whole])?;
        if !self.quiet {
            notes.texts(&model).iter().for_each(|note| say(&format!("note: {note}")));
        }
        Ok(Ending::Done)
    }

    /// The rows of a piece with their predictions.
    fn predict(&self, model: &TableModel, table: &Table, control: &Control, notes: &mut Notes) -> Outcome<Table> {
        let encoder = model.encoder();
        let prediction = model.predict(table, control)?;
        let interval = prediction.values.interval(self.level)?;
        notes.add(&prediction);
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
            notes.say(format!("columns that the model does not know are ignored: {}", extra.join(", ")));
        }
        let replaced: Vec<String> = table.names().into_iter().filter(|name| OWN.contains(&name.as_str())).collect();
        if !replaced.is_empty() && !self.only {
            notes.say(format!("columns of the table are replaced by the predictions: {}", replaced.join(", ")));
        }
        // Rows without a prediction stay in the table, with nothing in those columns.
        let spread = |values: &[f64]| {
            let mut all = vec![f64::NAN; table.row_count()];
            prediction.rows.iter().zip(values).for_each(|(&row, value)| all[row] = *value);
            Table::number_column(all)
        };
        let values = &prediction.values;
        let mut columns = vec![
            ("prediction".to_owned(), spread(if self.median { &values.median } else { &values.mean })),
            ("std".to_owned(), spread(&values.std)),
            ("lower".to_owned(), spread(&interval.lower)),
            ("upper".to_owned(), spread(&interval.upper)),
        ];
        if self.explain {
            let explained = model.explain(table)?.values;
            let of = |value: &dyn Fn(&Explanation) -> f64| spread(&explained.iter().map(value).collect::<Vec<f64>>());
            columns.push(("average".to_owned(), of(&|row| row.average)));
            for (k, column) in encoder.columns.iter().enumerate() {
                columns.push((format!("contribution of {}", column.name), of(&|row| row.contributions[k])));
            }
        }
        Ok(if self.only {
            let id = encoder.id.iter().filter_map(|id| Some((id.clone(), table.column(id).ok()?.clone())));
            Table::from_columns(id.chain(columns).collect())
        } else {
            table.with_columns(columns)
        })
    }
}

/// The error of a row that is counted from the first one of its piece.
fn further_down(error: Box<dyn Error>, rows: usize) -> Box<dyn Error> {
    match error.downcast::<ModelError>() {
        Ok(error) => error.after(rows).into(),
        Err(error) => error,
    }
}

/// What is said once about all pieces.
#[derive(Default)]
struct Notes {
    texts: Vec<String>,
    left_out: usize,
    beyond: Vec<Beyond>,
}

impl Notes {
    /// Texts are said once; of very many different ones the first are enough.
    fn say(&mut self, text: String) {
        const MOST: usize = 20;
        if self.texts.len() < MOST && !self.texts.contains(&text) {
            self.texts.push(text);
        }
    }

    fn add(&mut self, prediction: &TablePrediction) {
        for Beyond { name, rows } in &prediction.values.beyond {
            match self.beyond.iter_mut().find(|known| known.name == *name) {
                Some(known) => known.rows += rows,
                None => self.beyond.push(Beyond { name: name.clone(), rows: *rows }),
            }
        }
        self.left_out += prediction.left_out;
        prediction.unseen.iter().for_each(|note| self.say(note.clone()));
    }

    fn texts(&self, model: &TableModel) -> Vec<String> {
        let left_out = (self.left_out > 0).then(|| format!("{} rows with missing values are left out", self.left_out));
        let (unseen, others): (Vec<String>, Vec<String>) =
            self.texts.iter().cloned().partition(|text| text.contains("has not seen"));
        unseen.into_iter().chain(left_out).chain(model.note_beyond(&self.beyond)).chain(others).collect()
    }
}
