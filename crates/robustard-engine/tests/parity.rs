//! Two ways to the same answer.

mod common;

use common::{Synthetic, gaussian_matrix, normal, rng};
use robustard_engine::faer::{Mat, MatMut};
use robustard_engine::solver::IterationRecord;
use robustard_engine::{Acceleration, Degrees, Noise, Problem, Route, RowSource, Settings, SolverKind, fit};

const SHAPES: [(usize, usize); 3] = [(40, 10), (12, 20), (15, 15)];
const NOISES: [Noise; 6] = [
    Noise::Shared,
    Noise::Flat,
    Noise::InverseGamma { shape: 2.0, scale: 0.3 },
    Noise::StudentT(Degrees::Learned),
    Noise::Contaminated,
    Noise::ContaminatedT(Degrees::Learned),
];

/// A problem with row weights and a group of columns.
fn problem(rows: usize, columns: usize, seed: u64) -> Problem<'static> {
    let labels: Vec<usize> = (0..columns).map(|j| j.saturating_sub(2)).collect();
    ungrouped(rows, columns, seed).with_groups(&labels).unwrap()
}

/// The problem as a solver takes it: growth needs one precision per column.
fn problem_for(solver: SolverKind, rows: usize, columns: usize, seed: u64) -> Problem<'static> {
    if solver == SolverKind::Growing { ungrouped(rows, columns, seed) } else { problem(rows, columns, seed) }
}

fn ungrouped(rows: usize, columns: usize, seed: u64) -> Problem<'static> {
    let design = Synthetic { rows, columns, support: 3, sigma: 0.3, contamination: 0.1, multiplier: 8.0 };
    let weights: Vec<f64> = (0..rows).map(|i| 1.0 + (i % 3) as f64 * 0.5).collect();
    design.problem(seed).with_row_weights(&weights).unwrap()
}

fn plain(solver: SolverKind, noise: Noise, iterations: usize) -> Settings {
    Settings {
        solver,
        noise,
        max_iterations: iterations,
        tolerance: 1e-12,
        acceleration: Acceleration::None,
        pruning: false,
        inner_tolerance: 1e-12,
        inner_max_iterations: 20_000,
        ..Settings::default()
    }
}

#[track_caller]
fn close(name: &str, a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    let size = a.iter().fold(1e-300f64, |m, v| m.max(v.abs()));
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= tolerance * size, "{name}[{i}]: {a:e} and {b:e}");
    }
}

/// Both routes walk the same path, for every solver, noise and shape.
#[test]
fn routes_agree() {
    for (rows, columns) in SHAPES {
        for solver in SolverKind::ALL {
            for noise in NOISES {
                let problem = problem_for(solver, rows, columns, 3);
                // With wider bounds, interpolated rows have 1 − h below what d × d arithmetic can resolve.
                let bounds = [1e-4, 1e4];
                let settings = Settings {
                    noise_variance_bounds: bounds,
                    weight_precision_bounds: bounds,
                    ..plain(solver, noise, 8)
                };
                let run = |route| fit(&problem, &Settings { route, ..settings.clone() }).unwrap();
                let (weight, sample) = (run(Route::WeightSpace), run(Route::SampleSpace));
                let name = format!("{rows}x{columns} {solver:?} {noise:?}");
                let path = |records: &[IterationRecord]| -> Vec<f64> { records.iter().map(|r| r.objective).collect() };
                close(&format!("{name} path"), &path(&weight.outcome().trace), &path(&sample.outcome().trace), 1e-6);
                close(&format!("{name} mean"), weight.coefficients(), sample.coefficients(), 1e-5);
                close(&format!("{name} se"), weight.standard_errors(), sample.standard_errors(), 1e-5);
                let (a, b) = (weight.diagnose(), sample.diagnose());
                close(&format!("{name} leverage"), &a.leverage, &b.leverage, 1e-5);
                let new = gaussian_matrix(5, columns, &mut rng(9));
                let (a, b) = (weight.predict(new.as_ref()).unwrap(), sample.predict(new.as_ref()).unwrap());
                close(&format!("{name} prediction"), &a.mean, &b.mean, 1e-5);
                close(&format!("{name} latent"), &a.latent_variance, &b.latent_variance, 1e-5);
            }
        }
    }
}

/// A row of weight two is the row given twice.
#[test]
fn weights_are_repetitions() {
    let data = Synthetic { rows: 30, columns: 6, support: 2, ..Synthetic::PAPER }.draw(1);
    let repeated: Vec<usize> = (0..30).flat_map(|i| std::iter::repeat_n(i, 1 + i % 3)).collect();
    let long_x = Mat::from_fn(repeated.len(), 6, |i, j| data.x[(repeated[i], j)]);
    let long_y: Vec<f64> = repeated.iter().map(|&i| data.y[i]).collect();
    let long = Problem::new(long_x.as_ref(), &long_y).unwrap();
    let weights: Vec<f64> = (0..30).map(|i| (1 + i % 3) as f64).collect();
    let short = Problem::new(data.x.as_ref(), &data.y).unwrap().with_row_weights(&weights).unwrap();
    for solver in SolverKind::ALL {
        for noise in NOISES {
            // The scale of a learnt prior starts at the median of the rows, which weights do not move.
            let start: f64 = if matches!(noise, Noise::Shared | Noise::Flat) { 1e-7 } else { 1e-2 };
            let steps = if matches!(noise, Noise::Shared | Noise::Flat) { 10 } else { 400 };
            if solver == SolverKind::Gradient && !noise.is_shared() {
                continue; // Adam's steps depend on the gradient's size, which a weight doubles
            }
            let (a, b) =
                (fit(&short, &plain(solver, noise, steps)).unwrap(), fit(&long, &plain(solver, noise, steps)).unwrap());
            let name = format!("{solver:?} {noise:?}");
            close(&format!("{name} mean"), a.coefficients(), b.coefficients(), start.max(1e-6));
            close(&format!("{name} objective"), &[a.outcome().objective], &[b.outcome().objective], start.max(1e-6));
        }
    }
}

/// The result does not depend on the number of threads, to the last bit.
#[test]
fn threads_do_not_matter() {
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let (one_thread, two_threads) = (pool(1), pool(2));
    for (rows, columns) in [(700, 40), (30, 60), (40, 40), (420, 500)] {
        for solver in SolverKind::ALL {
            for noise in NOISES {
                let problem = problem_for(solver, rows, columns, 5);
                let settings = Settings {
                    pruning: true,
                    acceleration: Acceleration::Auto,
                    ..plain(solver, noise, if rows == 420 { 3 } else { 12 })
                };
                let settings = Settings { inner_max_iterations: 50, ..settings };
                let [one, two] =
                    [&one_thread, &two_threads].map(|pool| pool.install(|| fit(&problem, &settings)).unwrap());
                assert_eq!(one.coefficients(), two.coefficients(), "{solver:?} {noise:?}");
                assert_eq!(one.rows(), two.rows(), "{solver:?} {noise:?}");
                assert_eq!(one.outcome().objective, two.outcome().objective);
            }
        }
    }
}

/// An inverse-gamma prior is Student-t noise with its parameters given: both from the same start, one step apart.
#[test]
fn inverse_gamma_is_student_t() {
    let problem = problem(40, 10, 2);
    let student = fit(&problem, &plain(SolverKind::Em, "student-t:3".parse().unwrap(), 2000)).unwrap();
    let robustard_engine::noise::NoiseModel::StudentT(robustard_engine::noise::StudentT { scale, degrees, .. }) =
        *student.noise()
    else {
        panic!()
    };
    let noise = Noise::InverseGamma { shape: degrees / 2.0, scale: scale * degrees / 2.0 };
    let given = fit(&problem, &plain(SolverKind::Em, noise, 2000)).unwrap();
    close("objective", &[student.outcome().objective], &[given.outcome().objective], 1e-6);
    close("mean", student.coefficients(), given.coefficients(), 1e-3);
}

/// EM, MacKay and ℓ2-IRLS meet at one optimum; acceleration and pruning lead there too.
#[test]
fn fixed_points_agree() {
    for seed in 0..3 {
        let problem =
            Synthetic { rows: 200, columns: 12, support: 12, contamination: 0.05, ..Synthetic::PAPER }.problem(seed);
        let noise: Noise = "student-t".parse().unwrap();
        let reference = fit(&problem, &Settings { tolerance: 1e-8, ..plain(SolverKind::Em, noise, 5_000) }).unwrap();
        for solver in [SolverKind::Em, SolverKind::Mackay, SolverKind::IrlsL2, SolverKind::IrlsL1] {
            for (acceleration, pruning) in
                [(Acceleration::None, false), (Acceleration::Auto, false), (Acceleration::Auto, true)]
            {
                let settings = Settings { tolerance: 1e-7, acceleration, pruning, ..plain(solver, noise, 5000) };
                let other = fit(&problem, &settings).unwrap();
                let name = format!("{solver:?} {acceleration:?} {pruning}");
                let difference = (other.outcome().objective - reference.outcome().objective).abs();
                // ℓ1-IRLS minimises another surrogate; its weights are the inner problem's, not the posterior mean.
                let (objective, mean) = if solver == SolverKind::IrlsL1 { (0.5, 0.05) } else { (1e-3, 1e-3) };
                assert!(difference < objective, "{name}: {difference}");
                close(&name, reference.coefficients(), other.coefficients(), mean);
            }
        }
    }
}

/// Closed-form leave-one-out against refits without the row, with γ and λ held.
#[test]
fn leave_one_out_matches_refits() {
    let problem = problem(25, 6, 4);
    let model = fit(&problem, &plain(SolverKind::Em, "student-t".parse().unwrap(), 50)).unwrap();
    let diagnostics = model.diagnose();
    let effective: f64 = diagnostics.leverage.iter().sum();
    for left_out in 0..25 {
        let kept: Vec<usize> = (0..25).filter(|&i| i != left_out).collect();
        let x = Mat::from_fn(24, 6, |i, j| problem.rows()[(j, kept[i])]);
        let y: Vec<f64> = kept.iter().map(|&i| problem.target()[i]).collect();
        let precision: Vec<f64> = (0..25).map(|i| model.rows().weight[i] / model.rows().noise_variance[i]).collect();
        // Shared noise of variance 1 that never moves, rows weighted by the precision of their own.
        let held = |inflation: f64| {
            let weights: Vec<f64> = kept.iter().map(|&i| precision[i] / inflation).collect();
            let mut held = Problem::new(x.as_ref(), &y).unwrap().with_row_weights(&weights).unwrap();
            for j in 0..6 {
                held = held.with_fixed_precision(j, model.weight_precision()[j]).unwrap();
            }
            let settings = Settings {
                noise: Noise::Shared,
                noise_start: 10,
                max_iterations: 1,
                units: robustard_engine::Units::Absolute,
                initial_noise_variance: 1.0,
                ..Settings::default()
            };
            fit(&held, &settings).unwrap()
        };
        let without = held(1.0);
        let row = Mat::from_fn(1, 6, |_, j| problem.rows()[(j, left_out)]);
        let predicted = without.predict(row.as_ref()).unwrap();
        close(
            "loo residual",
            &[problem.target()[left_out] - predicted.mean[0]],
            &[diagnostics.loo_residual[left_out]],
            1e-8,
        );
        // Its variance is that of predictions, whose posterior is widened for robust noise.
        let wide = held(model.noise_inflation()).predict(row.as_ref()).unwrap().latent_variance;
        close("loo latent", &wide, &[diagnostics.loo_latent_variance[left_out]], 1e-8);
        assert!(wide[0] > 1.05 * predicted.latent_variance[0], "{} {}", wide[0], predicted.latent_variance[0]);
        // Cook's distance and DFFITS from their definitions.
        let shift: Vec<f64> = (0..6).map(|j| model.coefficients()[j] - without.coefficients()[j]).collect();
        let fitted_shift = |i: usize| -> f64 { (0..6).map(|j| problem.rows()[(j, i)] * shift[j]).sum() };
        let metric: f64 = (0..25).map(|i| precision[i] * fitted_shift(i).powi(2)).sum::<f64>()
            + (0..6).map(|j| model.weight_precision()[j] * shift[j].powi(2)).sum::<f64>();
        close("cook", &[metric / effective], &[diagnostics.cooks_distance[left_out]], 1e-6);
        let dffits = fitted_shift(left_out) / model.rows().latent_variance[left_out].sqrt();
        close("dffits", &[dffits], &[diagnostics.dffits[left_out]], 1e-6);
    }
}

/// A group of identical columns pools their second moments.
#[test]
fn groups_share_one_precision() {
    let problem = problem(40, 10, 6);
    for solver in SolverKind::ALL.into_iter().filter(|solver| *solver != SolverKind::Growing) {
        let model = fit(&problem, &plain(solver, Noise::Shared, 20)).unwrap();
        assert_eq!(model.weight_precision()[0], model.weight_precision()[1], "{solver:?}");
        assert_eq!(model.weight_precision()[1], model.weight_precision()[2], "{solver:?}");
        assert_ne!(model.weight_precision()[2], model.weight_precision()[3], "{solver:?}");
    }
    // EM at its fixed point: γ = size / Σ(μ² + Σ).
    let settings = Settings { tolerance: 1e-9, ..plain(SolverKind::Em, Noise::Shared, 50_000) };
    let model = fit(&problem, &settings).unwrap();
    let pooled: f64 = (0..3).map(|j| model.coefficients()[j].powi(2) + model.standard_errors()[j].powi(2)).sum();
    assert_eq!(model.noise_inflation(), 1.0);
    close("pooled", &[3.0 / pooled], &[model.weight_precision()[0]], 1e-4);
}

#[test]
fn saved_models_predict_the_same() {
    for (rows, columns) in SHAPES {
        let problem = problem(rows, columns, 8);
        let model = fit(&problem, &Settings::default()).unwrap();
        let text = serde_json::to_string(&model).unwrap();
        let back: robustard_engine::FittedModel = serde_json::from_str(&text).unwrap();
        let new = gaussian_matrix(7, columns, &mut rng(1));
        let (a, b) = (model.predict(new.as_ref()).unwrap(), back.predict(new.as_ref()).unwrap());
        assert_eq!(a, b);
        // All but times, which are not saved.
        assert!(serde_json::to_string(&back).unwrap() == text);
    }
}

/// Pruning does not change the answer: columns that matter stay, and one that was dropped too early comes back.
#[test]
fn pruning_keeps_the_answer() {
    for seed in 0..5 {
        let problem = Synthetic { columns: 80, ..Synthetic::PAPER }.problem(seed);
        let base = Settings { tolerance: 1e-6, max_iterations: 5000, ..Settings::default() };
        let with = fit(&problem, &Settings { pruning: true, ..base.clone() }).unwrap();
        let without = fit(&problem, &Settings { pruning: false, ..base }).unwrap();
        assert!(with.active_columns().len() < 40, "{}", with.active_columns().len());
        let gap = with.outcome().objective - without.outcome().objective;
        assert!(gap < 0.1, "seed {seed}: {gap}");
        close("mean", without.coefficients(), with.coefficients(), 0.02);
    }
}

/// Two copies of a column share its weight, and neither is lost to pruning the other.
#[test]
fn duplicated_columns_predict_as_one() {
    let mut rng = rng(3);
    let x = gaussian_matrix(100, 3, &mut rng);
    let y: Vec<f64> = (0..100).map(|i| 2.0 * x[(i, 0)] + 0.1 * normal(&mut rng)).collect();
    let doubled = Mat::from_fn(100, 4, |i, j| x[(i, j % 3)]);
    let one = fit(&Problem::new(x.as_ref(), &y).unwrap(), &Settings::default()).unwrap();
    let two = fit(&Problem::new(doubled.as_ref(), &y).unwrap(), &Settings::default()).unwrap();
    close("fitted", &one.rows().fitted, &two.rows().fitted, 1e-2);
    assert!((two.coefficients()[0] + two.coefficients()[3] - 2.0).abs() < 0.05);
}

/// Rows that are written when they are looked at.
#[derive(Debug)]
struct Scattered {
    rows: usize,
    columns: usize,
}

impl RowSource for Scattered {
    fn column_count(&self) -> usize {
        self.columns
    }

    fn row_count(&self) -> usize {
        self.rows
    }

    fn write(&self, first: usize, columns: &[usize], mut rows: MatMut<'_, f64>) {
        for i in 0..rows.ncols() {
            for (k, &column) in columns.iter().enumerate() {
                let place = ((first + i) * self.columns + column) as u64;
                let uniform = (place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f64 / (1 << 24) as f64;
                rows[(k, i)] = 12f64.sqrt() * (uniform - 0.5);
            }
        }
    }
}

/// A table so large that no copy of it is kept is fitted as if there were one.
#[test]
fn large_tables_need_no_copy() {
    let table = || Scattered { rows: 1_100_000, columns: 8 };
    let whole = table().matrix();
    let noise = |i: usize| ((i * 37) as f64).cos() + if i.is_multiple_of(20) { 9.0 } else { 0.0 };
    let target: Vec<f64> = (0..whole.ncols()).map(|i| whole[(0, i)] - whole[(5, i)] + 0.3 * noise(i)).collect();
    drop(whole);
    let settings = Settings { max_iterations: 60, ..Settings::default().with_noise(Noise::Contaminated) };
    let written = Problem::from_standard_source(table(), target.clone(), 0);
    let copied = Problem::from_standard_source(table(), target, 0);
    assert_eq!(copied.rows().ncols(), 1_100_000);
    let [written, copied] = [written, copied].map(|problem| fit(&problem, &settings).unwrap());
    assert_eq!(written.iterations(), copied.iterations());
    assert_eq!(written.coefficients(), copied.coefficients());
    assert_eq!(written.rows().noise_variance, copied.rows().noise_variance);
}
