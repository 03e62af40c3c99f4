//! What is found out about all rows in the last pass.

use robustard_engine::passes::Histogram;
use serde::{Deserialize, Serialize};

use crate::diagnostics::Diagnostics;
use crate::fitted::{SuspiciousRow, WeightRule, Whole};
use crate::quality::Quality;

/// Suspicious rows that a model remembers.
const MOST_SUSPICIOUS: usize = 1000;

/// What some rows are under a fit; those of other rows add up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RowSummary {
    rows: u64,
    weight: f64,
    target: f64,
    /// Σ ω(y − mean)².
    target_square: f64,
    error_square: f64,
    inside: f64,
    errors: Histogram,
    flagged: u64,
    set_aside: u64,
    suspicious: Vec<SuspiciousRow>,
}

impl RowSummary {
    /// Of rows with these diagnostics, and which of them are in their 95% interval. Their numbers count from the first of them.
    pub(super) fn of(diagnostics: &Diagnostics, inside: &[bool]) -> Self {
        let Diagnostics { actual, loo_residual, weight, flagged, set_aside, .. } = diagnostics;
        let mut own = Self { rows: weight.len() as u64, ..Self::default() };
        // About a value near the mean, so that no digits are lost.
        for (row, weight) in weight.iter().enumerate() {
            own.weight += weight;
            own.error_square += weight * loo_residual[row].powi(2);
            own.inside += if inside[row] { *weight } else { 0.0 };
            own.flagged += u64::from(flagged[row]);
            own.set_aside += u64::from(set_aside[row]);
            let before = own.target;
            own.target += weight / own.weight * (actual[row] - before);
            own.target_square += weight * (actual[row] - before) * (actual[row] - own.target);
        }
        // The median is that of the rows that count.
        let kept = || (0..weight.len()).filter(|&row| !set_aside[row]);
        let squares: Vec<f64> = kept().map(|row| loo_residual[row].powi(2)).collect();
        let weights: Vec<f64> = kept().map(|row| weight[row]).collect();
        own.errors.add(&squares, &weights);
        let of = |row: usize| SuspiciousRow {
            row: row as u64,
            actual: actual[row],
            predicted: diagnostics.predicted[row],
            z: diagnostics.z[row],
            outlier_probability: diagnostics.outlier_probability.as_ref().map(|probability| probability[row]),
            set_aside: set_aside[row],
        };
        own.suspicious = diagnostics.flagged_rows().into_iter().take(MOST_SUSPICIOUS).map(of).collect();
        own
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The most suspicious rows, most suspicious first.
    pub fn suspicious(&self) -> &[SuspiciousRow] {
        &self.suspicious
    }

    /// Adds rows that come after these.
    pub fn merge(&mut self, other: &Self) {
        if other.weight > 0.0 {
            let (total, shift) = (self.weight + other.weight, other.target - self.target);
            self.target += shift * (other.weight / total);
            self.target_square += other.target_square + shift * shift * (self.weight * (other.weight / total));
            self.weight = total;
        }
        self.error_square += other.error_square;
        self.inside += other.inside;
        self.errors.merge(&other.errors);
        self.flagged += other.flagged;
        self.set_aside += other.set_aside;
        let before = self.rows;
        self.suspicious.extend(other.suspicious.iter().map(|row| SuspiciousRow { row: before + row.row, ..*row }));
        self.rows += other.rows;
        self.keep_the_worst();
    }

    fn keep_the_worst(&mut self) {
        let suspicion = |row: &SuspiciousRow| (row.outlier_probability.unwrap_or(0.0), row.z.abs());
        self.suspicious.sort_by(|a, b| {
            let (a, b) = (suspicion(a), suspicion(b));
            b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
        });
        self.suspicious.truncate(MOST_SUSPICIOUS);
    }

    /// What there is to say of all rows.
    pub(super) fn whole(self, chosen_on: usize, passes: usize, rule: WeightRule) -> Whole {
        let mean_square = self.error_square / self.weight;
        let spread = self.target_square / self.weight;
        let quality = Quality {
            loo_rmse: mean_square.sqrt(),
            loo_r2: if spread > 0.0 { 1.0 - mean_square / spread } else { 0.0 },
            loo_median_error: self.errors.median().sqrt(),
            coverage_95: self.inside / self.weight,
        };
        let Self { rows, flagged, set_aside, suspicious, .. } = self;
        Whole { rows, chosen_on, passes, quality, flagged, set_aside, suspicious, rule }
    }
}
