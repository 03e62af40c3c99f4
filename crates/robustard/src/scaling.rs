//! Shift and scale of columns.

use faer::{ColRef, Mat, MatRef};
use robustard_engine::math::order::{median, spread};
use serde::{Deserialize, Serialize};

use crate::dataset::{Dataset, DatasetError};

/// Of a standard normal variable, over the median of its absolute value.
pub(crate) const MEDIAN_TO_DEVIATION: f64 = 1.482_602_218_505_602;

/// Largest share of a column that can be typing errors; more are something else.
pub(crate) const MOST_TYPING_ERRORS: f64 = 0.01;

/// The centre of a column and the distance from it beyond which values can only be typing errors; none if that cannot be told.
pub(crate) fn typing_limit(column: ColRef<'_, f64>) -> Option<(f64, f64)> {
    /// Robust standard deviations from the median beyond which a value is one; no column that means something has values there.
    const FAR: f64 = 1000.0;
    /// The engine has to compute with what they become.
    const LARGEST: f64 = 1e50;
    /// Rows that the bulk of a column is known from.
    const ROWS: usize = 10_000;
    let some: Vec<f64> = spread(column.nrows(), ROWS).map(|row| column[row]).collect();
    let centre = median(&some);
    let off: Vec<f64> = some.iter().map(|value| (value - centre).abs()).collect();
    let limit = FAR * MEDIAN_TO_DEVIATION * median(&off);
    (limit > 0.0 && !column.iter().any(|value| value.abs() > LARGEST * limit)).then_some((centre, limit))
}

/// The rows of a column that can only be typing errors, if they are few.
pub(crate) fn typing_errors(column: ColRef<'_, f64>) -> Vec<usize> {
    let Some((centre, limit)) = typing_limit(column) else { return Vec::new() };
    let is_far = |row: &usize| (column[*row] - centre).abs() > limit;
    let far: Vec<usize> = (0..column.nrows()).filter(is_far).collect();
    if far.len() as f64 > MOST_TYPING_ERRORS * column.nrows() as f64 { Vec::new() } else { far }
}

/// The rows of a target that can only be typing errors: in small tables also one alone, if it is much farther off.
pub(crate) fn typing_errors_of_target(target: ColRef<'_, f64>) -> Vec<usize> {
    /// Rows that the rest is known from.
    const LEAST_ROWS: usize = 10;
    /// How much farther: targets of few rows may well spread over some powers of ten.
    const FARTHER: f64 = 1000.0;
    let (rows, errors) = (target.nrows(), typing_errors(target));
    if !errors.is_empty() || rows < LEAST_ROWS || MOST_TYPING_ERRORS * rows as f64 >= 1.0 {
        return errors;
    }
    let Some((centre, limit)) = typing_limit(target) else { return Vec::new() };
    let far: Vec<usize> = (0..rows).filter(|&row| (target[row] - centre).abs() > FARTHER * limit).collect();
    if far.len() == 1 { far } else { Vec::new() }
}

/// Mean and standard deviation of a column without its typing errors; none if there are no such values.
fn without_typing_errors(column: ColRef<'_, f64>) -> Option<(f64, f64)> {
    let far = typing_errors(column);
    if far.is_empty() {
        return None;
    }
    let mut is_far = far.iter().copied().peekable();
    let right: Vec<f64> =
        (0..column.nrows()).filter(|row| is_far.next_if_eq(row).is_none()).map(|row| column[row]).collect();
    let own = Standardizer::fit(MatRef::from_column_major_slice(&right, right.len(), 1));
    Some((own.mean[0], own.scale[0]))
}

/// Shifts and scales every column to mean 0 and standard deviation 1. Constant columns become 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standardizer {
    /// Mean of each column.
    pub mean: Vec<f64>,
    /// Standard deviation of each column (divided by n); 1 where the column is constant.
    pub scale: Vec<f64>,
}

impl Standardizer {
    /// Learns the means and standard deviations of the columns of an n × d matrix. Values up to the largest `f64` are fine.
    pub fn fit(inputs: MatRef<'_, f64>) -> Self {
        Self::weighted(inputs, &vec![1.0; inputs.nrows()])
    }

    /// The same with rows that count as often as their weights say.
    pub fn weighted(inputs: MatRef<'_, f64>, weight: &[f64]) -> Self {
        let total = weight.iter().sum::<f64>();
        let total = if total > 0.0 { total } else { 1.0 };
        let (mut units, mut centres, mut variances) = (Vec::new(), Vec::new(), Vec::new());
        for column in inputs.col_iter() {
            // In units of the largest value, so that neither sum nor square overflows.
            let unit = column.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            let unit = if unit > 0.0 { unit } else { 1.0 };
            let weighted = || column.iter().zip(weight);
            let centre = weighted().map(|(v, w)| w * (v / unit)).sum::<f64>() / total;
            variances.push(weighted().map(|(v, w)| w * (v / unit - centre).powi(2)).sum::<f64>() / total);
            units.push(unit);
            centres.push(centre);
        }
        Self::from_moments(&units, &centres, &variances)
    }

    /// The same of a data set, whose inputs are checked on the way: they must be finite. And the inputs with values far out.
    pub(crate) fn of(dataset: &Dataset<'_>) -> Result<(Self, Vec<usize>), DatasetError> {
        let p = dataset.input_count();
        let mut unit = vec![0.0f64; p];
        // What is not finite leaves no zero behind.
        let mut trouble = vec![0.0f64; p];
        dataset.blocks(|_, block| {
            for row in rows_of(block) {
                for ((unit, trouble), value) in unit.iter_mut().zip(&mut trouble).zip(row) {
                    *unit = unit.max(value.abs());
                    *trouble += 0.0 * value;
                }
            }
        });
        if trouble.iter().any(|trouble| *trouble != 0.0)
            && let Some(error) = dataset.not_finite()
        {
            return Err(error);
        }
        unit.iter_mut().for_each(|unit| *unit = if *unit > 0.0 { *unit } else { 1.0 });
        let total = dataset.weights().map_or(dataset.row_count() as f64, |weights| weights.iter().sum());
        let weight_of = |row: usize| dataset.weights().map_or(1.0, |weights| weights[row]);
        let mut centre = vec![0.0f64; p];
        dataset.blocks(|start, block| {
            for (i, row) in rows_of(block).enumerate() {
                let weight = weight_of(start + i);
                for ((sum, value), unit) in centre.iter_mut().zip(row).zip(&unit) {
                    *sum += weight * (value / unit);
                }
            }
        });
        centre.iter_mut().for_each(|centre| *centre /= total);
        let (mut variance, mut largest) = (vec![0.0f64; p], vec![0.0f64; p]);
        dataset.blocks(|start, block| {
            for (i, row) in rows_of(block).enumerate() {
                let weight = weight_of(start + i);
                let sums = variance.iter_mut().zip(&mut largest);
                for ((((sum, largest), value), unit), centre) in sums.zip(row).zip(&unit).zip(&centre) {
                    let off = value / unit - centre;
                    *sum += weight * (off * off);
                    *largest = largest.max(off * off);
                }
            }
        });
        variance.iter_mut().for_each(|variance| *variance /= total);
        let standard = Self::from_moments(&unit, &centre, &variance);
        // So far out are one value in a hundred that is all of the variance, and fewer.
        let is_far = |input: &usize| largest[*input] > variance[*input] / (2.0 * MOST_TYPING_ERRORS);
        Ok((standard, (0..p).filter(is_far).collect()))
    }

    /// From the means and variances of columns divided by their units.
    fn from_moments(unit: &[f64], centre: &[f64], variance: &[f64]) -> Self {
        let scale = variance.iter().zip(unit).map(|(variance, unit)| {
            let deviation = variance.sqrt();
            // Rounding leaves a constant column a deviation of about 1e-16 of its value.
            if deviation > 1e-14 { deviation * unit } else { 1.0 }
        });
        Self { mean: centre.iter().zip(unit).map(|(centre, unit)| centre * unit).collect(), scale: scale.collect() }
    }

    /// Columns with a few values that can only be typing errors are scaled without them, because these would squeeze all others
    /// together. Says whether there are any.
    pub(crate) fn without_typing_errors(mut self, dataset: &Dataset<'_>, far: &[usize]) -> (Self, bool) {
        let mut has_any = false;
        for &j in far {
            if let Some((mean, scale)) = without_typing_errors(dataset.column(j)) {
                (self.mean[j], self.scale[j]) = (mean, scale);
                has_any = true;
            }
        }
        (self, has_any)
    }

    /// The levels of a category have one unit together, in which they have a variance of 1 in all: with units of their own, rare levels
    /// would hardly be shrunk. Says whether there are any.
    pub(crate) fn with_levels_alike(mut self, levels: &[Option<usize>]) -> (Self, bool) {
        let mut variance = vec![0.0; levels.iter().flatten().max().map_or(0, |last| last + 1)];
        for (category, share) in levels.iter().zip(&self.mean) {
            category.iter().for_each(|&category| variance[category] += share * (1.0 - share));
        }
        for (category, scale) in levels.iter().zip(&mut self.scale) {
            if let Some(variance) = category.map(|category| variance[category]).filter(|variance| *variance > 0.0) {
                *scale = variance.sqrt();
            }
        }
        (self, levels.iter().any(Option::is_some))
    }

    /// The same without a shift.
    #[must_use]
    pub fn without_shift(self) -> Self {
        Self { mean: vec![0.0; self.mean.len()], ..self }
    }

    /// Scales the range of each column to −1…1 instead, which keeps its powers of one size.
    pub(crate) fn of_range(dataset: &Dataset<'_>) -> Self {
        let (mut mean, mut scale) = (Vec::new(), Vec::new());
        for column in dataset.columns() {
            let low = column.iter().copied().fold(f64::INFINITY, f64::min);
            let high = column.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            // Halves first: the sum of two finite numbers may not be finite.
            let half = 0.5 * high - 0.5 * low;
            mean.push(if low.is_finite() { 0.5 * low + 0.5 * high } else { 0.0 });
            scale.push(if half > 0.0 && half.is_finite() { half } else { 1.0 });
        }
        Self { mean, scale }
    }

    /// Leaves everything as it is.
    pub fn identity(columns: usize) -> Self {
        Self { mean: vec![0.0; columns], scale: vec![1.0; columns] }
    }

    /// Number of columns.
    pub fn column_count(&self) -> usize {
        self.mean.len()
    }

    /// The standardized columns of an m × p matrix; there must be as many columns as the scaling has.
    pub fn transform(&self, inputs: MatRef<'_, f64>) -> Mat<f64> {
        let mut standard = Mat::zeros(inputs.nrows(), inputs.ncols());
        for (j, column) in inputs.col_iter().enumerate() {
            let (mean, scale) = (self.mean[j], self.scale[j]);
            let target = standard.col_as_slice_mut(j);
            target.iter_mut().zip(column.iter()).for_each(|(standard, value)| *standard = (value - mean) / scale);
        }
        standard
    }

    /// One row, standardized.
    pub(crate) fn write_row(&self, row: &[f64], standard: &mut [f64]) {
        for (((standard, value), mean), scale) in standard.iter_mut().zip(row).zip(&self.mean).zip(&self.scale) {
            *standard = (value - mean) / scale;
        }
    }
}

/// The rows of a block whose rows are contiguous.
pub(crate) fn rows_of(block: MatRef<'_, f64>) -> impl Iterator<Item = &[f64]> {
    block.row_iter().map(|row| row.try_as_row_major().expect("rows of a block are contiguous").as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_any_scale_become_standard() {
        let x = Mat::from_fn(50, 4, |i, j| match j {
            0 => i as f64,
            1 => 1e150 * (i as f64 - 3.0),
            2 => 1e-200 * (i as f64).sin(),
            _ => 7.1,
        });
        let z = Standardizer::fit(x.as_ref()).transform(x.as_ref());
        for j in 0..4 {
            let mean = z.col(j).iter().sum::<f64>() / 50.0;
            let variance = z.col(j).iter().map(|v| v * v).sum::<f64>() / 50.0;
            assert!(mean.abs() < 1e-12, "column {j}: {mean}");
            assert!((variance - if j == 3 { 0.0 } else { 1.0 }).abs() < 1e-12, "column {j}: {variance}");
        }
        // The same by rows of a data set.
        let dataset = Dataset::new(x.as_ref(), vec![0.0; 50]).unwrap();
        assert_eq!(Standardizer::of(&dataset).unwrap().0, Standardizer::fit(x.as_ref()));
        // A row that counts twice is two rows.
        let (once, weight) = (Mat::from_fn(3, 1, |i, _| i as f64), [1.0, 2.0, 1.0]);
        let copied = Mat::from_fn(4, 1, |i, _| [0.0, 1.0, 1.0, 2.0][i]);
        assert_eq!(Standardizer::weighted(once.as_ref(), &weight), Standardizer::fit(copied.as_ref()));
        let z = Standardizer::of_range(&dataset).transform(x.as_ref());
        for (i, j, place) in [(0, 0, -1.0), (49, 0, 1.0), (0, 1, -1.0), (49, 1, 1.0), (0, 3, 0.0)] {
            assert!((z[(i, j)] - place).abs() < 1e-12, "{i} {j}: {}", z[(i, j)]);
        }
    }
}
