//! Columns that can hardly be told apart.

use faer::{Mat, MatRef};
use serde::Serialize;

use super::look::Look;
use super::{CLEAR, moments};
use crate::input_column::{InputColumn, InputKind};

/// Columns whose squared correlation is above this share their effect: a variance inflation of ten.
const COLLINEAR: f64 = 0.9;

/// Columns that share their effect.
#[derive(Debug, Clone, Serialize)]
pub struct Collinear {
    /// Which, by their numbers.
    pub columns: Vec<usize>,
    /// What the leave-one-out R² loses where none of them is known.
    pub loss: f64,
    /// Standard error of that.
    pub loss_error: f64,
    /// Whether at least one of them clearly matters.
    pub is_needed: bool,
}

/// Groups of numbers that can hardly be told apart, each linked to another by a squared correlation above [`COLLINEAR`].
pub(super) fn groups(look: &Look<'_>, columns: &[InputColumn], known: MatRef<'_, f64>) -> Vec<Collinear> {
    /// Sets of values, of other rows, that take the place of those of each row.
    const SETS: usize = 24;
    /// More columns are not compared with each other.
    const MOST_COLUMNS: usize = 1000;
    let numbers: Vec<usize> =
        (0..columns.len()).filter(|&c| !matches!(columns[c].kind, InputKind::Category { .. })).collect();
    if numbers.len() > MOST_COLUMNS || known.nrows() < 3 {
        return Vec::new();
    }
    let share = 1.0 / known.nrows() as f64;
    let standard = |&column: &usize| -> Vec<f64> {
        let values: Vec<f64> = known.col(columns[column].inputs[0]).iter().copied().collect();
        let (mean, variance) = moments(values.iter().map(|value| (*value, share)));
        let scale = if variance > 0.0 { (share / variance).sqrt() } else { 0.0 };
        values.iter().map(|value| (value - mean) * scale).collect()
    };
    let standard: Vec<Vec<f64>> = numbers.iter().map(standard).collect();
    let is_linked =
        |a: usize, b: usize| standard[a].iter().zip(&standard[b]).map(|(a, b)| a * b).sum::<f64>().powi(2) > COLLINEAR;
    // Each column has the label of the first one that it is linked to, perhaps by others.
    let mut label: Vec<usize> = (0..numbers.len()).collect();
    for b in 0..numbers.len() {
        for a in 0..b {
            if label[a] != label[b] && is_linked(a, b) {
                let (old, new) = (label[a].max(label[b]), label[a].min(label[b]));
                label.iter_mut().filter(|label| **label == old).for_each(|label| *label = new);
            }
        }
    }
    let groups = (0..numbers.len()).map(|first| -> Vec<usize> {
        (0..numbers.len()).filter(|&place| label[place] == first).map(|place| numbers[place]).collect()
    });
    let group = |members: Vec<usize>| {
        let inputs: Vec<usize> = members.iter().flat_map(|&column| columns[column].inputs.clone()).collect();
        let sets = SETS.min(known.nrows());
        let values = Mat::from_fn(sets, inputs.len(), |g, k| known[(known.nrows() - 1 - g, inputs[k])]);
        let values = look.left_out(&look.exchanged(&inputs, values.as_ref()), sets);
        let loss = look.loss(values.as_ref(), &vec![1.0 / sets as f64; sets]);
        let is_needed = loss.value > CLEAR * loss.by_chance;
        Collinear { columns: members, loss: loss.value, loss_error: loss.error, is_needed }
    };
    groups.filter(|members| members.len() > 1).map(group).collect()
}
