//! Data sets that tests share.
#![allow(dead_code)] // each test program takes what it needs

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use robustard::faer::Mat;
use robustard::features::FeatureKind;
use robustard::{Choice, Control, Dataset, Noise, Reason, Recipe, Regression, Selection, fit};

/// Inputs (n × p) and target.
#[derive(Debug, Clone)]
pub struct Rows {
    pub inputs: Mat<f64>,
    pub target: Vec<f64>,
}

impl Rows {
    /// p inputs and a target of each row.
    pub fn of<const P: usize>(rows: impl Iterator<Item = ([f64; P], f64)>) -> Self {
        let (inputs, target): (Vec<[f64; P]>, Vec<f64>) = rows.unzip();
        Self { inputs: Mat::from_fn(inputs.len(), P, |i, j| inputs[i][j]), target }
    }

    pub fn dataset(&self) -> Dataset<'_> {
        Dataset::new(self.inputs.as_ref(), &self.target).unwrap()
    }

    /// Fitted as a recipe says, with nobody watching.
    pub fn fit(&self, recipe: &Recipe) -> Regression {
        fit(&self.dataset(), recipe, &Control::new()).unwrap()
    }
}

/// These features and this noise.
pub fn given(features: &str, noise: Noise) -> Recipe {
    Recipe::new(Choice::Given(kind(features)), Choice::Given(noise)).unwrap()
}

pub fn kind(features: &str) -> FeatureKind {
    features.parse().unwrap()
}

pub fn normal(rng: &mut ChaCha8Rng) -> f64 {
    rng.sample(StandardNormal)
}

/// Friedman's first function of ten uniform inputs, of which five matter, with noise of variance 1; a share of the rows is off
/// by 30.
pub fn friedman(rows: usize, wrong: f64, seed: u64) -> Rows {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let every = if wrong > 0.0 { (1.0 / wrong).round() as usize } else { usize::MAX };
    Rows::of((0..rows).map(|i| {
        let x: [f64; 10] = std::array::from_fn(|_| rng.random());
        let curve = 10.0 * (std::f64::consts::PI * x[0] * x[1]).sin() + 20.0 * (x[2] - 0.5).powi(2);
        let error = if (i + 1).is_multiple_of(every) { 30.0 } else { 0.0 };
        (x, curve + 10.0 * x[3] + 5.0 * x[4] + normal(&mut rng) + error)
    }))
}

/// Two inputs on a line or a curve, with a little noise; the first rows are off by 8.
pub fn waves(rows: usize, curve: f64, wrong: usize) -> Rows {
    Rows::of((0..rows).map(|i| {
        let (x, z) = ((i as f64 * 0.7).sin() * 2.0, (i as f64 * 1.9).cos());
        let noise = 0.3 * ((i * i) as f64 * 0.37).sin() + 0.3 * ((i * i) as f64 * 0.73).cos();
        let error = if i < wrong { 8.0 } else { 0.0 };
        ([x, z], x - z + curve * (2.0 * x).sin() + noise + error)
    }))
}

/// The coefficient of an input in the user's units.
pub fn coefficient(regression: &Regression, input: usize) -> f64 {
    regression.features_in_units()[input].coefficient
}

/// The flagged rows, in order.
pub fn flagged(regression: &Regression) -> Vec<usize> {
    let mut rows = regression.diagnostics().flagged_rows();
    rows.sort_unstable();
    rows
}

/// The default's fit, whatever is tested of it: no row within its 95% interval is called wrong.
pub fn choose(rows: &Rows) -> Regression {
    let regression = rows.fit(&Recipe::default());
    for reason in &selection(&regression).reasons {
        if let Reason::GrossErrorsSetAside { limit, .. } = reason {
            assert!(*limit > 1.9, "{reason:?}");
        }
    }
    regression
}

pub fn selection(regression: &Regression) -> &Selection {
    regression.selection().unwrap()
}
