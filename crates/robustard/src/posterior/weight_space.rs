//! The d × d route: Σ_θ⁻¹ = Γ + XᵀΛ⁻¹X.

use std::f64::consts::PI;

use faer::{Mat, Par};

use super::factor::Factor;
use super::sweep::Sweep;
use super::{FactorError, Jitter, Moments, Posterior, Route, RowNoise, sum_rows, weight_correction};
use crate::model::Covariance;
use crate::problem::Problem;

/// yᵀΛ⁻¹y − bᵀμ loses yᵀΛ⁻¹y·ε to cancellation. Above this value the residuals are formed instead, which keeps the
/// objective exact to about 1e-8.
const CANCELLATION_LIMIT: f64 = 1e7;
/// Share of yᵀy below which a residual sum of squares taken from XᵀX is not trusted.
const TRUSTED_RESIDUAL: f64 = 1e-6;

/// XᵀΩX, XᵀΩy and yᵀΩy: with shared noise they are formed once and an iteration costs O(d³).
struct SharedSums {
    gram: Mat<f64>,
    projection: Vec<f64>,
    target_square: f64,
}

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
    shared: Option<SharedSums>,
    current: Current,
    /// γ per column.
    weight_precision: Vec<f64>,
    /// ωᵢ/λᵢ.
    row_precision: Vec<f64>,
    par: Par,
}

impl WeightSpace {
    /// Room for `problem`.
    pub fn new(problem: &Problem, par: Par) -> Self {
        let (n, d) = (problem.row_count(), problem.column_count());
        Self {
            sweep: Sweep::new(n, d, par),
            precision: Mat::zeros(d, d),
            projection: vec![0.0; d],
            factor: Factor::new(d, par),
            shared: None,
            current: Current::PerRow,
            weight_precision: vec![1.0; d],
            row_precision: vec![1.0; n],
            par,
        }
    }

    fn shared_sums<'a>(shared: &'a mut Option<SharedSums>, sweep: &mut Sweep, problem: &Problem) -> &'a SharedSums {
        shared.get_or_insert_with(|| {
            let d = problem.column_count();
            let mut sums = SharedSums { gram: Mat::zeros(d, d), projection: vec![0.0; d], target_square: 0.0 };
            sweep.gram(problem.rows(), problem.row_weight(), problem.target(), &mut sums.gram, &mut sums.projection);
            sums.target_square = problem.target().iter().zip(problem.row_weight()).map(|(y, w)| w * y * y).sum();
            sums
        })
    }

    /// Fills `precision` and `projection` and returns yᵀΛ⁻¹y and Σ log 2πλ̃.
    fn assemble(&mut self, problem: &Problem, noise: RowNoise<'_>) -> (f64, f64) {
        let d = problem.column_count();
        let (target_form, log_noise) = match noise {
            RowNoise::Shared(variance) => {
                let sums = Self::shared_sums(&mut self.shared, &mut self.sweep, problem);
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
                for (i, precision) in self.row_precision.iter_mut().enumerate() {
                    *precision = problem.row_weight()[i] / variances[i];
                    let y = problem.target()[i];
                    target_form += y * y * *precision;
                    log_noise -= (*precision / (2.0 * PI)).ln();
                }
                self.sweep.gram(
                    problem.rows(),
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
        if target_form > CANCELLATION_LIMIT || quadratic - prior_form < TRUSTED_RESIDUAL * target_form {
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
        self.sweep.row_forms(
            problem.rows(),
            self.factor.inverse(),
            &moments.mean,
            problem.target(),
            &mut moments.residual,
            &mut moments.latent_variance,
        );
        if let Current::Shared(variance) = self.current {
            for (precision, weight) in self.row_precision.iter_mut().zip(problem.row_weight()) {
                *precision = weight / variance;
            }
        }
        for ((p, q), precision) in
            moments.sample_precision_diagonal.iter_mut().zip(&mut moments.latent_variance).zip(&self.row_precision)
        {
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
        if let Some(sums) = &self.shared {
            route.shared = Some(SharedSums {
                gram: Mat::from_fn(columns.len(), columns.len(), |i, j| {
                    sums.gram[(columns[i.max(j)], columns[i.min(j)])]
                }),
                projection: columns.iter().map(|&j| sums.projection[j]).collect(),
                target_square: sums.target_square,
            });
        }
        Box::new(route)
    }

    fn covariance(&self, _problem: &Problem) -> Covariance {
        Covariance::weight_space(self.factor.inverse())
    }
}
