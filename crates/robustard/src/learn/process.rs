//! A smooth curve as a Gaussian process: lines, a part that depends on all inputs together and one that adds up curves of single
//! inputs and surfaces of pairs of them, with a lengthscale for each input in both parts. Its parameters are learnt from the exact evidence of some rows.

use std::cell::RefCell;

use faer::{Accum, Mat, MatRef, Par};
use rayon::prelude::*;
use robustard_engine::LeftOut;
use robustard_engine::math::cholesky::Factor;
use robustard_engine::math::product::{BlockStructure, matmul, triangular_matmul};

use super::curve::{Curve, Shape, column_slice};
use super::exp::{OfSingles, Single, add_matern, dot, matern_slope, step_sum};
use super::relevance::CERTAIN;
use super::stages::CurveOptions;
use super::straight::Straight;
use super::{Evaluation, Evidence, LARGEST_LOG, PRIOR_STRENGTH, Progress, SMALLEST_LOG, Value};
use crate::control::Control;

/// Prior variance of the intercept, of a standardized target.
const INTERCEPT_VARIANCE: f64 = 10.0;
/// Starts of the log variances of the joint part, of the single curves and of their pairs, and of slopes.
const START_LOG_VARIANCES: [f64; 3] = [0.0, -1.0, -1.0];
const START_LOG_LINE_VARIANCE: f64 = -2.0;
/// Most rounds that the straight alternative gets.
const STRAIGHT_ROUNDS: usize = 10;
/// Rows predicted together, so that the room needed does not grow with the table.
const BLOCK: usize = 1024;

/// Parameters by name.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub curve: Curve,
    /// Of each group of lines.
    pub line_variances: Vec<f64>,
    /// s.
    noise_scale: f64,
}

/// The evidence of some rows.
pub(super) struct Process<'a> {
    /// n × p.
    inputs: Mat<f64>,
    pub target: Vec<f64>,
    pub row_weight: Vec<f64>,
    options: &'a CurveOptions<'a>,
    par: Par,
    room: RefCell<Room>,
}

/// n × n matrices of which the lower triangles are used.
struct Room {
    /// The parameters that the kernel was last worked out for, but those of the noise, and the variances of the last factor.
    at: Vec<f64>,
    factored: Vec<f64>,
    kernel: Mat<f64>,
    /// Of the joint part alone, and its decay.
    joint: Mat<f64>,
    decay: Mat<f64>,
    /// Sums of the kernels of single inputs, and of the products of pairs of them.
    sums: Mat<f64>,
    pairs: Mat<f64>,
    /// The inverse kernel matrix, then gradients by the kernel's entries and by squared distances.
    inverse: Mat<f64>,
    by_square: Mat<f64>,
    factor: Factor,
    /// The kernel's diagonal without noise.
    diagonal: Vec<f64>,
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

/// Inverse lengthscales of so many standardized inputs start here jointly, so that usual rows are at a distance of about 1; those of single
/// inputs start at 1.
fn unit_scale(shape: Shape, lengthscales: usize) -> f64 {
    let number = lengthscales.max(1) as f64;
    match shape {
        Shape::Matern | Shape::Gauss => 1.0 / number.sqrt(),
        Shape::Laplace => 1.0 / number,
    }
}

fn add_to(totals: &mut [f64], values: &[f64]) {
    totals.iter_mut().zip(values).for_each(|(total, value)| *total += value);
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
            at: Vec::new(),
            factored: Vec::new(),
            diagonal: vec![0.0; n],
            kernel: Mat::zeros(n, n),
            joint: Mat::zeros(n, n),
            decay: Mat::zeros(n, n),
            sums: Mat::zeros(n, n),
            pairs: Mat::zeros(n, n),
            inverse: Mat::zeros(n, n),
            by_square: Mat::zeros(n, n),
            factor: Factor::new(n, Par::Seq),
        };
        let pick = |values: &[f64]| rows.iter().map(|&row| values[row]).collect();
        Self {
            inputs: Mat::from_fn(n, inputs.ncols(), |i, j| inputs[(rows[i], j)]),
            target: pick(target),
            row_weight: pick(row_weight),
            options,
            par,
            room: RefCell::new(room),
        }
    }

    /// Where lengthscales start, and what their prior is about.
    fn usual(&self) -> Vec<f64> {
        let joint = self.options.joint_lengthscales();
        let Some(relevance) = self.options.relevance else {
            return vec![0.0; joint + self.options.singles.len()];
        };
        let mut found = vec![0.0; joint];
        for (&lengthscale, own) in self.options.lengthscales.iter().zip(&relevance.with_others) {
            found[lengthscale] = own.max(found[lengthscale]);
        }
        let singles = self.options.singles.iter().map(|&input| relevance.alone[input]);
        found.into_iter().chain(singles).map(usual_of).collect()
    }

    /// Log lengthscales of the joint part and of the single curves, log variances of both, of pairs and of the groups of lines, log s.
    pub fn start(&self) -> Vec<f64> {
        let mut start = self.usual();
        start.extend(START_LOG_VARIANCES);
        start.extend(vec![START_LOG_LINE_VARIANCE; self.options.line_groups()]);
        start.push(0.0);
        if let Some(curve) = self.options.start {
            let joint = self.options.joint_lengthscales();
            let limited = |value: f64| value.ln().clamp(SMALLEST_LOG, LARGEST_LOG);
            for (&lengthscale, scale) in self.options.lengthscales.iter().zip(&curve.scales) {
                start[lengthscale] = limited(scale / unit_scale(curve.shape, joint));
            }
            for (place, input) in self.options.singles.iter().enumerate() {
                if let Some(known) = curve.singles.iter().position(|single| single == input) {
                    start[joint + place] = limited(curve.single_scales[known]);
                }
            }
            let first = joint + self.options.singles.len();
            start[first] = limited(curve.variance);
            start[first + 1] = limited(curve.single_variance);
            start[first + 2] = limited(curve.pair_variance);
        }
        start
    }

    pub fn point(&self, parameters: &[f64]) -> Point {
        let joint = self.options.joint_lengthscales();
        let (scales, rest) = parameters.split_at(joint);
        let (singles, rest) = rest.split_at(self.options.singles.len());
        let unit = unit_scale(self.options.shape, joint);
        let curve = Curve {
            shape: self.options.shape,
            scales: self.options.lengthscales.iter().map(|&lengthscale| unit * scales[lengthscale].exp()).collect(),
            lengthscales: joint,
            variance: rest[0].exp(),
            singles: self.options.singles.clone(),
            single_scales: singles.iter().map(|l| l.exp()).collect(),
            single_variance: rest[1].exp(),
            pair_variance: rest[2].exp(),
        };
        let (noise_scale, variances) = rest[START_LOG_VARIANCES.len()..].split_last().expect("log s is the last");
        Point { curve, line_variances: variances.iter().map(|l| l.exp()).collect(), noise_scale: noise_scale.exp() }
    }

    /// Fills in the kernel matrix, without noise.
    fn fill_kernel(&self, point: &Point, room: &mut Room) {
        let inputs = &self.inputs;
        let Room { kernel, joint, decay, sums, pairs, diagonal, .. } = room;
        let Point { curve, .. } = point;
        let scaled = Mat::from_fn(inputs.nrows(), inputs.ncols(), |i, j| curve.scales[j] * inputs[(i, j)]);
        let squares: Vec<f64> = scaled.row_iter().map(|row| row.squared_norm_l2()).collect();
        let has_squares = curve.shape != Shape::Laplace;
        if has_squares {
            self.products(joint, &scaled);
        }
        self.products(kernel, &self.lines(inputs.as_ref(), point));
        let singles = curve.singles(&self.columns(), self.target.len());
        let factors = curve.of_singles();
        let mut parts: Vec<[&mut [f64]; 5]> = kernel
            .col_iter_mut()
            .zip(joint.col_iter_mut().zip(decay.col_iter_mut()))
            .zip(sums.col_iter_mut().zip(pairs.col_iter_mut()))
            .map(|((kernel, (joint, decay)), (sums, pairs))| [kernel, joint, decay, sums, pairs].map(column_slice))
            .collect();
        parts.par_iter_mut().enumerate().for_each(|(j, columns)| {
            let [kernel, joint, decay, sums, pairs] = columns.each_mut().map(|column| &mut column[j..]);
            let own = squares[j];
            if has_squares {
                let products = joint.iter_mut().zip(&squares[j..]);
                products.for_each(|(joint, square)| *joint = (square + own - 2.0 * *joint).max(0.0));
                joint[0] = 0.0;
            } else {
                joint.fill(0.0);
                let steps = (0..scaled.ncols()).map(|input| scaled.col_as_slice(input));
                steps.for_each(|x| curve.shape.add_apart(joint, &x[j..], x[j], 1.0));
            }
            curve.shape.fall_off(joint, decay);
            sums.fill(0.0);
            pairs.fill(0.0);
            singles.iter().for_each(|single| add_matern(sums, pairs, single.seen_from(j, single, j)));
            let OfSingles { single, pair } = factors;
            for ((k, joint), (sum, pairs)) in kernel.iter_mut().zip(&*joint).zip(sums.iter().zip(pairs)) {
                // So far the sum of squares.
                *pairs = 0.5 * (sum * sum - *pairs);
                *k += curve.variance * joint + single * sum + pair * *pairs + INTERCEPT_VARIANCE;
            }
        });
        diagonal.iter_mut().enumerate().for_each(|(j, diagonal)| *diagonal = kernel[(j, j)]);
    }

    /// Inputs times the deviations of their slopes.
    fn lines(&self, inputs: MatRef<'_, f64>, point: &Point) -> Mat<f64> {
        let deviations: Vec<f64> = point.line_variances.iter().map(|variance| variance.sqrt()).collect();
        Mat::from_fn(inputs.nrows(), inputs.ncols(), |i, j| deviations[self.options.lines[j]] * inputs[(i, j)])
    }

    /// The lower triangle of the products of all rows.
    fn products(&self, lower: &mut Mat<f64>, rows: &Mat<f64>) {
        triangular_matmul(
            lower.as_mut(),
            BlockStructure::TriangularLower,
            Accum::Replace,
            rows.as_ref(),
            BlockStructure::Rectangular,
            rows.transpose(),
            BlockStructure::Rectangular,
            1.0,
            self.par,
        );
    }

    fn columns(&self) -> Vec<&[f64]> {
        (0..self.inputs.ncols()).map(|input| self.inputs.col_as_slice(input)).collect()
    }

    /// The kernel matrix, its factor and the inverse of that.
    fn factorise(&self, parameters: &[f64], point: &Point, variance: &[f64], room: &mut Room) -> Option<()> {
        let known = &parameters[..parameters.len() - 1];
        if room.at != known {
            room.at.clear();
            room.factored.clear();
            self.fill_kernel(point, room);
            room.at.extend_from_slice(known);
        } else if room.factored == variance {
            return Some(());
        }
        room.factored.clear();
        for (j, (diagonal, variance)) in room.diagonal.iter().zip(variance).enumerate() {
            room.kernel[(j, j)] = diagonal + variance;
        }
        room.factor.factorise(room.kernel.as_ref()).ok()?;
        room.factor.invert();
        room.factored.extend_from_slice(variance);
        Some(())
    }

    /// K⁻¹y, with the factor of K left in the room.
    fn solve(&self, parameters: &[f64], point: &Point, variance: &[f64], room: &mut Room) -> Option<Vec<f64>> {
        self.factorise(parameters, point, variance, room)?;
        let mut solved = self.target.clone();
        room.factor.solve(&mut solved);
        Some(solved)
    }

    /// The variances of the rows' targets: sλ, divided by how often the row counts.
    fn scaled_variance(&self, point: &Point, variance: &[f64]) -> Vec<f64> {
        variance.iter().zip(&self.row_weight).map(|(v, w)| point.noise_scale * v / w).collect()
    }

    /// Gradient of the cost by the entries of the kernel matrix, gathered for all parameters but the noise's. The inverse in the room gives
    /// way to it.
    fn gather(&self, point: &Point, room: &mut Room, solved: &[f64]) -> Vec<f64> {
        let (n, p) = (self.target.len(), self.inputs.ncols());
        let Point { curve, line_variances, .. } = point;
        let Room { inverse, joint, decay, sums, pairs, by_square, .. } = room;
        let factors = curve.of_singles();
        let columns = self.columns();
        let singles = curve.singles(&columns, n);
        let fall = -curve.shape.fall() * curve.variance;
        let has_squares = curve.shape != Shape::Laplace;
        let mut parts: Vec<[&mut [f64]; 2]> = inverse
            .col_iter_mut()
            .zip(by_square.col_iter_mut())
            .map(|(inverse, by_square)| [inverse, by_square].map(column_slice))
            .collect();
        let totals: Vec<([f64; 3], Vec<f64>, Vec<f64>)> = parts
            .par_iter_mut()
            .enumerate()
            .map_init(
                || vec![0.0; n],
                |room, (j, [slopes, by_square])| {
                    let (slopes, by_square) = (&mut slopes[j..], &mut by_square[j..]);
                    let [joint, decay, sums, pairs] =
                        [&*joint, &*decay, &*sums, &*pairs].map(|matrix| &matrix.col_as_slice(j)[j..]);
                    // ½(K⁻¹ − ααᵀ); off the diagonal for both triangles.
                    let own = solved[j];
                    slopes.iter_mut().zip(&solved[j..]).for_each(|(slope, solved)| *slope -= solved * own);
                    slopes[0] *= 0.5;
                    let of_single = |single: &Single<'_>| {
                        -3.0 * matern_slope(slopes, sums, single.seen_from(j, single, j), factors, room)
                    };
                    let of_singles: Vec<f64> = singles.iter().map(of_single).collect();
                    let terms = slopes.iter().zip(decay);
                    by_square.iter_mut().zip(terms).for_each(|(by_square, (g, d))| *by_square = fall * g * d);
                    let of_steps = |x: &&[f64]| step_sum(by_square, &x[j..], x[j]);
                    let of_steps = if has_squares { Vec::new() } else { columns.iter().map(of_steps).collect() };
                    let parts = [(curve.variance, joint), (factors.single, sums), (factors.pair, pairs)];
                    (parts.map(|(factor, kernel)| factor * dot(slopes, kernel)), of_singles, of_steps)
                },
            )
            .collect();
        let (mut of_singles, mut of_variances, mut of_steps) = (vec![0.0; singles.len()], [0.0; 3], vec![0.0; p]);
        for (variances, singles, steps) in &totals {
            add_to(&mut of_singles, singles);
            add_to(&mut of_variances, variances);
            add_to(&mut of_steps, steps);
        }
        let of_joint = if has_squares { self.weighted_squares(by_square) } else { of_steps };
        let lines = self.weighted_products(inverse);
        let mut gradient = vec![0.0; self.options.joint_lengthscales()];
        for (k, &lengthscale) in self.options.lengthscales.iter().enumerate() {
            gradient[lengthscale] += curve.shape.apart(curve.scales[k]) * of_joint[k];
        }
        gradient.extend(of_singles);
        gradient.extend(of_variances);
        let mut of_lines = vec![0.0; line_variances.len()];
        for (&group, own) in self.options.lines.iter().zip(&lines) {
            of_lines[group] += line_variances[group] * own;
        }
        gradient.extend(of_lines);
        gradient
    }

    /// Σ w(x − x′)² over pairs of rows, for each input, of weights in a lower triangle.
    fn weighted_squares(&self, lower: &Mat<f64>) -> Vec<f64> {
        // It is Σ (w + wᵀ) x² − 2 Σ w x x′.
        let n = self.target.len();
        let mut weight = vec![0.0; n];
        for j in 0..n {
            let column = &lower.col_as_slice(j)[j..];
            weight[j] += column.iter().sum::<f64>();
            add_to(&mut weight[j..], column);
        }
        let products = self.weighted_products(lower);
        let of_input = |(k, product): (usize, &f64)| {
            let squares: f64 = self.inputs.col_as_slice(k).iter().zip(&weight).map(|(x, w)| w * x * x).sum();
            squares - 2.0 * product
        };
        products.iter().enumerate().map(of_input).collect()
    }

    /// Σ w x x′ over pairs of rows, for each input.
    fn weighted_products(&self, lower: &Mat<f64>) -> Vec<f64> {
        let (n, p) = (self.target.len(), self.inputs.ncols());
        let mut image = Mat::<f64>::zeros(n, p);
        triangular_matmul(
            image.as_mut(),
            BlockStructure::Rectangular,
            Accum::Replace,
            lower.as_ref(),
            BlockStructure::TriangularLower,
            self.inputs.as_ref(),
            BlockStructure::Rectangular,
            1.0,
            Par::Seq,
        );
        (0..p).map(|k| dot(image.col_as_slice(k), self.inputs.col_as_slice(k))).collect()
    }

    /// Nats by which the bound is better than it would be without a curve.
    pub fn gain_of_bending(&self, learnt: &Progress) -> Option<f64> {
        let lines = Straight {
            inputs: self.inputs.as_ref(),
            lines: &self.options.lines,
            target: &self.target,
            row_weight: &self.row_weight,
            variance_bounds: self.options.variance_bounds(),
            intercept_variance: INTERCEPT_VARIANCE,
            control: self.options.control,
        };
        let first = learnt.parameters.len() - 1 - self.options.line_groups();
        let mut straight = Progress {
            parameters: learnt.parameters[first..].to_vec(),
            is_leading: false,
            memory: Default::default(),
            ..learnt.clone()
        };
        straight.advance(&lines, self.options.noise, STRAIGHT_ROUNDS, 0.0..0.0)?;
        // The lengthscales' prior is no part of the question.
        let prior: f64 = self.off(&learnt.parameters).iter().map(|off| off * off).sum();
        Some(straight.bound + 0.5 * PRIOR_STRENGTH * prior - learnt.bound)
    }

    /// How far lengthscales are from what is usual.
    fn off(&self, parameters: &[f64]) -> Vec<f64> {
        parameters.iter().zip(self.usual()).map(|(l, usual)| l - usual).collect()
    }

    /// Errors of the rows, each predicted from the others.
    pub fn left_out(&self, parameters: &[f64], variance: &[f64]) -> Option<LeftOut> {
        let point = self.point(parameters);
        let scaled = self.scaled_variance(&point, variance);
        let mut room = self.room.borrow_mut();
        let solved = self.solve(parameters, &point, &scaled, &mut room)?;
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
        let solved = self.solve(parameters, &point, &self.scaled_variance(&point, variance), &mut room)?;
        let centres = &self.inputs;
        let centre_lines = self.lines(centres.as_ref(), &point);
        let (mut mean, mut latent) = (Vec::new(), Vec::new());
        for start in (0..inputs.nrows()).step_by(BLOCK) {
            let block = inputs.subrows(start, BLOCK.min(inputs.nrows() - start));
            let mut cross = point.curve.matrix(block, centres.as_ref(), self.par);
            let lines = self.lines(block, &point);
            matmul(cross.as_mut(), Accum::Add, lines.as_ref(), centre_lines.transpose(), 1.0, self.par);
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
                let lines = lines.row(i).squared_norm_l2();
                let prior = point.curve.prior_variance() + lines + INTERCEPT_VARIANCE;
                (prior - image.col(i).squared_norm_l2()).max(0.0)
            }));
        }
        Some([mean, latent])
    }
}

/// What is known of a point without its gradient.
struct Valued {
    point: Point,
    solved: Vec<f64>,
    scaled: Vec<f64>,
    cost: f64,
    /// How far lengthscales are from what is usual.
    off: Vec<f64>,
    second_moment: Vec<f64>,
}

impl Process<'_> {
    fn value(&self, parameters: &[f64], variance: &[f64], room: &mut Room) -> Option<Valued> {
        let n = self.target.len();
        let point = self.point(parameters);
        let scaled = self.scaled_variance(&point, variance);
        let solved = self.solve(parameters, &point, &scaled, room)?;
        let fit: f64 = self.target.iter().zip(&solved).map(|(y, a)| y * a).sum();
        // A row that counts twice has half the variance, and its own terms besides.
        let repeats: f64 = (0..n)
            .map(|i| {
                self.row_weight[i] * (std::f64::consts::TAU * point.noise_scale * variance[i]).ln() - scaled[i].ln()
            })
            .sum();
        let mut precision = vec![0.0; n];
        room.factor.inverse_diagonal(&mut precision);
        let second_moment: Vec<f64> = (0..n)
            .map(|i| {
                let residual = scaled[i] * solved[i];
                residual * residual + (scaled[i] - scaled[i] * scaled[i] * precision[i]).max(0.0)
            })
            .collect();
        let off = self.off(parameters);
        let prior: f64 = off.iter().map(|off| off * off).sum();
        let cost = 0.5 * (fit + room.factor.log_determinant() + repeats + PRIOR_STRENGTH * prior);
        cost.is_finite().then_some(Valued { point, solved, scaled, cost, off, second_moment })
    }
}

impl Evidence for Process<'_> {
    fn value(&self, parameters: &[f64], variance: &[f64]) -> Option<Value> {
        let Valued { cost, second_moment, .. } = self.value(parameters, variance, &mut self.room.borrow_mut())?;
        Some(Value { cost, second_moment })
    }

    fn evaluate(&self, parameters: &[f64], variance: &[f64]) -> Option<Evaluation> {
        let mut room = self.room.borrow_mut();
        let Valued { point, solved, scaled, cost, off, second_moment } = self.value(parameters, variance, &mut room)?;
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
        let mut gradient = self.gather(&point, &mut room, &solved);
        gradient.iter_mut().zip(&off).for_each(|(slope, off)| *slope += PRIOR_STRENGTH * off);
        let joint = self.options.joint_lengthscales();
        if !self.options.per_input && joint > 0 {
            let joint = &mut gradient[..joint];
            let mean = joint.iter().sum::<f64>() / joint.len() as f64;
            joint.fill(mean);
        }
        let moments = second_moment.iter().zip(&scaled).zip(&self.row_weight);
        gradient.push(moments.map(|((moment, scaled), weight)| 0.5 * (weight - moment / scaled)).sum());
        Some(Evaluation { value: Value { cost, second_moment }, gradient })
    }

    fn control(&self) -> &Control {
        self.options.control
    }

    fn row_weight(&self) -> &[f64] {
        &self.row_weight
    }

    fn variance_bounds(&self) -> [f64; 2] {
        self.options.variance_bounds()
    }
}

#[cfg(test)]
pub(super) mod tests;
