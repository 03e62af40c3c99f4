//! Effects of columns on functions that are known.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robustard::faer::Mat;
use robustard::{ColumnValue, Control, Dataset, InputColumn, InputKind, Options, Recipe, Regression, Standing, fit};

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    // Twelve uniform numbers are near enough.
    (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
}

/// Six columns: a line, a wave, a bend, a product of two, and nothing.
fn known(x: &[f64]) -> f64 {
    2.0 * x[0] + 1.5 * (2.0 * x[1]).sin() + x[2] * x[2]
}

fn data(n: usize, seed: u64, wrong: f64, truth: impl Fn(&[f64]) -> f64) -> (Mat<f64>, Vec<f64>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let inputs = Mat::from_fn(n, 6, |_, _| 3.0 * rng.random::<f64>() - 1.5);
    let target = (0..n).map(|i| {
        let row: Vec<f64> = inputs.row(i).iter().copied().collect();
        let gross = if rng.random::<f64>() < wrong { 8.0 * normal(&mut rng) } else { 0.0 };
        truth(&row) + 0.3 * normal(&mut rng) + gross
    });
    let target = target.collect();
    (inputs, target)
}

fn fitted(inputs: &Mat<f64>, target: &[f64]) -> Regression {
    let dataset = Dataset::new(inputs.as_ref(), target).unwrap();
    fit(&dataset, &Recipe::default(), &Control::new()).unwrap()
}

fn recipe(features: &str, noise: Option<&str>) -> Recipe {
    let noise = noise.map(|noise| noise.parse().unwrap());
    Options { features: Some(features.parse().unwrap()), noise, ..Options::default() }.recipe().unwrap()
}

#[test]
fn main_effects_are_those_of_the_function_and_lie_in_their_bands() {
    let (mut inside, mut all) = (0, 0);
    for (n, seed, wrong) in [(200, 1, 0.0), (1000, 2, 0.0), (200, 3, 0.1), (1000, 4, 0.1)] {
        let (inputs, target) = data(n, seed, wrong, known);
        let regression = fitted(&inputs, &target);
        let effects = regression.effects();
        for (c, column) in effects.columns.iter().enumerate() {
            let at = |value: f64| match c {
                0 => 2.0 * value,
                1 => 1.5 * (2.0 * value).sin(),
                2 => value * value,
                _ => 0.0,
            };
            // The mean over the training rows is what the effect is centred by.
            let mean: f64 = (0..n).map(|i| at(inputs[(i, c)])).sum::<f64>() / n as f64;
            for point in &column.points {
                let ColumnValue::Number(value) = point.value else { panic!("a number") };
                let off = point.effect - (at(value) - mean);
                assert!(off.abs() < 0.6, "{n} {} at {value}: {off}", column.name);
                if c < 3 {
                    all += 1;
                    inside += usize::from(off.abs() <= 1.96 * point.error);
                }
            }
        }
        let importance: Vec<f64> = effects.columns.iter().map(|column| column.importance).collect();
        // Variances 3, 1.2 and 0.45.
        assert!(importance[0] > importance[1] && importance[1] > importance[2], "{importance:?}");
        assert!(importance[3..].iter().all(|other| *other < 0.2 * importance[2]), "{importance:?}");
        assert!((importance.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(effects.columns[..3].iter().all(|column| column.standing == Standing::Clear));
        let losses: Vec<_> = effects.columns.iter().map(|column| (column.loss, column.loss_error)).collect();
        assert!(effects.columns[3..].iter().all(|column| column.standing != Standing::Clear), "{losses:?}");
        assert!(effects.columns[0].direction > 0.99);
        assert_eq!(effects.ranking()[..3], [0, 1, 2]);
    }
    let share = inside as f64 / all as f64;
    println!("{inside} of {all}");
    assert!((0.88..=0.995).contains(&share), "{share}");
}

#[test]
fn interactions_are_named() {
    for seed in 0..4 {
        let (inputs, target) = data(600, 10 + seed, 0.0, |x| known(x) + 2.0 * x[3] * x[4]);
        let regression = fitted(&inputs, &target);
        let effects = regression.effects();
        let first = &effects.interactions[0];
        assert_eq!(first.columns, [3, 4]);
        // 4 · 0.75² of 2 · 4 · 0.75² + 4.65.
        assert!((0.2..0.5).contains(&first.share), "{}", first.share);
        assert!(effects.interactions[1..].iter().all(|other| other.share < 0.2 * first.share));
        // A pair is part of the importance of both of its columns.
        let part = |column: &robustard::ColumnEffect| column.importance * column.interacting;
        assert!(first.columns.iter().all(|&c| first.share < 1.1 * part(&effects.columns[c])), "{}", first.share);
        assert!(effects.columns[3].interacting > 0.8 && effects.columns[0].interacting < 0.2);
        let (corner, centre) = (first.effect[0][0], first.effect[3][3]);
        assert!(corner > 2.0 && centre.abs() < 1.0, "{corner} {centre}");
    }
}

#[test]
fn contributions_add_up_and_are_the_parts_of_a_sum() {
    let (inputs, target) = data(500, 20, 0.05, known);
    for features in ["auto", "linear", "poly:2", "rff:64"] {
        let recipe = recipe(features, None);
        let dataset = Dataset::new(inputs.as_ref(), &target).unwrap();
        let regression = fit(&dataset, &recipe, &Control::new()).unwrap();
        let rows = inputs.as_ref().subrows(0, 20);
        let predicted = regression.predict_mean(rows).unwrap();
        for (i, explanation) in regression.explain(rows).unwrap().iter().enumerate() {
            let sum: f64 = explanation.contributions.iter().sum();
            assert!((explanation.prediction - predicted[i]).abs() < 1e-9 * (1.0 + predicted[i].abs()));
            assert!((explanation.average + sum - explanation.prediction).abs() < 1e-9, "{features}");
            if features == "auto" {
                let wave = |x: f64| 1.5 * (2.0 * x).sin();
                let mean = (0..500).map(|k| wave(inputs[(k, 1)])).sum::<f64>() / 500.0;
                let off = explanation.contributions[1] - (wave(inputs[(i, 1)]) - mean);
                assert!(off.abs() < 0.5, "{off}");
            }
        }
    }
}

#[test]
fn weights_of_similar_rows_are_what_the_prediction_changes_by() {
    let (inputs, target) = data(80, 30, 0.0, known);
    let recipe = recipe("linear", Some("shared"));
    let row = inputs.as_ref().subrows(7, 1);
    let regression = fit(&Dataset::new(inputs.as_ref(), &target).unwrap(), &recipe, &Control::new()).unwrap();
    let similar = regression.similar_rows(row, 80).unwrap().swap_remove(0);
    // Of all rows that the model has, these are all; the prediction is a weighted sum of the targets.
    let mean = target.iter().sum::<f64>() / 80.0;
    let sum: f64 = similar.iter().map(|similar| similar.weight * (target[similar.row] - mean)).sum();
    let predicted = regression.predict_mean(row).unwrap()[0];
    assert!((mean + sum - predicted).abs() < 1e-6, "{} {predicted}", mean + sum);
    assert!(similar.windows(2).all(|pair| pair[0].weight.abs() >= pair[1].weight.abs()));
}

#[test]
fn levels_missing_values_and_collinear_columns() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let n = 400;
    let level: Vec<usize> = (0..n).map(|_| rng.random_range(0..3)).collect();
    let is_missing: Vec<bool> = (0..n).map(|_| rng.random::<f64>() < 0.1).collect();
    let number: Vec<f64> = (0..n).map(|i| if is_missing[i] { 0.0 } else { normal(&mut rng) }).collect();
    let twin: Vec<f64> = (0..n).map(|_| normal(&mut rng)).collect();
    // Inputs: three levels and those never seen, a number with its indicator, and a column twice.
    let inputs = Mat::from_fn(n, 8, |i, j| match j {
        0..4 => f64::from(u8::from(level[i] == j)),
        4 => number[i],
        5 => f64::from(u8::from(is_missing[i])),
        6 => twin[i],
        _ => twin[i] + 0.01 * ((i * 7919) as f64).sin(),
    });
    let effect_of_level = [0.0, 1.0, 4.0];
    let target: Vec<f64> = (0..n)
        .map(|i| {
            let missing = if is_missing[i] { 3.0 } else { 0.0 };
            effect_of_level[level[i]] + number[i] + missing + 2.0 * twin[i] + 0.2 * normal(&mut rng)
        })
        .collect();
    let levels = ["a", "b", "c"].map(str::to_owned).to_vec();
    let columns = vec![
        InputColumn::new("kind", vec![0, 1, 2, 3], InputKind::Category { levels }),
        InputColumn::new("size", vec![4, 5], InputKind::NumberOrMissing { filled: 0.0 }),
        InputColumn::new("left", vec![6], InputKind::Number),
        InputColumn::new("right", vec![7], InputKind::Number),
    ];
    let dataset = Dataset::new(inputs.as_ref(), &target).unwrap();
    let dataset = dataset.with_groups(&[0, 0, 0, 0, 1, 2, 3, 4]).unwrap().with_input_columns(columns).unwrap();
    let regression = fit(&dataset, &Recipe::default(), &Control::new()).unwrap();
    let effects = regression.effects();
    assert_eq!(effects.columns.len(), 4);
    let kind = &effects.columns[0].points;
    assert_eq!(kind.len(), 3);
    assert!((kind[2].effect - kind[0].effect - 4.0).abs() < 0.3, "{kind:?}");
    let size = &effects.columns[1].points;
    let missing = size.last().unwrap();
    assert_eq!(missing.value, ColumnValue::Missing);
    assert!((missing.effect - 2.7).abs() < 0.5, "{missing:?}");
    let [shared] = &effects.collinear[..] else { panic!("one group: {:?}", effects.collinear) };
    assert_eq!(shared.columns, [2, 3]);
    assert!(shared.loss > 0.4, "{shared:?}");
    let wrong = InputColumn::new("kind", vec![0, 1], InputKind::Number);
    assert!(Dataset::new(inputs.as_ref(), &target).unwrap().with_input_columns(vec![wrong]).is_err());
}

#[test]
fn tables_of_nothing_have_effects_of_nothing() {
    for n in [1, 2, 5] {
        let inputs = Mat::from_fn(n, 3, |i, j| (i * j) as f64);
        let target: Vec<f64> = (0..n).map(|_| 4.0).collect();
        let regression = fitted(&inputs, &target);
        let effects = regression.effects();
        assert!(effects.columns.iter().all(|column| column.importance == 0.0 && column.loss == 0.0), "{effects:?}");
        let explanation = &regression.explain(inputs.as_ref()).unwrap()[0];
        assert!((explanation.prediction - 4.0).abs() < 1e-9);
        assert!(!regression.unusual(inputs.as_ref()).unwrap().concat().iter().any(|off| off.is_nan()));
    }
    // Nor is there anything without an intercept: no coefficient is left.
    let inputs = Mat::from_fn(30, 2, |i, j| ((i * (j + 2)) as f64).sin());
    let recipe = Options { intercept: Some(false), features: Some("linear".parse().unwrap()), ..Options::default() };
    let dataset = Dataset::new(inputs.as_ref(), vec![0.0; 30]).unwrap();
    let regression = fit(&dataset, &recipe.recipe().unwrap(), &Control::new()).unwrap();
    assert!(regression.features_in_units().iter().all(|feature| feature.standard_error.is_finite()));
    assert!(regression.effects().columns.iter().all(|column| column.loss == 0.0));
}

/// What a column of a line contributes is its coefficient times its distance from the mean, however far out.
#[test]
fn contributions_are_exact_beyond_the_rows() {
    let (inputs, target) = data(200, 40, 0.0, |x| x[0] + 2.0 * x[1]);
    let dataset = Dataset::new(inputs.as_ref(), &target).unwrap();
    let regression = fit(&dataset, &recipe("linear", Some("shared")), &Control::new()).unwrap();
    let mut rows = Mat::from_fn(2, 6, |_, j| inputs[(0, j)]);
    rows[(1, 0)] = 20.0;
    let [usual, far] = &regression.explain(rows.as_ref()).unwrap()[..] else { panic!("two") };
    assert!((usual.contributions[1] - far.contributions[1]).abs() < 1e-9, "{usual:?} {far:?}");
    let mean = inputs.col(0).iter().sum::<f64>() / 200.0;
    let expected = regression.feature_summaries().iter().find(|f| f.name == "x0").unwrap().coefficient * (20.0 - mean);
    assert!((far.contributions[0] - expected).abs() < 1e-6, "{far:?} {expected}");
}

/// With more columns than rows left-out rows are predicted too well; columns that do nothing do not look clear for it. A few rows are
/// enough where a column explains everything, and a constant target has no effects.
#[test]
fn few_rows_do_not_deceive() {
    for seed in 0..4 {
        let mut rng = ChaCha8Rng::seed_from_u64(50 + seed);
        let inputs = Mat::from_fn(40, 60, |_, _| normal(&mut rng));
        let target: Vec<f64> =
            (0..40).map(|i| 3.0 * inputs[(i, 0)] - 2.0 * inputs[(i, 1)] + 0.5 * normal(&mut rng)).collect();
        let regression = fitted(&inputs, &target);
        let clear = regression.effects().columns.iter().filter(|column| column.standing == Standing::Clear).count();
        assert!((1..=4).contains(&clear), "{seed}: {clear}");
        let few = Mat::from_fn(8, 2, |i, j| inputs[(i, j)]);
        let target: Vec<f64> = (0..8).map(|i| 3.0 * few[(i, 0)] + 0.1 * normal(&mut rng)).collect();
        assert_eq!(fitted(&few, &target).effects().columns[0].standing, Standing::Clear, "{seed}");
        let constant = fitted(&few, &[3.0; 8]);
        assert!(constant.effects().columns.iter().all(|column| column.standing == Standing::Dropped), "{seed}");
    }
}

/// Of c = a + b each is known from the two others, not from one: they are a group. Without the group no less is lost than without one of
/// its members, and never more than there is.
#[test]
fn columns_that_are_collinear_only_together_are_a_group() {
    for (seed, sign) in [(60, 1.0), (61, -1.0)] {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut inputs = Mat::from_fn(300, 5, |_, _| normal(&mut rng));
        (0..300).for_each(|i| inputs[(i, 3)] = inputs[(i, 0)] + sign * inputs[(i, 1)] + 0.01 * normal(&mut rng));
        let target: Vec<f64> = (0..300)
            .map(|i| 30.0 * (inputs[(i, 3)] - inputs[(i, 0)]) + inputs[(i, 2)] + 0.2 * normal(&mut rng))
            .collect();
        let regression = fitted(&inputs, &target);
        let effects = regression.effects();
        let [group] = &effects.collinear[..] else { panic!("one group: {:?}", effects.collinear) };
        assert_eq!(group.columns, [0, 1, 3]);
        assert!(group.is_needed && group.loss > 0.9, "{group:?}");
        let quality = regression.quality().loo_r2;
        for column in &effects.columns {
            assert!(column.loss <= group.loss + 1e-12 && column.loss <= quality + 0.01, "{seed} {column:?}");
            let is_seen = column.importance.max(column.loss) >= 5e-4;
            assert_eq!(
                column.standing == Standing::Clear,
                is_seen && column.loss > column.loss_by_chance,
                "{column:?}"
            );
        }
    }
}

/// With more columns than rows the fit takes noise for effects; standard errors know it, of coefficients as of effects.
#[test]
fn standard_errors_hold_with_more_columns_than_rows() {
    const SEEDS: u64 = 12;
    let (mut inside, mut all) = (0, 0);
    for seed in 0..SEEDS {
        let mut rng = ChaCha8Rng::seed_from_u64(70 + seed);
        let inputs = Mat::from_fn(40, 60, |_, _| normal(&mut rng));
        let target: Vec<f64> =
            (0..40).map(|i| 3.0 * inputs[(i, 0)] - 2.0 * inputs[(i, 1)] + 0.5 * normal(&mut rng)).collect();
        let recipe = recipe("linear", None);
        let regression = fit(&Dataset::new(inputs.as_ref(), &target).unwrap(), &recipe, &Control::new()).unwrap();
        let features = regression.features_in_units();
        let covariance = regression.coefficient_covariance();
        for (j, truth) in [(0, 3.0), (1, -2.0)] {
            let (coefficient, error) = (features[j].coefficient, features[j].standard_error);
            println!("{seed} {j}: {coefficient} ± {error}");
            all += 1;
            inside += usize::from((coefficient - truth).abs() <= 1.96 * error);
            assert!(error < 0.6, "{error}");
            assert!((covariance[(j, j)].sqrt() / error - 1.0).abs() < 1e-9);
        }
    }
    println!("{inside} of {all}");
    assert!(10 * inside >= 8 * all, "{inside} of {all}");
}
