//! Linear models: what all of them share, least squares and ridge regression.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef};

use crate::cholesky::lower_square;
use crate::error::check_setting;
use crate::{BaselineError, BaselinePrediction, FittedBaseline, Model, parallelism};

/// Variances are at least this share of the target's mean square, so that an exact fit has a proper distribution.
const LEAST_VARIANCE_SHARE: f64 = 1e-12;
/// Decades of the penalty to either side of the mean square sum of the columns, and grid points in each.
const GRID_DECADES: i32 = 6;
const GRID_PER_DECADE: i32 = 4;

/// How the penalty α of ridge regression, min ‖y − Xw − c‖² + α‖w‖², is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Penalty {
    /// This value, at least 0.
    Given(f64),
    /// The one with the smallest leave-one-out error, of a grid from 10⁻⁶ to 10⁶ of the columns' mean square sum.
    LeaveOneOut,
}

/// A linear predictor with a variance that is quadratic in the distance from the centre.
#[derive(Debug, Clone)]
pub(crate) struct LinearModel {
    pub coefficients: Vec<f64>,
    pub intercept: f64,
    /// Where the variance is smallest, p.
    pub centre: Vec<f64>,
    /// Variance at the centre, noise included.
    pub base_variance: f64,
    /// p × k; the variance grows by ‖spreadᵀ(x − centre)‖².
    pub spread: Mat<f64>,
    pub outside: Option<Outside>,
}

/// Variance in directions in which the training rows do not vary.
#[derive(Debug, Clone)]
pub(crate) struct Outside {
    /// Orthonormal directions in which they do, p × k.
    pub basis: Mat<f64>,
    /// Variance per squared distance in all others.
    pub variance: f64,
}

impl LinearModel {
    pub fn predict(&self, inputs: MatRef<'_, f64>) -> BaselinePrediction {
        let mut mean = vec![self.intercept; inputs.nrows()];
        for (column, weight) in inputs.col_iter().zip(&self.coefficients) {
            mean.iter_mut().zip(column.iter()).for_each(|(mean, x)| *mean += weight * x);
        }
        let shifted = Mat::from_fn(inputs.nrows(), inputs.ncols(), |i, j| inputs[(i, j)] - self.centre[j]);
        let mut variance = vec![self.base_variance; inputs.nrows()];
        add_row_squares(&mut variance, product(shifted.as_ref(), self.spread.as_ref()).as_ref());
        if let Some(Outside { basis, variance: slope }) = &self.outside {
            let mut all = vec![0.0; inputs.nrows()];
            let mut inside = all.clone();
            add_row_squares(&mut all, shifted.as_ref());
            add_row_squares(&mut inside, product(shifted.as_ref(), basis.as_ref()).as_ref());
            for (variance, (all, inside)) in variance.iter_mut().zip(all.iter().zip(inside)) {
                *variance += slope * (all - inside).max(0.0);
            }
        }
        BaselinePrediction { mean, variance }
    }

    pub fn fitted(self, weight_size: Vec<f64>, row_weight: Vec<f64>, iterations: usize) -> FittedBaseline {
        FittedBaseline {
            columns: self.coefficients.len(),
            model: Model::Linear(self),
            weight_size,
            row_weight,
            iterations,
        }
    }

    pub fn coefficient_sizes(&self) -> Vec<f64> {
        self.coefficients.iter().map(|weight| weight.abs()).collect()
    }
}

pub(crate) fn product(left: MatRef<'_, f64>, right: MatRef<'_, f64>) -> Mat<f64> {
    let mut result = Mat::zeros(left.nrows(), right.ncols());
    matmul(result.as_mut(), Accum::Replace, left, right, 1.0, parallelism(left.nrows().max(right.ncols())));
    result
}

fn add_row_squares(sums: &mut [f64], matrix: MatRef<'_, f64>) {
    for column in matrix.col_iter() {
        sums.iter_mut().zip(column.iter()).for_each(|(sum, value)| *sum += value * value);
    }
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The variance below which no estimate goes.
pub(crate) fn least_variance(target: &[f64]) -> f64 {
    let mean_square = target.iter().map(|y| y * y / target.len() as f64).sum::<f64>();
    (LEAST_VARIANCE_SHARE * mean_square).max(f64::MIN_POSITIVE.sqrt())
}

/// Inputs around their mean by singular values, Xᶜ = U S Vᵀ, without the directions that have no extent.
pub(crate) struct Directions {
    /// Column means m, p.
    pub centre: Vec<f64>,
    /// U, n × k.
    pub left: Mat<f64>,
    /// Diagonal of S, k, all positive.
    pub extent: Vec<f64>,
    /// V, p × k.
    pub right: Mat<f64>,
}

impl Directions {
    pub fn new(inputs: MatRef<'_, f64>) -> Result<Self, BaselineError> {
        let (n, p) = inputs.shape();
        let centre: Vec<f64> = inputs.col_iter().map(|column| column.iter().sum::<f64>() / n as f64).collect();
        let centred = Mat::from_fn(n, p, |i, j| inputs[(i, j)] - centre[j]);
        let svd = centred.thin_svd().map_err(|_| BaselineError::Decomposition { what: "the matrix of inputs" })?;
        let extent: Vec<f64> = svd.S().column_vector().iter().copied().collect();
        // numpy's rule; the means count too, as columns that are constant up to rounding have extents of that order.
        let of_means = (n as f64 * centre.iter().map(|m| m * m).sum::<f64>()).sqrt();
        let largest = extent.iter().copied().fold(of_means, f64::max);
        let cut = f64::EPSILON * n.max(p) as f64 * largest;
        let rank = extent.iter().take_while(|s| **s > cut).count();
        Ok(Self {
            centre,
            left: svd.U().subcols(0, rank).to_owned(),
            extent: extent[..rank].to_vec(),
            right: svd.V().subcols(0, rank).to_owned(),
        })
    }

    pub fn rows(&self) -> usize {
        self.left.nrows()
    }

    pub fn columns(&self) -> usize {
        self.right.nrows()
    }

    pub fn rank(&self) -> usize {
        self.extent.len()
    }

    /// Whether the directions and the intercept fit any target exactly.
    pub fn is_saturated(&self) -> bool {
        self.rank() + 1 >= self.rows()
    }

    /// Uᵀ(y − ȳ).
    fn projected(&self, centred_target: &[f64]) -> Vec<f64> {
        self.left.col_iter().map(|u| u.iter().zip(centred_target).map(|(u, y)| u * y).sum()).collect()
    }

    /// V β: weights per column from weights per direction.
    pub fn coefficients(&self, weights: &[f64]) -> Vec<f64> {
        let mut coefficients = vec![0.0; self.columns()];
        for (direction, weight) in self.right.col_iter().zip(weights) {
            coefficients.iter_mut().zip(direction.iter()).for_each(|(sum, v)| *sum += weight * v);
        }
        coefficients
    }

    /// n × (k + 1): the scores U S, then ones.
    pub fn design(&self) -> Mat<f64> {
        let rank = self.rank();
        Mat::from_fn(self.rows(), rank + 1, |i, j| if j < rank { self.extent[j] * self.left[(i, j)] } else { 1.0 })
    }

    /// V with each column multiplied.
    fn scaled_basis(&self, factors: &[f64]) -> Mat<f64> {
        Mat::from_fn(self.columns(), self.rank(), |i, j| factors[j] * self.right[(i, j)])
    }

    /// Mean square sum of the centred columns; n when they are standardized, 1 when all are constant.
    pub fn mean_square_sum(&self) -> f64 {
        let mean = self.extent.iter().map(|s| s * s).sum::<f64>() / self.columns() as f64;
        if mean > 0.0 { mean } else { 1.0 }
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { 0.5 * (values[half - 1] + values[half]) }
}

pub(crate) fn residuals(design: &Mat<f64>, target: &[f64], weights: &[f64]) -> Vec<f64> {
    let mut residual = target.to_vec();
    for (column, weight) in design.col_iter().zip(weights) {
        residual.iter_mut().zip(column.iter()).for_each(|(r, x)| *r -= weight * x);
    }
    residual
}

/// Xᵀ diag(w) X, lower triangle.
pub(crate) fn weighted_gram(design: &Mat<f64>, weights: &[f64]) -> Mat<f64> {
    let roots: Vec<f64> = weights.iter().map(|w| w.sqrt()).collect();
    let scaled = Mat::from_fn(design.nrows(), design.ncols(), |i, j| roots[i] * design[(i, j)]);
    lower_square(scaled.transpose())
}

/// Xᵀv.
pub(crate) fn transposed_product(design: &Mat<f64>, values: &[f64]) -> Vec<f64> {
    design.col_iter().map(|column| column.iter().zip(values).map(|(x, v)| x * v).sum()).collect()
}

/// Intercept that goes with weights for inputs and a target with these means.
pub(crate) fn intercept(target_mean: f64, centre: &[f64], coefficients: &[f64]) -> f64 {
    target_mean - centre.iter().zip(coefficients).map(|(m, w)| m * w).sum::<f64>()
}

pub(crate) fn fit_ols(inputs: MatRef<'_, f64>, target: &[f64]) -> Result<FittedBaseline, BaselineError> {
    let model = least_squares(&Directions::new(inputs)?, target, 0.0);
    Ok(model.fitted(vec![1.0; inputs.ncols()], vec![1.0; target.len()], 1))
}

pub(crate) fn fit_ridge(
    inputs: MatRef<'_, f64>,
    target: &[f64],
    penalty: Penalty,
) -> Result<FittedBaseline, BaselineError> {
    if let Penalty::Given(alpha) = penalty {
        check_setting("the ridge penalty", alpha, alpha >= 0.0 && alpha.is_finite(), "a finite number, 0 or more")?;
    }
    let directions = Directions::new(inputs)?;
    let alpha = match penalty {
        Penalty::Given(alpha) => alpha,
        Penalty::LeaveOneOut => best_penalty(&directions, target),
    };
    let model = least_squares(&directions, target, alpha);
    let sizes = model.coefficient_sizes();
    Ok(model.fitted(sizes, vec![1.0; target.len()], 1))
}

/// Least squares with penalty α; of smallest norm for α = 0.
pub(crate) fn least_squares(directions: &Directions, target: &[f64], alpha: f64) -> LinearModel {
    let (n, rank) = (target.len() as f64, directions.rank() as f64);
    let target_mean = mean(target);
    let centred: Vec<f64> = target.iter().map(|y| y - target_mean).collect();
    let projected = directions.projected(&centred);
    let weights: Vec<f64> = directions.extent.iter().zip(&projected).map(|(s, b)| s * b / (s * s + alpha)).collect();
    let coefficients = directions.coefficients(&weights);

    let residual_square: f64 = shrunk_residuals(directions, &centred, &projected, alpha).iter().map(|r| r * r).sum();
    // n less the degrees of freedom, 1 + Σ s²/(s² + α), without cancellation.
    let free = (n - 1.0 - rank).max(0.0) + directions.extent.iter().map(|s| alpha / (s * s + alpha)).sum::<f64>();
    let noise = (residual_square / if free > 0.0 { free } else { n }).max(least_variance(target));

    let factors: Vec<f64> = directions.extent.iter().map(|s| (noise / (s * s + alpha)).sqrt()).collect();
    let has_outside = alpha > 0.0 && directions.rank() < directions.columns();
    LinearModel {
        intercept: intercept(target_mean, &directions.centre, &coefficients),
        coefficients,
        centre: directions.centre.clone(),
        base_variance: noise * (1.0 + 1.0 / n),
        spread: directions.scaled_basis(&factors),
        outside: has_outside.then(|| Outside { basis: directions.right.clone(), variance: noise / alpha }),
    }
}

/// y − ȳ less its fit: what no direction explains, and the share α/(s² + α) of what directions would explain.
fn shrunk_residuals(directions: &Directions, centred: &[f64], projected: &[f64], alpha: f64) -> Vec<f64> {
    let mut residual = if directions.is_saturated() { vec![0.0; centred.len()] } else { centred.to_vec() };
    for ((u, s), b) in directions.left.col_iter().zip(&directions.extent).zip(projected) {
        let kept = alpha / (s * s + alpha);
        let factor = if directions.is_saturated() { kept } else { kept - 1.0 };
        residual.iter_mut().zip(u.iter()).for_each(|(r, u)| *r += factor * b * u);
    }
    residual
}

fn best_penalty(directions: &Directions, target: &[f64]) -> f64 {
    let unit = directions.mean_square_sum();
    let steps = -GRID_DECADES * GRID_PER_DECADE..=GRID_DECADES * GRID_PER_DECADE;
    let grid: Vec<f64> = steps.map(|step| unit * 10f64.powf(f64::from(step) / f64::from(GRID_PER_DECADE))).collect();
    let errors = leave_one_out_errors(directions, target, &grid);
    // No row can be left out of one, and no penalty matters when all columns are constant: the errors are NaN or equal.
    let best = errors.iter().zip(&grid).filter(|(error, _)| error.is_finite()).min_by(|a, b| a.0.total_cmp(b.0));
    best.map_or(unit, |(_, alpha)| *alpha)
}

/// Mean squared error of each row predicted from all others, for each penalty α: rᵢ/(1 − hᵢ) with leverage hᵢ.
fn leave_one_out_errors(directions: &Directions, target: &[f64], penalties: &[f64]) -> Vec<f64> {
    let n = target.len();
    let target_mean = mean(target);
    let centred: Vec<f64> = target.iter().map(|y| y - target_mean).collect();
    let projected = directions.projected(&centred);
    // 1 − hᵢ as α goes to 0.
    let mut unexplained = vec![0.0; n];
    if !directions.is_saturated() {
        unexplained.fill(1.0 - 1.0 / n as f64);
        for u in directions.left.col_iter() {
            unexplained.iter_mut().zip(u.iter()).for_each(|(free, u)| *free -= u * u);
        }
    }
    let error = |alpha: f64| {
        let residual = shrunk_residuals(directions, &centred, &projected, alpha);
        let mut free = unexplained.clone();
        for (u, s) in directions.left.col_iter().zip(&directions.extent) {
            let kept = alpha / (s * s + alpha);
            free.iter_mut().zip(u.iter()).for_each(|(free, u)| *free += kept * u * u);
        }
        residual.iter().zip(free).map(|(r, free)| (r / free).powi(2)).sum::<f64>() / n as f64
    };
    penalties.iter().map(|alpha| error(*alpha)).collect()
}

/// Leave-one-out errors of ridge regression for given penalties, as `Penalty::LeaveOneOut` compares them.
#[doc(hidden)]
pub fn ridge_leave_one_out(
    inputs: MatRef<'_, f64>,
    target: &[f64],
    penalties: &[f64],
) -> Result<Vec<f64>, BaselineError> {
    crate::error::check_training(inputs, target)?;
    Ok(leave_one_out_errors(&Directions::new(inputs)?, target, penalties))
}
