//! Answers of scikit-learn, scipy and numpy, written by `scripts/baseline_fixtures.py`.

use faer::Mat;
use robustard_baselines::{
    Baseline, BaselinePrediction, FittedBaseline, Penalty, gp_log_evidence, ridge_leave_one_out, sparse_gp_bound,
};
use serde_json::Value;

const CLOSED_FORM: f64 = 1e-8;
const OPTIMISED: f64 = 1e-5;

/// A data set with the answers.
struct Case(Value);

impl Case {
    fn load(name: &str) -> Self {
        let mut all: Value = serde_json::from_str(include_str!("fixtures.json")).unwrap();
        Self(all[name].take())
    }

    fn number(&self, name: &str) -> f64 {
        self.0[name].as_f64().unwrap_or_else(|| panic!("no number {name}"))
    }

    fn vector(&self, name: &str) -> Vec<f64> {
        let values = self.0[name].as_array().unwrap_or_else(|| panic!("no vector {name}"));
        values.iter().map(|value| value.as_f64().unwrap()).collect()
    }

    fn matrix(&self, name: &str) -> Mat<f64> {
        let rows = self.0[name].as_array().unwrap();
        Mat::from_fn(rows.len(), rows[0].as_array().unwrap().len(), |i, j| rows[i][j].as_f64().unwrap())
    }

    fn fit(&self, baseline: Baseline) -> FittedBaseline {
        baseline.fit(self.matrix("inputs").as_ref(), &self.vector("target"), 0).unwrap()
    }

    fn predict(&self, fitted: &FittedBaseline) -> BaselinePrediction {
        fitted.predict(self.matrix("new").as_ref()).unwrap()
    }

    fn assert_linear(&self, fitted: &FittedBaseline, tolerance: f64) {
        assert_close(fitted.coefficients().unwrap(), &self.vector("coefficients"), tolerance);
        assert_close(&[fitted.intercept().unwrap()], &[self.number("intercept")], tolerance);
        assert_close(&self.predict(fitted).mean, &self.vector("mean"), tolerance);
    }
}

#[track_caller]
fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let allowed = tolerance * expected.abs().max(1.0);
        assert!((found - expected).abs() <= allowed, "{found} is not {expected}");
    }
}

#[test]
fn least_squares() {
    let tall = Case::load("ols_tall");
    let fitted = tall.fit(Baseline::Ols);
    tall.assert_linear(&fitted, CLOSED_FORM);
    assert_close(&tall.predict(&fitted).variance, &tall.vector("variance"), CLOSED_FORM);
}

#[test]
fn least_squares_of_smallest_norm() {
    let wide = Case::load("ols_wide");
    wide.assert_linear(&wide.fit(Baseline::Ols), CLOSED_FORM);
}

#[test]
fn ridge() {
    for name in ["ridge_tall", "ridge_wide"] {
        let case = Case::load(name);
        let fitted = case.fit(Baseline::Ridge { penalty: Penalty::Given(1.0) });
        case.assert_linear(&fitted, CLOSED_FORM);
        assert_close(&case.predict(&fitted).variance, &case.vector("variance"), CLOSED_FORM);
    }
}

#[test]
fn ridge_by_leaving_one_out() {
    for name in ["ridge_tall", "ridge_wide"] {
        let case = Case::load(name);
        let penalties = case.vector("penalties");
        let errors = ridge_leave_one_out(case.matrix("inputs").as_ref(), &case.vector("target"), &penalties).unwrap();
        assert_close(&errors, &case.vector("errors"), CLOSED_FORM);
        let best = (0..errors.len()).min_by(|a, b| errors[*a].total_cmp(&errors[*b])).unwrap();
        assert_eq!(penalties[best], case.number("best"));
    }
}

/// scikit-learn's objective, with its σ for given weights found by bisection.
fn huber_objective(case: &Case, fitted: &FittedBaseline) -> f64 {
    const EPSILON: f64 = 1.35;
    let mean = fitted.predict(case.matrix("inputs").as_ref()).unwrap().mean;
    let residual: Vec<f64> = case.vector("target").iter().zip(mean).map(|(y, m)| (y - m).abs()).collect();
    let excess = |scale: f64| residual.iter().map(|r| (r / scale).min(EPSILON).powi(2) - 1.0).sum::<f64>();
    let (mut low, mut high) = (1e-9, 1e3);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if excess(middle) > 0.0 { low = middle } else { high = middle }
    }
    let loss = |z: f64| if z <= EPSILON { z * z } else { 2.0 * EPSILON * z - EPSILON * EPSILON };
    let penalty: f64 = fitted.coefficients().unwrap().iter().map(|w| 1e-4 * w * w).sum();
    residual.iter().map(|r| low * (1.0 + loss(r / low))).sum::<f64>() + penalty
}

#[test]
fn huber() {
    for name in ["huber", "huber_wide"] {
        let case = Case::load(name);
        let fitted = case.fit(Baseline::Huber);
        case.assert_linear(&fitted, OPTIMISED);
        let expected = case.number("objective");
        let found = huber_objective(&case, &fitted);
        assert!((found - expected).abs() <= 1e-8 * expected && found <= expected, "{found} {expected}");
        // The scale is told by the variance of predictions and by the weights of the rows.
        let scale = case.number("scale");
        let variance = case.predict(&fitted).variance[0];
        assert_close(&[variance.sqrt() * 0.681_256_012_369_720_9], &[scale], OPTIMISED);
        let mean = fitted.predict(case.matrix("inputs").as_ref()).unwrap().mean;
        let residual = case.vector("target").iter().zip(mean).map(|(y, m)| (y - m).abs()).collect::<Vec<_>>();
        let weights: Vec<f64> = residual.iter().map(|r| (1.35 * scale / r).min(1.0)).collect();
        assert_close(&fitted.row_weight(), &weights, OPTIMISED);
        assert!(weights.iter().any(|weight| *weight < 0.1), "no gross errors in the data");
    }
}

/// The penalty, for which the linear programme has no place, moves the weights by less than the tolerance.
#[test]
fn huber_where_most_rows_fit_exactly() {
    for name in ["huber_exact", "huber_exact_tall"] {
        let case = Case::load(name);
        case.assert_linear(&case.fit(Baseline::Huber), 1e-3);
    }
}

#[test]
fn student() {
    for name in ["student", "student_heavy"] {
        let case = Case::load(name);
        let fitted = case.fit(Baseline::StudentT { degrees: case.number("degrees") });
        case.assert_linear(&fitted, OPTIMISED);
        assert_close(&fitted.row_weight(), &case.vector("row_weight"), OPTIMISED);
        assert_close(&case.predict(&fitted).variance, &case.vector("variance"), OPTIMISED);
        assert!(fitted.iterations() < 500);
    }
}

#[test]
fn gp_evidence_at_given_parameters() {
    for name in ["gp_shared", "gp_per_input"] {
        let case = Case::load(name);
        let (inputs, target) = (case.matrix("inputs"), case.vector("target"));
        let found = gp_log_evidence(inputs.as_ref(), &target, &case.vector("logs")).unwrap();
        assert_close(&[found.value], &[case.number("evidence")], CLOSED_FORM);
        assert_close(&found.gradient, &case.vector("gradient"), CLOSED_FORM);
    }
}

#[test]
fn gp_at_its_optimum() {
    for (name, per_input) in [("gp_shared", false), ("gp_per_input", true)] {
        let case = Case::load(name);
        let fitted = case.fit(Baseline::Gp { per_input, starts: 3 });
        let logs = fitted.kernel_logs().unwrap();
        let found = gp_log_evidence(case.matrix("inputs").as_ref(), &case.vector("target"), &logs).unwrap();
        assert!(found.value >= case.number("best_evidence") - 1e-3, "{} {}", found.value, case.number("best_evidence"));
        let prediction = case.predict(&fitted);
        assert_close(&prediction.mean, &case.vector("mean"), 5e-3);
        assert_close(&prediction.variance, &case.vector("variance"), 5e-3);
    }
}

#[test]
fn sparse_gp_bound_at_given_parameters() {
    let case = Case::load("sparse_gp");
    let (inputs, target) = (case.matrix("inputs"), case.vector("target"));
    let points = case.matrix("points");
    let found = sparse_gp_bound(inputs.as_ref(), &target, points.as_ref(), &case.vector("logs")).unwrap();
    assert_close(&[found.value], &[case.number("bound")], CLOSED_FORM);
}
