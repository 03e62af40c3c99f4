//! Small numerical tools that everything else builds on.

pub(crate) mod anderson;
pub mod cholesky;
pub mod density;
pub mod order;
pub mod packed;
pub mod product;
pub mod sum;
