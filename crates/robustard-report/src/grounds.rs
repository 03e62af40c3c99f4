//! Why the first rows of the list are where they are: what the fit did with them, which inputs are unusual, what each column
//! contributes to their predictions.

use robustard_table::{ModelError, RowGrounds, Table, TableModel};
use serde::Serialize;

use crate::LONGEST_NAME;
use crate::words::{clipped, is_unusual, short, unusual_percent};

/// Rows that are explained, and the work that this may be: rows times columns.
const MOST_ROWS: usize = 100;
const LEAST_ROWS: usize = 10;
const MOST_WORK: usize = 8_000;
/// Columns whose contributions are shown, those with the largest first.
const MOST_STEPS: usize = 8;
/// Unusual inputs and similar rows shown.
const MOST_UNUSUAL: usize = 3;
const MOST_SIMILAR: usize = 3;
/// Longer values are cut.
const LONGEST_VALUE: usize = 24;

/// Why a row is predicted as it is.
#[derive(Debug, Clone, Serialize)]
pub struct RowExplanation {
    average: f64,
    prediction: f64,
    steps: Vec<Step>,
    /// How many more columns there are, and what they contribute together.
    others: usize,
    others_sum: f64,
    similar: Vec<Similar>,
    /// Its most unusual inputs, as text.
    #[serde(skip)]
    pub unusual: String,
}

/// What a column contributes.
#[derive(Debug, Clone, Serialize)]
struct Step {
    column: String,
    value: String,
    contribution: f64,
}

/// A row that the prediction rests on.
#[derive(Debug, Clone, Serialize)]
struct Similar {
    label: String,
    actual: f64,
    weight: f64,
}

/// Explanations of the first of the given rows of the table; none for those that lack an input.
pub fn explanations(
    model: &TableModel,
    table: &Table,
    rows: &[usize],
) -> Result<Vec<Option<RowExplanation>>, ModelError> {
    let encoder = model.encoder();
    let most = (MOST_WORK / encoder.columns.len().max(1)).clamp(LEAST_ROWS, MOST_ROWS);
    let rows = &rows[..rows.len().min(most)];
    let part = table.take(rows);
    let values: Vec<Vec<Option<String>>> =
        encoder.columns.iter().map(|column| part.texts(&column.name)).collect::<Result<_, _>>()?;
    let ids = encoder.id.as_ref().map(|id| table.texts(id)).transpose()?;
    let label = |row: usize| match &ids {
        Some(ids) => clipped(ids[row].as_deref().unwrap_or_default(), LONGEST_VALUE),
        None => model.row_number(row).to_string(),
    };
    let diagnostics = model.regression().diagnostics();
    let actual = |row: usize| model.rows().binary_search(&row).map_or(f64::NAN, |place| diagnostics.actual[place]);
    let mut grounds = model.grounds(table, rows, MOST_SIMILAR + 1)?.into_iter().peekable();
    let explained = |(place, &row): (usize, &usize)| {
        let RowGrounds { explanation, similar, unusual, .. } = grounds.next_if(|grounds| grounds.row == row)?;
        let input = |column: usize| {
            let value = values[column][place].as_deref().map_or("missing".to_owned(), value_text);
            (clipped(&encoder.columns[column].name, LONGEST_NAME), value)
        };
        let mut order: Vec<usize> = (0..explanation.contributions.len()).collect();
        let size = |column: usize| explanation.contributions[column].abs();
        order.sort_by(|&a, &b| size(b).total_cmp(&size(a)));
        let (shown, others) = order.split_at(MOST_STEPS.min(order.len()));
        let step = |&column: &usize| {
            let (column_name, value) = input(column);
            Step { column: column_name, value, contribution: explanation.contributions[column] }
        };
        let mut odd: Vec<usize> = (0..unusual.len()).filter(|&column| is_unusual(unusual[column])).collect();
        odd.sort_by(|&a, &b| unusual[b].total_cmp(&unusual[a]));
        let odd = odd.iter().take(MOST_UNUSUAL).map(|&column| {
            let (name, value) = input(column);
            format!("{name} = {value} ({})", unusual_percent(unusual[column]))
        });
        // That a row is like itself says nothing.
        let others_like_it = similar.iter().filter(|similar| similar.row != row).take(MOST_SIMILAR);
        Some(RowExplanation {
            average: explanation.average,
            prediction: explanation.prediction,
            steps: shown.iter().map(step).collect(),
            others: others.len(),
            others_sum: others.iter().map(|&column| explanation.contributions[column]).sum(),
            similar: others_like_it
                .map(|similar| Similar {
                    label: label(similar.row),
                    actual: actual(similar.row),
                    weight: similar.weight,
                })
                .collect(),
            unusual: odd.collect::<Vec<_>>().join(", "),
        })
    };
    Ok(rows.iter().enumerate().map(explained).collect())
}

/// Numbers with few digits, other texts cut.
fn value_text(text: &str) -> String {
    text.parse::<f64>().map_or_else(|_| clipped(text, LONGEST_VALUE), short)
}
