//! Training rows that a model keeps, over which effects are averaged.

use faer::{Mat, MatRef};
use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;
use robustard_engine::math::order::median;
use serde::{Deserialize, Serialize};

use crate::dataset::Dataset;
use crate::input_column::{InputColumn, InputKind};
use crate::scaling::MEDIAN_TO_DEVIATION;

/// Most rows kept, and most numbers; but at least so many rows.
const MOST_ROWS: usize = 1000;
const MOST_NUMBERS: usize = 100_000;
const LEAST_ROWS: usize = 100;

/// An even sample of the training rows that were not set aside, and the columns of their table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Background {
    pub columns: Vec<InputColumn>,
    /// Which training rows, in random order.
    pub rows: Vec<usize>,
    /// Their inputs, row after row, in the user's units.
    inputs: Vec<f64>,
}

impl Background {
    pub fn of(dataset: &Dataset<'_>, set_aside: &[usize], seed: u64) -> Self {
        let (n, p) = (dataset.row_count(), dataset.input_count());
        let most = (MOST_NUMBERS / p.max(1)).clamp(LEAST_ROWS, MOST_ROWS);
        // Some more are drawn, in place of those set aside.
        let drawn = n.min(most + set_aside.len());
        let mut is_aside = vec![false; n];
        set_aside.iter().for_each(|&row| is_aside[row] = true);
        let drawn = sample(&mut ChaCha8Rng::seed_from_u64(seed), n, drawn).into_vec();
        let rows: Vec<usize> = drawn.into_iter().filter(|&row| !is_aside[row]).take(most).collect();
        let columns: Vec<_> = dataset.columns().collect();
        let inputs = rows.iter().flat_map(|&row| columns.iter().map(move |column| column[row])).collect();
        Self { columns: dataset.input_columns().to_vec(), rows, inputs }
    }

    /// The first rows.
    pub fn inputs(&self, rows: usize) -> Mat<f64> {
        let p = self.inputs.len() / self.rows.len().max(1);
        MatRef::from_row_major_slice(&self.inputs[..rows * p], rows, p).to_owned()
    }

    /// How unusual each column's value is in each row, as the standard deviations beyond which two normal tails hold as
    /// many rows as are as far out, or have a level as rare; beyond all rows, the distance from the median in robust standard deviations.
    pub fn unusual(&self, rows: MatRef<'_, f64>) -> Vec<Vec<f64>> {
        let known = self.inputs(self.rows.len());
        let mut unusual = vec![Vec::with_capacity(self.columns.len()); rows.nrows()];
        for column in &self.columns {
            let usual = Usual::of(known.col_as_slice(column.inputs[0]));
            for (row, unusual) in unusual.iter_mut().enumerate() {
                let is_alike = |k: usize| column.inputs.iter().all(|&input| known[(k, input)] == rows[(row, input)]);
                let is_missing = |at: MatRef<'_, f64>, row: usize| at[(row, column.inputs[1])] == 1.0;
                let count = |holds: &dyn Fn(usize) -> bool| (0..known.nrows()).filter(|&k| holds(k)).count();
                unusual.push(match &column.kind {
                    InputKind::Category { .. } => rarity(count(&is_alike), known.nrows()),
                    InputKind::NumberOrMissing { .. } if is_missing(rows, row) => {
                        rarity(count(&|k| is_missing(known.as_ref(), k)), known.nrows())
                    }
                    _ => {
                        let value = rows[(row, column.inputs[0])];
                        let is_as_far = |k: usize| usual.is_as_far(known[(k, column.inputs[0])], value);
                        // Long tails and groups far from the others have many rows, which are not unusual; nothing is known beyond them.
                        match count(&is_as_far) {
                            0 => usual.distance(value),
                            tail => usual.distance(value).min(rarity(2 * tail, known.nrows())),
                        }
                    }
                });
            }
        }
        unusual
    }

    /// Whether all parts fit together, as they do unless they come from a damaged file.
    pub fn is_consistent(&self, inputs: usize, rows: usize) -> bool {
        self.inputs.len() == self.rows.len() * inputs
            && self.rows.iter().all(|&row| row < rows)
            && self.columns.iter().all(|column| column.is_consistent(inputs))
    }
}

/// A share of rows, as the standard deviations beyond which two normal tails hold about as many.
fn rarity(rows: usize, of: usize) -> f64 {
    let share = (rows as f64 + 0.5) / (of as f64 + 1.0);
    (-2.0 * share.min(1.0).ln()).sqrt()
}

/// Where most values of a number are.
struct Usual {
    median: f64,
    /// Half width of the middle half of the values, scaled as for a normal density.
    scale: f64,
}

impl Usual {
    fn of(values: &[f64]) -> Self {
        let middle = median(values);
        let off: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
        let mut scale = MEDIAN_TO_DEVIATION * median(&off);
        if scale == 0.0 {
            // More than half of the rows have one value.
            scale = (off.iter().map(|off| off * off).sum::<f64>() / off.len().max(1) as f64).sqrt();
        }
        Self { median: middle, scale }
    }

    /// Whether a value is on the same side of the median as another, and as far.
    fn is_as_far(&self, value: f64, other: f64) -> bool {
        if other < self.median { value <= other } else { value >= other }
    }

    fn distance(&self, value: f64) -> f64 {
        match (value - self.median).abs() {
            0.0 => 0.0,
            far if self.scale > 0.0 => far / self.scale,
            _ => f64::MAX,
        }
    }
}
