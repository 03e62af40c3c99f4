//! `robustard explain`.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use robustard::{Control, SimilarRow};
use robustard_report::{is_unusual, short, unusual_words};
use robustard_table::{RowGrounds, Table, TableModel, load_model, read};
use serde::Serialize;

use crate::args::TableArguments;
use crate::text::{bar, padded};
use crate::{Ending, Outcome, Usage, output};

/// Level of the interval.
const LEVEL: f64 = 0.95;
/// Similar rows and unusual values listed.
const MOST_SIMILAR: usize = 5;
const MOST_UNUSUAL: usize = 3;

/// Options of `explain`.
#[derive(Args)]
#[command(after_help = "Examples:
  robustard explain houses.model houses.csv --row 17
  robustard explain houses.model new.csv --row 3 --json")]
pub struct Explain {
    /// A model file, written by `robustard fit -o`
    model: PathBuf,
    /// A table with the row: the training table or a new one
    table: PathBuf,
    #[command(flatten)]
    reading: TableArguments,
    /// The row: its id if the model has an id column, else its number, counted from 1
    #[arg(long, value_name = "ID")]
    row: String,
    /// Columns listed, those with the largest contributions first
    #[arg(long, value_name = "N", default_value_t = 10)]
    most: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// An explanation for programs.
#[derive(Serialize)]
struct Explained {
    row: usize,
    id: Option<String>,
    actual: Option<f64>,
    prediction: f64,
    /// The interval that holds 95% of new rows like it.
    lower: f64,
    upper: f64,
    average: f64,
    contributions: Vec<Contribution>,
    similar_rows: Vec<Similar>,
    /// What the fit says about it, if the row was fitted.
    fitted: Option<FittedRow>,
}

#[derive(Serialize)]
struct Contribution {
    column: String,
    value: Option<String>,
    contribution: f64,
    /// As the standard deviations beyond which two normal tails hold as many rows.
    unusual: f64,
}

#[derive(Serialize)]
struct Similar {
    /// In the training table, counted from 1.
    row: usize,
    id: Option<String>,
    weight: f64,
}

#[derive(Serialize)]
struct FittedRow {
    /// Predicted from the other rows.
    predicted: f64,
    z: f64,
    flagged: bool,
    set_aside: bool,
}

impl Explain {
    /// Explains one row.
    pub fn run(&self) -> Outcome<Ending> {
        let model = load_model(&self.model)?;
        let table = read(&self.table, &self.reading.options(&model.encoder().id))?;
        let row = self.place(&model, &table)?;
        // One of them may be the row itself.
        let Some(grounds) = model.grounds(&table, &[row], MOST_SIMILAR + 1)?.pop() else {
            return Err(format!("row {} lacks a value that the model needs; fill it in", self.row).into());
        };
        let explained = explained(&model, &table, row, grounds)?;
        if self.json {
            output::print(&format!("{}\n", serde_json::to_string_pretty(&explained)?))?;
        } else {
            output::print_summary(&self.words(&model, &explained)?)?;
        }
        Ok(Ending::Done)
    }

    /// The row's place in the table.
    fn place(&self, model: &TableModel, table: &Table) -> Outcome<usize> {
        if let Some(id) = model.encoder().id.as_ref().filter(|id| table.names().contains(id)) {
            let ids = table.texts(id)?;
            let is_meant = |text: &Option<String>| text.as_deref() == Some(self.row.as_str());
            let places: Vec<usize> = (0..ids.len()).filter(|&place| is_meant(&ids[place])).collect();
            return match places[..] {
                [place] => Ok(place),
                [] => Err(Usage(format!("no row has the {id} '{}'", self.row)).into()),
                _ => Err(Usage(format!("{} rows have the {id} '{}'", places.len(), self.row)).into()),
            };
        }
        let number = self.row.parse::<usize>().ok().filter(|number| (1..=table.row_count()).contains(number));
        let number = number.ok_or_else(|| {
            Usage(format!("'{}' is not a row of the table; give a number from 1 to {}", self.row, table.row_count()))
        })?;
        Ok(number - 1)
    }

    fn words(&self, model: &TableModel, explained: &Explained) -> Outcome<String> {
        const BAR: usize = 16;
        let target = &model.encoder().target;
        let mut out = String::new();
        let name = explained.id.clone().unwrap_or_else(|| explained.row.to_string());
        writeln!(out, "Row      {name}: {target} predicted as {}", short(explained.prediction))?;
        let (lower, upper) = (short(explained.lower), short(explained.upper));
        writeln!(out, "         {:.0}% interval {lower} to {upper}", 100.0 * LEVEL)?;
        if let Some(actual) = explained.actual {
            writeln!(out, "         actual {}", short(actual))?;
        }
        if let Some(fitted) = &explained.fitted {
            let verdict = match (fitted.set_aside, fitted.flagged) {
                (true, _) => ": outlier, excluded from the fit",
                (_, true) => ": outlier",
                _ => "",
            };
            let (predicted, z) = (short(fitted.predicted), fitted.z);
            writeln!(out, "         from the other rows {predicted}, off by {z:.1} standard deviations{verdict}")?;
        }
        writeln!(out, "Why      {:<38} {:>12}", "average prediction", short(explained.average))?;
        let mut order: Vec<&Contribution> = explained.contributions.iter().collect();
        order.sort_by(|a, b| b.contribution.abs().total_cmp(&a.contribution.abs()));
        let largest = order.first().map_or(1.0, |first| first.contribution.abs()).max(f64::MIN_POSITIVE);
        let (shown, rest) = order.split_at(self.most.min(order.len()));
        for contribution in shown {
            let value = contribution.value.as_deref().map_or("missing".to_owned(), short_text);
            let label = padded(&format!("{} = {value}", contribution.column), 38);
            let size = contribution.contribution.abs() / largest;
            let bar = if size > 0.0 { bar(size, BAR) } else { String::new() };
            let sign = if contribution.contribution > 0.0 { "+" } else { "" };
            let line = format!("         {label} {:>12} {bar}", format!("{sign}{}", short(contribution.contribution)));
            writeln!(out, "{}", line.trim_end())?;
        }
        if !rest.is_empty() {
            let sum: f64 = rest.iter().map(|contribution| contribution.contribution).sum();
            let sign = if sum > 0.0 { "+" } else { "" };
            let label = format!("{} more columns", rest.len());
            writeln!(out, "         {label:<38} {:>12}", format!("{sign}{}", short(sum)))?;
        }
        writeln!(out, "         {:<38} {:>12}", "prediction", short(explained.prediction))?;
        let mut unusual: Vec<&Contribution> =
            explained.contributions.iter().filter(|contribution| is_unusual(contribution.unusual)).collect();
        unusual.sort_by(|a, b| b.unusual.total_cmp(&a.unusual));
        for (k, contribution) in unusual.iter().take(MOST_UNUSUAL).enumerate() {
            let value = contribution.value.as_deref().map_or("missing".to_owned(), short_text);
            let head = if k == 0 { "Unusual" } else { "" };
            let label = padded(&format!("{} = {value}", contribution.column), 38);
            writeln!(out, "{head:<8} {label} {}", unusual_words(contribution.unusual))?;
        }
        for (k, similar) in explained.similar_rows.iter().enumerate() {
            let head = if k == 0 { "Similar" } else { "" };
            let label = match &similar.id {
                Some(id) => padded(id, 38),
                None => format!("training row {}", similar.row),
            };
            writeln!(out, "{head:<8} {label:<38} {:>12} weight in the prediction", short(similar.weight))?;
        }
        Ok(out)
    }
}

/// Numbers with few digits, other texts as they are.
fn short_text(text: &str) -> String {
    text.parse::<f64>().map_or_else(|_| text.to_owned(), short)
}

fn explained(model: &TableModel, table: &Table, row: usize, grounds: RowGrounds) -> Outcome<Explained> {
    let encoder = model.encoder();
    let one = table.take(&[row]);
    let text = |name: &str| -> Outcome<Option<String>> { Ok(one.texts(name)?.swap_remove(0)) };
    let RowGrounds { explanation, similar, unusual, .. } = grounds;
    let contributions =
        encoder.columns.iter().zip(explanation.contributions).zip(unusual).map(|((column, contribution), unusual)| {
            Ok(Contribution { column: column.name.clone(), value: text(&column.name)?, contribution, unusual })
        });
    let has = |name: &String| table.names().contains(name);
    let actual = has(&encoder.target).then(|| one.numbers(&encoder.target)).transpose()?.flatten();
    let actual = actual.map(|values| values[0]).filter(|value| !value.is_nan());
    let id = encoder.id.as_ref().filter(|id| has(id)).map(|id| text(id)).transpose()?.flatten();
    let is_own = actual.is_some() && model.was_fitted_to(table).unwrap_or(false);
    let place = if is_own { model.rows().binary_search(&row).ok() } else { None };
    let fitted = place.map(|place| {
        let diagnostics = model.regression().diagnostics();
        FittedRow {
            predicted: diagnostics.predicted[place],
            z: diagnostics.z[place],
            flagged: diagnostics.flagged[place],
            set_aside: diagnostics.set_aside[place],
        }
    });
    let interval = model.predict(&one, &Control::new())?.values.interval(LEVEL).map_err(robustard::Error::from)?;
    // That a row is like itself says nothing.
    let is_other = |similar: &SimilarRow| place.is_none() || similar.row != row;
    let similar = similar.into_iter().filter(is_other).take(MOST_SIMILAR);
    let similar = similar.map(|similar| Similar {
        row: similar.row + 1,
        id: model.id_of(similar.row).map(str::to_owned),
        weight: similar.weight,
    });
    Ok(Explained {
        row: row + 1,
        id,
        actual,
        lower: interval.lower[0],
        upper: interval.upper[0],
        prediction: explanation.prediction,
        average: explanation.average,
        contributions: contributions.collect::<Outcome<_>>()?,
        similar_rows: similar.collect(),
        fitted,
    })
}
