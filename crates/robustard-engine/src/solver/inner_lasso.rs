//! The inner problem of ℓ1-IRLS, usable alone:
//!
//! min over θ of Σ cᵢrᵢ² + 2 Σ w_g‖θ_g‖ + 2 Σ vᵢ|rᵢ|,  r = y − Xθ,  cᵢ = ωᵢ/λᵢ,
//!
//! by ADMM with the splits u = θ and t = r. Both penalties are measured in the metric of the current state, Γ for u and
//! Λ⁻¹ for t, so that the matrix to solve with is ρ(Γ + XᵀΛ⁻¹X): the posterior precision that is already factorised,
//! whatever the step ρ.

use crate::math::product::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use super::Point;
#[cfg(test)]
use crate::posterior::FactorError;
use crate::problem::Problem;
#[cfg(test)]
use crate::state::State;

const OVER_RELAXATION: f64 = 1.6;
/// ρ is reconsidered after this many iterations and then ever more rarely, each time after half as many again (ADMM
/// converges once ρ stays), when one residual is so many times the other.
const FIRST_BALANCE: usize = 10;
const BALANCE_RATIO: f64 = 5.0;

/// The penalties w (per group) and v (per row).
#[derive(Debug, Clone)]
pub struct LassoWeights {
    /// w, one per group of columns.
    pub weight: Vec<f64>,
    /// v, one per row; all zero for a weighted lasso.
    pub residual: Vec<f64>,
}

/// How an inner solve went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LassoInfo {
    /// Iterations used.
    pub iterations: usize,
    /// Whether the tolerance was met.
    pub converged: bool,
}

/// ADMM with its state, which the next solve starts from.
pub struct InnerLasso {
    /// The penalties.
    pub weights: LassoWeights,
    theta: Vec<f64>,
    fitted_residual: Vec<f64>,
    u: Vec<f64>,
    t: Vec<f64>,
    u_dual: Vec<f64>,
    t_dual: Vec<f64>,
    row_buffer: Vec<f64>,
    group_norm: Vec<f64>,
    step: f64,
    residual: Vec<f64>,
    warm: bool,
}

impl InnerLasso {
    /// A cold start for `problem`, with all penalties zero.
    pub fn new(problem: &Problem) -> Self {
        let (n, d, groups) = (problem.row_count(), problem.column_count(), problem.groups().count());
        Self {
            weights: LassoWeights { weight: vec![0.0; groups], residual: vec![0.0; n] },
            theta: vec![0.0; d],
            fitted_residual: vec![0.0; n],
            u: vec![0.0; d],
            t: vec![0.0; n],
            u_dual: vec![0.0; d],
            t_dual: vec![0.0; n],
            row_buffer: vec![0.0; n],
            group_norm: vec![0.0; groups],
            step: 1.0,
            residual: vec![0.0; n],
            warm: false,
        }
    }

    /// θ, with exact zeros.
    pub fn solution(&self) -> &[f64] {
        &self.u
    }

    /// y − Xθ at the solution.
    pub fn residual(&self) -> &[f64] {
        &self.residual
    }

    /// The problem's objective at the solution, cᵢ taken from `state`.
    #[cfg(test)]
    pub fn objective(&self, problem: &Problem, state: &State) -> f64 {
        let mut norms = vec![0.0; problem.groups().count()];
        problem.groups().sum_into(&mut norms, |j| self.u[j].powi(2));
        let rows: f64 = (0..problem.row_count())
            .map(|i| {
                let r = self.residual[i];
                problem.row_weight()[i] / state.variance(i) * r * r + 2.0 * self.weights.residual[i] * r.abs()
            })
            .sum();
        rows + norms.iter().zip(&self.weights.weight).map(|(square, w)| 2.0 * w * square.sqrt()).sum::<f64>()
    }

    /// Solves at `point`, from where the last solve ended.
    pub fn solve(&mut self, point: &Point<'_>, tolerance: f64, max_iterations: usize) -> LassoInfo {
        let Point { problem, state, .. } = point;
        let (n, d) = (problem.row_count(), problem.column_count());
        let groups = problem.groups();
        let c = |i: usize| problem.row_weight()[i] / state.variance(i);
        let gamma = |j: usize| state.weight_precision[groups.of_column()[j]];
        if !self.warm {
            self.u.copy_from_slice(&point.moments.mean);
            problem.residual_of(&self.u, &mut self.t, Par::Seq);
            self.warm = true;
        }
        let mut info = LassoInfo { iterations: 0, converged: false };
        let mut next_balance = FIRST_BALANCE;
        for iteration in 1..=max_iterations {
            info.iterations = iteration;
            // (Γ + XᵀCX) θ = Γ(u − a) + XᵀC(y − t + b)
            for i in 0..n {
                self.row_buffer[i] = c(i) * (problem.target()[i] - self.t[i] + self.t_dual[i]);
            }
            matmul(
                MatMut::from_column_major_slice_mut(&mut self.theta, d, 1),
                Accum::Replace,
                problem.rows(),
                MatRef::from_column_major_slice(&self.row_buffer, n, 1),
                1.0,
                Par::Seq,
            );
            for j in 0..d {
                self.theta[j] += gamma(j) * (self.u[j] - self.u_dual[j]);
            }
            point.posterior.apply_covariance(problem, &mut self.theta);
            problem.residual_of(&self.theta, &mut self.fitted_residual, Par::Seq);

            let (mut primal, mut dual, mut size) = (0.0, 0.0, 0.0);
            // u: (group) soft threshold, or shrinkage where the precision is fixed.
            for j in 0..d {
                self.theta[j] = OVER_RELAXATION * self.theta[j] + (1.0 - OVER_RELAXATION) * self.u[j];
                self.u_dual[j] += self.theta[j]; // now θ̂ + a
            }
            groups.sum_into(&mut self.group_norm, |j| self.u_dual[j].powi(2));
            for j in 0..d {
                let group = groups.of_column()[j];
                let shrink = match groups.fixed(group) {
                    Some(_) => self.step / (2.0 + self.step),
                    None => {
                        let threshold = 2.0 * self.weights.weight[group] / (self.step * gamma(j));
                        (1.0 - threshold / self.group_norm[group].sqrt()).max(0.0)
                    }
                };
                let u = if shrink > 0.0 { shrink * self.u_dual[j] } else { 0.0 };
                dual += gamma(j) * (u - self.u[j]).powi(2);
                primal += gamma(j) * (self.theta[j] - u).powi(2);
                size += gamma(j) * u * u;
                self.u_dual[j] -= u;
                self.u[j] = u;
            }
            // t: shrinkage and soft threshold.
            for i in 0..n {
                let hat = OVER_RELAXATION * self.fitted_residual[i] + (1.0 - OVER_RELAXATION) * self.t[i];
                let z = hat + self.t_dual[i];
                let threshold = 2.0 * self.weights.residual[i] / (self.step * c(i));
                let t = z.signum() * (z.abs() - threshold).max(0.0) * self.step / (2.0 + self.step);
                dual += c(i) * (t - self.t[i]).powi(2);
                primal += c(i) * (hat - t).powi(2);
                size += c(i) * t * t;
                self.t_dual[i] = z - t;
                self.t[i] = t;
            }
            let (primal, dual) = (primal.sqrt(), self.step * dual.sqrt());
            if primal.max(dual) <= tolerance * size.sqrt().max(f64::MIN_POSITIVE) {
                info.converged = true;
                break;
            }
            if iteration == next_balance {
                self.balance(primal, dual);
                next_balance += next_balance / 2;
            }
        }
        problem.residual_of(&self.u, &mut self.residual, Par::Seq);
        // Rows that the penalty makes exact are exact, whatever the tolerance left of them.
        let exact = self.weights.residual.iter().zip(&self.t).map(|(v, t)| *v > 0.0 && *t == 0.0);
        self.residual.iter_mut().zip(exact).filter(|(_, exact)| *exact).for_each(|(r, _)| *r = 0.0);
        info
    }

    /// Moves ρ towards equal residuals; the scaled duals move with it.
    fn balance(&mut self, primal: f64, dual: f64) {
        let ratio = primal / dual.max(f64::MIN_POSITIVE);
        if (1.0 / BALANCE_RATIO..=BALANCE_RATIO).contains(&ratio) {
            return;
        }
        let factor = ratio.sqrt().clamp(0.1, 10.0);
        self.step *= factor;
        self.u_dual.iter_mut().chain(&mut self.t_dual).for_each(|value| *value /= factor);
    }
}

/// Solves the inner problem by itself, with noise variances λ and penalties given.
///
/// The metric of the weights is a precision per group: any positive values give the same solution, good ones give it sooner.
#[cfg(test)]
pub fn double_lasso(
    problem: &Problem,
    noise_variance: &[f64],
    metric: &[f64],
    weights: LassoWeights,
    tolerance: f64,
    max_iterations: usize,
) -> Result<(Vec<f64>, LassoInfo), FactorError> {
    use crate::noise::{Noise, NoiseModel};
    use crate::posterior::{Moments, Route, route};
    let noise = NoiseModel::new(Noise::Flat, 1.0);
    let state = State { weight_precision: metric.to_vec(), noise_variance: noise_variance.to_vec(), noise };
    let mut posterior = route(Route::Auto, problem, Par::Seq);
    let mut moments = Moments::new(problem);
    posterior.factorise(problem, &state.weight_precision, state.row_noise(), &mut moments)?;
    let mut inner = InnerLasso::new(problem);
    inner.weights = weights;
    let point = Point { problem, state: &state, moments: &moments, posterior: posterior.as_ref() };
    let info = inner.solve(&point, tolerance, max_iterations);
    Ok((inner.u, info))
}
