//! What is chosen for a table when nothing is given.

use robustard::{Control, Dataset, Recipe, Regression};
use robustard_table::samples::{GIANTS, STARS};
use robustard_table::{
    EncodeOptions, ReadOptions, Table, TableModel, load_model, model_to_bytes, read_bytes, save_model,
};

fn table(text: String) -> Table {
    read_bytes(text.into_bytes(), "t", &ReadOptions::default()).unwrap()
}

fn choose(table: &Table, target: &str) -> TableModel {
    TableModel::fit(table, &EncodeOptions::new(target), &Recipe::default(), &Control::new()).unwrap().model
}

fn is_curve(regression: &Regression) -> bool {
    regression.features().to_string() == "smooth"
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

#[test]
fn a_choice_is_kept_in_the_model_file() {
    let table = rows(2.0, 20);
    let model = choose(&table, "y");
    assert_eq!(model.regression().set_aside(), (0..20).collect::<Vec<_>>());
    let path = std::env::temp_dir().join(format!("robustard-choice-{}.model", std::process::id()));
    save_model(&model, &path).unwrap();
    let back = load_model(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(model_to_bytes(&back).unwrap() == model_to_bytes(&model).unwrap());
    assert_eq!(back.regression().selection(), model.regression().selection());
    let [a, b] = [&model, &back].map(|model| model.predict(&table, &Control::new()).unwrap().values);
    assert_eq!(a, b);
    assert_eq!(a.interval(0.8).unwrap(), b.interval(0.8).unwrap());
}

/// The default of the library is the default of tables, bit for bit.
#[test]
fn tables_and_numbers_have_one_default() {
    for (curve, wrong) in [(0.0, 20), (2.0, 20)] {
        let table = rows(curve, wrong);
        let column = |name: &str| table.numbers(name).unwrap().unwrap().to_vec();
        let (x, z, y) = (column("x"), column("z"), column("y"));
        let inputs = robustard::faer::Mat::from_fn(200, 2, |i, j| if j == 0 { x[i] } else { z[i] });
        let dataset = Dataset::new(inputs.as_ref(), &y).unwrap().with_names(["x", "z"]).unwrap();
        let direct = robustard::fit(&dataset, &Recipe::default(), &Control::new()).unwrap();
        let model = choose(&table, "y");
        let through = model.regression();
        assert_eq!(is_curve(through), curve > 0.0);
        assert_eq!(direct.recipe(), through.recipe());
        assert_eq!(direct.design(), through.design());
        assert_eq!(direct.selection(), through.selection());
        assert_eq!(direct.set_aside(), through.set_aside());
        assert_eq!(direct.model().coefficients(), through.model().coefficients());
        assert_eq!(direct.model().rows(), through.model().rows());
        assert_eq!(direct.diagnostics(), through.diagnostics());
        assert_eq!(direct.quality(), through.quality());
        assert_eq!(direct.feature_summaries(), through.feature_summaries());
        let prediction = model.predict(&table, &Control::new()).unwrap();
        assert_eq!(direct.predict(inputs.as_ref()).unwrap(), prediction.values);
    }
}

/// Light against temperature: four giants turn the least-squares slope around.
#[test]
fn giants_do_not_turn_the_slope() {
    let model = choose(&table(STARS.to_owned()), "log.light");
    let slope = model.regression().feature_summaries()[0].coefficient;
    assert!(slope > 1.0, "{slope}");
    let mut flagged = model.regression().diagnostics().flagged_rows();
    flagged.sort_unstable();
    assert_eq!(flagged, GIANTS);
}

/// Far from the training rows a curve stays as at the border, and says so by the column's name.
#[test]
fn rows_out_of_range_are_noted() {
    let model = choose(&rows(2.0, 0), "y");
    assert!(is_curve(model.regression()));
    let new = table("x,z\n0,0\n1.99,0\n3,0\n6,0\n60,0\n".to_owned());
    let predicted = model.predict(&new, &Control::new()).unwrap();
    assert!(predicted.notes[0].contains("'x' (3)"), "{:?}", predicted.notes);
    assert!(predicted.notes[0].contains("wider error bars"), "{:?}", predicted.notes);
}
