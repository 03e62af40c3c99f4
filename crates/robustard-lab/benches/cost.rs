//! What the default costs on a table of 2000 rows, against plain fits of 300 iterations to 256 Fourier features: with shared noise,
//! where an iteration costs O(d³) because XᵀX is formed once, and with noise per row, where it costs a pass over the rows.

use std::time::Instant;

use faer::Mat;
use robustard::engine::Acceleration;
use robustard::features::{FeatureKind, Lengthscale};
use robustard::{Choice, Control, Dataset, Noise, Recipe, Settings, fit};

const ROWS: usize = 2000;
const INPUTS: usize = 8;
const REPEATS: usize = 3;

struct Sample {
    inputs: Mat<f64>,
    target: Vec<f64>,
}

fn sample(wrong: usize) -> Sample {
    let wave = |i: usize, k: f64| ((i + 1) as f64 * k).sin();
    let x = Mat::from_fn(ROWS, INPUTS, |i, j| wave(i, 1.1 + 0.73 * j as f64));
    let value = |i: usize| {
        let curve = (2.0 * x[(i, 0)] + x[(i, 1)]).sin() + x[(i, 2)] * x[(i, 3)] + 0.5 * x[(i, 4)].powi(2) + x[(i, 5)];
        let error = if i.is_multiple_of(10) && i / 10 < wrong { 5.0 * wave(i, 0.37).signum() } else { 0.0 };
        curve + 0.3 * ((i * i) as f64 * 0.61).sin() + error
    };
    Sample { target: (0..ROWS).map(value).collect(), inputs: x }
}

fn seconds(sample: &Sample, recipe: &Recipe) -> (f64, String) {
    let times = (0..REPEATS).map(|_| {
        let start = Instant::now();
        let dataset = Dataset::new(sample.inputs.as_ref(), &sample.target).expect("the numbers are finite");
        let regression = fit(&dataset, recipe, &Control::new()).expect("the numbers can be fitted");
        let what = format!(
            "{}, {} iterations, {} rows set aside",
            regression.features(),
            regression.model().iterations(),
            regression.set_aside().len()
        );
        (start.elapsed().as_secs_f64(), what)
    });
    times.min_by(|a, b| a.0.total_cmp(&b.0)).expect("some repeats")
}

fn plain(noise: Noise) -> Recipe {
    let settings = Settings {
        max_iterations: 300,
        acceleration: Acceleration::None,
        pruning: false,
        tolerance: f64::MIN_POSITIVE,
        ..Settings::default().with_noise(noise)
    };
    let fourier = FeatureKind::fourier(256).expect("so many features are fine");
    let recipe = Recipe::new(Choice::Given(fourier), Choice::Given(noise));
    let recipe = recipe.and_then(|recipe| recipe.with_lengthscale(Lengthscale::Usual));
    recipe.and_then(|recipe| recipe.with_settings(settings)).expect("the settings are in range")
}

fn main() {
    let (clean, dirty) = (sample(0), sample(200));
    let runs = [
        ("plain, shared noise", seconds(&clean, &plain(Noise::Shared))),
        ("plain, noise per row", seconds(&clean, &plain(Noise::default()))),
        ("default, clean table", seconds(&clean, &Recipe::default())),
        ("default, 200 wrong rows", seconds(&dirty, &Recipe::default())),
    ];
    let [shared, per_row] = [runs[0].1.0, runs[1].1.0];
    println!("{ROWS} rows, {INPUTS} inputs, best of {REPEATS}");
    for (name, (time, what)) in &runs {
        println!("{name:24} {time:6.2} s  {:5.1} × shared, {:4.2} × per row  ({what})", time / shared, time / per_row);
    }
}
