//! Rows in memory.

use faer::Par;
use rayon::prelude::*;

use super::partition::{Known, Partition};
use super::{Broadcast, RowPass, Sums};
use crate::posterior::BLOCK_ROWS;
use crate::problem::Problem;

/// Rows of a partition: their number depends on the table alone, so that sums do not depend on the number of threads.
const PARTITION_ROWS: usize = 16 * BLOCK_ROWS;

/// The rows of a problem.
pub struct InMemory<'p> {
    problem: &'p Problem<'p>,
    par: Par,
}

impl<'p> InMemory<'p> {
    /// The rows of `problem`.
    pub fn new(problem: &'p Problem<'p>, par: Par) -> Self {
        Self { problem, par }
    }

    /// λ of each row.
    pub fn variances(&self, broadcast: &Broadcast) -> Vec<f64> {
        let known = Known::new(broadcast);
        let rows = self.problem.rows();
        let target = self.problem.target();
        let of_block = |start: usize| {
            let range = start..(start + BLOCK_ROWS).min(target.len());
            known.variances(rows.subcols(start, range.len()), &target[range])
        };
        let starts: Vec<usize> = (0..target.len()).step_by(BLOCK_ROWS).collect();
        let blocks: Vec<Vec<f64>> = match self.par {
            Par::Seq => starts.into_iter().map(of_block).collect(),
            Par::Rayon(_) => starts.into_par_iter().map(of_block).collect(),
        };
        blocks.concat()
    }
}

impl RowPass for InMemory<'_> {
    type Error = std::convert::Infallible;

    fn pass(&mut self, broadcast: &Broadcast) -> Result<Sums, Self::Error> {
        let known = Known::new(broadcast);
        let problem = self.problem;
        let (target, weight) = (problem.target(), problem.row_weight());
        let rows = problem.rows();
        let of_partition = |start: usize| {
            let range = start..(start + PARTITION_ROWS).min(target.len());
            let mut partition = Partition::new(&known);
            partition.add(rows.subcols(start, range.len()), &target[range.clone()], &weight[range]);
            partition.finish()
        };
        let starts: Vec<usize> = (0..target.len()).step_by(PARTITION_ROWS).collect();
        let mut total = Sums::zero(broadcast.columns.len());
        match self.par {
            Par::Seq => starts.into_iter().for_each(|start| total.merge(&of_partition(start))),
            Par::Rayon(_) => {
                // As many at a time as there are threads, so that the sums that wait are few.
                for starts in starts.chunks(2 * rayon::current_num_threads()) {
                    let parts: Vec<Sums> = starts.par_iter().map(|&start| of_partition(start)).collect();
                    parts.iter().for_each(|part| total.merge(part));
                }
            }
        }
        Ok(total)
    }
}
