//! The share and the size of outliers, with their priors: what both contaminated models learn.

/// Start of the contaminated share.
pub(super) const START_SHARE: f64 = 0.05;
/// Beta prior of the contaminated share, as pseudo-counts of outliers and of all rows: half an outlier in ten rows.
const SHARE_COUNTS: [f64; 2] = [0.5, 10.0];
const SHARE_RANGE: [f64; 2] = [1e-6, 0.5];
/// The variance ratio of outliers starts, and is drawn by half a pseudo-row, towards 50; below 9 (three standard
/// deviations) the two components could not be told apart.
pub(super) const RATIO_CENTRE: f64 = 50.0;
const RATIO_COUNT: f64 = 0.5;
const RATIO_RANGE: [f64; 2] = [9.0, 1e10];

/// Sums over the rows, each split between inliers and outliers by its probability of being one.
#[derive(Default)]
pub(super) struct Split {
    /// Squares of the inliers.
    pub inlier_sum: f64,
    /// Squares of the outliers.
    pub outlier_sum: f64,
    /// Number of outliers.
    pub outliers: f64,
}

/// s², π and κ.
pub(super) struct Parameters {
    pub scale: f64,
    pub share: f64,
    pub ratio: f64,
}

impl Split {
    /// The parameters given the split of `rows` rows, from the present ratio.
    pub(super) fn parameters(&self, ratio: f64, rows: f64, bounds: [f64; 2]) -> Parameters {
        let (mut scale, mut ratio) = (bounds[0], ratio);
        // The scale and the ratio share terms: two rounds of coordinate descent, each exact.
        for _ in 0..2 {
            scale = ((self.inlier_sum + self.outlier_sum / ratio) / rows).clamp(bounds[0], bounds[1]);
            ratio = (self.outlier_sum / scale + RATIO_COUNT * RATIO_CENTRE) / (self.outliers + RATIO_COUNT);
            ratio = ratio.clamp(RATIO_RANGE[0], RATIO_RANGE[1]);
        }
        let share = (self.outliers + SHARE_COUNTS[0]) / (rows + SHARE_COUNTS[1]);
        Parameters { scale, share: share.clamp(SHARE_RANGE[0], SHARE_RANGE[1]), ratio }
    }
}

/// Minus the log density, up to a constant, of the priors of π and κ.
pub(super) fn prior_cost(share: f64, ratio: f64) -> f64 {
    let [outliers, all] = SHARE_COUNTS;
    -outliers * share.ln() - (all - outliers) * (1.0 - share).ln()
        + 0.5 * RATIO_COUNT * (ratio.ln() + RATIO_CENTRE / ratio)
}

/// π from its log odds.
pub(super) fn share_at(log_odds: f64) -> f64 {
    (1.0 / (1.0 + (-log_odds).exp())).clamp(SHARE_RANGE[0], SHARE_RANGE[1])
}

/// κ from its logarithm.
pub(super) fn ratio_at(log: f64) -> f64 {
    log.exp().clamp(RATIO_RANGE[0], RATIO_RANGE[1])
}
