//! What is chosen when nothing is given.

mod common;

use common::{Rows, coefficient, flagged, kind, normal, waves};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robustard::faer::Mat;
use robustard::{Compared, Control, Noise, Recipe, Regression, Selection, fit};

fn choose(rows: &Rows) -> Regression {
    rows.fit(&Recipe::default())
}

fn selection(regression: &Regression) -> &Selection {
    regression.selection().unwrap()
}

fn chosen(regression: &Regression) -> &Compared {
    let chosen: Vec<&Compared> = selection(regression).compared.iter().filter(|compared| compared.chosen).collect();
    assert_eq!(chosen.len(), 1, "{chosen:?}");
    chosen[0]
}

fn is_curve(regression: &Regression) -> bool {
    assert_eq!(regression.features(), chosen(regression).features);
    regression.features() == kind("smooth")
}

/// Linear when that is as good, a curve when there is one; robust when rows are wrong, shared noise for all rows otherwise.
#[test]
fn features_and_noise_are_chosen() {
    for (curve, wrong) in [(0.0, 0), (0.0, 20), (2.0, 0), (2.0, 20)] {
        let regression = choose(&waves(200, curve, wrong));
        let selection = selection(&regression);
        let chosen = chosen(&regression);
        assert_eq!(is_curve(&regression), curve > 0.0, "{curve} {wrong}: {selection:?}");
        let is_robust = chosen.noise != Noise::Shared || chosen.set_aside > 0;
        assert_eq!(is_robust, wrong > 0, "{curve} {wrong}: {selection:?}");
        assert!(selection.compared.len() >= 4 && !selection.reasons.is_empty());
        let flagged = flagged(&regression);
        assert_eq!(flagged.iter().filter(|row| **row < wrong).count(), wrong, "{curve} {wrong}: {flagged:?}");
    }
}

#[test]
fn a_choice_does_not_depend_on_the_run() {
    let rows = waves(200, 2.0, 20);
    let (regression, again) = (choose(&rows), choose(&rows));
    assert_eq!(regression.set_aside(), again.set_aside());
    assert_eq!(regression.model().coefficients(), again.model().coefficients());
    assert_eq!(regression.set_aside(), (0..20).collect::<Vec<_>>());
}

/// As in the data of Hawkins, Bradu and Kass: a cluster far out, half of it on the plane and half off it.
#[test]
fn a_far_cluster_off_the_plane_is_set_aside_and_one_on_it_is_kept() {
    let wave = |i: usize, k: f64| ((i + 1) as f64 * k).sin();
    let rows = Rows::of((0..80).map(|i| {
        let far = if i < 12 { 12.0 } else { 0.0 };
        let [a, b, c] = [1.3, 2.9, 4.7].map(|k| far + 1.5 * wave(i, k));
        let lift = if i < 8 { 10.0 } else { 0.0 };
        ([a, b, c], 0.5 * a - 0.2 * b + lift + 0.4 * wave(i * i, 0.77))
    }));
    let regression = choose(&rows);
    assert!(!is_curve(&regression), "{:?}", regression.selection());
    assert_eq!(flagged(&regression), (0..8).collect::<Vec<_>>(), "{:?}", regression.selection());
    let [a, b] = [0, 1].map(|input| coefficient(&regression, input));
    assert!((a - 0.5).abs() < 0.1 && (b + 0.2).abs() < 0.1, "{:?}", regression.feature_summaries());
}

/// Far from the training rows a curve stays as at the border, says so, and its error bars grow.
#[test]
fn error_bars_grow_with_distance() {
    let regression = choose(&waves(200, 2.0, 0));
    assert!(is_curve(&regression));
    let new = [0.0, 1.99, 3.0, 6.0, 60.0];
    let predicted = regression.predict(Mat::from_fn(5, 2, |i, j| if j == 0 { new[i] } else { 0.0 }).as_ref()).unwrap();
    let interval = predicted.interval(0.95).unwrap();
    let width: Vec<f64> = interval.upper.iter().zip(&interval.lower).map(|(upper, lower)| upper - lower).collect();
    // The second row is at the border.
    assert!(width[1..].windows(2).all(|pair| pair[1] > pair[0]), "{width:?}");
    assert!(width[4] > 3.0 * width[0], "{width:?}");
    assert_eq!(predicted.mean[2], predicted.mean[4]);
    let beyond: Vec<(&str, usize)> =
        predicted.beyond.iter().map(|beyond| (beyond.name.as_str(), beyond.rows)).collect();
    assert_eq!(beyond, [("x0", 3)]);
}

/// Nothing that can be fitted at all makes the choice fail.
#[test]
fn small_and_odd_tables_are_fitted() {
    let of = |rows: &[[f64; 2]]| Rows::of(rows.iter().map(|[x, y]| ([*x], *y)));
    let wide = [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2.0, 3.0, 1.0, 5.0, 3.0, 7.0], [5.0, 3.0, 2.0, 1.0, 4.0, 9.0]];
    for rows in [
        of(&[[1.0, 2.0], [2.0, 3.0]]),
        of(&[[1.0, 2.0], [2.0, 2.0], [3.0, 2.0], [4.0, 2.0]]),
        of(&[[1.0, 1.0], [1.0, 2.0], [1.0, 3.0], [2.0, 4.0]]),
        of(&[[0.0, 1e150], [1.0, 2e150], [2.0, 3.5e150], [3.0, 4e150], [4.0, 5e150]]),
        of(&[[1e-200, 1.0], [2e-200, 2.0], [3e-200, 3.0], [5e-200, 4.0]]),
        of(&[[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]),
        Rows::of(wide.iter().map(|[a, b, c, d, e, y]| ([*a, *b, *c, *d, *e], *y))),
    ] {
        let regression = choose(&rows);
        assert!(regression.model().coefficients().iter().all(|weight| weight.is_finite()), "{rows:?}");
    }
}

/// 30% of the targets moved to the same side: more than a fit that starts from all rows finds.
#[test]
fn wrong_rows_that_err_to_one_side_are_found() {
    let regression = choose(&Rows::of((0..200).map(|i| {
        let (x, z) = ((i as f64 * 0.7).sin() * 2.0, (i as f64 * 1.9).cos());
        let error = if i < 60 { 12.0 } else { 0.0 };
        ([x, z], x - z + 0.3 * ((i * i) as f64 * 0.37).sin() + error)
    })));
    assert_eq!(flagged(&regression), (0..60).collect::<Vec<_>>(), "{:?}", regression.selection());
    let [x, z] = [0, 1].map(|input| coefficient(&regression, input));
    assert!((x - 1.0).abs() < 0.05 && (z + 1.0).abs() < 0.1, "{x} {z}");
}

/// Copies of rows, or the same weight for all, say nothing about noise: a straight table stays straight, a curve the same.
#[test]
fn copies_and_equal_weights_do_not_pass_for_precision() {
    let with_copies = |curve: f64, copied: usize| {
        let rows = waves(150, curve, 0);
        let row = |i: usize| ([rows.inputs[(i, 0)], rows.inputs[(i, 1)]], rows.target[i]);
        Rows::of((0..150).chain(0..copied).map(row))
    };
    assert!(!is_curve(&choose(&with_copies(0.0, 40))));
    let rows = with_copies(2.0, 0);
    let plain = choose(&rows);
    let weighted = rows.dataset().with_weights(vec![2.0; 150]).unwrap();
    let weighted = fit(&weighted, &Recipe::default(), &Control::new()).unwrap();
    for other in [choose(&with_copies(2.0, 40)), weighted] {
        assert!(is_curve(&other));
        let (quality, plain) = (other.quality(), plain.quality());
        assert!((quality.loo_rmse / plain.loo_rmse - 1.0).abs() < 0.15, "{quality:?}");
    }
}

/// Two values of a target are no inliers and outliers.
#[test]
fn two_valued_targets_lose_no_rows() {
    let regression = choose(&Rows::of((0..300).map(|i| {
        let (x, z) = ((i as f64 * 0.7).sin() * 2.0, (i as f64 * 1.9).cos());
        let chance = 0.5 + 0.5 * ((i * i) as f64 * 0.37).sin();
        ([x, z], f64::from(u8::from(1.0 / (1.0 + (-2.0 * x).exp()) > chance)))
    })));
    let is_shared = regression.noise() == Noise::Shared && regression.model().noise().is_shared();
    assert!(regression.set_aside().is_empty() && is_shared, "{:?}", regression.selection());
    let quality = regression.quality();
    assert!(quality.loo_r2 > 0.2 && quality.loo_r2 < 0.9, "{quality:?}");
}

/// Rows that come by turns, with little noise and with much: which of them are looked at must not decide.
#[test]
fn rows_that_come_by_turns_are_no_pattern() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let rows = Rows::of((0..4002).map(|i| {
        let x = 3.0 * normal(&mut rng);
        ([x], (2.0 * x).sin() + if i % 2 == 0 { 0.05 } else { 1.0 } * normal(&mut rng))
    }));
    let regression = rows.fit(&Recipe::default());
    assert!(!regression.design().is_linear(), "{:?}", regression.selection());
}

/// Thirty-two inputs of which two matter, together only, and one row in ten is wrong: few rows do not show it, all of them do.
#[test]
fn two_inputs_of_many_are_found() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let draw = |wrong: bool, rng: &mut ChaCha8Rng| {
        let x: [f64; 32] = std::array::from_fn(|_| normal(rng));
        let truth = x[3] * x[20].tanh();
        let shift = if wrong && rng.random::<f64>() < 0.1 { 4.0 } else { 0.0 };
        (x, truth, truth + 0.3 * normal(rng) + shift)
    };
    let rows = Rows::of((0..2500).map(|_| draw(true, &mut rng)).map(|(x, _, y)| (x, y)));
    let regression = rows.fit(&Recipe::default());
    assert!(!regression.design().is_linear(), "{:?}", regression.selection());
    let new: Vec<_> = (0..500).map(|_| draw(false, &mut rng)).collect();
    let inputs = Mat::from_fn(500, 32, |i, j| new[i].0[j]);
    let mean = regression.predict_mean(inputs.as_ref()).unwrap();
    let square: f64 = mean.iter().zip(&new).map(|(mean, (_, truth, _))| (mean - truth).powi(2)).sum();
    // The truth has a standard deviation of 0.6.
    assert!((square / 500.0).sqrt() < 0.2, "{}", (square / 500.0).sqrt());
}
