//! The values of a column at which its effect is looked at.

use faer::{Mat, MatRef};
use serde::Serialize;

use crate::input_column::{InputColumn, InputKind};

/// A value of a column.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ColumnValue {
    /// A number.
    Number(f64),
    /// A level of a category.
    Level(String),
    /// Missing.
    Missing,
}

/// Values of a column, each with the share of the rows that it stands for.
#[derive(Debug, Clone)]
pub(crate) struct Grid {
    pub shown: Vec<ColumnValue>,
    /// Shares of rows, which add up to 1.
    pub weight: Vec<f64>,
    /// Values of the column's inputs, in the user's units, one set per row.
    pub values: Mat<f64>,
    /// The points of a number, in order: so many of the first are such.
    pub numbers: usize,
}

/// Which values stand for a row, and how far.
pub(crate) type Place = Vec<(usize, f64)>;

impl Grid {
    /// At most `points` values of a number, all of a category; `rows` holds the inputs of training rows, `weight` how often they count.
    pub fn new(column: &InputColumn, rows: MatRef<'_, f64>, weight: &[f64], points: usize) -> Self {
        let first = column.inputs[0];
        let (shown, values): (Vec<ColumnValue>, Vec<Vec<f64>>) = match &column.kind {
            InputKind::Number => {
                let numbers = points_of(rows.col(first).iter().copied().collect(), points);
                numbers.into_iter().map(|x| (ColumnValue::Number(x), vec![x])).unzip()
            }
            InputKind::NumberOrMissing { filled } => {
                let is_missing = |row: &usize| rows[(*row, column.inputs[1])] == 1.0;
                let known = (0..rows.nrows()).filter(|row| !is_missing(row)).map(|row| rows[(row, first)]).collect();
                let numbers = points_of(known, points).into_iter().map(|x| (ColumnValue::Number(x), vec![x, 0.0]));
                numbers.chain([(ColumnValue::Missing, vec![*filled, 1.0])]).unzip()
            }
            InputKind::Category { levels } => {
                let unit = |level: usize| {
                    (0..column.inputs.len()).map(|k| f64::from(u8::from(k == level))).collect::<Vec<f64>>()
                };
                let level = |(k, level): (usize, &String)| (ColumnValue::Level(level.clone()), unit(k));
                levels.iter().enumerate().map(level).unzip()
            }
        };
        let numbers = shown.iter().filter(|value| matches!(value, ColumnValue::Number(_))).count();
        let values = Mat::from_fn(values.len(), column.inputs.len(), |g, k| values[g][k]);
        let mut grid = Self { weight: vec![0.0; shown.len()], shown, values, numbers };
        let total: f64 = weight.iter().sum();
        for (row, weight) in weight.iter().enumerate() {
            let own: Vec<f64> = column.inputs.iter().map(|&input| rows[(row, input)]).collect();
            let place = grid.place(column, &own);
            place.iter().for_each(|(point, share)| grid.weight[*point] += share * weight / total);
        }
        // A level that none of these rows has stands for none, and one that no row of the training table has is not there.
        let whole: f64 = grid.weight.iter().sum();
        if whole > 0.0 {
            grid.weight.iter_mut().for_each(|weight| *weight /= whole);
        } else {
            let even = 1.0 / grid.weight.len().max(1) as f64;
            grid.weight.fill(even);
        }
        grid
    }

    /// The points that stand for values of the column's inputs: the two beside a number, with linear weights, or one; none for a level
    /// that is not known.
    pub fn place(&self, column: &InputColumn, own: &[f64]) -> Place {
        match &column.kind {
            InputKind::Category { levels } => {
                let level = (0..levels.len()).find(|&level| own[level] == 1.0);
                level.map(|level| (level, 1.0)).into_iter().collect()
            }
            InputKind::NumberOrMissing { .. } if own[1] == 1.0 => vec![(self.numbers, 1.0)],
            _ => self.between(own[0]),
        }
    }

    fn between(&self, x: f64) -> Place {
        let points = self.values.col_as_slice(0);
        match self.numbers {
            0 => Vec::new(),
            1 => vec![(0, 1.0)],
            count => {
                let right = points[..count].partition_point(|point| *point < x).clamp(1, count - 1);
                let (low, high) = (points[right - 1], points[right]);
                let share = ((x - low) / (high - low)).clamp(0.0, 1.0);
                vec![(right - 1, 1.0 - share), (right, share)]
            }
        }
    }
}

/// Some values of a number: all if they are few, else half of them quantiles and half evenly over the range.
fn points_of(mut values: Vec<f64>, most: usize) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    let mut distinct = values.clone();
    distinct.dedup();
    if distinct.len() <= most {
        return distinct;
    }
    let (last, half) = (values.len() - 1, most / 2);
    let quantile = |k: usize| values[k * last / (most - half - 1)];
    // Evenly over all but the outermost rows: a single value far away does not use up the points.
    let [low, high] = [0.01, 0.99].map(|share| values[(share * last as f64).round() as usize]);
    let even = |k: usize| low + (high - low) * (k as f64 + 0.5) / half as f64;
    let mut points: Vec<f64> = (0..most - half).map(quantile).chain((0..half).map(even)).collect();
    points.sort_by(f64::total_cmp);
    points.dedup();
    points
}
