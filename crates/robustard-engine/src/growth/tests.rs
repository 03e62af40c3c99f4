use faer::{Mat, Par};

use super::*;
use crate::math::cholesky::Factor;

/// A wave and a step of it, seen by kernel functions of one width on every row.
fn example(n: usize) -> (Mat<f64>, Vec<f64>) {
    let x = |i: usize| 10.0 * (i as f64 / n as f64) - 5.0;
    let design = Mat::from_fn(n, n, |i, j| (-0.5 * (x(i) - x(j)).powi(2)).exp());
    let noise = |i: usize| 0.1 * ((i * i) as f64 * 2.3).sin();
    (design, (0..n).map(|i| x(i).sin() + 0.3 * (2.0 * x(i)).cos() + noise(i)).collect())
}

fn grow(design: &Mat<f64>, y: &[f64], weight: &[f64], prior: &str, par: Par) -> Grown {
    let n = y.len();
    let columns = |of: &[usize]| Mat::from_fn(n, of.len(), |i, k| design[(i, of[k])]);
    let order: Vec<usize> = (0..design.ncols()).collect();
    let noise = prior.parse().unwrap();
    let growth = Growth {
        columns: &columns,
        order: &order,
        target: y,
        row_weight: weight,
        fixed: Mat::zeros(n, 0),
        fixed_precision: vec![],
        noise,
        stop: Stop::default(),
        par,
    };
    growth.grow(None).unwrap()
}

#[test]
fn updates_by_rank_one_are_those_from_scratch() {
    let (design, y) = example(60);
    let columns = |of: &[usize]| Mat::from_fn(60, of.len(), |i, k| design[(i, of[k])]);
    let growth = Growth {
        columns: &columns,
        order: &[],
        target: &y,
        row_weight: &[1.0; 60],
        fixed: Mat::from_fn(60, 1, |_, _| 1.0),
        fixed_precision: vec![1e-8],
        noise: Noise::Shared,
        stop: Stop::default(),
        par: Par::Seq,
    };
    let variance = vec![0.05; 60];
    let mut pool = Pool::new(Mat::from_fn(60, 1, |_, _| 1.0), vec![1e-8]);
    pool.measure(&growth, &variance);
    pool.join(&growth, &[5, 20, 33, 48], &variance);
    pool.refresh(Par::Seq).unwrap();
    pool.add(2, 0.7);
    pool.add(4, 1.3);
    pool.add(1, 0.2);
    let kappa = 1.0 / (pool.covariance[(2, 2)] + 1.0 / (2.5 - 1.3));
    pool.shift(2, kappa);
    pool.precision[2] = 2.5;
    pool.remove(1);
    let covariance = pool.covariance.clone();
    let (mean, sparsity, quality) = (pool.mean.clone(), pool.sparsity.clone(), pool.quality.clone());
    pool.refresh(Par::Seq).unwrap();
    let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-8 * (1.0 + b.abs()));
    for k in 0..3 {
        assert!(close(covariance.col_as_slice(k), pool.covariance.col_as_slice(k)));
    }
    assert!(close(&mean, &pool.mean), "{mean:?} {:?}", pool.mean);
    assert!(close(&sparsity, &pool.sparsity), "{sparsity:?} {:?}", pool.sparsity);
    assert!(close(&quality, &pool.quality), "{quality:?} {:?}", pool.quality);
}

/// log p(y | γ, λ) by the n × n covariance.
fn log_evidence(columns: &Mat<f64>, precision: &[f64], y: &[f64], variance: &[f64]) -> f64 {
    let n = y.len();
    let covariance = Mat::from_fn(n, n, |i, k| {
        let shared: f64 = (0..precision.len()).map(|j| columns[(i, j)] * columns[(k, j)] / precision[j]).sum();
        shared + if i == k { variance[i] } else { 0.0 }
    });
    let mut factor = Factor::new(n, Par::Seq);
    factor.factorise(covariance.as_ref()).unwrap();
    let mut solved = y.to_vec();
    factor.solve(&mut solved);
    let form: f64 = y.iter().zip(&solved).map(|(a, b)| a * b).sum();
    -0.5 * (factor.log_determinant() + form + n as f64 * std::f64::consts::TAU.ln())
}

/// What each step says it gains is what the evidence gains; rows count as often as their weights say.
#[test]
fn gains_are_those_of_the_evidence() {
    let (design, y) = example(40);
    let columns = |of: &[usize]| Mat::from_fn(40, of.len(), |i, k| design[(i, of[k])]);
    let weight: Vec<f64> = (0..40).map(|i| 1.0 + (i % 3) as f64).collect();
    let noise = Noise::Shared;
    let (fixed, fixed_precision) = (Mat::zeros(40, 0), vec![]);
    let growth = Growth {
        columns: &columns,
        order: &[],
        target: &y,
        row_weight: &weight,
        fixed,
        fixed_precision,
        noise,
        stop: Stop::default(),
        par: Par::Seq,
    };
    // A row of weight w is one of variance λ/w.
    let variance: Vec<f64> = weight.iter().map(|w| 0.05 / w).collect();
    let evidence = |pool: &Pool| {
        let places: Vec<usize> = pool.active.clone();
        let used = Mat::from_fn(40, places.len(), |i, k| pool.values[(i, places[k])]);
        log_evidence(&used, &pool.precision, &y, &variance)
    };
    let mut pool = Pool::new(Mat::zeros(40, 0), vec![]);
    pool.measure(&growth, &[0.05; 40]);
    pool.join(&growth, &[2, 3, 9, 10, 17, 25, 26, 31, 38], &[0.05; 40]);
    pool.refresh(Par::Seq).unwrap();
    let verify = |pool: &mut Pool, (step, gain): (pool::Step, f64)| {
        let before = evidence(pool);
        pool.take(step);
        let gained = evidence(pool) - before;
        assert!((gained - gain).abs() < 1e-6, "{gained} instead of {gain}");
    };
    // Not the best column first: that one takes its place.
    let (pool::Step::Add { place: best, .. }, _) = pool.best_step().unwrap() else { panic!("nothing is in use yet") };
    pool.add((best + 4) % 9, 3.0);
    let swap = pool.best_swap(Par::Seq).unwrap();
    assert!(matches!(swap.0, pool::Step::Swap { index: 0, place, .. } if place == best));
    verify(&mut pool, swap);
    // Columns are added, and one with a bad precision gets a better one.
    pool.precision[0] *= 30.0;
    pool.refresh(Par::Seq).unwrap();
    let mut steps = 0;
    while let Some(step) = pool.best_step() {
        verify(&mut pool, step);
        steps += 1;
    }
    assert!(steps > 4, "{steps}");
    // One that leaves takes with it what it is said to.
    for _ in 0..2 {
        let (index, loss) = pool.leaving().first().map(|leaving| (leaving.index, leaving.loss)).unwrap();
        verify(&mut pool, (pool::Step::Remove { index }, -loss));
    }
}

#[test]
fn wrong_rows_do_not_make_functions_grow() {
    let (design, mut y) = example(120);
    let clean = grow(&design, &y, &[1.0; 120], "shared", Par::Seq).columns.len();
    for i in (5..120).step_by(15) {
        y[i] += 8.0;
    }
    for prior in ["student-t", "contaminated"] {
        let robust = grow(&design, &y, &[1.0; 120], prior, Par::Seq);
        assert!(robust.columns.len() <= clean + 4, "{prior}: {} {clean}", robust.columns.len());
        let (wrong, right) = (robust.noise_variance[5], robust.noise_variance[6]);
        assert!(wrong > 20.0 * right, "{prior}: {wrong} {right}");
    }
}

#[test]
fn threads_change_nothing() {
    let (design, y) = example(300);
    for prior in ["shared", "student-t"] {
        let [one, two] = [Par::Seq, Par::rayon(2)].map(|par| grow(&design, &y, &[1.0; 300], prior, par));
        assert_eq!(one.columns, two.columns);
        assert_eq!(one.weight_precision, two.weight_precision);
        assert_eq!(one.noise_variance, two.noise_variance);
    }
}

#[test]
fn nothing_grows_from_noise_or_from_a_constant() {
    let (design, _) = example(60);
    let noise: Vec<f64> = (0..60).map(|i| ((i * i * 7) as f64 * 3.1).sin()).collect();
    assert!(grow(&design, &noise, &[1.0; 60], "shared", Par::Seq).columns.len() < 8);
    assert!(grow(&design, &[0.0; 60], &[1.0; 60], "shared", Par::Seq).columns.is_empty());
}
