//! Fits by passes over rows that may lie anywhere: in memory, in files, on the machines of a cluster.
//!
//! Given the fit so far ([`Broadcast`]), the noise variance of a row follows from its own residual. So one pass over the rows, in any number
//! of partitions, brings back sums ([`Sums`]) of a size that does not depend on the number of rows, and a [`Learner`] makes the next
//! broadcast of them. While the variances are held, the sums fix everything that the weights and their precisions depend on: between two
//! passes the precisions take many steps.
//!
//! What is minimised is the variational bound J(μ, Σ, γ, η) = Σ ωf_η(e²) + KL(N(μ, Σ) ‖ N(0, Γ⁻¹)) with e² = r² + q, whose minimum is that
//! of the objective of the solvers.

mod broadcast;
mod codec;
mod histogram;
mod in_memory;
mod learner;
mod part;
mod partition;
mod sums;
mod weights;

pub use broadcast::{Belief, Broadcast};
pub use codec::DecodeError;
pub use histogram::{Bins, Histogram};
pub use in_memory::InMemory;
pub use learner::{End, Learner, Plan, Step};
pub use partition::{Known, Partition};
pub use sums::Sums;

/// Rows, wherever they are.
pub trait RowPass {
    /// What can go wrong on the way.
    type Error;

    /// The sums over all rows under what is broadcast.
    fn pass(&mut self, broadcast: &Broadcast) -> Result<Sums, Self::Error>;
}
