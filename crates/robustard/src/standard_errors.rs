//! Standard errors of coefficients under the noise that left-out rows have.
//!
//! A fit of many features to few rows takes much of the noise for effects: what it calls noise is too small, and so are the posterior
//! variances. Errors of left-out rows tell how much too small; they are what intervals of predictions rest on, too. With noise f² times as
//! large and the same precisions, the posterior covariance is that of the same prior with less data:
//!
//! Σ_f = (Σ⁻¹/f² + (1 − 1/f²)Γ)⁻¹ = f²(Σ − gΣΓ^½(I + gΓ^½ΣΓ^½)⁻¹Γ^½Σ),  g = f² − 1.

use faer::{Mat, MatRef};
use robustard_engine::FittedModel;
use robustard_engine::math::cholesky::Factor;

use crate::control::par;

/// More coefficients in use have no covariance of their own, which would take seconds.
const MOST: usize = 2000;

/// Covariance of the coefficients in use, in standard units.
#[derive(Debug, Clone)]
pub(crate) struct Coefficients {
    active: Vec<usize>,
    covariance: Mat<f64>,
}

impl Coefficients {
    /// `optimism` is f; none for very many coefficients, and if there are none.
    pub fn of(model: &FittedModel, optimism: f64) -> Option<Self> {
        let active = model.active_columns().to_vec();
        let (size, columns) = (active.len(), model.coefficients().len());
        if size == 0 || size > MOST {
            return None;
        }
        let unit = Mat::from_fn(size, columns, |k, j| f64::from(u8::from(active[k] == j)));
        let covariance = model.latent_covariance(unit.as_ref()).ok()?;
        let (square, gain) = (optimism * optimism, optimism * optimism - 1.0);
        let root: Vec<f64> = active.iter().map(|&column| model.weight_precision()[column].sqrt()).collect();
        let scaled = Mat::from_fn(size, size, |i, j| root[i] * covariance[(i, j)]);
        let matrix = Mat::from_fn(size, size, |i, j| f64::from(u8::from(i == j)) + gain * scaled[(i, j)] * root[j]);
        let mut factor = Factor::new(size, par());
        factor.factorise(matrix.as_ref()).ok()?;
        factor.invert();
        let lower = factor.inverse();
        let lower = Mat::from_fn(size, size, |i, j| if i >= j { lower[(i, j)] } else { 0.0 });
        let shrunk = &lower * &scaled;
        let less = shrunk.transpose() * &shrunk;
        let covariance = Mat::from_fn(size, size, |i, j| square * (covariance[(i, j)] - gain * less[(i, j)]));
        let is_finite = covariance.col_iter().all(|column| column.iter().all(|value| value.is_finite()));
        is_finite.then_some(Self { active, covariance })
    }

    /// Standard errors, one per column of the model; 0 where left out.
    pub fn errors(&self, columns: usize) -> Vec<f64> {
        let mut errors = vec![0.0; columns];
        for (k, &column) in self.active.iter().enumerate() {
            errors[column] = self.covariance[(k, k)].max(0.0).sqrt();
        }
        errors
    }

    /// Covariance of the rows of an m × d matrix: m × m.
    pub fn of_rows(&self, rows: MatRef<'_, f64>) -> Mat<f64> {
        let part = Mat::from_fn(rows.nrows(), self.active.len(), |i, k| rows[(i, self.active[k])]);
        &part * &self.covariance * part.transpose()
    }

    /// Variances of the columns of a d × m matrix.
    pub fn variances(&self, rows: MatRef<'_, f64>) -> Vec<f64> {
        let part = Mat::from_fn(self.active.len(), rows.ncols(), |k, i| rows[(self.active[k], i)]);
        let times = &self.covariance * &part;
        let variance = |i: usize| (0..self.active.len()).map(|k| part[(k, i)] * times[(k, i)]).sum::<f64>();
        (0..rows.ncols()).map(|i| variance(i).max(0.0)).collect()
    }
}
