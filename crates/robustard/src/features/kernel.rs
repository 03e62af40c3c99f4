use std::cmp::Ordering;

use faer::{Mat, MatMut, MatRef, Par};
use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;
use robustard_engine::Start;
use robustard_engine::growth::{Grown, Growth};
use serde::{Deserialize, Serialize};

use super::{FeatureError, Kind, Learnt, Lengthscale, Map, Training};
use crate::control::par;
use crate::learn::{Curve, CurveOptions, Effort, LearntCurve, Shape, learn_curve};

/// Precision of the intercept, which is not shrunk, of a standardized target.
const INTERCEPT_PRECISION: f64 = 1e-8;
/// Shorter lengthscales are this one: the inverse must be finite.
const LEAST_LENGTH: f64 = 1e-150;
const ALL: &str = "all";

/// Kernel functions on training rows: the relevance vector machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelKind {
    /// Whether there is one on every row, rather than where they raise the evidence.
    all: bool,
}

/// The kernel basis of the relevance vector machine: column j is exp(−Σₖ(xₖ − xⱼₖ)²/(2ℓₖ²)) for training row xⱼ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelMap {
    /// The rows that the functions stand on, one after the other.
    centres: Vec<f64>,
    /// Which of the training rows they are.
    rows: Vec<usize>,
    /// ℓ, one per input.
    lengthscales: Vec<f64>,
}

impl Kind for KernelKind {
    type Map = KernelMap;
    const NAME: &'static str = "rbf";
    const USAGE: &'static str = "rbf[:all]";

    fn parse(argument: Option<&str>) -> Option<Self> {
        match argument {
            None => Some(Self { all: false }),
            Some(ALL) => Some(Self { all: true }),
            Some(_) => None,
        }
    }

    fn argument(&self) -> Option<String> {
        self.all.then(|| ALL.to_owned())
    }

    fn learns(&self, lengthscale: Lengthscale) -> bool {
        lengthscale.is_learnt()
    }

    fn takes_lengthscale(&self) -> bool {
        true
    }

    fn has_own_precisions(&self, _lengthscale: Lengthscale) -> bool {
        true
    }

    fn counts_copies(&self) -> bool {
        true
    }

    fn learn(&self, training: &Training<'_>) -> Result<Learnt<KernelMap>, FeatureError> {
        let inputs = training.inputs.ncols();
        match training.lengthscale.fixed(inputs) {
            Some(length) if self.all => {
                Ok(Learnt { map: KernelMap::on_all(training.inputs, vec![length; inputs]), start: None })
            }
            None if self.all => {
                let distinct = Distinct::of(training);
                let rows = distinct.inputs(training);
                let learnt = distinct.learn_curve(rows.as_ref(), training)?;
                Ok(Learnt { map: KernelMap::on_all(training.inputs, lengthscales_of(&learnt.curve)), start: None })
            }
            given => grow(training, given),
        }
    }
}

/// Puts functions where they raise the evidence, as few as that takes; the fit of them should start where the growth ended.
/// Without a lengthscale, those of the Gaussian process that explains the rows best are taken.
fn grow(training: &Training<'_>, lengthscale: Option<f64>) -> Result<Learnt<KernelMap>, FeatureError> {
    let distinct = Distinct::of(training);
    let (rows, weight) = (distinct.inputs(training), &distinct.weight);
    let target = distinct.target(training);
    let (lengthscales, known) = match lengthscale {
        Some(length) => (vec![length; rows.ncols()], None),
        None => {
            let learnt = distinct.learn_curve(rows.as_ref(), training)?;
            (lengthscales_of(&learnt.curve), Some((learnt.noise, learnt.noise_variance)))
        }
    };
    let whole = KernelMap::on_all(rows.as_ref(), lengthscales);
    let curve = whole.curve();
    let centres = distinct.centres(rows.as_ref());
    let order = sample(&mut ChaCha8Rng::seed_from_u64(training.seed), centres.len(), centres.len());
    let order: Vec<usize> = order.into_iter().map(|k| centres[k]).collect();
    let columns = |of: &[usize]| {
        let centres = Mat::from_fn(of.len(), rows.ncols(), |k, j| rows[(of[k], j)]);
        curve.matrix(rows.as_ref(), centres.as_ref(), par())
    };
    let intercepts = usize::from(training.scaling.centre);
    let growth = Growth {
        columns: &columns,
        order: &order,
        target: &target,
        row_weight: weight,
        fixed: Mat::from_fn(target.len(), intercepts, |_, _| 1.0),
        fixed_precision: vec![INTERCEPT_PRECISION; intercepts],
        noise: training.noise,
        stop: training.control.stop().clone(),
        par: par(),
    };
    let mut grown = growth.grow(known).ok_or(FeatureError::NotLearnt)?;
    if grown.columns.is_empty() {
        // No function raises the evidence; the fit finds that one does not matter.
        (grown.columns, grown.weight_precision) = (vec![order[0]], vec![1.0]);
    }
    let Grown { columns, weight_precision, noise, noise_variance } = grown;
    let centres = columns.iter().flat_map(|&k| rows.row(k).iter().copied().collect::<Vec<_>>()).collect();
    let rows = columns.iter().map(|&k| distinct.rows[k]).collect();
    let noise_variance = distinct.place.iter().map(|&k| noise_variance[k]).collect();
    let map = KernelMap { centres, rows, lengthscales: whole.lengthscales };
    Ok(Learnt { map, start: Some(Start { weight_precision, noise, noise_variance }) })
}

impl KernelMap {
    /// One function on every row.
    fn on_all(inputs: MatRef<'_, f64>, lengthscales: Vec<f64>) -> Self {
        let centres = inputs.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<_>>()).collect();
        Self { centres, rows: (0..inputs.nrows()).collect(), lengthscales }
    }

    /// Which of the training rows the functions stand on.
    pub fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// The standardized inputs of the row that a function stands on.
    pub fn centre(&self, function: usize) -> &[f64] {
        let inputs = self.lengthscales.len();
        &self.centres[function * inputs..(function + 1) * inputs]
    }

    /// The kernel as a curve.
    fn curve(&self) -> Curve {
        Curve {
            shape: Shape::Gauss,
            lengthscales: self.lengthscales.len(),
            scales: self.lengthscales.iter().map(|length| length.max(LEAST_LENGTH).recip()).collect(),
            variance: 1.0,
            singles: Vec::new(),
            single_scales: Vec::new(),
            single_variance: 0.0,
            pair_variance: 0.0,
        }
    }

    /// Number of functions.
    pub fn size(&self) -> usize {
        self.centres.len() / self.lengthscales.len().max(1)
    }
}

impl Map for KernelMap {
    fn count(&self, _inputs: usize) -> usize {
        self.size()
    }

    fn write(&self, inputs: MatRef<'_, f64>, mut features: MatMut<'_, f64>, par: Par) {
        let centres = MatRef::from_row_major_slice(&self.centres, self.size(), self.lengthscales.len());
        features.copy_from(self.curve().matrix(inputs, centres, par).transpose());
    }

    fn names(&self, _inputs: &[String]) -> Vec<String> {
        self.rows.iter().map(|row| format!("row {}", row + 1)).collect()
    }

    fn groups(&self, _inputs: &[usize]) -> Vec<usize> {
        (0..self.size()).collect()
    }

    fn is_consistent(&self, inputs: usize) -> bool {
        self.lengthscales.len() == inputs
            && inputs > 0
            && inputs.checked_mul(self.rows.len()) == Some(self.centres.len())
    }
}

/// The rows without their copies, in an order that does not depend on that of the table.
struct Distinct {
    /// A row for each.
    rows: Vec<usize>,
    /// The weights of a row and its copies together, and how many they are.
    weight: Vec<f64>,
    copies: Vec<usize>,
    /// For each row of the table, its place.
    place: Vec<usize>,
    /// Whether weights count copies: they are all whole numbers.
    counts: bool,
}

impl Distinct {
    fn of(training: &Training<'_>) -> Self {
        let inputs = training.inputs;
        let n = inputs.nrows();
        let compare = |a: &usize, b: &usize| {
            compare_rows(inputs, *a, *b).then(training.target[*a].total_cmp(&training.target[*b]))
        };
        let mut sorted: Vec<usize> = (0..n).collect();
        sorted.sort_by(compare);
        let (mut rows, mut weight, mut place) = (Vec::new(), Vec::new(), vec![0; n]);
        let mut counts_of_copies = Vec::new();
        for copies in sorted.chunk_by(|a, b| compare(a, b).is_eq()) {
            copies.iter().for_each(|&row| place[row] = rows.len());
            rows.push(copies[0]);
            weight.push(copies.iter().map(|&row| training.row_weight[row]).sum());
            counts_of_copies.push(copies.len());
        }
        let counts = training.row_weight.iter().all(|weight| weight.fract() == 0.0);
        Self { rows, weight, copies: counts_of_copies, place, counts }
    }

    fn inputs(&self, training: &Training<'_>) -> Mat<f64> {
        let inputs = training.inputs;
        Mat::from_fn(self.rows.len(), inputs.ncols(), |k, j| inputs[(self.rows[k], j)])
    }

    fn target(&self, training: &Training<'_>) -> Vec<f64> {
        self.rows.iter().map(|&row| training.target[row]).collect()
    }

    fn learn_curve(&self, rows: MatRef<'_, f64>, training: &Training<'_>) -> Result<LearntCurve, FeatureError> {
        let options = CurveOptions {
            shape: Shape::Gauss,
            lengthscales: (0..rows.ncols()).collect(),
            lines: vec![0; rows.ncols()],
            singles: Vec::new(),
            per_input: training.lengthscale == Lengthscale::Each,
            seed: training.seed,
            noise: training.noise,
            least_variance: training.least_variance,
            must_bend: false,
            effort: Effort::Whole,
            start: None,
            relevance: None,
            control: training.control,
        };
        learn_curve(rows, &self.target(training), &self.curve_weight(), &options, None, par())
            .map_err(|_| FeatureError::NotLearnt)
    }

    /// Weights for learning lengthscales, where copies are no evidence: a curve would take the agreement of a row with itself
    /// for the absence of noise. Weights that are whole numbers are numbers of copies; others say how far a row is to be
    /// relied upon.
    fn curve_weight(&self) -> Vec<f64> {
        if self.counts {
            return vec![1.0; self.rows.len()];
        }
        let single: Vec<f64> = self.weight.iter().zip(&self.copies).map(|(w, copies)| w / *copies as f64).collect();
        let mean = single.iter().sum::<f64>() / single.len() as f64;
        single.iter().map(|weight| weight / mean).collect()
    }

    /// Places of rows (as [`Self::inputs`] gives them) that differ in their inputs.
    fn centres(&self, rows: MatRef<'_, f64>) -> Vec<usize> {
        let is_first = |k: &usize| *k == 0 || compare_rows(rows, *k - 1, *k).is_ne();
        (0..rows.nrows()).filter(is_first).collect()
    }
}

fn lengthscales_of(curve: &Curve) -> Vec<f64> {
    curve.scales.iter().map(|scale| 1.0 / scale).collect()
}

fn compare_rows(rows: MatRef<'_, f64>, a: usize, b: usize) -> Ordering {
    let values = rows.row(a).iter().zip(rows.row(b).iter());
    values.map(|(x, y)| x.total_cmp(y)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither the order of rows nor whether a row comes twice or counts twice changes what grows.
    #[test]
    fn copies_are_weights() {
        use crate::control::Control;
        use crate::features::Scaling;
        let n = 50;
        let x = Mat::from_fn(n, 1, |i, _| ((i * 7) % n) as f64 / 10.0 - 2.5);
        let y: Vec<f64> = (0..n).map(|i| (1.5 * x[(i, 0)]).sin() + 0.1 * ((i * i) as f64).sin()).collect();
        let weight: Vec<f64> = (0..n).map(|i| 1.0 + (i % 3) as f64).collect();
        let grown = |x: &Mat<f64>, y: &[f64], weight: &[f64], lengthscale: &str| {
            let training = Training {
                range: None,
                inputs: x.as_ref(),
                target: y,
                levels: &[],
                row_weight: weight,
                noise: robustard_engine::Noise::default(),
                least_variance: 0.0,
                has_transformed_target: false,
                lengthscale: lengthscale.parse().unwrap(),
                seed: 0,
                scaling: Scaling { standardize: true, centre: true },
                control: &Control::new(),
            };
            let Learnt { map, start } = KernelKind { all: false }.learn(&training).unwrap();
            (map, start.unwrap())
        };
        let copies: Vec<usize> = (0..n).rev().flat_map(|i| std::iter::repeat_n(i, 1 + i % 3)).collect();
        let tall = Mat::from_fn(copies.len(), 1, |k, _| x[(copies[k], 0)]);
        let target: Vec<f64> = copies.iter().map(|&i| y[i]).collect();
        for lengthscale in ["0.7", "each"] {
            let (once, start) = grown(&x, &y, &weight, lengthscale);
            let (copied, copied_start) = grown(&tall, &target, &vec![1.0; copies.len()], lengthscale);
            assert_eq!((&once.centres, &once.lengthscales), (&copied.centres, &copied.lengthscales));
            assert_eq!(start.weight_precision, copied_start.weight_precision);
            assert_eq!(start.noise_variance[copies[0]], copied_start.noise_variance[0]);
        }
    }

    #[test]
    fn kernel_is_symmetric_with_unit_diagonal() {
        let x = Mat::from_fn(5, 2, |i, j| (i + 2 * j) as f64 * 0.3);
        let mut k = Mat::zeros(5, 5);
        KernelMap::on_all(x.as_ref(), vec![0.8; 2]).write(x.as_ref(), k.as_mut(), Par::Seq);
        for i in 0..5 {
            assert_eq!(k[(i, i)], 1.0);
            for j in 0..5 {
                assert_eq!(k[(i, j)], k[(j, i)]);
            }
        }
        assert!((k[(0, 1)] - (-0.5 * 0.18 / 0.64f64).exp()).abs() < 1e-15);
    }
}
