//! A smooth curve as a Gaussian process: lines, a part that depends on all inputs together and one that adds up curves of single
//! inputs, with a lengthscale for each input in both parts. Its parameters are learnt from the exact evidence of some rows.

use std::cell::RefCell;

use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{BlockStructure, matmul as triangular_matmul};
use faer::{Accum, Mat, MatRef, Par};
use rayon::prelude::*;
use robustard_engine::LeftOut;
use robustard_engine::math::cholesky::Factor;

use super::curve::{Curve, Shape, column_slice};
use super::exp::{add_matern, add_squares, dot, gauss, matern, matern_sums, weighted_squares};
use super::relevance::CERTAIN;
use super::stages::CurveOptions;
use super::{Evaluation, Evidence, LARGEST_LOG, PRIOR_STRENGTH, Progress};
use crate::control::Control;

/// Prior variance of the intercept, of a standardized target.
const INTERCEPT_VARIANCE: f64 = 10.0;
/// Starts of the log variances: of the joint part, of the single curves, of the slopes.
const START_LOG_VARIANCES: [f64; 3] = [0.0, -1.0, -2.0];
/// Rounds that the straight alternative gets.
const STRAIGHT_ROUNDS: usize = 3;
/// Rows predicted together, so that the room needed does not grow with the table.
const BLOCK: usize = 1024;

/// Parameters by name.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub curve: Curve,
    pub line_variance: f64,
    /// s.
    noise_scale: f64,
}

/// The evidence of some rows.
pub(super) struct Process<'a> {
    /// p columns.
    inputs: Vec<Vec<f64>>,
    pub target: Vec<f64>,
    pub row_weight: Vec<f64>,
    options: &'a CurveOptions<'a>,
    par: Par,
    room: RefCell<Room>,
}

/// n × n matrices of which the lower triangles are used.
struct Room {
    kernel: Mat<f64>,
    joint: Mat<f64>,
    decay: Mat<f64>,
    inverse: Mat<f64>,
    factor: Factor,
}

/// The log of an input's inverse lengthscale as one would expect it: long ones for inputs that do not stand out.
fn usual_of(relevance: f64) -> f64 {
    /// Of inputs that do not.
    const LONGEST: f64 = -1.5;
    /// What chance does easily.
    const CHANCE: f64 = 3.0;
    let share = (relevance - CHANCE) / (CERTAIN - CHANCE);
    LONGEST * (1.0 - share.clamp(0.0, 1.0))
}

impl<'a> Process<'a> {
    pub fn new(
        inputs: MatRef<'_, f64>,
        target: &[f64],
        row_weight: &[f64],
        rows: &[usize],
        options: &'a CurveOptions<'a>,
        par: Par,
    ) -> Self {
        let n = rows.len();
        let room = Room {
            kernel: Mat::zeros(n, n),
            joint: Mat::zeros(n, n),
            decay: Mat::zeros(n, n),
            inverse: Mat::zeros(n, n),
            factor: Factor::new(n, Par::Seq),
        };
        let pick = |values: &[f64]| rows.iter().map(|&row| values[row]).collect();
        Self {
            inputs: inputs.col_iter().map(|column| rows.iter().map(|&row| column[row]).collect()).collect(),
            target: pick(target),
            row_weight: pick(row_weight),
            options,
            par,
            room: RefCell::new(room),
        }
    }

    /// Where lengthscales start, and what their prior is about.
    fn usual(&self) -> Vec<f64> {
        let Some(relevance) = self.options.relevance else {
            return vec![0.0; self.inputs.len() + self.options.singles.len()];
        };
        let singles = self.options.singles.iter().map(|&input| relevance.alone[input]);
        relevance.with_others.iter().copied().chain(singles).map(usual_of).collect()
    }

    /// Log lengthscales of the joint part and of the single curves, three log variances, log s.
    pub fn start(&self) -> Vec<f64> {
        let mut start = self.usual();
        start.extend(START_LOG_VARIANCES);
        start.push(0.0);
        start
    }

    pub fn point(&self, parameters: &[f64]) -> Point {
        let p = self.inputs.len();
        let (scales, rest) = parameters.split_at(p);
        let (singles, rest) = rest.split_at(self.options.singles.len());
        // Lengthscales start at √p jointly, and at 1 for single inputs, of standardized inputs.
        let unit = 1.0 / (p.max(1) as f64).sqrt();
        let curve = Curve {
            shape: self.options.shape,
            scales: scales.iter().map(|l| unit * l.exp()).collect(),
            variance: rest[0].exp(),
            singles: self.options.singles.clone(),
            single_scales: singles.iter().map(|l| l.exp()).collect(),
            single_variance: rest[1].exp(),
        };
        Point { curve, line_variance: rest[2].exp(), noise_scale: rest[3].exp() }
    }

    /// Fills in the kernel matrix and its factor.
    fn factorise(&self, point: &Point, variance: &[f64], room: &mut Room) -> Option<()> {
        let inputs = &self.inputs;
        let Room { kernel, joint, decay, factor, .. } = room;
        let Point { curve, line_variance, .. } = point;
        let singles = curve.singles(&inputs.iter().map(Vec::as_slice).collect::<Vec<_>>(), self.target.len());
        let mut parts: Vec<[&mut [f64]; 3]> = kernel
            .col_iter_mut()
            .zip(joint.col_iter_mut())
            .zip(decay.col_iter_mut())
            .map(|((kernel, joint), decay)| [kernel, joint, decay].map(column_slice))
            .collect();
        parts.par_iter_mut().enumerate().for_each(|(j, [kernel, joint, decay])| {
            let (kernel, joint, decay) = (&mut kernel[j..], &mut joint[j..], &mut decay[j..]);
            joint.fill(0.0);
            for (x, scale) in inputs.iter().zip(&curve.scales) {
                add_squares(joint, &x[j..], x[j], *scale);
            }
            match curve.shape {
                Shape::Matern => matern(joint, decay),
                Shape::Gauss => gauss(joint, decay),
            }
            kernel.iter_mut().zip(&*joint).for_each(|(k, joint)| *k = curve.variance * joint + INTERCEPT_VARIANCE);
            for single in &singles {
                add_matern(kernel, single.seen_from(j, single, j), curve.single_variance);
            }
            for x in inputs {
                let slope = line_variance * x[j];
                kernel.iter_mut().zip(&x[j..]).for_each(|(k, x)| *k += slope * x);
            }
            kernel[0] += variance[j];
        });
        factor.factorise(kernel.as_ref()).ok()?;
        factor.invert();
        Some(())
    }

    /// K⁻¹y, with the factor of K left in the room.
    fn solve(&self, point: &Point, variance: &[f64], room: &mut Room) -> Option<Vec<f64>> {
        self.factorise(point, variance, room)?;
        let mut solved = self.target.clone();
        room.factor.solve(&mut solved);
        Some(solved)
    }

    /// The variances of the rows' targets: sλ, divided by how often the row counts.
    fn scaled_variance(&self, point: &Point, variance: &[f64]) -> Vec<f64> {
        variance.iter().zip(&self.row_weight).map(|(v, w)| point.noise_scale * v / w).collect()
    }

    /// Gradient of the cost by the entries of the kernel matrix, gathered for all parameters but the noise's.
    fn gather(&self, point: &Point, room: &Room, solved: &[f64]) -> Vec<f64> {
        let (n, inputs) = (self.target.len(), &self.inputs);
        let Point { curve, line_variance, .. } = point;
        let Room { inverse, joint, decay, .. } = room;
        let singles = curve.singles(&inputs.iter().map(Vec::as_slice).collect::<Vec<_>>(), self.target.len());
        let sums: Vec<Vec<f64>> = (0..n)
            .into_par_iter()
            .map_init(
                || (vec![0.0; n], vec![0.0; n], [vec![0.0; n], vec![0.0; n]]),
                |(slopes, weighted, room), j| {
                    let (slopes, weighted) = (&mut slopes[j..], &mut weighted[j..]);
                    let [inverse, joint, decay] = [inverse, joint, decay].map(|matrix| &matrix.col_as_slice(j)[j..]);
                    // ½(K⁻¹ − ααᵀ); off the diagonal for both triangles.
                    for (i, slope) in slopes.iter_mut().enumerate() {
                        *slope = inverse[i] - solved[j + i] * solved[j];
                    }
                    slopes[0] *= 0.5;
                    let mut sums = Vec::with_capacity(curve.scales.len() + curve.singles.len() + 3);
                    let fall = match curve.shape {
                        Shape::Matern => -3.0 * curve.variance,
                        Shape::Gauss => -curve.variance,
                    };
                    weighted.iter_mut().zip(slopes.iter().zip(decay)).for_each(|(w, (g, d))| *w = fall * g * d);
                    for (x, scale) in inputs.iter().zip(&curve.scales) {
                        sums.push(scale * scale * weighted_squares(weighted, &x[j..], x[j]));
                    }
                    let mut of_singles = 0.0;
                    for single in &singles {
                        let [kernel, slope] = matern_sums(slopes, single.seen_from(j, single, j), room);
                        of_singles += kernel;
                        sums.push(-3.0 * curve.single_variance * slope);
                    }
                    sums.push(curve.variance * dot(slopes, joint));
                    sums.push(curve.single_variance * of_singles);
                    let of_lines: f64 = inputs.iter().map(|x| x[j] * dot(slopes, &x[j..])).sum();
                    sums.push(line_variance * of_lines);
                    sums
                },
            )
            .collect();
        let mut total = vec![0.0; sums.first().map_or(0, Vec::len)];
        for sums in sums {
            total.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
        }
        total
    }

    /// Nats by which the bound is better than it would be without a curve.
    pub fn gain_of_bending(&self, learnt: &Progress) -> Option<f64> {
        let mut straight = learnt.clone();
        let lengthscales = self.inputs.len() + self.options.singles.len();
        straight.parameters[lengthscales..lengthscales + 2].fill(-LARGEST_LOG);
        straight.bound = f64::INFINITY;
        straight.is_leading = false;
        straight.advance(&Straight(self), self.options.noise, STRAIGHT_ROUNDS, 0.0..0.0)?;
        Some(straight.bound - learnt.bound)
    }

    /// Errors of the rows, each predicted from the others.
    pub fn left_out(&self, parameters: &[f64], variance: &[f64]) -> Option<LeftOut> {
        let point = self.point(parameters);
        let scaled = self.scaled_variance(&point, variance);
        let mut room = self.room.borrow_mut();
        let solved = self.solve(&point, &scaled, &mut room)?;
        let mut precision = vec![0.0; solved.len()];
        room.factor.inverse_diagonal(&mut precision);
        Some(LeftOut {
            residual: solved.iter().zip(&precision).map(|(a, k)| a / k).collect(),
            latent_variance: scaled.iter().zip(&precision).map(|(v, k)| (1.0 / k - v).max(0.0)).collect(),
        })
    }

    /// Posterior mean and, if asked for, variance of the regression function at new rows.
    pub fn predict(
        &self,
        parameters: &[f64],
        variance: &[f64],
        inputs: MatRef<'_, f64>,
        with_variance: bool,
    ) -> Option<[Vec<f64>; 2]> {
        let n = self.target.len();
        let point = self.point(parameters);
        let mut room = self.room.borrow_mut();
        let solved = self.solve(&point, &self.scaled_variance(&point, variance), &mut room)?;
        let centres = Mat::from_fn(n, self.inputs.len(), |i, j| self.inputs[j][i]);
        let (mut mean, mut latent) = (Vec::new(), Vec::new());
        for start in (0..inputs.nrows()).step_by(BLOCK) {
            let block = inputs.subrows(start, BLOCK.min(inputs.nrows() - start));
            let mut cross = point.curve.matrix(block, centres.as_ref(), self.par);
            matmul(cross.as_mut(), Accum::Add, block, centres.transpose(), point.line_variance, self.par);
            cross
                .col_iter_mut()
                .flat_map(|column| column_slice(column).iter_mut())
                .for_each(|k| *k += INTERCEPT_VARIANCE);
            mean.extend(
                (0..block.nrows()).map(|i| -> f64 { cross.row(i).iter().zip(&solved).map(|(k, a)| k * a).sum() }),
            );
            if !with_variance {
                continue;
            }
            let mut image = Mat::<f64>::zeros(n, block.nrows());
            matmul(image.as_mut(), Accum::Replace, room.factor.inverse(), cross.transpose(), 1.0, self.par);
            latent.extend((0..block.nrows()).map(|i| {
                let lines = point.line_variance * block.row(i).squared_norm_l2();
                let prior = point.curve.prior_variance() + lines + INTERCEPT_VARIANCE;
                (prior - image.col(i).squared_norm_l2()).max(0.0)
            }));
        }
        Some([mean, latent])
    }
}

impl Evidence for Process<'_> {
    fn evaluate(&self, parameters: &[f64], variance: &[f64]) -> Option<Evaluation> {
        let n = self.target.len();
        let point = self.point(parameters);
        let scaled = self.scaled_variance(&point, variance);
        let mut room = self.room.borrow_mut();
        let solved = self.solve(&point, &scaled, &mut room)?;
        let Room { inverse, factor, .. } = &mut *room;
        triangular_matmul(
            inverse.as_mut(),
            BlockStructure::TriangularLower,
            Accum::Replace,
            factor.inverse().transpose(),
            BlockStructure::TriangularUpper,
            factor.inverse(),
            BlockStructure::TriangularLower,
            1.0,
            self.par,
        );
        let fit: f64 = self.target.iter().zip(&solved).map(|(y, a)| y * a).sum();
        // A row that counts twice has half the variance, and its own terms besides.
        let repeats: f64 = (0..n)
            .map(|i| {
                self.row_weight[i] * (std::f64::consts::TAU * point.noise_scale * variance[i]).ln() - scaled[i].ln()
            })
            .sum();
        let second_moment: Vec<f64> = (0..n)
            .map(|i| {
                let residual = scaled[i] * solved[i];
                residual * residual + (scaled[i] - scaled[i] * scaled[i] * inverse[(i, i)]).max(0.0)
            })
            .collect();
        let lengthscales = self.inputs.len() + self.options.singles.len();
        let off: Vec<f64> = parameters[..lengthscales].iter().zip(self.usual()).map(|(l, usual)| l - usual).collect();
        let prior: f64 = off.iter().map(|off| off * off).sum();
        let cost = 0.5 * (fit + room.factor.log_determinant() + repeats + PRIOR_STRENGTH * prior);
        let mut gradient = self.gather(&point, &room, &solved);
        gradient.iter_mut().zip(&off).for_each(|(slope, off)| *slope += PRIOR_STRENGTH * off);
        if !self.options.per_input && !self.inputs.is_empty() {
            let joint = &mut gradient[..self.inputs.len()];
            let mean = joint.iter().sum::<f64>() / joint.len() as f64;
            joint.fill(mean);
        }
        gradient.push((0..n).map(|i| 0.5 * (self.row_weight[i] - second_moment[i] / scaled[i])).sum());
        cost.is_finite().then_some(Evaluation { cost, gradient, second_moment })
    }

    fn control(&self) -> &Control {
        self.options.control
    }

    fn row_weight(&self) -> &[f64] {
        &self.row_weight
    }
}

/// The same rows without a curve: only the slopes and the noise move.
struct Straight<'a>(&'a Process<'a>);

impl Evidence for Straight<'_> {
    fn evaluate(&self, parameters: &[f64], variance: &[f64]) -> Option<Evaluation> {
        let mut evaluation = self.0.evaluate(parameters, variance)?;
        let held = parameters.len() - 2;
        evaluation.gradient[..held].fill(0.0);
        Some(evaluation)
    }

    fn row_weight(&self) -> &[f64] {
        self.0.row_weight()
    }

    fn control(&self) -> &Control {
        self.0.control()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::learn::Effort;

    pub fn example(n: usize) -> (Mat<f64>, Vec<f64>) {
        let x = Mat::from_fn(n, 3, |i, j| ((i * (3 * j + 2)) as f64 * 0.71).sin() * 1.5);
        let y = (0..n).map(|i| (2.0 * x[(i, 0)]).sin() + 0.3 * x[(i, 1)] + 0.05 * (i as f64 * 5.1).sin()).collect();
        (x, y)
    }

    pub fn options<'a>(control: &'a Control, shape: Shape, singles: Vec<usize>, noise: &str) -> CurveOptions<'a> {
        let noise = noise.parse().unwrap();
        CurveOptions {
            relevance: None,
            shape,
            singles,
            per_input: true,
            seed: 1,
            noise,
            must_bend: true,
            effort: Effort::Whole,
            control,
        }
    }

    #[test]
    fn gradient_matches_differences() {
        let control = Control::new();
        let (x, y) = example(30);
        let weight: Vec<f64> = (0..30).map(|i| 1.0 + (i % 2) as f64).collect();
        let rows: Vec<usize> = (0..30).collect();
        for (shape, singles) in [(Shape::Matern, vec![0, 2]), (Shape::Gauss, vec![])] {
            let options = options(&control, shape, singles, "student-t");
            let process = Process::new(x.as_ref(), &y, &weight, &rows, &options, Par::Seq);
            let variance: Vec<f64> = (0..30).map(|i| 0.1 + 0.01 * i as f64).collect();
            let mut values = process.start();
            values.iter_mut().enumerate().for_each(|(k, value)| *value += 0.3 * (k as f64).cos());
            let gradient = process.evaluate(&values, &variance).unwrap().gradient;
            assert_eq!(gradient.len(), values.len());
            for k in 0..values.len() {
                let step = 1e-5;
                let moved = |sign: f64| {
                    let mut moved = values.clone();
                    moved[k] += sign * step;
                    process.evaluate(&moved, &variance).unwrap().cost
                };
                let slope = (moved(1.0) - moved(-1.0)) / (2.0 * step);
                assert!(
                    (slope - gradient[k]).abs() < 1e-5 * (1.0 + slope.abs()),
                    "{shape:?} {k}: {slope} {}",
                    gradient[k]
                );
            }
        }
    }

    /// A row that counts twice is as good as two rows.
    #[test]
    fn weights_are_counts() {
        let control = Control::new();
        let (x, y) = example(20);
        let options = options(&control, Shape::Matern, vec![0, 1], "student-t");
        let rows: Vec<usize> = (0..20).collect();
        let twice: Vec<usize> = (0..20).chain(0..20).collect();
        let counted = Process::new(x.as_ref(), &y, &[2.0; 20], &rows, &options, Par::Seq);
        let repeated = Process::new(x.as_ref(), &y, &[1.0; 20], &twice, &options, Par::Seq);
        let a = counted.evaluate(&counted.start(), &[0.2; 20]).unwrap();
        let b = repeated.evaluate(&repeated.start(), &[0.2; 40]).unwrap();
        assert!((a.cost - b.cost).abs() < 1e-9 * a.cost.abs());
        a.gradient.iter().zip(&b.gradient).for_each(|(a, b)| assert!((a - b).abs() < 1e-8 * (1.0 + a.abs())));
        assert!((a.second_moment[3] - b.second_moment[23]).abs() < 1e-10);
    }

    #[test]
    fn predictions_at_training_rows_are_the_posterior() {
        let control = Control::new();
        let (x, y) = example(25);
        let options = options(&control, Shape::Matern, vec![0, 1], "student-t");
        let rows: Vec<usize> = (0..25).collect();
        let process = Process::new(x.as_ref(), &y, &[1.0; 25], &rows, &options, Par::Seq);
        let (values, variance) = (process.start(), vec![0.2; 25]);
        let [mean, latent] = process.predict(&values, &variance, x.as_ref(), true).unwrap();
        let found = process.evaluate(&values, &variance).unwrap().second_moment;
        for i in 0..25 {
            assert!(((y[i] - mean[i]).powi(2) + latent[i] - found[i]).abs() < 1e-9);
        }
    }

    /// Leaving a row out in closed form is leaving it out.
    #[test]
    fn left_out_rows_are_left_out() {
        let control = Control::new();
        let (x, y) = example(25);
        let options = options(&control, Shape::Matern, vec![0, 1], "student-t");
        let process = |rows: &[usize]| Process::new(x.as_ref(), &y, &[1.0; 25], rows, &options, Par::Seq);
        let (all, fewer): (Vec<usize>, Vec<usize>) = ((0..25).collect(), (0..25).filter(|&row| row != 7).collect());
        let [all, fewer] = [process(&all), process(&fewer)];
        let values = all.start();
        let closed = all.left_out(&values, &[0.2; 25]).unwrap();
        let [mean, latent] = fewer.predict(&values, &[0.2; 24], x.as_ref().subrows(7, 1), true).unwrap();
        assert!((closed.residual[7] - (y[7] - mean[0])).abs() < 1e-9);
        assert!((closed.latent_variance[7] - latent[0]).abs() < 1e-9);
    }
}
