//! Columns that can hardly be told apart.

use faer::{Mat, MatRef};
use serde::Serialize;

use super::look::{Look, Loss};
use super::{ColumnEffect, Standing, moments};
use crate::input_column::{InputColumn, InputKind};

/// Columns of whose variance a few others explain more than this share their effect with them: a variance inflation of ten.
const COLLINEAR: f64 = 0.9;
/// Most others that explain a column.
const MOST_PARTNERS: usize = 4;
/// Rows for each of several others: of fewer, chance explains much.
const ROWS_PER_PARTNER: usize = 10;
/// Share of a column's variance that others leave, below which it adds nothing to them but rounding.
const NOTHING_LEFT: f64 = 1e-9;

/// Columns that share their effect.
#[derive(Debug, Clone, Serialize)]
pub struct Collinear {
    /// Which, by their numbers.
    pub columns: Vec<usize>,
    /// What the leave-one-out R² loses where none of them is known; never less than without one of them.
    pub loss: f64,
    /// Standard error of that.
    pub loss_error: f64,
    /// What the loss of columns that do nothing stays below.
    pub loss_by_chance: f64,
    /// Whether at least one of them clearly matters.
    pub is_needed: bool,
}

/// Groups of numbers that can hardly be told apart: each is explained by a few others of its group, or explains one of them.
pub(super) fn groups(
    look: &Look<'_>,
    columns: &[InputColumn],
    effects: &[ColumnEffect],
    known: MatRef<'_, f64>,
) -> Vec<Collinear> {
    /// Sets of values, of other rows, that take the place of those of each row.
    const SETS: usize = 24;
    /// More columns are not compared with each other.
    const MOST_COLUMNS: usize = 1000;
    let numbers: Vec<usize> =
        (0..columns.len()).filter(|&c| !matches!(columns[c].kind, InputKind::Category { .. })).collect();
    if numbers.len() > MOST_COLUMNS || known.nrows() < 3 {
        return Vec::new();
    }
    let values = |&column: &usize| known.col(columns[column].inputs[0]).iter().copied().collect();
    let correlations = correlations(&numbers.iter().map(values).collect::<Vec<Vec<f64>>>());
    let most = (known.nrows() / ROWS_PER_PARTNER).clamp(1, MOST_PARTNERS);
    // Each column has the label of the first one that it is linked to, perhaps by others.
    let mut label: Vec<usize> = (0..numbers.len()).collect();
    for column in 0..numbers.len() {
        for partner in partners(correlations.as_ref(), column, most) {
            let (old, new) = (label[column].max(label[partner]), label[column].min(label[partner]));
            label.iter_mut().filter(|label| **label == old).for_each(|label| *label = new);
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
        let together = look.loss(values.as_ref(), &vec![1.0 / sets as f64; sets]);
        // Who does not know the group does not know its members either.
        let of_member = |&column: &usize| {
            let ColumnEffect { loss, loss_error, loss_by_chance, .. } = effects[column];
            Loss { value: loss, error: loss_error, by_chance: loss_by_chance }
        };
        let loss = members.iter().map(of_member).fold(together, |a, b| if b.value > a.value { b } else { a });
        let is_clear = |&column: &usize| effects[column].standing == Standing::Clear;
        let is_needed = loss.value > loss.by_chance || members.iter().any(is_clear);
        let Loss { value, error, by_chance } = loss;
        Collinear { columns: members, loss: value, loss_error: error, loss_by_chance: by_chance, is_needed }
    };
    groups.filter(|members| members.len() > 1).map(group).collect()
}

/// Correlations of columns; 0 of those that have one value only.
fn correlations(columns: &[Vec<f64>]) -> Mat<f64> {
    let rows = columns.first().map_or(0, Vec::len);
    let share = 1.0 / rows as f64;
    let mut standard = Mat::zeros(rows, columns.len());
    for (j, column) in columns.iter().enumerate() {
        let (mean, variance) = moments(column.iter().map(|value| (*value, share)));
        let scale = if variance > 0.0 { (share / variance).sqrt() } else { 0.0 };
        let scale = if scale.is_finite() { scale } else { 0.0 };
        standard.col_as_slice_mut(j).iter_mut().zip(column.iter()).for_each(|(to, from)| *to = (from - mean) * scale);
    }
    standard.transpose() * &standard
}

/// The fewest columns found, at most so many, that explain more than [`COLLINEAR`] of a column; none if they do not. The one that explains
/// most is taken first, then what explains most of the rest, and who is not needed is let go.
fn partners(correlations: MatRef<'_, f64>, column: usize, most: usize) -> Vec<usize> {
    let mut explained = Explained::new(correlations, column);
    while explained.share() <= COLLINEAR {
        let best = if explained.by.len() < most { explained.best() } else { None };
        let Some(best) = best else { return Vec::new() };
        explained.add(best);
    }
    let mut partners = explained.by;
    let mut place = 0;
    while partners.len() > 1 && place < partners.len() {
        let mut without = Explained::new(correlations, column);
        partners.iter().filter(|&&partner| partner != partners[place]).for_each(|&partner| without.add(partner));
        if without.share() > COLLINEAR {
            partners = without.by;
            place = 0;
        } else {
            place += 1;
        }
    }
    partners
}

/// What some columns explain of one, by a Cholesky factor of their correlations that grows by a column at a time.
struct Explained<'c> {
    correlations: MatRef<'c, f64>,
    column: usize,
    by: Vec<usize>,
    /// For each of those, its correlation with every column after the ones before.
    factor: Vec<Vec<f64>>,
}

impl<'c> Explained<'c> {
    fn new(correlations: MatRef<'c, f64>, column: usize) -> Self {
        Self { correlations, column, by: Vec::new(), factor: Vec::new() }
    }

    fn share(&self) -> f64 {
        self.factor.iter().map(|of| of[self.column].powi(2)).sum()
    }

    /// What is left of the covariance of two columns.
    fn left(&self, a: usize, b: usize) -> f64 {
        self.correlations[(a, b)] - self.factor.iter().map(|of| of[a] * of[b]).sum::<f64>()
    }

    /// The column that explains most of the rest.
    fn best(&self) -> Option<usize> {
        let gain = |other: usize| {
            let left = self.left(other, other);
            if left > NOTHING_LEFT { self.left(self.column, other).powi(2) / left } else { 0.0 }
        };
        let others = (0..self.correlations.nrows()).filter(|&other| other != self.column);
        let gains = others.map(|other| (other, gain(other))).filter(|(_, gain)| *gain > 0.0);
        gains.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(other, _)| other)
    }

    fn add(&mut self, other: usize) {
        let left = self.left(other, other);
        let scale = if left > NOTHING_LEFT { 1.0 / left.sqrt() } else { 0.0 };
        self.factor.push((0..self.correlations.nrows()).map(|any| scale * self.left(other, any)).collect());
        self.by.push(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three columns of which two explain the third, a pair, and one on its own.
    #[test]
    fn columns_are_explained_by_the_fewest_others() {
        let wave = |k: f64| (0..200).map(|i| (k * i as f64 * 0.37).sin()).collect::<Vec<f64>>();
        let (a, b, own, twin) = (wave(1.0), wave(1.7), wave(2.3), wave(3.1));
        let sum: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        let scaled: Vec<f64> = twin.iter().map(|twin| 3.0 - 2.0 * twin).collect();
        let correlations = correlations(&[a, b, sum, own, twin, scaled, vec![1.0; 200]]);
        let found: Vec<Vec<usize>> = (0..7)
            .map(|column| {
                let mut partners = partners(correlations.as_ref(), column, MOST_PARTNERS);
                partners.sort_unstable();
                partners
            })
            .collect();
        assert_eq!(found, [vec![1, 2], vec![0, 2], vec![0, 1], vec![], vec![5], vec![4], vec![]]);
    }
}
