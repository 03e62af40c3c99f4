//! The columns in use: those that do not matter leave, and are looked at again in the end.

use faer::Mat;

use super::broadcast::Belief;
use super::learner::Plan;
use crate::math::packed::{pack_lower, unpack_lower};
use crate::problem::Groups;

/// Some groups of columns, numbered anew.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    /// The columns, in ascending order.
    pub columns: Vec<usize>,
    /// The number that each of its groups has among all.
    pub numbers: Vec<usize>,
    pub groups: Groups,
    /// One range of γ per group.
    pub bounds: Vec<[f64; 2]>,
}

impl Part {
    /// The groups for which `is_in` is true.
    fn of(plan: &Plan, is_in: &[bool]) -> Self {
        let numbers: Vec<usize> = (0..is_in.len()).filter(|&group| is_in[group]).collect();
        Self {
            columns: plan.groups.columns_of(is_in),
            groups: plan.groups.select(is_in),
            bounds: numbers.iter().map(|&group| plan.weight_precision_bounds[group]).collect(),
            numbers,
        }
    }

    /// The groups of these numbers.
    pub(super) fn of_numbers(plan: &Plan, numbers: &[usize]) -> Self {
        let mut is_in = vec![false; plan.groups.count()];
        numbers.iter().for_each(|&group| is_in[group] = true);
        Self::of(plan, &is_in)
    }

    /// All groups.
    pub(super) fn whole(plan: &Plan) -> Self {
        Self::of(plan, &vec![true; plan.groups.count()])
    }

    /// The groups whose precisions are fixed or below their bounds; one at least.
    pub(super) fn in_use(plan: &Plan, precision: &[f64]) -> Self {
        let is_below = |group: usize| precision[group] < plan.weight_precision_bounds[group][1];
        let mut is_in: Vec<bool> =
            (0..precision.len()).map(|group| plan.groups.fixed(group).is_some() || is_below(group)).collect();
        if !is_in.contains(&true) {
            is_in[0] = true;
        }
        Self::of(plan, &is_in)
    }

    pub(super) fn is_whole(&self, plan: &Plan) -> bool {
        self.numbers.len() == plan.groups.count()
    }

    /// The values of its groups among those of all.
    pub(super) fn pick(&self, all: &[f64]) -> Vec<f64> {
        self.numbers.iter().map(|&group| all[group]).collect()
    }

    /// Writes the values of its groups to their places among those of all.
    pub(super) fn put(&self, own: &[f64], all: &mut [f64]) {
        self.numbers.iter().zip(own).for_each(|(&group, value)| all[group] = *value);
    }

    /// The places of its columns among those of a larger part.
    pub(super) fn places_in(&self, larger: &Part) -> Vec<usize> {
        self.columns.iter().map(|column| larger.columns.partition_point(|other| other < column)).collect()
    }

    /// What is believed of its columns as a belief of all columns: the others are as their priors say.
    pub(super) fn widen(&self, belief: &Belief, plan: &Plan, precision: &[f64]) -> Option<Belief> {
        let of_column = plan.groups.of_column();
        let own = unpack_lower(&belief.inverse_factor, self.columns.len())?;
        let mut mean = vec![0.0; of_column.len()];
        let deviation = |j: usize| precision[of_column[j]].sqrt().recip();
        let mut factor = Mat::from_fn(mean.len(), mean.len(), |i, j| if i == j { deviation(j) } else { 0.0 });
        for (j, &column) in self.columns.iter().enumerate() {
            mean[column] = belief.mean[j];
            self.columns[j..].iter().enumerate().for_each(|(i, &row)| factor[(row, column)] = own[(j + i, j)]);
        }
        Some(Belief { mean, inverse_factor: pack_lower(factor.as_ref()) })
    }
}
