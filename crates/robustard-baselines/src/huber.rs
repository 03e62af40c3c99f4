//! Huber's regression with the scale estimated along, scikit-learn's `HuberRegressor`:
//! min over w, c and σ > 0 of Σ [σ + σH((yᵢ − xᵢᵀw − c)/σ)] + α‖w‖², with H(z) = z² up to |z| = ε and 2ε|z| − ε² beyond.
//!
//! The objective is convex. Newton steps are taken jointly in w, c and σ; where they fail, a step of iteratively reweighted
//! least squares. The best σ for given residuals is found exactly.

use faer::{Mat, MatRef};

use crate::cholesky::Cholesky;
use crate::linear::{
    Directions, LinearModel, intercept, least_variance, median, residuals, transposed_product, weighted_gram,
};
use crate::{BaselineError, FittedBaseline};

/// ε and α, scikit-learn's defaults.
const EPSILON: f64 = 1.35;
const PENALTY: f64 = 1e-4;
/// σ of normal noise of variance 1: E min((z/σ)², ε²) = 1.
const SCALE_OF_NORMAL: f64 = 0.6812560123697209;
const MOST_ITERATIONS: usize = 500;
const POLISHING_STEPS: usize = 5;
/// σ is at least this share of the target's root mean square: small, as gross errors may make up most of that.
const LEAST_SCALE_SHARE: f64 = 1e-10;
/// A step that promises or brings no more than this share of the objective is the last.
const LEAST_GAIN: f64 = 1e-15;
/// Halvings of a Newton step, and the share of the promised decrease that it must bring.
const HALVINGS: usize = 8;
const ACCEPTED_SHARE: f64 = 1e-4;

/// The variance of a new observation is that of normal noise with the scale found, (σ/0.681)², everywhere: gross errors are
/// not part of it, nor is the uncertainty of the weights.
pub(crate) fn fit(inputs: MatRef<'_, f64>, target: &[f64]) -> Result<FittedBaseline, BaselineError> {
    let directions = Directions::new(inputs)?;
    let (state, iterations) = Problem::new(&directions, target).solve();
    let (shift, weights) = state.weights.split_last().expect("the intercept");
    let coefficients = directions.coefficients(weights);
    let row_weight = state.residual.iter().map(|r| (EPSILON * state.scale / r.abs()).min(1.0)).collect();
    let model = LinearModel {
        intercept: intercept(*shift, &directions.centre, &coefficients),
        coefficients,
        centre: directions.centre.clone(),
        base_variance: (state.scale / SCALE_OF_NORMAL).powi(2).max(least_variance(target)),
        spread: Mat::zeros(inputs.ncols(), 0),
        outside: None,
    };
    let sizes = model.coefficient_sizes();
    Ok(model.fitted(sizes, row_weight, iterations))
}

/// The regression on the directions of the inputs: weights outside of them are 0 at the optimum.
struct Problem<'a> {
    /// n × (k + 1): the directions' scores, then ones.
    design: Mat<f64>,
    target: &'a [f64],
    least_scale: f64,
}

#[derive(Debug, Clone)]
struct State {
    /// k + 1, the last is the intercept.
    weights: Vec<f64>,
    scale: f64,
    residual: Vec<f64>,
    objective: f64,
}

impl<'a> Problem<'a> {
    fn new(directions: &Directions, target: &'a [f64]) -> Self {
        let least_scale = (LEAST_SCALE_SHARE * root_mean_square(target)).max(f64::MIN_POSITIVE.sqrt());
        Self { design: directions.design(), target, least_scale }
    }

    fn solve(&self) -> (State, usize) {
        let (state, iterations) = self.descend(self.start());
        (self.polish(state), iterations)
    }

    fn descend(&self, mut state: State) -> (State, usize) {
        for iteration in 1..=MOST_ITERATIONS {
            let next = self.newton_step(&state).or_else(|| self.reweighted_step(&state));
            let Some(next) = next else { return (state, iteration) };
            let gain = state.objective - next.objective;
            let is_last = gain <= LEAST_GAIN * state.objective.abs();
            if gain >= 0.0 {
                state = next;
            }
            if is_last {
                return (state, iteration);
            }
        }
        (state, MOST_ITERATIONS)
    }

    fn start(&self) -> State {
        let mut weights = vec![0.0; self.design.ncols()];
        *weights.last_mut().expect("the intercept") = median(self.target.to_vec());
        self.with_best_scale(weights)
    }

    fn state(&self, weights: Vec<f64>, scale: f64) -> State {
        let residual = residuals(&self.design, self.target, &weights);
        let objective = objective(&residual, &weights, scale);
        State { weights, scale, residual, objective }
    }

    fn with_best_scale(&self, weights: Vec<f64>) -> State {
        let residual = residuals(&self.design, self.target, &weights);
        let scale = best_scale(&residual).max(self.least_scale);
        let objective = objective(&residual, &weights, scale);
        State { weights, scale, residual, objective }
    }

    /// A joint step in weights and scale, then the best scale; None where it would not lower the objective.
    fn newton_step(&self, state: &State) -> Option<State> {
        let gradient = self.gradient(state);
        let step = self.newton_direction(state, &gradient)?;
        let promise: f64 = step.iter().zip(&gradient).map(|(s, g)| s * g).sum();
        let mut length = 1.0;
        for _ in 0..HALVINGS {
            let next = self.moved(state, &step, length);
            if state.objective - next.objective > ACCEPTED_SHARE * length * promise {
                let settled = self.with_best_scale(next.weights.clone());
                return Some(if settled.objective < next.objective { settled } else { next });
            }
            length *= 0.5;
        }
        None
    }

    /// Newton steps for as long as they shorten the gradient: it still tells where the objective is lost in rounding.
    fn polish(&self, mut state: State) -> State {
        let mut gradient = self.gradient(&state);
        for _ in 0..POLISHING_STEPS {
            let Some(step) = self.newton_direction(&state, &gradient) else { break };
            let next = self.moved(&state, &step, 1.0);
            let next_gradient = self.gradient(&next);
            let worth = LEAST_GAIN.sqrt() * state.objective.abs();
            if squared_norm(&next_gradient) >= squared_norm(&gradient) || next.objective - state.objective > worth {
                break;
            }
            (state, gradient) = (next, next_gradient);
        }
        state
    }

    fn moved(&self, state: &State, step: &[f64], length: f64) -> State {
        let weights: Vec<f64> = state.weights.iter().zip(step).map(|(w, s)| w - length * s).collect();
        let scale = state.scale - length * step[weights.len()];
        self.state(weights, scale.max(self.least_scale))
    }

    /// By the weights, then the scale; 0 for a scale that is kept from going below its bound.
    fn gradient(&self, state: &State) -> Vec<f64> {
        let columns = state.weights.len();
        let pull: Vec<f64> = state.residual.iter().map(|r| (r / state.scale).clamp(-EPSILON, EPSILON)).collect();
        let mut gradient: Vec<f64> = transposed_product(&self.design, &pull).iter().map(|sum| -2.0 * sum).collect();
        for (i, weight) in state.weights.iter().enumerate() {
            gradient[i] += penalty(i, i, columns) * weight;
        }
        let by_scale: f64 = pull.iter().map(|z| 1.0 - z * z).sum();
        let is_kept = state.scale <= self.least_scale && by_scale > 0.0;
        gradient.push(if is_kept { 0.0 } else { by_scale });
        gradient
    }

    /// H⁻¹g, with a scale of no slope left alone.
    fn newton_direction(&self, state: &State, gradient: &[f64]) -> Option<Vec<f64>> {
        let State { weights, scale, residual, .. } = state;
        let columns = weights.len();
        let inlier: Vec<f64> = residual.iter().map(|r| f64::from(r.abs() <= EPSILON * scale)).collect();
        let inlier_residual: Vec<f64> = residual.iter().zip(&inlier).map(|(r, inlier)| r * inlier).collect();
        let gram = weighted_gram(&self.design, &inlier);
        let of_scale = transposed_product(&self.design, &inlier_residual);
        let hessian = Mat::from_fn(columns + 1, columns + 1, |i, j| match (i == columns, j == columns) {
            (true, true) => 2.0 * squared_norm(&inlier_residual) / scale.powi(3),
            (true, false) => 2.0 * of_scale[j] / (scale * scale),
            (false, true) => 2.0 * of_scale[i] / (scale * scale),
            (false, false) => 2.0 * gram[(i, j)] / scale + penalty(i, j, columns),
        });
        let moving = if gradient[columns] == 0.0 { columns } else { columns + 1 };
        let mut step = gradient.to_vec();
        Cholesky::new(hessian.submatrix(0, 0, moving, moving))?.solve(&mut step[..moving]);
        Some(step)
    }

    /// Weighted least squares with weights min(1, εσ/|r|), then the best scale; never raises the objective.
    fn reweighted_step(&self, state: &State) -> Option<State> {
        let columns = state.weights.len();
        let row_weight: Vec<f64> = state.residual.iter().map(|r| (EPSILON * state.scale / r.abs()).min(1.0)).collect();
        let mut normal = weighted_gram(&self.design, &row_weight);
        for i in 0..columns {
            normal[(i, i)] += 0.5 * penalty(i, i, columns) * state.scale;
        }
        let weighted: Vec<f64> = self.target.iter().zip(&row_weight).map(|(y, w)| y * w).collect();
        let mut weights = transposed_product(&self.design, &weighted);
        Cholesky::new(normal.as_ref())?.solve(&mut weights);
        Some(self.with_best_scale(weights))
    }
}

fn root_mean_square(values: &[f64]) -> f64 {
    (squared_norm(values) / values.len() as f64).sqrt()
}

/// Second derivative of α‖w‖²; the intercept, the last of the columns, is free.
fn penalty(i: usize, j: usize, columns: usize) -> f64 {
    if i == j && i + 1 < columns { 2.0 * PENALTY } else { 0.0 }
}

fn squared_norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum()
}

fn objective(residual: &[f64], weights: &[f64], scale: f64) -> f64 {
    let losses = residual.iter().map(|r| {
        let z = (r / scale).abs();
        scale * (1.0 + if z <= EPSILON { z * z } else { EPSILON * (2.0 * z - EPSILON) })
    });
    let slopes = &weights[..weights.len() - 1];
    losses.sum::<f64>() + PENALTY * squared_norm(slopes)
}

/// The σ with Σ min((r/σ)², ε²) = n; 0 when so many residuals are 0 that there is none.
fn best_scale(residual: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = residual.iter().map(|r| r.abs()).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    let mut inlier_square = vec![0.0];
    inlier_square.extend(sizes.iter().scan(0.0, |sum, r| {
        *sum += r * r;
        Some(*sum)
    }));
    for inliers in (1..=sizes.len()).rev() {
        let outliers = (sizes.len() - inliers) as f64;
        let rest = sizes.len() as f64 - outliers * EPSILON * EPSILON;
        let scale = (inlier_square[inliers] / rest.max(f64::MIN_POSITIVE)).sqrt();
        if rest <= 0.0 || sizes[inliers - 1] <= EPSILON * scale {
            return if rest > 0.0 { scale } else { 0.0 };
        }
    }
    0.0
}
