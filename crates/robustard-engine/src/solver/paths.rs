//! Relevances of features and rows over the iterations (the paper's Figure 2), thinned so that they stay small.

use serde::{Deserialize, Serialize};

use super::Iteration;

/// Iterations kept; when there are more, every other one is dropped and only every second one is kept from then on.
const MOST_SNAPSHOTS: usize = 64;
/// Rows watched; of more rows, evenly spaced ones.
const MOST_ROWS: usize = 20_000;

/// The relevances at one iteration.
#[derive(Debug, Clone)]
struct Snapshot {
    iteration: usize,
    /// 1/γ of each group of the whole problem; 0 where pruned.
    groups: Vec<f64>,
    /// 1/λ of the watched rows; one for all when the noise is shared.
    rows: Vec<f64>,
}

/// Keeps relevances while a fit runs; call [`PathRecorder::record`] from an observer.
#[derive(Debug, Clone)]
pub struct PathRecorder {
    group_count: usize,
    row_step: usize,
    stride: usize,
    snapshots: Vec<Snapshot>,
    last: Snapshot,
}

/// One relevance over the iterations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// The group of columns, or the row.
    pub index: usize,
    /// Its relevance at each of the iterations kept; 0 where pruned.
    pub relevance: Vec<f64>,
}

/// Relevances over the iterations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Paths {
    /// The iterations kept; the last one always is.
    pub iterations: Vec<usize>,
    /// 1/γ of groups of columns.
    pub groups: Vec<Path>,
    /// 1/λ of rows.
    pub rows: Vec<Path>,
}

impl PathRecorder {
    /// For a problem with so many groups of columns and rows.
    pub fn new(group_count: usize, row_count: usize) -> Self {
        let last = Snapshot { iteration: 0, groups: vec![0.0; group_count], rows: Vec::new() };
        let row_step = row_count.div_ceil(MOST_ROWS).max(1);
        Self { group_count, row_step, stride: 1, snapshots: Vec::new(), last }
    }

    /// Notes an iteration.
    pub fn record(&mut self, iteration: &Iteration<'_>) {
        let Snapshot { iteration: number, groups, rows } = &mut self.last;
        *number = iteration.record.iteration;
        groups.fill(0.0);
        for (&group, precision) in iteration.groups.iter().zip(&iteration.state.weight_precision) {
            groups[group] = 1.0 / precision;
        }
        rows.clear();
        rows.extend(iteration.state.noise_variance.iter().step_by(self.row_step).map(|variance| 1.0 / variance));
        if (*number - 1).is_multiple_of(self.stride) {
            self.snapshots.push(self.last.clone());
        }
        if self.snapshots.len() > MOST_SNAPSHOTS {
            let mut place = 0;
            self.snapshots.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.stride *= 2;
        }
    }

    /// The rows that are watched.
    pub fn is_watched(&self, row: usize) -> bool {
        row.is_multiple_of(self.row_step)
    }

    /// The paths of the given groups and of those of the given rows that are watched.
    pub fn paths(&self, groups: &[usize], rows: &[usize]) -> Paths {
        let mut kept: Vec<&Snapshot> = self.snapshots.iter().collect();
        if self.last.iteration > kept.last().map_or(0, |snapshot| snapshot.iteration) {
            kept.push(&self.last);
        }
        let path = |index: usize, value: &dyn Fn(&Snapshot) -> f64| Path {
            index,
            relevance: kept.iter().map(|snapshot| value(snapshot)).collect(),
        };
        Paths {
            iterations: kept.iter().map(|snapshot| snapshot.iteration).collect(),
            groups: groups
                .iter()
                .filter(|&&group| group < self.group_count)
                .map(|&group| path(group, &|snapshot| snapshot.groups[group]))
                .collect(),
            rows: rows
                .iter()
                .filter(|&&row| self.is_watched(row))
                .map(|&row| path(row, &|snapshot| snapshot.rows[(row / self.row_step).min(snapshot.rows.len() - 1)]))
                .collect(),
        }
    }
}
