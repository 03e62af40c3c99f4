//! What a shared-noise fit of linear features costs beside forming XᵀX: `cargo xtask bench linear [ROWS COLUMNS] [CORRELATION]`.
//! With a correlation below 1, columns follow each other with it.

use std::time::Instant;

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use robustard::features::FeatureKind;
use robustard::{Choice, Control, Dataset, Noise, Recipe, Settings, SolverKind, fit};

const REPETITIONS: usize = 9;

fn main() {
    let sizes: Vec<usize> = std::env::args().filter_map(|text| text.parse().ok()).collect();
    let shapes = if let [rows, columns] = sizes[..] {
        vec![(rows, columns)]
    } else {
        vec![(2000, 100), (2000, 500), (20000, 256)]
    };
    let correlation: f64 = std::env::args().filter_map(|text| text.parse().ok()).find(|c| *c < 1.0).unwrap_or(0.0);
    println!(
        "{:>7} {:>8} {:>10} {:>10} {:>8} {:>6} {:>8}",
        "rows", "columns", "XᵀX ms", "fit ms", "solver", "times", "iter."
    );
    for (rows, columns) in shapes {
        let (values, target) = draw(rows, columns, correlation);
        let inputs = MatRef::from_row_major_slice(&values, rows, columns);
        let mut gram = Mat::<f64>::zeros(columns, columns);
        let product = median(|| matmul(gram.as_mut(), Accum::Replace, inputs.transpose(), inputs, 1.0, Par::Seq));
        for (name, solver) in [("em", SolverKind::Em), ("growing", SolverKind::Growing)] {
            let control = Control::new().with_threads(1).expect("one thread");
            let recipe = Recipe::new(Choice::Given(FeatureKind::linear()), Choice::Given(Noise::Shared))
                .expect("parts that go together");
            let settings = Settings { solver, ..recipe.settings().clone() };
            let recipe = recipe.with_settings(settings).expect("settings that go together");
            let mut iterations = 0;
            let whole = median(|| {
                let dataset = Dataset::new(inputs, &target).expect("numbers");
                iterations = fit(&dataset, &recipe, &control).expect("a fit").model().iterations();
            });
            let times = whole / product;
            println!("{rows:>7} {columns:>8} {product:>10.2} {whole:>10.2} {name:>8} {times:>6.1} {iterations:>8}");
        }
    }
}

/// Median milliseconds.
fn median(mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..REPETITIONS)
        .map(|_| {
            let start = Instant::now();
            work();
            1e3 * start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[REPETITIONS / 2]
}

/// A tenth of the columns matter, and each follows the one before; rows lie one after the other.
fn draw(rows: usize, columns: usize, correlation: f64) -> (Vec<f64>, Vec<f64>) {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let mut normal = || rng.sample::<f64, _>(StandardNormal);
    let weights: Vec<f64> = (0..columns).map(|j| if j % 10 == 0 { normal() } else { 0.0 }).collect();
    let mut values: Vec<f64> = (0..rows * columns).map(|_| normal()).collect();
    for row in values.chunks_mut(columns) {
        (1..columns)
            .for_each(|j| row[j] = correlation * row[j - 1] + (1.0 - correlation * correlation).sqrt() * row[j]);
    }
    let line = |row: &[f64]| row.iter().zip(&weights).map(|(x, w)| x * w).sum::<f64>();
    let target = values.chunks(columns).map(|row| line(row) + normal()).collect();
    (values, target)
}
