//! What each column contributes to the prediction of a row.

use faer::{Mat, MatRef};
use serde::Serialize;

use super::{Background, Effects, moments, product};
use crate::features::Exchanger;
use crate::fitted::Fit;

/// Why a row is predicted as it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The prediction.
    pub prediction: f64,
    /// The average prediction.
    pub average: f64,
    /// What each column adds to it, in the order of the table; they add up to prediction − average. Half of the change by the column
    /// alone, the others averaged over the training rows, and half of that by the column when all others are known: Shapley values of
    /// functions that add up functions of one and of two columns. What columns do together in threes and more is shared in proportion.
    pub contributions: Vec<f64>,
}

/// A training row that a prediction rests on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SimilarRow {
    /// Which.
    pub row: usize,
    /// How much the prediction of what is fitted changes with the row's target, per unit.
    pub weight: f64,
}

/// Explains rows (m × p), in the user's units.
pub(super) fn explain(
    fit: &Fit,
    background: &Background,
    effects: &Effects,
    inputs: MatRef<'_, f64>,
) -> Vec<Explanation> {
    let Fit { design, model, .. } = fit;
    let standard = design.standardize(inputs);
    let exchanger = Exchanger::new(design.map(), standard.as_ref());
    let coefficients = model.coefficients();
    let weights = exchanger.weights(design.of_features(coefficients));
    let intercept = design.of_intercept(coefficients).unwrap_or(0.0);
    let (scaling, target) = (design.inputs(), design.target());
    let m = inputs.nrows();
    let predictions = |values| -> Mat<f64> {
        let mut all = Mat::zeros(m, 0);
        for row in 0..exchanger.row_count() {
            let mut predicted = Vec::new();
            exchanger.show(row, &values, |_, basis| {
                predicted.push(target.expected(intercept + product(basis, &weights)));
            });
            if row == 0 {
                all = Mat::zeros(m, predicted.len());
            }
            predicted.into_iter().enumerate().for_each(|(g, value)| all[(row, g)] = value);
        }
        all
    };
    let own = predictions(exchanger.values(&[], Mat::zeros(1, 0).as_ref()));
    let mut contributions = vec![vec![0.0; background.columns.len()]; m];
    for (c, (column, grid)) in background.columns.iter().zip(&effects.grids).enumerate() {
        if effects.columns[c].importance == 0.0 {
            continue;
        }
        let value = |g: usize, k: usize| {
            let input = column.inputs[k];
            (grid.values[(g, k)] - scaling.mean[input]) / scaling.scale[input]
        };
        let values = Mat::from_fn(grid.weight.len(), column.inputs.len(), value);
        let exchanged = predictions(exchanger.values(&column.inputs, values.as_ref()));
        for (row, contributions) in contributions.iter_mut().enumerate() {
            let others = (0..grid.weight.len()).map(|g| (exchanged[(row, g)], grid.weight[g]));
            let last = own[(row, 0)] - moments(others).0;
            let values: Vec<f64> = column.inputs.iter().map(|&input| inputs[(row, input)]).collect();
            let place = grid.place(column, &values);
            // What lies between the points of the grid, or beyond them, is as it is in this row: that is exact where columns add up.
            let alone = |(g, share): &(usize, f64)| {
                share * (effects.columns[c].points[*g].effect + own[(row, 0)] - exchanged[(row, *g)])
            };
            let alone: f64 = place.iter().map(alone).sum();
            contributions[c] = if place.is_empty() { last } else { 0.5 * (alone + last) };
        }
    }
    let explanation = |(row, mut contributions): (usize, Vec<f64>)| {
        let prediction = own[(row, 0)];
        let rest = prediction - effects.average - contributions.iter().sum::<f64>();
        let size: f64 = contributions.iter().map(|value| value.abs()).sum();
        match (size > 0.0, contributions.first_mut()) {
            (true, _) => contributions.iter_mut().for_each(|value| *value += rest * value.abs() / size),
            (false, Some(first)) => *first += rest,
            (false, None) => {}
        }
        Explanation { prediction, average: effects.average, contributions }
    };
    contributions.into_iter().enumerate().map(explanation).collect()
}

/// The training rows, of those that the model keeps, whose targets have most weight in the prediction of each row (m × p), in the
/// user's units.
pub(super) fn similar(fit: &Fit, background: &Background, rows: MatRef<'_, f64>, most: usize) -> Vec<Vec<SimilarRow>> {
    let Fit { design, model, .. } = fit;
    let columns = |inputs: MatRef<'_, f64>| design.columns(design.standardize(inputs).as_ref(), faer::Par::Seq).0;
    let known = columns(background.inputs(background.rows.len()).as_ref());
    let covariance = model.weight_covariance(columns(rows).as_ref());
    let Ok(covariance) = covariance else { return vec![Vec::new(); rows.nrows()] };
    let fitted = model.rows();
    let similar = |place: usize| {
        let covariance = covariance.col_as_slice(place);
        let weight = |(k, &row): (usize, &usize)| {
            let weight = product(covariance, known.col_as_slice(k)) * fitted.weight[row] / fitted.noise_variance[row];
            SimilarRow { row, weight }
        };
        let mut similar: Vec<SimilarRow> = background.rows.iter().enumerate().map(weight).collect();
        similar.sort_by(|a, b| b.weight.abs().total_cmp(&a.weight.abs()));
        similar.truncate(most);
        similar
    };
    (0..rows.nrows()).map(similar).collect()
}
