use super::*;
use crate::learn::Effort;

pub(in crate::learn) fn example(n: usize) -> (Mat<f64>, Vec<f64>) {
    let x = Mat::from_fn(n, 3, |i, j| ((i * (3 * j + 2)) as f64 * 0.71).sin() * 1.5);
    let y = (0..n).map(|i| (2.0 * x[(i, 0)]).sin() + 0.3 * x[(i, 1)] + 0.05 * (i as f64 * 5.1).sin()).collect();
    (x, y)
}

pub(in crate::learn) fn options<'a>(
    control: &'a Control,
    shape: Shape,
    singles: Vec<usize>,
    noise: &str,
) -> CurveOptions<'a> {
    let noise = noise.parse().unwrap();
    CurveOptions {
        relevance: None,
        shape,
        // The last two share theirs, as levels of a category do.
        lengthscales: vec![0, 1, 1],
        lines: vec![0, 1, 1],
        singles,
        per_input: true,
        seed: 1,
        noise,
        must_bend: true,
        effort: Effort::Whole,
        start: None,
        least_variance: 0.0,
        control,
    }
}

#[test]
fn gradient_matches_differences() {
    let control = Control::new();
    let (x, y) = example(30);
    let weight: Vec<f64> = (0..30).map(|i| 1.0 + (i % 2) as f64).collect();
    let rows: Vec<usize> = (0..30).collect();
    for (shape, singles) in [(Shape::Matern, vec![0, 2]), (Shape::Gauss, vec![]), (Shape::Laplace, vec![1])] {
        let options = options(&control, shape, singles, "student-t");
        let process = Process::new(x.as_ref(), &y, &weight, &rows, &options, Par::Seq);
        let variance: Vec<f64> = (0..30).map(|i| 0.1 + 0.01 * i as f64).collect();
        let mut values = process.start();
        values.iter_mut().enumerate().for_each(|(k, value)| *value += 0.3 * (k as f64).cos());
        let gradient = process.evaluate(&values, &variance).unwrap().gradient;
        assert_eq!(gradient.len(), values.len());
        for k in 0..values.len() {
            let step = 1e-5;
            let moved = |sign: f64| {
                let mut moved = values.clone();
                moved[k] += sign * step;
                process.evaluate(&moved, &variance).unwrap().value.cost
            };
            let slope = (moved(1.0) - moved(-1.0)) / (2.0 * step);
            assert!((slope - gradient[k]).abs() < 1e-5 * (1.0 + slope.abs()), "{shape:?} {k}: {slope} {}", gradient[k]);
        }
    }
}

/// Lines by themselves are the process without its curve.
#[test]
fn lines_are_a_process_without_a_curve() {
    let control = Control::new();
    let (x, y) = example(30);
    let weight: Vec<f64> = (0..30).map(|i| 1.0 + (i % 2) as f64).collect();
    let rows: Vec<usize> = (0..30).collect();
    let options = options(&control, Shape::Matern, vec![], "student-t");
    let process = Process::new(x.as_ref(), &y, &weight, &rows, &options, Par::Seq);
    let variance: Vec<f64> = (0..30).map(|i| 0.1 + 0.01 * i as f64).collect();
    let (inputs, control) = (x.as_ref(), &control);
    let (intercept_variance, variance_bounds) = (INTERCEPT_VARIANCE, options.variance_bounds());
    let lines = Straight {
        inputs,
        lines: &options.lines,
        target: &y,
        row_weight: &weight,
        variance_bounds,
        intercept_variance,
        control,
    };
    let mut parameters = process.start();
    let last = parameters.len() - 3;
    parameters[last - 3..last].fill(-60.0);
    parameters[last..].copy_from_slice(&[-0.3, 0.4, 0.2]);
    let whole = process.evaluate(&parameters, &variance).unwrap();
    let own = lines.evaluate(&[-0.3, 0.4, 0.2], &variance).unwrap();
    assert!((whole.value.cost - own.value.cost).abs() < 1e-8, "{} {}", whole.value.cost, own.value.cost);
    for (whole, own) in whole.gradient[last..].iter().zip(&own.gradient) {
        assert!((whole - own).abs() < 1e-7, "{whole} {own}");
    }
    let moments = whole.value.second_moment.iter().zip(&own.value.second_moment);
    moments.for_each(|(whole, own)| assert!((whole - own).abs() < 1e-9, "{whole} {own}"));
}

/// A row that counts twice is as good as two rows.
#[test]
fn weights_are_counts() {
    let control = Control::new();
    let (x, y) = example(20);
    let options = options(&control, Shape::Matern, vec![0, 1], "student-t");
    let rows: Vec<usize> = (0..20).collect();
    let twice: Vec<usize> = (0..20).chain(0..20).collect();
    let counted = Process::new(x.as_ref(), &y, &[2.0; 20], &rows, &options, Par::Seq);
    let repeated = Process::new(x.as_ref(), &y, &[1.0; 20], &twice, &options, Par::Seq);
    let a = counted.evaluate(&counted.start(), &[0.2; 20]).unwrap();
    let b = repeated.evaluate(&repeated.start(), &[0.2; 40]).unwrap();
    assert!((a.value.cost - b.value.cost).abs() < 1e-9 * a.value.cost.abs());
    a.gradient.iter().zip(&b.gradient).for_each(|(a, b)| assert!((a - b).abs() < 1e-8 * (1.0 + a.abs())));
    assert!((a.value.second_moment[3] - b.value.second_moment[23]).abs() < 1e-10);
}

#[test]
fn predictions_at_training_rows_are_the_posterior() {
    let control = Control::new();
    let (x, y) = example(25);
    let options = options(&control, Shape::Matern, vec![0, 1], "student-t");
    let rows: Vec<usize> = (0..25).collect();
    let process = Process::new(x.as_ref(), &y, &[1.0; 25], &rows, &options, Par::Seq);
    let (values, variance) = (process.start(), vec![0.2; 25]);
    let [mean, latent] = process.predict(&values, &variance, x.as_ref(), true).unwrap();
    let found = process.evaluate(&values, &variance).unwrap().value.second_moment;
    for i in 0..25 {
        assert!(((y[i] - mean[i]).powi(2) + latent[i] - found[i]).abs() < 1e-9);
    }
}

/// Leaving a row out in closed form is leaving it out.
#[test]
fn left_out_rows_are_left_out() {
    let control = Control::new();
    let (x, y) = example(25);
    let options = options(&control, Shape::Matern, vec![0, 1], "student-t");
    let process = |rows: &[usize]| Process::new(x.as_ref(), &y, &[1.0; 25], rows, &options, Par::Seq);
    let (all, fewer): (Vec<usize>, Vec<usize>) = ((0..25).collect(), (0..25).filter(|&row| row != 7).collect());
    let [all, fewer] = [process(&all), process(&fewer)];
    let values = all.start();
    let closed = all.left_out(&values, &[0.2; 25]).unwrap();
    let [mean, latent] = fewer.predict(&values, &[0.2; 24], x.as_ref().subrows(7, 1), true).unwrap();
    assert!((closed.residual[7] - (y[7] - mean[0])).abs() < 1e-9);
    assert!((closed.latent_variance[7] - latent[0]).abs() < 1e-9);
}
