//! The rows that the page shows: every flagged one, and of the others the next most suspicious and an even sample.

use robustard_table::{ModelError, Table, TableError, TableModel};
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};

use crate::chart::{Numbers, RowField};
use crate::grounds::{RowExplanation, explanations};
use crate::words::{clipped, short};

/// Rows that are not flagged but come next.
const NEXT_ROWS: usize = 200;
/// Further rows.
const SAMPLED_ROWS: usize = 2_500;
/// More flagged rows than this would make the page slow; the most suspicious ones are drawn, all are listed.
const MOST_DRAWN: usize = 10_000;
/// The original values of so many bytes are kept, most suspicious rows first.
const ORIGINAL_BYTES: usize = 1_000_000;
/// Longer cells are cut.
const LONGEST_CELL: usize = 200;

/// The rows, most suspicious first, in columns of one length.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RowList {
    /// Number of rows fitted; of a fit by passes, of those that the model keeps.
    pub total: usize,
    /// Whether the model keeps only some of the rows fitted.
    #[serde(skip)]
    pub is_of_kept: bool,
    /// How many of the first rows are flagged: all that are.
    pub flagged: usize,
    /// How many of those the charts draw.
    pub flagged_drawn: usize,
    /// |z| from which rows are flagged.
    pub threshold: f64,
    /// What the labels are.
    pub label_name: String,
    /// Row numbers as the user counts them, or their ids.
    pub label: Vec<String>,
    /// Row numbers as the user counts them.
    pub row: Vec<usize>,
    /// Target.
    pub actual: Numbers,
    /// Leave-one-out prediction.
    pub predicted: Numbers,
    /// Standard deviations off.
    pub z: Numbers,
    /// Leverage.
    pub leverage: Numbers,
    /// λ in squared target units.
    pub noise_variance: Numbers,
    /// Place in the order of λ of all rows, from 1.
    pub noise_rank: Numbers,
    /// Normal quantile of z's place among all rows.
    pub quantile: Numbers,
    /// The input of a regression on one input.
    pub input: Numbers,
    /// Why rows are flagged, and what the fit did with them.
    pub reason: Vec<String>,
    /// The most unusual inputs of the first rows.
    pub unusual: Vec<String>,
    /// Why the first rows are predicted as they are.
    pub explained: Vec<Option<RowExplanation>>,
    /// Names of the other columns.
    pub original_names: Vec<String>,
    /// Their values in the first rows, row by row.
    pub original: Vec<Vec<String>>,
}

impl RowList {
    /// Chooses the rows and gathers what is known of them.
    pub fn new(model: &TableModel, table: &Table) -> Result<Self, ModelError> {
        let (encoder, diagnostics) = (model.encoder(), model.regression().diagnostics());
        let ranking = diagnostics.ranking();
        let n = ranking.len();
        let (flagged, others): (Vec<usize>, Vec<usize>) =
            ranking.into_iter().partition(|&row| diagnostics.flagged[row]);
        let (next, rest) = others.split_at(NEXT_ROWS.min(others.len()));
        let step = rest.len().div_ceil(SAMPLED_ROWS).max(1);
        let shown: Vec<usize> = flagged.iter().chain(next).chain(rest.iter().step_by(step)).copied().collect();

        let noise = &diagnostics.noise_variance;
        let of = |value: &dyn Fn(usize) -> f64| -> Numbers { shown.iter().map(|&row| value(row)).collect() };
        let noise_place = places(noise);
        let z_place = places(&diagnostics.z);
        let normal = Normal::standard();
        let places_in_table: Vec<usize> = shown.iter().map(|&row| model.rows()[row]).collect();
        let part = table.take(&places_in_table);
        let row: Vec<usize> = places_in_table.iter().map(|&place| model.row_number(place)).collect();
        let label = match &encoder.id {
            Some(id) => part.texts(id)?.into_iter().map(|id| clipped(&id.unwrap_or_default(), LONGEST_CELL)).collect(),
            None => row.iter().map(usize::to_string).collect(),
        };
        let input = match single_input(model) {
            Some(name) => Numbers(part.numbers(name)?.unwrap_or_default().into_owned()),
            None => Numbers::default(),
        };
        let (original_names, original) = original_values(model, &part)?;
        let explained = explanations(model, table, &places_in_table)?;
        let unusual = explained.iter().map(|row| row.as_ref().map_or(String::new(), |row| row.unusual.clone()));
        Ok(Self {
            total: n,
            is_of_kept: model.regression().whole().is_some(),
            flagged: flagged.len(),
            flagged_drawn: flagged.len().min(MOST_DRAWN),
            threshold: diagnostics.threshold,
            label_name: clipped(encoder.id.as_deref().unwrap_or("row"), LONGEST_CELL),
            label,
            row,
            actual: of(&|row| diagnostics.actual[row]),
            predicted: of(&|row| diagnostics.predicted[row]),
            z: of(&|row| diagnostics.z[row]),
            leverage: of(&|row| diagnostics.leverage[row]),
            noise_variance: of(&|row| noise[row]),
            noise_rank: of(&|row| noise_place[row] as f64 + 1.0),
            quantile: of(&|row| normal.inverse_cdf((z_place[row] as f64 + 0.5) / n as f64)),
            input,
            reason: shown.iter().map(|&row| reason(model, row)).collect(),
            unusual: unusual.collect(),
            explained,
            original_names,
            original,
        })
    }

    /// A field of all rows shown.
    pub fn field(&self, field: RowField) -> &[f64] {
        let numbers = match field {
            RowField::Actual => &self.actual,
            RowField::Predicted => &self.predicted,
            RowField::Z => &self.z,
            RowField::Leverage => &self.leverage,
            RowField::NoiseVariance => &self.noise_variance,
            RowField::NoiseRank => &self.noise_rank,
            RowField::Quantile => &self.quantile,
            RowField::Input => &self.input,
        };
        &numbers.0
    }

    /// Whether some rows are left out.
    pub fn is_sample(&self) -> bool {
        self.row.len() < self.total
    }
}

/// The input of a regression that has only one, a number.
pub fn single_input(model: &TableModel) -> Option<&str> {
    match (model.encoder().columns.as_slice(), model.encoder().names().len()) {
        ([column], 1) => Some(&column.name),
        _ => None,
    }
}

/// Why a row is flagged, and what the fit did with it; nothing of others.
fn reason(model: &TableModel, row: usize) -> String {
    let (regression, diagnostics) = (model.regression(), model.regression().diagnostics());
    // Of what a row counts that is not an outlier.
    let counts = (regression.inlier_variance() / diagnostics.noise_variance[row]).min(1.0);
    let side = if diagnostics.loo_residual[row] > 0.0 { "above" } else { "below" };
    match (diagnostics.set_aside[row], diagnostics.flagged[row]) {
        (false, false) => String::new(),
        (true, _) => format!("{side} the prediction, excluded from the fit"),
        _ if regression.noise().is_shared() || counts > 0.99 => {
            format!("{side} the prediction, full weight in the fit")
        }
        _ => format!("{side} the prediction, weight in the fit {}%", short((1e3 * counts).round() / 10.0)),
    }
}

/// The place of each value in ascending order.
fn places(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut places = vec![0; values.len()];
    order.iter().enumerate().for_each(|(place, &row)| places[row] = place);
    places
}

/// Every column but target and id, as text, for as many rows as there is room.
fn original_values(model: &TableModel, part: &Table) -> Result<(Vec<String>, Vec<Vec<String>>), TableError> {
    let encoder = model.encoder();
    let names: Vec<String> =
        part.names().into_iter().filter(|name| *name != encoder.target && Some(name) != encoder.id.as_ref()).collect();
    let mut columns = Vec::with_capacity(names.len());
    for name in &names {
        // Columns of a type that has no text form, such as lists, are shown as empty.
        columns.push(part.texts(name).unwrap_or_else(|_| vec![None; part.row_count()]));
    }
    let mut room = ORIGINAL_BYTES;
    let mut rows = Vec::new();
    for row in 0..part.row_count() {
        let values: Vec<String> =
            columns.iter().map(|column| clipped(column[row].as_deref().unwrap_or_default(), LONGEST_CELL)).collect();
        let size: usize = values.iter().map(|value| value.len() + 3).sum();
        let Some(left) = room.checked_sub(size) else { break };
        room = left;
        rows.push(values);
    }
    Ok((names.iter().map(|name| clipped(name, LONGEST_CELL)).collect(), rows))
}
