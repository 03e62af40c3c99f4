//! What was compared, and why one fit was chosen: facts, which each front end puts into words.

use robustard_engine::Noise;
use serde::{Deserialize, Serialize};

use crate::features::FeatureKind;
use crate::target::TargetTransform;

/// What was compared, and why one was chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Selection {
    /// All fits.
    pub compared: Vec<Compared>,
    /// Why this one.
    pub reasons: Vec<Reason>,
}

/// One of the fits compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Compared {
    /// Its features.
    pub features: FeatureKind,
    /// If it was not fitted to all rows, to how many.
    pub learnt_from: Option<usize>,
    /// Its noise.
    pub noise: Noise,
    /// What it fits instead of the target.
    pub target_transform: TargetTransform,
    /// Rows that it sets aside as gross errors.
    pub set_aside: usize,
    /// Bound on the log evidence per row, in nats, in the target's units.
    pub bound: f64,
    /// Root mean square of the errors of left-out rows, in the target's units, without rows set aside.
    pub loo_rmse: f64,
    /// Mean log density of all left-out rows, in the target's units.
    pub loo_log_density: f64,
    /// Whether it was chosen.
    pub chosen: bool,
}

/// Why a fit was chosen. Gains are in nats per row, unless something else is said.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Reason {
    /// Lines: too few rows for a curve.
    TooFewRowsForCurve {
        /// Rows that are not copies.
        rows: usize,
    },
    /// Lines: no curve could be learnt.
    NoCurveLearnt,
    /// Lines: a curve explains the rows looked at hardly better.
    CurveExplainsNoMore {
        /// In nats, of all these rows together.
        gain: f64,
        /// Rows looked at.
        rows: usize,
    },
    /// A curve predicts left-out rows better than lines.
    CurveGains {
        /// Per left-out row.
        gain: f64,
        /// Its standard error.
        standard_error: f64,
    },
    /// Lines: a curve predicts left-out rows not clearly better.
    CurveGainsTooLittle {
        /// Per left-out row.
        gain: f64,
        /// Its standard error.
        standard_error: f64,
    },
    /// Shared noise: most targets are one of very few values.
    FewTargetValues,
    /// Robust noise explains the rows better.
    RobustNoiseGains {
        /// Which.
        noise: Noise,
        /// Compared with shared noise.
        gain: f64,
    },
    /// Shared noise: robust noise gains nothing, or too little.
    RobustNoiseGainsTooLittle {
        /// Which.
        noise: Noise,
        /// Compared with shared noise.
        gain: f64,
    },
    /// Shared noise: with robust noise, predictions explain no more of left-out rows.
    RobustNoisePredictsWorse {
        /// Which.
        noise: Noise,
    },
    /// Rows far from the others in their inputs are set aside, because the others contradict them.
    LeverageSetAside {
        /// How many.
        rows: usize,
    },
    /// Gross errors are set aside.
    GrossErrorsSetAside {
        /// How many.
        rows: usize,
        /// Standard deviations of the rows kept from which errors are gross.
        limit: f64,
        /// Of noise with outliers compared with shared noise.
        gain: f64,
    },
    /// A few errors are much larger than any of the rows that the noise was chosen by; these rows are set aside.
    RareErrorsSetAside {
        /// How many.
        rows: usize,
    },
    /// Rows whose targets can only be typing errors are set aside.
    TypingErrorsSetAside {
        /// How many.
        rows: usize,
    },
    /// A transformation of the target is fitted, because errors grow with it.
    TargetTransformed {
        /// Which.
        transform: TargetTransform,
        /// Per left-out row, compared with the target itself.
        gain: f64,
        /// Its standard error.
        standard_error: f64,
    },
    /// A transformation of the target is fitted, because fewer rows look wrong then: errors grow with the target.
    FewerRowsWrongWhenTransformed {
        /// Which.
        transform: TargetTransform,
        /// Rows that look wrong with the target itself.
        plain: usize,
        /// Rows that look wrong with its transformation.
        transformed: usize,
    },
    /// The target itself is fitted: a transformation predicts left-out rows no better, or its errors, transformed back, are larger.
    TargetNotTransformed {
        /// Which.
        transform: TargetTransform,
        /// Per left-out row, compared with the target itself.
        gain: f64,
        /// Its standard error.
        standard_error: f64,
    },
    /// Error bars depend on the inputs, because errors of left-out rows do.
    WidthsVary {
        /// Width relative to what it would be if all were alike, of the narrowest and the widest of nine tenths of the rows.
        narrow: f64,
        /// The same.
        wide: f64,
        /// Per left-out row, compared with error bars that are all alike.
        gain: f64,
        /// Its standard error.
        standard_error: f64,
    },
    /// Shared noise: noise with outliers gains, but no error stands apart.
    NoErrorStandsApart,
    /// The work was stopped before everything was compared.
    Interrupted,
}
