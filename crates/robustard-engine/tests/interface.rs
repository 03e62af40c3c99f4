//! What callers rely on beyond the numbers.

mod common;

use std::ops::ControlFlow;

use common::{Synthetic, gaussian_matrix, rng};
use robustard_engine::faer::Mat;
use robustard_engine::{
    BaseNoise, FittedModel, Iteration, Noise, Observer, Prediction, Problem, Settings, SolverKind, Start, Status, Stop,
    fit, fit_from, fit_observed,
};

fn silent(_: &Iteration<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// No outliers: robust noise then makes the posterior too narrow.
const ROBUST: Synthetic =
    Synthetic { rows: 80, columns: 12, support: 4, sigma: 0.3, contamination: 0.0, multiplier: 1.0 };

fn robust_model() -> (Mat<f64>, FittedModel) {
    let data = ROBUST.draw(2);
    let settings = Settings { base_noise: BaseNoise::LeftOut, ..Settings::default() };
    let model = fit(&Problem::new(data.x.as_ref(), &data.y).unwrap(), &settings).unwrap();
    assert!(model.noise_inflation() > 1.02, "{}", model.noise_inflation());
    (data.x, model)
}

/// Rows given as they lie are the same problem as a design matrix, and the same values are wrong in both.
#[test]
fn problems_from_rows_are_those_from_designs() {
    let data = Synthetic { rows: 60, columns: 8, support: 3, ..Synthetic::PAPER }.draw(1);
    let rows = data.x.transpose().to_owned();
    let address = rows.as_ptr();
    let given = Problem::from_rows(rows.clone(), data.y.clone()).unwrap();
    let copied = Problem::new(data.x.as_ref(), &data.y).unwrap();
    assert_eq!(given.natural_units(), copied.natural_units());
    let [a, b] = [&given, &copied].map(|problem| fit(problem, &Settings::default()).unwrap());
    assert_eq!(a.coefficients(), b.coefficients());
    assert_eq!(a.rows(), b.rows());
    assert_eq!(Problem::from_rows(rows, data.y.clone()).unwrap().rows().as_ptr(), address, "nothing is copied");
    for (row, column, value) in [(3, 2, f64::NAN), (59, 7, f64::INFINITY), (0, 0, 1e101)] {
        for wrong_target in [None, Some(2), Some(30)] {
            let (mut x, mut y) = (data.x.clone(), data.y.clone());
            x[(row, column)] = value;
            wrong_target.into_iter().for_each(|i: usize| y[i] = -1e200);
            let from_design = Problem::new(x.as_ref(), &y).unwrap_err().to_string();
            let from_rows = Problem::from_rows(x.transpose().to_owned(), y).unwrap_err().to_string();
            assert_eq!(from_design, from_rows);
            let first = wrong_target.map_or(row, |other| row.min(other));
            assert!(from_rows.contains(&format!("row {}", first + 1)), "{from_rows}");
        }
    }
}

/// Other weights, groups and precisions share the matrix; units follow the weights.
#[test]
fn problems_share_their_matrix() {
    let problem = Synthetic { rows: 40, columns: 5, support: 2, ..Synthetic::PAPER }.problem(1);
    let units = problem.natural_units();
    let weights: Vec<f64> = (0..40).map(|i| 1.0 + (i % 5) as f64).collect();
    let weighted = problem.clone().with_row_weights(&weights).unwrap();
    assert_eq!(problem.rows().as_ptr(), weighted.rows().as_ptr());
    assert_eq!(problem.target().as_ptr(), weighted.target().as_ptr());
    assert_ne!(weighted.natural_units(), units);
    assert_eq!(weighted.with_row_weights(&[1.0; 40]).unwrap().natural_units(), units);
    let grouped = problem.with_groups(&[0, 0, 1, 1, 1]).unwrap().with_fixed_precision(4, 0.5).unwrap();
    assert_eq!(grouped.natural_units().weight_precision.len(), 2);
    let settings = Settings { pruning: false, ..Settings::default() };
    assert_eq!(fit(&grouped, &settings).unwrap().groups(), [0, 0, 1, 1, 1]);
}

#[test]
fn starts_of_other_problems_are_named() {
    let problem = Synthetic { rows: 40, columns: 5, support: 2, ..Synthetic::PAPER }.problem(1);
    let settings = Settings { pruning: false, ..Settings::default() };
    let model = fit(&problem, &settings).unwrap();
    let start = Start {
        weight_precision: model.weight_precision().to_vec(),
        noise: *model.noise(),
        noise_variance: model.rows().noise_variance.clone(),
    };
    let error = |spoil: &dyn Fn(&mut Start), settings: &Settings| {
        let mut start = start.clone();
        spoil(&mut start);
        fit_from(&problem, settings, Some(&start), &mut silent).unwrap_err().to_string()
    };
    let message = error(&|start| start.weight_precision.push(1.0), &settings);
    assert!(message.contains("6 weight precisions") && message.contains("5 are expected"), "{message}");
    let message = error(&|start| start.noise_variance.truncate(39), &settings);
    assert!(message.contains("39 noise variances") && message.contains("40 are expected"), "{message}");
    let message = error(&|_| {}, &settings.clone().with_noise(Noise::Contaminated));
    assert!(message.contains("student-t noise") && message.contains("contaminated"), "{message}");
    assert!(fit_from(&problem, &settings, Some(&start), &mut silent).is_ok());
}

#[test]
fn growth_needs_one_precision_per_column() {
    let problem = Synthetic { rows: 40, columns: 5, support: 2, ..Synthetic::PAPER }.problem(1);
    let growing = Settings { solver: SolverKind::Growing, ..Settings::default() };
    assert!(fit(&problem, &growing).is_ok());
    let message = fit(&problem.with_groups(&[0, 1, 1, 2, 1]).unwrap(), &growing).unwrap_err().to_string();
    assert!(message.contains("columns 2, 3, 5 share one; use em"), "{message}");
}

struct Flagged(Stop);

impl Observer for Flagged {
    fn iteration(&mut self, iteration: &Iteration<'_>) -> ControlFlow<()> {
        if iteration.record.iteration == 3 {
            self.0.raise();
        }
        ControlFlow::Continue(())
    }

    fn stop(&self) -> Stop {
        self.0.clone()
    }
}

#[test]
fn a_raised_flag_ends_the_fit() {
    let problem = Synthetic::PAPER.problem(1);
    for solver in [SolverKind::Em, SolverKind::Growing] {
        let settings = Settings { solver, ..Settings::default() };
        let model = fit_observed(&problem, &settings, &mut Flagged(Stop::default())).unwrap();
        assert_eq!((model.status(), model.iterations()), (Status::Interrupted, 3));
        let before = Stop::default();
        before.raise();
        let model = fit_observed(&problem, &settings, &mut Flagged(before)).unwrap();
        assert_eq!((model.status(), model.iterations()), (Status::Interrupted, 1));
    }
}

/// The variances of the training rows are those that `predict` gives them, and leave-one-out starts from those.
#[test]
fn left_out_rows_carry_the_variance_of_predictions() {
    let (x, model) = robust_model();
    let (rows, predicted) = (model.rows(), model.predict(x.as_ref()).unwrap());
    let diagnostics = model.diagnose();
    for i in 0..80 {
        let q = rows.predictive_latent_variance()[i];
        assert!((q / predicted.latent_variance[i] - 1.0).abs() < 1e-9);
        assert!(q > rows.latent_variance[i], "widened");
        let h = q / (model.noise_inflation() * rows.noise_variance[i]);
        assert!((diagnostics.loo_latent_variance[i] / (q / (1.0 - h)) - 1.0).abs() < 1e-9);
        let total = model.inlier_variance() + diagnostics.loo_latent_variance[i];
        assert!((diagnostics.z[i] - diagnostics.loo_residual[i] / total.sqrt()).abs() < 1e-9);
    }
    let data = ROBUST.draw(2);
    let problem = Problem::new(data.x.as_ref(), &data.y).unwrap();
    let shared = fit(&problem, &Settings::default().with_shared_noise()).unwrap();
    assert_eq!(shared.rows().predictive_latent_variance(), shared.rows().latent_variance);
}

/// Variance that the features do not carry enters leave-one-out and the noise learnt from it.
#[test]
fn more_variance_is_added_to_left_out_rows() {
    let (_, mut model) = robust_model();
    let more: Vec<f64> = (0..80).map(|i| 0.01 * f64::from(i)).collect();
    let (plain, wider) = (model.diagnose(), model.diagnose_with(&more));
    for i in 0..80 {
        assert_eq!(wider.loo_latent_variance[i], plain.loo_latent_variance[i] + more[i]);
        let total = model.inlier_variance() + wider.loo_latent_variance[i];
        assert!((wider.z[i] - plain.loo_residual[i] / total.sqrt()).abs() < 1e-12);
    }
    assert_eq!((&plain.leverage, &plain.cooks_distance), (&wider.leverage, &wider.cooks_distance));
    assert_ne!(plain.loo_log_density, wider.loo_log_density);
    let before = model.predictive_noise(BaseNoise::LeftOut);
    let weight = model.rows().weight.clone();
    model.calibrate(&[], &weight, 1.0);
    assert_eq!(model.predictive_noise(BaseNoise::LeftOut), before);
    model.calibrate(&more, &weight, 1.0);
    assert_ne!(model.predictive_noise(BaseNoise::LeftOut), before);
}

/// Rows as columns of a matrix, one at a time or together, pruned columns included.
#[test]
fn predictions_do_not_depend_on_the_layout() {
    let problem = Synthetic { rows: 200, columns: 40, support: 5, ..Synthetic::PAPER }.problem(3);
    let model = fit(&problem, &Settings::default()).unwrap();
    assert!(model.active_columns().len() < 40, "some were pruned");
    let design = gaussian_matrix(1500, 40, &mut rng(1));
    let rows = design.transpose().to_owned();
    let prediction = model.predict(design.as_ref()).unwrap();
    let together = model.predict_rows(rows.as_ref()).unwrap();
    assert_eq!(together.mean, model.mean_rows(rows.as_ref()).unwrap());
    assert_eq!(together.mean, model.predict_mean(design.as_ref()).unwrap());
    assert_eq!(
        prediction,
        Prediction::new(together.mean, together.variance, model.predictive_noise(model.base_noise()))
    );
    for i in [0, 7, 1499] {
        let one = model.predict_rows(rows.as_ref().subcols(i, 1)).unwrap();
        assert_eq!(one.mean[0], prediction.mean[i]);
        assert!((one.variance[0] / prediction.latent_variance[i] - 1.0).abs() < 1e-12);
    }
    assert!(model.predict_rows(Mat::zeros(39, 1).as_ref()).unwrap_err().to_string().contains("40 columns"));
    let mut wrong = rows;
    wrong[(5, 9)] = f64::NAN;
    assert!(model.mean_rows(wrong.as_ref()).unwrap_err().to_string().contains("column 6, row 10"));
}
