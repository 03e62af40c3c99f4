//! The d × d route: Σ_θ⁻¹ = Γ + XᵀΛ⁻¹X.

use std::f64::consts::PI;
use std::sync::Arc;

use faer::{Mat, Par};

use super::inner_products::InnerProducts;
use super::sweep::Sweep;
use super::{
    Covariance, FactorError, Jitter, Moments, Posterior, Route, RowNoise, cancellation_limit, sum_rows,
    weight_correction,
};
use crate::math::cholesky::Factor;
use crate::problem::Problem;

/// Share of yᵀy below which a residual sum of squares taken from XᵀX is not trusted.
const TRUSTED_RESIDUAL: f64 = 1e-6;

/// Which noise the current factor belongs to.
enum Current {
    Shared(f64),
    PerRow,
}

/// Workspace of the d × d route.
pub struct WeightSpace {
    sweep: Sweep,
    /// Γ + XᵀΛ⁻¹X in the lower triangle.
    precision: Mat<f64>,
    /// XᵀΛ⁻¹y.
    projection: Vec<f64>,
    factor: Factor,
    /// With shared noise they are formed once and an iteration costs O(d³).
    shared: Option<Arc<InnerProducts>>,
    current: Current,
    /// γ per column.
    weight_precision: Vec<f64>,
    /// ωᵢ/λᵢ; empty until noise per row is asked for.
    row_precision: Vec<f64>,
    par: Par,
}

impl WeightSpace {
    /// Room for `problem`.
    pub fn new(problem: &Problem, par: Par) -> Self {
        let d = problem.column_count();
        Self {
            sweep: Sweep::new(problem.row_count(), d, par),
            precision: Mat::zeros(d, d),
            projection: vec![0.0; d],
            factor: Factor::new(d, par),
            shared: None,
            current: Current::PerRow,
            weight_precision: vec![1.0; d],
            row_precision: Vec::new(),
            par,
        }
    }

    /// Fills `precision` and `projection` and returns yᵀΛ⁻¹y and Σ log 2πλ̃.
    fn assemble(&mut self, problem: &Problem, noise: RowNoise<'_>) -> (f64, f64) {
        let d = problem.column_count();
        let (target_form, log_noise) = match noise {
            RowNoise::Shared(variance) => {
                let sweep = &mut self.sweep;
                let sums = self.shared.get_or_insert_with(|| Arc::new(InnerProducts::of(problem, sweep)));
                for j in 0..d {
                    let source = &sums.gram.col_as_slice(j)[j..];
                    for (a, g) in self.precision.col_as_slice_mut(j)[j..].iter_mut().zip(source) {
                        *a = g / variance;
                    }
                    self.projection[j] = sums.projection[j] / variance;
                }
                self.current = Current::Shared(variance);
                let log_noise = problem.row_count() as f64 * (2.0 * PI * variance).ln() - problem.log_weight_sum();
                (sums.target_square / variance, log_noise)
            }
            RowNoise::PerRow(variances) => {
                let (mut target_form, mut log_noise) = (0.0, 0.0);
                self.row_precision.resize(problem.row_count(), 0.0);
                for (i, precision) in self.row_precision.iter_mut().enumerate() {
                    *precision = problem.row_weight()[i] / variances[i];
                    let y = problem.target()[i];
                    target_form += y * y * *precision;
                    log_noise -= (*precision / (2.0 * PI)).ln();
                }
                self.sweep.gram(
                    problem.rows_of_passes(),
                    &self.row_precision,
                    problem.target(),
                    &mut self.precision,
                    &mut self.projection,
                );
                self.current = Current::PerRow;
                (target_form, log_noise)
            }
        };
        for (j, precision) in self.weight_precision.iter().enumerate() {
            self.precision[(j, j)] += precision;
        }
        (target_form, log_noise)
    }
}

impl WeightSpace {
    /// Residuals and quadratic forms of all rows. With shared noise they are needed once, in the end.
    fn row_forms(&mut self, problem: &Problem, moments: &mut Moments) {
        let rows = match self.current {
            Current::Shared(_) => problem.row_blocks(),
            Current::PerRow => problem.rows_of_passes(),
        };
        let Moments { mean, residual, latent_variance, .. } = moments;
        self.sweep.row_forms(rows, self.factor.inverse(), mean, problem.target(), residual, latent_variance);
    }
}

impl Posterior for WeightSpace {
    fn factorise(
        &mut self,
        problem: &Problem,
        weight_precision: &[f64],
        noise: RowNoise<'_>,
        moments: &mut Moments,
    ) -> Result<Jitter, FactorError> {
        problem.groups().spread(weight_precision, &mut self.weight_precision);
        let (target_form, log_noise) = self.assemble(problem, noise);
        let jitter = self.factor.factorise(self.precision.as_ref())?;
        moments.mean.copy_from_slice(&self.projection);
        self.factor.solve(&mut moments.mean);

        // Eq. (dual objective), with Σ r²/λ + μᵀΓμ for yᵀΛ⁻¹y − ỹᵀΣỹ where the difference would cancel.
        let prior_form: f64 = moments.mean.iter().zip(&self.weight_precision).map(|(m, g)| g * m * m).sum();
        let explained: f64 = moments.mean.iter().zip(&self.projection).map(|(m, b)| m * b).sum();
        let mut quadratic = target_form - explained;
        let limit = cancellation_limit(problem.row_count());
        if target_form > limit || quadratic - prior_form < TRUSTED_RESIDUAL * target_form {
            moments.residual.resize(problem.row_count(), 0.0);
            problem.residual_of(&moments.mean, &mut moments.residual, self.par);
            let row_precision = |i: usize| problem.row_weight()[i] / noise.variance(i);
            let residual_form: f64 = moments.residual.iter().enumerate().map(|(i, r)| r * r * row_precision(i)).sum();
            quadratic = residual_form + prior_form;
        }
        if let RowNoise::Shared(variance) = noise {
            moments.residual_sum = variance * (quadratic - prior_form);
        }
        let log_prior: f64 = self.weight_precision.iter().map(|g| g.ln()).sum();
        moments.neg_log_evidence = 0.5 * (log_noise + self.factor.log_determinant() - log_prior + quadratic)
            + weight_correction(problem, noise);
        Ok(jitter)
    }

    fn weight_moments(&mut self, _problem: &Problem, moments: &mut Moments) {
        self.factor.invert();
        self.factor.inverse_diagonal(&mut moments.covariance_diagonal);
        let mut determined = 0.0;
        for (j, &precision) in self.weight_precision.iter().enumerate() {
            // γΣ ≤ 1; 1 − γΣ is how far the data determine the weight.
            let share = (1.0 - precision * moments.covariance_diagonal[j]).max(0.0);
            moments.column_quadratic_form[j] = precision * share;
            determined += share;
        }
        if let Current::Shared(variance) = self.current {
            moments.latent_sum = variance * determined;
        }
    }

    fn row_moments(&mut self, problem: &Problem, moments: &mut Moments) {
        moments.make_room(problem.row_count());
        self.row_forms(problem, moments);
        let Moments { sample_precision_diagonal, latent_variance, .. } = &mut *moments;
        for (i, (p, q)) in sample_precision_diagonal.iter_mut().zip(latent_variance).enumerate() {
            let precision = match self.current {
                Current::Shared(variance) => problem.row_weight()[i] / variance,
                Current::PerRow => self.row_precision[i],
            };
            // h = q/λ̃ < 1 in exact arithmetic.
            *q = q.min(1.0 / precision);
            *p = precision * (1.0 - *q * precision);
        }
        sum_rows(problem, moments);
    }

    fn apply_covariance(&self, _problem: &Problem, values: &mut [f64]) {
        self.factor.solve(values);
    }

    fn reduce(&self, _wanted: Route, reduced: &Problem, columns: &[usize]) -> Box<dyn Posterior> {
        let mut route = Self::new(reduced, self.par);
        route.shared = self.shared.as_ref().map(|products| Arc::new(products.part(columns)));
        Box::new(route)
    }

    fn inner_products(&self) -> Option<Arc<InnerProducts>> {
        self.shared.clone()
    }

    fn set_inner_products(&mut self, products: InnerProducts) {
        self.shared = Some(Arc::new(products));
    }

    fn covariance(&self, _problem: &Problem) -> Covariance {
        Covariance::WeightSpace { inverse_factor: self.factor.inverse().to_owned() }
    }
}
