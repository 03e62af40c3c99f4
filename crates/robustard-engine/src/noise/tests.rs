use std::f64::consts::PI;

use super::*;

const MODELS: [NoiseModel; 6] = [
    NoiseModel::Flat(Flat),
    NoiseModel::StudentT(StudentT { scale: 0.7, degrees: 4.0, learning: StudentLearning::Scale }),
    NoiseModel::StudentT(StudentT { scale: 1.3, degrees: 2.5, learning: StudentLearning::Nothing }),
    NoiseModel::Contaminated(Contaminated { scale: 0.5, share: 0.1, ratio: 30.0 }),
    NoiseModel::ContaminatedT(ContaminatedT {
        scale: 0.5,
        degrees: 5.0,
        share: 0.1,
        ratio: 300.0,
        learns_degrees: true,
    }),
    NoiseModel::ContaminatedT(ContaminatedT {
        scale: 0.5,
        degrees: 150.0,
        share: 0.4,
        ratio: 30.0,
        learns_degrees: false,
    }),
];

fn row_objective(model: &NoiseModel, e2: f64, variance: f64) -> f64 {
    let at = |ratio| model.penalty(&[variance * ratio], &[1.0]) - model.penalty(&[], &[]);
    0.5 * e2 / variance + 0.5 * (2.0 * PI * variance).ln() + at(1.0)
}

#[test]
fn variance_minimises_the_row_objective() {
    for model in MODELS {
        for e2 in [1e-3, 0.4, 2.0, 30.0] {
            let best = model.variance(e2);
            let [low, high] = model.range();
            for factor in [0.9, 0.999, 1.001, 1.1] {
                let other = (best * factor).clamp(low, high);
                assert!(
                    row_objective(&model, e2, best) <= row_objective(&model, e2, other) + 1e-12,
                    "{model:?} {e2} {factor}"
                );
            }
        }
    }
}

/// At its best variance a row's objective is minus the log density of the noise.
#[test]
fn row_objective_is_the_density() {
    for model in &MODELS[1..] {
        for e2 in [1e-3f64, 0.4, 2.0, 30.0] {
            let objective = row_objective(model, e2, model.variance(e2));
            let density = match model {
                NoiseModel::StudentT(StudentT { scale, .. })
                | NoiseModel::Contaminated(Contaminated { scale, .. })
                | NoiseModel::ContaminatedT(ContaminatedT { scale, .. }) => model.log_density(e2.sqrt(), 0.0, *scale),
                _ => unreachable!(),
            };
            assert!((objective + density).abs() < 1e-10, "{model:?}: {objective} {density}");
        }
    }
}

#[test]
fn slope_is_the_derivative_of_the_penalty() {
    for model in MODELS {
        for e2 in [0.3, 2.0, 9.0] {
            let v: f64 = model.variance(e2);
            let step = 1e-5;
            let up = model.penalty(&[v * f64::exp(step)], &[1.0]);
            let down = model.penalty(&[v * f64::exp(-step)], &[1.0]);
            let slope = (up - down) / (2.0 * step);
            assert!((slope - model.penalty_slope(v)).abs() < 1e-6 * (1.0 + slope.abs()), "{model:?} {e2}");
        }
    }
}

#[test]
fn a_learnt_scale_starts_at_the_bulk() {
    let second_moment = [1.0, 2.0, 3.0, 4.0, 1e9];
    for prior in ["student-t", "contaminated", "contaminated-t"] {
        let mut model = NoiseModel::new(prior.parse().unwrap(), 77.0);
        model.start_at(&second_moment, [1e-9, 1e9]);
        let scale = model.to_coordinates()[0].exp();
        assert!((scale - 3.0 / MEDIAN_CHI_SQUARE).abs() < 1e-9, "{prior}: {scale}");
    }
    let mut given = NoiseModel::new("inverse-gamma:2,3".parse().unwrap(), 77.0);
    given.start_at(&second_moment, [1e-9, 1e9]);
    assert!((given.to_coordinates()[0].exp() - 1.5).abs() < 1e-12);
}

#[test]
fn parameters_never_fit_worse() {
    let second_moment: Vec<f64> = (0..200).map(|i| ((i * 37 % 101) as f64 / 50.0).powi(4)).collect();
    let weight: Vec<f64> = (0..200).map(|i| 0.5 + (i % 3) as f64).collect();
    for prior in ["student-t:3", "student-t:learned", "contaminated", "contaminated-t", "contaminated-t:3"] {
        let mut model = NoiseModel::new(prior.parse().unwrap(), 1.0);
        let cost = |model: &NoiseModel| -> f64 {
            let variance: Vec<f64> = second_moment.iter().map(|e2| model.variance(*e2)).collect();
            let rows = variance.iter().zip(&second_moment).zip(&weight);
            model.penalty(&variance, &weight) + rows.map(|((v, e2), w)| 0.5 * w * (e2 / v + v.ln())).sum::<f64>()
        };
        let start = cost(&model);
        let mut before = start;
        for step in 0..50 {
            model.fit_parameters(&second_moment, &weight, [1e-12, 1e12]);
            let after = cost(&model);
            assert!(after <= before + 1e-9, "{prior} step {step}: {before} {after}");
            before = after;
        }
        assert!(before < start - 1.0, "{prior} did not improve");
    }
}

#[test]
fn saved_models_are_read_back() {
    let shared = NoiseModel::shared(0.25);
    assert_eq!(serde_json::to_string(&shared).unwrap(), r#"{"model":"shared","variance":0.25}"#);
    for model in MODELS.into_iter().chain([shared]) {
        let text = serde_json::to_string(&model).unwrap();
        assert!(
            text.contains(&format!(
                r#""model":"{}""#,
                if text.contains("nothing") { "student-t" } else { model.name() }
            ))
        );
        assert_eq!(serde_json::from_str::<NoiseModel>(&text).unwrap(), model);
    }
}
