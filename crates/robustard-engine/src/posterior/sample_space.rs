//! The n × n route: Σ_y = Λ + XΓ⁻¹Xᵀ, with Π_y = Σ_y⁻¹.
//!
//! Columns of fixed precision (an intercept, say) have priors so wide that they would drown the others in Σ_y. They are
//! taken out: with X = [Z F], K = Λ + ZΓ_z⁻¹Zᵀ is factorised, E = K⁻¹F, and the weights of F have the precision matrix
//! M = Γ_f + FᵀE. Then Π_y = K⁻¹ − E M⁻¹Eᵀ.

use std::f64::consts::PI;

use crate::math::product::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};

use super::covariance::SampleSpaceCovariance;
use super::{Covariance, FactorError, Jitter, Moments, Posterior, Route, RowNoise, route, sum_rows, weight_correction};
use crate::math::cholesky::Factor;
use crate::math::sum::square_sum;
use crate::problem::Problem;

/// Width of the strips into which triangular products are cut. Plain products of strips give the same bits on any number
/// of threads.
const STRIP: usize = 128;

/// Workspace of the n × n route.
pub struct SampleSpace {
    /// Columns whose precision is learnt, and those whose is fixed.
    free: Vec<usize>,
    fixed: Vec<usize>,
    /// Γ_z^{-½}Zᵀ, free × n.
    scaled: Mat<f64>,
    /// K in the lower triangle.
    sample_covariance: Mat<f64>,
    factor: Factor,
    /// L⁻¹ZΓ_z^{-½}, n × free.
    whitened: Mat<f64>,
    /// E = K⁻¹F, n × fixed.
    fixed_dual: Mat<f64>,
    /// M in the lower triangle.
    fixed_precision: Mat<f64>,
    fixed_factor: Factor,
    /// L_M⁻¹EᵀZΓ_z^{-½}, fixed × free.
    fixed_cross: Mat<f64>,
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
        let groups = problem.groups();
        let (fixed, free): (Vec<usize>, Vec<usize>) =
            (0..d).partition(|&column| groups.fixed(groups.of_column()[column]).is_some());
        let (f, z) = (fixed.len(), free.len());
        Self {
            scaled: Mat::zeros(z, n),
            sample_covariance: Mat::zeros(n, n),
            factor: Factor::new(n, par),
            whitened: Mat::zeros(n, z),
            fixed_dual: Mat::zeros(n, f),
            fixed_precision: Mat::zeros(f, f),
            fixed_factor: Factor::new(f, Par::Seq),
            fixed_cross: Mat::zeros(f, z),
            dual: vec![0.0; n],
            weight_precision: vec![1.0; d],
            row_variance: vec![1.0; n],
            free,
            fixed,
            par,
        }
    }

    /// K into the lower triangle of `sample_covariance`.
    fn assemble(&mut self, problem: &Problem) {
        let n = problem.row_count();
        let root: Vec<f64> = self.free.iter().map(|&j| self.weight_precision[j].sqrt()).collect();
        for i in 0..n {
            let row = problem.rows().col(i);
            for ((scaled, &j), root) in self.scaled.col_as_slice_mut(i).iter_mut().zip(&self.free).zip(&root) {
                *scaled = row[j] / root;
            }
        }
        for start in (0..n).step_by(STRIP) {
            let width = STRIP.min(n - start);
            matmul(
                self.sample_covariance.as_mut().submatrix_mut(start, start, n - start, width),
                Accum::Replace,
                self.scaled.as_ref().subcols(start, n - start).transpose(),
                self.scaled.as_ref().subcols(start, width),
                1.0,
                self.par,
            );
        }
        for (i, variance) in self.row_variance.iter().enumerate() {
            self.sample_covariance[(i, i)] += variance;
        }
    }

    /// E, M and its factor; returns the jitter that M needed.
    fn eliminate_fixed(&mut self, problem: &Problem) -> Result<Jitter, FactorError> {
        let n = problem.row_count();
        for (k, &column) in self.fixed.iter().enumerate() {
            let dual = self.fixed_dual.col_as_slice_mut(k);
            (0..n).for_each(|i| dual[i] = problem.rows()[(column, i)]);
            self.factor.solve(dual);
        }
        for (k, &column) in self.fixed.iter().enumerate() {
            let dual = self.fixed_dual.col_as_slice(k);
            for (l, &other) in self.fixed.iter().enumerate().skip(k) {
                let form: f64 = (0..n).map(|i| problem.rows()[(other, i)] * dual[i]).sum();
                self.fixed_precision[(l, k)] = form;
            }
            self.fixed_precision[(k, k)] += self.weight_precision[column];
        }
        if self.fixed.is_empty() {
            return Ok(Jitter(0.0));
        }
        self.fixed_factor.factorise(self.fixed_precision.as_ref())
    }

    /// Posterior mean of the fixed columns' weights: M⁻¹Eᵀy.
    fn fixed_mean(&self, problem: &Problem) -> Vec<f64> {
        let mut mean: Vec<f64> = (0..self.fixed.len())
            .map(|k| self.fixed_dual.col_as_slice(k).iter().zip(problem.target()).map(|(e, y)| e * y).sum())
            .collect();
        if !mean.is_empty() {
            self.fixed_factor.solve(&mut mean);
        }
        mean
    }

    /// Diagonal of Π_y and qᵢ = λᵢ − λᵢ²[Π_y]ᵢᵢ.
    fn fill_rows(&self, moments: &mut Moments) {
        self.factor.inverse_diagonal(&mut moments.sample_precision_diagonal);
        let mut image = vec![0.0; self.fixed.len()];
        for (i, variance) in self.row_variance.iter().enumerate() {
            let precision = &mut moments.sample_precision_diagonal[i];
            if !image.is_empty() {
                image.iter_mut().enumerate().for_each(|(k, value)| *value = self.fixed_dual[(i, k)]);
                *precision -= square_sum(&lower_times(self.fixed_factor.inverse(), &image));
            }
            *precision = precision.clamp(0.0, 1.0 / variance);
            moments.latent_variance[i] = variance * (1.0 - variance * *precision);
        }
    }

    /// (Γ_z + ZᵀΛ⁻¹Z)⁻¹ values by Woodbury, in place; one value per free column.
    fn apply_free_covariance(&self, values: &mut [f64]) {
        let (n, z) = (self.row_variance.len(), self.free.len());
        let root = |k: usize| self.weight_precision[self.free[k]].sqrt();
        (0..z).for_each(|k| values[k] /= root(k));
        let mut fitted = vec![0.0; n];
        product(&mut fitted, self.scaled.transpose(), values);
        self.factor.solve(&mut fitted);
        let mut correction = vec![0.0; z];
        product(&mut correction, self.scaled.as_ref(), &fitted);
        (0..z).for_each(|k| values[k] = (values[k] - correction[k]) / root(k));
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
        let n = problem.row_count();
        problem.groups().spread(weight_precision, &mut self.weight_precision);
        for (i, variance) in self.row_variance.iter_mut().enumerate() {
            *variance = noise.variance(i) / problem.row_weight()[i];
        }
        self.assemble(problem);
        let jitter = self.factor.factorise(self.sample_covariance.as_ref())?;
        let jitter = Jitter(jitter.0.max(self.eliminate_fixed(problem)?.0));

        // Π_y y = K⁻¹(y − Fμ_f), yᵀΠ_y y = (y − Fμ_f)ᵀΠ_y y + μ_fᵀΓ_fμ_f.
        let fixed_mean = self.fixed_mean(problem);
        let mut rest = problem.target().to_vec();
        for (&column, mean) in self.fixed.iter().zip(&fixed_mean) {
            (0..n).for_each(|i| rest[i] -= mean * problem.rows()[(column, i)]);
        }
        self.dual.copy_from_slice(&rest);
        self.factor.solve(&mut self.dual);
        let mut quadratic: f64 = rest.iter().zip(&self.dual).map(|(y, a)| y * a).sum();
        let mut log_determinant = self.factor.log_determinant();
        if !self.fixed.is_empty() {
            log_determinant += self.fixed_factor.log_determinant();
        }

        // μ = Γ⁻¹XᵀΠ_y y and r = ΛΠ_y y.
        product(&mut moments.mean, problem.rows(), &self.dual);
        for (mean, precision) in moments.mean.iter_mut().zip(&self.weight_precision) {
            *mean /= precision;
        }
        for (&column, mean) in self.fixed.iter().zip(&fixed_mean) {
            moments.mean[column] = *mean;
            quadratic += self.weight_precision[column] * mean * mean;
            log_determinant -= self.weight_precision[column].ln();
        }
        moments.make_room(n);
        for ((residual, dual), variance) in moments.residual.iter_mut().zip(&self.dual).zip(&self.row_variance) {
            *residual = dual * variance;
        }
        // Eq. (primal objective).
        moments.neg_log_evidence =
            0.5 * (n as f64 * (2.0 * PI).ln() + log_determinant + quadratic) + weight_correction(problem, noise);
        Ok(jitter)
    }

    fn weight_moments(&mut self, problem: &Problem, moments: &mut Moments) {
        let n = problem.row_count();
        self.factor.invert();
        for start in (0..n).step_by(STRIP) {
            let height = STRIP.min(n - start);
            matmul(
                self.whitened.as_mut().subrows_mut(start, height),
                Accum::Replace,
                self.factor.inverse().submatrix(start, 0, height, start + height),
                self.scaled.as_ref().subcols(0, start + height).transpose(),
                1.0,
                self.par,
            );
        }
        if !self.fixed.is_empty() {
            self.fixed_factor.invert();
            let cross = self.fixed_dual.transpose() * self.scaled.transpose();
            self.fixed_cross = self.fixed_factor.inverse() * cross;
            let mut variance = vec![0.0; self.fixed.len()];
            self.fixed_factor.inverse_diagonal(&mut variance);
            for (&column, variance) in self.fixed.iter().zip(variance) {
                let precision = self.weight_precision[column];
                moments.covariance_diagonal[column] = variance;
                moments.column_quadratic_form[column] = precision * (1.0 - precision * variance).max(0.0);
            }
        }
        for (k, &column) in self.free.iter().enumerate() {
            let precision = self.weight_precision[column];
            let share = square_sum(self.whitened.col_as_slice(k)) - square_sum(self.fixed_cross.col_as_slice(k));
            let share = share.clamp(0.0, 1.0);
            moments.column_quadratic_form[column] = precision * share;
            moments.covariance_diagonal[column] = (1.0 - share) / precision;
        }
        self.fill_rows(moments);
        sum_rows(problem, moments);
    }

    fn row_moments(&mut self, _problem: &Problem, _moments: &mut Moments) {
        // The n × n factor gives them together with the weights' moments.
    }

    fn apply_covariance(&self, problem: &Problem, values: &mut [f64]) {
        // Block elimination: x_f = M⁻¹(v_f − FᵀΛ⁻¹Z t) with t = Σ_z v_z, then x_z = t − Σ_z ZᵀΛ⁻¹F x_f.
        let n = problem.row_count();
        let mut free: Vec<f64> = self.free.iter().map(|&j| values[j]).collect();
        self.apply_free_covariance(&mut free);
        if !self.fixed.is_empty() {
            let fitted = |row: usize, free: &[f64]| -> f64 {
                self.free.iter().zip(free).map(|(&j, t)| problem.rows()[(j, row)] * t).sum()
            };
            let weighted: Vec<f64> = (0..n).map(|i| fitted(i, &free) / self.row_variance[i]).collect();
            let mut fixed: Vec<f64> = self
                .fixed
                .iter()
                .map(|&j| values[j] - (0..n).map(|i| problem.rows()[(j, i)] * weighted[i]).sum::<f64>())
                .collect();
            self.fixed_factor.solve(&mut fixed);
            let back = |i: usize| -> f64 {
                let sum: f64 = self.fixed.iter().zip(&fixed).map(|(&j, x)| problem.rows()[(j, i)] * x).sum();
                sum / self.row_variance[i]
            };
            let weighted: Vec<f64> = (0..n).map(back).collect();
            let mut change: Vec<f64> =
                self.free.iter().map(|&j| (0..n).map(|i| problem.rows()[(j, i)] * weighted[i]).sum()).collect();
            self.apply_free_covariance(&mut change);
            free.iter_mut().zip(&change).for_each(|(t, change)| *t -= change);
            self.fixed.iter().zip(&fixed).for_each(|(&j, x)| values[j] = *x);
        }
        self.free.iter().zip(&free).for_each(|(&j, t)| values[j] = *t);
    }

    fn reduce(&self, wanted: Route, reduced: &Problem, _columns: &[usize]) -> Box<dyn Posterior> {
        route(wanted, reduced, self.par)
    }

    fn covariance(&self, problem: &Problem) -> Covariance {
        let (n, z, f) = (problem.row_count(), self.free.len(), self.fixed.len());
        let root: Vec<f64> = self.free.iter().map(|&j| self.weight_precision[j].sqrt()).collect();
        let cross = self.fixed_dual.transpose() * self.scaled.transpose();
        let fixed_inverse = self.fixed_factor.inverse();
        Covariance::SampleSpace(SampleSpaceCovariance {
            free: self.free.clone(),
            fixed: self.fixed.clone(),
            prior_variance: root.iter().map(|root| 1.0 / (root * root)).collect(),
            factor: (0..z)
                .flat_map(|k| self.whitened.col_as_slice(k).iter().map(move |v| (k, v)))
                .map(|(k, v)| v / root[k])
                .collect(),
            fixed_gain: (0..z)
                .flat_map(|k| (0..f).map(move |l| (l, k)))
                .map(|(l, k)| cross[(l, k)] / root[k])
                .collect(),
            fixed_inverse_factor: (0..f).flat_map(|k| (0..f).map(move |l| fixed_inverse[(l, k)])).collect(),
            rows: n,
        })
    }
}

/// `result` = `matrix` · `vector`.
fn product(result: &mut [f64], matrix: MatRef<'_, f64>, vector: &[f64]) {
    let (rows, columns) = (result.len(), vector.len());
    matmul(
        MatMut::from_column_major_slice_mut(result, rows, 1),
        Accum::Replace,
        matrix,
        MatRef::from_column_major_slice(vector, columns, 1),
        1.0,
        Par::Seq,
    );
}

/// A small lower triangular matrix times a vector.
fn lower_times(lower: MatRef<'_, f64>, vector: &[f64]) -> Vec<f64> {
    (0..vector.len()).map(|i| (0..=i).map(|j| lower[(i, j)] * vector[j]).sum()).collect()
}
