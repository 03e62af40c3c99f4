//! Inputs at the edge: they give a sound answer or an error that says what to do, and never a panic.

use faer::Mat;
use robustard_baselines::{Baseline, BaselineError, Penalty};

const ALL: [Baseline; 8] = [
    Baseline::Ols,
    Baseline::Ridge { penalty: Penalty::Given(1.0) },
    Baseline::Ridge { penalty: Penalty::LeaveOneOut },
    Baseline::Huber,
    Baseline::StudentT { degrees: 4.0 },
    Baseline::Gp { per_input: false, starts: 2 },
    Baseline::Gp { per_input: true, starts: 1 },
    Baseline::SparseGp { points: 4 },
];

fn wave(i: usize, j: usize) -> f64 {
    ((7 * i + 3 * j * j + 1) as f64).sin()
}

/// Fits all baselines and returns the predicted means at the inputs, after a check of what they say.
fn fit_all(inputs: &Mat<f64>, target: &[f64]) -> Vec<(Baseline, Vec<f64>)> {
    let fit = |baseline: Baseline| {
        let fitted = baseline.fit(inputs.as_ref(), target, 0).unwrap_or_else(|error| panic!("{baseline:?}: {error}"));
        let prediction = fitted.predict(inputs.as_ref()).unwrap();
        assert!(prediction.mean.iter().all(|mean| mean.is_finite()), "{baseline:?}");
        assert!(prediction.variance.iter().all(|v| v.is_finite() && *v > 0.0), "{baseline:?} {prediction:?}");
        assert!(fitted.weight_relevance().iter().all(|size| (0.0..=1.0).contains(size)), "{baseline:?}");
        assert_eq!(fitted.row_weight().len(), target.len());
        assert!(fitted.row_weight().iter().all(|weight| weight.is_finite() && *weight > 0.0), "{baseline:?}");
        (baseline, prediction.mean)
    };
    ALL.into_iter().map(fit).collect()
}

fn assert_near(means: &[(Baseline, Vec<f64>)], target: &[f64], tolerance: f64) {
    for (baseline, mean) in means {
        for (mean, target) in mean.iter().zip(target) {
            assert!((mean - target).abs() < tolerance, "{baseline:?}: {mean} is not near {target}");
        }
    }
}

#[test]
fn one_row() {
    for p in [1, 3] {
        let inputs = Mat::from_fn(1, p, wave);
        assert_near(&fit_all(&inputs, &[2.5]), &[2.5], 1e-9);
    }
}

#[test]
fn two_rows() {
    let inputs = Mat::from_fn(2, 1, wave);
    fit_all(&inputs, &[2.5, -1.0]);
}

#[test]
fn constant_target() {
    let inputs = Mat::from_fn(12, 3, wave);
    for value in [0.0, 0.1, 1e6] {
        assert_near(&fit_all(&inputs, &[value; 12]), &[value; 12], 1e-6 * value.max(1.0));
    }
}

#[test]
fn constant_columns() {
    let target: Vec<f64> = (0..11).map(|i| wave(i, 2)).collect();
    let means = fit_all(&Mat::from_fn(11, 2, |_, j| [0.1, 1e8][j]), &target);
    let average = target.iter().sum::<f64>() / 11.0;
    for (baseline, mean) in means {
        let is_robust = matches!(baseline, Baseline::Huber | Baseline::StudentT { .. });
        assert!(is_robust || (mean[0] - average).abs() < 1e-6, "{baseline:?} {} {average}", mean[0]);
    }
    fit_all(&Mat::from_fn(11, 3, |i, j| if j == 1 { 0.3 } else { wave(i, j) }), &target);
}

#[test]
fn more_columns_than_rows() {
    let inputs = Mat::from_fn(6, 15, wave);
    let target: Vec<f64> = (0..6).map(|i| 10.0 * wave(i, 20)).collect();
    let means = fit_all(&inputs, &target);
    // Least squares, and the robust methods with their weak penalties, fit exactly.
    let exact: Vec<_> = means
        .into_iter()
        .filter(|(baseline, _)| matches!(baseline, Baseline::Ols | Baseline::Huber | Baseline::StudentT { .. }))
        .collect();
    assert_eq!(exact.len(), 3);
    assert_near(&exact, &target, 1e-2);
}

#[test]
fn repeated_rows_and_columns() {
    let inputs = Mat::from_fn(20, 4, |i, j| wave(i % 3, j % 2));
    let target: Vec<f64> = (0..20).map(|i| wave(i, 5)).collect();
    fit_all(&inputs, &target);
}

#[test]
fn exact_line_and_gross_errors() {
    let inputs = Mat::from_fn(30, 2, wave);
    let line: Vec<f64> = (0..30).map(|i| 3.0 + 2.0 * inputs[(i, 0)] - inputs[(i, 1)]).collect();
    assert_near(&fit_all(&inputs, &line)[..1], &line, 1e-9);
    let spoilt: Vec<f64> = line.iter().enumerate().map(|(i, y)| if i % 7 == 0 { 1e6 } else { *y }).collect();
    for (baseline, mean) in fit_all(&inputs, &spoilt) {
        if matches!(baseline, Baseline::Huber | Baseline::StudentT { .. }) {
            assert!((mean[1] - line[1]).abs() < 1e-2, "{baseline:?} {} {}", mean[1], line[1]);
        }
    }
}

#[test]
fn extreme_sizes() {
    for size in [1e-9, 1e9] {
        let inputs = Mat::from_fn(15, 2, wave);
        let target: Vec<f64> = (0..15).map(|i| size * (wave(i, 7) + inputs[(i, 0)])).collect();
        fit_all(&inputs, &target);
    }
}

#[test]
fn bad_input_is_told() {
    let inputs = Mat::from_fn(5, 2, wave);
    let target = [1.0, 2.0, 3.0, 4.0, 5.0];
    let mut hole = inputs.clone();
    hole[(3, 1)] = f64::NAN;
    for baseline in ALL {
        let message = |inputs: &Mat<f64>, target: &[f64]| {
            baseline.fit(inputs.as_ref(), target, 0).expect_err("bad input").to_string()
        };
        assert!(message(&hole, &target).contains("row 4, column 2 is NaN"));
        assert!(message(&inputs, &[1.0, f64::INFINITY, 3.0, 4.0, 5.0]).contains("row 2 is inf"));
        assert!(message(&inputs, &target[..4]).contains("5 rows but the target has 4 values"));
        assert!(message(&Mat::zeros(0, 2), &[]).contains("no rows"));
        assert!(message(&Mat::zeros(5, 0), &target).contains("no input columns"));
        let fitted = baseline.fit(inputs.as_ref(), &target, 0).unwrap();
        let wrong = fitted.predict(Mat::zeros(1, 3).as_ref());
        assert_eq!(wrong, Err(BaselineError::Columns { expected: 2, found: 3 }));
        assert!(fitted.predict(hole.as_ref()).is_err());
        assert!(fitted.predict(Mat::zeros(0, 2).as_ref()).unwrap().mean.is_empty());
    }
}

#[test]
fn settings_out_of_range_are_told() {
    let inputs = Mat::from_fn(5, 2, wave);
    let target = [1.0, 2.0, 3.0, 4.0, 5.0];
    let wrong = [
        Baseline::Ridge { penalty: Penalty::Given(-1.0) },
        Baseline::Ridge { penalty: Penalty::Given(f64::NAN) },
        Baseline::StudentT { degrees: 0.0 },
        Baseline::Gp { per_input: false, starts: 0 },
        Baseline::SparseGp { points: 0 },
    ];
    for baseline in wrong {
        let error = baseline.fit(inputs.as_ref(), &target, 0).expect_err("out of range");
        assert!(matches!(error, BaselineError::Setting { .. }), "{baseline:?}: {error}");
    }
}
