//! The pool: columns whose inner products are known, and the posterior of those in use.

use crate::math::product::{matmul, solve_lower_triangular};
use faer::{Accum, Mat, Par};

use super::{Growth, LEAST_ENTRY_GAIN, VARIANCE_BOUNDS};
use crate::math::cholesky::Factor;
use crate::math::sum::square_sum;

/// Precision of columns that are taken into use all at once.
const START_PRECISION: f64 = 1.0;
/// A step that raises the log evidence by less ends the steps at the present noise.
const LEAST_STEP_GAIN: f64 = 1e-3;
/// Steps at the present noise, per column in the pool; the posterior is worked out afresh after so many.
const MOST_STEPS: usize = 8;
const STEPS_TO_REFRESH: usize = 64;
const PRECISION_BOUNDS: [f64; 2] = [1e-8, 1e10];
/// Share of xᵀΛ⁻¹x below which s is rounding: the column is in the span of those in use.
const ROUNDING: f64 = 1e-7;

/// A column of the pool.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Member {
    /// Always in use, at a given precision.
    Fixed,
    Column(usize),
}

/// The pool and the posterior of the columns in use.
pub(super) struct Pool {
    pub(super) members: Vec<Member>,
    /// The members' values, n × P.
    pub(super) values: Mat<f64>,
    /// XᵀΛ⁻¹X and XᵀΛ⁻¹y of all members.
    pub(super) gram: Mat<f64>,
    pub(super) projection: Vec<f64>,
    /// yᵀΛ⁻¹y.
    pub(super) target_square: f64,
    /// Places of the members in use.
    pub(super) active: Vec<usize>,
    /// γ of those.
    pub(super) precision: Vec<f64>,
    /// Σ of those, and μ.
    pub(super) covariance: Mat<f64>,
    pub(super) mean: Vec<f64>,
    /// xᵀΠx and xᵀΠy of all members, Π of the columns in use.
    pub(super) sparsity: Vec<f64>,
    pub(super) quality: Vec<f64>,
}

/// A step, by its place among the members in use or in the pool.
#[derive(Clone, Copy)]
pub(super) enum Step {
    Add {
        place: usize,
        precision: f64,
    },
    Change {
        index: usize,
        precision: f64,
    },
    Remove {
        index: usize,
    },
    /// One in use leaves and one that is not takes its place.
    Swap {
        index: usize,
        place: usize,
        precision: f64,
    },
}

/// Log evidence as a function of one precision, relative to that without the column.
fn gain(precision: f64, s: f64, q: f64) -> f64 {
    0.5 * ((precision / (precision + s)).ln() + q * q / (precision + s))
}

/// The best precision and its gain, if the column is better in than out.
fn best(s: f64, q: f64) -> Option<(f64, f64)> {
    let surplus = q * q - s;
    (s > 0.0 && surplus > 0.0).then(|| {
        let precision = (s * s / surplus).clamp(PRECISION_BOUNDS[0], PRECISION_BOUNDS[1]);
        (precision, gain(precision, s, q))
    })
}

/// s and q of a column, and xᵀΛ⁻¹x.
#[derive(Clone, Copy)]
pub(super) struct Forms {
    pub(super) s: f64,
    pub(super) q: f64,
    pub(super) square: f64,
}

/// What happens to the forms of others when a member in use leaves.
pub(super) struct Leaving {
    pub(super) index: usize,
    /// Its variance and mean.
    pub(super) own: f64,
    pub(super) mean: f64,
    /// Log evidence that is lost.
    pub(super) loss: f64,
}

impl Forms {
    /// The best precision and its gain, if the column is better in than out.
    pub(super) fn best(self) -> Option<(f64, f64)> {
        if self.s > ROUNDING * self.square { best(self.s, self.q) } else { None }
    }

    /// The best member to take the place of, the precision and the gain; `overlap` is xᵀΛ⁻¹XΣ of each.
    pub(super) fn best_swap(self, leaving: &[Leaving], overlap: impl Fn(usize) -> f64) -> Option<(usize, f64, f64)> {
        let mut best: Option<(usize, f64, f64)> = None;
        for Leaving { index, own, mean, loss } in leaving {
            let share = overlap(*index) / own;
            let without = Forms { s: self.s + share * share * own, q: self.q + share * mean, ..self };
            // The logarithm only where there may be a gain.
            if without.q * without.q < 2.0 * loss * without.s {
                continue;
            }
            if let Some((precision, gain)) = without.best() {
                let gain = gain - loss;
                if gain > best.map_or(0.0, |(_, _, best)| best) {
                    best = Some((*index, precision, gain));
                }
            }
        }
        best
    }
}

/// Adds a factor times x to y.
pub(super) fn add_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += factor * x);
}

impl Pool {
    /// What is always in use: n × f values and their precisions.
    pub(super) fn new(values: Mat<f64>, precision: Vec<f64>) -> Self {
        let count = precision.len();
        Self {
            members: vec![Member::Fixed; count],
            values,
            gram: Mat::zeros(count, count),
            projection: vec![0.0; count],
            target_square: 0.0,
            active: (0..count).collect(),
            precision,
            covariance: Mat::zeros(count, count),
            mean: vec![0.0; count],
            sparsity: vec![0.0; count],
            quality: vec![0.0; count],
        }
    }

    /// All columns at once, of which only inner products are known; those of fixed precision are in use.
    pub(super) fn of_gram(gram: Mat<f64>, projection: Vec<f64>, target_square: f64, fixed: &[Option<f64>]) -> Self {
        let member = |column: usize| if fixed[column].is_some() { Member::Fixed } else { Member::Column(column) };
        let count = fixed.len();
        Self {
            members: (0..count).map(member).collect(),
            gram,
            target_square,
            active: (0..count).filter(|&column| fixed[column].is_some()).collect(),
            sparsity: vec![0.0; count],
            quality: vec![0.0; count],
            projection,
            ..Self::new(Mat::new(), fixed.iter().flatten().copied().collect())
        }
    }

    /// Inner products of all members at the given variances.
    pub(super) fn measure(&mut self, growth: &Growth<'_>, variance: &[f64]) {
        self.gram = Mat::zeros(self.members.len(), self.members.len());
        self.projection = vec![0.0; self.members.len()];
        let squares = growth.target.iter().zip(growth.row_weight).zip(variance);
        self.target_square = squares.map(|((y, w), v)| w * y * y / v).sum();
        self.measure_from(0, growth, variance);
    }

    /// The same of the members from `first` on, with all.
    fn measure_from(&mut self, first: usize, growth: &Growth<'_>, variance: &[f64]) {
        let count = self.members.len();
        let precision: Vec<f64> = growth.row_weight.iter().zip(variance).map(|(w, v)| w / v).collect();
        let weighted =
            Mat::from_fn(self.values.nrows(), count - first, |i, k| precision[i] * self.values[(i, first + k)]);
        let mut cross = Mat::<f64>::zeros(count, count - first);
        matmul(cross.as_mut(), Accum::Replace, self.values.transpose(), weighted.as_ref(), 1.0, growth.par);
        for k in first..count {
            for m in 0..count {
                self.gram[(m, k)] = cross[(m, k - first)];
                self.gram[(k, m)] = cross[(m, k - first)];
            }
            let column = weighted.col_as_slice(k - first);
            self.projection[k] = column.iter().zip(growth.target).map(|(x, y)| x * y).sum();
        }
    }

    /// All noise precisions times a factor.
    pub(super) fn rescale(&mut self, factor: f64) {
        self.gram.col_iter_mut().for_each(|column| column.iter_mut().for_each(|value| *value *= factor));
        self.projection.iter_mut().for_each(|value| *value *= factor);
        self.target_square *= factor;
    }

    /// New members, not in use yet.
    pub(super) fn join(&mut self, growth: &Growth<'_>, columns: &[usize], variance: &[f64]) {
        let (old, new) = (self.members.len(), columns.len());
        let values = (growth.columns)(columns);
        let mut all = Mat::<f64>::zeros(values.nrows(), old + new);
        all.as_mut().subcols_mut(0, old).copy_from(self.values.as_ref());
        all.as_mut().subcols_mut(old, new).copy_from(values.as_ref());
        self.values = all;
        self.members.extend(columns.iter().map(|&column| Member::Column(column)));
        let mut gram = Mat::<f64>::zeros(old + new, old + new);
        gram.as_mut().submatrix_mut(0, 0, old, old).copy_from(self.gram.as_ref());
        self.gram = gram;
        self.projection.resize(old + new, 0.0);
        self.measure_from(old, growth, variance);
    }

    /// Takes all members into use that are not zero.
    pub(super) fn use_all(&mut self) {
        let fixed = self.active.len();
        let others = (fixed..self.members.len()).filter(|&place| self.gram[(place, place)] > 0.0);
        self.active.extend(others);
        self.precision.resize(self.active.len(), START_PRECISION);
    }

    /// γ = 1/(μ² + Σⱼⱼ).
    pub(super) fn expect_precisions(&mut self) {
        for (index, &place) in self.active.iter().enumerate() {
            if self.members[place] != Member::Fixed {
                let second_moment = self.mean[index].powi(2) + self.covariance[(index, index)];
                self.precision[index] = second_moment.recip().clamp(PRECISION_BOUNDS[0], PRECISION_BOUNDS[1]);
            }
        }
    }

    /// The best shared variance, when it is `variance` so far and the rows weigh so much together.
    pub(super) fn update_variance(&mut self, variance: f64, weight_sum: f64) -> f64 {
        let [low, high] = VARIANCE_BOUNDS;
        let updated = (variance * self.square_error() / weight_sum).clamp(low, high);
        self.rescale(variance / updated);
        updated
    }

    /// Σ (r² + q) of the rows, in units of their variances: yᵀΛ⁻¹y − 2bᵀμ + μᵀGμ + tr(ΣG).
    fn square_error(&self) -> f64 {
        let mut sum = self.target_square;
        for (k, &place) in self.active.iter().enumerate() {
            let row = |j: usize| self.gram[(self.active[j], place)];
            let product: f64 =
                (0..self.active.len()).map(|j| row(j) * (self.mean[j] * self.mean[k] + self.covariance[(j, k)])).sum();
            sum += product - 2.0 * self.mean[k] * self.projection[place];
        }
        sum.max(0.0)
    }

    /// Members that are not in use leave.
    pub(super) fn keep_active(&mut self) {
        if self.active.len() == self.members.len() {
            return;
        }
        let places = self.active.clone();
        let count = places.len();
        self.members = places.iter().map(|&place| self.members[place]).collect();
        self.values = Mat::from_fn(self.values.nrows(), count, |i, k| self.values[(i, places[k])]);
        self.gram = Mat::from_fn(count, count, |i, k| self.gram[(places[i], places[k])]);
        for values in [&mut self.projection, &mut self.sparsity, &mut self.quality] {
            *values = places.iter().map(|&place| values[place]).collect();
        }
        self.active = (0..count).collect();
    }

    /// The posterior from scratch.
    pub(super) fn refresh(&mut self, par: Par) -> Option<()> {
        let count = self.active.len();
        let (active, gram) = (&self.active, &self.gram);
        let matrix = Mat::from_fn(count, count, |i, k| {
            gram[(active[i], active[k])] + if i == k { self.precision[i] } else { 0.0 }
        });
        let mut factor = Factor::new(count, par);
        factor.factorise(matrix.as_ref()).ok()?;
        factor.invert();
        self.covariance = Mat::zeros(count, count);
        matmul(self.covariance.as_mut(), Accum::Replace, factor.inverse().transpose(), factor.inverse(), 1.0, par);
        self.mean = active.iter().map(|&place| self.projection[place]).collect();
        factor.solve(&mut self.mean);
        let cross = Mat::from_fn(count, self.members.len(), |i, m| gram[(active[i], m)]);
        let mut image = cross.clone();
        solve_lower_triangular(factor.lower(), image.as_mut(), par);
        self.sparsity = (0..self.members.len()).map(|m| gram[(m, m)] - square_sum(image.col_as_slice(m))).collect();
        self.quality = self.projection.clone();
        for (k, &place) in active.iter().enumerate() {
            add_scaled(&mut self.quality, -self.mean[k], gram.col_as_slice(place));
        }
        Some(())
    }

    /// Takes the best steps, one after the other, until none is worth it; says what they gained.
    pub(super) fn step(&mut self, par: Par) -> Option<f64> {
        let mut total = 0.0;
        for taken in 1..=MOST_STEPS * self.members.len() {
            let Some((step, gain)) = self.best_step().or_else(|| self.best_swap(par)) else { break };
            total += gain;
            self.take(step);
            if taken % STEPS_TO_REFRESH == 0 {
                self.refresh(par)?;
            }
        }
        self.refresh(par)?;
        Some(total)
    }

    /// Takes a step.
    pub(super) fn take(&mut self, step: Step) {
        match step {
            Step::Add { place, precision } => self.add(place, precision),
            Step::Change { index, precision } => {
                let (old, own) = (self.precision[index], self.covariance[(index, index)]);
                self.shift(index, 1.0 / (own + 1.0 / (precision - old)));
                self.precision[index] = precision;
            }
            Step::Remove { index } => self.remove(index),
            Step::Swap { index, place, precision } => {
                self.remove(index);
                self.add(place, precision);
            }
        }
    }

    fn is_active(&self) -> Vec<bool> {
        let mut is_active = vec![false; self.members.len()];
        self.active.iter().for_each(|&place| is_active[place] = true);
        is_active
    }

    /// The best step and what it gains.
    pub(super) fn best_step(&self) -> Option<(Step, f64)> {
        let is_active = self.is_active();
        let better = |largest: f64, step: Option<Step>, gain: f64, other: Step| {
            if gain > largest { (gain, Some(other)) } else { (largest, step) }
        };
        let (mut largest, mut step) = (LEAST_STEP_GAIN, None);
        for (place, _) in is_active.iter().enumerate().filter(|(_, active)| !**active) {
            let (s, q, square) = (self.sparsity[place], self.quality[place], self.gram[(place, place)]);
            if let Some((precision, gain)) = (Forms { s, q, square }).best() {
                (largest, step) = better(largest, step, gain, Step::Add { place, precision });
            }
        }
        for (index, &place) in self.active.iter().enumerate() {
            if self.members[place] == Member::Fixed {
                continue;
            }
            let (own, old) = (self.covariance[(index, index)], self.precision[index]);
            let (s, q) = ((1.0 / own - old).max(0.0), self.mean[index] / own);
            let present = gain(old, s, q);
            match best(s, q) {
                // Better in than out: perhaps at another precision.
                Some((precision, gain)) if gain > 0.0 => {
                    let gain = if precision == old { 0.0 } else { gain - present };
                    (largest, step) = better(largest, step, gain, Step::Change { index, precision });
                }
                _ => (largest, step) = better(largest, step, -present, Step::Remove { index }),
            }
        }
        step.map(|step| (step, largest))
    }

    /// The members in use that may leave.
    pub(super) fn leaving(&self) -> Vec<Leaving> {
        let is_column = |(_, place): &(usize, &usize)| self.members[**place] != Member::Fixed;
        let of = |(index, _): (usize, &usize)| {
            let (own, mean, precision) = (self.covariance[(index, index)], self.mean[index], self.precision[index]);
            let loss = gain(precision, (1.0 / own - precision).max(0.0), mean / own);
            Leaving { index, own, mean, loss }
        };
        self.active.iter().enumerate().filter(is_column).map(of).collect()
    }

    /// The best exchange of a member in use for one that is not, and what it gains, if it is worth it.
    pub(super) fn best_swap(&self, par: Par) -> Option<(Step, f64)> {
        let count = self.active.len();
        let cross = Mat::from_fn(count, self.members.len(), |i, m| self.gram[(self.active[i], m)]);
        let mut image = Mat::<f64>::zeros(count, self.members.len());
        matmul(image.as_mut(), Accum::Replace, self.covariance.as_ref(), cross.as_ref(), 1.0, par);
        let leaving = self.leaving();
        let is_active = self.is_active();
        let outside = (0..self.members.len()).filter(|&place| !is_active[place]);
        let swaps = outside.filter_map(|place| {
            let (s, q, square) = (self.sparsity[place], self.quality[place], self.gram[(place, place)]);
            let (index, precision, gain) = Forms { s, q, square }.best_swap(&leaving, |k| image[(k, place)])?;
            Some((Step::Swap { index, place, precision }, gain))
        });
        swaps.max_by(|(_, a), (_, b)| a.total_cmp(b)).filter(|(_, gain)| *gain > LEAST_ENTRY_GAIN)
    }

    /// Takes a member into use.
    pub(super) fn add(&mut self, place: usize, precision: f64) {
        let count = self.active.len();
        let own = 1.0 / (precision + self.sparsity[place]);
        let mean = own * self.quality[place];
        let cross: Vec<f64> = self.active.iter().map(|&other| self.gram[(other, place)]).collect();
        let mut image = vec![0.0; count];
        for (k, value) in cross.iter().enumerate() {
            add_scaled(&mut image, *value, self.covariance.col_as_slice(k));
        }
        let mut change = self.gram.col_as_slice(place).to_vec();
        for (k, &other) in self.active.iter().enumerate() {
            add_scaled(&mut change, -image[k], self.gram.col_as_slice(other));
        }
        for (m, e) in change.iter().enumerate() {
            self.sparsity[m] -= own * e * e;
            self.quality[m] -= mean * e;
        }
        let mut covariance = Mat::<f64>::zeros(count + 1, count + 1);
        for k in 0..count {
            let column = covariance.col_as_slice_mut(k);
            column[..count].copy_from_slice(self.covariance.col_as_slice(k));
            add_scaled(&mut column[..count], own * image[k], &image);
            column[count] = -own * image[k];
        }
        let last = covariance.col_as_slice_mut(count);
        last[..count].iter_mut().zip(&image).for_each(|(value, image)| *value = -own * image);
        last[count] = own;
        self.covariance = covariance;
        add_scaled(&mut self.mean, -mean, &image);
        self.mean.push(mean);
        self.active.push(place);
        self.precision.push(precision);
    }

    /// Σ − κ Σⱼ Σⱼᵀ, and what follows from it.
    pub(super) fn shift(&mut self, index: usize, kappa: f64) {
        let column = self.covariance.col_as_slice(index).to_vec();
        let mean = self.mean[index];
        let mut change = vec![0.0; self.members.len()];
        for (k, &other) in self.active.iter().enumerate() {
            add_scaled(&mut change, column[k], self.gram.col_as_slice(other));
        }
        for (m, f) in change.iter().enumerate() {
            self.sparsity[m] += kappa * f * f;
            self.quality[m] += kappa * mean * f;
        }
        for k in 0..column.len() {
            add_scaled(self.covariance.col_as_slice_mut(k), -kappa * column[k], &column);
        }
        add_scaled(&mut self.mean, -kappa * mean, &column);
    }

    /// Takes a member out of use.
    pub(super) fn remove(&mut self, index: usize) {
        self.shift(index, 1.0 / self.covariance[(index, index)]);
        let count = self.active.len() - 1;
        let old = |k: usize| if k < index { k } else { k + 1 };
        self.covariance = Mat::from_fn(count, count, |i, k| self.covariance[(old(i), old(k))]);
        self.mean.remove(index);
        self.active.remove(index);
        self.precision.remove(index);
    }

    /// r² + q of every row.
    pub(super) fn second_moments(&self, growth: &Growth<'_>) -> Vec<f64> {
        let (n, count) = (growth.target.len(), self.active.len());
        let active = Mat::from_fn(n, count, |i, k| self.values[(i, self.active[k])]);
        let mut residual = growth.target.to_vec();
        (0..count).for_each(|k| add_scaled(&mut residual, -self.mean[k], active.col_as_slice(k)));
        let mut image = Mat::<f64>::zeros(n, count);
        matmul(image.as_mut(), Accum::Replace, active.as_ref(), self.covariance.as_ref(), 1.0, growth.par);
        let mut latent = vec![0.0; n];
        for k in 0..count {
            let products = active.col_as_slice(k).iter().zip(image.col_as_slice(k));
            latent.iter_mut().zip(products).for_each(|(q, (a, b))| *q += a * b);
        }
        residual.iter().zip(latent).map(|(r, q)| r * r + q.max(0.0)).collect()
    }
}
