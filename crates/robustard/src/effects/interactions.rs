//! Columns that act together: functional analysis of variance of the fitted function on pairs of columns.

use faer::Mat;
use rayon::prelude::*;
use serde::Serialize;

use super::NOTHING;
use super::grid::{ColumnValue, Grid};
use super::look::Look;
use crate::input_column::InputColumn;

/// The columns that interact most are looked at in pairs.
const MOST_COLUMNS: usize = 7;
/// Values of each column of a pair.
const POINTS: usize = 8;
/// Rows that pairs are averaged over.
const ROWS: usize = 100;
/// Pairs that are kept, if they carry at least this share.
const MOST_PAIRS: usize = 6;
const LEAST_SHARE: f64 = 1e-3;

/// An interaction of two columns: what they do together beyond what each does by itself.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Interaction {
    /// The columns, by their numbers.
    pub columns: [usize; 2],
    /// Its share of the same sum that the importance of columns is a share of, so that the two can be compared: it is part of the importance
    /// of both columns.
    pub share: f64,
    /// Values of the two columns.
    pub values: [Vec<ColumnValue>; 2],
    /// What is added to the main effects at each pair of values, in the target's units: a row for each value of the first column.
    pub effect: Vec<Vec<f64>>,
}

/// The strongest interactions; `parts` is the variance of each column that is not of its main effect, `whole` the sum
/// of the variances of all columns.
pub(super) fn strongest(
    look: &Look<'_>,
    columns: &[InputColumn],
    grids: &[Grid],
    parts: &[f64],
    whole: f64,
) -> Vec<Interaction> {
    let mut order: Vec<usize> = (0..columns.len()).filter(|&column| parts[column] > NOTHING * whole).collect();
    order.sort_by(|&a, &b| parts[b].total_cmp(&parts[a]));
    order.truncate(MOST_COLUMNS);
    let pairs: Vec<[usize; 2]> = order
        .iter()
        .enumerate()
        .flat_map(|(place, &a)| order[place + 1..].iter().map(move |&b| [a.min(b), a.max(b)]))
        .collect();
    let rows = ROWS.min(look.row_count());
    let interaction = |pair: &[usize; 2]| of_pair(look, columns, grids, *pair, rows, whole);
    let mut found: Vec<Interaction> = pairs.par_iter().map(interaction).collect();
    found.retain(|interaction| interaction.share >= LEAST_SHARE);
    found.sort_by(|a, b| b.share.total_cmp(&a.share));
    found.truncate(MOST_PAIRS);
    found
}

/// Some points of a grid, and the share of rows that each stands for.
fn coarse(grid: &Grid) -> Vec<(usize, f64)> {
    let mut order: Vec<usize> = (0..grid.weight.len()).collect();
    if grid.numbers == 0 {
        // The most frequent levels.
        order.sort_by(|&a, &b| grid.weight[b].total_cmp(&grid.weight[a]));
        order.truncate(POINTS);
    } else {
        order.truncate(grid.numbers);
        if order.len() > POINTS {
            let last = order.len() - 1;
            order = (0..POINTS).map(|k| k * last / (POINTS - 1)).collect();
        }
    }
    // Points between take part with the nearest one.
    let mut weight = vec![0.0; order.len()];
    for (g, share) in grid.weight.iter().enumerate() {
        let near = |k: &usize| order[*k].abs_diff(g);
        let is_in = order.contains(&g);
        if let Some(k) = (0..order.len()).min_by_key(near).filter(|_| is_in || (grid.numbers > g)) {
            weight[k] += share;
        }
    }
    let total: f64 = weight.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    order.into_iter().zip(weight.into_iter().map(|weight| weight / total)).collect()
}

fn of_pair(
    look: &Look<'_>,
    columns: &[InputColumn],
    grids: &[Grid],
    pair: [usize; 2],
    rows: usize,
    whole: f64,
) -> Interaction {
    let [first, second] = pair.map(|column| coarse(&grids[column]));
    let (k, l) = (first.len(), second.len());
    let [one, other] = pair.map(|column| &columns[column]);
    let inputs: Vec<usize> = one.inputs.iter().chain(&other.inputs).copied().collect();
    let own = one.inputs.len();
    let value = |place: usize, input: usize| {
        let (a, b) = (first[place / l].0, second[place % l].0);
        match input.checked_sub(own) {
            None => grids[pair[0]].values[(a, input)],
            Some(input) => grids[pair[1]].values[(b, input)],
        }
    };
    let exchanged = look.exchanged(&inputs, Mat::from_fn(k * l, inputs.len(), value).as_ref());
    let mut mean = vec![0.0; k * l];
    let total: f64 = look.share[..rows].iter().sum();
    for (row, share) in look.share[..rows].iter().enumerate() {
        let predicted = look.row(row, &exchanged);
        mean.iter_mut().zip(predicted).for_each(|(mean, value)| *mean += share / total * value);
    }
    let at = |a: usize, b: usize| mean[a * l + b];
    let of_first: Vec<f64> = (0..k).map(|a| (0..l).map(|b| second[b].1 * at(a, b)).sum()).collect();
    let of_second: Vec<f64> = (0..l).map(|b| (0..k).map(|a| first[a].1 * at(a, b)).sum()).collect();
    let average: f64 = of_first.iter().zip(&first).map(|(value, (_, weight))| weight * value).sum();
    let effect: Vec<Vec<f64>> =
        (0..k).map(|a| (0..l).map(|b| at(a, b) - of_first[a] - of_second[b] + average).collect()).collect();
    let square: f64 =
        (0..k * l).map(|place| first[place / l].1 * second[place % l].1 * effect[place / l][place % l].powi(2)).sum();
    let shown = |column: usize, points: &[(usize, f64)]| -> Vec<ColumnValue> {
        points.iter().map(|(point, _)| grids[column].shown[*point].clone()).collect()
    };
    let values = [shown(pair[0], &first), shown(pair[1], &second)];
    Interaction { columns: pair, share: if whole > 0.0 { square / whole } else { 0.0 }, values, effect }
}
