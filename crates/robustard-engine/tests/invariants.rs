//! What must hold for every fit.

mod common;

use std::ops::ControlFlow;

use common::{Synthetic, normal, rng};
use rand::seq::SliceRandom;
use robustard_engine::faer::Mat;
use robustard_engine::noise::{NoiseModel, StudentT};
use robustard_engine::{
    Acceleration, FittedModel, Iteration, Noise, Problem, Settings, SolverKind, Start, Status, fit, fit_from,
    fit_observed,
};

const NOISES: [&str; 9] = [
    "shared",
    "flat",
    "inverse-gamma:1.5,0.2",
    "student-t:4",
    "student-t:1",
    "student-t:learned",
    "contaminated",
    "contaminated-t",
    "contaminated-t:3",
];

fn with_noise(noise: &str, settings: Settings) -> Settings {
    settings.with_noise(noise.parse().unwrap())
}

fn undamped(solver: SolverKind) -> Settings {
    Settings { solver, acceleration: Acceleration::None, pruning: false, tolerance: 1e-9, ..Settings::default() }
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
                    for pair in model.outcome().trace.windows(2) {
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

/// The same where bounds hold the variances.
#[test]
fn em_is_monotone_at_its_bounds() {
    for noise in NOISES {
        for bounds in [[1e-6, 0.05], [0.05, 0.12], [0.5, 2.0]] {
            let problem = Synthetic { rows: 60, columns: 12, ..Synthetic::PAPER }.problem(1);
            let settings = Settings {
                noise_variance_bounds: bounds,
                initial_noise_variance: bounds[0],
                units: robustard_engine::Units::Absolute,
                max_iterations: 100,
                ..undamped(SolverKind::Em)
            };
            let model = fit(&problem, &with_noise(noise, settings)).unwrap();
            for pair in model.outcome().trace.windows(2) {
                let (before, after) = (pair[0].objective, pair[1].objective);
                assert!(after <= before + 1e-6 * (1.0 + before.abs()), "{noise} {bounds:?}: {before} {after}");
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
            for pair in model.outcome().trace.windows(2) {
                assert!(pair[1].objective <= pair[0].objective + 1e-5, "{noise}: {:?}", pair);
            }
        }
    }
}

fn assert_permuted(a: &[f64], b: &[f64], order: &[usize], name: &str) {
    let size = a.iter().fold(1e-300f64, |m, v| m.max(v.abs()));
    for (k, &from) in order.iter().enumerate() {
        assert!((b[k] - a[from]).abs() <= 1e-5 * size, "{name}: {} and {}", b[k], a[from]);
    }
}

/// Permuting rows or columns permutes the result: every solver, noise and shape, with row weights and a group.
#[test]
fn permutations_permute() {
    for (rows, columns) in [(40, 9), (12, 20), (15, 15)] {
        let data = Synthetic { rows, columns, support: 3, ..Synthetic::PAPER }.draw(7);
        let mut row_order: Vec<usize> = (0..rows).collect();
        let mut column_order: Vec<usize> = (0..columns).collect();
        row_order.shuffle(&mut rng(1));
        column_order.shuffle(&mut rng(2));
        let x = Mat::from_fn(rows, columns, |i, j| data.x[(row_order[i], column_order[j])]);
        let pick = |values: &[f64]| -> Vec<f64> { row_order.iter().map(|&i| values[i]).collect() };
        let weights: Vec<f64> = (0..rows).map(|i| 1.0 + (i % 3) as f64).collect();
        let labels: Vec<usize> = (0..columns).map(|j| j.saturating_sub(2)).collect();
        let permuted_labels: Vec<usize> = column_order.iter().map(|&j| labels[j]).collect();
        let problem = |x: &Mat<f64>, y: &[f64], weights: &[f64], labels: &[usize]| {
            let problem = Problem::new(x.as_ref(), y).unwrap();
            problem.with_row_weights(weights).unwrap().with_groups(labels).unwrap()
        };
        let alone: Vec<usize> = (0..columns).collect();
        for solver in SolverKind::ALL {
            let (labels, permuted_labels) =
                if solver == SolverKind::Growing { (&alone, &alone) } else { (&labels, &permuted_labels) };
            let original = problem(&data.x, &data.y, &weights, labels);
            let permuted = problem(&x, &pick(&data.y), &pick(&weights), permuted_labels);
            for noise in NOISES {
                let bounds = [1e-4, 1e4]; // beyond, interpolated rows amplify rounding
                let settings = Settings {
                    max_iterations: 15,
                    inner_tolerance: 1e-12,
                    inner_max_iterations: 20_000,
                    weight_precision_bounds: bounds,
                    noise_variance_bounds: bounds,
                    ..undamped(solver)
                };
                let settings = with_noise(noise, settings);
                let (a, b) = (fit(&original, &settings).unwrap(), fit(&permuted, &settings).unwrap());
                let name = format!("{rows}x{columns} {solver:?} {noise}");
                assert_permuted(a.coefficients(), b.coefficients(), &column_order, &name);
                assert_permuted(&a.rows().fitted, &b.rows().fitted, &row_order, &name);
                assert_permuted(&a.diagnose().z, &b.diagnose().z, &row_order, &name);
            }
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
        for noise in ["shared", "flat", "student-t", "contaminated", "contaminated-t"] {
            let settings = Settings {
                max_iterations: 20,
                inner_tolerance: 1e-12,
                inner_max_iterations: 20_000,
                ..undamped(solver)
            };
            let settings = with_noise(noise, settings);
            let (a, b) = (fit(&original, &settings).unwrap(), fit(&rescaled, &settings).unwrap());
            for j in 0..6 {
                let back = b.coefficients()[j] * scales[j] / target_scale;
                assert!(
                    (back - a.coefficients()[j]).abs() < 1e-5,
                    "{solver:?} {noise} column {j}: {back} {}",
                    a.coefficients()[j]
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
    assert_eq!(seen, model.outcome().trace);
    assert!(model.predict(data.x.as_ref()).unwrap().mean.iter().all(|m| m.is_finite()));
}

/// λ stays at its start until `noise_start`, and then moves every `noise_every` iterations only.
#[test]
fn noise_moves_when_it_should() {
    let problem = Synthetic::PAPER.problem(2);
    let settings =
        Settings { noise: Noise::Flat, noise_start: 3, noise_every: 2, max_iterations: 9, ..undamped(SolverKind::Em) };
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
            noise: Noise::Flat,
            damping_weights: damping,
            damping_noise: damping,
            units: robustard_engine::Units::Absolute,
            max_iterations: 1,
            ..undamped(SolverKind::Em)
        };
        fit(&problem, &settings).unwrap()
    };
    let (full, part) = (first_step(1.0), first_step(0.25));
    for (full, part) in full.weight_precision().iter().zip(part.weight_precision()) {
        assert!((part - (0.75 + 0.25 * full)).abs() < 1e-12 * part);
    }
    for (full, part) in full.rows().noise_variance.iter().zip(&part.rows().noise_variance) {
        assert!((part - (0.75 * 0.1 + 0.25 * full)).abs() < 1e-12);
    }
    let settings = Settings {
        weight_precision_bounds: [0.5, 2.0],
        noise_variance_bounds: [0.05, 0.2],
        units: robustard_engine::Units::Absolute,
        noise: Noise::Flat,
        max_iterations: 20,
        ..undamped(SolverKind::Em)
    };
    let model = fit(&problem, &settings).unwrap();
    assert!(model.weight_precision().iter().all(|g| (0.5..=2.0).contains(g)));
    assert!(model.rows().noise_variance.iter().all(|v| (0.05..=0.2).contains(v)));
    let counts = model.outcome().interventions;
    assert!(counts.clipped_weights > 0 && counts.clipped_noise > 0);
}

/// The parameters of a noise model are damped like its variances, in logs.
#[test]
fn noise_parameters_are_damped() {
    let problem = Synthetic::PAPER.problem(3);
    let scale = |damping: f64, iterations: usize| {
        let settings = Settings { damping_noise: damping, max_iterations: iterations, ..undamped(SolverKind::Em) };
        let mut scales = Vec::new();
        let mut observer = |iteration: &Iteration<'_>| {
            scales.push(iteration.state.noise.to_coordinates()[0]);
            ControlFlow::Continue(())
        };
        fit_observed(&problem, &settings, &mut observer).unwrap();
        scales[0]
    };
    // Damped by a hair the first step shows the start.
    let start = scale(1e-12, 1);
    let (full, part) = (scale(1.0, 1), scale(0.25, 1));
    assert!(
        (part - (start + 0.25 * (full - start))).abs() < 1e-9 && (full - start).abs() > 1e-3,
        "{start} {part} {full}"
    );
}

/// Adam's first step is as long as the learning rate in every coordinate.
#[test]
fn first_gradient_step_is_the_learning_rate() {
    let problem = Synthetic::PAPER.problem(3);
    for route in [robustard_engine::Route::WeightSpace, robustard_engine::Route::SampleSpace] {
        let settings = Settings {
            learning_rate: 0.03,
            max_iterations: 1,
            route,
            units: robustard_engine::Units::Absolute,
            noise: Noise::Flat,
            ..undamped(SolverKind::Gradient)
        };
        let model = fit(&problem, &settings).unwrap();
        for value in model
            .weight_precision()
            .iter()
            .map(|g| g.ln())
            .chain(model.rows().noise_variance.iter().map(|v| (v / 0.1).ln()))
        {
            assert!((value.abs() - 0.03).abs() < 1e-6, "{value}");
        }
    }
}

/// Learnt degrees of freedom tell normal from heavy-tailed noise.
#[test]
fn degrees_of_freedom_are_learnt() {
    let degrees = |heavy: bool| {
        let mut rng = rng(12);
        let x = common::gaussian_matrix(800, 3, &mut rng);
        let y: Vec<f64> = (0..800)
            .map(|i| {
                let chi: f64 = (0..2).map(|_| normal(&mut rng).powi(2)).sum::<f64>() / 2.0;
                x[(i, 0)] + normal(&mut rng) / if heavy { chi.sqrt() } else { 1.0 }
            })
            .collect();
        let settings = Settings { noise: "student-t:learned".parse().unwrap(), ..Settings::default() };
        let model = fit(&Problem::new(x.as_ref(), &y).unwrap(), &settings).unwrap();
        match *model.noise() {
            NoiseModel::StudentT(StudentT { degrees, .. }) => degrees,
            other => panic!("{other:?}"),
        }
    };
    let (normal, heavy) = (degrees(false), degrees(true));
    assert!(normal > 15.0, "{normal}");
    assert!((1.4..3.0).contains(&heavy), "{heavy}");
}

/// Pruning drops a column too early now and then; it comes back. Rejected extrapolations are counted.
#[test]
fn columns_come_back() {
    let (mut readmitted, mut rejected) = (0, 0);
    for seed in 0..60 {
        let problem = Synthetic { rows: 30, columns: 25, support: 8, ..Synthetic::PAPER }.problem(seed);
        let model = fit(&problem, &Settings { tolerance: 1e-6, ..Settings::default() }).unwrap();
        readmitted += model.outcome().interventions.readmitted_columns;
        rejected += model.outcome().interventions.rejected_extrapolations;
    }
    assert!(readmitted > 0 && rejected > 0, "{readmitted} {rejected}");
}

/// Predictions and densities carry the noise that they say.
#[test]
fn predictive_noise_is_as_stated() {
    use robustard_engine::BaseNoise;
    let data = Synthetic::PAPER.draw(5);
    let problem = Problem::new(data.x.as_ref(), &data.y).unwrap();
    let model = fit(&problem, &Settings::default()).unwrap();
    let NoiseModel::StudentT(StudentT { scale, degrees, .. }) = *model.noise() else { panic!() };
    let prediction = model.predict(data.x.as_ref()).unwrap();
    let latent = prediction.latent_variance[0];
    assert_eq!(degrees, 4.0);
    assert!((prediction.std[0].powi(2) - latent - 2.0 * scale).abs() < 1e-12, "variance of t4 is twice its scale");
    let interval = prediction.interval(0.95).unwrap();
    let half = 0.5 * (interval.upper[0] - interval.lower[0]);
    let quantile = 2.776_445_105; // t4, 97.5%
    assert!((half / (scale + latent).sqrt() - quantile).abs() < 1e-6);
    let variance = |base| (model.predict_with(data.x.as_ref(), base).unwrap().std[0].powi(2)) - latent;
    let lambda = &model.rows().noise_variance;
    assert!((variance(BaseNoise::Mean) - robustard_engine::metrics::mean(lambda)).abs() < 1e-12);
    assert!((variance(BaseNoise::Trimmed) - robustard_engine::metrics::trimmed_mean(lambda, 0.05)).abs() < 1e-12);
    assert!(variance(BaseNoise::Trimmed) < variance(BaseNoise::Mean));

    let shared = fit(&problem, &Settings::default().with_shared_noise()).unwrap();
    let rows = shared.diagnose();
    let total = shared.inlier_variance() + rows.loo_latent_variance[3];
    let wanted = -0.5 * ((2.0 * std::f64::consts::PI * total).ln() + rows.loo_residual[3].powi(2) / total);
    assert!((rows.loo_log_density[3] - wanted).abs() < 1e-12);
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
        assert!((model.coefficients()[0] - 1000.0).abs() < 0.5, "{solver:?}: {}", model.coefficients()[0]);
        assert!(model.active_columns().contains(&0));
        let problem = problem.with_fixed_precision(2, 0.125).unwrap();
        let model = fit(&problem, &Settings { solver, ..Settings::default() }).unwrap();
        assert_eq!(model.weight_precision()[2], 0.125);
    }
}

/// The studentized update with p = 0 is λ = r², and a larger p raises the variance of rows with leverage.
#[test]
fn studentized_update() {
    let weights: Vec<f64> = (0..30).map(|i| 1.0 + (i % 3) as f64).collect();
    let problem = Synthetic { rows: 30, columns: 4, support: 2, ..Synthetic::PAPER }.problem(4);
    let problem = problem.with_row_weights(&weights).unwrap();
    let step = |power: Option<f64>, iterations: usize| {
        let settings = Settings {
            studentized_power: power,
            noise: Noise::Flat,
            max_iterations: iterations,
            units: robustard_engine::Units::Absolute,
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
            noise: Noise::Flat,
            noise_start: 9,
            max_iterations: 1,
            units: robustard_engine::Units::Absolute,
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
            let found = after.rows().noise_variance[i];
            assert!((found - wanted.max(1e-10)).abs() < 1e-9 * (1.0 + wanted), "p = {power}: {found} {wanted}");
        }
    }
}

/// A fit that starts where another ended stays there.
#[test]
fn fits_go_on_from_a_start() {
    let problem = Synthetic::PAPER.problem(5);
    for noise in ["student-t", "contaminated", "contaminated-t"] {
        let settings = Settings { noise: noise.parse().unwrap(), pruning: false, ..Settings::default() };
        let model = fit(&problem, &settings).unwrap();
        let start = Start {
            weight_precision: model.weight_precision().to_vec(),
            noise: *model.noise(),
            noise_variance: model.rows().noise_variance.clone(),
        };
        let mut silent = |_: &Iteration<'_>| std::ops::ControlFlow::Continue(());
        let again = fit_from(&problem, &settings, Some(&start), &mut silent).unwrap();
        assert!(again.iterations() * 3 < model.iterations(), "{noise}: {} {}", again.iterations(), model.iterations());
        assert!(again.outcome().objective <= model.outcome().objective + 1e-6, "{noise}");
    }
}
