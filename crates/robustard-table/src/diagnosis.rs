//! What is known of each row of a fit, as a table.

use robustard::Diagnostics;

use crate::error::TableError;
use crate::model::TableModel;
use crate::table::Table;

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
pub fn row_table(model: &TableModel, table: &Table) -> Result<Table, TableError> {
    let diagnostics = model.regression().diagnostics();
    let order = diagnostics.ranking();
    let id = model.encoder().id.as_deref();
    let place = |&row: &usize| model.rows()[row];
    let labels = match id {
        Some(id) => {
            let ids = table.texts(id)?;
            order.iter().map(|row| ids[place(row)].clone().unwrap_or_default()).collect()
        }
        None => order.iter().map(|row| (place(row) + 1).to_string()).collect(),
    };
    Ok(rows_of(id, labels, diagnostics, Some(&order)))
}

/// The diagnosis of rows with their ids or numbers, in this order or in their own.
pub fn rows_of(id: Option<&str>, labels: Vec<String>, diagnostics: &Diagnostics, order: Option<&[usize]>) -> Table {
    let own: Vec<usize> = (0..labels.len()).collect();
    let order = order.unwrap_or(&own);
    let column = |name: &str, value: &dyn Fn(usize) -> f64| {
        (name.to_owned(), Table::number_column(order.iter().map(|&row| value(row))))
    };
    let mut columns = vec![match id {
        Some(id) => {
            let name = if MEASURES.contains(&id) { format!("id ({id})") } else { id.to_owned() };
            (name, Table::text_column(labels.into_iter().map(|label| Some(label).filter(|label| !label.is_empty()))))
        }
        None => ("row".to_owned(), Table::count_column(labels.iter().map(|label| label.parse().unwrap_or(0)))),
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
    Table::from_columns(columns)
}
