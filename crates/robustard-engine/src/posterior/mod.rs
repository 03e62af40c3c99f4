//! The posterior of the weights at one state (γ, λ), by two routes to the same numbers.
//!
//! Weight space factorises the d × d matrix Σ_θ⁻¹ = Γ + XᵀΛ⁻¹X, sample space the n × n matrix Σ_y = Λ + XΓ⁻¹Xᵀ.

mod covariance;
mod inner_products;
mod sample_space;
mod sweep;
mod weight_space;

use std::sync::Arc;

use faer::Par;
use serde::{Deserialize, Serialize};

pub use covariance::Covariance;
pub(crate) use inner_products::InnerProducts;
pub use sample_space::SampleSpace;
pub(crate) use sweep::{BLOCK_ROWS, BlockForms, BlockSums};
pub use weight_space::WeightSpace;

pub use crate::math::cholesky::{FactorError, Jitter};
use crate::problem::Problem;

/// yᵀΛ⁻¹y − bᵀμ loses yᵀΛ⁻¹y·ε to cancellation. Above this value the residuals of `rows` rows are formed instead, which keeps
/// the objective exact to about 1e-8; what a table of many rows loses is small beside what its rows add up to.
pub(crate) fn cancellation_limit(rows: usize) -> f64 {
    const LIMIT: f64 = 1e7;
    const LIMIT_PER_ROW: f64 = 1e3;
    LIMIT.max(LIMIT_PER_ROW * rows as f64)
}

/// Least 1 − h: an interpolated row's is rounding error, and what is divided by it must stay finite.
pub const LEAST_FREEDOM: f64 = 1e-12;

/// How the posterior is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// The smaller of the two matrices.
    Auto,
    /// d × d.
    WeightSpace,
    /// n × n.
    SampleSpace,
}

/// Noise variances λ of the rows, before row weights.
#[derive(Debug, Clone, Copy)]
pub enum RowNoise<'a> {
    /// All rows have this one.
    Shared(f64),
    /// One per row.
    PerRow(&'a [f64]),
}

impl RowNoise<'_> {
    /// λ of row i.
    #[inline]
    pub fn variance(&self, row: usize) -> f64 {
        match self {
            Self::Shared(variance) => *variance,
            Self::PerRow(variances) => variances[row],
        }
    }
}

/// Everything about the posterior that solvers and diagnostics ask for, at one state.
#[derive(Debug, Clone, Default)]
pub struct Moments {
    /// −log p(y | γ, λ), with its constants, rows counted by their weights.
    pub neg_log_evidence: f64,
    /// μ: posterior mean of the weights, d.
    pub mean: Vec<f64>,
    /// Σⱼⱼ: posterior variance of the weights, d.
    pub covariance_diagonal: Vec<f64>,
    /// xⱼᵀΠ_y xⱼ of the columns, d.
    pub column_quadratic_form: Vec<f64>,
    /// Σ ωᵢrᵢ².
    pub residual_sum: f64,
    /// Σ ωᵢqᵢ.
    pub latent_sum: f64,
    /// rᵢ = yᵢ − xᵢᵀμ, n; with the next two empty until asked for.
    pub residual: Vec<f64>,
    /// qᵢ = xᵢᵀΣxᵢ, n.
    pub latent_variance: Vec<f64>,
    /// Diagonal of Π_y, n; with row weights, of the row as a whole.
    pub sample_precision_diagonal: Vec<f64>,
}

impl Moments {
    /// Room for the moments of `problem`'s columns; for those of the rows it is made when they are first asked for.
    pub fn new(problem: &Problem) -> Self {
        let d = problem.column_count();
        Self {
            mean: vec![0.0; d],
            covariance_diagonal: vec![0.0; d],
            column_quadratic_form: vec![0.0; d],
            ..Self::default()
        }
    }

    /// Room for the moments of so many rows.
    fn make_room(&mut self, rows: usize) {
        for values in [&mut self.residual, &mut self.latent_variance, &mut self.sample_precision_diagonal] {
            values.resize(rows, 0.0);
        }
    }
}

/// One route to the posterior. Calls come in the order of the methods; each needs the ones before it at the same state.
pub trait Posterior: Send {
    /// Factorises at (γ, λ), `weight_precision` per group, and fills the mean and the evidence.
    fn factorise(
        &mut self,
        problem: &Problem,
        weight_precision: &[f64],
        noise: RowNoise<'_>,
        moments: &mut Moments,
    ) -> Result<Jitter, FactorError>;

    /// Fills the columns' covariance diagonal and quadratic form, and the sums over rows when the noise is shared.
    fn weight_moments(&mut self, problem: &Problem, moments: &mut Moments);

    /// Fills the rows' residual, latent variance and sample precision, and the sums over rows.
    fn row_moments(&mut self, problem: &Problem, moments: &mut Moments);

    /// Replaces `values`, one per column, by Σ_θ values.
    fn apply_covariance(&self, problem: &Problem, values: &mut [f64]);

    /// The workspace for `reduced`, which is the present problem with only the columns in `columns`.
    fn reduce(&self, wanted: Route, reduced: &Problem, columns: &[usize]) -> Box<dyn Posterior>;

    /// The columns' inner products, if the route has formed them.
    fn inner_products(&self) -> Option<Arc<InnerProducts>> {
        None
    }

    /// Takes inner products that were formed before; for routes that would form them.
    fn set_inner_products(&mut self, _products: InnerProducts) {}

    /// The covariance as predictions need it; needs [`Posterior::weight_moments`].
    fn covariance(&self, problem: &Problem) -> Covariance;
}

/// The route's workspace for `problem`.
pub fn route(wanted: Route, problem: &Problem, par: Par) -> Box<dyn Posterior> {
    let weight_space = match wanted {
        Route::Auto => problem.column_count() <= problem.row_count(),
        Route::WeightSpace => true,
        Route::SampleSpace => false,
    };
    if weight_space { Box::new(WeightSpace::new(problem, par)) } else { Box::new(SampleSpace::new(problem, par)) }
}

/// Rows counted ωᵢ times have the posterior of one row with variance λᵢ/ωᵢ; this is what their evidence has beyond
/// that row's: ½ Σ [(ωᵢ − 1) log 2πλᵢ + log ωᵢ].
fn weight_correction(problem: &Problem, noise: RowNoise<'_>) -> f64 {
    let log = |variance: f64| (2.0 * std::f64::consts::PI * variance).ln();
    let logs = match noise {
        RowNoise::Shared(variance) => (problem.weight_sum() - problem.row_count() as f64) * log(variance),
        RowNoise::PerRow(variances) => {
            let rows = variances.iter().zip(problem.row_weight());
            rows.map(|(v, w)| if *w == 1.0 { 0.0 } else { (w - 1.0) * log(*v) }).sum()
        }
    };
    0.5 * (logs + problem.log_weight_sum())
}

/// Fills the rows' sums from their vectors.
fn sum_rows(problem: &Problem, moments: &mut Moments) {
    let weight = problem.row_weight();
    moments.residual_sum = moments.residual.iter().zip(weight).map(|(r, w)| w * r * r).sum();
    moments.latent_sum = moments.latent_variance.iter().zip(weight).map(|(q, w)| w * q).sum();
}
