//! The range of training rows.

use faer::{Mat, MatRef};
use serde::{Deserialize, Serialize};

use crate::scaling::Standardizer;

/// The range of the training rows, in or near which standardized inputs are held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// Smallest value of each input.
    pub low: Vec<f64>,
    /// Largest.
    pub high: Vec<f64>,
    /// How far beyond inputs may be, in widths of the range.
    #[serde(default)]
    margin: f64,
}

/// How far out curves are relied upon.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reach {
    /// Standardized inputs are held within ± this.
    farthest: f64,
    margin: f64,
}

impl Reach {
    /// Farther out, functions that are made for the bulk of the rows would be anywhere.
    pub const BULK: Self = Self { farthest: 6.0, margin: 0.0 };
    /// A process knows what it does not know: where rows are few it follows them, and beyond the last one it goes on for as long as it has
    /// been seen, the width of the range. Values still farther out may be typing errors.
    pub const BEYOND: Self = Self { farthest: f64::INFINITY, margin: 1.0 };

    /// The same with rows far out held nearer.
    pub fn within_the_bulk(self) -> Self {
        Self { farthest: Self::BULK.farthest, ..self }
    }

    /// The same without going on beyond the last row.
    pub fn to_the_border(self) -> Self {
        Self { margin: 0.0, ..self }
    }
}

impl Range {
    /// The range of these rows. Levels of categories, the inputs that belong to one, have none: there is nothing between or beyond them.
    pub(crate) fn of(inputs: MatRef<'_, f64>, levels: &[Option<usize>], reach: Reach) -> Self {
        let mut range = Self { margin: reach.margin, ..Self::within(inputs, reach.farthest) };
        for (input, _) in levels.iter().enumerate().filter(|(_, category)| category.is_some()) {
            (range.low[input], range.high[input]) = (f64::MIN, f64::MAX);
        }
        range
    }

    /// The range of some inputs.
    pub(crate) fn some(&self, inputs: &[usize]) -> Self {
        let of = |values: &[f64]| inputs.iter().map(|&input| values[input]).collect();
        Self { low: of(&self.low), high: of(&self.high), margin: self.margin }
    }

    /// Whether inputs are held at the border.
    pub(crate) fn ends_at_the_border(&self) -> bool {
        self.margin == 0.0
    }

    /// Whether an input has no range, as a level of a category.
    fn is_level(&self, input: usize) -> bool {
        self.low[input] == f64::MIN
    }

    /// The group of each input's slope that has one prior variance: numbers, then levels of categories, without gaps.
    pub(crate) fn line_groups(&self) -> Vec<usize> {
        let inputs = 0..self.low.len();
        let has_numbers = inputs.clone().any(|input| !self.is_level(input));
        inputs.map(|input| usize::from(has_numbers && self.is_level(input))).collect()
    }

    /// An input that is a number, if there is one.
    pub(crate) fn number(&self) -> Option<usize> {
        (0..self.low.len()).find(|&input| !self.is_level(input))
    }

    /// The whole range of these rows.
    pub fn whole(inputs: MatRef<'_, f64>) -> Self {
        Self::within(inputs, f64::INFINITY)
    }

    /// The whole range of rows whose least and largest values are these, when standardized.
    pub(crate) fn of_ends(ends: impl Iterator<Item = (f64, f64)>, scaling: &Standardizer) -> Self {
        let standard = |(j, (low, high)): (usize, (f64, f64))| {
            let scaled = |value: f64| (value - scaling.mean[j]) / scaling.scale[j];
            (scaled(low), scaled(high))
        };
        let (low, high) = ends.enumerate().map(standard).unzip();
        Self { low, high, margin: 0.0 }
    }

    fn within(inputs: MatRef<'_, f64>, farthest: f64) -> Self {
        let end = |pick: fn(f64, f64) -> f64, start: f64| -> Vec<f64> {
            let limited = |value: &f64| value.clamp(-farthest, farthest);
            inputs.col_iter().map(|column| column.iter().map(limited).fold(start, pick)).collect()
        };
        Self { low: end(f64::min, farthest), high: end(f64::max, -farthest), margin: 0.0 }
    }

    /// Rows with every input inside, or as near as may be.
    pub fn hold(&self, inputs: MatRef<'_, f64>) -> Mat<f64> {
        let margin = |j: usize| if self.is_level(j) { 0.0 } else { self.margin * (self.high[j] - self.low[j]) };
        let margins: Vec<f64> = (0..inputs.ncols()).map(margin).collect();
        let held = |i, j| f64::min(f64::max(inputs[(i, j)], self.low[j] - margins[j]), self.high[j] + margins[j]);
        Mat::from_fn(inputs.nrows(), inputs.ncols(), held)
    }

    /// The inputs with rows outside, and how many rows.
    pub(crate) fn beyond(&self, inputs: MatRef<'_, f64>) -> Vec<(usize, usize)> {
        let is_outside = |j: usize, value: f64| value < self.low[j] || value > self.high[j];
        let count = |j: usize| inputs.col(j).iter().filter(|value| is_outside(j, **value)).count();
        (0..inputs.ncols()).map(|j| (j, count(j))).filter(|(_, count)| *count > 0).collect()
    }

    pub(crate) fn is_consistent(&self, inputs: usize) -> bool {
        self.low.len() == inputs && self.high.len() == inputs
    }
}
