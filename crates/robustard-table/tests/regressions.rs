//! Fits of tables, and their files.

use robustard::{Choice, Control, Noise, Options, Recipe, SolverKind};
use robustard_table::{
    EncodeOptions, Fitted, Missing, ModelFileError, ReadOptions, Table, TableModel, load_model, model_from_bytes,
    model_to_bytes, read_bytes, save_model,
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
    table(&text)
}

fn table(text: &str) -> Table {
    read_bytes(text.as_bytes().to_vec(), "t.csv", &ReadOptions::default()).unwrap()
}

/// Whether two models are one, but for the times that their fits took.
fn is_same(a: &TableModel, b: &TableModel) -> bool {
    model_to_bytes(a).unwrap() == model_to_bytes(b).unwrap()
}

fn price() -> EncodeOptions {
    EncodeOptions { id: Some("name".into()), ..EncodeOptions::new("price") }
}

/// Given features, and noise that tells wrong rows.
fn options(features: &str) -> Options {
    let noise = Some(Choice::Given(Noise::default()));
    Options { features: Some(features.parse().unwrap()), noise, seed: Some(1), ..Options::default() }
}

fn recipe(features: &str) -> Recipe {
    options(features).recipe().unwrap()
}

fn fit(table: &Table, columns: &EncodeOptions, recipe: &Recipe) -> Fitted {
    TableModel::fit(table, columns, recipe, &Control::new()).unwrap()
}

#[test]
fn linear_fits_speak_the_users_units() {
    let houses = houses(120);
    let model = fit(&houses, &price(), &recipe("linear")).model;
    let regression = model.regression();
    let summaries = regression.feature_summaries();
    let coefficient = |name: &str| summaries.iter().find(|summary| summary.name == name).unwrap().coefficient;
    assert!((coefficient("area") - 3.0).abs() < 0.05, "{summaries:?}");
    assert!((coefficient("age") + 2.0).abs() < 0.05, "{summaries:?}");
    assert!((coefficient("city=Paris") - coefficient("city=Lyon") - 10.0).abs() < 0.5, "{summaries:?}");
    assert_eq!(regression.diagnostics().flagged_rows(), [7]);
    let quality = regression.quality();
    assert!(quality.loo_median_error < 1.0 && quality.loo_r2 > 0.9, "{quality:?}");
    // The intercept and coefficients reproduce a prediction by hand.
    let new = table("city,age,area,junk\nParis,20,60,0\n");
    let predicted = model.predict(&new, &Control::new()).unwrap().values;
    let by_hand =
        regression.intercept() + 60.0 * coefficient("area") + 20.0 * coefficient("age") + coefficient("city=Paris");
    assert!((predicted.mean[0] - by_hand).abs() < 1e-8, "{} {by_hand}", predicted.mean[0]);
    assert!((predicted.mean[0] - 170.0).abs() < 2.0);
    let interval = predicted.interval(0.95).unwrap();
    assert!(interval.lower[0] < predicted.mean[0] && predicted.mean[0] < interval.upper[0]);
}

#[test]
fn every_kind_of_features_predicts_and_is_saved() {
    let table = houses(60);
    let folder = std::env::temp_dir().join(format!("robustard-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (features, lengthscale) in [
        ("linear", None),
        ("poly:2", None),
        ("smooth:20", None),
        ("rff:20", Some("each")),
        ("rff:40", Some("usual")),
        ("rbf", Some("usual")),
        ("rbf", Some("one")),
    ] {
        let options = Options { lengthscale: lengthscale.map(|text| text.parse().unwrap()), ..options(features) };
        let model = fit(&table, &price(), &options.recipe().unwrap()).model;
        let path = folder.join("model.robustard");
        save_model(&model, &path).unwrap();
        let back = load_model(&path).unwrap();
        assert!(is_same(&back, &model), "{features}");
        let [a, b] = [&model, &back].map(|model| model.predict(&table, &Control::new()).unwrap().values);
        assert_eq!(a, b, "{features}");
        assert_eq!(a.interval(0.9).unwrap(), b.interval(0.9).unwrap(), "{features}");
        // What is worked out after loading is what it was.
        assert_eq!(model.regression().diagnostics(), back.regression().diagnostics(), "{features}");
        assert_eq!(model.regression().quality(), back.regression().quality(), "{features}");
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
    let table = table("x,y\n1,2\n2,\n3,6\n4,8.1\n");
    let with = |missing| EncodeOptions { missing, ..EncodeOptions::new("y") };
    let refused = TableModel::fit(&table, &with(Missing::Impute), &recipe("linear"), &Control::new());
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("'y'") && error.contains("row 2"), "{error}");
    let fitted = fit(&table, &with(Missing::Drop), &recipe("linear"));
    assert_eq!(fitted.model.rows(), [0, 2, 3]);
    assert_eq!(fitted.notes.len(), 1);
}

/// The rows of the table and those that were fitted are known after loading, also where the last ones were dropped.
#[test]
fn dropped_rows_are_known_after_loading() {
    let mut text = "x,y\n".to_owned();
    for i in 0..40 {
        let x = (i as f64 * 0.7).sin();
        text += &match i {
            3 => format!(",{x}\n"),
            37.. => format!("{x},\n"),
            _ => format!("{x},{}\n", 2.0 * x + 0.1 * (i as f64 * 2.3).cos()),
        };
    }
    let table = table(&text);
    let columns = EncodeOptions { missing: Missing::Drop, ..EncodeOptions::new("y") };
    for recipe in [recipe("linear"), Recipe::default()] {
        let model = fit(&table, &columns, &recipe).model.with_estimator("ARDRegression");
        assert_eq!(model.table_rows(), 40);
        let fitted: Vec<usize> = (0..37).filter(|row| *row != 3).collect();
        assert_eq!(model.rows(), fitted);
        let back = model_from_bytes(&model_to_bytes(&model).unwrap()).unwrap();
        assert_eq!((back.table_rows(), back.rows()), (40, fitted.as_slice()));
        assert_eq!(back.estimator(), Some("ARDRegression"));
        assert_eq!(back.regression().diagnostics().actual.len(), 36);
        assert!(back.was_fitted_to(&table).unwrap());
        assert!(is_same(&back, &model));
    }
    let plain = fit(&table, &columns, &recipe("linear")).model;
    assert_eq!(model_from_bytes(&model_to_bytes(&plain).unwrap()).unwrap().estimator(), None);
}

/// A file that could not be read is not written. Targets this large have errors whose squares are not finite.
#[test]
fn models_with_numbers_that_are_not_finite_are_not_saved() {
    let path = std::env::temp_dir().join(format!("robustard-not-finite-{}.model", std::process::id()));
    let mut refused = 0;
    for exponent in [100, 150, 160, 200, 290, 300, 305] {
        let mut text = "x,y\n".to_owned();
        for i in 0..40 {
            let x = (i as f64 * 0.7).sin();
            text += &format!("{x},{:e}\n", (2.0 * x + 0.1 * (i as f64 * 2.3).cos()) * 10f64.powi(exponent));
        }
        for recipe in [recipe("linear"), Recipe::default()] {
            let Ok(fitted) = TableModel::fit(&table(&text), &EncodeOptions::new("y"), &recipe, &Control::new()) else {
                continue;
            };
            match save_model(&fitted.model, &path) {
                Ok(()) => {
                    assert!(is_same(&load_model(&path).unwrap(), &fitted.model), "1e{exponent}");
                    std::fs::remove_file(&path).unwrap();
                }
                Err(error) => {
                    assert!(matches!(error, ModelFileError::NotFinite { .. }), "1e{exponent}: {error:?}");
                    let message = error.to_string();
                    assert!(
                        message.contains("cannot be saved") && message.contains("not finite"),
                        "1e{exponent}: {message}"
                    );
                    assert!(!path.exists(), "1e{exponent}: a file was left behind");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 0, "no model was refused: find another one that has to be");
}

/// The growing solver cannot share the precisions that categories have.
#[test]
fn growing_is_refused_with_categories() {
    let grow = |columns: &EncodeOptions, noise| {
        let options = Options { solver: Some(SolverKind::Growing), noise: Some(noise), ..options("linear") };
        TableModel::fit(&houses(60), columns, &options.recipe().unwrap(), &Control::new())
    };
    for noise in [Choice::Auto, Choice::Given(Noise::Shared)] {
        let message = grow(&price(), noise).unwrap_err().to_string();
        assert!(message.contains("growing") && message.contains("use em"), "{message}");
        let numbers = EncodeOptions { exclude: vec!["city".to_owned()], ..price() };
        assert!(grow(&numbers, noise).is_ok());
    }
}

/// Without an intercept the inputs are not centred: y is X times the coefficients and nothing else.
#[test]
fn without_an_intercept_there_is_none() {
    let text: String = (1..40).fold("x,z,y\n".to_owned(), |text, i| {
        let (x, z) = (10.0 + (i as f64 * 0.7).sin(), 5.0 + (i as f64 * 1.9).cos());
        text + &format!("{x},{z},{}\n", 2.0 * x - z + 0.01 * (i as f64 * 3.3).sin())
    });
    let options = Options { intercept: Some(false), ..options("linear") };
    let model = fit(&table(&text), &EncodeOptions::new("y"), &options.recipe().unwrap()).model;
    let regression = model.regression();
    assert_eq!(regression.intercept(), 0.0);
    assert!(regression.quality().loo_r2 > 0.99, "{:?}", regression.quality());
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
    let fitted = |text: &str| {
        let columns = EncodeOptions { weights: Some("w".to_owned()), ..EncodeOptions::new("y") };
        fit(&table(text), &columns, &recipe("linear")).model
    };
    let (weighted, repeated) = (fitted(&weighted), fitted(&repeated));
    let [weighted, repeated] = [&weighted, &repeated].map(TableModel::regression);
    let close = |a: f64, b: f64, tolerance: f64| assert!((a - b).abs() < tolerance * (1.0 + b.abs()), "{a} {b}");
    close(weighted.feature_summaries()[0].coefficient, repeated.feature_summaries()[0].coefficient, 1e-6);
    // Leaving one of two equal rows out is not leaving both out.
    close(weighted.quality().loo_rmse, repeated.quality().loo_rmse, 0.03);
    close(weighted.quality().coverage_95, repeated.quality().coverage_95, 1e-9);
}

/// A wrong target is seen even if its row is the only one of its level; known levels are not outside the range of the training rows, however
/// rare; a level never seen is predicted as an average one, with an interval as wide as levels differ.
#[test]
fn rare_levels_hide_no_wrong_row_and_unseen_ones_are_uncertain() {
    let wave = |i: usize, k: usize| ((i * (2 * k + 3)) as f64 * 0.61).sin();
    let effect = |level: usize| 4.0 * ((level * 5) as f64).sin();
    let houses = |wrong: f64| {
        let mut text = "area,roof,price\n".to_owned();
        for i in 0..360 {
            let (area, level) = (10.0 * wave(i, 1), (i * 7) % 30);
            let price = 20.0 + 3.0 * area + 5.0 * (0.3 * area).sin() + effect(level) + 0.5 * wave(i, 7);
            text += &match i {
                // A level with one row.
                101 => format!("{area},gold,{}\n", price + wrong),
                _ => format!("{area},r{level},{price}\n"),
            };
        }
        table(&text)
    };
    for features in ["auto", "linear"] {
        let options = Options { features: Some(features.parse().unwrap()), ..Options::default() };
        let fit = |wrong: f64| fit(&houses(wrong), &EncodeOptions::new("price"), &options.recipe().unwrap()).model;
        assert_eq!(fit(300.0).regression().diagnostics().flagged_rows(), [101], "{features}");
        let new = table("area,roof,price\n1.0,r1,0\n1.0,gold,0\n1.0,thatch,0\n");
        let prediction = fit(0.0).predict(&new, &Control::new()).unwrap();
        assert!(prediction.notes.iter().all(|note| note.contains("thatch")), "{features}: {:?}", prediction.notes);
        let interval = prediction.values.interval(0.95).unwrap();
        let width = |row: usize| interval.upper[row] - interval.lower[row];
        assert!(width(0) <= width(1) && 1.2 * width(1) < width(2), "{features}: {interval:?}");
        assert!(width(1) < 2.5 * width(0), "{features}: {interval:?}");
        // Levels differ by 2.8 either way, in standard deviations.
        assert!((8.0..20.0).contains(&width(2)), "{features}: {interval:?}");
    }
}

/// One target that can only be a typing error leaves the others' predictions and error bars alone, with every noise that is not one for all
/// rows.
#[test]
fn one_gross_target_does_not_spoil_the_error_bars() {
    let text = |rows: i32, gross: Option<f64>| {
        let mut text = "x,z,y\n".to_owned();
        let mut state = 1_u64;
        // Between −1 and 1, without any order.
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1 << 30) - 1.0
        };
        for i in 0..rows {
            let [x, z, noise] = [draw(), draw(), draw()];
            let y = 1.0 + 0.5 * x - 0.3 * z + 0.1 * noise;
            match (i, gross) {
                (17, None) => {}
                (17, Some(gross)) => text += &format!("{x},{z},{gross}\n"),
                _ => text += &format!("{x},{z},{y}\n"),
            }
        }
        text
    };
    for (rows, features, noise) in [
        (300, "auto", "auto"),
        (300, "smooth", "auto"),
        (300, "auto", "student-t"),
        (300, "linear", "student-t"),
        (300, "linear", "contaminated"),
        (300, "smooth", "contaminated"),
        (300, "linear", "contaminated-t"),
        (40, "auto", "auto"),
        (40, "linear", "student-t"),
    ] {
        // Without that row.
        let clean = table(&text(rows, None));
        let options = serde_json::json!({ "features": features, "noise": noise });
        let options: robustard::Options = serde_json::from_value(options).unwrap();
        let recipe = options.recipe().unwrap();
        let predicted = |gross: Option<f64>| {
            let fitted =
                TableModel::fit(&table(&text(rows, gross)), &EncodeOptions::new("y"), &recipe, &Control::new());
            let model = fitted.unwrap().model;
            if gross.is_some() {
                assert_eq!(model.regression().diagnostics().flagged_rows()[0], 17, "{rows} {features} {noise}");
            }
            model.predict(&clean, &Control::new()).unwrap().values
        };
        let right = predicted(None);
        for gross in [999_999_999.0, -1e15, 1e30] {
            let spoiled = predicted(Some(gross));
            for row in [0, 17, 30] {
                let (width, other) = (right.std[row], spoiled.std[row]);
                assert!(
                    (0.8..1.25).contains(&(other / width)),
                    "{rows} {features} {noise} {gross}: {other} for {width}"
                );
                let off = (spoiled.mean[row] - right.mean[row]).abs();
                assert!(off < 0.3 * width, "{rows} {features} {noise} {gross}: off by {off}");
            }
        }
    }
}
