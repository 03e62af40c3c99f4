//! Few columns of a large dictionary, chosen by their evidence.
//!
//! The basis grows (Tipping and Faul, 2003): of all columns, the one is added, given another precision or taken out
//! again that raises log p(y | γ, λ) most. With s = xᵀΠx and q = xᵀΠy of a column x, Π the precision of y under all other
//! columns, the evidence as a function of its precision γ alone is ½ (log γ − log(γ + s) + q²/(γ + s)), which is largest at
//! γ = s²/(q² − s) if q² > s and without the column else.
//!
//! Steps of one column at a time end in places that are best for each but not for all: where two that overlap are best, one between
//! them that came first would stay. So the first block of columns is put to use as a whole and thinned out by EM, and a column may
//! take the place of another in one step.
//!
//! The steps need inner products of columns only. They are taken in a pool: the columns in use and a block of others that would
//! raise the evidence. When the pool has nothing more to give, the noise is updated and the dictionary searched for the next
//! block; that no column is left which would raise the evidence ends the growth. The dictionary as a whole is never stored.

mod pool;
#[cfg(test)]
mod tests;

use crate::math::product::matmul;
use faer::{Accum, Mat, Par};
use rayon::prelude::*;

use self::pool::{Forms, Member, Pool, add_scaled};
use crate::noise::learning::{START_VARIANCE, VARIANCE_BOUNDS, leading_model, starting_model, update_noise};
use crate::noise::{Noise, NoiseModel, Shared};
use crate::stop::Stop;

/// Columns to start with, and EM updates of them.
const FIRST_BLOCK: usize = 64;
const FIRST_UPDATES: usize = 30;
/// Columns that enter the pool together.
const BLOCK: usize = 128;
/// Columns that are looked at together in a search.
const SEGMENT: usize = 256;
/// A column enters the pool if it would raise the log evidence by this much.
const LEAST_ENTRY_GAIN: f64 = 0.1;
/// A round that has seen the whole dictionary and raises it by less ends the growth.
const LEAST_ROUND_GAIN: f64 = 1.0;
/// Noise updates between two searches, and the relative change that ends them.
const NOISE_UPDATES: usize = 8;
const SETTLED_NOISE: f64 = 1e-3;
/// Rounds of search and growth.
const MOST_ROUNDS: usize = 200;

/// What grows.
pub struct Growth<'a> {
    /// Columns of the dictionary, by their numbers.
    pub columns: &'a (dyn Fn(&[usize]) -> Mat<f64> + Sync),
    /// The columns there are, in the order in which they are looked at.
    pub order: &'a [usize],
    /// y, standardized, n.
    pub target: &'a [f64],
    /// ω, n.
    pub row_weight: &'a [f64],
    /// n × f columns that are always in use, at these precisions.
    pub fixed: Mat<f64>,
    /// γ of those columns, f.
    pub fixed_precision: Vec<f64>,
    /// The noise to learn.
    pub noise: Noise,
    /// Raised, the growth ends with what there is.
    pub stop: Stop,
    /// Threads to use.
    pub par: Par,
}

/// What has grown.
pub struct Grown {
    /// The columns in use, by their numbers.
    pub columns: Vec<usize>,
    /// γ of each.
    pub weight_precision: Vec<f64>,
    /// The noise model.
    pub noise: NoiseModel,
    /// λ of each row, or the one of all.
    pub noise_variance: Vec<f64>,
}

/// Grows from all columns of a problem at once, with one noise variance: all that is needed are XᵀΩX (both triangles), XᵀΩy and
/// yᵀΩy of standardized columns and target, and the precisions of columns that are always in use. Columns in use with their
/// precisions, and the variance.
pub fn grow_whole(
    gram: Mat<f64>,
    projection: Vec<f64>,
    target_square: f64,
    fixed: &[Option<f64>],
    weight_sum: f64,
    stop: &Stop,
    par: Par,
) -> Option<(Vec<usize>, Vec<f64>, f64)> {
    let mut pool = Pool::of_gram(gram, projection, target_square, fixed);
    let mut variance = START_VARIANCE;
    pool.rescale(1.0 / variance);
    pool.refresh(par)?;
    for _ in 0..MOST_ROUNDS {
        let gain = pool.step(par)?;
        let before = variance;
        variance = pool.update_variance(before, weight_sum);
        pool.refresh(par)?;
        let settled = gain < LEAST_ROUND_GAIN && (before / variance).ln().abs() < SETTLED_NOISE;
        if settled || stop.is_raised() {
            break;
        }
    }
    Some((pool.active, pool.precision, variance))
}

/// The noise so far.
struct Current {
    model: NoiseModel,
    /// λ of each row.
    variance: Vec<f64>,
    /// Whether its scale has still to be found.
    is_new: bool,
}

impl Growth<'_> {
    /// Grows, from noise that is known if there is any.
    pub fn grow(&self, from: Option<(NoiseModel, Vec<f64>)>) -> Option<Grown> {
        let leading = leading_model(self.noise).filter(|_| from.is_none());
        let wanted = starting_model(self.noise);
        let mut noise = match from {
            Some((model, variance)) => Current { model, variance, is_new: false },
            None => Current {
                model: leading.unwrap_or(wanted),
                variance: vec![START_VARIANCE; self.target.len()],
                is_new: true,
            },
        };
        let mut pool = Pool::new(self.fixed.clone(), self.fixed_precision.clone());
        self.start(&mut pool, &mut noise)?;
        self.grow_on(&mut pool, &mut noise)?;
        if leading.is_some() {
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
    fn start(&self, pool: &mut Pool, noise: &mut Current) -> Option<()> {
        pool.measure(self, &noise.variance);
        pool.join(self, &self.order[..FIRST_BLOCK.min(self.order.len())], &noise.variance);
        pool.use_all();
        pool.refresh(self.par)?;
        for _ in 0..FIRST_UPDATES {
            pool.expect_precisions();
            self.update_noise(pool, noise);
            pool.refresh(self.par)?;
        }
        pool.step(self.par)?;
        pool.keep_active();
        pool.refresh(self.par)
    }

    /// Searches and steps in turn until no column is left that would raise the evidence.
    fn grow_on(&self, pool: &mut Pool, noise: &mut Current) -> Option<()> {
        let mut next = 0;
        for _ in 0..MOST_ROUNDS {
            if self.stop.is_raised() {
                break;
            }
            for _ in 0..NOISE_UPDATES {
                let change = self.update_noise(pool, noise);
                pool.refresh(self.par)?;
                pool.step(self.par)?;
                pool.keep_active();
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
            pool.keep_active();
            if found.len() < BLOCK && gain < LEAST_ROUND_GAIN {
                break;
            }
        }
        Some(())
    }

    /// Updates the noise and the inner products; says by how much, relatively.
    fn update_noise(&self, pool: &mut Pool, noise: &mut Current) -> f64 {
        let n = self.target.len();
        if let NoiseModel::Shared(Shared { variance }) = &mut noise.model {
            let before = noise.variance[0];
            *variance = pool.update_variance(before, self.row_weight.iter().sum());
            noise.variance.fill(*variance);
            return (before / *variance).ln().abs();
        }
        let second_moment = pool.second_moments(self);
        if std::mem::take(&mut noise.is_new) {
            noise.model.start_at(&second_moment, VARIANCE_BOUNDS);
        }
        let before = noise.variance.clone();
        update_noise(&mut noise.model, &mut noise.variance, &second_moment, self.row_weight, VARIANCE_BOUNDS);
        pool.measure(self, &noise.variance);
        before.iter().zip(&noise.variance).map(|(a, b)| (a / b).ln().abs()).sum::<f64>() / n as f64
    }

    /// The next columns in order that would raise the evidence, until there is a block of them; looks at every column at most once.
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
            let wanted: Vec<bool> = match self.par {
                Par::Seq => (0..segment.len()).map(is_wanted).collect(),
                Par::Rayon(_) => (0..segment.len()).into_par_iter().map(is_wanted).collect(),
            };
            found.extend(segment.iter().zip(wanted).filter(|(_, wanted)| *wanted).map(|(column, _)| *column));
        }
        found
    }
}
