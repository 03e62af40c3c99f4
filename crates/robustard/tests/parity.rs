//! The same numbers give the same results, however they lie and whatever works on them.

mod common;

use common::{friedman, given, kind};
use robustard::faer::{ColRef, Mat, MatRef};
use robustard::{
    Choice, Column, Control, Dataset, Error, Noise, Options, Recipe, RecipeError, Regression, SolverKind, fit,
};

/// Bit for bit.
fn assert_same(a: &Regression, b: &Regression, inputs: MatRef<'_, f64>, what: &str) {
    assert_eq!(a.features(), b.features(), "{what}");
    assert_eq!(a.noise(), b.noise(), "{what}");
    assert_eq!(a.set_aside(), b.set_aside(), "{what}");
    assert_eq!(a.selection(), b.selection(), "{what}");
    assert_eq!(a.design(), b.design(), "{what}");
    assert_eq!(a.model().coefficients(), b.model().coefficients(), "{what}");
    assert_eq!(a.model().rows(), b.model().rows(), "{what}");
    assert_eq!(a.paths(), b.paths(), "{what}");
    assert_eq!(a.diagnostics(), b.diagnostics(), "{what}");
    assert_eq!(a.quality(), b.quality(), "{what}");
    let [a, b] = [a, b].map(|regression| regression.predict(inputs).unwrap());
    assert_eq!(a, b, "{what}");
}

/// The recipes that take the different ways through the code.
fn recipes() -> Vec<Recipe> {
    let auto = |features| Recipe::new(Choice::Given(kind(features)), Choice::Auto).unwrap();
    vec![Recipe::default(), given("rff:64", Noise::default()), auto("rbf"), given("poly:2", Noise::Shared)]
}

#[test]
fn threads_change_nothing() {
    let rows = friedman(300, 0.05, 1);
    for recipe in recipes() {
        let fitted: Vec<Regression> = [1, 2, 3]
            .into_iter()
            .map(|threads| {
                let control = Control::new().with_threads(threads).unwrap();
                fit(&rows.dataset(), &recipe, &control).unwrap()
            })
            .collect();
        let what = recipe.features().to_string();
        assert_same(&fitted[0], &fitted[1], rows.inputs.as_ref(), &what);
        assert_same(&fitted[0], &fitted[2], rows.inputs.as_ref(), &what);
        // Nor do those that predict.
        let new = friedman(1500, 0.0, 2).inputs;
        let predict = |threads: usize| {
            let control = Control::new().with_threads(threads).unwrap();
            fitted[0].predict_under(new.as_ref(), &control).unwrap()
        };
        assert_eq!(predict(1), predict(3), "{what}");
    }
}

#[test]
fn layouts_change_nothing() {
    let rows = friedman(300, 0.05, 1);
    let (n, p) = (rows.inputs.nrows(), rows.inputs.ncols());
    let by_rows: Vec<f64> = rows.inputs.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<_>>()).collect();
    // Every second value of a longer list, as a part of a larger array is.
    let spread: Vec<Vec<f64>> =
        (0..p).map(|j| rows.inputs.col(j).iter().flat_map(|value| [*value, f64::NAN]).collect()).collect();
    let padded = Mat::from_fn(n, p + 3, |i, j| if j < p { rows.inputs[(i, j)] } else { f64::NAN });
    let columns = (0..p).map(|j| Column::Owned(rows.inputs.col(j).iter().copied().collect())).collect();
    let strided = spread.iter().map(|values| Column::Borrowed(MatRef::from_row_major_slice(values, n, 2).col(0)));
    let borrowed = (0..p).map(|j| Column::Borrowed(ColRef::from_slice(rows.inputs.col_as_slice(j)))).collect();
    let datasets = [
        ("row after row", Dataset::new(MatRef::from_row_major_slice(&by_rows, n, p), &rows.target)),
        ("a part of a matrix", Dataset::new(padded.as_ref().subcols(0, p), &rows.target)),
        ("columns of its own", Dataset::from_columns(columns, &rows.target)),
        ("columns", Dataset::from_columns(borrowed, &rows.target)),
        ("columns with gaps", Dataset::from_columns(strided.collect(), &rows.target)),
    ];
    for recipe in recipes() {
        let expected = rows.fit(&recipe);
        for (name, dataset) in &datasets {
            let other = fit(dataset.as_ref().unwrap(), &recipe, &Control::new()).unwrap();
            assert_same(&expected, &other, rows.inputs.as_ref(), &format!("{} {name}", recipe.features()));
        }
    }
    // Predictions, too.
    let regression = rows.fit(&recipes()[0]);
    let expected = regression.predict(rows.inputs.as_ref()).unwrap();
    assert_eq!(regression.predict(MatRef::from_row_major_slice(&by_rows, n, p)).unwrap(), expected);
    assert_eq!(regression.predict(padded.as_ref().subcols(0, p)).unwrap(), expected);
}

/// The growing solver cannot grow columns that share a precision; it says so, and what to use instead.
#[test]
fn growing_is_refused_where_precisions_are_shared() {
    for features in ["auto", "smooth", "smooth:40", "rff:64"] {
        let options = Options {
            features: Some(features.parse().unwrap()),
            solver: Some(SolverKind::Growing),
            ..Options::default()
        };
        let error = options.recipe().unwrap_err();
        assert!(matches!(&error, RecipeError::Growing { features: own } if own == features), "{error:?}");
        let message = error.to_string();
        assert!(message.contains("growing") && message.contains(features), "{message}");
        assert!(message.contains("use linear") && message.contains("another solver"), "{message}");
        let recipe = Recipe::new(features.parse().unwrap(), Choice::Auto).unwrap();
        let settings = Options { features: None, ..options }
            .solver
            .map(|solver| robustard::Settings { solver, ..Default::default() });
        assert!(recipe.with_settings(settings.unwrap()).is_err());
    }
    // Categories: known only with the data.
    let rows = friedman(100, 0.0, 2);
    let growing = |noise| {
        let options = Options {
            features: Some(Choice::Given(kind("linear"))),
            solver: Some(SolverKind::Growing),
            noise: Some(noise),
            ..Options::default()
        };
        options.recipe().unwrap()
    };
    for noise in [Choice::Auto, Choice::Given(Noise::Shared), Choice::Given(Noise::default())] {
        let recipe = growing(noise);
        assert!(fit(&rows.dataset(), &recipe, &Control::new()).is_ok());
        let grouped = rows.dataset().with_groups(&[0, 1, 1, 1, 2, 3, 4, 5, 6, 7]).unwrap();
        let error = fit(&grouped, &recipe, &Control::new()).unwrap_err();
        assert!(matches!(&error, Error::SharedPrecision { names } if names == &["x1", "x2", "x3"]), "{error:?}");
        let message = error.to_string();
        assert!(message.contains("growing") && message.contains("use em"), "{message}");
    }
}
