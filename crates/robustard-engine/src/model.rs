//! The fitted model: all that prediction and diagnosis need.

use std::sync::Arc;
use std::time::Duration;

use faer::{ColRef, Mat, MatRef, Par};
use serde::{Deserialize, Serialize};

use crate::math::cholesky::Factor;
use crate::math::packed::{pack_lower, unpack_lower};
use crate::math::sum::{dot, image_squares_of, square_sum};
use crate::metrics::{effective_support, mean, trimmed_mean};
use crate::noise::{ContaminatedT, NoiseModel, NoiseOfRows, Shared, StudentT};
use crate::passes::{Belief, End};
use crate::posterior::{Covariance, LEAST_FREEDOM};
use crate::prediction::{LatentPrediction, PredictError, Prediction};
use crate::predictive::{BaseNoise, LeftOut, PredictiveNoise};
use crate::problem::Problem;
use crate::solver::{Interventions, IterationRecord, Outcome, Solution, Status, Uncertainty};

/// Rows that are predicted together: the room needed does not grow with the table.
const BLOCK_ROWS: usize = 1024;
/// Share of the variances left out at either end for [`BaseNoise::Trimmed`].
const TRIMMED_SHARE: f64 = 0.05;

/// What the model keeps about each training row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TrainingRows {
    /// y.
    pub target: Arc<Vec<f64>>,
    /// xᵀμ.
    pub fitted: Vec<f64>,
    /// λ.
    pub noise_variance: Vec<f64>,
    /// q = xᵀΣx at the fit's own noise, without the correction of predictions for robust noise.
    pub latent_variance: Vec<f64>,
    /// ω.
    pub weight: Arc<Vec<f64>>,
    /// Empty where it is `latent_variance`.
    predictive_latent_variance: Vec<f64>,
}

impl TrainingRows {
    /// Number of rows.
    pub fn count(&self) -> usize {
        self.target.len()
    }

    /// xᵀΣx as predictions of these rows carry it: with the correction for robust noise.
    pub fn predictive_latent_variance(&self) -> &[f64] {
        if self.predictive_latent_variance.is_empty() {
            &self.latent_variance
        } else {
            &self.predictive_latent_variance
        }
    }

    /// h = q/λ̃, λ̃ = λ/ω: how strongly each row pulls its own fit; between 0 and 1.
    pub fn leverage(&self) -> Vec<f64> {
        let own_noise = self.noise_variance.iter().zip(self.weight.iter()).map(|(v, w)| v / w);
        self.latent_variance.iter().zip(own_noise).map(|(q, v)| (q / v).min(1.0)).collect()
    }

    /// e² = r² + q: the expected squared residuals.
    pub fn second_moments(&self) -> Vec<f64> {
        let residual = self.target.iter().zip(&self.fitted).map(|(y, f)| y - f);
        residual.zip(&self.latent_variance).map(|(r, q)| r * r + q).collect()
    }

    fn is_consistent(&self) -> bool {
        let n = self.count();
        let vectors = [&self.fitted, &self.noise_variance, &self.latent_variance, &*self.weight];
        vectors.iter().all(|vector| vector.len() == n) && [0, n].contains(&self.predictive_latent_variance.len())
    }
}

/// A fitted joint ARD regression.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FittedModel {
    coefficients: Vec<f64>,
    standard_errors: Vec<f64>,
    weight_precision: Vec<f64>,
    active_columns: Vec<usize>,
    fixed_columns: Vec<usize>,
    groups: Vec<usize>,
    rows: TrainingRows,
    noise: NoiseModel,
    base_noise: BaseNoise,
    neg_log_evidence: f64,
    outcome: Outcome,
    noise_inflation: f64,
    inlier_variance: f64,
    /// The noise of predictions under `base_noise`.
    predictive_noise: PredictiveNoise,
    covariance: Covariance,
    /// None if `rows` are all that were fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seen: Option<Seen>,
}

/// What is known of all rows of a fit that keeps only some of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Their number.
    pub rows: u64,
    /// Σ ω.
    pub weight: f64,
    /// Σ h: how many weights they determine.
    pub effective_weights: f64,
}

/// How passes over the rows went.
#[derive(Debug, Clone)]
pub struct Course {
    /// How they ended.
    pub status: Status,
    /// One record per pass.
    pub trace: Vec<IterationRecord>,
    /// Extrapolated steps that were worse than the point before them.
    pub rejected: usize,
    /// Time taken.
    pub elapsed: Duration,
}

/// What the fit says of any row: its residual, the variance of the regression function there, and λ, which follows from both.
pub struct RowRule {
    columns: Vec<usize>,
    mean: Vec<f64>,
    inverse_factor: Mat<f64>,
    /// None if it is the same.
    wide_inverse_factor: Option<Mat<f64>>,
    noise: NoiseOfRows,
}

impl RowRule {
    fn new(end: &End) -> Self {
        let unpacked = |values: &[f64]| unpack_lower(values, end.columns.len()).expect("a fit has a whole triangle");
        Self {
            columns: end.columns.clone(),
            mean: end.belief.mean.clone(),
            inverse_factor: unpacked(&end.belief.inverse_factor),
            wide_inverse_factor: (end.inflation != 1.0).then(|| unpacked(&end.wide_inverse_factor)),
            noise: end.noise.of_rows(),
        }
    }

    /// Of rows with all columns (d × m) and their targets, which count as often as their weights say.
    pub fn of(&self, rows: MatRef<'_, f64>, target: &[f64], weight: &[f64]) -> TrainingRows {
        let part;
        let rows = if self.columns.len() == rows.nrows() {
            rows
        } else {
            part = Mat::from_fn(self.columns.len(), rows.ncols(), |j, i| rows[(self.columns[j], i)]);
            part.as_ref()
        };
        let fitted: Vec<f64> = (0..rows.ncols())
            .map(|i| rows.col(i).iter().zip(&self.mean).map(|(value, weight)| value * weight).sum())
            .collect();
        let latent_variance = image_squares_of(self.inverse_factor.as_ref(), rows);
        let wide = self.wide_inverse_factor.as_ref();
        let second_moment = |i: usize| (target[i] - fitted[i]).powi(2) + latent_variance[i];
        TrainingRows {
            noise_variance: (0..target.len()).map(|i| self.noise.at(second_moment(i)).variance).collect(),
            predictive_latent_variance: wide.map_or_else(Vec::new, |wide| image_squares_of(wide.as_ref(), rows)),
            target: Arc::new(target.to_vec()),
            weight: Arc::new(weight.to_vec()),
            fitted,
            latent_variance,
        }
    }
}

impl FittedModel {
    /// The model of `problem` at what a solver ended with.
    pub(crate) fn new(problem: &Problem, solution: Solution, base_noise: BaseNoise) -> Self {
        let d = problem.column_count();
        let Solution { columns: active_columns, weight_precision, state, moments, uncertainty, outcome } = solution;
        let Uncertainty { inflation, covariance_diagonal, latent_variance: predictive_latent_variance, covariance } =
            uncertainty;
        let (mut coefficients, mut standard_errors) = (vec![0.0; d], vec![0.0; d]);
        for (k, &column) in active_columns.iter().enumerate() {
            coefficients[column] = moments.mean[k];
            standard_errors[column] = covariance_diagonal[k].max(0.0).sqrt();
        }
        let [target, weight] = problem.shared_rows();
        let mut fitted = moments.residual;
        fitted.iter_mut().zip(&*target).for_each(|(fitted, y)| *fitted = y - *fitted);
        let mut noise_variance = state.noise_variance;
        if let NoiseModel::Shared(Shared { variance }) = state.noise {
            noise_variance.resize(target.len(), variance);
        }
        let latent_variance = moments.latent_variance;
        let rows = TrainingRows { target, fitted, noise_variance, latent_variance, weight, predictive_latent_variance };
        let inlier_variance = match state.noise {
            NoiseModel::Shared(Shared { variance }) => variance,
            _ => state.noise.inlier_variance(&rows.second_moments()),
        };
        let groups = problem.groups();
        let mut model = Self {
            coefficients,
            standard_errors,
            weight_precision,
            active_columns,
            fixed_columns: (0..d).filter(|&j| groups.fixed(groups.of_column()[j]).is_some()).collect(),
            groups: groups.of_column().to_vec(),
            rows,
            noise: state.noise,
            base_noise,
            neg_log_evidence: moments.neg_log_evidence,
            outcome,
            noise_inflation: inflation,
            inlier_variance,
            predictive_noise: PredictiveNoise::Normal { variance: inlier_variance },
            covariance,
            seen: None,
        };
        model.predictive_noise = model.learn_predictive_noise(base_noise);
        model
    }

    /// The model that passes over many rows have led to. `kept` are some of the rows, by which it is shown.
    pub fn from_passes(end: &End, kept: &Problem<'_>, base_noise: BaseNoise, course: Course) -> Self {
        let (d, groups) = (kept.column_count(), kept.groups());
        let rule = RowRule::new(end);
        let rows = rule.of(kept.rows(), kept.target(), kept.row_weight());
        let wide = rule.wide_inverse_factor.unwrap_or(rule.inverse_factor);
        let (mut coefficients, mut standard_errors) = (vec![0.0; d], vec![0.0; d]);
        for (k, &column) in end.columns.iter().enumerate() {
            coefficients[column] = end.belief.mean[k];
            standard_errors[column] = square_sum(&wide.col_as_slice(k)[k..]).sqrt();
        }
        let mut weight_precision = vec![0.0; d];
        groups.spread(&end.weight_precision, &mut weight_precision);
        let inlier_variance = match end.noise {
            NoiseModel::Shared(Shared { variance }) => variance,
            noise => noise.inlier_variance(&rows.second_moments()),
        };
        let Course { status, trace, rejected, elapsed } = course;
        let interventions = Interventions { rejected_extrapolations: rejected, ..Interventions::default() };
        let evaluations = trace.len();
        let mut model = Self {
            coefficients,
            standard_errors,
            weight_precision,
            active_columns: end.columns.clone(),
            fixed_columns: (0..d).filter(|&j| groups.fixed(groups.of_column()[j]).is_some()).collect(),
            groups: groups.of_column().to_vec(),
            rows,
            noise: end.noise,
            base_noise,
            neg_log_evidence: end.neg_log_evidence,
            outcome: Outcome { status, objective: end.objective, evaluations, trace, interventions, elapsed },
            noise_inflation: end.inflation,
            inlier_variance,
            predictive_noise: PredictiveNoise::Normal { variance: inlier_variance },
            covariance: Covariance::WeightSpace { inverse_factor: wide },
            seen: Some(Seen { rows: end.rows, weight: end.weight, effective_weights: end.effective_weights }),
        };
        model.predictive_noise = model.learn_predictive_noise(base_noise);
        model
    }

    /// What is known of all rows, if `rows` are only some of them.
    pub fn seen(&self) -> Option<Seen> {
        self.seen
    }

    /// Number of rows fitted.
    pub fn row_count(&self) -> u64 {
        self.seen.map_or(self.rows.count() as u64, |seen| seen.rows)
    }

    /// What the fit says of any row; none of fits with more columns than rows, where λ is known of the training rows alone.
    pub fn row_rule(&self) -> Option<RowRule> {
        let Covariance::WeightSpace { inverse_factor: wide } = &self.covariance else { return None };
        let own = if self.noise_inflation == 1.0 { wide.clone() } else { self.own_inverse_factor(wide)? };
        let is_same = self.noise_inflation == 1.0;
        Some(RowRule {
            columns: self.active_columns.clone(),
            mean: self.active_columns.iter().map(|&column| self.coefficients[column]).collect(),
            inverse_factor: own,
            wide_inverse_factor: (!is_same).then(|| wide.clone()),
            noise: self.noise.of_rows(),
        })
    }

    /// The posterior of all weights at the noise as it is; those of columns that were pruned are as their priors say.
    pub fn belief(&self) -> Option<Belief> {
        let RowRule { columns, inverse_factor: own, .. } = self.row_rule()?;
        let d = self.coefficients.len();
        let deviation = |j: usize| self.weight_precision[j].sqrt().recip();
        let mut factor = Mat::from_fn(d, d, |i, j| if i == j { deviation(j) } else { 0.0 });
        for (j, &column) in columns.iter().enumerate() {
            columns[j..].iter().enumerate().for_each(|(i, &row)| factor[(row, column)] = own[(j + i, j)]);
        }
        Some(Belief { mean: self.coefficients.clone(), inverse_factor: pack_lower(factor.as_ref()) })
    }

    /// L⁻¹ of the posterior at the noise as it is: of Γ + κ(Σ⁻¹ − Γ), where Σ is the posterior under noise κ times as large.
    fn own_inverse_factor(&self, wide: &Mat<f64>) -> Option<Mat<f64>> {
        let d = wide.nrows();
        let precision = |j: usize| self.weight_precision[self.active_columns[j]];
        // Σ⁻¹ = LLᵀ with L = R⁻¹.
        let mut lower = Mat::<f64>::identity(d, d);
        faer::linalg::triangular_solve::solve_lower_triangular_in_place(wide.as_ref(), lower.as_mut(), Par::Seq);
        let mut inverse = &lower * lower.transpose();
        for j in 0..d {
            for i in 0..d {
                let prior = if i == j { precision(j) } else { 0.0 };
                inverse[(i, j)] = prior + self.noise_inflation * (inverse[(i, j)] - prior);
            }
        }
        let mut factor = Factor::new(d, Par::Seq);
        factor.factorise(inverse.as_ref()).ok()?;
        factor.invert();
        Some(unpack_lower(&pack_lower(factor.inverse()), d).expect("a factor is a triangle"))
    }

    /// μ, one per column; 0 where pruned.
    pub fn coefficients(&self) -> &[f64] {
        &self.coefficients
    }

    /// Posterior standard deviation of each weight, corrected for robust noise ([`Self::noise_inflation`]); 0 where pruned.
    pub fn standard_errors(&self) -> &[f64] {
        &self.standard_errors
    }

    /// γ, one per column; at its upper bound where pruned.
    pub fn weight_precision(&self) -> &[f64] {
        &self.weight_precision
    }

    /// The columns that were not pruned.
    pub fn active_columns(&self) -> &[usize] {
        &self.active_columns
    }

    /// The columns whose precision was given, such as an intercept.
    pub fn fixed_columns(&self) -> &[usize] {
        &self.fixed_columns
    }

    /// The group of each column; columns of one group share a precision.
    pub fn groups(&self) -> &[usize] {
        &self.groups
    }

    /// The training rows.
    pub fn rows(&self) -> &TrainingRows {
        &self.rows
    }

    /// The noise model.
    pub fn noise(&self) -> &NoiseModel {
        &self.noise
    }

    /// The noise of predictions.
    pub fn base_noise(&self) -> BaseNoise {
        self.base_noise
    }

    /// −log p(y | γ, λ).
    pub fn neg_log_evidence(&self) -> f64 {
        self.neg_log_evidence
    }

    /// How the fit went.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Factor of the noise variances in the posterior from which standard errors and the variance of predictions are taken
    /// ([`NoiseModel::inflation`]); 1 with shared noise or a flat prior.
    pub fn noise_inflation(&self) -> f64 {
        self.noise_inflation
    }

    /// Learns the noise of predictions again, if it is that of left-out rows ([`BaseNoise::LeftOut`]), where rows have `more`
    /// variance than the features carry (one value per row, or none) and count as often as `weight` says; errors of new rows are
    /// `stretch` times as large.
    pub fn calibrate(&mut self, more: &[f64], weight: &[f64], stretch: f64) {
        if self.base_noise == BaseNoise::LeftOut {
            self.predictive_noise = self.noise_of_left_out(more, weight, stretch);
        }
    }

    /// The same from errors of rows that were predicted in another way.
    pub fn calibrate_from(&mut self, errors: &LeftOut, weight: &[f64]) {
        if self.base_noise == BaseNoise::LeftOut {
            // A fit through every row would have no noise at all.
            const LEAST_SHARE: f64 = 1.0 / 64.0;
            let squares = errors.residual.iter().zip(weight).map(|(error, weight)| weight * error * error);
            let least = LEAST_SHARE * squares.sum::<f64>() / weight.iter().sum::<f64>();
            self.predictive_noise = PredictiveNoise::learn(errors, weight, self.inlier_variance.max(least));
        }
    }

    /// Each training row predicted from the others, γ and λ as they are; `more` is variance of the regression function that the
    /// features do not carry, one value per row, or none.
    #[must_use]
    pub fn left_out(&self, more: &[f64]) -> LeftOut {
        self.left_out_of(&self.rows, more)
    }

    /// The same of rows of which the fit says this.
    pub fn left_out_of(&self, rows: &TrainingRows, more: &[f64]) -> LeftOut {
        let (residual, latent_variance) = (0..rows.count()).map(|row| self.left_out_row(rows, row, more)).unzip();
        LeftOut { residual, latent_variance }
    }

    /// Residual and latent variance of a row predicted from the others.
    fn left_out_row(&self, rows: &TrainingRows, row: usize, more: &[f64]) -> (f64, f64) {
        let freedom = |latent: f64, own_noise: f64| (1.0 - (latent / own_noise).min(1.0)).max(LEAST_FREEDOM);
        let own_noise = rows.noise_variance[row] / rows.weight[row];
        let residual = (rows.target[row] - rows.fitted[row]) / freedom(rows.latent_variance[row], own_noise);
        let latent = rows.predictive_latent_variance()[row];
        let more = more.get(row).copied().unwrap_or(0.0);
        (residual, latent / freedom(latent, self.noise_inflation * own_noise) + more)
    }

    /// The noise that explains the errors of rows predicted from the others, which count as often as `weight` says.
    fn noise_of_left_out(&self, more: &[f64], weight: &[f64], stretch: f64) -> PredictiveNoise {
        let rows = PredictiveNoise::looked_at(weight.len()).map(|row| {
            let (residual, latent_variance) = self.left_out_row(&self.rows, row, more);
            (stretch * residual, latent_variance, weight[row])
        });
        PredictiveNoise::learn_from(rows, self.inlier_variance)
    }

    /// Whether all parts fit together, as they do in every fitted model but perhaps not in one read from a file.
    pub fn check(&self) -> Result<(), String> {
        let d = self.coefficients.len();
        let columns = self.active_columns.iter().chain(&self.fixed_columns).chain(&self.groups);
        let sizes = self.standard_errors.len() == d
            && self.weight_precision.len() == d
            && self.groups.len() == d
            && self.rows.is_consistent()
            && columns.into_iter().all(|&column| column < d)
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
        self.inlier_variance
    }

    /// The noise that predictions carry under `base`.
    pub fn predictive_noise(&self, base: BaseNoise) -> PredictiveNoise {
        if base == self.base_noise { self.predictive_noise } else { self.learn_predictive_noise(base) }
    }

    fn learn_predictive_noise(&self, base: BaseNoise) -> PredictiveNoise {
        let variances = &self.rows.noise_variance;
        match (base, self.noise) {
            (BaseNoise::Mean, _) => PredictiveNoise::Normal { variance: mean(variances) },
            (BaseNoise::Trimmed, _) => PredictiveNoise::Normal { variance: trimmed_mean(variances, TRIMMED_SHARE) },
            (
                BaseNoise::Inlier,
                NoiseModel::StudentT(StudentT { scale, degrees, .. })
                | NoiseModel::ContaminatedT(ContaminatedT { scale, degrees, .. }),
            ) => PredictiveNoise::StudentT { scale, degrees },
            (BaseNoise::Inlier, _) => PredictiveNoise::Normal { variance: self.inlier_variance },
            (BaseNoise::LeftOut, _) => self.noise_of_left_out(&[], &self.rows.weight, 1.0),
        }
    }

    /// Covariance of the rows of an m × d design matrix without noise, Xₘ Σ Xₘᵀ: m × m.
    pub fn latent_covariance(&self, design: MatRef<'_, f64>) -> Result<Mat<f64>, PredictError> {
        self.check_rows(design.transpose())?;
        let active = &self.active_columns;
        let rows = Mat::from_fn(active.len(), design.nrows(), |j, i| design[(i, active[j])]);
        Ok(self.covariance.bilinear_forms(rows.as_ref()))
    }

    /// Covariance of the weights with the regression function at rows, which are the columns of a d × m matrix: d × m, 0 for columns
    /// that are left out.
    pub fn weight_covariance(&self, rows: MatRef<'_, f64>) -> Result<Mat<f64>, PredictError> {
        self.check_rows(rows)?;
        let active = &self.active_columns;
        let part = Mat::from_fn(active.len(), rows.ncols(), |j, i| rows[(active[j], i)]);
        let part = self.covariance.times(part.as_ref());
        let mut covariance = Mat::zeros(rows.nrows(), rows.ncols());
        for (j, &column) in active.iter().enumerate() {
            (0..rows.ncols()).for_each(|i| covariance[(column, i)] = part[(j, i)]);
        }
        Ok(covariance)
    }

    /// Predicts the rows of an m × d design matrix with the model's base noise.
    pub fn predict(&self, design: MatRef<'_, f64>) -> Result<Prediction, PredictError> {
        self.predict_with(design, self.base_noise)
    }

    /// Predicts the rows of an m × d design matrix with another base noise.
    pub fn predict_with(&self, design: MatRef<'_, f64>, base: BaseNoise) -> Result<Prediction, PredictError> {
        let LatentPrediction { mean, variance } = self.predict_rows(design.transpose())?;
        Ok(Prediction::new(mean, variance, self.predictive_noise(base)))
    }

    /// The expected values of the rows of an m × d design matrix alone, which takes far less time.
    pub fn predict_mean(&self, design: MatRef<'_, f64>) -> Result<Vec<f64>, PredictError> {
        self.mean_rows(design.transpose())
    }

    /// The regression function at new rows, which are the columns of a d × m matrix.
    pub fn predict_rows(&self, rows: MatRef<'_, f64>) -> Result<LatentPrediction, PredictError> {
        self.check_rows(rows)?;
        let mut prediction = LatentPrediction::with_capacity(rows.ncols());
        let weights = self.active_coefficients();
        self.for_each_block(rows, |block| {
            prediction.mean.extend(block.col_iter().map(|row| product(&weights, row)));
            prediction.variance.extend(self.covariance.quadratic_forms(block));
        });
        Ok(prediction)
    }

    /// The expected values at new rows, which are the columns of a d × m matrix.
    pub fn mean_rows(&self, rows: MatRef<'_, f64>) -> Result<Vec<f64>, PredictError> {
        self.check_rows(rows)?;
        let mut mean = Vec::with_capacity(rows.ncols());
        let weights = self.active_coefficients();
        self.for_each_block(rows, |block| mean.extend(block.col_iter().map(|row| product(&weights, row))));
        Ok(mean)
    }

    fn check_rows(&self, rows: MatRef<'_, f64>) -> Result<(), PredictError> {
        let expected = self.coefficients.len();
        if rows.nrows() != expected {
            return Err(PredictError::ColumnCount { expected, found: rows.nrows() });
        }
        // In the order in which the values lie; the first wrong one, row by row, is then looked for.
        let transposed = rows.row_stride() != 1;
        let in_memory_order = if transposed { rows.transpose() } else { rows };
        let all_finite = |values: ColRef<'_, f64>| values.iter().fold(true, |finite, value| finite & value.is_finite());
        if in_memory_order.col_iter().all(all_finite) {
            return Ok(());
        }
        let wrong = rows.col_iter().enumerate().find_map(|(row, values)| {
            let column = values.iter().position(|value| !value.is_finite())?;
            Some(PredictError::NotFinite { column, row, value: values[column] })
        });
        wrong.map_or(Ok(()), Err)
    }

    fn active_coefficients(&self) -> Vec<f64> {
        self.active_columns.iter().map(|&column| self.coefficients[column]).collect()
    }

    /// Shows the active columns of the rows, active × rows, a block of contiguous rows at a time.
    fn for_each_block(&self, rows: MatRef<'_, f64>, mut show: impl FnMut(MatRef<'_, f64>)) {
        let active = &self.active_columns;
        let is_ready = active.len() == rows.nrows() && rows.row_stride() == 1;
        for start in (0..rows.ncols()).step_by(BLOCK_ROWS) {
            let block = rows.subcols(start, BLOCK_ROWS.min(rows.ncols() - start));
            if is_ready {
                show(block);
            } else {
                show(Mat::from_fn(active.len(), block.ncols(), |j, i| block[(active[j], i)]).as_ref());
            }
        }
    }
}

fn product(weights: &[f64], row: ColRef<'_, f64>) -> f64 {
    row.try_as_col_major().map_or_else(
        || weights.iter().zip(row.iter()).map(|(weight, value)| weight * value).sum(),
        |row| dot(weights, row.as_slice()),
    )
}
