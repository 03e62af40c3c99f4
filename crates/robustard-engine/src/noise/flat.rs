//! One variance per row and nothing known of them, as in the paper.

use serde::{Deserialize, Serialize};

use super::{Model, bulk_variance};

/// λᵢ under a flat prior.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Flat;

impl Model for Flat {
    fn variance(&self, e2: f64) -> f64 {
        e2
    }

    fn inlier_variance(&self, second_moment: &[f64]) -> f64 {
        bulk_variance(second_moment).max(f64::MIN_POSITIVE)
    }
}
