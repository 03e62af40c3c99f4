//! What the default costs on a table of 2000 rows, against plain fits of 300 iterations to 256 Fourier features: with shared noise,
//! where an iteration costs O(d³) because XᵀX is formed once, and with noise per row, where it costs a pass over the rows.

use std::ops::ControlFlow;
use std::time::Instant;

use robustard::features::{FeatureKind, FeatureOptions, Lengthscale};
use robustard::{Iteration, Settings};
use robustard_table::{Auto, EncodeOptions, Regression, RegressionOptions, Table};

const ROWS: usize = 2000;
const INPUTS: usize = 8;
const REPEATS: usize = 3;

fn table(wrong: usize) -> Table {
    let wave = |i: usize, k: f64| ((i + 1) as f64 * k).sin();
    let column = |j: usize| (0..ROWS).map(move |i| wave(i, 1.1 + 0.73 * j as f64));
    let mut columns: Vec<(String, _)> =
        (0..INPUTS).map(|j| (format!("x{j}"), Table::number_column(column(j)))).collect();
    let x: Vec<Vec<f64>> = (0..INPUTS).map(|j| column(j).collect()).collect();
    let value = |i: usize| {
        let curve = (2.0 * x[0][i] + x[1][i]).sin() + x[2][i] * x[3][i] + 0.5 * x[4][i].powi(2) + x[5][i];
        let error = if i.is_multiple_of(10) && i / 10 < wrong { 5.0 * wave(i, 0.37).signum() } else { 0.0 };
        curve + 0.3 * ((i * i) as f64 * 0.61).sin() + error
    };
    columns.push(("y".to_owned(), Table::number_column((0..ROWS).map(value))));
    Table::from_columns(columns)
}

fn seconds(table: &Table, kind: FeatureKind, settings: Settings, is_auto: bool) -> (f64, String) {
    let options = RegressionOptions {
        encode: EncodeOptions::new("y"),
        features: FeatureOptions { kind, lengthscale: Lengthscale::Usual, seed: 0, standardize: true, centre: true },
        intercept: true,
        settings,
        auto: Auto { features: is_auto, noise: is_auto },
    };
    let times = (0..REPEATS).map(|_| {
        let start = Instant::now();
        let mut silent = |_: &Iteration<'_>| ControlFlow::Continue(());
        let regression = Regression::fit(table, &options, &mut silent).expect("the table can be fitted").regression;
        let aside = regression.set_aside.len();
        let what = format!(
            "{}, {} iterations, {aside} rows set aside",
            regression.options.features.kind,
            regression.model.iterations()
        );
        (start.elapsed().as_secs_f64(), what)
    });
    times.min_by(|a, b| a.0.total_cmp(&b.0)).expect("some repeats")
}

fn main() {
    let (clean, dirty) = (table(0), table(200));
    let plain = Settings {
        max_iterations: 300,
        acceleration: robustard::Acceleration::None,
        pruning: false,
        tolerance: f64::MIN_POSITIVE,
        ..Settings::default()
    };
    let fourier = FeatureKind::Fourier { features: 256 };
    let runs = [
        ("plain, shared noise", seconds(&clean, fourier, plain.clone().with_shared_noise(), false)),
        ("plain, noise per row", seconds(&clean, fourier, plain, false)),
        ("default, clean table", seconds(&clean, FeatureKind::Linear, Settings::default(), true)),
        ("default, 200 wrong rows", seconds(&dirty, FeatureKind::Linear, Settings::default(), true)),
    ];
    let [shared, per_row] = [runs[0].1.0, runs[1].1.0];
    println!("{ROWS} rows, {INPUTS} inputs, best of {REPEATS}");
    for (name, (time, what)) in &runs {
        println!("{name:24} {time:6.2} s  {:5.1} × shared, {:4.2} × per row  ({what})", time / shared, time / per_row);
    }
}
