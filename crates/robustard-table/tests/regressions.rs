//! Fits of tables, and their files.

use std::ops::ControlFlow;

use robustard::features::{FeatureOptions, Lengthscale};
use robustard::{Iteration, Settings};
use robustard_table::{
    Auto, EncodeOptions, Fitted, Missing, ReadOptions, Regression, RegressionOptions, Table, load_model, read_bytes,
    save_model,
};

/// price = 20 + 3 area − 2 age + 10 [Paris] + noise; `junk` does not matter; row 7 is wrong.
fn houses(rows: usize) -> Table {
    let wave = |i: usize, k: usize| ((i * (2 * k + 3)) as f64 * 0.61).sin();
    let mut text = "name,area,age,junk,city,price\n".to_owned();
    for i in 0..rows {
        let (area, age, junk) = (50.0 + 20.0 * wave(i, 1), 30.0 + 10.0 * wave(i, 2), wave(i, 3));
        let paris = i % 3 == 0;
        let mut price = 20.0 + 3.0 * area - 2.0 * age + if paris { 10.0 } else { 0.0 } + 0.5 * wave(i, 7);
        if i == 7 {
            price += 80.0;
        }
        text += &format!("h{i},{area},{age},{junk},{},{price}\n", if paris { "Paris" } else { "Lyon" });
    }
    read_bytes(text.into_bytes(), "houses.csv", &ReadOptions::default()).unwrap()
}

fn options(features: &str) -> RegressionOptions {
    RegressionOptions {
        encode: EncodeOptions { id: Some("name".into()), ..EncodeOptions::new("price") },
        features: FeatureOptions {
            kind: features.parse().unwrap(),
            lengthscale: Lengthscale::Usual,
            seed: 1,
            standardize: true,
            centre: true,
        },
        intercept: true,
        settings: Settings::default(),
        auto: Auto::default(),
    }
}

fn fit(table: &Table, options: &RegressionOptions) -> Fitted {
    Regression::fit(table, options, &mut |_: &Iteration<'_>| ControlFlow::Continue(())).unwrap()
}

#[test]
fn linear_fits_speak_the_users_units() {
    let table = houses(120);
    let regression = fit(&table, &options("linear")).regression;
    let summaries = regression.feature_summaries();
    let coefficient = |name: &str| summaries.iter().find(|summary| summary.name == name).unwrap().coefficient;
    assert!((coefficient("area") - 3.0).abs() < 0.05, "{summaries:?}");
    assert!((coefficient("age") + 2.0).abs() < 0.05, "{summaries:?}");
    assert!((coefficient("city=Paris") - coefficient("city=Lyon") - 10.0).abs() < 0.5, "{summaries:?}");
    assert_eq!(regression.diagnose().flagged_rows(), [7]);
    assert!(regression.quality.loo_median_error < 1.0 && regression.quality.loo_r2 > 0.9, "{:?}", regression.quality);
    // The intercept and coefficients reproduce a prediction by hand.
    let new = read_bytes(b"city,age,area,junk\nParis,20,60,0\n".to_vec(), "new", &ReadOptions::default()).unwrap();
    let predicted = regression.predict(&new, 0.95).unwrap();
    let by_hand = regression.intercept_in_units().unwrap()
        + 60.0 * coefficient("area")
        + 20.0 * coefficient("age")
        + coefficient("city=Paris");
    assert!((predicted.mean[0] - by_hand).abs() < 1e-8, "{} {by_hand}", predicted.mean[0]);
    assert!((predicted.mean[0] - 170.0).abs() < 2.0);
    assert!(predicted.lower[0] < predicted.mean[0] && predicted.mean[0] < predicted.upper[0]);
}

#[test]
fn every_kind_of_features_predicts_and_is_saved() {
    let table = houses(60);
    let folder = std::env::temp_dir().join(format!("robustard-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (features, lengthscale) in [
        ("linear", "usual"),
        ("poly:2", "usual"),
        ("smooth:20", "usual"),
        ("rff:20", "each"),
        ("rff:40", "usual"),
        ("rbf", "usual"),
        ("rbf", "one"),
    ] {
        let mut options = options(features);
        options.features.lengthscale = lengthscale.parse().unwrap();
        let regression = fit(&table, &options).regression;
        let path = folder.join("model.robustard");
        save_model(&regression, &path).unwrap();
        let back = load_model(&path).unwrap();
        assert_eq!(back, regression, "{features}");
        let (a, b) = (regression.predict(&table, 0.9).unwrap(), back.predict(&table, 0.9).unwrap());
        assert_eq!((&a.mean, &a.std, &a.lower), (&b.mean, &b.std, &b.lower), "{features}");
        // Cut short or with a byte changed anywhere, the file is refused.
        let bytes = std::fs::read(&path).unwrap();
        for cut in [0, 7, 100, bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            assert!(load_model(&path).is_err(), "{features} cut at {cut}");
        }
        for place in (0..bytes.len()).step_by(bytes.len() / 100 + 1).chain(0..40) {
            let mut spoiled = bytes.clone();
            spoiled[place] ^= 0x15;
            std::fs::write(&path, &spoiled).unwrap();
            assert!(load_model(&path).is_err(), "{features} changed at {place}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn missing_targets_are_named_or_dropped() {
    let table = read_bytes(b"x,y\n1,2\n2,\n3,6\n4,8.1\n".to_vec(), "t", &ReadOptions::default()).unwrap();
    let with = |missing| RegressionOptions {
        encode: EncodeOptions { missing, ..EncodeOptions::new("y") },
        ..options("linear")
    };
    let mut silent = |_: &Iteration<'_>| ControlFlow::Continue(());
    let error = Regression::fit(&table, &with(Missing::Impute), &mut silent).unwrap_err().to_string();
    assert!(error.contains("'y'") && error.contains("row 2"), "{error}");
    let fitted = fit(&table, &with(Missing::Drop));
    assert_eq!(fitted.regression.rows, [0, 2, 3]);
    assert_eq!(fitted.notes.len(), 1);
}

/// Without an intercept the inputs are not centred: y is X times the coefficients and nothing else.
#[test]
fn without_an_intercept_there_is_none() {
    let text: String = (1..40).fold("x,z,y\n".to_owned(), |text, i| {
        let (x, z) = (10.0 + (i as f64 * 0.7).sin(), 5.0 + (i as f64 * 1.9).cos());
        text + &format!("{x},{z},{}\n", 2.0 * x - z + 0.01 * (i as f64 * 3.3).sin())
    });
    let table = read_bytes(text.into_bytes(), "t", &ReadOptions::default()).unwrap();
    let options = options("linear");
    let options = RegressionOptions {
        encode: EncodeOptions::new("y"),
        features: FeatureOptions { centre: false, ..options.features },
        intercept: false,
        ..options
    };
    let regression = fit(&table, &options).regression;
    assert_eq!(regression.intercept_in_units(), Some(0.0));
    assert!(regression.quality.loo_r2 > 0.99, "{:?}", regression.quality);
    let coefficient =
        |name: &str| regression.feature_summaries().into_iter().find(|f| f.name == name).unwrap().coefficient;
    assert!((coefficient("x") - 2.0).abs() < 0.01 && (coefficient("z") + 1.0).abs() < 0.01);
}

/// A row of weight 2 is two rows, in the fit and in the figures about it.
#[test]
fn weights_count_rows() {
    let line = |i: usize, weight: &str| {
        let x = (i as f64 * 0.7).sin();
        format!("{x},{},{weight}\n", 3.0 * x + (i as f64 * 2.3).cos())
    };
    let (mut weighted, mut repeated) = ("x,y,w\n".to_owned(), "x,y,w\n".to_owned());
    for i in 0..60 {
        weighted += &line(i, if i % 4 == 0 { "2" } else { "1" });
        (0..if i % 4 == 0 { 2 } else { 1 }).for_each(|_| repeated += &line(i, "1"));
    }
    let fitted = |text: String| {
        let table = read_bytes(text.into_bytes(), "t", &ReadOptions::default()).unwrap();
        let encode = EncodeOptions { weights: Some("w".to_owned()), ..EncodeOptions::new("y") };
        fit(&table, &RegressionOptions { encode, ..options("linear") }).regression
    };
    let (weighted, repeated) = (fitted(weighted), fitted(repeated));
    let close = |a: f64, b: f64, tolerance: f64| assert!((a - b).abs() < tolerance * (1.0 + b.abs()), "{a} {b}");
    close(weighted.feature_summaries()[0].coefficient, repeated.feature_summaries()[0].coefficient, 1e-6);
    // Leaving one of two equal rows out is not leaving both out.
    close(weighted.quality.loo_rmse, repeated.quality.loo_rmse, 0.03);
    close(weighted.quality.coverage_95, repeated.quality.coverage_95, 1e-9);
}
