//! The data's own units for variances and precisions.

use faer::MatRef;

use super::Groups;

/// The units in which relative settings are given: what 1.0 means for a noise variance and a weight precision.
#[derive(Debug, Clone, PartialEq)]
pub struct NaturalUnits {
    /// Mean square of the target.
    pub noise_variance: f64,
    /// Mean square of a group's columns divided by that of the target, one per group.
    pub weight_precision: Vec<f64>,
}

/// Weighted sums over the rows that give mean squares and variances of several columns.
#[derive(Debug, Clone)]
struct MeanSquares {
    /// The first row, about which the others are summed: large means then cost no digits.
    origin: Vec<f64>,
    shift: Vec<f64>,
    shift_square: Vec<f64>,
    square: Vec<f64>,
}

impl MeanSquares {
    fn about(origin: Vec<f64>) -> Self {
        let zeros = vec![0.0; origin.len()];
        Self { origin, shift: zeros.clone(), shift_square: zeros.clone(), square: zeros }
    }

    fn add(&mut self, row: &[f64], share: f64) {
        let Self { origin, shift, shift_square, square } = self;
        let sums = shift.iter_mut().zip(shift_square).zip(square);
        for (((sum, sum_square), square), (value, origin)) in sums.zip(row.iter().zip(origin)) {
            let shift = value - *origin;
            *sum += share * shift;
            *sum_square += share * shift * shift;
            *square += share * value * value;
        }
    }

    fn is_constant(&self, column: usize) -> bool {
        self.shift_square[column] == 0.0 && self.square[column] > 0.0
    }

    fn about_zero(&self, column: usize) -> f64 {
        positive_or_one(self.square[column])
    }

    /// The variance; of a constant, the mean square.
    fn about_mean(&self, column: usize) -> f64 {
        let variance = self.shift_square[column] - self.shift[column] * self.shift[column];
        if variance > 0.0 { positive_or_one(variance) } else { self.about_zero(column) }
    }
}

fn positive_or_one(value: f64) -> f64 {
    if value > 0.0 && value.is_finite() { value } else { 1.0 }
}

/// Sizes of the columns and of the target. They depend on the row weights, not on the groups.
#[derive(Debug, Clone)]
pub(super) struct Sizes {
    columns: MeanSquares,
    target: MeanSquares,
}

impl Sizes {
    /// Of a d × n matrix whose columns are the rows of the table.
    pub(super) fn new(rows: MatRef<'_, f64>, target: &[f64], row_weight: &[f64], weight_sum: f64) -> Self {
        let row = |i: usize| rows.col(i).try_as_col_major().expect("rows are contiguous").as_slice();
        let mut sizes =
            Self { columns: MeanSquares::about(row(0).to_vec()), target: MeanSquares::about(vec![target[0]]) };
        for (i, (y, weight)) in target.iter().zip(row_weight).enumerate() {
            let share = weight / weight_sum;
            sizes.target.add(&[*y], share);
            sizes.columns.add(row(i), share);
        }
        sizes
    }

    /// Of columns with mean 0 and variance 1, after so many that are 1, and of such a target.
    pub(super) fn standard(columns: usize, ones: usize) -> Self {
        let standard = |count: usize, ones: usize| MeanSquares {
            origin: vec![0.0; count],
            shift: vec![0.0; count],
            shift_square: (0..count).map(|j| if j < ones { 0.0 } else { 1.0 }).collect(),
            square: vec![1.0; count],
        };
        Self { columns: standard(columns, ones), target: standard(1, 0) }
    }

    /// The units for these groups. With an intercept (a constant column of fixed precision) they are taken about the means, as
    /// the intercept takes those up.
    pub(super) fn units(&self, groups: &Groups) -> NaturalUnits {
        let is_fixed = |column: usize| groups.fixed(groups.of_column()[column]).is_some();
        let has_intercept = (0..groups.of_column().len()).any(|j| is_fixed(j) && self.columns.is_constant(j));
        let unit = |sums: &MeanSquares, j: usize| if has_intercept { sums.about_mean(j) } else { sums.about_zero(j) };
        let target = unit(&self.target, 0);
        let mut weight_precision = vec![0.0; groups.count()];
        groups.sum_into(&mut weight_precision, |column| unit(&self.columns, column));
        for (unit, &size) in weight_precision.iter_mut().zip(groups.size()) {
            *unit = positive_or_one(*unit / size as f64 / target);
        }
        NaturalUnits { noise_variance: target, weight_precision }
    }
}
