//! The paper's tabular experiment: nine data sets through random Fourier features.

use faer::Mat;
use robustard::Standardizer;
use robustard::features::Fourier;
use robustard_table::Table;

use crate::LabError;
use crate::method::Basis;
use crate::protocol::{Damage, DataSet, MOST_TRAINING_ROWS, Split};
use crate::trial::Sample;

/// d of the Fourier features.
pub const FEATURES: usize = 256;

/// Training and test rows of a set through features that `make` makes of standardized training and test inputs.
pub fn sample(
    set: &DataSet,
    table: &Table,
    contamination: f64,
    seed: u64,
    make: impl FnOnce(&Mat<f64>, &Mat<f64>) -> [Mat<f64>; 2],
) -> Result<Sample, LabError> {
    let split = Split::new(set, table, MOST_TRAINING_ROWS, Damage::shifted(contamination), seed)?;
    let [train, test] = [set.inputs(&split.train)?, set.inputs(&split.test)?];
    let standard = Standardizer::fit(train.as_ref());
    let inputs = [train, test].map(|inputs| standard.transform(inputs.as_ref()));
    let dirty = set.targets(&split.train)?;
    // Targets are standardized before some are made wrong, as in the paper.
    let scale = split.scale;
    let target = dirty.iter().map(|y| (y - scale.0) / scale.1).collect();
    let design = make(&inputs[0], &inputs[1]);
    Ok(Sample {
        inputs,
        basis: Basis::Features,
        design,
        target,
        test_target: split.test_target,
        scale,
        wrong: split.wrong,
    })
}

/// scikit-learn's random Fourier features with gamma = 1 / inputs.
pub fn fourier_sample(set: &DataSet, table: &Table, contamination: f64, seed: u64) -> Result<Sample, LabError> {
    sample(set, table, contamination, seed, |train, test| {
        let map = Fourier::new(train.ncols(), FEATURES, 1.0 / train.ncols() as f64, seed);
        [train, test].map(|inputs| map.transform(inputs.as_ref()))
    })
}
