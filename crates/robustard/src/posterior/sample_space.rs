//! The n × n route: Σ_y = Λ + XΓ⁻¹Xᵀ, with Π_y = Σ_y⁻¹.

use std::f64::consts::PI;

use faer::linalg::matmul::{matmul, triangular};
use faer::{Accum, Mat, MatMut, MatRef, Par};
use triangular::BlockStructure;

use super::factor::{Factor, square_sum};
use super::{FactorError, Jitter, Moments, Posterior, Route, RowNoise, route, sum_rows, weight_correction};
use crate::model::Covariance;
use crate::problem::Problem;

/// Workspace of the n × n route.
pub struct SampleSpace {
    /// Γ^{-½}Xᵀ, d × n.
    scaled: Mat<f64>,
    /// Σ_y in the lower triangle.
    sample_covariance: Mat<f64>,
    factor: Factor,
    /// L⁻¹X, n × d.
    whitened: Mat<f64>,
    /// Π_y y.
    dual: Vec<f64>,
    /// γ per column.
    weight_precision: Vec<f64>,
    /// λᵢ/ωᵢ.
    row_variance: Vec<f64>,
    par: Par,
}

impl SampleSpace {
    /// Room for `problem`.
    pub fn new(problem: &Problem, par: Par) -> Self {
        let (n, d) = (problem.row_count(), problem.column_count());
        Self {
            scaled: Mat::zeros(d, n),
            sample_covariance: Mat::zeros(n, n),
            factor: Factor::new(n, par),
            whitened: Mat::zeros(n, d),
            dual: vec![0.0; n],
            weight_precision: vec![1.0; d],
            row_variance: vec![1.0; n],
            par,
        }
    }

    fn assemble(&mut self, problem: &Problem) {
        let n = problem.row_count();
        for i in 0..n {
            let row = problem.rows().col(i);
            for (j, scaled) in self.scaled.col_as_slice_mut(i).iter_mut().enumerate() {
                *scaled = row[j] / self.weight_precision[j].sqrt();
            }
        }
        triangular::matmul(
            self.sample_covariance.as_mut(),
            BlockStructure::TriangularLower,
            Accum::Replace,
            self.scaled.transpose(),
            BlockStructure::Rectangular,
            self.scaled.as_ref(),
            BlockStructure::Rectangular,
            1.0,
            self.par,
        );
        for (i, variance) in self.row_variance.iter().enumerate() {
            self.sample_covariance[(i, i)] += variance;
        }
    }
}

impl Posterior for SampleSpace {
    fn factorise(
        &mut self,
        problem: &Problem,
        weight_precision: &[f64],
        noise: RowNoise<'_>,
        moments: &mut Moments,
    ) -> Result<Jitter, FactorError> {
        let (n, d) = (problem.row_count(), problem.column_count());
        problem.groups().spread(weight_precision, &mut self.weight_precision);
        for (i, variance) in self.row_variance.iter_mut().enumerate() {
            *variance = noise.variance(i) / problem.row_weight()[i];
        }
        self.assemble(problem);
        let jitter = self.factor.factorise(self.sample_covariance.as_ref())?;
        self.dual.copy_from_slice(problem.target());
        self.factor.solve(&mut self.dual);

        // μ = Γ⁻¹XᵀΠ_y y and r = ΛΠ_y y.
        matmul(
            MatMut::from_column_major_slice_mut(&mut moments.mean, d, 1),
            Accum::Replace,
            problem.rows(),
            MatRef::from_column_major_slice(&self.dual, n, 1),
            1.0,
            self.par,
        );
        for (mean, precision) in moments.mean.iter_mut().zip(&self.weight_precision) {
            *mean /= precision;
        }
        for ((residual, dual), variance) in moments.residual.iter_mut().zip(&self.dual).zip(&self.row_variance) {
            *residual = dual * variance;
        }
        // Eq. (primal objective).
        let quadratic: f64 = problem.target().iter().zip(&self.dual).map(|(y, a)| y * a).sum();
        moments.neg_log_evidence = 0.5 * (n as f64 * (2.0 * PI).ln() + self.factor.log_determinant() + quadratic)
            + weight_correction(problem, noise);
        Ok(jitter)
    }

    fn weight_moments(&mut self, problem: &Problem, moments: &mut Moments) {
        self.factor.invert();
        triangular::matmul(
            self.whitened.as_mut(),
            BlockStructure::Rectangular,
            Accum::Replace,
            self.factor.inverse(),
            BlockStructure::TriangularLower,
            problem.rows().transpose(),
            BlockStructure::Rectangular,
            1.0,
            self.par,
        );
        for (j, &precision) in self.weight_precision.iter().enumerate() {
            let form = square_sum(self.whitened.col_as_slice(j)).min(precision);
            moments.column_quadratic_form[j] = form;
            moments.covariance_diagonal[j] = (1.0 - form / precision) / precision;
        }
        self.fill_rows(moments);
        sum_rows(problem, moments);
    }

    fn row_moments(&mut self, _problem: &Problem, _moments: &mut Moments) {
        // The n × n factor gives them together with the weights' moments.
    }

    fn apply_covariance(&self, problem: &Problem, values: &mut [f64]) {
        // Woodbury: Σ = Γ⁻¹ − Γ⁻¹XᵀΠ_y XΓ⁻¹.
        let (n, d) = (problem.row_count(), problem.column_count());
        for (value, precision) in values.iter_mut().zip(&self.weight_precision) {
            *value /= precision;
        }
        let mut fitted = vec![0.0; n];
        matmul(
            MatMut::from_column_major_slice_mut(&mut fitted, n, 1),
            Accum::Replace,
            problem.rows().transpose(),
            MatRef::from_column_major_slice(values, d, 1),
            1.0,
            self.par,
        );
        self.factor.solve(&mut fitted);
        let mut correction = vec![0.0; d];
        matmul(
            MatMut::from_column_major_slice_mut(&mut correction, d, 1),
            Accum::Replace,
            problem.rows(),
            MatRef::from_column_major_slice(&fitted, n, 1),
            1.0,
            self.par,
        );
        for ((value, correction), precision) in values.iter_mut().zip(&correction).zip(&self.weight_precision) {
            *value -= correction / precision;
        }
    }

    fn reduce(&self, wanted: Route, reduced: &Problem, _columns: &[usize]) -> Box<dyn Posterior> {
        route(wanted, reduced, self.par)
    }

    fn covariance(&self, _problem: &Problem) -> Covariance {
        Covariance::sample_space(self.whitened.as_ref(), &self.weight_precision)
    }
}

impl SampleSpace {
    /// [Π_y]ᵢᵢ from the columns of L⁻¹ and qᵢ = λᵢ − λᵢ²[Π_y]ᵢᵢ.
    fn fill_rows(&self, moments: &mut Moments) {
        self.factor.inverse_diagonal(&mut moments.sample_precision_diagonal);
        for ((q, p), variance) in
            moments.latent_variance.iter_mut().zip(&mut moments.sample_precision_diagonal).zip(&self.row_variance)
        {
            *p = p.min(1.0 / variance);
            *q = variance * (1.0 - variance * *p);
        }
    }
}
