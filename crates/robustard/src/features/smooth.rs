use std::collections::HashMap;

use faer::{Accum, Mat, MatMut, MatRef, Par};
use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;
use robustard_engine::LeftOut;
use robustard_engine::Start;
use robustard_engine::math::cholesky::Factor;
use robustard_engine::math::product::{BlockStructure, matmul, triangular_matmul};
use serde::{Deserialize, Serialize};

use super::{FeatureError, Gap, Kind, Learnt, Lengthscale, Map, Training, count_in, write_inputs};
use crate::control::par;
use crate::learn::{Curve, CurveOptions, Effort, LearntCurve, NotLearnt, Relevance, Shape, learn_curve};
use crate::range::{Range, Reach};
use crate::triangle::Triangle;

/// Most centres when no number is given. Tables on which choices are made have fewer, so that rows × centres² stays below
/// [`WORK_OF_CHOICE`]; a fit to all rows of a large table, which is made once, may take [`MOST_WORK`].
const MOST_CENTRES: usize = 1500;
const LEAST_CENTRES: usize = 256;
const WORK_OF_CHOICE: f64 = 2e10;
const MOST_WORK: f64 = 1e11;
/// More inputs than these get no curves of their own, only the joint one.
const MOST_SINGLES: usize = 40;
/// Added to the centres' kernel matrix, relative to its diagonal: equal rows are no harm. It acts as noise, and is less than the least that
/// is learnt.
const JITTER: f64 = 1e-11;

/// The inputs, and a smooth curve with learnt lengthscales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SmoothKind {
    /// How many training rows the curve is seen from; by the size of the table if none is given.
    centres: Option<usize>,
}

impl SmoothKind {
    /// How many of so many rows are centres.
    fn centres_among(&self, rows: usize, most_work: f64) -> usize {
        let fitting = ((most_work / rows as f64).sqrt() as usize).clamp(LEAST_CENTRES, MOST_CENTRES);
        self.centres.unwrap_or(fitting).min(rows)
    }
}

/// The inputs themselves, and a smooth curve: a joint part that depends on all inputs and one that adds up curves of single
/// inputs and surfaces of pairs of them, with learnt lengthscales. The curve is a Gaussian process seen from some training rows, the centres Z: its features are
/// κ(x, Z) L⁻ᵀ with κ(Z, Z) = LLᵀ, whose weights have one precision. With a centre on every row they are the whole process.
/// Beyond the range of the training rows an input counts as at its border.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SmoothMap {
    /// Covariance of the curve.
    curve: Curve,
    /// Range of the training rows.
    range: Range,
    /// Z, one centre after the other.
    centres: Vec<f64>,
    /// L⁻¹.
    inverse_factor: Triangle,
}

impl Kind for SmoothKind {
    type Map = SmoothMap;
    const NAME: &'static str = "smooth";
    const USAGE: &'static str = "smooth[:CENTRES] (1 to 10000)";

    fn parse(argument: Option<&str>) -> Option<Self> {
        let centres = argument.map(|centres| count_in(centres, 1..=10_000).ok_or(())).transpose();
        Some(Self { centres: centres.ok()? })
    }

    fn argument(&self) -> Option<String> {
        self.centres.map(|centres| centres.to_string())
    }

    fn learns(&self, _lengthscale: Lengthscale) -> bool {
        true
    }

    fn learn(&self, training: &Training<'_>) -> Result<Learnt<SmoothMap>, FeatureError> {
        let options = SmoothOptions { effort: Effort::Whole, ..Default::default() };
        let learnt = learn_smooth(training, &options)?;
        Ok(Learnt { map: learnt.map(*self, training.inputs)?, start: Some(learnt.start) })
    }
}

/// A learnt curve with what became known on the way.
#[derive(Debug, Clone)]
pub(crate) struct LearntSmooth {
    /// Where the fit of the features should start.
    pub start: Start,
    /// Errors of all rows: of those that the curve was learnt from, each without itself.
    pub left_out: LeftOut,
    /// Bound on the log evidence, per row learnt from.
    pub evidence: f64,
    /// Rows learnt from.
    pub rows: usize,
    range: Range,
    learnt: LearntCurve,
}

impl LearntSmooth {
    /// Shape of the curve's joint part.
    pub fn shape(&self) -> Shape {
        self.learnt.curve.shape
    }

    /// The features, of standardized inputs.
    pub fn map(&self, kind: SmoothKind, inputs: MatRef<'_, f64>) -> Result<SmoothMap, FeatureError> {
        let rows = &self.learnt.order[..kind.centres_among(inputs.nrows(), WORK_OF_CHOICE)];
        let centres = Mat::from_fn(rows.len(), inputs.ncols(), |i, j| inputs[(rows[i], j)]);
        SmoothMap::seen_from(self.range.hold(centres.as_ref()).as_ref(), self.learnt.curve.clone(), self.range.clone())
    }

    /// Rows that the curve was not learnt from, whose errors are so many times as large as any of those that it was; some rows have no say.
    pub fn rare_errors(&self, times: f64, silent: &[usize]) -> Vec<usize> {
        let (known, others) = self.learnt.order.split_at(self.rows);
        let error = |row: usize| self.left_out.residual[row].abs();
        let known = known.iter().filter(|row| !silent.contains(row));
        let largest = known.map(|&row| error(row)).fold(0.0, f64::max);
        let mut rows: Vec<usize> = others.iter().copied().filter(|&row| error(row) > times * largest).collect();
        rows.sort_unstable();
        rows
    }

    /// Log densities of rows that the curve was not learnt from; where there are few of those, of all rows, each without itself.
    pub fn held_out_densities(&self) -> Vec<f64> {
        /// So many rows tell curves apart.
        const ENOUGH: usize = 100;
        let (known, others) = self.learnt.order.split_at(self.rows);
        let rows = if others.len() >= ENOUGH { others } else { known };
        self.densities_of(rows)
    }

    /// The same of the rows that it was learnt from, each without itself.
    pub fn left_out_densities(&self) -> Vec<f64> {
        self.densities_of(&self.learnt.order[..self.rows])
    }

    fn densities_of(&self, rows: &[usize]) -> Vec<f64> {
        let inlier = self.start.noise.variance(0.0);
        let density = |&row: &usize| {
            self.start.noise.log_density(self.left_out.residual[row], self.left_out.latent_variance[row], inlier)
        };
        rows.iter().map(density).collect()
    }
}

/// How a smooth curve is learnt.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SmoothOptions<'a> {
    /// Whether to give up when a curve is hardly better than lines.
    pub must_bend: bool,
    /// How much work is put into it.
    pub effort: Effort,
    /// A curve learnt from the same rows, perhaps with other noise or weights, to go on from.
    pub from: Option<&'a LearntSmooth>,
    /// A curve to start at.
    pub start: Option<&'a Curve>,
    /// What is known of the inputs from all rows.
    pub relevance: Option<&'a Relevance>,
    /// Shape of the joint part; that of the curve to go on from or to start at if none is given.
    pub shape: Option<Shape>,
}

/// Learns the curve for standardized inputs.
pub(crate) fn learn_smooth(training: &Training<'_>, options: &SmoothOptions<'_>) -> Result<LearntSmooth, FeatureError> {
    let inputs = training.inputs;
    let before = options.from.map(|from| &from.learnt.curve).or(options.start);
    let shape = options.shape.or(before.map(|curve| curve.shape)).unwrap_or(Shape::Matern);
    let range = Range::of(inputs, training.levels, reach(shape, training.has_transformed_target));
    let held = range.hold(inputs);
    // Of the inputs as they are: how far they are held depends on the shape, and a curve may go on from one of another shape.
    let singles: Vec<usize> = (0..inputs.ncols()).filter(|&input| has_more_than_two_values(inputs, input)).collect();
    let curve_options = CurveOptions {
        shape,
        lengthscales: lengthscales(inputs.ncols(), training.levels),
        lines: range.line_groups(),
        singles: if singles.len() > MOST_SINGLES { Vec::new() } else { singles },
        per_input: true,
        seed: training.seed,
        noise: training.noise,
        least_variance: training.least_variance,
        must_bend: options.must_bend,
        effort: options.effort,
        start: options.start,
        relevance: options.relevance,
        control: training.control,
    };
    let from = options.from.map(|from| &from.learnt);
    let learnt = learn_curve(held.as_ref(), training.target, training.row_weight, &curve_options, from, par());
    let learnt = learnt.map_err(|reason| match reason {
        NotLearnt::Failed => FeatureError::NotLearnt,
        NotLearnt::Straight { gain, rows } => FeatureError::Straight { gain, rows },
    })?;
    let start = Start {
        weight_precision: learnt.line_variances.iter().map(|variance| 1.0 / variance).chain([1.0]).collect(),
        noise: learnt.noise,
        noise_variance: learnt.noise_variance.clone(),
    };
    let (left_out, evidence) = (learnt.left_out.clone(), learnt.evidence);
    Ok(LearntSmooth { start, left_out, evidence, rows: learnt.rows, range, learnt })
}

impl SmoothMap {
    fn seen_from(centres: MatRef<'_, f64>, curve: Curve, range: Range) -> Result<Self, FeatureError> {
        let size = centres.nrows();
        let mut kernel = curve.matrix(centres, centres, par());
        (0..size).for_each(|i| kernel[(i, i)] *= 1.0 + JITTER);
        let mut factor = Factor::new(size, Par::Seq);
        factor.factorise(kernel.as_ref()).map_err(|_| FeatureError::NotLearnt)?;
        factor.invert();
        Ok(Self {
            inverse_factor: Triangle::of(factor.inverse()),
            centres: centres.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<_>>()).collect(),
            curve,
            range,
        })
    }

    /// The same curve for more rows (n × p, standardized), seen from some of them.
    pub(crate) fn again(
        &self,
        kind: SmoothKind,
        inputs: MatRef<'_, f64>,
        levels: &[Option<usize>],
        seed: u64,
        all_rows: u64,
    ) -> Result<Self, FeatureError> {
        let n = inputs.nrows();
        let centres = kind.centres_among(usize::try_from(all_rows).unwrap_or(usize::MAX), MOST_WORK).min(n);
        let rows = sample(&mut ChaCha8Rng::seed_from_u64(seed), n, centres).into_vec();
        let range = Range::of(inputs, levels, reach(self.curve.shape, self.range.ends_at_the_border()));
        let centres = range.hold(Mat::from_fn(rows.len(), inputs.ncols(), |i, j| inputs[(rows[i], j)]).as_ref());
        Self::seen_from(centres.as_ref(), self.curve.clone(), range)
    }

    /// Covariance of the curve.
    pub(crate) fn curve(&self) -> &Curve {
        &self.curve
    }

    /// The centres, one per row.
    pub(super) fn centres(&self) -> MatRef<'_, f64> {
        MatRef::from_row_major_slice(&self.centres, self.size(), self.inputs())
    }

    /// Standardized rows as the curve takes them.
    pub(super) fn held(&self, inputs: MatRef<'_, f64>) -> Mat<f64> {
        self.range.hold(inputs)
    }

    /// The same of some inputs alone.
    pub(super) fn held_inputs(&self, inputs: &[usize], values: MatRef<'_, f64>) -> Mat<f64> {
        self.range.some(inputs).hold(values)
    }

    /// Features of rows, by their inputs and covariances with the centres (columns), or of sums of such rows.
    pub(super) fn features_of(&self, basis: MatRef<'_, f64>) -> Mat<f64> {
        let (p, m) = (self.inputs(), self.size());
        let mut features = basis.to_owned();
        triangular_matmul(
            features.as_mut().subrows_mut(p, m),
            BlockStructure::Rectangular,
            Accum::Replace,
            self.inverse_factor.matrix(),
            BlockStructure::TriangularLower,
            basis.subrows(p, m),
            BlockStructure::Rectangular,
            1.0,
            Par::Seq,
        );
        features
    }

    /// Number of centres.
    fn size(&self) -> usize {
        self.centres.len() / self.inputs().max(1)
    }

    fn inputs(&self) -> usize {
        self.range.low.len()
    }
}

impl Map for SmoothMap {
    fn count(&self, _inputs: usize) -> usize {
        self.inputs() + self.size()
    }

    fn write(&self, inputs: MatRef<'_, f64>, mut features: MatMut<'_, f64>, par: Par) {
        let held = self.range.hold(inputs);
        let (p, m) = (held.ncols(), self.size());
        write_inputs(held.as_ref(), features.as_mut());
        let kernel = self.curve.matrix(held.as_ref(), MatRef::from_row_major_slice(&self.centres, m, p), par);
        triangular_matmul(
            features.subrows_mut(p, m).transpose_mut(),
            BlockStructure::Rectangular,
            Accum::Replace,
            kernel.as_ref(),
            BlockStructure::Rectangular,
            self.inverse_factor.matrix().transpose(),
            BlockStructure::TriangularUpper,
            1.0,
            par,
        );
    }

    /// The lines' weights, and L⁻ᵀ times the curve's: weights of the covariances with the centres.
    fn fold(&self, weights: &[f64]) -> Option<Vec<f64>> {
        let (lines, curve) = weights.split_at(self.inputs());
        let functions = self.inverse_factor.matrix().col_iter().map(|column| {
            let values = column.iter().zip(curve);
            values.map(|(factor, weight)| factor * weight).sum::<f64>()
        });
        Some(lines.iter().copied().chain(functions).collect())
    }

    fn folded_sums(&self, inputs: MatRef<'_, f64>, folded: &[f64], par: Par) -> Vec<f64> {
        let held = self.range.hold(inputs);
        let (lines, functions) = folded.split_at(self.inputs());
        let centres = MatRef::from_row_major_slice(&self.centres, self.size(), self.inputs());
        let line = |i: usize| held.row(i).iter().zip(lines).map(|(x, weight)| x * weight).sum::<f64>();
        let mut sums: Vec<f64> = (0..held.nrows()).map(line).collect();
        let rows = sums.len();
        matmul(
            MatMut::from_column_major_slice_mut(&mut sums, rows, 1),
            Accum::Add,
            self.curve.matrix(held.as_ref(), centres, par).as_ref(),
            MatRef::from_column_major_slice(functions, functions.len(), 1),
            1.0,
            Par::Seq, // the same for any number of threads
        );
        sums
    }

    fn names(&self, inputs: &[String]) -> Vec<String> {
        inputs.iter().cloned().chain((1..=self.size()).map(|k| format!("curve {k}"))).collect()
    }

    fn groups(&self, inputs: &[usize]) -> Vec<usize> {
        let mut groups = self.range.line_groups();
        let curve = groups.iter().max().map_or(0, |last| last + 1);
        groups.resize(inputs.len() + self.size(), curve);
        groups
    }

    fn is_consistent(&self, inputs: usize) -> bool {
        let Curve { scales, singles, single_scales, .. } = &self.curve;
        self.range.is_consistent(inputs)
            && inputs > 0
            && scales.len() == inputs
            && singles.len() == single_scales.len()
            && singles.iter().all(|&input| input < inputs)
            && self.centres.len() == self.size() * inputs
            && self.inverse_factor.size() == self.size()
    }

    fn range(&self) -> Option<&Range> {
        Some(&self.range)
    }

    fn bends(&self) -> Option<Vec<f64>> {
        Some(self.curve.bends())
    }

    fn gaps(&self, inputs: MatRef<'_, f64>, features: MatRef<'_, f64>) -> Option<Vec<Gap>> {
        let (p, prior) = (self.inputs(), self.curve.prior_variance());
        let held = self.range.hold(inputs);
        let gap = |i: usize| {
            let carried = features.col(i).subrows(p, features.nrows() - p).squared_norm_l2();
            let [x, border] = [inputs, held.as_ref()].map(|m| m.row(i).iter().copied().collect::<Vec<f64>>());
            let line: f64 = x.iter().zip(&border).map(|(x, border)| (x - border).powi(2)).sum();
            // The variance between here and the border, where the curve is looked at.
            let beyond = if line > 0.0 { 2.0 * (prior - self.curve.between(&x, &border)) } else { 0.0 };
            Gap { curve: (prior - carried).max(0.0) + beyond, line }
        };
        Some((0..inputs.nrows()).map(gap).collect())
    }

    /// What the centres do not carry at the border, κ(b, b′) − φ(b)ᵀφ(b′), and the change from there to the row.
    fn gap_covariances(&self, inputs: MatRef<'_, f64>, features: MatRef<'_, f64>) -> Option<[Mat<f64>; 2]> {
        let (p, m) = (self.inputs(), inputs.nrows());
        let held = self.range.hold(inputs);
        let [at_border, across, at_row] = [(held.as_ref(), held.as_ref()), (inputs, held.as_ref()), (inputs, inputs)]
            .map(|(rows, others)| self.curve.matrix(rows, others, par()));
        let carried = features.subrows(p, features.nrows() - p);
        let curve = Mat::from_fn(m, m, |i, j| {
            let change = at_row[(i, j)] - across[(i, j)] - across[(j, i)] + at_border[(i, j)];
            let product = carried.col(i).iter().zip(carried.col(j).iter()).map(|(a, b)| a * b).sum::<f64>();
            at_border[(i, j)] - product + change
        });
        let off = |i: usize, k: usize| inputs[(i, k)] - held[(i, k)];
        let line = Mat::from_fn(m, m, |i, j| (0..p).map(|k| off(i, k) * off(j, k)).sum());
        Some([curve, line])
    }

    fn learnt_lengthscales(&self) -> usize {
        self.curve.lengthscales + self.curve.singles.len()
    }
}

/// How far out a curve is relied upon: one with few derivatives bends to single rows far out.
fn reach(shape: Shape, has_transformed_target: bool) -> Reach {
    let reach = match shape {
        Shape::Matern | Shape::Laplace => Reach::BEYOND.within_the_bulk(),
        Shape::Gauss => Reach::BEYOND,
    };
    // A line of a logarithm is an exponential.
    if has_transformed_target { reach.to_the_border() } else { reach }
}

/// The number of each input's lengthscale: the levels of a category share one.
fn lengthscales(inputs: usize, levels: &[Option<usize>]) -> Vec<usize> {
    let mut of_category = HashMap::new();
    let mut numbers = 0..;
    let mut next = || numbers.next().expect("numbers do not end");
    let number = |input: usize| match levels.get(input).copied().flatten() {
        Some(category) => *of_category.entry(category).or_insert_with(&mut next),
        None => next(),
    };
    (0..inputs).map(number).collect()
}

/// One of two values has no curve.
fn has_more_than_two_values(inputs: MatRef<'_, f64>, column: usize) -> bool {
    let mut values = inputs.col(column).iter();
    let Some(first) = values.next() else { return false };
    let mut others = values.filter(|value| *value != first);
    let Some(second) = others.next() else { return false };
    others.any(|value| value != second)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the centres do not carry of themselves is less than the least noise.
    #[test]
    fn centres_carry_the_curve_where_they_are() {
        let inputs = Mat::from_fn(300, 2, |i, j| ((i * (j + 3)) as f64 * 0.7).sin());
        let curve = Curve {
            shape: Shape::Gauss,
            scales: vec![0.5, 0.3],
            lengthscales: 2,
            variance: 5.0,
            singles: Vec::new(),
            single_scales: Vec::new(),
            single_variance: 0.0,
            pair_variance: 0.0,
        };
        let range = Range::of(inputs.as_ref(), &[], Reach::BEYOND);
        let map = SmoothMap::seen_from(inputs.as_ref(), curve, range).unwrap();
        let mut features = Mat::zeros(map.count(2), 300);
        map.write(inputs.as_ref(), features.as_mut(), Par::Seq);
        let gaps = map.gaps(inputs.as_ref(), features.as_ref()).unwrap();
        let largest = gaps.iter().map(|gap| gap.curve).fold(0.0, f64::max);
        assert!(largest < 1e-9, "{largest}");
    }
}
