//! What is chosen when nothing is given.

use std::ops::ControlFlow;

use robustard::features::{FeatureKind, FeatureOptions, Lengthscale};
use robustard::{Iteration, Settings};
use robustard_table::samples::{GIANTS, STARS};
use robustard_table::{
    Auto, Choice, EncodeOptions, ReadOptions, Regression, RegressionOptions, Table, load_model, read_bytes, save_model,
};

fn table(text: String) -> Table {
    read_bytes(text.into_bytes(), "t", &ReadOptions::default()).unwrap()
}

fn choose(table: &Table, target: &str) -> Regression {
    choose_with(table, EncodeOptions::new(target))
}

fn choose_with(table: &Table, encode: EncodeOptions) -> Regression {
    let (kind, lengthscale) = (FeatureKind::Linear, Lengthscale::Each);
    let options = RegressionOptions {
        encode,
        features: FeatureOptions { kind, lengthscale, seed: 0, standardize: true, centre: true },
        intercept: true,
        settings: Settings::default(),
        auto: Auto { features: true, noise: true },
    };
    let mut silent = |_: &Iteration<'_>| ControlFlow::Continue(());
    Regression::fit(table, &options, &mut silent).unwrap().regression
}

fn is_curve(choice: &Choice) -> bool {
    choice.compared.iter().find(|compared| compared.chosen).unwrap().features == "smooth"
}

/// 200 rows on a line or a curve, the first of them wrong.
fn rows(curve: f64, wrong: usize) -> Table {
    table((0..200).fold("x,z,y\n".to_owned(), |text, i| {
        let (x, z) = ((i as f64 * 0.7).sin() * 2.0, (i as f64 * 1.9).cos());
        let noise = 0.3 * ((i * i) as f64 * 0.37).sin() + 0.3 * ((i * i) as f64 * 0.73).cos();
        let error = if i < wrong { 8.0 } else { 0.0 };
        text + &format!("{x},{z},{}\n", x - z + curve * (2.0 * x).sin() + noise + error)
    }))
}

/// Linear when that is as good, a curve when there is one; robust when rows are wrong, shared noise for all rows otherwise.
#[test]
fn features_and_noise_are_chosen() {
    for (curve, wrong) in [(0.0, 0), (0.0, 20), (2.0, 0), (2.0, 20)] {
        let regression = choose(&rows(curve, wrong), "y");
        let choice = regression.choice.as_ref().unwrap();
        let chosen = choice.compared.iter().find(|compared| compared.chosen).unwrap();
        assert_eq!(is_curve(choice), curve > 0.0, "{curve} {wrong}: {choice:?}");
        assert_eq!(chosen.noise != "shared" || chosen.set_aside > 0, wrong > 0, "{curve} {wrong}: {choice:?}");
        assert!(choice.compared.len() >= 4 && !choice.reasons.is_empty());
        let flagged = regression.diagnose().flagged_rows();
        assert_eq!(flagged.iter().filter(|row| **row < wrong).count(), wrong, "{curve} {wrong}: {flagged:?}");
    }
}

#[test]
fn a_choice_is_kept_in_the_model_file_and_does_not_depend_on_the_run() {
    let table = rows(2.0, 20);
    let (regression, again) = (choose(&table, "y"), choose(&table, "y"));
    assert_eq!(regression.set_aside, again.set_aside);
    assert_eq!(regression.model.coefficients, again.model.coefficients);
    assert_eq!(regression.set_aside, (0..20).collect::<Vec<_>>());
    let path = std::env::temp_dir().join(format!("robustard-choice-{}.model", std::process::id()));
    save_model(&regression, &path).unwrap();
    let back = load_model(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(back, regression);
    let [a, b] = [&regression, &back].map(|regression| regression.predict(&table, 0.8).unwrap());
    assert_eq!((a.mean, a.lower), (b.mean, b.lower));
}

/// Light against temperature: four giants turn the least-squares slope around.
#[test]
fn giants_do_not_turn_the_slope() {
    let regression = choose(&table(STARS.to_owned()), "log.light");
    let slope = regression.feature_summaries()[0].coefficient;
    assert!(slope > 1.0, "{slope}");
    let mut flagged = regression.diagnose().flagged_rows();
    flagged.sort_unstable();
    assert_eq!(flagged, GIANTS);
}

/// As in the data of Hawkins, Bradu and Kass: a cluster far out, half of it on the plane and half off it.
#[test]
fn a_far_cluster_off_the_plane_is_set_aside_and_one_on_it_is_kept() {
    let wave = |i: usize, k: f64| ((i + 1) as f64 * k).sin();
    let text = (0..80).fold("a,b,c,y\n".to_owned(), |text, i| {
        let far = if i < 12 { 12.0 } else { 0.0 };
        let [a, b, c] = [1.3, 2.9, 4.7].map(|k| far + 1.5 * wave(i, k));
        let lift = if i < 8 { 10.0 } else { 0.0 };
        text + &format!("{a},{b},{c},{}\n", 0.5 * a - 0.2 * b + lift + 0.4 * wave(i * i, 0.77))
    });
    let regression = choose(&table(text), "y");
    assert!(!is_curve(regression.choice.as_ref().unwrap()), "{:?}", regression.choice);
    let mut flagged = regression.diagnose().flagged_rows();
    flagged.sort_unstable();
    assert_eq!(flagged, (0..8).collect::<Vec<_>>(), "{:?}", regression.choice);
    let of = |name: &str| regression.feature_summaries().into_iter().find(|f| f.name == name).unwrap().coefficient;
    assert!((of("a") - 0.5).abs() < 0.1 && (of("b") + 0.2).abs() < 0.1, "{:?}", regression.feature_summaries());
}

/// Far from the training rows a curve stays as at the border, says so, and its error bars grow.
#[test]
fn error_bars_grow_with_distance() {
    let regression = choose(&rows(2.0, 0), "y");
    assert!(is_curve(regression.choice.as_ref().unwrap()));
    let new = table("x,z\n0,0\n1.99,0\n3,0\n6,0\n60,0\n".to_owned());
    let predicted = regression.predict(&new, 0.95).unwrap();
    let width: Vec<f64> = predicted.upper.iter().zip(&predicted.lower).map(|(upper, lower)| upper - lower).collect();
    // The second row is at the border.
    assert!(width[1..].windows(2).all(|pair| pair[1] > pair[0]), "{width:?}");
    assert!(width[4] > 3.0 * width[0], "{width:?}");
    assert_eq!(predicted.mean[2], predicted.mean[4]);
    assert!(predicted.notes[0].contains("'x' (3)"), "{:?}", predicted.notes);
}

/// Nothing that can be fitted at all makes the choice fail.
#[test]
fn small_and_odd_tables_are_fitted() {
    for text in [
        "x,y\n1,2\n2,3\n",
        "x,y\n1,2\n2,2\n3,2\n4,2\n",
        "x,y\n1,1\n1,2\n1,3\n2,4\n",
        "x,y\n0,1e150\n1,2e150\n2,3.5e150\n3,4e150\n4,5e150\n",
        "x,y\n1e-200,1\n2e-200,2\n3e-200,3\n5e-200,4\n",
        "x,y\n0,0\n0,0\n0,0\n1,1\n1,1\n1,1\n",
        "a,b,c,d,e,y\n1,2,3,4,5,6\n2,3,1,5,3,7\n5,3,2,1,4,9\n",
    ] {
        let regression = choose(&table(text.to_owned()), "y");
        assert!(regression.model.coefficients.iter().all(|weight| weight.is_finite()), "{text}");
    }
}

/// 30% of the targets moved to the same side: more than a fit that starts from all rows finds.
#[test]
fn wrong_rows_that_err_to_one_side_are_found() {
    let text = (0..200).fold("x,z,y\n".to_owned(), |text, i| {
        let (x, z) = ((i as f64 * 0.7).sin() * 2.0, (i as f64 * 1.9).cos());
        let error = if i < 60 { 12.0 } else { 0.0 };
        text + &format!("{x},{z},{}\n", x - z + 0.3 * ((i * i) as f64 * 0.37).sin() + error)
    });
    let regression = choose(&table(text), "y");
    let mut flagged = regression.diagnose().flagged_rows();
    flagged.sort_unstable();
    assert_eq!(flagged, (0..60).collect::<Vec<_>>(), "{:?}", regression.choice);
    let of = |name: &str| regression.feature_summaries().into_iter().find(|f| f.name == name).unwrap().coefficient;
    assert!((of("x") - 1.0).abs() < 0.05 && (of("z") + 1.0).abs() < 0.1);
}

/// Copies of rows, or the same weight for all, say nothing about noise: a straight table stays straight, a curve the same.
#[test]
fn copies_and_equal_weights_do_not_pass_for_precision() {
    let line = |i: usize, curve: f64| {
        let (x, z) = ((i as f64 * 0.7).sin() * 2.0, (i as f64 * 1.9).cos());
        let noise = 0.3 * ((i * i) as f64 * 0.37).sin() + 0.3 * ((i * i) as f64 * 0.73).cos();
        format!("{x},{z},{},2\n", x - z + curve * (2.0 * x).sin() + noise)
    };
    let text = |curve: f64, copied: usize| {
        (0..150).chain(0..copied).fold("x,z,y,w\n".to_owned(), |text, i| text + &line(i, curve))
    };
    let unweighted = |text: String| {
        choose_with(&table(text), EncodeOptions { exclude: vec!["w".to_owned()], ..EncodeOptions::new("y") })
    };
    assert!(!is_curve(unweighted(text(0.0, 40)).choice.as_ref().unwrap()));
    let plain = unweighted(text(2.0, 0));
    let encode = EncodeOptions { weights: Some("w".to_owned()), ..EncodeOptions::new("y") };
    for other in [unweighted(text(2.0, 40)), choose_with(&table(text(2.0, 0)), encode)] {
        assert!(is_curve(other.choice.as_ref().unwrap()));
        assert!((other.quality.loo_rmse / plain.quality.loo_rmse - 1.0).abs() < 0.15, "{:?}", other.quality);
    }
}

/// Two values of a target are no inliers and outliers.
#[test]
fn two_valued_targets_lose_no_rows() {
    let text = (0..300).fold("x,z,y\n".to_owned(), |text, i| {
        let (x, z) = ((i as f64 * 0.7).sin() * 2.0, (i as f64 * 1.9).cos());
        let chance = 0.5 + 0.5 * ((i * i) as f64 * 0.37).sin();
        text + &format!("{x},{z},{}\n", u8::from(1.0 / (1.0 + (-2.0 * x).exp()) > chance))
    });
    let regression = choose(&table(text), "y");
    assert!(regression.set_aside.is_empty() && regression.model.noise.is_shared(), "{:?}", regression.choice);
    assert!(regression.quality.loo_r2 > 0.2 && regression.quality.loo_r2 < 0.9, "{:?}", regression.quality);
}
