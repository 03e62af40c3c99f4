//! Properties that hold for any data: two routes to one answer, limits, gradients against differences.

use faer::{Mat, MatRef};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robustard_baselines::{Baseline, LogEvidence, Penalty, gp_log_evidence, ridge_leave_one_out, sparse_gp_bound};

fn random_inputs(n: usize, p: usize, seed: u64) -> Mat<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    Mat::from_fn(n, p, |_, _| random.random_range(-1.7..1.7))
}

fn curve(inputs: &Mat<f64>) -> Vec<f64> {
    let value = |i: usize| (2.0 * inputs[(i, 0)]).sin() + inputs[(i, inputs.ncols() - 1)];
    (0..inputs.nrows()).map(|i| 5.0 + value(i) + 0.2 * (37.0 * i as f64).sin()).collect()
}

fn without_row(inputs: &Mat<f64>, target: &[f64], row: usize) -> (Mat<f64>, Vec<f64>) {
    let rows: Vec<usize> = (0..target.len()).filter(|i| *i != row).collect();
    let inputs = Mat::from_fn(rows.len(), inputs.ncols(), |i, j| inputs[(rows[i], j)]);
    (inputs, rows.iter().map(|i| target[*i]).collect())
}

fn refit_error(inputs: &Mat<f64>, target: &[f64], alpha: f64) -> f64 {
    let squares = (0..target.len()).map(|row| {
        let (rest, rest_target) = without_row(inputs, target, row);
        let fitted = Baseline::Ridge { penalty: Penalty::Given(alpha) }.fit(rest.as_ref(), &rest_target, 0).unwrap();
        let left_out = inputs.as_ref().subrows(row, 1);
        (target[row] - fitted.predict(left_out).unwrap().mean[0]).powi(2)
    });
    squares.sum::<f64>() / target.len() as f64
}

#[test]
fn leave_one_out_in_closed_form_equals_refits() {
    for (n, p) in [(12, 3), (7, 10)] {
        let inputs = random_inputs(n, p, 1);
        let target = curve(&inputs);
        let penalties = [1e-3, 0.1, 1.0, 30.0];
        let closed = ridge_leave_one_out(inputs.as_ref(), &target, &penalties).unwrap();
        for (alpha, closed) in penalties.iter().zip(closed) {
            let refitted = refit_error(&inputs, &target, *alpha);
            assert!((closed - refitted).abs() < 1e-9 * refitted, "α = {alpha}: {closed} and {refitted}");
        }
    }
}

#[test]
fn chosen_penalty_is_better_than_its_neighbours() {
    let inputs = random_inputs(15, 6, 2);
    let target = curve(&inputs);
    let chosen = Baseline::Ridge { penalty: Penalty::LeaveOneOut }.fit(inputs.as_ref(), &target, 0).unwrap();
    let grid: Vec<f64> = (-60..=60).map(|step| 15.0 * 10f64.powf(f64::from(step) / 10.0)).collect();
    let errors = ridge_leave_one_out(inputs.as_ref(), &target, &grid).unwrap();
    let best = (0..grid.len()).min_by(|a, b| errors[*a].total_cmp(&errors[*b])).unwrap();
    assert!(best > 0 && best + 1 < grid.len());
    let at = |alpha: f64| {
        let ridge = Baseline::Ridge { penalty: Penalty::Given(alpha) };
        ridge.fit(inputs.as_ref(), &target, 0).unwrap().coefficients().unwrap().to_vec()
    };
    // The weights lie between those of penalties to either side of the best.
    let norm = |weights: &[f64]| weights.iter().map(|w| w * w).sum::<f64>();
    let found = norm(chosen.coefficients().unwrap());
    assert!(found < norm(&at(grid[best - 4])) && found > norm(&at(grid[best + 4])), "{found}");
}

#[test]
fn ridge_tends_to_least_squares() {
    for (n, p) in [(20, 4), (6, 9)] {
        let inputs = random_inputs(n, p, 3);
        let target = curve(&inputs);
        let new = random_inputs(5, p, 4);
        let least_squares = Baseline::Ols.fit(inputs.as_ref(), &target, 0).unwrap();
        let distance = |alpha: f64| {
            let ridge = Baseline::Ridge { penalty: Penalty::Given(alpha) }.fit(inputs.as_ref(), &target, 0).unwrap();
            let (a, b) = (ridge.predict(new.as_ref()).unwrap(), least_squares.predict(new.as_ref()).unwrap());
            a.mean.iter().zip(&b.mean).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
        };
        assert!(distance(1e-9) < 1e-7 && distance(1.0) > 1e-3, "{} {}", distance(1e-9), distance(1.0));
    }
}

#[test]
fn robust_methods_resist_gross_errors() {
    let inputs = random_inputs(60, 3, 5);
    let clean: Vec<f64> =
        (0..60).map(|i| 1.0 + 2.0 * inputs[(i, 0)] - inputs[(i, 2)] + 0.1 * (17.0 * i as f64).sin()).collect();
    let spoilt: Vec<f64> = clean.iter().enumerate().map(|(i, y)| if i % 10 == 3 { y + 50.0 } else { *y }).collect();
    let error = |baseline: Baseline| {
        let fitted = baseline.fit(inputs.as_ref(), &spoilt, 0).unwrap();
        let weights = fitted.coefficients().unwrap();
        weights.iter().zip([2.0, 0.0, -1.0]).map(|(w, truth)| (w - truth).abs()).fold(0.0, f64::max)
    };
    assert!(error(Baseline::Ols) > 0.5);
    assert!(error(Baseline::Huber) < 0.1);
    assert!(error(Baseline::StudentT { degrees: 4.0 }) < 0.1);
    let fitted = Baseline::StudentT { degrees: 4.0 }.fit(inputs.as_ref(), &spoilt, 0).unwrap();
    let weights = fitted.row_weight();
    let smallest_sound = (0..60).filter(|i| i % 10 != 3).map(|i| weights[i]).fold(f64::INFINITY, f64::min);
    assert!((0..60).filter(|i| i % 10 == 3).all(|i| weights[i] < 0.01 * smallest_sound));
}

/// With ψ = clip(r/σ): Σψ = 0, Xᵀψ = αw and Σψ² = n.
#[test]
fn huber_is_stationary() {
    const SCALE_OF_NORMAL: f64 = 0.681_256_012_369_720_9;
    for (n, p, seed) in [(200, 5, 20), (50, 20, 21), (30, 10, 22), (400, 1, 23)] {
        let inputs = random_inputs(n, p, seed);
        let mut target = curve(&inputs);
        (0..n).step_by(9).for_each(|i| target[i] += 1e3 * (i as f64).sin());
        let fitted = Baseline::Huber.fit(inputs.as_ref(), &target, 0).unwrap();
        let prediction = fitted.predict(inputs.as_ref()).unwrap();
        let scale = prediction.variance[0].sqrt() * SCALE_OF_NORMAL;
        let pull: Vec<f64> = (0..n).map(|i| ((target[i] - prediction.mean[i]) / scale).clamp(-1.35, 1.35)).collect();
        assert!(pull.iter().sum::<f64>().abs() < 1e-6, "{n} {p}: {}", pull.iter().sum::<f64>());
        assert!((pull.iter().map(|z| z * z).sum::<f64>() - n as f64).abs() < 1e-6 * n as f64, "{n} {p}");
        for (column, weight) in inputs.col_iter().zip(fitted.coefficients().unwrap()) {
            let sum: f64 = column.iter().zip(&pull).map(|(x, z)| x * z).sum();
            assert!((sum - 1e-4 * weight).abs() < 1e-6, "{n} {p}: {sum} {weight}");
        }
    }
}

fn assert_gradient(at: &[f64], evidence: impl Fn(&[f64]) -> LogEvidence) {
    const STEP: f64 = 1e-5;
    let gradient = evidence(at).gradient;
    assert_eq!(gradient.len(), at.len());
    for (k, slope) in gradient.iter().enumerate() {
        let moved = |by: f64| {
            let mut logs = at.to_vec();
            logs[k] += by;
            evidence(&logs).value
        };
        let difference = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
        assert!((slope - difference).abs() < 1e-5 * difference.abs().max(1.0), "{k}: {slope} {difference}");
    }
}

#[test]
fn gradients_agree_with_differences() {
    let inputs = random_inputs(30, 3, 6);
    let target = curve(&inputs);
    let points = random_inputs(9, 3, 7);
    assert_gradient(&[0.2, 0.5, -1.0], |logs| gp_log_evidence(inputs.as_ref(), &target, logs).unwrap());
    assert_gradient(&[0.2, -0.3, 0.6, 0.5, -1.0], |logs| gp_log_evidence(inputs.as_ref(), &target, logs).unwrap());
    for logs in [[0.2, 0.5, -1.0], [0.9, 2.0, -3.0]] {
        assert_gradient(&logs, |logs| sparse_gp_bound(inputs.as_ref(), &target, points.as_ref(), logs).unwrap());
    }
}

#[test]
fn bound_is_below_the_evidence_and_meets_it_with_all_rows() {
    let inputs = random_inputs(25, 2, 8);
    let target: Vec<f64> = curve(&inputs).iter().map(|y| y - 5.0).collect();
    let logs = [0.1, 0.3, -0.7];
    let evidence = gp_log_evidence(inputs.as_ref(), &target, &logs).unwrap().value;
    let bound = |points: MatRef<'_, f64>| sparse_gp_bound(inputs.as_ref(), &target, points, &logs).unwrap().value;
    let (some, all) = (bound(inputs.as_ref().subrows(0, 5)), bound(inputs.as_ref()));
    assert!((all - evidence).abs() < 1e-4 && all < evidence, "{all} {evidence}");
    assert!(some < evidence - 0.1, "{some} {evidence}");
}

#[test]
fn processes_agree_when_all_rows_are_points() {
    let inputs = random_inputs(40, 2, 9);
    let target = curve(&inputs);
    let new = random_inputs(6, 2, 10);
    let exact = Baseline::Gp { per_input: false, starts: 1 }.fit(inputs.as_ref(), &target, 0).unwrap();
    let sparse = Baseline::SparseGp { points: 256 }.fit(inputs.as_ref(), &target, 3).unwrap();
    let (exact, sparse) = (exact.predict(new.as_ref()).unwrap(), sparse.predict(new.as_ref()).unwrap());
    for i in 0..6 {
        assert!((exact.mean[i] - sparse.mean[i]).abs() < 5e-3, "{} {}", exact.mean[i], sparse.mean[i]);
        assert!((exact.variance[i] / sparse.variance[i] - 1.0).abs() < 2e-2);
    }
}

#[test]
fn process_interpolates_what_has_no_noise() {
    let inputs = random_inputs(30, 1, 11);
    let target: Vec<f64> = (0..30).map(|i| (2.0 * inputs[(i, 0)]).sin()).collect();
    let fitted = Baseline::Gp { per_input: false, starts: 1 }.fit(inputs.as_ref(), &target, 0).unwrap();
    let prediction = fitted.predict(inputs.as_ref()).unwrap();
    for i in 0..30 {
        assert!((prediction.mean[i] - target[i]).abs() < 2e-3, "{} {}", prediction.mean[i], target[i]);
        assert!(prediction.variance[i] > 0.0 && prediction.variance[i] < 1e-4);
    }
    // Far away the process knows its mean only.
    let far = fitted.predict(Mat::from_fn(1, 1, |_, _| 1e3).as_ref()).unwrap();
    let mean = target.iter().sum::<f64>() / 30.0;
    assert!((far.mean[0] - mean).abs() < 1e-9 && far.variance[0] > 0.1);
}

#[test]
fn seeds_decide_and_repeat() {
    let inputs = random_inputs(50, 2, 12);
    let target = curve(&inputs);
    let mean = |seed: u64| {
        let fitted = Baseline::SparseGp { points: 6 }.fit(inputs.as_ref(), &target, seed).unwrap();
        assert_eq!(fitted.weight_relevance().len(), 6);
        fitted.predict(inputs.as_ref()).unwrap().mean
    };
    assert_eq!(mean(1), mean(1));
    assert_ne!(mean(1), mean(2));
}

#[test]
fn more_starts_are_never_worse() {
    let inputs = random_inputs(40, 3, 13);
    let target = curve(&inputs);
    let centre = target.iter().sum::<f64>() / 40.0;
    let centred: Vec<f64> = target.iter().map(|y| y - centre).collect();
    let evidence = |starts: usize| {
        let fitted = Baseline::Gp { per_input: true, starts }.fit(inputs.as_ref(), &target, 4).unwrap();
        gp_log_evidence(inputs.as_ref(), &centred, &fitted.kernel_logs().unwrap()).unwrap().value
    };
    let start = gp_log_evidence(inputs.as_ref(), &centred, &[0.5493, 0.5493, 0.5493, 0.0, -2.3]).unwrap().value;
    assert!(evidence(3) >= evidence(1) - 1e-9 && evidence(1) > start + 1.0);
}

/// Lengthscales of weak inputs go to their upper bound on the way and must come back.
#[test]
fn lengthscales_stay_at_their_bound_only_where_it_holds_them() {
    const UPPER: f64 = 1e3;
    for seed in 30..34 {
        let inputs = random_inputs(200, 8, seed);
        let target: Vec<f64> = curve(&inputs).iter().enumerate().map(|(i, y)| y + 0.03 * inputs[(i, 3)]).collect();
        let centre = target.iter().sum::<f64>() / 200.0;
        let centred: Vec<f64> = target.iter().map(|y| y - centre).collect();
        let fitted = Baseline::Gp { per_input: true, starts: 1 }.fit(inputs.as_ref(), &target, 0).unwrap();
        let logs = fitted.kernel_logs().unwrap();
        let gradient = gp_log_evidence(inputs.as_ref(), &centred, &logs).unwrap().gradient;
        let at_bound: Vec<&f64> = logs[..8]
            .iter()
            .zip(&gradient)
            .filter(|(log, _)| **log > UPPER.ln() - 1e-9)
            .map(|(_, slope)| slope)
            .collect();
        assert!(!at_bound.is_empty() && at_bound.iter().all(|slope| **slope > -0.02), "{logs:?} {gradient:?}");
    }
}

#[test]
fn relevance_is_at_most_one() {
    let inputs = random_inputs(30, 4, 14);
    let target = curve(&inputs);
    let relevance = |baseline: Baseline| baseline.fit(inputs.as_ref(), &target, 0).unwrap().weight_relevance();
    assert_eq!(relevance(Baseline::Ols), vec![1.0; 4]);
    let ridge = Baseline::Ridge { penalty: Penalty::Given(1.0) };
    let weights = ridge.fit(inputs.as_ref(), &target, 0).unwrap().coefficients().unwrap().to_vec();
    let largest = weights.iter().map(|w| w.abs()).fold(0.0, f64::max);
    assert_eq!(relevance(ridge), weights.iter().map(|w| w.abs() / largest).collect::<Vec<_>>());
    assert_eq!(relevance(Baseline::Gp { per_input: false, starts: 1 }).len(), 30);
}
