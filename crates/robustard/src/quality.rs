//! How good a fit is, by closed-form leave-one-out at the learnt precisions.

use robustard_engine::math::order::weighted_median_of_magnitudes;
use serde::{Deserialize, Serialize};

use crate::diagnostics::Diagnostics;

/// How well each row is predicted from the others, in the target's units. Rows count as often as in the fit: those set aside hardly
/// do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Quality {
    /// Root mean square of the leave-one-out residuals.
    pub loo_rmse: f64,
    /// Share of the target's variance that leave-one-out predictions explain; below 0 when the mean would do better, 0 for a
    /// target of one value.
    pub loo_r2: f64,
    /// Median absolute leave-one-out residual: what outliers do not move.
    pub loo_median_error: f64,
    /// Share of the rows inside their leave-one-out 95% interval.
    pub coverage_95: f64,
}

impl Quality {
    pub(crate) fn of(diagnostics: &Diagnostics, coverage_95: f64) -> Self {
        let Diagnostics { actual, loo_residual, weight, .. } = diagnostics;
        let total: f64 = weight.iter().sum();
        let mean_of = |value: &dyn Fn(usize) -> f64| -> f64 {
            (0..actual.len()).map(|row| weight[row] * value(row)).sum::<f64>() / total
        };
        let error = mean_of(&|row| loo_residual[row].powi(2)).sqrt();
        let mean = mean_of(&|row| actual[row]);
        let spread = mean_of(&|row| (actual[row] - mean).powi(2)).sqrt();
        Self {
            loo_rmse: error,
            loo_r2: if spread > 0.0 { 1.0 - (error / spread).powi(2) } else { 0.0 },
            loo_median_error: weighted_median_of_magnitudes(loo_residual, weight),
            coverage_95,
        }
    }
}

/// Rows whose coverage is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// All of them.
    All,
    /// The third with the lowest predictions.
    Low,
    /// The third between.
    Middle,
    /// The third with the highest predictions.
    High,
}

/// Coverage of the intervals of some rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PartCoverage {
    /// Which rows.
    pub part: Part,
    /// Least prediction of these rows.
    pub from: f64,
    /// Largest prediction of these rows.
    pub to: f64,
    /// Number of rows.
    pub rows: usize,
    /// Share of them inside their leave-one-out interval: the interval that predictions have.
    pub covered: f64,
    /// The same without flagged rows.
    pub covered_unflagged: f64,
    /// What it should be.
    pub level: f64,
}

/// How intervals are off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miscoverage {
    /// Too few rows are inside, flagged ones left out.
    Narrow,
    /// Too many are inside.
    Wide,
}

/// Levels of intervals that are checked: narrow ones tell as much as wide ones, which hold nearly all rows either way.
pub(crate) const CHECKED_LEVELS: [f64; 2] = [0.5, 0.95];
/// Fewer rows than these, a part has nothing to say.
const LEAST_ROWS: usize = 20;
/// Standard deviations that one of eight shares, two levels of all rows and of three parts, is off in 5% of tables by chance.
const BY_CHANCE: f64 = 2.73;

/// Shares that are off by less than this are as good as right, however many rows show it: 92 to 98% of a 95% interval, in standard
/// deviations of one row.
const AS_GOOD_AS_RIGHT: f64 = 0.1376;

impl PartCoverage {
    /// How far chance alone moves the share.
    pub fn chance(&self) -> f64 {
        BY_CHANCE * (self.level * (1.0 - self.level) / self.rows as f64).sqrt()
    }

    /// Whether the share is off by more than that, and so far that it matters.
    pub fn miscoverage(&self) -> Option<Miscoverage> {
        match self.chance().max(AS_GOOD_AS_RIGHT * (self.level * (1.0 - self.level)).sqrt()) {
            limit if self.covered_unflagged < self.level - limit => Some(Miscoverage::Narrow),
            limit if self.covered > self.level + limit => Some(Miscoverage::Wide),
            _ => None,
        }
    }

    /// Of the checks of a level that are off, the one to name: that of all rows, or else of the third that is off most, where too few rows
    /// are inside if there is one.
    pub fn worst(checks: &[Self], level: f64) -> Option<&Self> {
        let off = || checks.iter().filter(|check| check.level == level && check.miscoverage().is_some());
        let rank = |check: &&Self| {
            (check.part == Part::All, check.miscoverage() == Some(Miscoverage::Narrow), (check.covered - level).abs())
        };
        off().max_by(|a, b| {
            let (a, b) = (rank(a), rank(b));
            (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2))
        })
    }

    /// All rows; none if they are too few.
    pub(crate) fn all(diagnostics: &Diagnostics, inside: &[bool], level: f64) -> Option<Self> {
        let order = Self::ordered(diagnostics);
        (order.len() >= LEAST_ROWS).then(|| Self::of(Part::All, diagnostics, &order, inside, level))
    }

    /// The rows in thirds of their predictions, lowest first; none if they are too few.
    pub(crate) fn thirds(diagnostics: &Diagnostics, inside: &[bool], level: f64) -> Vec<Self> {
        let order = Self::ordered(diagnostics);
        let count = order.len();
        if count < 3 * LEAST_ROWS {
            return Vec::new();
        }
        let rows = |k: usize| &order[k * count / 3..(k + 1) * count / 3];
        let parts = [Part::Low, Part::Middle, Part::High].into_iter().enumerate();
        parts.map(|(k, part)| Self::of(part, diagnostics, rows(k), inside, level)).collect()
    }

    /// Rows that count, excluded ones left out, by their predictions.
    fn ordered(diagnostics: &Diagnostics) -> Vec<usize> {
        let Diagnostics { predicted, weight, set_aside, .. } = diagnostics;
        let counts = |row: &usize| weight[*row] > 0.0 && !set_aside[*row];
        let mut order: Vec<usize> = (0..predicted.len()).filter(counts).collect();
        order.sort_by(|&a, &b| predicted[a].total_cmp(&predicted[b]));
        order
    }

    fn of(part: Part, diagnostics: &Diagnostics, rows: &[usize], inside: &[bool], level: f64) -> Self {
        let Diagnostics { predicted, flagged, .. } = diagnostics;
        let share = |is_counted: &dyn Fn(usize) -> bool| {
            let counted = || rows.iter().filter(|&&row| is_counted(row));
            counted().filter(|&&row| inside[row]).count() as f64 / counted().count().max(1) as f64
        };
        Self {
            part,
            from: predicted[rows[0]],
            to: predicted[rows[rows.len() - 1]],
            rows: rows.len(),
            covered: share(&|_| true),
            covered_unflagged: share(&|row| !flagged[row]),
            level,
        }
    }
}
