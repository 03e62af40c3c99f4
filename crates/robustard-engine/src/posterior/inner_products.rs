//! Inner products of the columns: with shared noise all that most of a fit needs of the rows.

use faer::{Mat, Par};

use super::sweep::Sweep;
use crate::problem::Problem;

/// XᵀΩX, XᵀΩy and yᵀΩy.
pub struct InnerProducts {
    /// The lower triangle.
    pub(super) gram: Mat<f64>,
    pub(super) projection: Vec<f64>,
    pub(super) target_square: f64,
}

impl InnerProducts {
    pub(super) fn of(problem: &Problem, sweep: &mut Sweep) -> Self {
        let d = problem.column_count();
        let (mut gram, mut projection) = (Mat::zeros(d, d), vec![0.0; d]);
        sweep.gram(problem.row_blocks(), problem.row_weight(), problem.target(), &mut gram, &mut projection);
        let target_square = problem.target().iter().zip(problem.row_weight()).map(|(y, w)| w * y * y).sum();
        Self { gram, projection, target_square }
    }

    /// Formed over the rows of `problem`.
    pub(crate) fn new(problem: &Problem, par: Par) -> Self {
        Self::of(problem, &mut Sweep::new(problem.row_count(), problem.column_count(), par))
    }

    /// Those of some of the columns.
    pub(crate) fn part(&self, columns: &[usize]) -> Self {
        Self {
            gram: Mat::from_fn(columns.len(), columns.len(), |i, j| self.between(columns[i], columns[j])),
            projection: columns.iter().map(|&j| self.projection[j]).collect(),
            target_square: self.target_square,
        }
    }

    /// xᵢᵀΩxⱼ.
    pub(crate) fn between(&self, i: usize, j: usize) -> f64 {
        self.gram[(i.max(j), i.min(j))]
    }

    /// xⱼᵀΩy.
    pub(crate) fn with_target(&self, j: usize) -> f64 {
        self.projection[j]
    }

    /// yᵀΩy.
    pub(crate) fn target_square(&self) -> f64 {
        self.target_square
    }
}
