//! Random problems and random states.

mod common;

use common::{gaussian_matrix, normal, rng};
use proptest::prelude::*;
use robustard::evidence::{Gradient, gradient, objective};
use robustard::faer::Par;
use robustard::noise::NoiseModel;
use robustard::posterior::{Moments, route};
use robustard::state::State;
use robustard::{NoiseKind, NoisePrior, Problem, Route, Settings, SolverKind, fit};

fn any_prior() -> impl Strategy<Value = NoisePrior> {
    prop_oneof![
        Just(NoisePrior::Flat),
        (0.5..5.0f64, 0.1..2.0f64).prop_map(|(shape, scale)| NoisePrior::InverseGamma { shape, scale }),
        (0.7..20.0f64).prop_map(|nu| NoisePrior::StudentT(robustard::Degrees::Fixed(nu))),
        Just(NoisePrior::Contaminated),
        Just(NoisePrior::ContaminatedT(robustard::Degrees::Learned)),
        Just(NoisePrior::ContaminatedT(robustard::Degrees::Fixed(5.0))),
    ]
}

/// A random problem with weights and groups, and a random state of it.
fn random(rows: usize, columns: usize, seed: u64, kind: NoiseKind, prior: NoisePrior) -> (Problem, State) {
    let mut rng = rng(seed);
    let x = gaussian_matrix(rows, columns, &mut rng);
    let y: Vec<f64> = (0..rows).map(|i| x[(i, 0)] + normal(&mut rng)).collect();
    let weights: Vec<f64> = (0..rows).map(|_| normal(&mut rng).exp()).collect();
    let labels: Vec<usize> = (0..columns).map(|j| j / 2).collect();
    let problem =
        Problem::new(x.as_ref(), &y).unwrap().with_row_weights(&weights).unwrap().with_groups(&labels).unwrap();
    let variance = normal(&mut rng).exp();
    let noise = NoiseModel::new(kind, prior, variance);
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
        rows in 2usize..12, columns in 1usize..12, seed: u64, shared: bool, sample_space: bool, prior in any_prior(),
    ) {
        let kind = if shared { NoiseKind::Shared } else { NoiseKind::PerRow };
        let way = if sample_space { Route::SampleSpace } else { Route::WeightSpace };
        let (problem, state) = random(rows, columns, seed, kind, prior);
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
                NoiseModel::Shared { variance } => {
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
        let kind = if shared { NoiseKind::Shared } else { NoiseKind::PerRow };
        let (problem, state) = random(rows, columns, seed, kind, NoisePrior::Flat);
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

    /// Leverages lie in [0, 1], their sum is the number of determined weights, and nothing is NaN.
    #[test]
    fn any_small_problem_fits(
        rows in 1usize..20, columns in 1usize..20, seed: u64, solver in 0usize..SolverKind::ALL.len(), prior in any_prior(), shared: bool,
    ) {
        let kind = if shared { NoiseKind::Shared } else { NoiseKind::PerRow };
        let (problem, _) = random(rows, columns, seed, kind, prior);
        let settings = Settings { solver: SolverKind::ALL[solver], noise: kind, noise_prior: prior, max_iterations: 60, ..Settings::default() };
        let model = fit(&problem, &settings).unwrap();
        prop_assert!(model.outcome.objective.is_finite());
        prop_assert!(model.coefficients.iter().chain(&model.standard_errors).all(|v| v.is_finite()));
        let diagnostics = model.diagnose();
        prop_assert!(diagnostics.leverage.iter().all(|h| (0.0..=1.0).contains(h)));
        prop_assert!(diagnostics.z.iter().all(|z| z.is_finite()));
        prop_assert!(diagnostics.loo_log_density.iter().all(|d| d.is_finite()));
    }
}
