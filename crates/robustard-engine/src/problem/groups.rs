//! Groups of columns that share one precision.

use super::ProblemError;

/// Which columns share one weight precision, and which precisions are fixed rather than learnt.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    pub(super) of_column: Vec<usize>,
    pub(super) size: Vec<usize>,
    pub(super) fixed: Vec<Option<f64>>,
}

impl Groups {
    pub(super) fn one_per_column(columns: usize) -> Self {
        Self { of_column: (0..columns).collect(), size: vec![1; columns], fixed: vec![None; columns] }
    }

    pub(super) fn from_labels(labels: &[usize]) -> Result<Self, ProblemError> {
        let count = labels.iter().max().map_or(0, |&last| last.saturating_add(1));
        // More groups than columns always leaves one of the first `len + 1` labels unused.
        let mut size = vec![0; count.min(labels.len() + 1)];
        for &group in labels {
            if let Some(members) = size.get_mut(group) {
                *members += 1;
            }
        }
        if let Some(group) = size.iter().position(|&members| members == 0) {
            return Err(ProblemError::EmptyGroup { group });
        }
        Ok(Self { of_column: labels.to_vec(), fixed: vec![None; count], size })
    }

    /// Number of groups.
    pub fn count(&self) -> usize {
        self.size.len()
    }

    /// The group of each column.
    pub fn of_column(&self) -> &[usize] {
        &self.of_column
    }

    /// Number of columns in each group.
    pub fn size(&self) -> &[usize] {
        &self.size
    }

    /// The precision of a group whose precision is not learnt.
    pub fn fixed(&self, group: usize) -> Option<f64> {
        self.fixed[group]
    }

    /// Writes the sum over each group's columns of `per_column(j)` into `sums`.
    pub(crate) fn sum_into(&self, sums: &mut [f64], per_column: impl Fn(usize) -> f64) {
        sums.fill(0.0);
        for (column, &group) in self.of_column.iter().enumerate() {
            sums[group] += per_column(column);
        }
    }

    /// Writes each column's value, taken from its group, into `columns`.
    pub(crate) fn spread(&self, per_group: &[f64], columns: &mut [f64]) {
        for (value, &group) in columns.iter_mut().zip(&self.of_column) {
            *value = per_group[group];
        }
    }

    /// The columns of the groups for which `keep` is true, in order.
    pub(crate) fn columns_of(&self, keep: &[bool]) -> Vec<usize> {
        (0..self.of_column.len()).filter(|&column| keep[self.of_column[column]]).collect()
    }

    /// The groups for which `keep` is true, numbered anew.
    pub(crate) fn select(&self, keep: &[bool]) -> Self {
        let new_label: Vec<usize> = keep
            .iter()
            .scan(0, |next, &kept| {
                let label = *next;
                *next += usize::from(kept);
                Some(label)
            })
            .collect();
        let of_column = self.columns_of(keep).into_iter().map(|column| new_label[self.of_column[column]]).collect();
        let kept = |group: &usize| keep[*group];
        Self {
            of_column,
            size: (0..self.count()).filter(kept).map(|group| self.size[group]).collect(),
            fixed: (0..self.count()).filter(kept).map(|group| self.fixed[group]).collect(),
        }
    }

    /// The columns of the first group that has more than one.
    pub(crate) fn first_shared(&self) -> Option<Vec<usize>> {
        let group = self.size.iter().position(|&size| size > 1)?;
        Some((0..self.of_column.len()).filter(|&column| self.of_column[column] == group).collect())
    }
}
