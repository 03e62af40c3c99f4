//! Error bars that depend on the inputs: where noise varies, errors of left-out rows show it.

use faer::{Mat, MatRef, Par};
use robustard_engine::math::cholesky::Factor;
use robustard_engine::math::order::{median, spread};
use robustard_engine::math::product::matmul;
use robustard_engine::{LeftOut, PredictiveNoise};
use serde::{Deserialize, Serialize};

use crate::calibration::GROSS;
use crate::range::Range;

/// Rows that they are learnt from.
const MOST_ROWS: usize = 4000;
/// Fewer rows do not show it.
const LEAST_ROWS: usize = 50;
/// With fewer rows for each of the columns, predictions alone decide, not the inputs.
const ROWS_PER_COLUMN: usize = 10;
/// Prior variances of slopes that are tried, of the log variance against standardized columns.
const SLOPES: [f64; 4] = [0.001, 0.01, 0.1, 1.0];
/// Squared errors of more variances are gross, which is no sign of wide noise.
const GROSS_SQUARE: f64 = GROSS * GROSS;
/// The same of a normal error in the median.
const MEDIAN_SQUARE: f64 = 0.454_936;
/// Gain in nats per row below which it is not worth it.
const LEAST_GAIN: f64 = 0.01;

/// How wide error bars are, relative to what they would be if all were alike: the root of exp(η), where η is a sum of squares and lines of the
/// inputs and of the prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Widths {
    /// Of the standardized columns, the constant last.
    weights: Vec<f64>,
    mean: Vec<f64>,
    deviation: Vec<f64>,
    /// In which inputs and predictions are held; predictions alone if the inputs have no say.
    range: Range,
    /// Of η among the rows.
    limits: [f64; 2],
    /// Of the training rows, each by the others.
    pub of_rows: Vec<f64>,
}

/// Widths, and what they are good for.
pub(crate) struct Learnt {
    pub widths: Widths,
    /// In log density per left-out row, and its standard error.
    pub gain: (f64, f64),
}

/// Errors of left-out rows, and what was predicted for them.
pub(crate) struct Errors<'a> {
    pub left_out: &'a LeftOut,
    pub predicted: &'a [f64],
    /// The variance of noise.
    pub inlier: f64,
    /// How often each row counts.
    pub weight: &'a [f64],
}

/// The rows, of so many, that widths are learnt from.
pub(crate) fn looked_at(rows: usize) -> Vec<usize> {
    spread(rows, MOST_ROWS).collect()
}

impl Widths {
    /// Learns them from the rows looked at, whose standardized inputs are given; none if left-out rows are not predicted better by more than the
    /// standard error. Widths of the other rows have to be filled in.
    pub fn learn(inputs: MatRef<'_, f64>, rows: &[usize], errors: &Errors<'_>) -> Option<Learnt> {
        let Errors { left_out, predicted, inlier, weight } = errors;
        let of = |values: &[f64]| -> Vec<f64> { rows.iter().map(|&row| values[row]).collect() };
        let (weight, predicted) = (of(weight), of(predicted));
        let left_out = LeftOut { residual: of(&left_out.residual), latent_variance: of(&left_out.latent_variance) };
        let counted = weight.iter().filter(|weight| **weight > 0.5).count();
        if counted < LEAST_ROWS {
            return None;
        }
        let has_inputs = counted > ROWS_PER_COLUMN * (2 * inputs.ncols() + 3);
        let said = said(inputs, &predicted, has_inputs);
        let range = Range::whole(said.as_ref());
        let columns = columns(said.as_ref());
        let moments = |k: usize| {
            let column: Vec<f64> = columns.col(k).iter().copied().collect();
            let mean = mean(&column, &weight);
            let squares: Vec<f64> = column.iter().map(|value| (value - mean).powi(2)).collect();
            (mean, self::mean(&squares, &weight).sqrt())
        };
        let (mean, deviation): (Vec<f64>, Vec<f64>) = (0..columns.ncols()).map(moments).unzip();
        let standard = standardized(columns.as_ref(), &mean, &deviation);
        let densities = |widths: &[f64], say: &[f64]| {
            let residual: Vec<f64> = left_out.residual.iter().zip(widths).map(|(error, width)| error / width).collect();
            let errors = LeftOut { residual, latent_variance: left_out.latent_variance.clone() };
            let noise = PredictiveNoise::learn(&errors, say, *inlier);
            let rows = errors.residual.iter().zip(&errors.latent_variance).zip(widths);
            rows.map(|((error, latent), width)| noise.log_density(*error, *latent) - width.ln()).collect::<Vec<f64>>()
        };
        let alike = vec![1.0; rows.len()];
        let squares = left_out.residual.iter().zip(&left_out.latent_variance);
        let squares: Vec<f64> = squares.map(|(error, latent)| error * error / (inlier + latent)).collect();
        let tried = SLOPES.iter().filter_map(|slope| {
            let scored = Scored::fit(standard.as_ref(), &squares, &weight, *slope)?;
            let of_rows: Vec<f64> = scored.left_out.iter().map(|log| (0.5 * log).exp()).collect();
            // Errors that are gross anyway tell nothing.
            let [gross, own_gross] = [&alike, &of_rows].map(|widths| is_gross(&squares, widths));
            let say: Vec<f64> =
                (0..rows.len()).map(|k| if gross[k] && own_gross[k] { 0.0 } else { weight[k] }).collect();
            let [own, other] = [&of_rows, &alike].map(|widths| densities(widths, &say));
            let gains: Vec<f64> = own.iter().zip(&other).map(|(own, other)| own - other).collect();
            let gain = self::mean(&gains, &say);
            let spread = self::mean(&gains.iter().map(|own| (own - gain).powi(2)).collect::<Vec<f64>>(), &say);
            Some((scored, of_rows, (gain, (spread / say.iter().sum::<f64>()).sqrt())))
        });
        let (scored, of_rows, gain) = tried.max_by(|(.., a), (.., b)| a.0.total_cmp(&b.0))?;
        if gain.0.is_nan() || gain.0 <= gain.1.max(LEAST_GAIN) {
            return None;
        }
        let limits = [f64::min, f64::max]
            .map(|pick: fn(f64, f64) -> f64| scored.fitted.iter().copied().reduce(pick).unwrap_or(0.0));
        let widths = Self { weights: scored.weights, mean, deviation, range, limits, of_rows };
        Some(Learnt { widths, gain })
    }

    /// Widths at standardized inputs (m × p) where these values are predicted.
    pub fn at(&self, inputs: MatRef<'_, f64>, predicted: &[f64]) -> Vec<f64> {
        let said = self.range.hold(said(inputs, predicted, self.range.low.len() > 1).as_ref());
        let standard = standardized(columns(said.as_ref()).as_ref(), &self.mean, &self.deviation);
        let [low, high] = self.limits;
        let log = |i: usize| standard.row(i).iter().zip(&self.weights).map(|(x, weight)| x * weight).sum::<f64>();
        (0..standard.nrows()).map(|i| (0.5 * log(i).clamp(low, high)).exp()).collect()
    }

    pub fn is_consistent(&self, inputs: usize, rows: usize) -> bool {
        let count = self.range.low.len();
        (count == 1 || count == inputs + 1)
            && self.range.high.len() == count
            && self.mean.len() == 2 * count
            && self.deviation.len() == 2 * count
            && self.weights.len() == 2 * count + 1
            && self.of_rows.len() == rows
            && self.of_rows.iter().all(|width| *width > 0.0)
    }
}

/// Whether squared errors are gross where error bars have these widths; half of the rows say what is usual.
fn is_gross(squares: &[f64], widths: &[f64]) -> Vec<bool> {
    let relative: Vec<f64> = squares.iter().zip(widths).map(|(square, width)| square / (width * width)).collect();
    let limit = GROSS_SQUARE * median(&relative) / MEDIAN_SQUARE;
    relative.iter().map(|square| *square > limit).collect()
}

fn mean(values: &[f64], weight: &[f64]) -> f64 {
    values.iter().zip(weight).map(|(value, weight)| value * weight).sum::<f64>() / weight.iter().sum::<f64>()
}

/// Predictions, after the inputs if these have a say.
fn said(inputs: MatRef<'_, f64>, predicted: &[f64], has_inputs: bool) -> Mat<f64> {
    let inputs_said = if has_inputs { inputs.ncols() } else { 0 };
    let value = |i: usize, j: usize| if j < inputs_said { inputs[(i, j)] } else { predicted[i] };
    Mat::from_fn(predicted.len(), inputs_said + 1, value)
}

/// Lines and squares.
fn columns(said: MatRef<'_, f64>) -> Mat<f64> {
    let count = said.ncols();
    Mat::from_fn(said.nrows(), 2 * count, |i, j| if j < count { said[(i, j)] } else { said[(i, j - count)].powi(2) })
}

/// Columns with mean 0 and deviation 1, and a constant one.
fn standardized(columns: MatRef<'_, f64>, mean: &[f64], deviation: &[f64]) -> Mat<f64> {
    let value = |i: usize, k: usize| if deviation[k] > 0.0 { (columns[(i, k)] - mean[k]) / deviation[k] } else { 0.0 };
    Mat::from_fn(columns.nrows(), mean.len() + 1, |i, k| if k < mean.len() { value(i, k) } else { 1.0 })
}

/// The log variance as a sum of columns, by Fisher scoring for squared errors: each step is a regression of η + (e²/exp η − 1), with the same
/// weights every time. Its constant is such that widths are 1 on average.
struct Scored {
    weights: Vec<f64>,
    fitted: Vec<f64>,
    /// Each row by the others.
    left_out: Vec<f64>,
}

impl Scored {
    /// None if no factor could be found.
    fn fit(columns: MatRef<'_, f64>, squares: &[f64], weight: &[f64], slope_variance: f64) -> Option<Self> {
        const STEPS: usize = 12;
        let (n, d) = (columns.nrows(), columns.ncols());
        let weighted = Mat::from_fn(n, d, |i, k| weight[i] * columns[(i, k)]);
        let mut gram = Mat::<f64>::zeros(d, d);
        let one = faer::Accum::Replace;
        matmul(gram.as_mut(), one, weighted.transpose(), columns, 1.0, Par::Seq);
        // Half of the information of a squared error about the log of its variance.
        (0..d - 1).for_each(|k| gram[(k, k)] += 2.0 / slope_variance);
        let mut factor = Factor::new(d, Par::Seq);
        factor.factorise(gram.as_ref()).ok()?;
        let counted: Vec<f64> =
            squares.iter().zip(weight).filter(|(_, w)| **w > 0.5).map(|(square, _)| *square).collect();
        let start = (median(&counted) / MEDIAN_SQUARE).max(f64::MIN_POSITIVE).ln();
        let mut weights = vec![0.0; d];
        weights[d - 1] = start;
        let fitted = |weights: &[f64]| -> Vec<f64> {
            (0..n).map(|i| columns.row(i).iter().zip(weights).map(|(x, w)| x * w).sum::<f64>()).collect()
        };
        let surprise = |log: f64, square: f64| {
            let square = square * (-log).exp();
            if square > GROSS_SQUARE { 0.0 } else { square - 1.0 }
        };
        let mut now = fitted(&weights);
        for _ in 0..STEPS {
            let aims: Vec<f64> = now.iter().zip(squares).map(|(log, square)| log + surprise(*log, *square)).collect();
            let mut next: Vec<f64> = weighted
                .col_iter()
                .map(|column| column.iter().zip(&aims).map(|(x, aim)| x * aim).sum::<f64>())
                .collect();
            factor.solve(&mut next);
            weights = next;
            now = fitted(&weights);
        }
        let constant = mean(&now, weight);
        let leverage = |i: usize| {
            let mut image: Vec<f64> = columns.row(i).iter().copied().collect();
            factor.solve(&mut image);
            weight[i] * columns.row(i).iter().zip(&image).map(|(x, image)| x * image).sum::<f64>()
        };
        let without = |i: usize| {
            let own = leverage(i).min(0.9);
            now[i] - own / (1.0 - own) * surprise(now[i], squares[i]) - constant
        };
        let left_out: Vec<f64> = (0..n).map(without).collect();
        weights[d - 1] -= constant;
        now.iter_mut().for_each(|log| *log -= constant);
        let is_finite = weights.iter().chain(&left_out).all(|value| value.is_finite());
        is_finite.then_some(Self { weights, fitted: now, left_out })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(i: usize, k: f64) -> f64 {
        ((i + 1) as f64 * k).sin()
    }

    fn learn(deviation: impl Fn(f64) -> f64) -> Option<Learnt> {
        let n = 400;
        let inputs = Mat::from_fn(n, 2, |i, j| 1.4 * wave(i, 1.3 + j as f64));
        // Nearly normal.
        let noise = |i: usize| wave(i * i, 0.77) + wave(i * i, 1.9) + wave(i * i + 7, 3.1);
        let residual: Vec<f64> = (0..n).map(|i| deviation(inputs[(i, 0)]) * noise(i)).collect();
        let left_out = LeftOut { residual, latent_variance: vec![0.0; n] };
        let errors = Errors { left_out: &left_out, predicted: &vec![0.0; n], inlier: 1.0, weight: &vec![1.0; n] };
        let rows = looked_at(n);
        Widths::learn(inputs.as_ref(), &rows, &errors)
    }

    #[test]
    fn noise_that_varies_is_seen_and_noise_that_does_not_is_not() {
        assert!(learn(|_| 1.0).is_none());
        let Learnt { widths, gain } = learn(|x| (0.8 * x).exp()).unwrap();
        assert!(gain.0 > 0.1, "{gain:?}");
        let at = |x: f64| widths.at(Mat::from_fn(1, 2, |_, j| if j == 0 { x } else { 0.0 }).as_ref(), &[0.0])[0];
        assert!((at(1.0) / at(-1.0) / 1.6f64.exp()).ln().abs() < 0.3, "{} {}", at(1.0), at(-1.0));
        // Not beyond the rows.
        assert_eq!(at(5.0), at(50.0));
        assert!(widths.is_consistent(2, 400) && !widths.is_consistent(3, 400));
    }
}
