//! A smooth curve as a Gaussian process: lines, a part that depends on all inputs together and one that adds up curves of single
//! inputs, with a lengthscale for each input in both parts. Its parameters are learnt from the exact evidence of some rows.

use std::cell::RefCell;

use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{BlockStructure, matmul as triangular_matmul};
use faer::{Accum, Mat, MatRef, Par};
use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::exp::{add_matern, add_squares, dot, gauss, matern, matern_sums, weighted_squares};
use super::{Evaluation, Evidence, LARGEST_LOG, LearningNoise, PRIOR_STRENGTH, Progress, VARIANCE_BOUNDS};
use crate::noise::NoiseModel;
use crate::posterior::Factor;
use crate::predictive::LeftOut;

/// Prior variance of the intercept, of a standardized target.
const INTERCEPT_VARIANCE: f64 = 10.0;
/// Starts of the log variances: of the joint part, of the single curves, of the slopes.
const START_LOG_VARIANCES: [f64; 3] = [0.0, -1.0, -2.0];
/// Rows that the parameters are learnt from, at first and in the end, and the rounds of each stage.
const STAGES: [(usize, usize); 2] = [(350, 10), (800, 3)];
/// Updates of noise that is fitted to a curve that stays.
const SETTLING_UPDATES: usize = 4;
/// Nats by which the evidence of the first stage's rows has to be better with a curve than without, where that is asked.
const LEAST_CURVE_GAIN: f64 = 0.3;
/// Rounds that the straight alternative gets.
const STRAIGHT_ROUNDS: usize = 3;
/// Larger tables are not told the variance of every row's prediction.
const MOST_PREDICTED_VARIANCES: usize = 20_000;
/// A first stage with less than this share of the last one's rows is worth it.
const WORTHWHILE_STAGE: f64 = 0.7;
/// Rows predicted together, so that the room needed does not grow with the table.
const BLOCK: usize = 1024;

/// How the joint part falls off with distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// (1 + √3 r) e^(−√3 r): curves with one derivative, which follow bends that smoother ones cannot.
    Matern,
    /// e^(−r²/2): curves with all derivatives.
    Gauss,
}

/// κ(x, z) = v₁ k(‖s∘(x − z)‖) + v₂ Σⱼ m(aⱼ|xⱼ − zⱼ|), k of the shape and m Matérn: the covariance of a curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Shape of the joint part.
    pub shape: Shape,
    /// s: inverse lengthscales of the joint part.
    pub scales: Vec<f64>,
    /// v₁.
    pub variance: f64,
    /// The inputs with curves of their own.
    pub singles: Vec<usize>,
    /// a: their inverse lengthscales.
    pub single_scales: Vec<f64>,
    /// v₂.
    pub single_variance: f64,
}

impl Curve {
    /// κ(x, x).
    pub fn prior_variance(&self) -> f64 {
        self.variance + self.single_variance * self.singles.len() as f64
    }

    /// Prior variance of the slope along each input.
    pub fn bends(&self) -> Vec<f64> {
        let fall = match self.shape {
            Shape::Matern => 3.0,
            Shape::Gauss => 1.0,
        };
        let mut bends: Vec<f64> = self.scales.iter().map(|s| fall * self.variance * s * s).collect();
        for (&input, a) in self.singles.iter().zip(&self.single_scales) {
            bends[input] += 3.0 * self.single_variance * a * a;
        }
        bends
    }

    /// κ of rows, given as columns, with one centre; `decay` is room.
    fn values(&self, columns: &[&[f64]], centre: &[f64], values: &mut [f64], decay: &mut [f64]) {
        values.fill(0.0);
        for ((x, c), scale) in columns.iter().zip(centre).zip(&self.scales) {
            add_squares(values, x, *c, *scale);
        }
        match self.shape {
            Shape::Matern => matern(values, decay),
            Shape::Gauss => gauss(values, decay),
        }
        values.iter_mut().for_each(|value| *value *= self.variance);
        for (&input, scale) in self.singles.iter().zip(&self.single_scales) {
            add_matern(values, columns[input], centre[input], *scale, self.single_variance);
        }
    }

    /// κ of every row with every centre, both n × p.
    pub fn matrix(&self, inputs: MatRef<'_, f64>, centres: MatRef<'_, f64>) -> Mat<f64> {
        let n = inputs.nrows();
        let mut matrix = Mat::<f64>::zeros(n, centres.nrows());
        let columns = columns(inputs);
        let columns: Vec<&[f64]> = columns.iter().map(Vec::as_slice).collect();
        let mut targets: Vec<&mut [f64]> = matrix.col_iter_mut().map(column_slice).collect();
        targets.par_iter_mut().enumerate().for_each_init(
            || vec![0.0; n],
            |decay, (j, target)| {
                let centre: Vec<f64> = centres.row(j).iter().copied().collect();
                self.values(&columns, &centre, target, decay);
            },
        );
        matrix
    }

    /// κ(x, z) of two points.
    pub fn between(&self, x: &[f64], z: &[f64]) -> f64 {
        let columns: Vec<&[f64]> = x.chunks(1).collect();
        let (mut value, mut decay) = ([0.0], [0.0]);
        self.values(&columns, z, &mut value, &mut decay);
        value[0]
    }
}

fn column_slice(column: faer::ColMut<'_, f64>) -> &mut [f64] {
    column.try_as_col_major_mut().expect("column-major").as_slice_mut()
}

fn columns(inputs: MatRef<'_, f64>) -> Vec<Vec<f64>> {
    inputs.col_iter().map(|column| column.iter().copied().collect()).collect()
}

/// How a curve is learnt.
#[derive(Debug, Clone)]
pub(crate) struct CurveOptions {
    pub shape: Shape,
    /// The inputs with curves of their own.
    pub singles: Vec<usize>,
    /// One lengthscale per input, or one for all.
    pub per_input: bool,
    /// Seed of the rows that are learnt from.
    pub seed: u64,
    pub noise: LearningNoise,
    /// Whether to give up when a curve is hardly better than lines.
    pub must_bend: bool,
    pub effort: Effort,
}

/// How much work is put into learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// The first stage only.
    Sketch,
    /// All stages.
    Whole,
    /// Only the noise, for a curve that is known.
    Settle,
}

/// Why nothing was learnt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum NotLearnt {
    /// No posterior could be computed.
    Failed,
    /// A curve explains so many rows hardly better than lines do, by so many nats.
    Straight { gain: f64, rows: usize },
}

/// A learnt curve.
#[derive(Debug, Clone)]
pub(crate) struct LearntCurve {
    pub curve: Curve,
    /// Prior variance of the slopes.
    pub line_variance: f64,
    pub noise: NoiseModel,
    /// λ of all rows.
    pub noise_variance: Vec<f64>,
    /// Errors of all rows: of those learnt from, each without itself.
    pub left_out: LeftOut,
    /// Bound on the log evidence, per row learnt from.
    pub evidence: f64,
    /// The rows in a random order.
    pub order: Vec<usize>,
    /// How many of them, the first ones, were learnt from.
    pub rows: usize,
    parameters: Vec<f64>,
}

/// Parameters by name.
#[derive(Debug, Clone)]
struct Point {
    curve: Curve,
    line_variance: f64,
    /// s.
    noise_scale: f64,
}

/// The evidence of some rows.
struct Process<'a> {
    /// p columns.
    inputs: Vec<Vec<f64>>,
    target: Vec<f64>,
    row_weight: Vec<f64>,
    options: &'a CurveOptions,
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

impl<'a> Process<'a> {
    fn new(
        inputs: MatRef<'_, f64>,
        target: &[f64],
        row_weight: &[f64],
        rows: &[usize],
        options: &'a CurveOptions,
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

    /// Log lengthscales of the joint part and of the single curves, three log variances, log s.
    fn start(&self) -> Vec<f64> {
        let mut start = vec![0.0; self.inputs.len() + self.options.singles.len()];
        start.extend(START_LOG_VARIANCES);
        start.push(0.0);
        start
    }

    fn point(&self, parameters: &[f64]) -> Point {
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
            for (&input, scale) in curve.singles.iter().zip(&curve.single_scales) {
                let x = &inputs[input];
                add_matern(kernel, &x[j..], x[j], *scale, curve.single_variance);
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

    /// The variances of the rows' targets: sλ, divided by how often the row counts.
    fn scaled_variance(&self, point: &Point, variance: &[f64]) -> Vec<f64> {
        variance.iter().zip(&self.row_weight).map(|(v, w)| point.noise_scale * v / w).collect()
    }

    /// Gradient of the cost by the entries of the kernel matrix, gathered for all parameters but the noise's.
    fn gather(&self, point: &Point, room: &Room, solved: &[f64]) -> Vec<f64> {
        let (n, inputs) = (self.target.len(), &self.inputs);
        let Point { curve, line_variance, .. } = point;
        let Room { inverse, joint, decay, .. } = room;
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
                    for (&input, scale) in curve.singles.iter().zip(&curve.single_scales) {
                        let x = &inputs[input];
                        let [kernel, slope] = matern_sums(slopes, &x[j..], x[j], *scale, room);
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
    fn gain_of_bending(&self, learnt: &Progress) -> Option<f64> {
        let mut straight = learnt.clone();
        let lengthscales = self.inputs.len() + self.options.singles.len();
        straight.parameters[lengthscales..lengthscales + 2].fill(-LARGEST_LOG);
        straight.bound = f64::INFINITY;
        straight.is_leading = false;
        straight.advance(&Straight(self), self.options.noise, STRAIGHT_ROUNDS)?;
        Some(straight.bound - learnt.bound)
    }

    /// Errors of the rows, each predicted from the others.
    fn left_out(&self, parameters: &[f64], variance: &[f64]) -> Option<LeftOut> {
        let point = self.point(parameters);
        let scaled = self.scaled_variance(&point, variance);
        let mut room = self.room.borrow_mut();
        self.factorise(&point, &scaled, &mut room)?;
        let mut solved = self.target.clone();
        room.factor.solve(&mut solved);
        let mut precision = vec![0.0; solved.len()];
        room.factor.inverse_diagonal(&mut precision);
        Some(LeftOut {
            residual: solved.iter().zip(&precision).map(|(a, k)| a / k).collect(),
            latent_variance: scaled.iter().zip(&precision).map(|(v, k)| (1.0 / k - v).max(0.0)).collect(),
        })
    }

    /// Posterior mean and, if asked for, variance of the regression function at new rows.
    fn predict(
        &self,
        parameters: &[f64],
        variance: &[f64],
        inputs: MatRef<'_, f64>,
        with_variance: bool,
    ) -> Option<[Vec<f64>; 2]> {
        let n = self.target.len();
        let point = self.point(parameters);
        let mut room = self.room.borrow_mut();
        self.factorise(&point, &self.scaled_variance(&point, variance), &mut room)?;
        let mut solved = self.target.clone();
        room.factor.solve(&mut solved);
        let centres = Mat::from_fn(n, self.inputs.len(), |i, j| self.inputs[j][i]);
        let (mut mean, mut latent) = (Vec::new(), Vec::new());
        for start in (0..inputs.nrows()).step_by(BLOCK) {
            let block = inputs.subrows(start, BLOCK.min(inputs.nrows() - start));
            let mut cross = point.curve.matrix(block, centres.as_ref());
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
        self.factorise(&point, &scaled, &mut room)?;
        let mut solved = self.target.clone();
        room.factor.solve(&mut solved);
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
        let prior: f64 = parameters[..lengthscales].iter().map(|l| l * l).sum();
        let cost = 0.5 * (fit + room.factor.log_determinant() + repeats + PRIOR_STRENGTH * prior);
        let mut gradient = self.gather(&point, &room, &solved);
        gradient.iter_mut().zip(&parameters[..lengthscales]).for_each(|(slope, l)| *slope += PRIOR_STRENGTH * l);
        if !self.options.per_input && !self.inputs.is_empty() {
            let joint = &mut gradient[..self.inputs.len()];
            let mean = joint.iter().sum::<f64>() / joint.len() as f64;
            joint.fill(mean);
        }
        gradient.push((0..n).map(|i| 0.5 * (self.row_weight[i] - second_moment[i] / scaled[i])).sum());
        cost.is_finite().then_some(Evaluation { cost, gradient, second_moment })
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
}

/// Learns a curve of standardized inputs (n × p) for a standardized target, going on from one learnt with other noise if there is.
pub(crate) fn learn_curve(
    inputs: MatRef<'_, f64>,
    target: &[f64],
    row_weight: &[f64],
    options: &CurveOptions,
    from: Option<&LearntCurve>,
    par: Par,
) -> Result<LearntCurve, NotLearnt> {
    let n = target.len();
    let order = sample(&mut ChaCha8Rng::seed_from_u64(options.seed), n, n).into_vec();
    let process = |rows: usize| Process::new(inputs, target, row_weight, &order[..rows.min(n)], options, par);
    let [(first, first_rounds), (last, last_rounds)] = STAGES;
    let is_one_stage = first as f64 > WORTHWHILE_STAGE * n as f64;
    let learnt = |stage: &Process<'_>, progress: Progress, order: &[usize]| -> Option<LearntCurve> {
        let rows = stage.target.len();
        let left_out = left_out_of_all(stage, &progress, inputs, target, order)?;
        let rule = progress.noise.variance_rule();
        let [low, high] = VARIANCE_BOUNDS;
        let errors = left_out.residual.iter().zip(&left_out.latent_variance);
        let mut noise_variance: Vec<f64> = errors.map(|(r, q)| rule(r * r + q).clamp(low, high)).collect();
        order[..rows].iter().zip(&progress.variance).for_each(|(&row, variance)| noise_variance[row] = *variance);
        let Point { curve, line_variance, .. } = stage.point(&progress.parameters);
        let evidence = -progress.bound / stage.row_weight.iter().sum::<f64>();
        let Progress { parameters, noise, .. } = progress;
        let order = order.to_vec();
        Some(LearntCurve { curve, line_variance, noise, noise_variance, left_out, evidence, order, rows, parameters })
    };
    let known = from.filter(|from| from.order == order);
    let (mut stage, mut progress) = if let Some(from) = known {
        let stage = process(last);
        let rows = stage.target.len();
        let parameters = from.parameters.clone();
        let mut progress = Progress::start_from(parameters, rows, options.noise, from.noise.variance(0.0));
        if std::mem::discriminant(&from.noise) == std::mem::discriminant(&progress.noise) {
            progress.noise = from.noise;
            progress.variance = order[..rows].iter().map(|&row| from.noise_variance[row]).collect();
        }
        (stage, progress)
    } else {
        let stage = process(if is_one_stage { last } else { first });
        let mut progress = Progress::start(stage.start(), stage.target.len(), options.noise);
        progress.advance(&stage, options.noise, first_rounds).ok_or(NotLearnt::Failed)?;
        (stage, progress)
    };
    if options.must_bend {
        let gain = stage.gain_of_bending(&progress).ok_or(NotLearnt::Failed)?;
        if gain < LEAST_CURVE_GAIN {
            return Err(NotLearnt::Straight { gain, rows: stage.target.len() });
        }
    }
    match (options.effort, known) {
        (Effort::Settle, Some(_)) => progress.settle(&stage, SETTLING_UPDATES).ok_or(NotLearnt::Failed)?,
        (Effort::Whole, Some(_)) => progress.advance(&stage, options.noise, last_rounds).ok_or(NotLearnt::Failed)?,
        (Effort::Whole, None) if !is_one_stage => {
            let next = process(last);
            let rows = next.target.len();
            let all = learnt(&stage, progress.clone(), &order[..rows]).ok_or(NotLearnt::Failed)?;
            progress.variance = order[..rows].iter().map(|&row| all.noise_variance[row]).collect();
            progress.bound = f64::INFINITY;
            progress.advance(&next, options.noise, last_rounds).ok_or(NotLearnt::Failed)?;
            stage = next;
        }
        _ => {}
    }
    learnt(&stage, progress, &order).ok_or(NotLearnt::Failed)
}

/// Errors of the rows in `order`; the first of them were learnt from.
fn left_out_of_all(
    stage: &Process<'_>,
    progress: &Progress,
    inputs: MatRef<'_, f64>,
    target: &[f64],
    order: &[usize],
) -> Option<LeftOut> {
    let own = stage.left_out(&progress.parameters, &progress.variance)?;
    let (known, others) = order.split_at(stage.target.len());
    let mut all = LeftOut { residual: vec![0.0; target.len()], latent_variance: vec![0.0; target.len()] };
    for (k, &row) in known.iter().enumerate() {
        (all.residual[row], all.latent_variance[row]) = (own.residual[k], own.latent_variance[k]);
    }
    let with_variance = others.len() <= MOST_PREDICTED_VARIANCES;
    let usual = own.latent_variance.iter().sum::<f64>() / known.len() as f64;
    let inputs = Mat::from_fn(others.len(), inputs.ncols(), |i, j| inputs[(others[i], j)]);
    let [mean, latent] = stage.predict(&progress.parameters, &progress.variance, inputs.as_ref(), with_variance)?;
    for (k, &row) in others.iter().enumerate() {
        all.residual[row] = target[row] - mean[k];
        all.latent_variance[row] = latent.get(k).copied().unwrap_or(usual);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::NoiseKind;

    fn example(n: usize) -> (Mat<f64>, Vec<f64>) {
        let x = Mat::from_fn(n, 3, |i, j| ((i * (3 * j + 2)) as f64 * 0.71).sin() * 1.5);
        let y = (0..n).map(|i| (2.0 * x[(i, 0)]).sin() + 0.3 * x[(i, 1)] + 0.05 * (i as f64 * 5.1).sin()).collect();
        (x, y)
    }

    fn options(shape: Shape, singles: Vec<usize>, prior: &str) -> CurveOptions {
        let noise = LearningNoise { kind: NoiseKind::PerRow, prior: prior.parse().unwrap() };
        CurveOptions { shape, singles, per_input: true, seed: 1, noise, must_bend: true, effort: Effort::Whole }
    }

    #[test]
    fn gradient_matches_differences() {
        let (x, y) = example(30);
        let weight: Vec<f64> = (0..30).map(|i| 1.0 + (i % 2) as f64).collect();
        let rows: Vec<usize> = (0..30).collect();
        for (shape, singles) in [(Shape::Matern, vec![0, 2]), (Shape::Gauss, vec![])] {
            let options = options(shape, singles, "student-t");
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
        let (x, y) = example(20);
        let options = options(Shape::Matern, vec![0, 1], "student-t");
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
        let (x, y) = example(25);
        let options = options(Shape::Matern, vec![0, 1], "student-t");
        let rows: Vec<usize> = (0..25).collect();
        let process = Process::new(x.as_ref(), &y, &[1.0; 25], &rows, &options, Par::Seq);
        let (values, variance) = (process.start(), vec![0.2; 25]);
        let [mean, latent] = process.predict(&values, &variance, x.as_ref(), true).unwrap();
        let found = process.evaluate(&values, &variance).unwrap().second_moment;
        for i in 0..25 {
            assert!(((y[i] - mean[i]).powi(2) + latent[i] - found[i]).abs() < 1e-9);
        }
    }

    /// The input that does not matter gets long lengthscales; threads change nothing, bit for bit.
    #[test]
    fn lengthscales_tell_inputs_apart_whatever_the_threads() {
        let (x, y) = example(600);
        let weight = vec![1.0; 600];
        for prior in ["student-t", "contaminated-t"] {
            let options = options(Shape::Matern, vec![0, 1, 2], prior);
            let [one, two] =
                [Par::Seq, Par::rayon(2)].map(|par| learn_curve(x.as_ref(), &y, &weight, &options, None, par).unwrap());
            assert_eq!(one.curve, two.curve);
            assert_eq!(one.noise_variance, two.noise_variance);
            let joint = |j: usize| one.curve.variance * one.curve.scales[j].powi(2);
            let bend = |j: usize| joint(j) + one.curve.single_variance * one.curve.single_scales[j].powi(2);
            assert!(bend(0) > bend(1) && bend(1) > bend(2), "{prior}: {:?}", one.curve);
        }
    }

    #[test]
    fn lines_are_told_from_curves() {
        let (x, y) = example(300);
        let options = options(Shape::Matern, vec![0, 1, 2], "contaminated");
        let learn = |y: &[f64]| learn_curve(x.as_ref(), y, &[1.0; 300], &options, None, Par::Seq);
        assert!(learn(&y).is_ok());
        let noise = |i: usize| 0.2 * ((i * i) as f64 * 3.7).sin();
        let straight: Vec<f64> = (0..300).map(|i| 0.5 * x[(i, 0)] - 0.3 * x[(i, 1)] + noise(i)).collect();
        assert!(matches!(learn(&straight), Err(NotLearnt::Straight { rows: 300, .. })));
    }

    /// Leaving a row out in closed form is leaving it out.
    #[test]
    fn left_out_rows_are_left_out() {
        let (x, y) = example(25);
        let options = options(Shape::Matern, vec![0, 1], "student-t");
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
