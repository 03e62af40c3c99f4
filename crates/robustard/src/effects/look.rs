//! The fitted function at training rows, with values exchanged.

use faer::{Mat, MatRef, Par};
use rayon::prelude::*;

use super::{Background, CLEAR, product};
use crate::features::{Exchanged, Exchanger};
use crate::fitted::Fit;

/// The fitted function at training rows, in the target's units.
pub(super) struct Look<'f> {
    fit: &'f Fit,
    exchanger: Exchanger<'f>,
    /// Weights of the basis functions, and the intercept.
    weights: Vec<f64>,
    intercept: f64,
    /// Shares of the rows, which add up to 1.
    pub share: Vec<f64>,
    /// Predictions.
    pub predicted: Vec<f64>,
    /// What is known of each row without itself; none for rows that look wrong.
    left_out: Vec<Option<LeftOutRow>>,
    /// Share of the training rows that is not looked at.
    pub unseen: f64,
}

/// A row that is predicted from the others.
pub(super) struct LeftOutRow {
    actual: f64,
    /// Error of the prediction, in the target's units.
    error: f64,
    /// The same, in standard units.
    residual: f64,
    /// What such errors of new rows are, as a standard deviation in the target's units.
    deviation: f64,
    /// What the row adds to the weights of the basis functions and to the intercept per unit of its left-out error: cov(w, f(xᵢ))/λᵢ.
    weights: Vec<f64>,
    intercept: f64,
}

/// What left-out R² loses where a column is not known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Loss {
    pub value: f64,
    /// Its standard error: how it would vary from sample to sample.
    pub error: f64,
    /// What it stays below if the column does nothing: [`CLEAR`] standard errors, of what is left then, products of errors and of changes of
    /// predictions.
    pub by_chance: f64,
}

/// Predictions with exchanged values.
pub(super) struct Seen {
    /// t, one row after the other.
    pub values: Mat<f64>,
    /// The same, each row predicted from the others; as before for rows that look wrong.
    pub left_out: Mat<f64>,
    /// Mean over the rows of the slope of the target times the basis functions, for each value; the intercept's first.
    pub sums: Mat<f64>,
}

impl<'f> Look<'f> {
    pub fn new(fit: &'f Fit, background: &Background, rows: usize) -> Self {
        let Fit { design, model, .. } = fit;
        let standard = design.standardize(background.inputs(rows).as_ref());
        let exchanger = Exchanger::new(design.map(), standard.as_ref());
        let coefficients = model.coefficients();
        let weights = exchanger.weights(design.of_features(coefficients));
        let intercept = design.of_intercept(coefficients).unwrap_or(0.0);
        let diagnostics = fit.diagnostics();
        let rows = &background.rows[..rows];
        let total: f64 = rows.iter().map(|&row| diagnostics.weight[row]).sum();
        let mut look = Self {
            left_out: left_out_rows(fit, &exchanger, standard.as_ref(), rows),
            exchanger,
            weights,
            intercept,
            share: rows.iter().map(|&row| diagnostics.weight[row] / total).collect(),
            predicted: Vec::new(),
            unseen: 1.0 - rows.len() as f64 / diagnostics.weight.len() as f64,
            fit,
        };
        // No input is exchanged for nothing, once.
        let nothing = look.exchanger.values(&[], Mat::zeros(1, 0).as_ref());
        look.predicted = (0..rows.len()).map(|row| look.row(row, &nothing)[0]).collect();
        look
    }

    fn standard(&self, basis: &[f64]) -> f64 {
        self.intercept + product(basis, &self.weights)
    }

    /// The same without what the row itself adds.
    fn without(&self, row: usize, standard: f64, basis: &[f64]) -> f64 {
        match &self.left_out[row] {
            Some(own) => standard - own.residual * (own.intercept + product(basis, &own.weights)),
            None => standard,
        }
    }

    /// Predictions of a row with each of the values in place of its own.
    pub fn row(&self, row: usize, values: &Exchanged) -> Vec<f64> {
        let mut predicted = Vec::new();
        let target = self.fit.design.target();
        self.exchanger.show(row, values, |_, basis| predicted.push(target.expected(self.standard(basis))));
        predicted
    }

    /// Values in standard units, of values in the user's.
    pub fn exchanged(&self, inputs: &[usize], values: MatRef<'_, f64>) -> Exchanged {
        let scaling = self.fit.design.inputs();
        let standard = |g: usize, k: usize| (values[(g, k)] - scaling.mean[inputs[k]]) / scaling.scale[inputs[k]];
        self.exchanger.values(inputs, Mat::from_fn(values.nrows(), inputs.len(), standard).as_ref())
    }

    /// Rows that were fitted.
    pub fn training_rows(&self) -> f64 {
        self.fit.model.rows().count() as f64
    }

    pub fn row_count(&self) -> usize {
        self.share.len()
    }

    /// Predictions of all rows, each from the others, with each of the values.
    pub fn left_out(&self, values: &Exchanged, count: usize) -> Mat<f64> {
        let target = self.fit.design.target();
        let mut all = Mat::zeros(self.row_count(), count);
        for row in 0..self.row_count() {
            self.exchanger.show(row, values, |g, basis| {
                all[(row, g)] = target.expected(self.without(row, self.standard(basis), basis));
            });
        }
        all
    }

    /// Predictions of all rows with each of the values, with what a posterior variance needs.
    pub fn seen(&self, values: &Exchanged, count: usize) -> Seen {
        let target = self.fit.design.target();
        let [values_of_rows, left_out] = [(); 2].map(|()| Mat::zeros(self.row_count(), count));
        let mut seen = Seen { values: values_of_rows, left_out, sums: Mat::zeros(self.exchanger.size() + 1, count) };
        for row in 0..self.row_count() {
            self.exchanger.show(row, values, |g, basis| {
                let standard = self.standard(basis);
                seen.values[(row, g)] = target.expected(standard);
                seen.left_out[(row, g)] = target.expected(self.without(row, standard, basis));
                let slope = self.share[row] * target.variance_at(standard, 1.0).sqrt();
                let sums = seen.sums.col_as_slice_mut(g);
                sums[0] += slope;
                sums[1..].iter_mut().zip(basis).for_each(|(sum, basis)| *sum += slope * basis);
            });
        }
        seen
    }

    /// Variances of weighted sums of the columns of `sums`, in squared units of the target: the posterior's, of coefficients under the
    /// noise of left-out rows, or where that is larger the jackknife's, which does not rest on the noise and the smoothness that were learnt.
    pub fn variances(&self, sums: MatRef<'_, f64>) -> Vec<f64> {
        let Fit { design, model, .. } = self.fit;
        let features = self.exchanger.features(sums.subrows(1, sums.nrows() - 1));
        let first = usize::from(design.has_intercept());
        let rows = Mat::from_fn(features.nrows() + first, sums.ncols(), |j, g| match j.checked_sub(first) {
            Some(feature) => features[(feature, g)],
            None => sums[(0, g)],
        });
        let mut variances = match self.fit.coefficients() {
            Some(coefficients) => coefficients.variances(rows.as_ref()),
            None => model.predict_rows(rows.as_ref()).map_or(vec![0.0; sums.ncols()], |latent| latent.variance),
        };
        for (g, variance) in variances.iter_mut().enumerate() {
            let sum: Vec<f64> = sums.col(g).iter().copied().collect();
            *variance = variance.max(self.jackknife_variance(&sum));
        }
        variances
    }

    /// Σᵢ (change of a sum where row i is left out)², over all training rows, of which those looked at are a sample.
    fn jackknife_variance(&self, sum: &[f64]) -> f64 {
        let rows = self.left_out.iter().flatten();
        let change = |row: &LeftOutRow| row.residual * (sum[0] * row.intercept + product(&sum[1..], &row.weights));
        rows.map(|row| change(row).powi(2)).sum::<f64>() / (1.0 - self.unseen)
    }

    /// What left-out R² loses where a column is not known and predictions are averaged over its values, of given weights; `values` are
    /// left-out predictions with them. At most all is lost: where other columns make up for the one that is not known, averages may be
    /// worse than the mean of the target, which would then be predicted.
    pub fn loss(&self, values: MatRef<'_, f64>, weight: &[f64]) -> Loss {
        let row = |(row, own): (usize, &Option<LeftOutRow>)| {
            let LeftOutRow { actual, error, deviation, .. } = *own.as_ref()?;
            let without = weight.iter().enumerate().map(|(g, w)| w * values[(row, g)]).sum();
            Some(Without { share: self.share[row], actual, error, deviation, without })
        };
        let mut rows: Vec<Without> = self.left_out.iter().enumerate().filter_map(row).collect();
        let total: f64 = rows.iter().map(|row| row.share).sum();
        if total <= 0.0 {
            return Loss::default();
        }
        rows.iter_mut().for_each(|row| row.share /= total);
        let actual: f64 = rows.iter().map(|row| row.share * row.actual).sum();
        let variance: f64 = rows.iter().map(|row| row.share * (row.actual - actual).powi(2)).sum();
        if variance <= 0.0 {
            return Loss::default();
        }
        let averaged = Without::loss(&rows, variance);
        rows.iter_mut().for_each(|row| row.without = actual);
        let all = Without::loss(&rows, variance);
        // Where nothing is explained, nothing can be lost.
        if averaged.value <= all.value.max(0.0) { averaged } else { all }
    }
}

/// A row predicted without itself, and without a column.
struct Without {
    share: f64,
    actual: f64,
    error: f64,
    deviation: f64,
    without: f64,
}

impl Without {
    /// What R² loses, where targets have this variance.
    fn loss(rows: &[Self], variance: f64) -> Loss {
        let loss = |row: &Self| (row.actual - row.without).powi(2) - row.error * row.error;
        let value: f64 = rows.iter().map(|row| row.share * loss(row)).sum();
        let root = |of: &dyn Fn(&Self) -> f64| -> f64 {
            rows.iter().map(|row| (row.share * of(row)).powi(2)).sum::<f64>().sqrt() / variance
        };
        Loss {
            value: value / variance,
            error: root(&|row| loss(row) - value),
            by_chance: CLEAR * root(&|row| 2.0 * row.deviation * (row.actual - row.error - row.without)),
        }
    }
}

/// What is known of rows (standardized) without themselves.
fn left_out_rows(
    fit: &Fit,
    exchanger: &Exchanger<'_>,
    standard: MatRef<'_, f64>,
    rows: &[usize],
) -> Vec<Option<LeftOutRow>> {
    let Fit { design, model, .. } = fit;
    let diagnostics = fit.diagnostics();
    let left_out = fit.left_out();
    let deviations = fit.predictive_deviations(&left_out.latent_variance);
    let errors = left_out.residual;
    let of_rows = model.rows();
    let covariance = model.weight_covariance(design.columns(standard, Par::Seq).0.as_ref());
    let Ok(covariance) = covariance else { return rows.iter().map(|_| None).collect() };
    let left_out = |(k, &row): (usize, &usize)| {
        let size = of_rows.weight[row] / of_rows.noise_variance[row];
        let own: Vec<f64> = covariance.col(k).iter().map(|covariance| size * covariance).collect();
        (!diagnostics.flagged[row]).then(|| LeftOutRow {
            actual: diagnostics.actual[row],
            error: diagnostics.loo_residual[row],
            residual: errors[row],
            deviation: design.target().variance_at(of_rows.fitted[row], 1.0).sqrt() * deviations[row],
            weights: exchanger.weights(design.of_features(&own)),
            intercept: design.of_intercept(&own).unwrap_or(0.0),
        })
    };
    rows.par_iter().enumerate().map(left_out).collect()
}
