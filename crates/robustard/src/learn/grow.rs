//! Few columns of a large dictionary, chosen by their evidence.
//!
//! The basis grows (Tipping and Faul, 2003): of all columns, the one is added, given another precision or taken out
//! again that raises log p(y | γ, λ) most. With s = xᵀΠx and q = xᵀΠy of a column x, Π the precision of y under all other
//! columns, the evidence as a function of its precision γ alone is ½ (log γ − log(γ + s) + q²/(γ + s)), which is largest at
//! γ = s²/(q² − s) if q² > s and without the column else.
//!
//! A column may also take the place of another at once: where two that overlap are best, one between them that came first would
//! otherwise stay.
//!
//! The steps need inner products of columns only. They are taken in a pool: the columns in use and a block of others that would
//! raise the evidence. When the pool has nothing more to give, the noise is updated and the dictionary searched for the next
//! block; that no column is left which would raise the evidence ends the growth. The dictionary as a whole is never stored.

use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use rayon::prelude::*;

use super::{LEADING_NOISE, LearningNoise, START_VARIANCE, VARIANCE_BOUNDS, update_noise};
use crate::noise::NoiseModel;
use crate::posterior::factor::{Factor, square_sum};

/// Columns to start with, their precision, and EM updates of them.
const FIRST_BLOCK: usize = 64;
const START_PRECISION: f64 = 1.0;
const FIRST_UPDATES: usize = 30;
/// Columns that enter the pool together.
const BLOCK: usize = 128;
/// Columns that are looked at together in a search.
const SEGMENT: usize = 256;
/// A column enters the pool if it would raise the log evidence by this much.
const LEAST_ENTRY_GAIN: f64 = 0.1;
/// A step that raises it by less ends the steps at the present noise.
const LEAST_STEP_GAIN: f64 = 1e-3;
/// Steps at the present noise, per column in the pool; the posterior is worked out afresh after so many.
const MOST_STEPS: usize = 8;
const STEPS_TO_REFRESH: usize = 64;
/// A round that has seen the whole dictionary and raises it by less ends the growth.
const LEAST_ROUND_GAIN: f64 = 1.0;
/// Noise updates between two searches, and the relative change that ends them.
const NOISE_UPDATES: usize = 8;
const SETTLED_NOISE: f64 = 1e-3;
/// Rounds of search and growth.
const MOST_ROUNDS: usize = 200;
/// Precision of the intercept, which is not shrunk, of a standardized target.
const INTERCEPT_PRECISION: f64 = 1e-8;
const PRECISION_BOUNDS: [f64; 2] = [1e-8, 1e10];
/// Share of xᵀΛ⁻¹x below which s is rounding: the column is in the span of those in use.
const ROUNDING: f64 = 1e-7;

/// What grows.
pub(crate) struct Growth<'a> {
    /// Columns of the dictionary, by their numbers.
    pub columns: &'a (dyn Fn(&[usize]) -> Mat<f64> + Sync),
    /// The columns there are, in the order in which they are looked at.
    pub order: &'a [usize],
    pub target: &'a [f64],
    pub row_weight: &'a [f64],
    pub intercept: bool,
    pub noise: LearningNoise,
    pub par: Par,
}

/// What has grown.
pub(crate) struct Grown {
    pub columns: Vec<usize>,
    /// γ of each.
    pub weight_precision: Vec<f64>,
    pub noise: NoiseModel,
    /// λ of each row.
    pub noise_variance: Vec<f64>,
}

/// The noise so far.
struct Noise {
    model: NoiseModel,
    /// λ of each row.
    variance: Vec<f64>,
    /// Whether its scale has still to be found.
    is_new: bool,
}

/// A column of the pool.
#[derive(Clone, Copy, PartialEq)]
enum Member {
    Intercept,
    Column(usize),
}

/// The pool and the posterior of the columns in use.
struct Pool {
    members: Vec<Member>,
    /// The members' values, n × P.
    values: Mat<f64>,
    /// XᵀΛ⁻¹X and XᵀΛ⁻¹y of all members.
    gram: Mat<f64>,
    projection: Vec<f64>,
    /// yᵀΛ⁻¹y.
    target_square: f64,
    /// Places of the members in use.
    active: Vec<usize>,
    /// γ of those.
    precision: Vec<f64>,
    /// Σ of those, and μ.
    covariance: Mat<f64>,
    mean: Vec<f64>,
    /// xᵀΠx and xᵀΠy of all members, Π of the columns in use.
    sparsity: Vec<f64>,
    quality: Vec<f64>,
}

/// A step, by its place among the members in use or in the pool.
#[derive(Clone, Copy)]
enum Step {
    Add { place: usize, precision: f64 },
    Change { index: usize, precision: f64 },
    Remove { index: usize },
}

/// A member in use that another takes the place of.
struct Swap {
    index: usize,
    place: usize,
    precision: f64,
    gain: f64,
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
struct Forms {
    s: f64,
    q: f64,
    square: f64,
}

/// What happens to the forms of others when a member in use leaves.
struct Leaving {
    index: usize,
    /// Its variance and mean.
    own: f64,
    mean: f64,
    /// Log evidence that is lost.
    loss: f64,
}

impl Forms {
    /// The best precision and its gain, if the column is better in than out.
    fn best(self) -> Option<(f64, f64)> {
        if self.s > ROUNDING * self.square { best(self.s, self.q) } else { None }
    }

    /// The best member to take the place of, the precision and the gain; `overlap` is xᵀΛ⁻¹XΣ of each.
    fn best_swap(self, leaving: &[Leaving], overlap: impl Fn(usize) -> f64) -> Option<(usize, f64, f64)> {
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
fn add_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += factor * x);
}

impl Growth<'_> {
    /// Grows, from noise that is known if there is any.
    pub fn grow(&self, from: Option<(NoiseModel, Vec<f64>)>) -> Option<Grown> {
        let is_led = from.is_none() && self.noise.is_led();
        let wanted = self.noise.model(self.noise.prior);
        let mut noise = match from {
            Some((model, variance)) => Noise { model, variance, is_new: false },
            None => Noise {
                model: if is_led { self.noise.model(LEADING_NOISE) } else { wanted },
                variance: vec![START_VARIANCE; self.target.len()],
                is_new: true,
            },
        };
        let mut pool = Pool::new(self.intercept, self.target.len());
        self.start(&mut pool, &mut noise)?;
        self.grow_on(&mut pool, &mut noise)?;
        if is_led {
            // Led to a good place, the noise that is wanted takes over.
            (noise.model, noise.is_new) = (wanted, true);
            self.grow_on(&mut pool, &mut noise)?;
        }
        let chosen = pool.active.iter().zip(&pool.precision).filter_map(|(&place, &precision)| {
            let Member::Column(column) = pool.members[place] else { return None };
            Some((column, precision))
        });
        let (columns, weight_precision) = chosen.unzip();
        Some(Grown { columns, weight_precision, noise: noise.model, noise_variance: noise.variance })
    }

    /// The first block: all of it in use, and then less and less, by EM. Columns that overlap find their places together.
    fn start(&self, pool: &mut Pool, noise: &mut Noise) -> Option<()> {
        pool.measure(self, &noise.variance);
        pool.join(self, &self.order[..FIRST_BLOCK.min(self.order.len())], &noise.variance);
        pool.use_all();
        pool.refresh(self.par)?;
        for _ in 0..FIRST_UPDATES {
            pool.expect_precisions();
            pool.refresh(self.par)?;
            self.update_noise(pool, noise);
            pool.refresh(self.par)?;
        }
        pool.step(self.par).map(|_| ())
    }

    /// Searches and steps in turn until no column is left that would raise the evidence.
    fn grow_on(&self, pool: &mut Pool, noise: &mut Noise) -> Option<()> {
        let mut next = 0;
        for _ in 0..MOST_ROUNDS {
            for _ in 0..NOISE_UPDATES {
                let change = self.update_noise(pool, noise);
                pool.refresh(self.par)?;
                pool.step(self.par)?;
                if change < SETTLED_NOISE {
                    break;
                }
            }
            let found = self.search(pool, &noise.variance, &mut next);
            if found.is_empty() {
                break;
            }
            pool.join(self, &found, &noise.variance);
            pool.refresh(self.par)?;
            let gain = pool.step(self.par)?;
            if found.len() < BLOCK && gain < LEAST_ROUND_GAIN {
                break;
            }
        }
        Some(())
    }

    /// Updates the noise and the inner products; says by how much, relatively.
    fn update_noise(&self, pool: &mut Pool, noise: &mut Noise) -> f64 {
        let n = self.target.len();
        if let NoiseModel::Shared { variance } = &mut noise.model {
            let before = noise.variance[0];
            let total: f64 = self.row_weight.iter().sum();
            *variance = (before * pool.square_error() / total).clamp(VARIANCE_BOUNDS[0], VARIANCE_BOUNDS[1]);
            noise.variance.fill(*variance);
            pool.rescale(before / *variance);
            return (before / *variance).ln().abs();
        }
        let second_moment = pool.second_moments(self);
        if std::mem::take(&mut noise.is_new) {
            noise.model.start_at(&second_moment, VARIANCE_BOUNDS);
        }
        let before = noise.variance.clone();
        update_noise(&mut noise.model, &mut noise.variance, &second_moment, self.row_weight);
        pool.measure(self, &noise.variance);
        before.iter().zip(&noise.variance).map(|(a, b)| (a / b).ln().abs()).sum::<f64>() / n as f64
    }

    /// The next columns in order that would raise the evidence, up to a block of them; looks at every column at most once.
    fn search(&self, pool: &Pool, variance: &[f64], next: &mut usize) -> Vec<usize> {
        let n = self.target.len();
        let in_use: Vec<usize> =
            pool.members.iter().filter_map(|m| if let Member::Column(c) = m { Some(*c) } else { None }).collect();
        let precision: Vec<f64> = self.row_weight.iter().zip(variance).map(|(w, v)| w / v).collect();
        let mut residual = self.target.to_vec();
        for (k, &place) in pool.active.iter().enumerate() {
            add_scaled(&mut residual, -pool.mean[k], pool.values.col_as_slice(place));
        }
        residual.iter_mut().zip(&precision).for_each(|(r, p)| *r *= p);
        let active = Mat::from_fn(n, pool.active.len(), |i, k| precision[i] * pool.values[(i, pool.active[k])]);
        let mut found = Vec::new();
        let mut looked_at = 0;
        while looked_at < self.order.len() && found.len() < BLOCK {
            let length = SEGMENT.min(self.order.len() - *next);
            let segment: Vec<usize> =
                self.order[*next..*next + length].iter().copied().filter(|column| !in_use.contains(column)).collect();
            looked_at += length;
            *next = (*next + length) % self.order.len();
            let values = (self.columns)(&segment);
            let mut cross = Mat::<f64>::zeros(pool.active.len(), segment.len());
            matmul(cross.as_mut(), Accum::Replace, active.transpose(), values.as_ref(), 1.0, self.par);
            let mut image = Mat::<f64>::zeros(pool.active.len(), segment.len());
            matmul(image.as_mut(), Accum::Replace, pool.covariance.as_ref(), cross.as_ref(), 1.0, self.par);
            let leaving = pool.leaving();
            let is_wanted = |k: usize| {
                let (mut square, mut q) = (0.0, 0.0);
                for ((x, p), r) in values.col_as_slice(k).iter().zip(&precision).zip(&residual) {
                    square += p * x * x;
                    q += x * r;
                }
                let explained: f64 = cross.col_as_slice(k).iter().zip(image.col_as_slice(k)).map(|(a, b)| a * b).sum();
                let column = Forms { s: square - explained, q, square };
                let swap = || column.best_swap(&leaving, |index| image[(index, k)]);
                column.best().is_some_and(|(_, gain)| gain > LEAST_ENTRY_GAIN)
                    || swap().is_some_and(|(_, _, gain)| gain > LEAST_ENTRY_GAIN)
            };
            let wanted: Vec<bool> = (0..segment.len()).into_par_iter().map(is_wanted).collect();
            found.extend(segment.iter().zip(wanted).filter(|(_, wanted)| *wanted).map(|(column, _)| *column));
        }
        found
    }
}

impl Pool {
    /// The intercept, or nothing.
    fn new(intercept: bool, n: usize) -> Self {
        let count = usize::from(intercept);
        Self {
            members: vec![Member::Intercept; count],
            values: Mat::from_fn(n, count, |_, _| 1.0),
            gram: Mat::zeros(count, count),
            projection: vec![0.0; count],
            target_square: 0.0,
            active: (0..count).collect(),
            precision: vec![INTERCEPT_PRECISION; count],
            covariance: Mat::zeros(count, count),
            mean: vec![0.0; count],
            sparsity: vec![0.0; count],
            quality: vec![0.0; count],
        }
    }

    /// Inner products of all members at the given variances.
    fn measure(&mut self, growth: &Growth<'_>, variance: &[f64]) {
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
    fn rescale(&mut self, factor: f64) {
        self.gram.col_iter_mut().for_each(|column| column.iter_mut().for_each(|value| *value *= factor));
        self.projection.iter_mut().for_each(|value| *value *= factor);
        self.target_square *= factor;
    }

    /// New members, not in use yet.
    fn join(&mut self, growth: &Growth<'_>, columns: &[usize], variance: &[f64]) {
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

    /// Takes all members into use.
    fn use_all(&mut self) {
        self.active = (0..self.members.len()).collect();
        self.precision.resize(self.members.len(), START_PRECISION);
    }

    /// γ = 1/(μ² + Σⱼⱼ).
    fn expect_precisions(&mut self) {
        for (index, &place) in self.active.iter().enumerate() {
            if self.members[place] != Member::Intercept {
                let second_moment = self.mean[index].powi(2) + self.covariance[(index, index)];
                self.precision[index] = second_moment.recip().clamp(PRECISION_BOUNDS[0], PRECISION_BOUNDS[1]);
            }
        }
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
    fn keep_active(&mut self) {
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
    fn refresh(&mut self, par: Par) -> Option<()> {
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
        solve_lower_triangular_in_place(factor.lower(), image.as_mut(), par);
        self.sparsity = (0..self.members.len()).map(|m| gram[(m, m)] - square_sum(image.col_as_slice(m))).collect();
        self.quality = self.projection.clone();
        for (k, &place) in active.iter().enumerate() {
            add_scaled(&mut self.quality, -self.mean[k], gram.col_as_slice(place));
        }
        Some(())
    }

    /// Takes the best steps, one after the other, until none is worth it; says what they gained.
    fn step(&mut self, par: Par) -> Option<f64> {
        let mut total = 0.0;
        for taken in 1..=MOST_STEPS * self.members.len() {
            let Some((step, gain)) = self.best_step() else {
                let Some(swap) = self.best_swap(par).filter(|swap| swap.gain > LEAST_ENTRY_GAIN) else { break };
                total += swap.gain;
                self.shift(swap.index, 1.0 / self.covariance[(swap.index, swap.index)]);
                self.remove(swap.index);
                self.add(swap.place, swap.precision);
                continue;
            };
            total += gain;
            match step {
                Step::Add { place, precision } => self.add(place, precision),
                Step::Change { index, precision } => {
                    let (old, own) = (self.precision[index], self.covariance[(index, index)]);
                    self.shift(index, 1.0 / (own + 1.0 / (precision - old)));
                    self.precision[index] = precision;
                }
                Step::Remove { index } => {
                    self.shift(index, 1.0 / self.covariance[(index, index)]);
                    self.remove(index);
                }
            }
            if taken % STEPS_TO_REFRESH == 0 {
                self.refresh(par)?;
            }
        }
        self.keep_active();
        self.refresh(par)?;
        Some(total)
    }

    /// The best step and what it gains.
    fn best_step(&self) -> Option<(Step, f64)> {
        let mut is_active = vec![false; self.members.len()];
        self.active.iter().for_each(|&place| is_active[place] = true);
        let mut largest = LEAST_STEP_GAIN;
        let mut step = None;
        for (place, _) in is_active.iter().enumerate().filter(|(_, active)| !**active) {
            let (s, q, square) = (self.sparsity[place], self.quality[place], self.gram[(place, place)]);
            if let Some((precision, gain)) = (Forms { s, q, square }).best().filter(|(_, gain)| *gain > largest) {
                (largest, step) = (gain, Some(Step::Add { place, precision }));
            }
        }
        for (index, &place) in self.active.iter().enumerate() {
            if self.members[place] == Member::Intercept {
                continue;
            }
            let (own, old) = (self.covariance[(index, index)], self.precision[index]);
            let (s, q) = ((1.0 / own - old).max(0.0), self.mean[index] / own);
            let present = gain(old, s, q);
            match best(s, q) {
                Some((precision, gain)) if gain > 0.0 => {
                    if gain - present > largest && precision != old {
                        (largest, step) = (gain - present, Some(Step::Change { index, precision }));
                    }
                }
                _ if -present > largest => (largest, step) = (-present, Some(Step::Remove { index })),
                _ => {}
            }
        }
        step.map(|step| (step, largest))
    }

    /// The members in use that may leave.
    fn leaving(&self) -> Vec<Leaving> {
        let is_column = |(_, place): &(usize, &usize)| self.members[**place] != Member::Intercept;
        let of = |(index, _): (usize, &usize)| {
            let (own, mean, precision) = (self.covariance[(index, index)], self.mean[index], self.precision[index]);
            let loss = gain(precision, (1.0 / own - precision).max(0.0), mean / own);
            Leaving { index, own, mean, loss }
        };
        self.active.iter().enumerate().filter(is_column).map(of).collect()
    }

    /// The best exchange of a member in use for one that is not.
    fn best_swap(&self, par: Par) -> Option<Swap> {
        let count = self.active.len();
        let cross = Mat::from_fn(count, self.members.len(), |i, m| self.gram[(self.active[i], m)]);
        let mut image = Mat::<f64>::zeros(count, self.members.len());
        matmul(image.as_mut(), Accum::Replace, self.covariance.as_ref(), cross.as_ref(), 1.0, par);
        let leaving = self.leaving();
        let outside = (0..self.members.len()).filter(|place| !self.active.contains(place));
        let swaps = outside.filter_map(|place| {
            let (s, q, square) = (self.sparsity[place], self.quality[place], self.gram[(place, place)]);
            let (index, precision, gain) = Forms { s, q, square }.best_swap(&leaving, |k| image[(k, place)])?;
            Some(Swap { index, place, precision, gain })
        });
        swaps.max_by(|a, b| a.gain.total_cmp(&b.gain))
    }

    /// Takes a member into use.
    fn add(&mut self, place: usize, precision: f64) {
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
    fn shift(&mut self, index: usize, kappa: f64) {
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

    /// Takes a member, whose covariance is 0 by now, out of use.
    fn remove(&mut self, index: usize) {
        let count = self.active.len() - 1;
        let old = |k: usize| if k < index { k } else { k + 1 };
        self.covariance = Mat::from_fn(count, count, |i, k| self.covariance[(old(i), old(k))]);
        self.mean.remove(index);
        self.active.remove(index);
        self.precision.remove(index);
    }

    /// r² + q of every row.
    fn second_moments(&self, growth: &Growth<'_>) -> Vec<f64> {
        let (n, count) = (growth.target.len(), self.active.len());
        let active = Mat::from_fn(n, count, |i, k| self.values[(i, self.active[k])]);
        let mut fitted = vec![0.0; n];
        let mean = MatRef::from_column_major_slice(&self.mean, count, 1);
        let target = MatMut::from_column_major_slice_mut(&mut fitted, n, 1);
        matmul(target, Accum::Replace, active.as_ref(), mean, 1.0, growth.par);
        let mut image = Mat::<f64>::zeros(n, count);
        matmul(image.as_mut(), Accum::Replace, active.as_ref(), self.covariance.as_ref(), 1.0, growth.par);
        let mut latent = vec![0.0; n];
        for k in 0..count {
            let products = active.col_as_slice(k).iter().zip(image.col_as_slice(k));
            latent.iter_mut().zip(products).for_each(|(q, (a, b))| *q += a * b);
        }
        let residual = growth.target.iter().zip(&fitted).map(|(y, f)| y - f);
        residual.zip(latent).map(|(r, q)| r * r + q.max(0.0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{NoiseKind, NoisePrior};
    use crate::{Problem, Settings, fit};

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
        let kind = if prior == "shared" { NoiseKind::Shared } else { NoiseKind::PerRow };
        let prior: NoisePrior = if prior == "shared" { "flat" } else { prior }.parse().unwrap();
        let noise = LearningNoise { kind, prior };
        let growth =
            Growth { columns: &columns, order: &order, target: y, row_weight: weight, intercept: false, noise, par };
        growth.grow(None).unwrap()
    }

    #[test]
    fn a_grown_basis_is_as_good_as_a_pruned_one() {
        let (design, y) = example(120);
        let grown = grow(&design, &y, &[1.0; 120], "shared", Par::Seq);
        assert!(grown.columns.len() < 20, "{:?}", grown.columns);
        let part = Mat::from_fn(120, grown.columns.len(), |i, k| design[(i, grown.columns[k])]);
        let settings = Settings { max_iterations: 5000, ..Settings::default().with_shared_noise() };
        let evidence =
            |design: &Mat<f64>| -fit(&Problem::new(design.as_ref(), &y).unwrap(), &settings).unwrap().neg_log_evidence;
        let (own, pruned) = (evidence(&part), evidence(&design));
        assert!(own > pruned - 1.0, "grown {own}, pruned {pruned}");
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
            intercept: true,
            noise: LearningNoise { kind: NoiseKind::Shared, prior: NoisePrior::Flat },
            par: Par::Seq,
        };
        let variance = vec![0.05; 60];
        let mut pool = Pool::new(true, 60);
        pool.measure(&growth, &variance);
        pool.join(&growth, &[5, 20, 33, 48], &variance);
        pool.refresh(Par::Seq).unwrap();
        pool.add(2, 0.7);
        pool.add(4, 1.3);
        pool.add(1, 0.2);
        let kappa = 1.0 / (pool.covariance[(2, 2)] + 1.0 / (2.5 - 1.3));
        pool.shift(2, kappa);
        pool.precision[2] = 2.5;
        pool.shift(1, 1.0 / pool.covariance[(1, 1)]);
        pool.remove(1);
        let (mean, sparsity, quality) = (pool.mean.clone(), pool.sparsity.clone(), pool.quality.clone());
        pool.refresh(Par::Seq).unwrap();
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-8 * (1.0 + b.abs()));
        assert!(close(&mean, &pool.mean), "{mean:?} {:?}", pool.mean);
        assert!(close(&sparsity, &pool.sparsity), "{sparsity:?} {:?}", pool.sparsity);
        assert!(close(&quality, &pool.quality), "{quality:?} {:?}", pool.quality);
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
}
