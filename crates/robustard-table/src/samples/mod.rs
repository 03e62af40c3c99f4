//! Small classic data sets, and targets made wrong as in the paper.

pub mod motorcycle;

use rand::seq::index::sample;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use robustard::metrics::standard_deviation;

/// The stars of the cluster CYG OB1 (Rousseeuw and Leroy, Robust Regression and Outlier Detection, 1987) as CSV: logarithms of
/// temperature and light.
pub const STARS: &str = include_str!("../../data/starsCYG.csv");
/// The giants among [`STARS`], rows counted from 0: cool and bright, they turn the least-squares slope around.
pub const GIANTS: [usize; 4] = [10, 19, 29, 33];

/// Wrong targets are moved by ±SHIFT·N(1, SPREAD²) standard deviations, as in the paper's tabular experiments.
pub const SHIFT: f64 = 3.0;
/// See [`SHIFT`].
pub const SPREAD: f64 = 0.25;

/// Makes `count` random targets wrong and gives their rows, in order.
pub fn make_wrong(target: &mut [f64], count: usize, rng: &mut impl Rng) -> Vec<usize> {
    let scale = standard_deviation(target);
    let mut wrong = sample(rng, target.len(), count).into_vec();
    wrong.sort_unstable();
    for &row in &wrong {
        let sign = if rng.random::<bool>() { 1.0 } else { -1.0 };
        target[row] += sign * SHIFT * scale * (1.0 + SPREAD * rng.sample::<f64, _>(StandardNormal));
    }
    wrong
}

/// The numbers of a table of two columns; its header is passed over.
pub fn pairs(csv: &str) -> Vec<(f64, f64)> {
    let numbers = |line: &str| -> Option<(f64, f64)> {
        let (first, second) = line.split_once(',')?;
        Some((first.parse().ok()?, second.parse().ok()?))
    };
    csv.lines().filter_map(numbers).collect()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn the_embedded_tables_are_whole() {
        assert_eq!(pairs(STARS).len(), 47);
        assert_eq!(motorcycle::Motorcycle::new(0).times.len(), 133);
    }

    #[test]
    fn only_wrong_rows_are_moved_and_far() {
        let original: Vec<f64> = (0..50).map(|i| f64::from(i % 7)).collect();
        let mut target = original.clone();
        let wrong = make_wrong(&mut target, 5, &mut ChaCha8Rng::seed_from_u64(1));
        assert_eq!(wrong.len(), 5);
        let scale = standard_deviation(&original);
        for row in 0..50 {
            let moved = (target[row] - original[row]).abs() / scale;
            assert_eq!(moved > 0.0, wrong.contains(&row));
            // Four deviations from the mean shift.
            assert!(moved == 0.0 || (moved - SHIFT).abs() < 4.0 * SHIFT * SPREAD, "{moved}");
        }
    }
}
