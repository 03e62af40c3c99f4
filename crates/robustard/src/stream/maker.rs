//! How rows of a table become rows of the problem, wherever they are.

use std::ops::Range;

use faer::{ColRef, Mat, MatRef, Par};
use robustard_engine::RowRule;
use robustard_engine::passes::{Broadcast, Known, Partition, Sums};
use serde::{Deserialize, Serialize};

use crate::dataset::Dataset;
use crate::design::Design;
use crate::diagnostics::Diagnostics;
use crate::features::Gap;
use crate::fitted::{Block, Fit, WeightRule};
use crate::work::{FAR, SET_ASIDE};

/// Rows made into features together: few, so that they stay in the cache; features that are products of matrices take more.
const FEW: usize = 256;
const MORE: usize = 2048;

/// How rows of a table become rows of the problem: all that has to be known where the rows are, beside a broadcast.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RowMaker {
    pub(super) design: Design,
    pub(super) rule: WeightRule,
}

/// Some rows of a partition as the engine takes them.
struct Made<'m> {
    /// d × m.
    rows: MatRef<'m, f64>,
    /// Standardized.
    target: &'m [f64],
    weight: &'m [f64],
    set_aside: &'m [usize],
    /// Standardized inputs, m × p; empty if they are not asked for.
    standard: MatRef<'m, f64>,
    gaps: Option<&'m [Gap]>,
}

impl RowMaker {
    /// Sums over rows under what is broadcast.
    pub fn sums(&self, rows: &Dataset<'_>, broadcast: &Broadcast) -> Sums {
        self.sums_of_known(rows, &Known::new(broadcast))
    }

    pub(super) fn sums_of_known(&self, rows: &Dataset<'_>, known: &Known) -> Sums {
        let mut partition = Partition::new(known);
        self.make(rows, false, |made| partition.add(made.rows, made.target, made.weight));
        partition.finish()
    }

    /// Shows all rows, some at a time; those with numbers that are not finite are the caller's to keep out.
    fn make(&self, dataset: &Dataset<'_>, with_standard: bool, mut show: impl FnMut(Made<'_>)) {
        let (design, n) = (&self.design, dataset.row_count());
        let length = if design.is_linear() { FEW } else { MORE }.min(n);
        let columns: Vec<ColRef<'_, f64>> = dataset.columns().collect();
        let target = design.target().standardize(dataset.target());
        let mut room = Mat::zeros(design.column_count(), length);
        let (mut weight, mut set_aside) = (Vec::with_capacity(length), Vec::new());
        for start in (0..n).step_by(length) {
            let m = length.min(n - start);
            let range = start..start + m;
            let mut rows = room.as_mut().subcols_mut(0, m);
            let standard = if with_standard || !design.is_linear() {
                design.standardized_columns(&columns, range.clone())
            } else {
                Mat::new()
            };
            let gaps = if design.is_linear() {
                design.write_linear(&columns, range.clone(), rows.as_mut());
                None
            } else {
                design.write(standard.as_ref(), rows.as_mut(), Par::Seq)
            };
            let target = &target[range.clone()];
            self.weigh(dataset, range, rows.as_ref(), target, &mut weight, &mut set_aside);
            let (rows, gaps) = (rows.as_ref(), gaps.as_deref());
            show(Made { rows, target, weight: &weight, set_aside: &set_aside, standard: standard.as_ref(), gaps });
        }
    }

    /// How often rows count: those set aside hardly do.
    fn weigh(
        &self,
        dataset: &Dataset<'_>,
        range: Range<usize>,
        rows: MatRef<'_, f64>,
        target: &[f64],
        weight: &mut Vec<f64>,
        set_aside: &mut Vec<usize>,
    ) {
        weight.clear();
        set_aside.clear();
        match dataset.weights() {
            Some(weights) => weight.extend(weights[range.clone()].iter().map(|weight| weight / self.rule.unit)),
            None => weight.resize(range.len(), 1.0 / self.rule.unit),
        }
        let WeightRule { gross, typing, .. } = &self.rule;
        let is_typing =
            |row: usize| typing.is_some_and(|(centre, limit)| (dataset.target()[row] - centre).abs() > limit);
        let is_gross = |i: usize| {
            gross.as_ref().is_some_and(|(weights, limit)| {
                let fitted: f64 = rows.col(i).iter().zip(weights).map(|(value, weight)| value * weight).sum();
                (target[i] - fitted).abs() > *limit
            })
        };
        if gross.is_none() && typing.is_none() {
            return;
        }
        for (i, row) in range.enumerate() {
            if is_typing(row) || is_gross(i) {
                set_aside.push(i);
                let farthest = rows.col(i).iter().fold(target[i].abs(), |largest, value| largest.max(value.abs()));
                let square = if farthest > FAR { (farthest * farthest).min(1e80) } else { 1.0 };
                weight[i] *= SET_ASIDE / square;
            }
        }
    }

    /// What the rows of a partition are under a fit.
    pub(super) fn diagnose(&self, fit: &Fit, rule: &RowRule, dataset: &Dataset<'_>) -> (Diagnostics, Vec<bool>) {
        let mut all: Option<(Diagnostics, Vec<bool>)> = None;
        self.make(dataset, true, |Made { rows, target, weight, set_aside, standard, gaps }| {
            let rows = rule.of(rows, target, weight);
            let (diagnostics, inside) = fit.diagnose(&rows, &Block { standard, gaps, set_aside });
            match &mut all {
                Some((known, known_inside)) => {
                    known.append(diagnostics);
                    known_inside.extend(inside);
                }
                None => all = Some((diagnostics, inside)),
            }
        });
        let (mut diagnostics, inside) = all.expect("a partition has rows");
        // As they were given, not as they come back from standard units.
        diagnostics.actual.copy_from_slice(dataset.target());
        (diagnostics, inside)
    }
}
