//! The covariance of rows with centres when some inputs of the rows are exchanged: what the other inputs contribute is worked out once.

use faer::MatRef;

use super::curve::Curve;
use super::exp::{OfSingles, Single, add_matern};

/// Rows and centres of a curve.
pub(crate) struct Exchange<'c> {
    curve: &'c Curve,
    /// Inputs of each row.
    rows: Vec<Vec<f64>>,
    /// Values of each input at all centres.
    centres: Vec<Vec<f64>>,
    /// For each row its parts with all centres.
    parts: Vec<Parts>,
}

/// What a covariance is made of, for all centres.
struct Parts {
    /// Distances in the joint part, as its shape takes them.
    apart: Vec<f64>,
    /// Σ mⱼ and Σ mⱼ²; empty without curves of single inputs.
    sums: Vec<f64>,
    square_sums: Vec<f64>,
}

/// Values that take the place of some inputs, with their own parts.
pub(crate) struct Values {
    inputs: Vec<usize>,
    parts: Vec<Parts>,
}

impl<'c> Exchange<'c> {
    /// Rows (n × p) and centres, both held in range.
    pub fn new(curve: &'c Curve, rows: MatRef<'_, f64>, centres: MatRef<'_, f64>) -> Self {
        let centres = centres.col_iter().map(|column| column.iter().copied().collect()).collect();
        let rows: Vec<Vec<f64>> = rows.row_iter().map(|row| row.iter().copied().collect()).collect();
        let mut exchange = Self { curve, rows, centres, parts: Vec::new() };
        let all: Vec<usize> = (0..exchange.centres.len()).collect();
        exchange.parts = exchange.rows.iter().map(|row| exchange.parts_of(&all, row)).collect();
        exchange
    }

    fn centre_count(&self) -> usize {
        self.centres.first().map_or(0, Vec::len)
    }

    /// The parts of some inputs at the given values.
    fn parts_of(&self, inputs: &[usize], values: &[f64]) -> Parts {
        let size = self.centre_count();
        let has_singles = !self.curve.singles.is_empty();
        let room = || if has_singles { vec![0.0; size] } else { Vec::new() };
        let mut parts = Parts { apart: vec![0.0; size], sums: room(), square_sums: room() };
        for (&input, value) in inputs.iter().zip(values) {
            let centres = &self.centres[input];
            self.curve.shape.add_apart(&mut parts.apart, centres, *value, self.curve.scales[input]);
            if let Some(place) = self.curve.singles.iter().position(|&single| single == input) {
                let scale = self.curve.single_scales[place];
                let (all, one) = (Single::of_few_pairs(centres, scale), [*value]);
                let seen = all.seen_from(0, &Single::of_few_pairs(&one, scale), 0);
                add_matern(&mut parts.sums, &mut parts.square_sums, seen);
            }
        }
        parts
    }

    /// Values of some inputs, one set of them per row of a matrix.
    pub fn values(&self, inputs: &[usize], values: MatRef<'_, f64>) -> Values {
        let parts = values.row_iter().map(|row| self.parts_of(inputs, &row.iter().copied().collect::<Vec<_>>()));
        Values { inputs: inputs.to_vec(), parts: parts.collect() }
    }

    /// Shows κ of a row with all centres, once for each of the values in place of its own.
    pub fn show(&self, row: usize, values: &Values, mut show: impl FnMut(usize, &[f64])) {
        /// Where less than this is left of a squared distance, it is worked out anew: differences of large numbers are not exact.
        const LITTLE: f64 = 1e-6;
        let (whole, x, size) = (&self.parts[row], &self.rows[row], self.centre_count());
        let own: Vec<f64> = values.inputs.iter().map(|&input| x[input]).collect();
        let own = self.parts_of(&values.inputs, &own);
        let anew = |centre: usize| -> f64 {
            let others = (0..x.len()).filter(|input| !values.inputs.contains(input));
            others.map(|k| self.curve.shape.apart(self.curve.scales[k] * (x[k] - self.centres[k][centre]))).sum()
        };
        let others_apart = |centre: usize| {
            let rest = whole.apart[centre] - own.apart[centre];
            if rest > LITTLE * whole.apart[centre] { rest } else { anew(centre) }
        };
        let others_apart: Vec<f64> = (0..size).map(others_apart).collect();
        let less = |all: &[f64], own: &[f64]| -> Vec<f64> { all.iter().zip(own).map(|(all, own)| all - own).collect() };
        let [other_sums, other_square_sums] =
            [less(&whole.sums, &own.sums), less(&whole.square_sums, &own.square_sums)];
        let OfSingles { single, pair } = self.curve.of_singles();
        let (mut kernel, mut decay) = (vec![0.0; size], vec![0.0; size]);
        for (place, part) in values.parts.iter().enumerate() {
            kernel.iter_mut().zip(&others_apart).zip(&part.apart).for_each(|((k, a), b)| *k = a + b);
            self.curve.shape.fall_off(&mut kernel, &mut decay);
            kernel.iter_mut().for_each(|k| *k *= self.curve.variance);
            let others = other_sums.iter().zip(&other_square_sums);
            let parts = others.zip(part.sums.iter().zip(&part.square_sums));
            for (k, ((other, other_square), (own, own_square))) in kernel.iter_mut().zip(parts) {
                let sum = other + own;
                *k += single * sum + pair * 0.5 * (sum * sum - (other_square + own_square));
            }
            show(place, &kernel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::Shape;
    use faer::{Mat, Par};

    #[test]
    fn exchanged_rows_have_the_covariance_of_such_rows() {
        for shape in [Shape::Matern, Shape::Gauss, Shape::Laplace] {
            let curve = Curve {
                shape,
                scales: vec![0.7, 1e-9, 1.3],
                lengthscales: 3,
                variance: 0.8,
                singles: vec![0, 2],
                single_scales: vec![0.4, 2.0],
                single_variance: 0.3,
                pair_variance: 0.5,
            };
            let value =
                |i: usize, j: usize| ((i * 3 + j) as f64 * 1.7).sin() * if i == 4 && j == 0 { 1e7 } else { 1.0 };
            let (rows, centres) = (Mat::from_fn(5, 3, value), Mat::from_fn(7, 3, |i, j| value(i + 9, j)));
            let exchange = Exchange::new(&curve, rows.as_ref(), centres.as_ref());
            let given = Mat::from_fn(2, 2, |g, k| 0.3 * g as f64 - 0.2 * k as f64);
            let inputs = [0, 1];
            let values = exchange.values(&inputs, given.as_ref());
            for i in 0..5 {
                exchange.show(i, &values, |g, kernel| {
                    let x = Mat::from_fn(1, 3, |_, j| if j < 2 { given[(g, j)] } else { rows[(i, j)] });
                    let whole = curve.matrix(x.as_ref(), centres.as_ref(), Par::Seq);
                    let error = (0..7).map(|c| (whole[(0, c)] - kernel[c]).abs()).fold(0.0, f64::max);
                    assert!(error < 1e-9, "{shape:?} row {i}: {error}");
                });
            }
        }
    }
}
