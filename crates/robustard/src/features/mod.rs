//! Maps from raw inputs to design matrices. A fitted map is applied unchanged to new rows.

mod fourier;
mod kernel;
mod polynomial;
mod standardize;

pub use fourier::Fourier;
pub use kernel::Kernel;
pub use polynomial::Polynomial;
pub use standardize::Standardizer;
