//! Every quantity of the answer key (50-digit arithmetic), by both routes.

use crate::evidence::{Gradient, gradient};
use crate::faer::{Mat, Par};
use crate::metrics::{effective_support, mean, trimmed_mean};
use crate::noise::NoiseModel;
use crate::posterior::{Moments, Posterior, route};
use crate::solver::inner_lasso::{InnerLasso, LassoWeights, double_lasso};
use crate::solver::rule::{Point, Proposal, solver};
use crate::state::State;
use crate::{Noise, Problem, Route, Settings, SolverKind};
use serde_json::Value;

const TOLERANCE: f64 = 1e-9;
const ROUTES: [Route; 2] = [Route::WeightSpace, Route::SampleSpace];

struct Case {
    key: Value,
    problem: Problem<'static>,
    gamma: Vec<f64>,
    lambda: Vec<f64>,
}

fn cases() -> Vec<Case> {
    ["tall", "wide", "square"]
        .map(|name| {
            let path = format!("{}/tests/oracle/{name}.json", env!("CARGO_MANIFEST_DIR"));
            let key: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
            let problem = Problem::new(matrix(&key["X"]).as_ref(), &numbers(&key["y"])).unwrap();
            Case { problem, gamma: numbers(&key["gamma"]), lambda: numbers(&key["lam"]), key }
        })
        .into()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

fn matrix(value: &Value) -> Mat<f64> {
    let rows: Vec<Vec<f64>> = value.as_array().unwrap().iter().map(numbers).collect();
    Mat::from_fn(rows.len(), rows[0].len(), |i, j| rows[i][j])
}

#[track_caller]
fn close(name: &str, found: &[f64], wanted: &[f64], tolerance: f64) {
    assert_eq!(found.len(), wanted.len(), "{name}");
    // Relative to the entry, or to a billionth of the largest one where an entry nearly vanishes.
    let floor = 1e-9 * wanted.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    for (i, (f, w)) in found.iter().zip(wanted).enumerate() {
        let error = (f - w).abs() / w.abs().max(floor).max(f64::MIN_POSITIVE);
        assert!(error <= tolerance, "{name}[{i}]: {f:e} is not {w:e} (relative error {error:.1e})");
    }
}

struct At {
    state: State,
    moments: Moments,
    posterior: Box<dyn Posterior>,
}

fn at(case: &Case, kind: Route, shared: Option<f64>) -> At {
    let n = case.problem.row_count();
    let state = State {
        weight_precision: case.gamma.clone(),
        noise_variance: shared.map_or(case.lambda.clone(), |variance| vec![variance; n]),
        noise: match shared {
            Some(variance) => NoiseModel::shared(variance),
            None => NoiseModel::new(Noise::Flat, 1.0),
        },
    };
    let mut posterior = route(kind, &case.problem, Par::Seq);
    let mut moments = Moments::new(&case.problem);
    let jitter = posterior.factorise(&case.problem, &state.weight_precision, state.row_noise(), &mut moments).unwrap();
    assert_eq!(jitter.0, 0.0);
    posterior.weight_moments(&case.problem, &mut moments);
    if shared.is_none() {
        posterior.row_moments(&case.problem, &mut moments);
    }
    At { state, moments, posterior }
}

fn propose(case: &Case, at: &At, kind: SolverKind) -> Proposal {
    let settings =
        Settings { solver: kind, inner_tolerance: 1e-11, inner_max_iterations: 200_000, ..Settings::default() };
    let mut proposal = Proposal::new(&case.problem, at.state.noise.is_shared());
    let point =
        Point { problem: &case.problem, state: &at.state, moments: &at.moments, posterior: at.posterior.as_ref() };
    solver(&settings.check().unwrap()).propose(&point, &mut proposal);
    proposal
}

#[test]
fn posterior_and_evidence() {
    for case in cases() {
        for kind in ROUTES {
            let At { moments, mut posterior, .. } = at(&case, kind, None);
            let name = |what: &str| format!("{} {kind:?} {what}", case.key["name"]);
            let key = &case.key;
            close(&name("objective"), &[moments.neg_log_evidence], &[key["objective"].as_f64().unwrap()], TOLERANCE);
            for (what, found) in [
                ("posterior_mean", &moments.mean),
                ("posterior_cov_diag", &moments.covariance_diagonal),
                ("residual", &moments.residual),
                ("row_quadratic_form", &moments.latent_variance),
                ("sample_precision_diag", &moments.sample_precision_diagonal),
                ("column_quadratic_form", &moments.column_quadratic_form),
            ] {
                close(&name(what), found, &numbers(&key[what]), TOLERANCE);
            }
            let mut row0 = vec![0.0; case.problem.column_count()];
            row0[0] = 1.0;
            posterior.apply_covariance(&case.problem, &mut row0);
            close(&name("posterior_cov_row0"), &row0, &numbers(&key["posterior_cov_row0"]), TOLERANCE);
            posterior.row_moments(&case.problem, &mut moments.clone());
        }
    }
}

#[test]
fn gradients() {
    for case in cases() {
        for kind in ROUTES {
            let At { state, moments, .. } = at(&case, kind, None);
            let mut found = Gradient::default();
            gradient(&case.problem, &state, &moments, &mut found);
            close("grad_log_gamma", &found.log_weight_precision, &numbers(&case.key["grad_log_gamma"]), TOLERANCE);
            close("grad_log_lambda", &found.log_noise_variance, &numbers(&case.key["grad_log_lambda"]), TOLERANCE);
        }
    }
}

#[test]
fn closed_form_steps() {
    for case in cases() {
        for kind in ROUTES {
            let here = at(&case, kind, None);
            for (name, solver) in
                [("em", SolverKind::Em), ("mackay", SolverKind::Mackay), ("irls_l2", SolverKind::IrlsL2)]
            {
                let proposal = propose(&case, &here, solver);
                let wanted = &case.key["step"][name];
                close(&format!("{name} gamma"), &proposal.weight_precision, &numbers(&wanted["gamma"]), TOLERANCE);
                close(&format!("{name} lambda"), &proposal.second_moment, &numbers(&wanted["lam"]), TOLERANCE);
            }
            close("irls_l2 theta", &here.moments.mean, &numbers(&case.key["step"]["irls_l2"]["theta"]), TOLERANCE);

            let key = &case.key["homoscedastic"];
            let shared = at(&case, kind, key["lam"].as_f64());
            for (name, solver) in
                [("em", SolverKind::Em), ("mackay", SolverKind::Mackay), ("irls_l2", SolverKind::IrlsL2)]
            {
                let found = propose(&case, &shared, solver).shared_variance;
                close(&format!("shared {name}"), &[found], &[key[name].as_f64().unwrap()], TOLERANCE);
            }
        }
    }
}

/// θ to the key's stated tolerance, and the map back from it.
#[test]
fn l1_steps() {
    for case in cases() {
        for kind in ROUTES {
            let key = &case.key["step"]["irls_l1"];
            let here = at(&case, kind, None);
            check_l1(&case, &here, key, Some(&numbers(&key["v"])));
            let proposal = propose(&case, &here, SolverKind::IrlsL1);
            let (w, v, theta) = (numbers(&key["w"]), numbers(&key["v"]), numbers(&key["theta"]));
            let residual = residuals(&case.problem, &theta);
            for (j, gamma) in proposal.weight_precision.iter().enumerate() {
                if theta[j].abs() > 1e-3 {
                    close("l1 gamma", &[*gamma], &[w[j] / theta[j].abs()], 1e-3);
                }
            }
            for (i, lambda) in proposal.second_moment.iter().enumerate() {
                if residual[i].abs() > 1e-2 {
                    close("l1 lambda", &[*lambda], &[residual[i].abs() / v[i]], 1e-3);
                }
            }

            let key = &case.key["homoscedastic"]["irls_l1"];
            let shared = at(&case, kind, case.key["homoscedastic"]["lam"].as_f64());
            check_l1(&case, &shared, key, None);
            let found = propose(&case, &shared, SolverKind::IrlsL1).shared_variance;
            close("shared l1 lambda", &[found], &[key["lam_at_theta"].as_f64().unwrap()], 1e-6);
        }
    }
}

/// Solves the inner problem with the weights computed from the posterior and compares all of it with `key`.
fn check_l1(case: &Case, here: &At, key: &Value, v: Option<&[f64]>) {
    let tolerance = key["theta_tolerance"].as_f64().unwrap();
    let root = |values: &[f64]| -> Vec<f64> { values.iter().map(|v| v.sqrt()).collect() };
    let weight = root(&here.moments.column_quadratic_form);
    close("l1 w", &weight, &numbers(&key["w"]), TOLERANCE);
    let residual = match v {
        Some(wanted) => {
            let residual = root(&here.moments.sample_precision_diagonal);
            close("l1 v", &residual, wanted, TOLERANCE);
            residual
        }
        None => vec![0.0; case.problem.row_count()],
    };
    let mut inner = InnerLasso::new(&case.problem);
    inner.weights = LassoWeights { weight, residual };
    let point = Point {
        problem: &case.problem,
        state: &here.state,
        moments: &here.moments,
        posterior: here.posterior.as_ref(),
    };
    let info = inner.solve(&point, 1e-11, 200_000);
    assert!(info.converged, "{info:?}");
    let wanted = numbers(&key["theta"]);
    for (j, (found, wanted)) in inner.solution().iter().zip(&wanted).enumerate() {
        assert!((found - wanted).abs() <= tolerance, "theta[{j}]: {found:e} is not {wanted:e}");
    }
    let value = inner.objective(&case.problem, &here.state);
    close("inner objective", &[value], &[key["inner_objective"].as_f64().unwrap()], 1e-9);

    // The same problem by itself, in another metric.
    let metric = vec![1.0; case.gamma.len()];
    let (alone, info) =
        double_lasso(&case.problem, &here.state.noise_variance, &metric, inner.weights.clone(), 1e-11, 200_000)
            .unwrap();
    assert!(info.converged);
    for (a, b) in alone.iter().zip(inner.solution()) {
        assert!((a - b).abs() <= tolerance, "alone {a:e}, within the solver {b:e}");
    }
}

fn residuals(problem: &Problem, theta: &[f64]) -> Vec<f64> {
    let fitted = |i: usize| -> f64 { problem.rows().col(i).iter().zip(theta).map(|(x, t)| x * t).sum() };
    (0..problem.row_count()).map(|i| problem.target()[i] - fitted(i)).collect()
}

/// A model frozen at the key's state gives its diagnostics and predictions.
#[test]
fn diagnostics_predictions_and_support() {
    for case in cases() {
        let key = &case.key;
        for kind in ROUTES {
            let model = frozen_model(&case, kind);
            let diagnostics = model.diagnose();
            close("leverage", &diagnostics.leverage, &numbers(&key["leverage"]), TOLERANCE);
            close("loo_residual", &diagnostics.loo_residual, &numbers(&key["loo_residual"]), TOLERANCE);
            close("loo_latent", &diagnostics.loo_latent_variance, &numbers(&key["loo_latent_variance"]), TOLERANCE);
            let loo: Vec<f64> = diagnostics.loo_residual.iter().map(|r| r * r).collect();
            close("studentized_p2", &loo, &numbers(&key["studentized_p2"]), TOLERANCE);
            close("ess weights", &[model.effective_weights()], &[key["ess"]["weights"].as_f64().unwrap()], TOLERANCE);
            close("ess rows", &[model.effective_rows()], &[key["ess"]["samples"].as_f64().unwrap()], TOLERANCE);
            let predicted = model.predict(matrix(&key["predict"]["X"]).as_ref()).unwrap();
            close("predict mean", &predicted.mean, &numbers(&key["predict"]["mean"]), TOLERANCE);
            close("latent", &predicted.latent_variance, &numbers(&key["predict"]["latent_variance"]), TOLERANCE);
        }
        let base = |name: &str| [key["predict"][name].as_f64().unwrap()];
        close("base mean", &[mean(&case.lambda)], &base("base_noise_mean"), TOLERANCE);
        close("base trimmed", &[trimmed_mean(&case.lambda, 0.05)], &base("base_noise_trimmed"), TOLERANCE);
        let ess = effective_support(case.gamma.iter().map(|g| 1.0 / g));
        close("ess", &[ess], &[key["ess"]["weights"].as_f64().unwrap()], TOLERANCE);
    }
}

/// A model at exactly (γ, λ): every precision fixed, and shared noise that never moves with rows weighted by 1/λ.
fn frozen_model(case: &Case, kind: Route) -> crate::FittedModel {
    // Row weights 1/λ with shared noise of variance 1 are the same posterior as variances λ.
    let weights: Vec<f64> = case.lambda.iter().map(|l| 1.0 / l).collect();
    let mut problem = case.problem.clone().with_row_weights(&weights).unwrap();
    for (j, gamma) in case.gamma.iter().enumerate() {
        problem = problem.with_fixed_precision(j, *gamma).unwrap();
    }
    let settings = Settings {
        noise: Noise::Shared,
        noise_start: usize::MAX - 1,
        initial_noise_variance: 1.0,
        units: crate::Units::Absolute,
        max_iterations: 1,
        route: kind,
        ..Settings::default()
    };
    let model = crate::fit(&problem, &settings).unwrap();
    // Told about its rows as the key tells: variances λ instead of weights 1/λ.
    let mut saved = serde_json::to_value(&model).unwrap();
    saved["rows"]["noise_variance"] = serde_json::to_value(&case.lambda).unwrap();
    saved["rows"]["weight"] = serde_json::to_value(vec![1.0; case.lambda.len()]).unwrap();
    serde_json::from_value(saved).unwrap()
}
