//! Inputs that break lesser code: a result or a typed error, never a panic, never NaN in a converged result.

mod common;

use common::{gaussian_matrix, normal, on_one_thread, rng};
use robustard_engine::faer::Mat;
use robustard_engine::math::order::median;
use robustard_engine::{FittedModel, Noise, Preset, Problem, ProblemError, Route, Settings, SolverKind, Status, fit};

fn table(rows: usize, columns: usize) -> (Mat<f64>, Vec<f64>) {
    let mut rng = rng(11);
    let x = gaussian_matrix(rows, columns, &mut rng);
    let y = (0..rows).map(|i| x[(i, 0)] + 0.1 * normal(&mut rng)).collect();
    (x, y)
}

fn cases() -> Vec<(&'static str, Mat<f64>, Vec<f64>)> {
    let (x, y) = table(30, 5);
    let mut cases = vec![
        ("constant column", Mat::from_fn(30, 5, |i, j| if j == 2 { 3.0 } else { x[(i, j)] }), y.clone()),
        ("zero column", Mat::from_fn(30, 5, |i, j| if j == 2 { 0.0 } else { x[(i, j)] }), y.clone()),
        ("all columns zero", Mat::zeros(30, 5), y.clone()),
        ("duplicated columns", Mat::from_fn(30, 10, |i, j| x[(i, j % 5)]), y.clone()),
        (
            "collinear",
            Mat::from_fn(30, 6, |i, j| if j == 5 { (0..5).map(|k| x[(i, k)]).sum() } else { x[(i, j)] }),
            y.clone(),
        ),
        ("one row", table(1, 4).0, vec![2.0]),
        ("one row, one column", table(1, 1).0, vec![-1.0]),
        ("one column", table(30, 1).0, y.clone()),
        ("equal targets", x.clone(), vec![5.0; 30]),
        ("zero targets", x.clone(), vec![0.0; 30]),
        ("tiny columns", Mat::from_fn(30, 5, |i, j| 1e-12 * x[(i, j)]), y.clone()),
        ("huge columns", Mat::from_fn(30, 5, |i, j| 1e12 * x[(i, j)]), y.clone()),
        ("mixed scales", Mat::from_fn(30, 5, |i, j| x[(i, j)] * 10f64.powi(6 * j as i32 - 12)), y.clone()),
        ("enormous columns", Mat::from_fn(30, 5, |i, j| 1e90 * x[(i, j)]), y.clone()),
        ("vanishing columns", Mat::from_fn(30, 5, |i, j| 1e-200 * x[(i, j)]), y.clone()),
        ("huge targets", x.clone(), y.iter().map(|v| 1e8 * v).collect()),
        ("enormous targets", x.clone(), y.iter().map(|v| 1e95 * v).collect()),
        ("tiny targets", x.clone(), y.iter().map(|v| 1e-90 * v).collect()),
        ("repeated rows", Mat::from_fn(30, 5, |i, j| x[(i % 3, j)]), y.clone()),
        ("identical rows", Mat::from_fn(30, 5, |_, j| x[(0, j)]), vec![1.5; 30]),
        ("exact fit", x.clone(), (0..30).map(|i| 2.0 * x[(i, 0)] - x[(i, 3)]).collect()),
        ("exact fit, more columns", table(8, 20).0, table(8, 20).1),
        ("one enormous outlier", x.clone(), y.iter().enumerate().map(|(i, v)| if i == 3 { 1e9 } else { *v }).collect()),
        ("one enormous input", Mat::from_fn(30, 5, |i, j| if (i, j) == (3, 1) { 1e9 } else { x[(i, j)] }), y.clone()),
    ];
    let step: Vec<f64> = (0..30).map(|i| f64::from(u8::from(i % 2 == 0))).collect();
    cases.push(("two-valued targets", x, step));
    cases
}

#[track_caller]
fn assert_sound(model: &FittedModel, name: &str) {
    let finite = |values: &[f64]| values.iter().all(|v| v.is_finite());
    let trouble = model.status() == Status::NumericalTrouble;
    assert!(model.outcome().objective.is_finite() || trouble, "{name}");
    assert!(finite(model.coefficients()) && finite(model.standard_errors()), "{name}: {:?}", model.coefficients());
    assert!(finite(&model.rows().fitted) && finite(&model.rows().noise_variance), "{name}");
    assert!(model.rows().noise_variance.iter().all(|v| *v > 0.0), "{name}");
    assert!(finite(&model.diagnose().leverage), "{name}");
    assert!(model.effective_rows() > 0.0 && model.effective_rows() <= 1.0 + 1e-12, "{name}");
}

#[test]
fn every_solver_survives_every_input() {
    let noises = ["shared", "flat", "student-t", "student-t:learned", "contaminated"];
    for (name, x, y) in cases() {
        let problem = Problem::new(x.as_ref(), &y).unwrap();
        for solver in SolverKind::ALL {
            for noise in noises {
                for preset in [Preset::Default, Preset::Paper] {
                    for route in [Route::WeightSpace, Route::SampleSpace] {
                        let settings = Settings {
                            solver,
                            noise: noise.parse().unwrap(),
                            route,
                            max_iterations: 120,
                            inner_max_iterations: 40,
                            ..Settings::preset(preset)
                        };
                        let name = format!("{name} {solver:?} {noise} {preset:?} {route:?}");
                        match on_one_thread(|| fit(&problem, &settings)) {
                            Ok(model) => assert_sound(&model, &name),
                            Err(error) => assert!(error.to_string().contains("rescale"), "{name}: {error}"),
                        }
                    }
                }
            }
        }
    }
}

/// The default fit gets these right, not only through.
#[test]
fn default_fits_are_right() {
    for (name, x, y) in cases() {
        let model = fit(&Problem::new(x.as_ref(), &y).unwrap(), &Settings::default()).unwrap();
        let residual: f64 =
            model.rows().target.iter().zip(&model.rows().fitted).map(|(y, f)| (y - f).abs()).fold(0.0, f64::max);
        match name {
            "exact fit" => assert!(residual < 1e-3, "{name}: {residual}"),
            "huge columns" | "tiny columns" | "duplicated columns" | "constant column" | "mixed scales" => {
                assert!(residual < 0.5, "{name}: {residual}");
            }
            "one enormous outlier" => {
                assert_eq!(model.diagnose().ranking()[0], 3);
                assert!((model.coefficients()[0] - 1.0).abs() < 0.1, "{:?}", model.coefficients());
            }
            // No worse than a fit of nothing, for the typical row.
            _ => {
                assert_sound(&model, name);
                let sizes = |of: &dyn Fn(usize) -> f64| -> Vec<f64> { (0..y.len()).map(|i| of(i).abs()).collect() };
                let (left, all) = (median(&sizes(&|i| y[i] - model.rows().fitted[i])), median(&sizes(&|i| y[i])));
                assert!(left <= 1.01 * all, "{name}: {left} of {all}");
            }
        }
    }
}

/// γ and λ that end at their bounds are a result.
#[test]
fn values_at_their_bounds() {
    let (x, y) = table(30, 5);
    let problem = Problem::new(x.as_ref(), &y).unwrap();
    for bounds in [[1e-12, 1e-11], [1e11, 1e12], [0.5, 0.5000001]] {
        let settings = Settings {
            weight_precision_bounds: bounds,
            noise_variance_bounds: bounds,
            initial_weight_precision: bounds[0],
            initial_noise_variance: bounds[1],
            ..Settings::default()
        };
        assert_sound(&fit(&problem, &settings).unwrap(), &format!("{bounds:?}"));
    }
}

/// A target far from zero is no trouble when there is an intercept: noise, pruning and weights are as for the centred one.
#[test]
fn intercepts_take_up_the_mean() {
    let mut rng = rng(5);
    let x = gaussian_matrix(200, 22, &mut rng);
    let with_ones = Mat::from_fn(200, 23, |i, j| if j == 0 { 1.0 } else { x[(i, j - 1)] });
    let noise: Vec<f64> = (0..200).map(|_| normal(&mut rng)).collect();
    for offset in [0.0, 1e3, 1e6] {
        let y: Vec<f64> = (0..200).map(|i| offset + 2.0 * x[(i, 0)] - x[(i, 1)] + noise[i]).collect();
        for settings in [Settings::default(), Settings::default().with_shared_noise()] {
            let problem = Problem::new(with_ones.as_ref(), &y).unwrap().with_unshrunk(0).unwrap();
            let model = fit(&problem, &settings).unwrap();
            assert!(model.active_columns().len() < 16, "{offset}: {:?}", model.active_columns());
            assert!((0.7..1.4).contains(&model.inlier_variance()), "{offset}: {}", model.inlier_variance());
            assert_eq!(model.outcome().interventions.clipped_noise, 0);
            assert_eq!(model.fixed_columns(), [0]);
            let relevant = model.relevant_columns(0.1);
            assert!(relevant.contains(&1) && relevant.contains(&2) && !relevant.contains(&0), "{relevant:?}");
        }
    }
    // Grouping keeps what was fixed.
    let y = noise;
    let labels: Vec<usize> = (0..23usize).map(|j| j.div_ceil(2)).collect();
    let problem = Problem::new(with_ones.as_ref(), &y).unwrap().with_unshrunk(0).unwrap().with_groups(&labels).unwrap();
    assert!(problem.groups().fixed(0).is_some() && problem.groups().fixed(1).is_none());
}

/// The same with fewer rows than columns, where the default route is n × n: an intercept's wide prior does not drown the rest.
#[test]
fn intercepts_are_fine_in_sample_space() {
    let mut rng = rng(6);
    let x = gaussian_matrix(30, 60, &mut rng);
    let with_ones = Mat::from_fn(30, 61, |i, j| if j == 0 { 1.0 } else { x[(i, j - 1)] });
    let noise: Vec<f64> = (0..30).map(|_| 0.3 * normal(&mut rng)).collect();
    for offset in [0.0, 1e3, 1e6] {
        let y: Vec<f64> = (0..30).map(|i| offset + 2.0 * x[(i, 0)] - x[(i, 1)] + noise[i]).collect();
        let problem = Problem::new(with_ones.as_ref(), &y).unwrap().with_unshrunk(0).unwrap();
        for settings in [Settings::default(), Settings::default().with_shared_noise()] {
            let settings = Settings { pruning: false, tolerance: 1e-6, max_iterations: 200, ..settings };
            let run = |route| fit(&problem, &Settings { route, ..settings.clone() }).unwrap();
            let (sample, weight) = (run(Route::SampleSpace), run(Route::WeightSpace));
            assert_eq!(sample.outcome().interventions.jittered, 0, "{offset}");
            assert!((sample.coefficients()[1] - weight.coefficients()[1]).abs() < 1e-3, "{offset}");
            let ratio = sample.standard_errors()[0] / weight.standard_errors()[0];
            assert!((ratio - 1.0).abs() < 1e-2, "{offset}: {ratio}");
            let predicted = sample.predict(with_ones.as_ref()).unwrap();
            let worst =
                predicted.mean.iter().zip(&sample.rows().fitted).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst < 1e-6 * (1.0 + offset), "{offset}: {worst}");
        }
        let model = fit(&problem, &Settings::default()).unwrap();
        assert!((model.coefficients()[1] - 2.0).abs() < 0.3 && (model.coefficients()[2] + 1.0).abs() < 0.3, "{offset}");
    }
}

/// Weights below one are no trouble for any solver.
#[test]
fn small_weights() {
    let (x, y) = table(30, 5);
    for weight in [0.9, 0.1, 1.0 / 30.0] {
        let problem = Problem::new(x.as_ref(), &y).unwrap().with_row_weights(&[weight; 30]).unwrap();
        for noise in ["shared", "flat", "student-t"] {
            let noise: Noise = noise.parse().unwrap();
            let objective = |solver| {
                let settings = Settings { solver, noise, max_iterations: 300, ..Settings::default() };
                fit(&problem, &settings).unwrap().outcome().objective
            };
            let em = objective(SolverKind::Em);
            for solver in [SolverKind::Mackay, SolverKind::IrlsL2, SolverKind::IrlsL1] {
                let other = objective(solver);
                // With a flat prior per row there are many optima; elsewhere the solvers meet.
                let gap = if noise == Noise::Flat { 12.0 } else { 0.5 };
                assert!(other < em + gap, "{weight} {noise} {solver:?}: {other} against {em}");
            }
        }
    }
}

#[test]
fn bad_tables_are_named() {
    let (x, y) = table(3, 2);
    let with = |i: usize, j: usize, value: f64| {
        let mut x = x.clone();
        x[(i, j)] = value;
        x
    };
    let error = |x: &Mat<f64>, y: &[f64]| Problem::new(x.as_ref(), y).unwrap_err();
    assert!(matches!(error(&with(2, 1, f64::NAN), &y), ProblemError::NotFinite { column: 1, row: 2, .. }));
    assert!(error(&with(2, 1, f64::NAN), &y).to_string().contains("column 2, row 3"));
    assert!(matches!(error(&with(0, 0, f64::INFINITY), &y), ProblemError::NotFinite { column: 0, row: 0, .. }));
    assert!(matches!(error(&with(1, 0, 1e150), &y), ProblemError::TooLarge { column: 0, row: 1, .. }));
    assert!(matches!(error(&x, &[1.0, f64::NAN, 2.0]), ProblemError::TargetNotFinite { row: 1, .. }));
    assert!(matches!(error(&x, &[1.0, 1e150, 2.0]), ProblemError::TargetTooLarge { row: 1, .. }));
    assert!(matches!(error(&x, &[1.0]), ProblemError::TargetLength { rows: 3, targets: 1 }));
    assert_eq!(error(&Mat::zeros(0, 2), &[]), ProblemError::NoRows);
    assert_eq!(error(&Mat::zeros(3, 0), &y), ProblemError::NoColumns);
    let problem = Problem::new(x.as_ref(), &y).unwrap();
    let weights = |w: &[f64]| problem.clone().with_row_weights(w).unwrap_err();
    assert!(matches!(weights(&[1.0, 0.0, 1.0]), ProblemError::BadWeight { row: 1, .. }));
    assert!(matches!(weights(&[1.0]), ProblemError::WeightLength { rows: 3, weights: 1 }));
    let groups = |labels: &[usize]| problem.clone().with_groups(labels).unwrap_err();
    assert!(matches!(groups(&[0]), ProblemError::GroupLength { .. }));
    assert!(matches!(groups(&[0, 2]), ProblemError::EmptyGroup { group: 1 }));
    assert!(matches!(groups(&[0, usize::MAX]), ProblemError::EmptyGroup { group: 1 }));
    assert!(matches!(problem.clone().with_fixed_precision(9, 1.0), Err(ProblemError::NoSuchColumn { .. })));
    assert!(matches!(problem.clone().with_fixed_precision(0, 0.0), Err(ProblemError::BadPrecision { .. })));

    let model = fit(&problem, &Settings::default()).unwrap();
    assert!(model.predict(Mat::zeros(1, 5).as_ref()).unwrap_err().to_string().contains("2 columns"));
    assert!(model.predict(x.as_ref()).unwrap().interval(1.0).is_err());
    assert!(model.predict(with(2, 1, f64::NAN).as_ref()).unwrap_err().to_string().contains("column 2, row 3"));
    assert!(model.predict(Mat::zeros(0, 2).as_ref()).unwrap().mean.is_empty());
}
