//! Fourier features √(2/K) cos((x∘eˡ) W₀ + b) with fixed base frequencies W₀ and phases b; lⱼ = −log of the lengthscale of input
//! j in units of the start. All Fourier weights share one precision, linear columns (if any) another.

use std::cell::RefCell;

use faer::{Accum, Mat, MatMut, MatRef, Par};
use rayon::prelude::*;
use robustard_engine::math::product::{BlockStructure, matmul, triangular_matmul};

use robustard_engine::math::cholesky::Factor;
use robustard_engine::noise::learning::VARIANCE_BOUNDS;
use robustard_engine::noise::{Noise, NoiseModel};

use super::frequencies::Fourier;
use super::{Evaluation, Evidence, PRIOR_STRENGTH, Progress, Value};
use crate::control::Control;

/// Precision of the intercept, in units of the target's variance: as good as none.
const INTERCEPT_PRECISION: f64 = 1e-6;
/// Start of the precisions, of a standardized target.
const START_PRECISION: f64 = 1.0;

/// How lengthscales are learnt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FourierOptions {
    /// K.
    pub features: usize,
    /// Seed of the base frequencies.
    pub seed: u64,
    /// One lengthscale per input, or one for all.
    pub per_input: bool,
    /// Whether the inputs themselves are features too.
    pub linear: bool,
    /// Noise.
    pub noise: Noise,
    /// Rounds of L-BFGS and noise updates.
    pub rounds: usize,
}

/// Features with learnt lengthscales.
#[derive(Debug, Clone)]
pub(crate) struct LearntFourier {
    /// The features, frequencies scaled.
    pub fourier: Fourier,
    /// l, one per input.
    pub log_scales: Vec<f64>,
    /// Precision of the Fourier weights, and of the linear ones.
    pub weight_precision: [f64; 2],
    /// The noise model.
    pub noise: NoiseModel,
    /// Posterior mean of the weights: intercept, linear, Fourier.
    pub mean: Vec<f64>,
    /// Their covariance.
    pub covariance: Mat<f64>,
    /// Minus the log evidence, plus the penalties of noise and lengthscales.
    #[cfg(test)]
    bound: f64,
}

/// What is fixed while lengthscales move.
struct Basis<'a> {
    inputs: MatRef<'a, f64>,
    target: &'a [f64],
    row_weight: &'a [f64],
    base: Fourier,
    per_input: bool,
    linear: bool,
    control: &'a Control,
    par: Par,
    room: RefCell<Room>,
}

/// l, log γ of the Fourier and of the linear weights, log s.
#[derive(Debug, Clone)]
struct Point {
    log_scales: Vec<f64>,
    log_precision: [f64; 2],
    log_noise: f64,
}

/// The posterior of the weights.
struct Weights {
    mean: Vec<f64>,
    covariance: Mat<f64>,
}

impl Evidence for Basis<'_> {
    fn value(&self, parameters: &[f64], variance: &[f64]) -> Option<Value> {
        self.evaluate(parameters, variance).map(|evaluation| evaluation.value)
    }

    fn evaluate(&self, parameters: &[f64], variance: &[f64]) -> Option<Evaluation> {
        self.posterior(&Point::of_vector(parameters), variance).map(|(evaluation, _)| evaluation)
    }

    fn row_weight(&self) -> &[f64] {
        self.row_weight
    }

    fn control(&self) -> &Control {
        self.control
    }
}

impl Basis<'_> {
    fn first_fourier(&self) -> usize {
        1 + if self.linear { self.inputs.ncols() } else { 0 }
    }

    fn scaled(&self, log_scales: &[f64]) -> Fourier {
        let p = self.inputs.ncols();
        let mut fourier = self.base.clone();
        fourier.frequencies.iter_mut().enumerate().for_each(|(k, w)| *w *= log_scales[k % p].exp());
        fourier
    }

    fn posterior(&self, point: &Point, variance: &[f64]) -> Option<(Evaluation, Weights)> {
        let (n, p, k) = (self.inputs.nrows(), self.inputs.ncols(), self.base.phases.len());
        let first = self.first_fourier();
        let d = first + k;
        let fourier = self.scaled(&point.log_scales);
        let frequencies = MatRef::from_column_major_slice(&fourier.frequencies, p, k);
        let mut room = self.room.borrow_mut();
        let Room { design, slopes, weighted, image, information, factor } = &mut *room;

        // Cosines go into the design, their slopes beside it.
        let amplitude = (2.0 / k as f64).sqrt();
        matmul(view_mut(slopes, n), Accum::Replace, self.inputs, frequencies, 1.0, self.par);
        let cosines = design[first * n..].par_chunks_mut(n).zip(slopes.par_chunks_mut(n)).zip(&fourier.phases);
        cosines.for_each(|((cosines, angles), phase)| {
            for (cosine, angle) in cosines.iter_mut().zip(angles) {
                let (sin, cos) = (*angle + phase).sin_cos();
                *cosine = amplitude * cos;
                *angle = -amplitude * sin;
            }
        });

        let scale = point.log_noise.exp();
        let weight: Vec<f64> = self.row_weight.iter().zip(variance).map(|(w, v)| w / (scale * v)).collect();
        weighted.par_chunks_mut(n).zip(design.par_chunks(n)).for_each(|(weighted, column)| {
            weighted.iter_mut().zip(column).zip(&weight).for_each(|((v, x), w)| *v = w * x);
        });
        let (design, weighted) = (view(design, n), view(weighted, n));
        let precision = |j: usize| match j {
            0 => INTERCEPT_PRECISION,
            _ if j < first => point.log_precision[1].exp(),
            _ => point.log_precision[0].exp(),
        };
        triangular_matmul(
            information.as_mut(),
            BlockStructure::TriangularLower,
            Accum::Replace,
            design.transpose(),
            BlockStructure::Rectangular,
            weighted,
            BlockStructure::Rectangular,
            1.0,
            self.par,
        );
        for j in 0..d {
            information[(j, j)] += precision(j);
        }
        factor.factorise(information.as_ref()).ok()?;
        factor.invert();
        // Sums over rows and products with one vector are not split among threads, so that their number changes nothing.
        let mut mean = vec![0.0; d];
        let target = MatRef::from_column_major_slice(self.target, n, 1);
        matmul(view_mut(&mut mean, d), Accum::Replace, weighted.transpose(), target, 1.0, Par::Seq);
        factor.solve(&mut mean);
        let inverse = factor.inverse();
        let mut covariance = Mat::<f64>::zeros(d, d);
        matmul(covariance.as_mut(), Accum::Replace, inverse.transpose(), inverse, 1.0, self.par);
        let mut residual = self.target.to_vec();
        matmul(view_mut(&mut residual, n), Accum::Add, design, view(&mean, d), -1.0, Par::Seq);
        matmul(view_mut(image, n), Accum::Replace, design, covariance.as_ref(), 1.0, self.par);
        let mut latent = vec![0.0; n];
        for (j, image) in image.chunks(n).enumerate() {
            let column = design.col(j).try_as_col_major()?.as_slice();
            latent.iter_mut().zip(column.iter().zip(image)).for_each(|(q, (x, h))| *q += x * h);
        }
        let second_moment: Vec<f64> = residual.iter().zip(&latent).map(|(r, q)| r * r + q).collect();

        let log_determinant = factor.log_determinant();
        let log_prior: f64 = (0..d).map(|j| precision(j).ln()).sum();
        let rows = self.row_weight.iter().zip(variance);
        let log_variance: f64 = rows.map(|(w, v)| w * (std::f64::consts::TAU * scale * v).ln()).sum();
        let fit: f64 = (0..n).map(|i| self.target[i] * weight[i] * residual[i]).sum();
        let prior: f64 = point.log_scales.iter().map(|l| l * l).sum();
        let cost = 0.5 * (log_variance + log_determinant - log_prior + fit) + 0.5 * PRIOR_STRENGTH * prior;

        // ∂ log p/∂features = Λ⁻¹(r μᵀ − DΣ), through the slopes to the frequencies.
        slopes.par_chunks_mut(n).zip(image[first * n..].par_chunks(n)).enumerate().for_each(|(j, (slopes, image))| {
            let mean = mean[first + j];
            for i in 0..n {
                slopes[i] *= weight[i] * (residual[i] * mean - image[i]);
            }
        });
        let mut by_frequency = Mat::<f64>::zeros(p, k);
        matmul(by_frequency.as_mut(), Accum::Replace, self.inputs.transpose(), view(slopes, n), 1.0, Par::Seq);
        let by_scale =
            |input: usize| -> f64 { (0..k).map(|j| by_frequency[(input, j)] * frequencies[(input, j)]).sum() };
        let mut scales: Vec<f64> =
            (0..p).map(|input| PRIOR_STRENGTH * point.log_scales[input] - by_scale(input)).collect();
        if !self.per_input {
            let mean = scales.iter().sum::<f64>() / p as f64;
            scales.fill(mean);
        }
        let precision_slope = |columns: std::ops::Range<usize>| -> f64 {
            let size = columns.len() as f64;
            let square: f64 = columns.map(|j| precision(j) * (mean[j].powi(2) + covariance[(j, j)])).sum();
            0.5 * (square - size)
        };
        let noise_slope: f64 = (0..n).map(|i| 0.5 * (self.row_weight[i] - weight[i] * second_moment[i])).sum();
        let gradient = Point {
            log_scales: scales,
            log_precision: [precision_slope(first..d), precision_slope(1..first)],
            log_noise: noise_slope,
        };
        let evaluation = Evaluation { value: Value { cost, second_moment }, gradient: gradient.to_vector() };
        cost.is_finite().then_some((evaluation, Weights { mean, covariance }))
    }
}

/// Matrices of n rows, column by column, used again at every point.
struct Room {
    design: Vec<f64>,
    slopes: Vec<f64>,
    weighted: Vec<f64>,
    image: Vec<f64>,
    information: Mat<f64>,
    factor: Factor,
}

impl Room {
    /// The design's first columns, which no lengthscale moves, are filled in.
    fn new(inputs: MatRef<'_, f64>, linear: bool, features: usize) -> Self {
        let n = inputs.nrows();
        let mut fixed = vec![1.0; n];
        if linear {
            fixed.extend(inputs.col_iter().flat_map(|column| column.iter().copied().collect::<Vec<_>>()));
        }
        let d = fixed.len() / n + features;
        let mut design = fixed;
        design.resize(n * d, 0.0);
        Self {
            weighted: vec![0.0; n * d],
            image: vec![0.0; n * d],
            slopes: vec![0.0; n * features],
            information: Mat::zeros(d, d),
            factor: Factor::new(d, Par::Seq),
            design,
        }
    }
}

fn view(values: &[f64], rows: usize) -> MatRef<'_, f64> {
    MatRef::from_column_major_slice(values, rows, values.len() / rows)
}

fn view_mut(values: &mut [f64], rows: usize) -> MatMut<'_, f64> {
    let columns = values.len() / rows;
    MatMut::from_column_major_slice_mut(values, rows, columns)
}

impl LearntFourier {
    /// Variances that the noise model gives to rows of inputs and their targets.
    pub fn noise_variance(&self, inputs: MatRef<'_, f64>, target: &[f64], par: Par) -> Vec<f64> {
        /// Rows looked at together, so that the room needed does not grow with the table.
        const BLOCK: usize = 2048;
        let linear = self.mean.len() - 1 - self.fourier.phases.len();
        let [low, high] = VARIANCE_BOUNDS;
        let rule = self.noise.variance_rule();
        let mut variance = Vec::with_capacity(target.len());
        for start in (0..target.len()).step_by(BLOCK) {
            let rows = BLOCK.min(target.len() - start);
            let inputs = inputs.subrows(start, rows);
            let mut design = Room::new(inputs, linear > 0, self.fourier.phases.len()).design;
            let waves = self.fourier.transform(inputs);
            let first = (1 + linear) * rows;
            design[first..].chunks_mut(rows).zip(waves.col_iter()).for_each(|(column, wave)| {
                column.iter_mut().zip(wave.iter()).for_each(|(v, w)| *v = *w);
            });
            let mut residual = target[start..start + rows].to_vec();
            let mut image = vec![0.0; design.len()];
            let mean = MatRef::from_column_major_slice(&self.mean, self.mean.len(), 1);
            matmul(view_mut(&mut residual, rows), Accum::Add, view(&design, rows), mean, -1.0, Par::Seq);
            matmul(view_mut(&mut image, rows), Accum::Replace, view(&design, rows), self.covariance.as_ref(), 1.0, par);
            variance.extend((0..rows).map(|i| {
                let latent: f64 = (i..design.len()).step_by(rows).map(|k| design[k] * image[k]).sum();
                rule(residual[i].powi(2) + latent).clamp(low, high)
            }));
        }
        variance
    }
}

impl Point {
    fn to_vector(&self) -> Vec<f64> {
        [&self.log_scales[..], &self.log_precision, &[self.log_noise]].concat()
    }

    fn of_vector(values: &[f64]) -> Self {
        let p = values.len() - 3;
        Self { log_scales: values[..p].to_vec(), log_precision: [values[p], values[p + 1]], log_noise: values[p + 2] }
    }
}

/// Learns the lengthscales for standardized inputs (n × p) and a standardized target. None if no posterior could be computed.
pub(crate) fn learn_fourier(
    inputs: MatRef<'_, f64>,
    target: &[f64],
    row_weight: &[f64],
    options: &FourierOptions,
    control: &Control,
    par: Par,
) -> Option<LearntFourier> {
    let p = inputs.ncols();
    let base = Fourier::new(p, options.features, 1.0 / p as f64, options.seed);
    let room = RefCell::new(Room::new(inputs, options.linear, options.features));
    let (per_input, linear) = (options.per_input, options.linear);
    let basis = Basis { inputs, target, row_weight, base, per_input, linear, control, par, room };
    let point = Point { log_scales: vec![0.0; p], log_precision: [START_PRECISION.ln(); 2], log_noise: 0.0 };
    let mut progress = Progress::start(point.to_vector(), target.len(), options.noise);
    progress.advance(&basis, options.noise, options.rounds, 0.0..1.0)?;
    let point = Point::of_vector(&progress.parameters);
    let (_, Weights { mean, covariance }) = basis.posterior(&point, &progress.variance)?;
    Some(LearntFourier {
        mean,
        covariance,
        fourier: basis.scaled(&point.log_scales),
        log_scales: point.log_scales,
        weight_precision: point.log_precision.map(f64::exp),
        noise: progress.noise,
        #[cfg(test)]
        bound: progress.bound,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(n: usize) -> (Mat<f64>, Vec<f64>) {
        let x = Mat::from_fn(n, 3, |i, j| ((i * (3 * j + 2)) as f64 * 0.71).sin() * 1.5);
        let y = (0..n).map(|i| (2.0 * x[(i, 0)]).sin() + 0.3 * x[(i, 1)] + 0.05 * (i as f64 * 5.1).sin()).collect();
        (x, y)
    }

    #[test]
    fn gradient_matches_differences() {
        let (x, y) = example(40);
        for (linear, per_input) in [(false, true), (true, true), (true, false)] {
            let base = Fourier::new(3, 12, 1.0 / 3.0, 1);
            let weight: Vec<f64> = (0..40).map(|i| 1.0 + (i % 2) as f64).collect();
            let basis = Basis {
                inputs: x.as_ref(),
                target: &y,
                row_weight: &weight,
                base,
                per_input,
                linear,
                control: &Control::new(),
                par: Par::Seq,
                room: RefCell::new(Room::new(x.as_ref(), linear, 12)),
            };
            let variance: Vec<f64> = (0..40).map(|i| 0.1 + 0.01 * i as f64).collect();
            let values =
                if per_input { vec![0.2, -0.3, 0.1, 0.4, -0.2, 0.3] } else { vec![0.2, 0.2, 0.2, 0.4, -0.2, 0.3] };
            let cost = |values: &[f64]| basis.evaluate(values, &variance).unwrap().value.cost;
            let gradient = basis.evaluate(&values, &variance).unwrap().gradient;
            for k in 0..values.len() {
                let step = 1e-5;
                let moved = |sign: f64| {
                    let mut moved = values.clone();
                    if per_input || k >= 3 {
                        moved[k] += sign * step
                    } else {
                        moved[..3].iter_mut().for_each(|l| *l += sign * step)
                    }
                    cost(&moved)
                };
                let slope = (moved(1.0) - moved(-1.0)) / (2.0 * step);
                let found = if per_input || k >= 3 { gradient[k] } else { 3.0 * gradient[k] };
                assert!(
                    (slope - found).abs() < 1e-5 * (1.0 + slope.abs()),
                    "{linear} {per_input} {k}: {slope} {found}"
                );
            }
        }
    }

    /// The input that does not matter gets a long lengthscale, the wavy one a short one.
    #[test]
    fn lengthscales_tell_inputs_apart() {
        let (x, y) = example(200);
        for prior in ["contaminated", "student-t", "contaminated-t"] {
            let options = FourierOptions {
                features: 64,
                seed: 1,
                per_input: true,
                linear: false,
                noise: prior.parse().unwrap(),
                rounds: 8,
            };
            let learnt = learn_fourier(x.as_ref(), &y, &[1.0; 200], &options, &Control::new(), Par::Seq).unwrap();
            let l = &learnt.log_scales;
            assert!(l[0] > l[1] && l[1] > l[2], "{prior}: {l:?}");
            let more = learn_fourier(
                x.as_ref(),
                &y,
                &[1.0; 200],
                &FourierOptions { rounds: 12, ..options },
                &Control::new(),
                Par::Seq,
            );
            assert!(more.unwrap().bound <= learnt.bound + 1e-6);
        }
    }

    /// Bit for bit.
    #[test]
    fn threads_change_nothing() {
        let (x, y) = example(700);
        let options = FourierOptions {
            features: 150,
            seed: 3,
            per_input: true,
            linear: true,
            noise: "contaminated-t".parse().unwrap(),
            rounds: 3,
        };
        let weight = vec![1.0; 700];
        let [one, two] = [Par::Seq, Par::rayon(2)].map(|par| {
            let learnt = learn_fourier(x.as_ref(), &y, &weight, &options, &Control::new(), par).unwrap();
            let variance = learnt.noise_variance(x.as_ref(), &y, par);
            (learnt.log_scales, learnt.bound, variance)
        });
        assert_eq!(one, two);
    }
}
