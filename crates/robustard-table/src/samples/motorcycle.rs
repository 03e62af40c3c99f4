//! Head acceleration in a simulated motorcycle crash (Silverman, 1985) with six targets made wrong: the paper's Figures 1 and 2.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::{make_wrong, pairs};

const MCYCLE: &str = include_str!("../../data/mcycle.csv");
/// Powers of time.
pub const DEGREE: usize = 12;
/// Targets made wrong.
pub const WRONG_ROWS: usize = 6;
/// Parts of the cross-validation.
pub const FOLDS: usize = 10;

/// The data with some targets made wrong.
#[derive(Debug, Clone)]
pub struct Motorcycle {
    /// Time after the impact (ms).
    pub times: Vec<f64>,
    /// Acceleration (g).
    pub original: Vec<f64>,
    /// The same with wrong values.
    pub target: Vec<f64>,
    /// The wrong rows.
    pub wrong: Vec<usize>,
}

/// Rows of one part of the cross-validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    /// Rows to train on.
    pub train: Vec<usize>,
    /// Rows to test on.
    pub test: Vec<usize>,
}

impl Motorcycle {
    /// The seed decides which rows are made wrong.
    pub fn new(seed: u64) -> Self {
        let (times, original): (Vec<f64>, Vec<f64>) = pairs(MCYCLE).into_iter().unzip();
        let mut target = original.clone();
        let wrong = make_wrong(&mut target, WRONG_ROWS, &mut ChaCha8Rng::seed_from_u64(seed));
        Self { times, original, target, wrong }
    }

    /// The first and the last row are always trained on: beyond the rows it has seen, a polynomial of this degree can be anywhere.
    pub fn folds(&self, seed: u64) -> Vec<Fold> {
        let n = self.times.len();
        let mut order: Vec<usize> = (1..n - 1).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        let fold = |k: usize| {
            let test: Vec<usize> = order.iter().copied().skip(k).step_by(FOLDS).collect();
            let train = (0..n).filter(|row| !test.contains(row)).collect();
            Fold { train, test }
        };
        (0..FOLDS).map(fold).collect()
    }
}
