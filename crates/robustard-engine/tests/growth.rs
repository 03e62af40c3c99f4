//! Growth of a basis against pruning of one.

use robustard_engine::faer::{Mat, Par};
use robustard_engine::growth::{Grown, Growth};
use robustard_engine::{Noise, Problem, Settings, Stop, fit};

/// A wave and a step of it, seen by kernel functions of one width on every row.
fn example(n: usize) -> (Mat<f64>, Vec<f64>) {
    let x = |i: usize| 10.0 * (i as f64 / n as f64) - 5.0;
    let design = Mat::from_fn(n, n, |i, j| (-0.5 * (x(i) - x(j)).powi(2)).exp());
    let noise = |i: usize| 0.1 * ((i * i) as f64 * 2.3).sin();
    (design, (0..n).map(|i| x(i).sin() + 0.3 * (2.0 * x(i)).cos() + noise(i)).collect())
}

fn grow(design: &Mat<f64>, y: &[f64], stop: Stop) -> Grown {
    let columns = |of: &[usize]| Mat::from_fn(y.len(), of.len(), |i, k| design[(i, of[k])]);
    let growth = Growth {
        columns: &columns,
        order: &(0..design.ncols()).collect::<Vec<_>>(),
        target: y,
        row_weight: &vec![1.0; y.len()],
        fixed: Mat::zeros(y.len(), 0),
        fixed_precision: vec![],
        noise: Noise::Shared,
        stop,
        par: Par::Seq,
    };
    growth.grow(None).unwrap()
}

#[test]
fn a_grown_basis_is_as_good_as_a_pruned_one() {
    let (design, y) = example(120);
    let grown = grow(&design, &y, Stop::default());
    assert!(grown.columns.len() < 20, "{:?}", grown.columns);
    let part = Mat::from_fn(120, grown.columns.len(), |i, k| design[(i, grown.columns[k])]);
    let settings = Settings { max_iterations: 5000, ..Settings::default().with_shared_noise() };
    let evidence =
        |design: &Mat<f64>| -fit(&Problem::new(design.as_ref(), &y).unwrap(), &settings).unwrap().neg_log_evidence();
    let (own, pruned) = (evidence(&part), evidence(&design));
    assert!(own > pruned - 1.0, "grown {own}, pruned {pruned}");
}

/// A raised flag ends the growth after its first block.
#[test]
fn growth_stops_when_asked() {
    let (design, y) = example(120);
    let stop = Stop::default();
    stop.raise();
    let early = grow(&design, &y, stop);
    assert_ne!(early.weight_precision, grow(&design, &y, Stop::default()).weight_precision);
    assert!(!early.columns.is_empty());
}
