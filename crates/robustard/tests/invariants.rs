//! What must hold for every fit.

mod common;

use std::ops::ControlFlow;

use common::{Synthetic, normal, rng};
use rand::seq::SliceRandom;
use robustard::faer::Mat;
use robustard::{
    Acceleration, FittedModel, Iteration, NoiseKind, NoisePrior, Problem, Settings, SolverKind, Status, fit,
    fit_observed,
};

const NOISES: [&str; 7] =
    ["shared", "flat", "inverse-gamma:1.5,0.2", "student-t:4", "student-t:1", "student-t:learned", "contaminated"];

fn with_noise(noise: &str, settings: Settings) -> Settings {
    match noise.parse::<NoisePrior>() {
        Ok(prior) => Settings { noise: NoiseKind::PerRow, noise_prior: prior, ..settings },
        Err(_) => settings.with_shared_noise(),
    }
}

fn undamped(solver: SolverKind) -> Settings {
    Settings {
        solver,
        acceleration: Acceleration::None,
        pruning: false,
        tolerance: 1e-9,
        threads: 1,
        ..Settings::default()
    }
}

/// Undamped EM never raises its objective: every noise prior, every shape, with row weights and groups.
#[test]
fn em_is_monotone() {
    for noise in NOISES {
        for (rows, columns) in [(60, 12), (12, 30), (20, 20)] {
            for seed in 0..4 {
                let design =
                    Synthetic { rows, columns, support: 4, contamination: 0.1 * seed as f64, ..Synthetic::PAPER };
                let mut problem = design.problem(seed);
                if seed % 2 == 1 {
                    let weights: Vec<f64> = (0..rows).map(|i| 0.5 + (i % 4) as f64).collect();
                    let labels: Vec<usize> = (0..columns).map(|j| j / 2).collect();
                    problem = problem.with_row_weights(&weights).unwrap().with_groups(&labels).unwrap();
                }
                for solver in [SolverKind::Em, SolverKind::IrlsL2] {
                    let settings = with_noise(noise, Settings { max_iterations: 300, ..undamped(solver) });
                    let model = fit(&problem, &settings).unwrap();
                    for pair in model.outcome.trace.windows(2) {
                        let (before, after) = (pair[0].objective, pair[1].objective);
                        let rounding = 1e-7 * (1.0 + before.abs());
                        assert!(
                            after <= before + rounding,
                            "{noise} {rows}x{columns} seed {seed} {solver:?}: iteration {} went from {before} to {after}",
                            pair[1].iteration
                        );
                    }
                }
            }
        }
    }
}

/// The guard of the acceleration: it never raises the objective either, with EM underneath.
#[test]
fn accelerated_em_is_monotone() {
    for noise in NOISES {
        for seed in 0..3 {
            let problem = Synthetic { rows: 80, columns: 20, ..Synthetic::PAPER }.problem(seed);
            let settings =
                Settings { acceleration: Acceleration::Anderson, max_iterations: 200, ..undamped(SolverKind::Em) };
            let model = fit(&problem, &with_noise(noise, settings)).unwrap();
            for pair in model.outcome.trace.windows(2) {
                assert!(pair[1].objective <= pair[0].objective + 1e-5, "{noise}: {:?}", pair);
            }
        }
    }
}

fn assert_permuted(a: &[f64], b: &[f64], order: &[usize], name: &str) {
    let size = a.iter().fold(1e-300f64, |m, v| m.max(v.abs()));
    for (k, &from) in order.iter().enumerate() {
        assert!((b[k] - a[from]).abs() <= 1e-6 * size, "{name}: {} and {}", b[k], a[from]);
    }
}

/// Permuting rows or columns permutes the result.
#[test]
fn permutations_permute() {
    let (rows, columns) = (40, 9);
    let data = Synthetic { rows, columns, support: 3, ..Synthetic::PAPER }.draw(7);
    let mut row_order: Vec<usize> = (0..rows).collect();
    let mut column_order: Vec<usize> = (0..columns).collect();
    row_order.shuffle(&mut rng(1));
    column_order.shuffle(&mut rng(2));
    let x = Mat::from_fn(rows, columns, |i, j| data.x[(row_order[i], column_order[j])]);
    let y: Vec<f64> = row_order.iter().map(|&i| data.y[i]).collect();
    let original = Problem::new(data.x.as_ref(), &data.y).unwrap();
    let permuted = Problem::new(x.as_ref(), &y).unwrap();
    for solver in SolverKind::ALL {
        for noise in NOISES {
            let settings = Settings {
                max_iterations: 15,
                inner_tolerance: 1e-12,
                inner_max_iterations: 20_000,
                ..undamped(solver)
            };
            let settings = with_noise(noise, settings);
            let (a, b) = (fit(&original, &settings).unwrap(), fit(&permuted, &settings).unwrap());
            let name = format!("{solver:?} {noise}");
            assert_permuted(&a.coefficients, &b.coefficients, &column_order, &name);
            assert_permuted(&a.rows.fitted, &b.rows.fitted, &row_order, &name);
            assert_permuted(&a.diagnose().z, &b.diagnose().z, &row_order, &name);
        }
    }
}

/// In relative units, rescaling a column rescales its weight, and rescaling the target rescales everything; nothing else changes.
#[test]
fn rescaling_rescales() {
    let data = Synthetic { rows: 60, columns: 6, support: 3, ..Synthetic::PAPER }.draw(5);
    let scales = [1e-12, 1.0, 1e12, 64.0, 1e-3, 1e5];
    let target_scale = 1e8;
    let x = Mat::from_fn(60, 6, |i, j| data.x[(i, j)] * scales[j]);
    let y: Vec<f64> = data.y.iter().map(|y| y * target_scale).collect();
    let original = Problem::new(data.x.as_ref(), &data.y).unwrap();
    let rescaled = Problem::new(x.as_ref(), &y).unwrap();
    for solver in SolverKind::ALL {
        for noise in ["shared", "flat", "student-t", "contaminated"] {
            let settings = Settings {
                max_iterations: 20,
                inner_tolerance: 1e-12,
                inner_max_iterations: 20_000,
                ..undamped(solver)
            };
            let settings = with_noise(noise, settings);
            let (a, b) = (fit(&original, &settings).unwrap(), fit(&rescaled, &settings).unwrap());
            for j in 0..6 {
                let back = b.coefficients[j] * scales[j] / target_scale;
                assert!(
                    (back - a.coefficients[j]).abs() < 1e-5,
                    "{solver:?} {noise} column {j}: {back} {}",
                    a.coefficients[j]
                );
            }
            let z = |model: &FittedModel| model.diagnose().z;
            for (a, b) in z(&a).iter().zip(&z(&b)) {
                assert!((a - b).abs() < 1e-4 * (1.0 + a.abs()), "{solver:?} {noise}: {a} {b}");
            }
        }
    }
}

/// An observer sees every iteration and can stop the fit with a usable model.
#[test]
fn observers_watch_and_stop() {
    let data = Synthetic::PAPER.draw(1);
    let problem = Problem::new(data.x.as_ref(), &data.y).unwrap();
    let mut seen = Vec::new();
    let mut observer = |iteration: &Iteration<'_>| {
        seen.push(*iteration.record);
        assert_eq!(iteration.state.weight_precision.len(), iteration.columns.len());
        if iteration.record.iteration == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let model = fit_observed(&problem, &Settings::default(), &mut observer).unwrap();
    assert_eq!(model.status(), Status::Interrupted);
    assert_eq!(model.iterations(), 4);
    assert_eq!(seen, model.outcome.trace);
    assert!(model.predict(data.x.as_ref()).unwrap().mean.iter().all(|m| m.is_finite()));
}

/// λ stays at its start until `noise_start`, and then moves every `noise_every` iterations only.
#[test]
fn noise_moves_when_it_should() {
    let problem = Synthetic::PAPER.problem(2);
    let settings = Settings {
        noise_prior: NoisePrior::Flat,
        noise_start: 3,
        noise_every: 2,
        max_iterations: 9,
        ..undamped(SolverKind::Em)
    };
    let mut variances = Vec::new();
    let mut observer = |iteration: &Iteration<'_>| {
        variances.push(iteration.state.noise_variance.clone());
        ControlFlow::Continue(())
    };
    fit_observed(&problem, &settings, &mut observer).unwrap();
    let moved: Vec<usize> = (1..variances.len()).filter(|&k| variances[k] != variances[k - 1]).map(|k| k + 1).collect();
    assert_eq!(moved, [4, 6, 8]);
    assert!(variances[0].iter().all(|v| *v == variances[0][0]));
}

/// Damping takes the stated share of the step, and clipping keeps values inside their bounds and is counted.
#[test]
fn damping_and_clipping() {
    let problem = Synthetic::PAPER.problem(3);
    let first_step = |damping: f64| {
        let settings = Settings {
            noise_prior: NoisePrior::Flat,
            damping_weights: damping,
            damping_noise: damping,
            units: robustard::Units::Absolute,
            max_iterations: 1,
            ..undamped(SolverKind::Em)
        };
        fit(&problem, &settings).unwrap()
    };
    let (full, part) = (first_step(1.0), first_step(0.25));
    for (full, part) in full.weight_precision.iter().zip(&part.weight_precision) {
        assert!((part - (0.75 + 0.25 * full)).abs() < 1e-12 * part);
    }
    for (full, part) in full.rows.noise_variance.iter().zip(&part.rows.noise_variance) {
        assert!((part - (0.75 * 0.1 + 0.25 * full)).abs() < 1e-12);
    }
    let settings = Settings {
        weight_precision_bounds: [0.5, 2.0],
        noise_variance_bounds: [0.05, 0.2],
        units: robustard::Units::Absolute,
        noise_prior: NoisePrior::Flat,
        max_iterations: 20,
        ..undamped(SolverKind::Em)
    };
    let model = fit(&problem, &settings).unwrap();
    assert!(model.weight_precision.iter().all(|g| (0.5..=2.0).contains(g)));
    assert!(model.rows.noise_variance.iter().all(|v| (0.05..=0.2).contains(v)));
    let counts = model.outcome.interventions;
    assert!(counts.clipped_weights > 0 && counts.clipped_noise > 0);
}

/// A column of fixed precision is neither learnt nor pruned; an unshrunk intercept takes the mean.
#[test]
fn fixed_precisions_stay() {
    let mut rng = rng(8);
    let x = Mat::from_fn(80, 4, |i, j| if j == 0 { 1.0 } else { ((i * j) as f64 * 0.7).sin() });
    let y: Vec<f64> = (0..80).map(|i| 1000.0 + x[(i, 1)] + 0.1 * normal(&mut rng)).collect();
    for solver in SolverKind::ALL {
        let problem = Problem::new(x.as_ref(), &y).unwrap().with_unshrunk(0).unwrap();
        let model = fit(&problem, &Settings { solver, ..Settings::default() }).unwrap();
        assert!((model.coefficients[0] - 1000.0).abs() < 0.5, "{solver:?}: {}", model.coefficients[0]);
        assert!(model.active_columns.contains(&0));
        let problem = problem.with_fixed_precision(2, 0.125).unwrap();
        let model = fit(&problem, &Settings { solver, ..Settings::default() }).unwrap();
        assert_eq!(model.weight_precision[2], 0.125);
    }
}

/// The studentized update with p = 0 is λ = r², and a larger p raises the variance of rows with leverage.
#[test]
fn studentized_update() {
    let problem = Synthetic { rows: 30, columns: 4, support: 2, ..Synthetic::PAPER }.problem(4);
    let step = |power: Option<f64>, iterations: usize| {
        let settings = Settings {
            studentized_power: power,
            noise_prior: NoisePrior::Flat,
            max_iterations: iterations,
            units: robustard::Units::Absolute,
            initial_weight_precision: 1.0,
            initial_noise_variance: 0.1,
            ..undamped(SolverKind::Em)
        };
        fit(&problem, &settings).unwrap()
    };
    // The posterior before the first step: a fit whose noise does not move.
    let before = fit(
        &problem,
        &Settings {
            noise_prior: NoisePrior::Flat,
            noise_start: 9,
            max_iterations: 1,
            units: robustard::Units::Absolute,
            weight_precision_bounds: [1.0, 1.0 + 1e-12],
            ..undamped(SolverKind::Em)
        },
    )
    .unwrap()
    .diagnose();
    for power in [0.0, 2.0, 3.0] {
        let after = step(Some(power), 1);
        for i in 0..30 {
            let wanted = before.residual[i].powi(2) / (1.0 - before.leverage[i]).powf(power);
            let found = after.rows.noise_variance[i];
            assert!((found - wanted.max(1e-10)).abs() < 1e-9 * (1.0 + wanted), "p = {power}: {found} {wanted}");
        }
    }
}
