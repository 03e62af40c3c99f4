//! Rows that are left out have the variance that predictions have: with what robust noise adds, and with what lies between the
//! centres of a curve.

mod common;

use common::{Rows, given, normal};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robustard::engine::noise::NoiseModel;
use robustard::faer::linalg::solvers::Solve;
use robustard::faer::{Mat, Par, Side};
use robustard::{BaseNoise, Degrees, Noise, Regression};

/// Rows looked at are that far apart.
const STRIDE: usize = 37;

/// More bends than fifty centres can follow.
fn bent(rows: usize) -> Rows {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    Rows::of((0..rows).map(|_| {
        let [x, z]: [f64; 2] = std::array::from_fn(|_| rng.random());
        ([x, z], (14.0 * x).sin() * (11.0 * z).cos() + 0.1 * normal(&mut rng))
    }))
}

/// Lines with many inputs for the rows, and normal noise: Student-t noise then has something to add.
fn lines() -> Rows {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    Rows::of((0..150).map(|_| {
        let x: [f64; 12] = std::array::from_fn(|_| normal(&mut rng));
        (x, 3.0 + x[0] - 2.0 * x[1] + 0.5 * x[2] + 0.5 * normal(&mut rng))
    }))
}

/// Columns of the linear model at the training rows, intercept first, and the variances 1/γ and λ κ/ω that they have.
struct Held {
    design: Mat<f64>,
    precision: Vec<f64>,
    row_precision: Vec<f64>,
}

impl Held {
    fn of(regression: &Regression, rows: &Rows) -> Self {
        let (design, model) = (regression.design(), regression.model());
        let standard = design.inputs().transform(rows.inputs.as_ref());
        let features = design.map().transform(standard.as_ref(), Par::Seq);
        let active = model.active_columns();
        let value =
            |row: usize, column: usize| design.feature_of(column).map_or(1.0, |feature| features[(feature, row)]);
        let of_row = model.rows().noise_variance.iter().zip(model.rows().weight.iter());
        Self {
            design: Mat::from_fn(rows.target.len(), active.len(), |i, k| value(i, active[k])),
            precision: active.iter().map(|&column| model.weight_precision()[column]).collect(),
            row_precision: of_row.map(|(noise, weight)| weight / (model.noise_inflation() * noise)).collect(),
        }
    }

    /// xᵀΣx at a row, of the posterior without another row or with all of them.
    fn variance(&self, row: usize, without: Option<usize>, inflation: f64) -> f64 {
        let (n, d) = (self.design.nrows(), self.design.ncols());
        let of_row = |i: usize| if without == Some(i) { 0.0 } else { self.row_precision[i] * inflation };
        let weighted = Mat::from_fn(n, d, |i, k| of_row(i) * self.design[(i, k)]);
        let mut information = self.design.transpose() * weighted;
        (0..d).for_each(|k| information[(k, k)] += self.precision[k]);
        let x = Mat::from_fn(d, 1, |k, _| self.design[(row, k)]);
        (x.transpose() * information.llt(Side::Lower).unwrap().solve(&x))[(0, 0)]
    }
}

/// Compares what the regression says of left-out rows with posteriors made without them; gives the largest share of that variance
/// which the inflation, and which the features do not carry.
fn compare(regression: &Regression, rows: &Rows) -> [f64; 2] {
    let held = Held::of(regression, rows);
    let unit = regression.design().target().variance(1.0);
    let predicted = regression.predict(rows.inputs.as_ref()).unwrap();
    let diagnostics = regression.diagnostics();
    let close = |a: f64, b: f64, what: &str| assert!((a - b).abs() < 1e-6 * b.abs(), "{what}: {a} instead of {b}");
    let [mut inflated, mut unseen] = [0.0f64; 2];
    for row in (0..rows.target.len()).step_by(STRIDE) {
        // What no feature carries does not depend on the rows: it is the rest of a prediction's variance.
        let carried = held.variance(row, None, 1.0);
        let rest = predicted.latent_variance[row] / unit - carried;
        assert!(rest > -1e-9 * carried, "row {row}: {rest}");
        let without = held.variance(row, Some(row), 1.0);
        let expected = unit * (without + rest);
        close(diagnostics.loo_latent_variance[row], expected, "leave-one-out variance");
        let deviation = (regression.inlier_variance() + expected).sqrt();
        close(diagnostics.z[row], diagnostics.loo_residual[row] / deviation, "z");
        inflated = inflated.max(1.0 - held.variance(row, Some(row), regression.model().noise_inflation()) / without);
        unseen = unseen.max(rest / (without + rest));
    }
    let is_flagged = |row: usize| diagnostics.z[row].abs() > diagnostics.threshold;
    if diagnostics.outlier_probability.is_none() {
        assert_eq!(diagnostics.flagged, (0..rows.target.len()).map(is_flagged).collect::<Vec<_>>());
    }
    // Intervals are those that predictions with these variances have.
    let own = robustard::engine::Prediction::new(
        diagnostics.predicted.clone(),
        diagnostics.loo_latent_variance.clone(),
        *predicted.noise(),
    );
    for level in [0.5, 0.8, 0.95] {
        let interval = own.interval(level).unwrap();
        let is_inside = |row: &usize| (interval.lower[*row]..=interval.upper[*row]).contains(&rows.target[*row]);
        let weight = &diagnostics.weight;
        let inside: f64 = (0..rows.target.len()).filter(is_inside).map(|row| weight[row]).sum();
        close(regression.coverage(level), inside / weight.iter().sum::<f64>(), "coverage");
    }
    [inflated, unseen]
}

#[test]
fn left_out_rows_of_a_curve_have_the_variance_between_centres() {
    let rows = bent(1500);
    let regression = rows.fit(&given("smooth:50", Noise::Shared));
    let [_, unseen] = compare(&regression, &rows);
    assert!(unseen > 0.5, "{unseen}");
}

#[test]
fn left_out_rows_have_the_variance_that_robust_noise_adds() {
    let rows = lines();
    let regression = rows.fit(&given("linear", Noise::StudentT(Degrees::Fixed(3.0))));
    assert!(matches!(regression.model().noise(), NoiseModel::StudentT(_)));
    assert!(regression.model().noise_inflation() > 1.02, "{}", regression.model().noise_inflation());
    let [inflated, unseen] = compare(&regression, &rows);
    assert!(inflated > 0.02 && unseen < 1e-9, "{inflated} {unseen}");
}

#[test]
fn a_curve_with_robust_noise_has_both() {
    let rows = bent(600);
    let regression = rows.fit(&given("smooth:50", Noise::StudentT(Degrees::Fixed(3.0))));
    assert_eq!(regression.settings().base_noise, BaseNoise::Inlier);
    let [inflated, unseen] = compare(&regression, &rows);
    assert!(inflated > 0.02 && unseen > 0.2, "{inflated} {unseen}");
}

/// One number, whoever is asked.
#[test]
fn there_is_one_coverage() {
    let weights: Vec<f64> = (0..200).map(|i| 1.0 + f64::from(i % 3)).collect();
    let rows = common::waves(200, 2.0, 20);
    let default = robustard::Recipe::default();
    let chosen = rows.fit(&default);
    assert_eq!(chosen.set_aside().len(), 20);
    let dataset = rows.dataset().with_weights(weights).unwrap();
    let control = robustard::Control::new();
    let weighted = robustard::fit(&dataset, &given("linear", Noise::Contaminated), &control).unwrap();
    for regression in [chosen, weighted, lines().fit(&given("linear", Noise::default()))] {
        let coverage = regression.coverage(0.95);
        assert!(coverage > 0.8 && coverage <= 1.0, "{coverage}");
        assert_eq!(coverage, regression.quality().coverage_95);
        assert_eq!(coverage, regression.coverages(&[0.5, 0.95])[1]);
        assert_eq!(coverage, regression.coverages(&[0.95])[0]);
    }
}

/// Two equal rows have one value: their covariance is their variance, inside the range and beyond it.
#[test]
fn covariances_have_what_variances_have() {
    let rows = bent(300);
    let regression = rows.fit(&given("smooth:40", Noise::Shared));
    let inputs = rows.inputs.ncols();
    let new = Mat::from_fn(4, inputs, |i, _| [0.3, 0.3, 9.0, 9.0][i]);
    let covariance = regression.latent_covariance(new.as_ref()).unwrap();
    let prediction = regression.predict(new.as_ref()).unwrap();
    for pair in [0, 2] {
        let variance = prediction.latent_variance[pair];
        for (i, j) in [(pair, pair), (pair, pair + 1), (pair + 1, pair)] {
            assert!((covariance[(i, j)] / variance - 1.0).abs() < 1e-9, "{i} {j}: {} {variance}", covariance[(i, j)]);
        }
    }
    assert!(covariance[(2, 2)] > 4.0 * covariance[(0, 0)]);
}
