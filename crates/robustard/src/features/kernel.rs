use std::cmp::Ordering;

use faer::{Mat, MatRef, Par};
use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{FeatureError, FeatureOptions, Lengthscale, Training, check_columns, check_positive};
use crate::learn::{Curve, CurveOptions, Effort, Grown, Growth, LearningNoise, LearntCurve, Shape, learn_curve};
use crate::solver::{Start, Stop};

/// Precision of the intercept, which is not shrunk, of a standardized target.
const INTERCEPT_PRECISION: f64 = 1e-8;
/// Shorter lengthscales are this one: the inverse must be finite.
const LEAST_LENGTH: f64 = 1e-150;

/// The kernel basis of the relevance vector machine: column j is exp(−Σₖ(xₖ − xⱼₖ)²/(2ℓₖ²)) for training row xⱼ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// The rows that the functions stand on, one after the other.
    pub centres: Vec<f64>,
    /// Which of the training rows they are.
    pub rows: Vec<usize>,
    /// ℓ, one per input.
    pub lengthscales: Vec<f64>,
}

impl Kernel {
    /// Puts one basis function on every row.
    pub fn fit(inputs: MatRef<'_, f64>, lengthscales: Vec<f64>) -> Result<Self, FeatureError> {
        lengthscales.iter().try_for_each(|length| check_positive("lengthscale", *length))?;
        check_columns(lengthscales.len(), inputs)?;
        let centres = inputs.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<_>>()).collect();
        Ok(Self { centres, rows: (0..inputs.nrows()).collect(), lengthscales })
    }

    /// The same, with the lengthscales of the Gaussian process that explains the rows best.
    pub fn learn(
        inputs: MatRef<'_, f64>,
        training: &Training<'_>,
        options: &FeatureOptions,
    ) -> Result<Self, FeatureError> {
        let distinct = Distinct::of(inputs, training);
        let noise = LearningNoise { kind: training.noise, prior: training.noise_prior };
        let rows = distinct.inputs(inputs);
        let learnt = distinct.learn_curve(rows.as_ref(), &distinct.target(training), noise, options, training.stop)?;
        Self::fit(inputs, lengthscales_of(&learnt.curve))
    }

    /// Puts functions where they raise the evidence, as few as that takes; the fit of them should start where the growth ended.
    /// Without a lengthscale, those of the Gaussian process that explains the rows best are taken.
    pub fn grow(
        inputs: MatRef<'_, f64>,
        training: &Training<'_>,
        lengthscale: Option<f64>,
        options: &FeatureOptions,
    ) -> Result<(Self, Start), FeatureError> {
        let distinct = Distinct::of(inputs, training);
        let (rows, weight) = (distinct.inputs(inputs), &distinct.weight);
        let target = distinct.target(training);
        let noise = LearningNoise { kind: training.noise, prior: training.noise_prior };
        let (lengthscales, known) = match lengthscale {
            Some(length) => (vec![length; inputs.ncols()], None),
            None => {
                let learnt = distinct.learn_curve(rows.as_ref(), &target, noise, options, training.stop)?;
                (lengthscales_of(&learnt.curve), Some((learnt.noise, learnt.noise_variance)))
            }
        };
        let whole = Self::fit(rows.as_ref(), lengthscales)?;
        let curve = whole.curve();
        let centres = distinct.centres(rows.as_ref());
        let order = sample(&mut ChaCha8Rng::seed_from_u64(options.seed), centres.len(), centres.len());
        let order: Vec<usize> = order.into_iter().map(|k| centres[k]).collect();
        let columns = |of: &[usize]| {
            let centres = Mat::from_fn(of.len(), rows.ncols(), |k, j| rows[(of[k], j)]);
            curve.matrix(rows.as_ref(), centres.as_ref())
        };
        let growth = Growth {
            columns: &columns,
            order: &order,
            target: &target,
            row_weight: weight,
            fixed: Mat::from_fn(target.len(), usize::from(options.centre), |_, _| 1.0),
            fixed_precision: vec![INTERCEPT_PRECISION; usize::from(options.centre)],
            noise,
            stop: training.stop.clone(),
            par: Par::rayon(0),
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
        let kernel = Self { centres, rows, lengthscales: whole.lengthscales };
        Ok((kernel, Start { weight_precision, noise, noise_variance }))
    }

    /// The kernel as a curve.
    fn curve(&self) -> Curve {
        Curve {
            shape: Shape::Gauss,
            scales: self.lengthscales.iter().map(|length| length.max(LEAST_LENGTH).recip()).collect(),
            variance: 1.0,
            singles: Vec::new(),
            single_scales: Vec::new(),
            single_variance: 0.0,
        }
    }

    /// Number of basis functions.
    pub fn size(&self) -> usize {
        self.centres.len() / self.lengthscales.len().max(1)
    }

    /// n × centres kernel values.
    pub fn transform(&self, inputs: MatRef<'_, f64>) -> Result<Mat<f64>, FeatureError> {
        check_columns(self.lengthscales.len(), inputs)?;
        let p = self.lengthscales.len();
        let centres = Mat::from_fn(self.size(), p, |k, j| self.centres[k * p + j]);
        Ok(self.curve().matrix(inputs, centres.as_ref()))
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
    fn of(inputs: MatRef<'_, f64>, training: &Training<'_>) -> Self {
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

    fn inputs(&self, inputs: MatRef<'_, f64>) -> Mat<f64> {
        Mat::from_fn(self.rows.len(), inputs.ncols(), |k, j| inputs[(self.rows[k], j)])
    }

    fn target(&self, training: &Training<'_>) -> Vec<f64> {
        self.rows.iter().map(|&row| training.target[row]).collect()
    }

    fn learn_curve(
        &self,
        rows: MatRef<'_, f64>,
        target: &[f64],
        noise: LearningNoise,
        options: &FeatureOptions,
        stop: &Stop,
    ) -> Result<LearntCurve, FeatureError> {
        let options = CurveOptions {
            shape: Shape::Gauss,
            singles: Vec::new(),
            per_input: options.lengthscale == Lengthscale::Each,
            seed: options.seed,
            noise,
            must_bend: false,
            effort: Effort::Whole,
            stop: stop.clone(),
        };
        learn_curve(rows, target, &self.curve_weight(), &options, None, Par::rayon(0))
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
        use crate::features::FeatureKind;
        use crate::noise::{NoiseKind, NoisePrior};
        let n = 50;
        let x = Mat::from_fn(n, 1, |i, _| ((i * 7) % n) as f64 / 10.0 - 2.5);
        let y: Vec<f64> = (0..n).map(|i| (1.5 * x[(i, 0)]).sin() + 0.1 * ((i * i) as f64).sin()).collect();
        let weight: Vec<f64> = (0..n).map(|i| 1.0 + (i % 3) as f64).collect();
        let grown = |x: &Mat<f64>, y: &[f64], weight: &[f64], lengthscale: Option<f64>| {
            let noise_prior = NoisePrior::StudentT(crate::Degrees::Fixed(4.0));
            let training = Training {
                target: y,
                row_weight: weight,
                noise: NoiseKind::PerRow,
                noise_prior,
                stop: &Stop::default(),
            };
            let (kind, lengths) = (FeatureKind::Kernel { all: false }, Lengthscale::Each);
            let options = FeatureOptions { kind, lengthscale: lengths, seed: 0, standardize: true, centre: true };
            Kernel::grow(x.as_ref(), &training, lengthscale, &options).unwrap()
        };
        let copies: Vec<usize> = (0..n).rev().flat_map(|i| std::iter::repeat_n(i, 1 + i % 3)).collect();
        let tall = Mat::from_fn(copies.len(), 1, |k, _| x[(copies[k], 0)]);
        let target: Vec<f64> = copies.iter().map(|&i| y[i]).collect();
        for lengthscale in [Some(0.7), None] {
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
        let k = Kernel::fit(x.as_ref(), vec![0.8; 2]).unwrap().transform(x.as_ref()).unwrap();
        for i in 0..5 {
            assert_eq!(k[(i, i)], 1.0);
            for j in 0..5 {
                assert_eq!(k[(i, j)], k[(j, i)]);
            }
        }
        assert!((k[(0, 1)] - (-0.5 * 0.18 / 0.64f64).exp()).abs() < 1e-15);
        assert!(Kernel::fit(x.as_ref(), vec![0.0; 2]).is_err());
        let fewer = x.as_ref().subcols(0, 1);
        assert!(Kernel::fit(x.as_ref(), vec![0.8; 2]).unwrap().transform(fewer).is_err());
    }
}
