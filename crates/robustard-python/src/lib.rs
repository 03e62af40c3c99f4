//! The bridge between Python and robustard: tables in, fitted regressions out. What users see is in `python/robustard`.

mod fitted;
mod fitting;
mod frame;
mod streaming;
mod working;

use pyo3::prelude::*;

/// robustard's engine.
#[pymodule]
mod _robustard {
    #[pymodule_export]
    use super::fitted::{Fitted, load};
    #[pymodule_export]
    use super::fitting::{fit_numbers, fit_table, option_names};
    #[pymodule_export]
    use super::frame::Frame;
    #[pymodule_export]
    use super::streaming::{Partition, fit_batches, fit_files, fit_partitions};
    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
