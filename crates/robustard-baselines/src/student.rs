//! Regression with Student-t noise by EM (Geweke 1993): yᵢ ~ N(xᵢᵀθ + c, λᵢ), λᵢ = s²/τᵢ, τᵢ ~ Gamma(ν/2, ν/2) with ν given.

use faer::{Mat, MatRef};

use crate::cholesky::Cholesky;
use crate::error::check_setting;
use crate::linear::{
    Directions, LinearModel, Outside, intercept, least_squares, least_variance, mean, median, product, residuals,
    transposed_product, weighted_gram,
};
use crate::{BaselineError, FittedBaseline};

/// Prior precision of the weights, of the mean square sum of the columns and in units of 1/s².
const RIDGE_SHARE: f64 = 1e-6;
const MOST_ITERATIONS: usize = 500;
/// The last iteration changes s² and the fitted values, in units of s, by a smaller share.
const LEAST_CHANGE: f64 = 1e-8;
/// Median of |z| for standard normal z.
const MEDIAN_OF_NORMAL: f64 = 0.674_489_750_196_081_7;

/// The variance of a new observation is the mean of the λᵢ plus that of the regression function with the λᵢ taken as known.
pub(crate) fn fit(inputs: MatRef<'_, f64>, target: &[f64], degrees: f64) -> Result<FittedBaseline, BaselineError> {
    check_setting("the degrees of freedom", degrees, degrees > 0.0 && degrees.is_finite(), "a number above 0")?;
    let directions = Directions::new(inputs)?;
    let design = directions.design();
    let ridge = RIDGE_SHARE * directions.mean_square_sum();
    let least = least_variance(target);

    let mut residual = start(&directions, inputs, target);
    let sizes: Vec<f64> = residual.iter().map(|r| r.abs()).collect();
    let mut scale_square = (median(sizes) / MEDIAN_OF_NORMAL).powi(2).max(least);
    let mut weights = vec![0.0; design.ncols()];
    let mut iterations = 0;
    while iterations < MOST_ITERATIONS {
        iterations += 1;
        let tau = expected_precision(&residual, scale_square, degrees);
        weights = solve_weighted(&design, target, &tau, ridge)?;
        let next = residuals(&design, target, &weights);
        // Dividing by Στ in place of n has the same fixed point and gets there sooner (Kent, Tyler & Vardi 1994).
        let weighted_square: f64 = next.iter().zip(&tau).map(|(r, t)| t * r * r).sum();
        let next_square = (weighted_square / tau.iter().sum::<f64>()).max(least);
        let moved = next.iter().zip(&residual).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let is_settled = (next_square - scale_square).abs() <= LEAST_CHANGE * scale_square
            && moved <= LEAST_CHANGE * next_square.sqrt();
        (residual, scale_square) = (next, next_square);
        if is_settled {
            break;
        }
    }
    let precision: Vec<f64> =
        expected_precision(&residual, scale_square, degrees).iter().map(|t| t / scale_square).collect();
    let model = model(&directions, &design, &weights, &precision, ridge / scale_square)?;
    let sizes = model.coefficient_sizes();
    Ok(model.fitted(sizes, precision, iterations))
}

/// Residuals of least squares, of ridge regression when least squares would leave none.
fn start(directions: &Directions, inputs: MatRef<'_, f64>, target: &[f64]) -> Vec<f64> {
    let alpha = if directions.is_saturated() { directions.mean_square_sum() } else { 0.0 };
    let fitted = least_squares(directions, target, alpha).predict(inputs).mean;
    target.iter().zip(fitted).map(|(y, f)| y - f).collect()
}

/// E-step: τᵢ = (ν + 1)/(ν + rᵢ²/s²).
fn expected_precision(residual: &[f64], scale_square: f64, degrees: f64) -> Vec<f64> {
    residual.iter().map(|r| (degrees + 1.0) / (degrees + r * r / scale_square)).collect()
}

/// M-step: weighted least squares on the directions' scores.
fn solve_weighted(design: &Mat<f64>, target: &[f64], tau: &[f64], ridge: f64) -> Result<Vec<f64>, BaselineError> {
    let mut normal = weighted_gram(design, tau);
    for i in 0..design.ncols() - 1 {
        normal[(i, i)] += ridge;
    }
    let weighted: Vec<f64> = target.iter().zip(tau).map(|(y, t)| y * t).collect();
    let mut weights = transposed_product(design, &weighted);
    factor(&normal)?.solve(&mut weights);
    Ok(weights)
}

fn factor(normal: &Mat<f64>) -> Result<Cholesky, BaselineError> {
    Cholesky::new(normal.as_ref()).ok_or(BaselineError::Decomposition { what: "the matrix of the normal equations" })
}

/// The model on the columns, with its variance around the mean of the rows weighted by 1/λᵢ.
fn model(
    directions: &Directions,
    design: &Mat<f64>,
    weights: &[f64],
    precision: &[f64],
    ridge: f64,
) -> Result<LinearModel, BaselineError> {
    let (shift, slopes) = weights.split_last().expect("the intercept");
    let coefficients = directions.coefficients(slopes);
    let rank = directions.rank();
    let total: f64 = precision.iter().sum();
    let mean_score: Vec<f64> = transposed_product(design, precision)[..rank].iter().map(|sum| sum / total).collect();
    let around = Mat::from_fn(design.nrows(), rank, |i, j| design[(i, j)] - mean_score[j]);
    let mut curvature = weighted_gram(&around, precision);
    for i in 0..rank {
        curvature[(i, i)] += ridge;
    }
    let to_weighted_mean = directions.coefficients(&mean_score);
    let noise: Vec<f64> = precision.iter().map(|p| 1.0 / p).collect();
    Ok(LinearModel {
        intercept: intercept(*shift, &directions.centre, &coefficients),
        coefficients,
        centre: directions.centre.iter().zip(to_weighted_mean).map(|(m, d)| m + d).collect(),
        base_variance: mean(&noise) + 1.0 / total,
        spread: product(directions.right.as_ref(), factor(&curvature)?.inverse_half().transpose()),
        outside: (rank < directions.columns())
            .then(|| Outside { basis: directions.right.clone(), variance: 1.0 / ridge }),
    })
}
