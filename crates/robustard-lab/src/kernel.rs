//! The paper's kernel regression: one basis function on every training row of Boston, lengthscale fixed.

use faer::Par;
use robustard::features::{Curve, Shape};
use robustard_table::Table;

use crate::LabError;
use crate::method::Basis;
use crate::protocol::DataSet;
use crate::tabular::sample;
use crate::trial::Sample;

/// Training and test rows through kernel functions exp(−‖x − xⱼ‖²/p), the kernel that the Fourier features stand for.
pub fn kernel_sample(set: &DataSet, table: &Table, contamination: f64, seed: u64) -> Result<Sample, LabError> {
    let sample = sample(set, table, contamination, seed, |train, test| {
        let p = train.ncols();
        let curve = Curve {
            shape: Shape::Gauss,
            scales: vec![(0.5 * p as f64).sqrt().recip(); p],
            lengthscales: p,
            variance: 1.0,
            singles: Vec::new(),
            single_scales: Vec::new(),
            single_variance: 0.0,
            pair_variance: 0.0,
        };
        [train, test].map(|inputs| curve.matrix(inputs.as_ref(), train.as_ref(), Par::Seq))
    })?;
    Ok(Sample { basis: Basis::Kernel, ..sample })
}
