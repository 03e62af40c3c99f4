use faer::linalg::matmul::triangular::{BlockStructure, matmul as triangular_matmul};
use faer::{Accum, Mat, MatRef, Par};
use serde::{Deserialize, Serialize};

use super::range::Range;
use super::{FeatureError, Training, check_columns};
use crate::learn::{Curve, CurveOptions, Effort, LearningNoise, LearntCurve, NotLearnt, Shape, learn_curve};
use crate::posterior::Factor;
use crate::predictive::LeftOut;
use crate::solver::Start;

/// Most centres when no number is given; larger tables have fewer, so that rows × centres² stays below [`MOST_WORK`].
const MOST_CENTRES: usize = 1000;
const LEAST_CENTRES: usize = 256;
const MOST_WORK: f64 = 2e9;
/// More inputs than these get no curves of their own, only the joint one.
const MOST_SINGLES: usize = 40;
/// Added to the centres' kernel matrix, relative to its diagonal: equal rows are no harm.
const JITTER: f64 = 1e-8;

/// The inputs themselves, and a smooth curve: a joint part that depends on all inputs and one that adds up curves of single
/// inputs, with learnt lengthscales. The curve is a Gaussian process seen from some training rows, the centres Z: its features are
/// κ(x, Z) L⁻ᵀ with κ(Z, Z) = LLᵀ, whose weights have one precision. With a centre on every row they are the whole process.
/// Beyond the range of the training rows an input counts as at its border.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Smooth {
    /// Covariance of the curve.
    pub curve: Curve,
    /// Range of the training rows.
    pub range: Range,
    /// Z, one centre after the other.
    pub centres: Vec<f64>,
    /// L⁻¹, columns of its lower triangle, one after the other.
    pub inverse_factor: Vec<f64>,
}

/// How far a row lies from what the features know.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gap {
    /// Prior variance of the curve that no feature carries, in units of 1/γ of the curve's weights.
    pub curve: f64,
    /// Squared distance beyond the range, in units of 1/γ of the lines' weights.
    pub line: f64,
}

/// A learnt curve with what became known on the way.
#[derive(Debug, Clone)]
pub struct LearntSmooth {
    /// The features.
    pub smooth: Smooth,
    /// Where the fit of the features should start.
    pub start: Start,
    /// Errors of all rows: of those that the curve was learnt from, each without itself.
    pub left_out: LeftOut,
    /// Bound on the log evidence, per row learnt from.
    pub evidence: f64,
    /// Rows learnt from.
    pub rows: usize,
    learnt: LearntCurve,
}

/// How a smooth curve is learnt.
#[derive(Debug, Clone, Copy)]
pub struct SmoothOptions<'a> {
    /// Training rows that the curve is seen from; by the size of the table if none is given.
    pub centres: Option<usize>,
    /// Seed of the rows that are learnt from.
    pub seed: u64,
    /// Whether to give up when a curve is hardly better than lines.
    pub must_bend: bool,
    /// How much work is put into it.
    pub effort: Effort,
    /// A curve learnt from the same rows, perhaps with other noise or weights, to go on from.
    pub from: Option<&'a LearntSmooth>,
}

impl Smooth {
    /// Learns the curve for standardized inputs.
    pub fn learn(
        inputs: MatRef<'_, f64>,
        training: &Training<'_>,
        options: &SmoothOptions<'_>,
    ) -> Result<LearntSmooth, FeatureError> {
        let n = inputs.nrows();
        let range = Range::of(inputs);
        let held = range.hold(inputs);
        let singles: Vec<usize> = (0..inputs.ncols()).filter(|&input| has_more_than_two_values(&held, input)).collect();
        let curve_options = CurveOptions {
            shape: Shape::Matern,
            singles: if singles.len() > MOST_SINGLES { Vec::new() } else { singles },
            per_input: true,
            seed: options.seed,
            noise: LearningNoise { kind: training.noise, prior: training.noise_prior },
            must_bend: options.must_bend,
            effort: options.effort,
            stop: training.stop.clone(),
        };
        let from = options.from.map(|from| &from.learnt);
        let learnt =
            learn_curve(held.as_ref(), training.target, training.row_weight, &curve_options, from, Par::rayon(0));
        let learnt = learnt.map_err(|reason| match reason {
            NotLearnt::Failed => FeatureError::NotLearnt,
            NotLearnt::Straight { gain, rows } => FeatureError::Straight { gain, rows },
        })?;
        let fitting = ((MOST_WORK / n as f64).sqrt() as usize).clamp(LEAST_CENTRES, MOST_CENTRES);
        let rows = &learnt.order[..options.centres.unwrap_or(fitting).min(n)];
        let centres = Mat::from_fn(rows.len(), inputs.ncols(), |i, j| held[(rows[i], j)]);
        let smooth = Self::seen_from(centres.as_ref(), learnt.curve.clone(), range)?;
        let start = Start {
            weight_precision: vec![1.0 / learnt.line_variance, 1.0],
            noise: learnt.noise,
            noise_variance: learnt.noise_variance.clone(),
        };
        let (left_out, evidence) = (learnt.left_out.clone(), learnt.evidence);
        Ok(LearntSmooth { smooth, start, left_out, evidence, rows: learnt.rows, learnt })
    }

    fn seen_from(centres: MatRef<'_, f64>, curve: Curve, range: Range) -> Result<Self, FeatureError> {
        let size = centres.nrows();
        let mut kernel = curve.matrix(centres, centres);
        (0..size).for_each(|i| kernel[(i, i)] *= 1.0 + JITTER);
        let mut factor = Factor::new(size, Par::Seq);
        factor.factorise(kernel.as_ref()).map_err(|_| FeatureError::NotLearnt)?;
        factor.invert();
        let inverse = factor.inverse();
        Ok(Self {
            inverse_factor: (0..size).flat_map(|j| (j..size).map(move |i| inverse[(i, j)])).collect(),
            centres: centres.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<_>>()).collect(),
            curve,
            range,
        })
    }

    /// Number of centres.
    pub fn size(&self) -> usize {
        self.centres.len() / self.inputs().max(1)
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.range.low.len()
    }

    /// Whether the parts agree about the number of inputs and of centres.
    pub(super) fn is_consistent(&self, inputs: usize) -> bool {
        let Curve { scales, singles, single_scales, .. } = &self.curve;
        let size = self.size();
        self.range.is_consistent(inputs)
            && inputs > 0
            && scales.len() == inputs
            && singles.len() == single_scales.len()
            && singles.iter().all(|&input| input < inputs)
            && self.centres.len() == size * inputs
            && size.checked_mul(size + 1).map(|twice| twice / 2) == Some(self.inverse_factor.len())
    }

    /// n × (inputs + centres): the inputs, then the curve.
    pub fn transform(&self, inputs: MatRef<'_, f64>) -> Result<Mat<f64>, FeatureError> {
        check_columns(self.inputs(), inputs)?;
        let held = self.range.hold(inputs);
        let (n, p, m) = (held.nrows(), held.ncols(), self.size());
        let centres = MatRef::from_row_major_slice(&self.centres, m, p);
        let kernel = self.curve.matrix(held.as_ref(), centres);
        let mut values = self.inverse_factor.iter();
        let mut inverse = Mat::<f64>::zeros(m, m);
        for j in 0..m {
            inverse.col_as_slice_mut(j)[j..].iter_mut().for_each(|v| *v = *values.next().unwrap_or(&0.0));
        }
        let mut all = Mat::zeros(n, p + m);
        all.as_mut().subcols_mut(0, p).copy_from(&held);
        triangular_matmul(
            all.as_mut().subcols_mut(p, m),
            BlockStructure::Rectangular,
            Accum::Replace,
            kernel.as_ref(),
            BlockStructure::Rectangular,
            inverse.transpose(),
            BlockStructure::TriangularUpper,
            1.0,
            Par::rayon(0),
        );
        Ok(all)
    }

    /// The gap of each row, given its features.
    pub(super) fn gaps(&self, inputs: MatRef<'_, f64>, features: MatRef<'_, f64>) -> Vec<Gap> {
        let (p, prior) = (self.inputs(), self.curve.prior_variance());
        let held = self.range.hold(inputs);
        (0..inputs.nrows())
            .map(|i| {
                let carried = features.row(i).subcols(p, features.ncols() - p).squared_norm_l2();
                let [x, border] = [inputs, held.as_ref()].map(|m| m.row(i).iter().copied().collect::<Vec<f64>>());
                let line: f64 = x.iter().zip(&border).map(|(x, border)| (x - border).powi(2)).sum();
                // The variance between here and the border, where the curve is looked at.
                let beyond = if line > 0.0 { 2.0 * (prior - self.curve.between(&x, &border)) } else { 0.0 };
                Gap { curve: (prior - carried).max(0.0) + beyond, line }
            })
            .collect()
    }
}

/// One of two values has no curve.
fn has_more_than_two_values(inputs: &Mat<f64>, column: usize) -> bool {
    let column = inputs.col_as_slice(column);
    let first = column.first().copied().unwrap_or(0.0);
    match column.iter().find(|value| **value != first) {
        None => false,
        Some(second) => column.iter().any(|value| *value != first && value != second),
    }
}
