//! Fits to rows that are seen part by part.

mod common;

use std::convert::Infallible;

use common::normal;
use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robustard::faer::Mat;
use robustard::{
    Choice, Control, Dataset, Diagnostics, Moments, Noise, Options, Progress, Recipe, Regression, RowStream, Stop,
    StreamTask, diagnose_stream, fit, fit_stream,
};

/// A data set in parts.
struct Parts<'a> {
    whole: &'a Dataset<'a>,
    rows: usize,
}

impl RowStream for Parts<'_> {
    type Error = Infallible;

    fn row_count(&self) -> u64 {
        self.whole.row_count() as u64
    }

    fn partition_count(&self) -> usize {
        self.whole.row_count().div_ceil(self.rows)
    }

    fn read(&self, partition: usize) -> Result<Dataset<'_>, Infallible> {
        let start = partition * self.rows;
        let rows: Vec<usize> = (start..(start + self.rows).min(self.whole.row_count())).collect();
        Ok(self.whole.take(&rows))
    }
}

/// Six inputs of which three matter, the first not in a line; one row in twelve is off.
fn table(rows: usize, seed: u64) -> (Mat<f64>, Vec<f64>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let inputs = Mat::from_fn(rows, 6, |_, j| 3.0 * j as f64 + (1.0 + j as f64) * normal(&mut rng));
    let target = (0..rows).map(|i| {
        let x = |j: usize| (inputs[(i, j)] - 3.0 * j as f64) / (1.0 + j as f64);
        let error = if i % 12 == 5 { 8.0 * rng.random_range(-1.0..1.0) } else { 0.3 * normal(&mut rng) };
        50.0 + 2.0 * x(0) + 0.7 * x(0) * x(0) - x(2) + 0.1 * x(5) + error
    });
    (inputs.clone(), target.collect())
}

fn drawn(whole: &Dataset<'_>, rows: usize) -> Dataset<'static> {
    let mut rows = sample(&mut ChaCha8Rng::seed_from_u64(0), whole.row_count(), rows).into_vec();
    rows.sort_unstable();
    whole.take(&rows)
}

fn streamed(whole: &Dataset<'_>, recipe: &Recipe, rows_of_sample: usize, control: &Control) -> Regression {
    let (sample, moments) = (drawn(whole, rows_of_sample), Moments::of(whole));
    let task = StreamTask { sample: &sample, moments: &moments, recipe, control, resume: None, keep: None };
    fit_stream(&Parts { whole, rows: 700 }, task, None).unwrap()
}

fn given(features: &str, noise: &str) -> Recipe {
    let features = Some(Choice::Given(features.parse().unwrap()));
    Options { features, noise: Some(noise.parse().unwrap()), tolerance: Some(1e-9), ..Options::default() }
        .recipe()
        .unwrap()
}

#[test]
fn streams_end_where_fits_in_memory_end() {
    let (inputs, target) = table(6000, 1);
    let dataset = Dataset::new(inputs.as_ref(), &target).unwrap();
    for noise in ["shared", "student-t:4", "contaminated", "contaminated-t:5"] {
        let recipe = given("linear", noise);
        let whole = fit(&dataset, &recipe, &Control::new()).unwrap();
        let stream = streamed(&dataset, &recipe, 1500, &Control::new());
        for (a, b) in stream.features_in_units().iter().zip(whole.features_in_units()) {
            let off = (a.coefficient - b.coefficient).abs() / b.standard_error.max(1e-4);
            assert!(off < 1e-3, "{noise} {}: {} {} ± {}", a.name, a.coefficient, b.coefficient, b.standard_error);
            // What does not matter is on its way out in memory, and out here.
            let is_out = b.relevance < 1e-3;
            assert!(is_out || (a.standard_error / b.standard_error - 1.0).abs() < 0.01, "{noise} {}", a.name);
        }
        let [own, other] = [&stream, &whole].map(|regression| regression.model().outcome().objective);
        assert!((own - other).abs() < 1e-6 * other.abs(), "{noise}: {own} {other}");
        let [own, other] = [&stream, &whole].map(Regression::log_evidence);
        assert!((own - other).abs() < 1e-6 * other.abs(), "{noise}: {own} {other}");
        let [own, other] = [&stream, &whole].map(|regression| *regression.quality());
        assert!((own.loo_rmse / other.loo_rmse - 1.0).abs() < 1e-4, "{noise}: {own:?} {other:?}");
        assert!((own.loo_r2 - other.loo_r2).abs() < 1e-4, "{noise}: {own:?} {other:?}");
        assert!((own.loo_median_error / other.loo_median_error - 1.0).abs() < 1e-2, "{noise}: {own:?} {other:?}");
        assert!((own.coverage_95 - other.coverage_95).abs() < 0.01, "{noise}: {own:?} {other:?}");
        let found = stream.whole().unwrap();
        let flagged = whole.diagnostics().flagged_rows();
        assert!(found.flagged.abs_diff(flagged.len() as u64) <= 2, "{noise}: {} {}", found.flagged, flagged.len());
        assert_eq!(found.suspicious[0].row as usize, flagged[0], "{noise}");
        assert_eq!((stream.fitted_rows(), stream.row_count()), (6000, 1500));
        assert!(found.passes <= 20, "{noise}: {}", found.passes);
    }
}

/// Fourier features by the scaling and range of all rows.
#[test]
fn features_of_streams_are_those_of_the_whole_table() {
    let (inputs, target) = table(4000, 2);
    let dataset = Dataset::new(inputs.as_ref(), &target).unwrap();
    let recipe = Options { lengthscale: Some("usual".parse().unwrap()), ..given("rff:60", "student-t:4").options() }
        .recipe()
        .unwrap();
    let whole = fit(&dataset, &recipe, &Control::new()).unwrap();
    let stream = streamed(&dataset, &recipe, 1000, &Control::new());
    let [own, other] = [&stream, &whole].map(|regression| regression.predict(inputs.as_ref()).unwrap());
    let off = own.mean.iter().zip(&other.mean).zip(&other.std).map(|((a, b), std)| (a - b).abs() / std);
    // Waves overlap, so that others of them may be kept; the curve is the same.
    let off = off.map(|off| off * off).sum::<f64>() / 4000.0;
    assert!(off.sqrt() < 0.05, "{}", off.sqrt());
    let [own, other] = [&stream, &whole].map(|regression| regression.model().outcome().objective);
    assert!(own <= other + 1e-3 * other.abs(), "{own} {other}");
}

#[test]
fn the_default_is_chosen_on_the_sample() {
    let (inputs, target) = table(8000, 3);
    let dataset = Dataset::new(inputs.as_ref(), &target).unwrap();
    let stream = streamed(&dataset, &Recipe::default(), 1500, &Control::new());
    let whole = stream.whole().unwrap();
    assert_eq!((whole.rows, whole.chosen_on), (8000, 1500));
    assert!(stream.features().to_string().starts_with("smooth"), "{}", stream.features());
    let wrong = whole.suspicious.iter().filter(|row| row.row % 12 == 5).count();
    assert!(whole.flagged > 400 && wrong as f64 > 0.97 * whole.suspicious.len() as f64, "{wrong} {}", whole.flagged);
    // Against the function itself.
    let (new, _) = table(500, 4);
    let prediction = stream.predict(new.as_ref()).unwrap();
    let truth = |i: usize| {
        let x = |j: usize| (new[(i, j)] - 3.0 * j as f64) / (1.0 + j as f64);
        50.0 + 2.0 * x(0) + 0.7 * x(0) * x(0) - x(2) + 0.1 * x(5)
    };
    let squares: f64 = (0..500).map(|i| (prediction.mean[i] - truth(i)).powi(2)).sum();
    assert!((squares / 500.0).sqrt() < 0.05, "{}", (squares / 500.0).sqrt());
    assert!(stream.quality().coverage_95 > 0.85);
    // The last pass again, by what the model remembers.
    let (mut flagged, mut rows) = (0, 0);
    let mut show = |first: u64, diagnostics: &Diagnostics| {
        assert_eq!(first, rows);
        rows += diagnostics.z.len() as u64;
        flagged += diagnostics.flagged.iter().filter(|flagged| **flagged).count() as u64;
        Ok(())
    };
    let saved = serde_json::to_string(&stream).unwrap();
    let loaded: Regression = serde_json::from_str(&saved).unwrap();
    loaded.check().unwrap();
    diagnose_stream(&loaded, &Parts { whole: &dataset, rows: 900 }, &Control::new(), &mut show).unwrap();
    assert_eq!((rows, flagged), (8000, whole.flagged));
}

#[test]
fn partitions_and_threads_do_not_change_a_byte() {
    let (inputs, target) = table(3000, 5);
    let dataset = Dataset::new(inputs.as_ref(), &target).unwrap();
    let recipe = Recipe::new(Choice::Given("linear".parse().unwrap()), Choice::Given(Noise::Contaminated)).unwrap();
    let bytes = |threads| {
        let control = Control::new().with_threads(threads).unwrap();
        let regression = streamed(&dataset, &recipe, 1000, &control);
        serde_json::to_string(regression.model()).unwrap()
    };
    let one = bytes(1);
    assert!(one == bytes(2) && one == bytes(5));
}

/// Stopped after any pass, a fit goes on from what it gave away and ends with the same numbers.
#[test]
fn stopped_fits_go_on() {
    let (inputs, target) = table(3000, 6);
    let dataset = Dataset::new(inputs.as_ref(), &target).unwrap();
    let (recipe, control) = (given("linear", "student-t:4"), Control::new());
    let (sample, moments) = (drawn(&dataset, 1000), Moments::of(&dataset));
    let rows = Parts { whole: &dataset, rows: 500 };
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let mut keep = |bytes: &[u8]| {
        kept.push(bytes.to_vec());
        Ok(())
    };
    let task = StreamTask {
        sample: &sample,
        moments: &moments,
        recipe: &recipe,
        control: &control,
        resume: None,
        keep: Some(&mut keep),
    };
    let whole = fit_stream(&rows, task, None).unwrap();
    let again = |resume| {
        let task =
            StreamTask { sample: &sample, moments: &moments, recipe: &recipe, control: &control, resume, keep: None };
        fit_stream(&rows, task, None)
    };
    let text = |regression: &Regression| serde_json::to_string(regression.model()).unwrap();
    assert!(kept.len() > 3);
    for bytes in &kept {
        assert!(text(&again(Some(bytes)).unwrap()) == text(&whole));
    }
    let message = again(Some(b"nothing")).unwrap_err().to_string();
    assert!(message.contains("checkpoint"), "{message}");
}

/// A column whose mean is 10¹² times its deviation, and one of noise: what does not matter has no weight at all.
#[test]
fn columns_that_do_nothing_have_no_weight() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let inputs = Mat::from_fn(4000, 2, |i, j| if j == 0 { normal(&mut rng) } else { 9e15 + 2.0 * i as f64 });
    let target: Vec<f64> = (0..4000).map(|i| 0.5 + inputs[(i, 0)] + 0.3 * normal(&mut rng)).collect();
    let dataset = Dataset::new(inputs.as_ref(), &target).unwrap();
    let stream = streamed(&dataset, &given("linear", "shared"), 1000, &Control::new());
    let features = stream.features_in_units();
    let place = features.iter().position(|feature| feature.name == dataset.names()[1]).unwrap();
    assert_eq!(features[place].coefficient, 0.0);
    assert!((stream.intercept() - 0.5).abs() < 0.05, "{}", stream.intercept());
}

/// Without a last pass nothing would be known of the rows: a fit that is stopped is none.
#[test]
fn a_stopped_stream_is_an_error() {
    let (inputs, target) = table(3000, 6);
    let dataset = Dataset::new(inputs.as_ref(), &target).unwrap();
    let (recipe, moments) = (given("linear", "student-t:4"), Moments::of(&dataset));
    let sample = drawn(&dataset, 1000);
    // In the first pass, and in the last one.
    for last in [false, true] {
        let stop = Stop::default();
        let raised = stop.clone();
        let control = Control::new().with_stop(stop).with_observer(move |progress| {
            if let Progress::Pass { pass, .. } = progress
                && pass.is_none() == last
            {
                raised.raise();
            }
        });
        let task = StreamTask {
            sample: &sample,
            moments: &moments,
            recipe: &recipe,
            control: &control,
            resume: None,
            keep: None,
        };
        let message = fit_stream(&Parts { whole: &dataset, rows: 50 }, task, None).unwrap_err().to_string();
        assert!(message.contains("stopped"), "{message}");
    }
}
