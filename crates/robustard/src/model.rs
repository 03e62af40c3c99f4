//! The fitted model: all that prediction and diagnosis need.

use std::time::Duration;

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::metrics::{effective_support, mean, trimmed_mean};
use crate::noise::NoiseModel;
use crate::posterior::Moments;
use crate::predictive::{BaseNoise, LeftOut, PredictiveNoise};
use crate::problem::Problem;
use crate::solver::{Interventions, IterationRecord, Status};
use crate::state::State;

/// How a fit went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// The objective at the end.
    pub objective: f64,
    /// Posteriors computed.
    pub evaluations: usize,
    /// One record per iteration.
    pub trace: Vec<IterationRecord>,
    /// How often the fit was helped.
    pub interventions: Interventions,
    /// Time taken.
    pub elapsed: Duration,
}

/// The posterior covariance of the active weights, in the form that its route gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Covariance {
    /// Σ = RᵀR with the lower triangular R = L⁻¹; columns of its lower triangle, one after the other.
    WeightSpace {
        /// Number of weights.
        size: usize,
        /// d(d+1)/2 values.
        inverse_factor: Vec<f64>,
    },
    /// Free columns z and columns of fixed precision f: with W = L⁻¹ZΓ⁻¹ and u = x_f − G x_z,
    /// xᵀΣx = x_zᵀΓ⁻¹x_z − ‖W x_z‖² + ‖L_M⁻¹u‖².
    SampleSpace {
        /// Places of the free columns among the active ones.
        free: Vec<usize>,
        /// Places of the columns of fixed precision.
        fixed: Vec<usize>,
        /// 1/γ of the free columns.
        prior_variance: Vec<f64>,
        /// W, n × free, column by column.
        factor: Vec<f64>,
        /// G, fixed × free, column by column.
        fixed_gain: Vec<f64>,
        /// L_M⁻¹, fixed × fixed, column by column.
        fixed_inverse_factor: Vec<f64>,
        /// n.
        rows: usize,
    },
}

impl Covariance {
    pub(crate) fn weight_space(inverse: MatRef<'_, f64>) -> Self {
        let size = inverse.nrows();
        let inverse_factor = (0..size).flat_map(|j| (j..size).map(move |i| inverse[(i, j)])).collect();
        Self::WeightSpace { size, inverse_factor }
    }

    /// Whether the parts agree about the number of weights.
    fn is_consistent(&self, weights: usize) -> bool {
        match self {
            Self::WeightSpace { size, inverse_factor } => {
                *size == weights && size.checked_mul(size + 1).map(|twice| twice / 2) == Some(inverse_factor.len())
            }
            Self::SampleSpace { free, fixed, prior_variance, factor, fixed_gain, fixed_inverse_factor, rows } => {
                let (z, f) = (free.len(), fixed.len());
                z + f == weights
                    && free.iter().chain(fixed).all(|&place| place < weights)
                    && prior_variance.len() == z
                    && rows.checked_mul(z) == Some(factor.len())
                    && fixed_gain.len() == f * z
                    && fixed_inverse_factor.len() == f * f
            }
        }
    }

    /// Matrices Mₖ and signs with aᵀΣb = Σₖ ±(Mₖa)ᵀ(Mₖb): the images Mₖx of each column x of the d × m matrix `rows`.
    fn images(&self, rows: MatRef<'_, f64>) -> Vec<(f64, Mat<f64>)> {
        let m = rows.ncols();
        let image = |matrix: MatRef<'_, f64>, of: MatRef<'_, f64>| -> Mat<f64> {
            let mut image = Mat::<f64>::zeros(matrix.nrows(), m);
            matmul(image.as_mut(), Accum::Replace, matrix, of, 1.0, Par::Seq);
            image
        };
        match self {
            Self::WeightSpace { size, inverse_factor } => {
                let mut values = inverse_factor.iter();
                let mut factor = Mat::<f64>::zeros(*size, *size);
                for j in 0..*size {
                    factor.col_as_slice_mut(j)[j..].iter_mut().for_each(|v| *v = *values.next().unwrap_or(&0.0));
                }
                vec![(1.0, image(factor.as_ref(), rows))]
            }
            Self::SampleSpace { free, fixed, prior_variance, factor, fixed_gain, fixed_inverse_factor, rows: n } => {
                let (z, f) = (free.len(), fixed.len());
                let of = |places: &[usize]| Mat::from_fn(places.len(), m, |k, i| rows[(places[k], i)]);
                let (free, mut rest) = (of(free), of(fixed));
                rest -= image(MatRef::from_column_major_slice(fixed_gain, f, z), free.as_ref());
                let explained = image(MatRef::from_column_major_slice(factor, *n, z), free.as_ref());
                let fixed = image(MatRef::from_column_major_slice(fixed_inverse_factor, f, f), rest.as_ref());
                let prior = Mat::from_fn(z, m, |k, i| prior_variance[k].sqrt() * free[(k, i)]);
                vec![(1.0, prior), (-1.0, explained), (1.0, fixed)]
            }
        }
    }

    /// xᵀΣx for each column x of the d × m matrix `rows`.
    fn quadratic_forms(&self, rows: MatRef<'_, f64>) -> Vec<f64> {
        let images = self.images(rows);
        // What is taken away is at most what was there: less would be rounding.
        let form = |i: usize| {
            images.iter().fold(0.0, |sum: f64, (sign, of)| (sum + sign * of.col(i).squared_norm_l2()).max(0.0))
        };
        (0..rows.ncols()).map(form).collect()
    }

    /// aᵀΣb for all pairs of columns of the d × m matrix `rows`.
    fn bilinear_forms(&self, rows: MatRef<'_, f64>) -> Mat<f64> {
        let mut forms = Mat::<f64>::zeros(rows.ncols(), rows.ncols());
        for (sign, image) in self.images(rows) {
            matmul(forms.as_mut(), Accum::Add, image.transpose(), image.as_ref(), sign, Par::Seq);
        }
        forms
    }
}

/// What the model keeps about each training row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainingRows {
    /// y.
    pub target: Vec<f64>,
    /// xᵀμ.
    pub fitted: Vec<f64>,
    /// λ.
    pub noise_variance: Vec<f64>,
    /// q = xᵀΣx at the fit's own noise, without the correction of predictions for robust noise.
    pub latent_variance: Vec<f64>,
    /// ω.
    pub weight: Vec<f64>,
}

impl TrainingRows {
    /// e² = r² + q: the expected squared residuals.
    pub fn second_moments(&self) -> Vec<f64> {
        let residual = self.target.iter().zip(&self.fitted).map(|(y, f)| y - f);
        residual.zip(&self.latent_variance).map(|(r, q)| r * r + q).collect()
    }
}

/// Rows that do not fit the model.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PredictError {
    /// A value that is not a finite number.
    #[error("column {}, row {} is {value}; drop the row or fill the value in before predicting", .column + 1, .row + 1)]
    NotFinite {
        /// Column, counted from 0.
        column: usize,
        /// Row, counted from 0.
        row: usize,
        /// The value found.
        value: f64,
    },
    /// Wrong number of columns.
    #[error("the model has {expected} columns but the rows have {found}; give the columns that it was fitted to")]
    ColumnCount {
        /// Columns of the model.
        expected: usize,
        /// Columns given.
        found: usize,
    },
    /// A level outside (0, 1).
    #[error("the level is {0}; it must be between 0 and 1, for example 0.95")]
    Level(f64),
}

/// Predictions for new rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Expected value.
    pub mean: Vec<f64>,
    /// Variance of the regression function.
    pub latent_variance: Vec<f64>,
    /// Standard deviation of a new observation.
    pub std: Vec<f64>,
    noise: PredictiveNoise,
}

/// Lower and upper ends of central intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower ends.
    pub lower: Vec<f64>,
    /// Upper ends.
    pub upper: Vec<f64>,
}

impl Prediction {
    /// With so much more variance of the regression function.
    pub fn widened(mut self, more: &[f64]) -> Self {
        self.latent_variance.iter_mut().zip(more).for_each(|(variance, more)| *variance += more);
        self.std = self.latent_variance.iter().map(|variance| self.noise.total_variance(*variance).sqrt()).collect();
        self
    }

    /// Log densities of the observations that came true, under the same distribution as the intervals.
    pub fn log_density(&self, actual: &[f64]) -> Vec<f64> {
        let residual = actual.iter().zip(&self.mean).map(|(y, m)| y - m);
        residual.zip(&self.latent_variance).map(|(r, q)| self.noise.log_density(r, *q)).collect()
    }

    /// Central intervals that hold new observations of the model's base noise with probability `level`.
    pub fn interval(&self, level: f64) -> Result<Interval, PredictError> {
        if !(level > 0.0 && level < 1.0) {
            return Err(PredictError::Level(level));
        }
        let half = self.noise.half_widths(level, &self.latent_variance);
        let ends = |sign: f64| self.mean.iter().zip(&half).map(|(m, h)| m + sign * h).collect();
        Ok(Interval { lower: ends(-1.0), upper: ends(1.0) })
    }
}

/// A fitted joint ARD regression.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FittedModel {
    /// μ, one per column; 0 where pruned.
    pub coefficients: Vec<f64>,
    /// Posterior standard deviation of each weight, corrected for robust noise (`noise_inflation`); 0 where pruned.
    pub standard_errors: Vec<f64>,
    /// γ, one per column; at its upper bound where pruned.
    pub weight_precision: Vec<f64>,
    /// The columns that were not pruned.
    pub active_columns: Vec<usize>,
    /// The columns whose precision was given, such as an intercept.
    pub fixed_columns: Vec<usize>,
    /// The training rows.
    pub rows: TrainingRows,
    /// The noise model.
    pub noise: NoiseModel,
    /// The noise of predictions.
    pub base_noise: BaseNoise,
    /// −log p(y | γ, λ).
    pub neg_log_evidence: f64,
    /// How the fit went.
    pub outcome: Outcome,
    /// Factor of the noise variances in the posterior from which standard errors and the variance of predictions are taken
    /// ([`NoiseModel::inflation`]); 1 with shared noise or a flat prior.
    pub noise_inflation: f64,
    /// The noise of predictions with [`BaseNoise::LeftOut`], if that is the model's own.
    pub left_out_noise: Option<PredictiveNoise>,
    covariance: Covariance,
}

impl FittedModel {
    pub(crate) fn new(
        problem: &Problem,
        weight_precision: Vec<f64>,
        active_columns: Vec<usize>,
        state: &State,
        moments: &Moments,
        base_noise: BaseNoise,
        outcome: Outcome,
    ) -> Self {
        let d = problem.column_count();
        let second_moment: Vec<f64> =
            moments.residual.iter().zip(&moments.latent_variance).map(|(r, q)| r * r + q).collect();
        let noise_inflation = state.noise.inflation(&second_moment, problem.row_weight());
        let mut coefficients = vec![0.0; d];
        for (k, &column) in active_columns.iter().enumerate() {
            coefficients[column] = moments.mean[k];
        }
        let fitted = problem.target().iter().zip(&moments.residual).map(|(y, r)| y - r).collect();
        let mut model = Self {
            coefficients,
            standard_errors: vec![0.0; d],
            weight_precision,
            active_columns,
            fixed_columns: (0..d)
                .filter(|&j| problem.groups().fixed(problem.groups().of_column()[j]).is_some())
                .collect(),
            rows: TrainingRows {
                target: problem.target().to_vec(),
                fitted,
                noise_variance: state.noise_variance.clone(),
                latent_variance: moments.latent_variance.clone(),
                weight: problem.row_weight().to_vec(),
            },
            noise: state.noise,
            base_noise,
            neg_log_evidence: moments.neg_log_evidence,
            outcome,
            noise_inflation,
            left_out_noise: None,
            covariance: Covariance::WeightSpace { size: 0, inverse_factor: Vec::new() },
        };
        if base_noise == BaseNoise::LeftOut {
            model.left_out_noise = Some(model.learn_left_out_noise(&[], &model.rows.weight));
        }
        model
    }

    /// Learns the noise of predictions again, if it is that of left-out rows, where rows have so much more variance than the
    /// features carry ([`Prediction::widened`]) and count so much.
    pub fn calibrate(&mut self, more: &[f64], weight: &[f64]) {
        if self.base_noise == BaseNoise::LeftOut {
            self.left_out_noise = Some(self.learn_left_out_noise(more, weight));
        }
    }

    /// The noise that explains the errors of left-out rows.
    fn learn_left_out_noise(&self, more: &[f64], weight: &[f64]) -> PredictiveNoise {
        let diagnostics = self.diagnose();
        let mut latent_variance = diagnostics.loo_latent_variance;
        latent_variance.iter_mut().zip(more).for_each(|(variance, more)| *variance += more);
        let left_out = LeftOut { residual: diagnostics.loo_residual, latent_variance };
        PredictiveNoise::learn(&left_out, weight, self.inlier_variance())
    }

    /// Takes the error bars from `moments`, the posterior under noise `inflation` times as large.
    pub(crate) fn set_uncertainty(&mut self, moments: &Moments, covariance: Covariance, inflation: f64) {
        for (k, &column) in self.active_columns.iter().enumerate() {
            self.standard_errors[column] = moments.covariance_diagonal[k].max(0.0).sqrt();
        }
        self.covariance = covariance;
        self.noise_inflation = inflation;
    }

    /// Whether all parts fit together, as they do in every fitted model but perhaps not in one read from a file.
    pub fn check(&self) -> Result<(), String> {
        let (d, n) = (self.coefficients.len(), self.rows.target.len());
        let rows = &self.rows;
        let sizes = self.standard_errors.len() == d
            && self.weight_precision.len() == d
            && [&rows.fitted, &rows.noise_variance, &rows.latent_variance, &rows.weight].iter().all(|v| v.len() == n)
            && self.active_columns.iter().all(|&column| column < d)
            && self.covariance.is_consistent(self.active_columns.len());
        if sizes { Ok(()) } else { Err("the parts of the model are of different sizes".to_owned()) }
    }

    /// Whether each column is still in the model.
    pub fn is_active(&self) -> Vec<bool> {
        let mut is_active = vec![false; self.coefficients.len()];
        self.active_columns.iter().for_each(|&column| is_active[column] = true);
        is_active
    }

    /// Iterations used.
    pub fn iterations(&self) -> usize {
        self.outcome.trace.len()
    }

    /// How the fit ended.
    pub fn status(&self) -> Status {
        self.outcome.status
    }

    /// The active columns whose relevance 1/γ is at least `share` of the largest learnt one, most relevant first. Columns of
    /// very different scales should be standardized for this.
    pub fn relevant_columns(&self, share: f64) -> Vec<usize> {
        let relevance = |column: usize| 1.0 / self.weight_precision[column];
        let learnt = |column: &usize| !self.fixed_columns.contains(column);
        let mut columns: Vec<usize> = self.active_columns.iter().copied().filter(learnt).collect();
        columns.sort_by(|&a, &b| relevance(b).total_cmp(&relevance(a)));
        let largest = columns.first().map_or(0.0, |&column| relevance(column));
        columns.retain(|&column| relevance(column) >= share * largest);
        columns
    }

    /// Share of the features in use, by the entropy of 1/γ: ESS(θ).
    pub fn effective_weights(&self) -> f64 {
        effective_support(self.weight_precision.iter().map(|g| 1.0 / g))
    }

    /// Share of the rows in use, by the entropy of 1/λ: ESS(y).
    pub fn effective_rows(&self) -> f64 {
        effective_support(self.rows.noise_variance.iter().map(|v| 1.0 / v))
    }

    /// Variance of the noise of a row that is not an outlier.
    pub fn inlier_variance(&self) -> f64 {
        self.noise.inlier_variance(&self.rows.second_moments())
    }

    /// The noise that predictions carry under `base`.
    pub fn predictive_noise(&self, base: BaseNoise) -> PredictiveNoise {
        let variances = &self.rows.noise_variance;
        match (base, self.noise) {
            (BaseNoise::Mean, _) => PredictiveNoise::Normal { variance: mean(variances) },
            (BaseNoise::Trimmed, _) => PredictiveNoise::Normal { variance: trimmed_mean(variances, 0.05) },
            (
                BaseNoise::Inlier,
                NoiseModel::StudentT { scale, degrees, .. } | NoiseModel::ContaminatedT { scale, degrees, .. },
            ) => PredictiveNoise::StudentT { scale, degrees },
            (BaseNoise::LeftOut, _) => {
                self.left_out_noise.unwrap_or_else(|| self.learn_left_out_noise(&[], &self.rows.weight))
            }
            (BaseNoise::Inlier, _) => PredictiveNoise::Normal { variance: self.inlier_variance() },
        }
    }

    /// Covariance of the rows of an m × d design matrix without noise, Xₘ Σ Xₘᵀ: m × m.
    pub fn latent_covariance(&self, design: MatRef<'_, f64>) -> Result<Mat<f64>, PredictError> {
        self.check_design(design)?;
        let active = &self.active_columns;
        let rows = Mat::from_fn(active.len(), design.nrows(), |j, i| design[(i, active[j])]);
        Ok(self.covariance.bilinear_forms(rows.as_ref()))
    }

    fn check_design(&self, design: MatRef<'_, f64>) -> Result<(), PredictError> {
        let expected = self.coefficients.len();
        if design.ncols() != expected {
            return Err(PredictError::ColumnCount { expected, found: design.ncols() });
        }
        for (column, values) in design.col_iter().enumerate() {
            if let Some((row, &value)) = values.iter().enumerate().find(|(_, value)| !value.is_finite()) {
                return Err(PredictError::NotFinite { column, row, value });
            }
        }
        Ok(())
    }

    /// Predicts the rows of an m × d design matrix with the model's base noise.
    pub fn predict(&self, design: MatRef<'_, f64>) -> Result<Prediction, PredictError> {
        self.predict_with(design, self.base_noise)
    }

    /// The expected values alone, which takes far less time.
    pub fn predict_mean(&self, design: MatRef<'_, f64>) -> Result<Vec<f64>, PredictError> {
        self.check_design(design)?;
        let mut mean = Vec::with_capacity(design.nrows());
        self.blocks(design, |_, means| mean.extend(means));
        Ok(mean)
    }

    /// Shows blocks of rows (active columns × rows) and their expected values: the room needed does not grow with the table.
    fn blocks(&self, design: MatRef<'_, f64>, mut show: impl FnMut(MatRef<'_, f64>, Vec<f64>)) {
        const BLOCK: usize = 1024;
        let active = &self.active_columns;
        let weights: Vec<f64> = active.iter().map(|&column| self.coefficients[column]).collect();
        for start in (0..design.nrows()).step_by(BLOCK) {
            let length = BLOCK.min(design.nrows() - start);
            let rows = Mat::from_fn(active.len(), length, |j, i| design[(start + i, active[j])]);
            let mut means = vec![0.0; length];
            matmul(
                MatMut::from_column_major_slice_mut(&mut means, length, 1),
                Accum::Replace,
                rows.transpose(),
                MatRef::from_column_major_slice(&weights, active.len(), 1),
                1.0,
                Par::Seq,
            );
            show(rows.as_ref(), means);
        }
    }

    /// Predicts the rows of an m × d design matrix with another base noise.
    pub fn predict_with(&self, design: MatRef<'_, f64>, base: BaseNoise) -> Result<Prediction, PredictError> {
        self.check_design(design)?;
        let (mut mean, mut latent_variance) = (Vec::with_capacity(design.nrows()), Vec::with_capacity(design.nrows()));
        self.blocks(design, |rows, means| {
            mean.extend(means);
            latent_variance.extend(self.covariance.quadratic_forms(rows));
        });
        let noise = self.predictive_noise(base);
        Ok(Prediction {
            std: latent_variance.iter().map(|q| noise.total_variance(*q).sqrt()).collect(),
            mean,
            latent_variance,
            noise,
        })
    }
}
