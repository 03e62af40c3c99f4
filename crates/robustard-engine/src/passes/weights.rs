//! The weights and their precisions, given the sums of a pass: what happens between two passes.

use faer::{Accum, Mat, Par};

use super::Sums;
use crate::math::cholesky::{Factor, FactorError};
use crate::math::packed::unpack_lower;
use crate::math::product::matmul;
use crate::problem::Groups;

/// A change of log γ that is none.
const SETTLED_PRECISION: f64 = 1e-5;
/// Sweeps over all precisions between two passes.
const MOST_SWEEPS: usize = 50;
/// Rounds of the precisions of groups of several columns between two passes.
const MOST_ROUNDS: usize = 30;

/// The posterior under the noise of a pass.
pub(super) struct Weights<'p> {
    groups: &'p Groups,
    /// One range of γ per group.
    bounds: &'p [[f64; 2]],
    /// XᵀΛ⁻¹X at noise variances of 1 where the noise is shared: its lower triangle.
    gram: Mat<f64>,
    projection: Vec<f64>,
    target_square: f64,
    weight: f64,
    /// What the sums are multiplied with: 1/λ of shared noise, else 1.
    scale: f64,
    factor: Factor,
    mean: Vec<f64>,
    /// Σⱼⱼ.
    variance: Vec<f64>,
    par: Par,
}

impl<'p> Weights<'p> {
    /// Of some of the columns that there are sums of, by their places.
    pub(super) fn new(sums: &Sums, places: &[usize], groups: &'p Groups, bounds: &'p [[f64; 2]], par: Par) -> Self {
        let columns = places.len();
        let gram = unpack_lower(&sums.gram, sums.projection.len()).expect("sums have a whole triangle");
        let part = |gram: Mat<f64>| Mat::from_fn(columns, columns, |i, j| gram[(places[i.max(j)], places[i.min(j)])]);
        Self {
            groups,
            bounds,
            gram: if columns == gram.ncols() { gram } else { part(gram) },
            projection: places.iter().map(|&place| sums.projection[place]).collect(),
            target_square: sums.target_square,
            weight: sums.weight,
            scale: 1.0,
            factor: Factor::new(columns, par),
            mean: vec![0.0; columns],
            variance: vec![0.0; columns],
            par,
        }
    }

    pub(super) fn mean(&self) -> &[f64] {
        &self.mean
    }

    pub(super) fn factor(&self) -> &Factor {
        &self.factor
    }

    /// −log p(y | γ, λ) without the terms of λ alone, noise being held: ½ [Σ ωy²/λ − bᵀμ + log |Σ⁻¹| − Σ log γ].
    pub(super) fn evidence_cost(&self, precision: &[f64]) -> f64 {
        let explained: f64 = self.mean.iter().zip(&self.projection).map(|(m, b)| m * b).sum();
        let priors: f64 = self.groups.of_column().iter().map(|&group| precision[group].ln()).sum();
        0.5 * (self.scale * (self.target_square - explained) + self.factor.log_determinant() - priors)
    }

    /// Σⱼ (1 − γⱼΣⱼⱼ): how many weights the rows determine.
    pub(super) fn effective_weights(&self, precision: &[f64]) -> f64 {
        let of_column = self.groups.of_column().iter().zip(&self.variance);
        of_column.map(|(&group, variance)| (1.0 - precision[group] * variance).max(0.0)).sum()
    }

    /// Sets the variance of shared noise.
    pub(super) fn set_shared_variance(&mut self, variance: f64) {
        self.scale = 1.0 / variance;
    }

    /// The posterior at precisions γ of the groups.
    pub(super) fn refresh(&mut self, precision: &[f64]) -> Result<(), FactorError> {
        let d = self.mean.len();
        let mut matrix = Mat::<f64>::zeros(d, d);
        for j in 0..d {
            let (to, from) = (&mut matrix.col_as_slice_mut(j)[j..], &self.gram.col_as_slice(j)[j..]);
            to.iter_mut().zip(from).for_each(|(to, from)| *to = self.scale * from);
            to[0] += precision[self.groups.of_column()[j]];
        }
        self.factor.factorise(matrix.as_ref())?;
        self.factor.invert();
        self.factor.inverse_diagonal(&mut self.variance);
        self.mean.iter_mut().zip(&self.projection).for_each(|(mean, b)| *mean = self.scale * b);
        self.factor.solve(&mut self.mean);
        Ok(())
    }

    /// Σ ωe² of shared noise over the rows, divided by Σ ω.
    pub(super) fn shared_variance(&self, precision: &[f64]) -> f64 {
        let of_column = |j: usize| precision[self.groups.of_column()[j]];
        let explained: f64 = self.mean.iter().zip(&self.projection).map(|(m, b)| self.scale * m * b).sum();
        let of_weights = |j: usize| {
            let gamma = of_column(j);
            (1.0 - gamma * self.variance[j]).max(0.0) - gamma * self.mean[j].powi(2)
        };
        let squares = self.scale * self.target_square - explained + (0..self.mean.len()).map(of_weights).sum::<f64>();
        squares.max(0.0) / self.scale / self.weight
    }

    /// Alg. 1, M-step: γ = 1/E[θ²], pooled over a group's columns.
    pub(super) fn expect(&self, precision: &mut [f64]) {
        let second_moments = self.second_moments();
        for (group, moment) in second_moments.iter().enumerate() {
            self.set(precision, group, self.groups.size()[group] as f64 / moment);
        }
    }

    fn second_moments(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.groups.count()];
        self.groups.sum_into(&mut sums, |j| self.mean[j].powi(2) + self.variance[j]);
        sums
    }

    /// Puts γ of a group within its bounds, unless it is fixed or not a number; says by how much its logarithm changes.
    fn set(&self, precision: &mut [f64], group: usize, value: f64) -> f64 {
        if self.groups.fixed(group).is_some() || value.is_nan() {
            return 0.0;
        }
        let [low, high] = self.bounds[group];
        let before = std::mem::replace(&mut precision[group], value.clamp(low, high));
        (precision[group] / before).ln().abs()
    }

    /// Precisions at which the evidence, as it is while the noise is held, is largest for each in turn. The posterior is that of them.
    pub(super) fn maximise(&mut self, precision: &mut [f64]) -> Result<(), FactorError> {
        let has_groups = (0..self.groups.count()).any(|group| self.is_pooled(group));
        for _ in 0..if has_groups { MOST_ROUNDS } else { 1 } {
            self.refresh(precision)?;
            let change = self.share_out(precision).max(self.sweep(precision));
            if change < SETTLED_PRECISION {
                break;
            }
        }
        self.refresh(precision)
    }

    /// Whether a group has several columns and a precision to learn.
    fn is_pooled(&self, group: usize) -> bool {
        self.groups.size()[group] > 1 && self.groups.fixed(group).is_none()
    }

    /// MacKay's update of groups of several columns, γ = Σ(1 − γΣⱼⱼ)/Σμ²; the largest change of a logarithm.
    fn share_out(&self, precision: &mut [f64]) -> f64 {
        let mut squares = vec![0.0; self.groups.count()];
        self.groups.sum_into(&mut squares, |j| self.mean[j].powi(2));
        let mut determined = vec![0.0; self.groups.count()];
        let of_column = self.groups.of_column();
        self.groups.sum_into(&mut determined, |j| (1.0 - precision[of_column[j]] * self.variance[j]).max(0.0));
        let pooled = (0..self.groups.count()).filter(|&group| self.is_pooled(group));
        pooled.map(|group| self.set(precision, group, determined[group] / squares[group])).fold(0.0, f64::max)
    }

    /// Sweeps over the groups of one column until they have settled; the largest change of a logarithm in the first sweep.
    ///
    /// With s = xᵀΠx and q = xᵀΠy, Π the precision of y under the other columns, the evidence is largest at γ = s²/(q² − s) if q² > s and
    /// without the column else (Tipping and Faul, 2003). 1/Σⱼⱼ = γ + s and μⱼ = Σⱼⱼq, in the model or not: columns come back as they leave.
    fn sweep(&mut self, precision: &mut [f64]) -> f64 {
        let d = self.mean.len();
        let mut covariance = Mat::<f64>::zeros(d, d);
        let inverse = self.factor.inverse();
        matmul(covariance.as_mut(), Accum::Replace, inverse.transpose(), inverse, 1.0, self.par);
        let single: Vec<(usize, usize)> = (0..d)
            .map(|j| (j, self.groups.of_column()[j]))
            .filter(|&(_, group)| self.groups.size()[group] == 1 && self.groups.fixed(group).is_none())
            .collect();
        let (mut first, mut column) = (0.0, vec![0.0; d]);
        for sweep in 0..MOST_SWEEPS {
            let mut largest: f64 = 0.0;
            for &(j, group) in &single {
                let (own, mean, before) = (covariance[(j, j)], self.mean[j], precision[group]);
                let (s, q) = (1.0 / own - before, mean / own);
                let wanted = if q * q > s && s > 0.0 { s * s / (q * q - s) } else { f64::INFINITY };
                let change = self.set(precision, group, wanted);
                if change < SETTLED_PRECISION {
                    precision[group] = before;
                    continue;
                }
                largest = largest.max(change);
                let more = precision[group] - before;
                let share = more / (1.0 + more * own);
                column.copy_from_slice(covariance.col_as_slice(j));
                for k in 0..d {
                    let factor = share * column[k];
                    let values = covariance.col_as_slice_mut(k);
                    values.iter_mut().zip(&column).for_each(|(value, c)| *value -= factor * c);
                    self.mean[k] -= factor * mean;
                }
            }
            if sweep == 0 {
                first = largest;
            }
            if largest < SETTLED_PRECISION {
                break;
            }
        }
        first
    }
}
