//! Intervals of what is chosen when nothing is given.

mod common;

use common::{Rows, choose, kind, normal, selection, waves};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robustard::faer::Mat;
use robustard::{IntervalRows, Reason, Recipe, Regression};

/// Beyond the training rows a curve goes on for the width of their range, stays as it is there, says so, and its error bars grow.
#[test]
fn error_bars_grow_with_distance() {
    let regression = choose(&waves(200, 2.0, 0));
    assert_eq!(regression.features(), kind("smooth"));
    let new = [0.0, 1.99, 3.0, 6.0, 60.0];
    let predicted = regression.predict(Mat::from_fn(5, 2, |i, j| if j == 0 { new[i] } else { 0.0 }).as_ref()).unwrap();
    let interval = predicted.interval(0.95).unwrap();
    let width: Vec<f64> = interval.upper.iter().zip(&interval.lower).map(|(upper, lower)| upper - lower).collect();
    // The second row is at the border.
    assert!(width[1..].windows(2).all(|pair| pair[1] > pair[0]), "{width:?}");
    assert!(width[4] > 3.0 * width[0], "{width:?}");
    assert_eq!(predicted.mean[3], predicted.mean[4]);
    let beyond: Vec<(&str, usize)> =
        predicted.beyond.iter().map(|beyond| (beyond.name.as_str(), beyond.rows)).collect();
    assert_eq!(beyond, [("x0", 3)]);
}

/// Shares of so many new rows, made by `row`, inside their 95% intervals, of those with a small and of those with a large second number.
fn coverage_by_size(regression: &Regression, rows: &[([f64; 2], f64, f64)]) -> [f64; 2] {
    let inputs = Mat::from_fn(rows.len(), 2, |i, j| rows[i].0[j]);
    let interval = regression.predict(inputs.as_ref()).unwrap().interval(0.95).unwrap();
    [0.0..1.0, 1.0..f64::INFINITY].map(|sizes| {
        let of_size: Vec<usize> = (0..rows.len()).filter(|&i| sizes.contains(&rows[i].2)).collect();
        let inside = |i: &&usize| (interval.lower[**i]..interval.upper[**i]).contains(&rows[**i].1);
        of_size.iter().filter(inside).count() as f64 / of_size.len() as f64
    })
}

/// Noise that varies with an input, beside lines and beside a curve: intervals hold small errors and large ones alike.
#[test]
fn error_bars_follow_noise_that_varies() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for bend in [0.0, 1.5] {
        let mut row = || {
            let x: [f64; 2] = std::array::from_fn(|_| rng.random_range(-2.0..2.0));
            let deviation = (0.7 * x[1]).exp();
            (x, x[0] + bend * (2.0 * x[0]).sin() + 0.5 * deviation * normal(&mut rng), deviation)
        };
        let training: Vec<([f64; 2], f64, f64)> = (0..600).map(|_| row()).collect();
        let new: Vec<([f64; 2], f64, f64)> = (0..3000).map(|_| row()).collect();
        let regression = choose(&Rows::of(training.iter().map(|(x, y, _)| (*x, *y))));
        let reasons = &selection(&regression).reasons;
        assert!(reasons.iter().any(|reason| matches!(reason, Reason::WidthsVary { .. })), "{reasons:?}");
        let covered = coverage_by_size(&regression, &new);
        assert!(covered.iter().all(|share| (0.92..0.98).contains(share)), "{bend}: {covered:?}");
        // What is said of the training rows is what is said of new ones.
        let coverage = regression.quality().coverage_95;
        assert!((0.92..0.99).contains(&coverage), "{bend}: {coverage}");
    }
    // Noise that does not vary is not made to.
    let even = choose(&Rows::of((0..600).map(|_| {
        let x: [f64; 2] = std::array::from_fn(|_| rng.random_range(-2.0..2.0));
        (x, x[0] + 0.5 * normal(&mut rng))
    })));
    // Half intervals and wide ones, of all rows and of thirds.
    let checks = even.coverage_checks();
    assert_eq!(checks.len(), 8);
    assert!(checks.iter().all(|check| check.miscoverage().is_none()), "{checks:?}");
    let reasons = &selection(&even).reasons;
    assert!(!reasons.iter().any(|reason| matches!(reason, Reason::WidthsVary { .. })), "{reasons:?}");
}

/// Intervals are for right rows, unless all are asked for: then they hold as many wrong ones as there are.
#[test]
fn intervals_for_right_rows_and_for_all() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let mut row = |wrong: f64| {
        let x: [f64; 2] = std::array::from_fn(|_| rng.random_range(-2.0..2.0));
        let error = if rng.random_bool(wrong) { 4.0 * normal(&mut rng) } else { 0.3 * normal(&mut rng) };
        (x, x[0] + (2.0 * x[1]).sin() + error, 0.0)
    };
    let training: Vec<([f64; 2], f64, f64)> = (0..500).map(|_| row(0.1)).collect();
    let [right, all] = [0.0, 0.1].map(|wrong| (0..3000).map(|_| row(wrong)).collect::<Vec<_>>());
    let rows = Rows::of(training.iter().map(|(x, y, _)| (*x, *y)));
    for (interval_rows, new) in [(IntervalRows::Right, right), (IntervalRows::All, all)] {
        let regression = rows.fit(&Recipe::default().with_interval_rows(interval_rows));
        let [covered, _] = coverage_by_size(&regression, &new);
        assert!((0.92..0.98).contains(&covered), "{interval_rows:?}: {covered}");
    }
}

/// A width that is known from few errors is uncertain: intervals are as much wider as Student's quantiles are.
#[test]
fn intervals_of_few_rows_hold_what_they_say() {
    let mut rng = ChaCha8Rng::seed_from_u64(21);
    let mut row = |_| {
        let x: [f64; 2] = std::array::from_fn(|_| normal(&mut rng));
        (x, x[0] + 0.5 * x[1] + normal(&mut rng))
    };
    let (mut inside, mut all) = (0, 0);
    for _ in 0..150 {
        let rows = Rows::of((0..14).map(&mut row));
        let new = Rows::of((0..40).map(&mut row));
        let interval = choose(&rows).predict(new.inputs.as_ref()).unwrap().interval(0.95).unwrap();
        inside += (0..40).filter(|&i| (interval.lower[i]..interval.upper[i]).contains(&new.target[i])).count();
        all += 40;
    }
    let share = inside as f64 / all as f64;
    assert!((0.935..0.975).contains(&share), "{share}");
}
