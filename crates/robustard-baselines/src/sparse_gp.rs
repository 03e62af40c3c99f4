//! Sparse Gaussian process by Titsias' collapsed bound (2009), with inducing points among the rows that stay where they are.
//!
//! With A = K_mm, V = L⁻¹K_mn, A = LLᵀ, s = σ_n² and B = I + VVᵀ/s, the bound is
//! log N(y; 0, VᵀV + sI) − (nσ_f² − tr VVᵀ)/(2s).

use faer::{Mat, MatRef};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::cholesky::{Cholesky, lower_square};
use crate::error::{check_setting, check_training};
use crate::gp::{BLOCK, LogEvidence};
use crate::kernel::{KernelParameters, TargetScale, add_squares, kernel_matrix, squared_distances};
use crate::linear::{product, transposed_product};
use crate::optimise::{Evaluation, minimise};
use crate::{BaselineError, BaselinePrediction, FittedBaseline, Model};

/// Evaluations of the bound.
const MOST_EVALUATIONS: usize = 100;
/// Share of the signal variance that is added to the diagonal of K_mm.
const JITTER: f64 = 1e-6;

/// A sparse Gaussian process after training.
#[derive(Debug, Clone)]
pub(crate) struct SparseProcess {
    /// m × p.
    points: Mat<f64>,
    scale: TargetScale,
    parameters: KernelParameters,
    /// L.
    factor: Cholesky,
    /// Of B.
    inner: Cholesky,
    /// u: weights of the inducing points.
    weights: Vec<f64>,
}

pub(crate) fn fit(
    inputs: MatRef<'_, f64>,
    target: &[f64],
    points: usize,
    seed: u64,
) -> Result<FittedBaseline, BaselineError> {
    check_setting("the number of inducing points", points as f64, points > 0, "1 or more")?;
    let (n, p) = inputs.shape();
    let scale = TargetScale::of(target);
    let points = spread_points(inputs, points, &mut ChaCha8Rng::seed_from_u64(seed));
    let bound = Bound::new(inputs, points, scale.standardize(target));
    let cost = |logs: &[f64]| {
        let Evaluation { cost, gradient } = bound.evaluate(logs)?;
        Some(Evaluation { cost: cost / n as f64, gradient: gradient.iter().map(|g| g / n as f64).collect() })
    };
    let failed = BaselineError::Decomposition { what: "the kernel matrix of the inducing points" };
    let (minimum, state) =
        minimise(cost, &KernelParameters::start(1, p), &KernelParameters::bounds(1), MOST_EVALUATIONS)
            .and_then(|minimum| Some((minimum.clone(), bound.state(&KernelParameters::from_logs(&minimum.at))?)))
            .ok_or(failed)?;
    let State { factor, inner, weights, .. } = state;
    let weight_size = weights.iter().map(|u| u.abs()).collect();
    let parameters = KernelParameters::from_logs(&minimum.at);
    let process = SparseProcess { points: bound.points, scale, parameters, factor, inner, weights };
    let model = Model::SparseGp(Box::new(process));
    Ok(FittedBaseline { columns: p, model, weight_size, row_weight: vec![1.0; n], iterations: minimum.evaluations })
}

/// Rows far from each other: each is drawn with a probability proportional to its squared distance from those already drawn
/// (k-means++). Repeats of a row are not drawn, so that there may be fewer than asked for.
fn spread_points(inputs: MatRef<'_, f64>, points: usize, random: &mut ChaCha8Rng) -> Mat<f64> {
    let n = inputs.nrows();
    let columns: Vec<Vec<f64>> = inputs.col_iter().map(|column| column.iter().copied().collect()).collect();
    let mut chosen = vec![random.random_range(0..n)];
    let mut nearest = vec![f64::INFINITY; n];
    let mut square = vec![0.0; n];
    while chosen.len() < points {
        let last = chosen[chosen.len() - 1];
        square.fill(0.0);
        columns.iter().for_each(|x| add_squares(&mut square, x, x[last]));
        nearest.iter_mut().zip(&square).for_each(|(nearest, square)| *nearest = nearest.min(*square));
        let mut left = nearest.iter().sum::<f64>() * random.random::<f64>();
        let drawn = (0..n).filter(|i| nearest[*i] > 0.0).find(|i| {
            left -= nearest[*i];
            left <= 0.0
        });
        // Rounding may carry past the last row.
        let Some(row) = drawn.or_else(|| (0..n).rev().find(|i| nearest[*i] > 0.0)) else { break };
        chosen.push(row);
    }
    Mat::from_fn(chosen.len(), inputs.ncols(), |i, j| inputs[(chosen[i], j)])
}

impl SparseProcess {
    pub fn kernel_logs(&self) -> Vec<f64> {
        self.parameters.logs(self.scale)
    }

    pub fn predict(&self, inputs: MatRef<'_, f64>) -> BaselinePrediction {
        let Self { scale, parameters, .. } = self;
        let (mut mean, mut variance) = (Vec::new(), Vec::new());
        for start in (0..inputs.nrows()).step_by(BLOCK) {
            let block = inputs.subrows(start, BLOCK.min(inputs.nrows() - start));
            let mut cross = kernel_matrix(self.points.as_ref(), block, parameters);
            mean.extend(transposed_product(&cross, &self.weights).iter().map(|fit| scale.mean + scale.deviation * fit));
            self.factor.solve_half_of_columns(cross.as_mut());
            let prior: Vec<f64> = cross.col_iter().map(|column| column.squared_norm_l2()).collect();
            self.inner.solve_half_of_columns(cross.as_mut());
            variance.extend(cross.col_iter().zip(prior).map(|(column, prior)| {
                let latent = (parameters.signal - prior).max(0.0) + column.squared_norm_l2();
                scale.deviation.powi(2) * (latent + parameters.noise)
            }));
        }
        BaselinePrediction { mean, variance }
    }
}

/// The bound for a target with mean 0 as a function of the logs of ℓ, σ_f² and σ_n².
struct Bound {
    points: Mat<f64>,
    target: Vec<f64>,
    /// Squared distances of points, m × m, and of points and rows, m × n.
    point_squares: Mat<f64>,
    cross_squares: Mat<f64>,
}

struct State {
    /// K_mm without jitter and K_mn.
    point_kernel: Mat<f64>,
    cross_kernel: Mat<f64>,
    factor: Cholesky,
    /// V, m × n.
    image: Mat<f64>,
    /// B, lower triangle, and its factor.
    inner_matrix: Mat<f64>,
    inner: Cholesky,
    /// L_B⁻¹Vy/s.
    projected: Vec<f64>,
    /// u = (A + K_mn K_nm/s)⁻¹K_mn y/s.
    weights: Vec<f64>,
}

impl Bound {
    fn new(inputs: MatRef<'_, f64>, points: Mat<f64>, target: Vec<f64>) -> Self {
        let ones = vec![1.0; inputs.ncols()];
        let point_squares = squared_distances(points.as_ref(), points.as_ref(), &ones);
        let cross_squares = squared_distances(points.as_ref(), inputs, &ones);
        Self { points, target, point_squares, cross_squares }
    }

    /// None where a kernel matrix has no factor.
    fn state(&self, parameters: &KernelParameters) -> Option<State> {
        let m = self.points.nrows();
        let KernelParameters { signal, noise, .. } = *parameters;
        let point_kernel = correlate(&self.point_squares, parameters);
        let cross_kernel = correlate(&self.cross_squares, parameters);
        let mut steadied = point_kernel.clone();
        (0..m).for_each(|i| steadied[(i, i)] += JITTER * signal);
        let factor = Cholesky::new(steadied.as_ref())?;
        let mut image = cross_kernel.clone();
        factor.solve_half_of_columns(image.as_mut());
        let mut inner_matrix = lower_square(image.as_ref());
        for j in 0..m {
            inner_matrix.col_as_slice_mut(j).iter_mut().for_each(|b| *b /= noise);
            inner_matrix[(j, j)] += 1.0;
        }
        let inner = Cholesky::new(inner_matrix.as_ref())?;
        let mut projected = product(image.as_ref(), column(&self.target)).col_as_slice(0).to_vec();
        projected.iter_mut().for_each(|value| *value /= noise);
        inner.solve_half(&mut projected);
        let mut weights = projected.clone();
        inner.solve_other_half(&mut weights);
        factor.solve_other_half(&mut weights);
        Some(State { point_kernel, cross_kernel, factor, image, inner_matrix, inner, projected, weights })
    }

    /// Minus the bound and its gradient.
    fn evaluate(&self, logs: &[f64]) -> Option<Evaluation> {
        let parameters = KernelParameters::from_logs(logs);
        let state = self.state(&parameters)?;
        let KernelParameters { signal, noise, .. } = parameters;
        let n = self.target.len() as f64;
        let target_square: f64 = self.target.iter().map(|y| y * y).sum();
        let explained: f64 = state.projected.iter().map(|c| c * c).sum();
        let cost = 0.5
            * (n * (std::f64::consts::TAU * noise).ln() + state.inner.log_determinant() + target_square / noise
                - explained
                + (n * signal - state.image.squared_norm_l2()) / noise);
        cost.is_finite().then(|| Evaluation { cost, gradient: self.gradient(&state, &parameters) })
    }

    /// With Σ = LBLᵀ and α = (y − K_nm u)/s, the bound changes with K_mn by uαᵀ + L⁻ᵀ(I − B⁻¹)V/s and with A by
    /// −½(uuᵀ + L⁻ᵀ(B − 2I + B⁻¹)L⁻¹).
    fn gradient(&self, state: &State, parameters: &KernelParameters) -> Vec<f64> {
        let KernelParameters { lengthscales, signal, noise } = parameters;
        let State { point_kernel, cross_kernel, factor, image, inner_matrix, inner, weights, .. } = state;
        let (m, n) = image.shape();
        let fitted = transposed_product(cross_kernel, weights);
        let dual: Vec<f64> = self.target.iter().zip(fitted).map(|(y, f)| (y - f) / noise).collect();

        let inverse_half = factor.inverse_half();
        let inner_inverse = inner.inverse();
        let identity = |i: usize, j: usize| f64::from(i == j);
        let symmetric = |matrix: &Mat<f64>, i: usize, j: usize| matrix[(i.max(j), i.min(j))];
        let shrink = Mat::from_fn(m, m, |i, j| (identity(i, j) - symmetric(&inner_inverse, i, j)) / noise);
        let excess = Mat::from_fn(m, m, |i, j| {
            symmetric(inner_matrix, i, j) - 2.0 * identity(i, j) + symmetric(&inner_inverse, i, j)
        });
        let by_cross = product(product(inverse_half.transpose(), shrink.as_ref()).as_ref(), image.as_ref());
        let by_points = product(product(inverse_half.transpose(), excess.as_ref()).as_ref(), inverse_half.as_ref());

        // The bound's slopes by log ℓ², and by log σ_f².
        let (mut by_square, mut by_signal) = (0.0, -0.5 * n as f64 * signal / noise);
        for j in 0..n {
            for i in 0..m {
                let slope = (weights[i] * dual[j] + by_cross[(i, j)]) * cross_kernel[(i, j)];
                by_signal += slope;
                by_square += slope * self.cross_squares[(i, j)];
            }
        }
        for j in 0..m {
            for i in 0..m {
                let slope = -0.5 * (weights[i] * weights[j] + by_points[(i, j)]);
                by_signal += slope * (point_kernel[(i, j)] + JITTER * signal * identity(i, j));
                by_square += slope * point_kernel[(i, j)] * self.point_squares[(i, j)];
            }
        }
        let by_lengthscale = by_square / lengthscales[0].powi(2);

        let dual_square: f64 = dual.iter().map(|a| a * a).sum();
        let free = n as f64 - m as f64 + (0..m).map(|i| inner_inverse[(i, i)]).sum::<f64>();
        let unexplained = n as f64 * signal - image.squared_norm_l2();
        let by_noise = 0.5 * (noise * dual_square - free + unexplained / noise);
        vec![-by_lengthscale, -by_signal, -by_noise]
    }
}

fn correlate(squares: &Mat<f64>, parameters: &KernelParameters) -> Mat<f64> {
    let factor = -0.5 / parameters.lengthscales[0].powi(2);
    Mat::from_fn(squares.nrows(), squares.ncols(), |i, j| parameters.signal * (factor * squares[(i, j)]).exp())
}

fn column(values: &[f64]) -> MatRef<'_, f64> {
    MatRef::from_column_major_slice(values, values.len(), 1)
}

/// The bound for a target, taken as it is, with these inducing points (m × p), at logs of ℓ, σ_f² and σ_n².
#[doc(hidden)]
pub fn sparse_gp_bound(
    inputs: MatRef<'_, f64>,
    target: &[f64],
    points: MatRef<'_, f64>,
    logs: &[f64],
) -> Result<LogEvidence, BaselineError> {
    check_training(inputs, target)?;
    let bound = Bound::new(inputs, points.to_owned(), target.to_vec());
    let failed = BaselineError::Decomposition { what: "the kernel matrix of the inducing points" };
    Ok(bound.evaluate(logs).ok_or(failed)?.into())
}
