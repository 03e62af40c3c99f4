//! The paper's kernel regression: one basis function on every training row of Boston, lengthscale fixed.

use robustard::features::Kernel;
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
        let map = Kernel::fit(train.as_ref(), vec![(0.5 * p as f64).sqrt(); p])?;
        Ok([map.transform(train.as_ref())?, map.transform(test.as_ref())?])
    })?;
    Ok(Sample { basis: Basis::Kernel, ..sample })
}
