//! The pass itself: residuals, second moments and variances of a block of rows under what was broadcast, and the block's share of the sums,
//! while the block is in the cache.

use faer::{Accum, Mat, MatRef};

use super::broadcast::Broadcast;
use super::sums::Sums;
use crate::math::packed::pack_lower;
use crate::noise::{NoiseOfRows, OfRow};
use crate::posterior::{BLOCK_ROWS, BlockForms, BlockSums};
use crate::problem::select;

/// What a row needs of a broadcast, once for all rows.
pub struct Known {
    columns: Vec<usize>,
    /// μ and R; none before the first pass.
    belief: Option<(Vec<f64>, Mat<f64>)>,
    noise: NoiseOfRows,
    variance_bounds: [f64; 2],
}

/// Sums over some rows, block by block.
pub struct Partition<'k> {
    known: &'k Known,
    sums: Sums,
    products: BlockSums,
    forms: BlockForms,
    second_moment: Vec<f64>,
    latent_variance: Vec<f64>,
    precision: Vec<f64>,
    /// Some columns of a block.
    part: Mat<f64>,
}

impl Known {
    /// What `broadcast` says, ready for rows.
    pub fn new(broadcast: &Broadcast) -> Self {
        let belief = broadcast.belief.as_ref();
        Self {
            columns: broadcast.columns.clone(),
            belief: belief.and_then(|belief| Some((belief.mean.clone(), belief.factor()?))),
            noise: broadcast.noise.of_rows(),
            variance_bounds: broadcast.variance_bounds,
        }
    }

    /// λ(e²) within its bounds.
    #[inline]
    fn variance(&self, e2: f64) -> f64 {
        self.noise.at(e2).variance.clamp(self.variance_bounds[0], self.variance_bounds[1])
    }

    /// e² of a block of rows, d × m; `latent_variance` is room.
    fn second_moments(
        &self,
        rows: MatRef<'_, f64>,
        target: &[f64],
        forms: &mut BlockForms,
        latent_variance: &mut [f64],
        second_moment: &mut [f64],
    ) {
        match &self.belief {
            Some((mean, factor)) => {
                forms.of_block(rows, factor.as_ref(), mean, target, second_moment, latent_variance);
                second_moment.iter_mut().zip(latent_variance).for_each(|(e2, q)| *e2 = *e2 * *e2 + *q);
            }
            None => second_moment.iter_mut().zip(target).for_each(|(e2, y)| *e2 = y * y),
        }
    }

    /// The columns that are wanted of a block of rows with all columns, perhaps in `room`.
    fn wanted<'b>(&self, block: MatRef<'b, f64>, room: &'b mut Mat<f64>) -> MatRef<'b, f64> {
        let (wanted, length) = (self.columns.len(), block.ncols());
        if wanted == block.nrows() {
            return block;
        }
        if room.nrows() != wanted || room.ncols() < length {
            *room = Mat::zeros(wanted, length);
        }
        select(block, &self.columns, room.as_mut().subcols_mut(0, length));
        room.as_ref().subcols(0, length)
    }

    /// λ of rows, which have all columns: d × m.
    pub fn variances(&self, rows: MatRef<'_, f64>, target: &[f64]) -> Vec<f64> {
        let mut room = Mat::new();
        let rows = self.wanted(rows, &mut room);
        let mut second_moment = vec![0.0; target.len()];
        let mut latent_variance = second_moment.clone();
        self.second_moments(rows, target, &mut BlockForms::new(), &mut latent_variance, &mut second_moment);
        second_moment.iter().map(|e2| self.variance(*e2)).collect()
    }
}

impl<'k> Partition<'k> {
    /// Without rows so far.
    pub fn new(known: &'k Known) -> Self {
        let columns = known.columns.len();
        let mut products = BlockSums::new();
        products.make_room(columns);
        let room = || vec![0.0; BLOCK_ROWS];
        Self {
            known,
            sums: Sums::zero(columns),
            products,
            forms: BlockForms::new(),
            second_moment: room(),
            latent_variance: room(),
            precision: room(),
            part: Mat::new(),
        }
    }

    /// Adds rows, d × m with contiguous rows and all columns, that are known to be finite.
    pub fn add(&mut self, rows: MatRef<'_, f64>, target: &[f64], row_weight: &[f64]) {
        for start in (0..target.len()).step_by(BLOCK_ROWS) {
            let range = start..(start + BLOCK_ROWS).min(target.len());
            let block = rows.subcols(start, range.len());
            self.add_block(block, &target[range.clone()], &row_weight[range]);
        }
    }

    fn add_block(&mut self, block: MatRef<'_, f64>, target: &[f64], row_weight: &[f64]) {
        let Self { known, sums, products, forms, part, .. } = self;
        let block = known.wanted(block, part);
        let length = target.len();
        let second_moment = &mut self.second_moment[..length];
        known.second_moments(block, target, forms, &mut self.latent_variance[..length], second_moment);
        let precision = &mut self.precision[..length];
        for (i, precision) in precision.iter_mut().enumerate() {
            let (e2, weight, y) = (second_moment[i], row_weight[i], target[i]);
            let OfRow { variance, cost } = known.noise.at(e2);
            let variance = variance.clamp(known.variance_bounds[0], known.variance_bounds[1]);
            *precision = weight / variance;
            sums.log_variance += weight * variance.ln();
            sums.cost += weight * cost;
            sums.weighted_square += *precision * e2;
            sums.target_square += *precision * y * y;
            sums.weight += weight;
        }
        sums.histogram.add(second_moment, row_weight);
        let accumulate = if sums.rows == 0 { Accum::Replace } else { Accum::Add };
        products.add(block, precision, target, accumulate);
        sums.rows += length as u64;
    }

    /// The sums over all rows that were added.
    pub fn finish(self) -> Sums {
        let Self { mut sums, products, .. } = self;
        if sums.rows > 0 {
            sums.gram = pack_lower(products.gram.as_ref());
            sums.projection = products.projection;
        }
        sums
    }
}
