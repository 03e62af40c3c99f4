//! How smooth a curve is, and how far it goes, has to be found out.

mod common;

use common::{Rows, normal};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robustard::Recipe;

/// Four inputs and the sine of a sum of random walks along three of them: no derivative anywhere.
fn walks(seed: u64, rows: usize) -> Vec<([f64; 4], f64)> {
    const STEPS: usize = 200;
    let mut steps = ChaCha8Rng::seed_from_u64(0);
    let mut walk = || {
        let along = (0..STEPS).scan(1.0, |height, _| {
            *height += 0.2 * normal(&mut steps);
            Some(*height)
        });
        along.collect::<Vec<f64>>()
    };
    let walks = [walk(), walk(), walk()];
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let row = |_| {
        let x: [f64; 4] = std::array::from_fn(|_| rng.random_range(0.0..1.0));
        let heights = walks.iter().zip(&x).map(|(walk, x)| walk[(STEPS as f64 * x) as usize]);
        (x, heights.sum::<f64>().sin())
    };
    (0..rows).map(row).collect()
}

/// With curves that have a derivative the error is 0.424.
#[test]
fn rough_surfaces_are_learnt() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let rows = Rows::of(walks(2, 900).into_iter().map(|(x, height)| (x, height + 0.1 * normal(&mut rng))));
    let regression = rows.fit(&Recipe::default());
    let new = walks(3, 500);
    let mean = regression.predict_mean(Rows::of(new.iter().copied()).inputs.as_ref()).unwrap();
    let errors: f64 = mean.iter().zip(&new).map(|(mean, (_, height))| (mean - height).powi(2)).sum();
    let error = (errors / new.len() as f64).sqrt();
    assert!(error < 0.405, "{error}: {:?}", regression.selection());
}

/// A quotient, exact but for rounding, of two inputs, beside one that does not matter.
fn quotients(seed: u64, rows: usize) -> Vec<([f64; 3], f64)> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let row = |_| {
        let (whole, share) = (rng.random_range(1.0..2.0), rng.random_range(0.2..0.5));
        ([whole, share, normal(&mut rng)], (1e5 * whole / share).round() / 1e5 - 6.0)
    };
    (0..rows).map(row).collect()
}

fn errors_of<const P: usize>(regression: &robustard::Regression, rows: &[([f64; P], f64)]) -> Vec<f64> {
    let mean = regression.predict_mean(Rows::of(rows.iter().copied()).inputs.as_ref()).unwrap();
    mean.iter().zip(rows).map(|(mean, (_, y))| (mean - y).abs()).collect()
}

/// A curve goes on beyond the rows for the width of their range. With half of that the error is 1.13.
#[test]
fn exact_surfaces_go_on_beyond_the_rows() {
    let regression = Rows::of(quotients(1, 500).into_iter()).fit(&Recipe::default());
    let beyond = [0.25, 0.35, 0.45].map(|share| ([2.8, share, 0.0], 2.8 / share - 6.0));
    let far = errors_of(&regression, &beyond).into_iter().fold(0.0, f64::max);
    assert!(far < 0.8, "{far}: {:?}", regression.selection());
}

/// Four inputs of five levels each and the sine of a sum of random walks along them.
fn cells(rows: usize) -> Vec<([f64; 4], f64)> {
    const LEVELS: usize = 5;
    let mut steps = ChaCha8Rng::seed_from_u64(4);
    let mut walk = || {
        let mut height = 0.0;
        let mut next = || {
            height += 1.2 * normal(&mut steps);
            height
        };
        std::array::from_fn::<f64, LEVELS, _>(|_| next())
    };
    let walks = [walk(), walk(), walk(), walk()];
    let mut rng = ChaCha8Rng::seed_from_u64(104);
    let row = |_| {
        let at: [usize; 4] = std::array::from_fn(|_| rng.random_range(0..LEVELS));
        let sum: f64 = walks.iter().zip(&at).map(|(walk, level)| walk[*level]).sum();
        (at.map(|level| level as f64), sum.sin() + 0.02 * normal(&mut rng))
    };
    (0..rows).map(row).collect()
}

/// A sketch of 350 rows has too few neighbours to show that. Without a look at more rows the error is 0.071.
#[test]
fn rough_surfaces_are_seen_from_more_rows() {
    let rows = cells(1300);
    let (train, new) = rows.split_at(800);
    let regression = Rows::of(train.iter().copied()).fit(&Recipe::default());
    let squares = errors_of(&regression, new).into_iter().map(|error| error * error);
    let error = (squares.sum::<f64>() / new.len() as f64).sqrt();
    assert!(error < 0.067, "{error}: {:?}", regression.selection());
}
