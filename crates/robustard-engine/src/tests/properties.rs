//! Random problems and random states.

use proptest::prelude::*;

use super::common::{gaussian_matrix, normal, rng};
use crate::evidence::{Gradient, gradient, objective};
use crate::faer::Par;
use crate::noise::{NoiseModel, Shared};
use crate::posterior::{Moments, route};
use crate::solver::inner_lasso::InnerLasso;
use crate::solver::rule::Point;
use crate::state::State;
use crate::{Degrees, Noise, Problem, Route, Settings, SolverKind, fit};

fn any_noise() -> impl Strategy<Value = Noise> {
    prop_oneof![
        Just(Noise::Shared),
        Just(Noise::Flat),
        (0.5..5.0f64, 0.1..2.0f64).prop_map(|(shape, scale)| Noise::InverseGamma { shape, scale }),
        (0.7..20.0f64).prop_map(|nu| Noise::StudentT(Degrees::Fixed(nu))),
        Just(Noise::Contaminated),
        Just(Noise::ContaminatedT(Degrees::Learned)),
        Just(Noise::ContaminatedT(Degrees::Fixed(5.0))),
    ]
}

/// A random problem with weights and groups, and a random state of it.
fn random(rows: usize, columns: usize, seed: u64, noise: Noise) -> (Problem<'static>, State) {
    let mut rng = rng(seed);
    let x = gaussian_matrix(rows, columns, &mut rng);
    let y: Vec<f64> = (0..rows).map(|i| x[(i, 0)] + normal(&mut rng)).collect();
    let weights: Vec<f64> = (0..rows).map(|_| normal(&mut rng).exp()).collect();
    let labels: Vec<usize> = (0..columns).map(|j| j / 2).collect();
    let problem =
        Problem::new(x.as_ref(), &y).unwrap().with_row_weights(&weights).unwrap().with_groups(&labels).unwrap();
    let variance = normal(&mut rng).exp();
    let noise = NoiseModel::new(noise, variance);
    let noise_variance =
        (0..rows).map(|_| if noise.is_shared() { variance } else { noise.variance(normal(&mut rng).exp()) });
    let state = State {
        noise_variance: noise_variance.collect(),
        weight_precision: (0..labels[columns - 1] + 1).map(|_| normal(&mut rng).exp()).collect(),
        noise,
    };
    (problem, state)
}

fn evaluate(problem: &Problem, state: &State, kind: Route) -> (f64, Moments) {
    let mut posterior = route(kind, problem, Par::Seq);
    let mut moments = Moments::new(problem);
    posterior.factorise(problem, &state.weight_precision, state.row_noise(), &mut moments).unwrap();
    posterior.weight_moments(problem, &mut moments);
    posterior.row_moments(problem, &mut moments);
    (objective(problem, state, &moments), moments)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn gradient_matches_differences(
        rows in 2usize..12, columns in 1usize..12, seed: u64, sample_space: bool, noise in any_noise(),
    ) {
        let way = if sample_space { Route::SampleSpace } else { Route::WeightSpace };
        let (problem, state) = random(rows, columns, seed, noise);
        let (_, moments) = evaluate(&problem, &state, way);
        let mut slopes = Gradient::default();
        gradient(&problem, &state, &moments, &mut slopes);
        let step = 1e-5f64;
        let difference = |change: &dyn Fn(&mut State, f64)| {
            let value = |factor: f64| {
                let mut moved = state.clone();
                change(&mut moved, factor);
                evaluate(&problem, &moved, way).0
            };
            (value(step.exp()) - value((-step).exp())) / (2.0 * step)
        };
        let close = |found: f64, wanted: f64| (found - wanted).abs() < 1e-4 * (1.0 + wanted.abs());
        for (group, slope) in slopes.log_weight_precision.iter().enumerate() {
            let wanted = difference(&|state, factor| state.weight_precision[group] *= factor);
            prop_assert!(close(*slope, wanted), "γ{group}: {slope} {wanted}");
        }
        for (row, slope) in slopes.log_noise_variance.iter().enumerate() {
            let [low, high] = state.noise.range();
            let variance = state.noise_variance[row];
            if variance < 1.001 * low || variance > 0.999 * high {
                continue; // a difference would leave the penalty's range
            }
            let wanted = difference(&|state, factor| match &mut state.noise {
                NoiseModel::Shared(Shared { variance }) => {
                    *variance *= factor;
                    state.noise_variance.fill(*variance);
                }
                _ => state.noise_variance[row] *= factor,
            });
            prop_assert!(close(*slope, wanted), "λ{row}: {slope} {wanted}");
        }
    }

    #[test]
    fn routes_agree_anywhere(rows in 1usize..25, columns in 1usize..25, seed: u64, shared: bool) {
        let noise = if shared { Noise::Shared } else { Noise::Flat };
        let (problem, state) = random(rows, columns, seed, noise);
        let (weight, a) = evaluate(&problem, &state, Route::WeightSpace);
        let (sample, b) = evaluate(&problem, &state, Route::SampleSpace);
        prop_assert!((weight - sample).abs() < 1e-7 * (1.0 + weight.abs()), "{weight} {sample}");
        for (a, b) in [
            (&a.mean, &b.mean),
            (&a.covariance_diagonal, &b.covariance_diagonal),
            (&a.column_quadratic_form, &b.column_quadratic_form),
            (&a.residual, &b.residual),
            (&a.latent_variance, &b.latent_variance),
            (&a.sample_precision_diagonal, &b.sample_precision_diagonal),
        ] {
            for (a, b) in a.iter().zip(b) {
                prop_assert!((a - b).abs() < 1e-6 * (1.0 + a.abs()), "{a} {b}");
            }
        }
        prop_assert!((a.residual_sum - b.residual_sum).abs() < 1e-6 * (1.0 + a.residual_sum));
        prop_assert!((a.latent_sum - b.latent_sum).abs() < 1e-6 * (1.0 + a.latent_sum));
    }

    /// Leverages lie in [0, 1] and nothing is NaN.
    #[test]
    fn any_small_problem_fits(
        rows in 1usize..20, columns in 1usize..20, seed: u64, solver in 0usize..SolverKind::ALL.len(), noise in any_noise(),
    ) {
        let solver = SolverKind::ALL[solver];
        let (mut problem, _) = random(rows, columns, seed, noise);
        if solver == SolverKind::Growing {
            problem = problem.with_groups(&(0..columns).collect::<Vec<_>>()).unwrap();
        }
        let settings = Settings { solver, noise, max_iterations: 60, ..Settings::default() };
        let model = fit(&problem, &settings).unwrap();
        prop_assert!(model.outcome().objective.is_finite());
        prop_assert!(model.coefficients().iter().chain(model.standard_errors()).all(|v| v.is_finite()));
        let diagnostics = model.diagnose();
        prop_assert!(diagnostics.leverage.iter().all(|h| (0.0..=1.0).contains(h)));
        prop_assert!(diagnostics.z.iter().all(|z| z.is_finite()));
        prop_assert!(diagnostics.loo_log_density.iter().all(|d| d.is_finite()));
    }

    /// Σh = Σ(1 − γΣ): the leverages sum to the number of weights that the data determine, by either route.
    #[test]
    fn leverages_sum_to_the_determined_weights(
        rows in 1usize..20, columns in 1usize..20, seed: u64, noise in any_noise(), sample_space: bool,
    ) {
        let (problem, _) = random(rows, columns, seed, noise);
        let problem = problem.with_row_weights(&vec![1.0; rows]).unwrap();
        let route = if sample_space { Route::SampleSpace } else { Route::WeightSpace };
        // Within these bounds 1 − h and 1 − γΣ are more than rounding.
        let bounds = [1e-4, 1e4];
        let settings = Settings {
            noise,
            route,
            pruning: false,
            max_iterations: 60,
            weight_precision_bounds: bounds,
            noise_variance_bounds: bounds,
            ..Settings::default()
        };
        let model = fit(&problem, &settings).unwrap();
        // The model's own standard errors are widened; those of its state are not.
        let mut weight_precision = vec![0.0; problem.groups().count()];
        for (column, &group) in model.groups().iter().enumerate() {
            weight_precision[group] = model.weight_precision()[column];
        }
        let state = State {
            weight_precision,
            noise_variance: model.rows().noise_variance.clone(),
            noise: *model.noise(),
        };
        let (_, moments) = evaluate(&problem, &state, route);
        let precision = model.weight_precision();
        let determined: f64 = (0..columns).map(|j| 1.0 - precision[j] * moments.covariance_diagonal[j]).sum();
        let leverages: f64 = model.diagnose().leverage.iter().sum();
        prop_assert!((leverages - determined).abs() < 1e-4 * (1.0 + determined), "{} {}", leverages, determined);
    }
}

/// With every precision fixed and no penalty on rows, the inner problem of ℓ1-IRLS is ridge regression: the posterior mean.
#[test]
fn inner_problem_without_penalties_is_ridge() {
    let (mut problem, mut state) = random(25, 6, 4, Noise::Flat);
    for column in 0..6 {
        problem = problem.with_fixed_precision(column, 0.7).unwrap();
    }
    state.weight_precision = vec![0.7; problem.groups().count()];
    let mut posterior = route(Route::Auto, &problem, Par::Seq);
    let mut moments = Moments::new(&problem);
    posterior.factorise(&problem, &state.weight_precision, state.row_noise(), &mut moments).unwrap();
    let start = Moments::new(&problem); // from zero, not from the answer
    let point = Point { problem: &problem, state: &state, moments: &start, posterior: posterior.as_ref() };
    let mut inner = InnerLasso::new(&problem);
    assert!(inner.solve(&point, 1e-11, 10_000).converged);
    for (found, wanted) in inner.solution().iter().zip(&moments.mean) {
        assert!((found - wanted).abs() < 1e-8, "{found} and {wanted}");
    }
}
