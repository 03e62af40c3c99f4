//! What a pass brings back: sums over rows, which add up.

use serde::{Deserialize, Serialize};

use super::codec::{DecodeError, decode, encode};
use super::histogram::Histogram;
use crate::math::packed::packed_length;

const KIND: &str = "sum";
const GRAM: &str = "gram";
const PROJECTION: &str = "projection";
const HISTOGRAM: &str = "histogram";

/// Sums over rows, each with the variance λ that follows from its second moment e² under what was broadcast.
#[derive(Debug, Clone, PartialEq)]
pub struct Sums {
    /// Number of rows.
    pub rows: u64,
    /// Σ ω.
    pub weight: f64,
    /// Σ ω [e²/(2λ) + ½ log 2πλ + c(λ)]: what the rows add to the objective.
    pub cost: f64,
    /// Σ ωe²/λ.
    pub weighted_square: f64,
    /// Σ ω log λ.
    pub log_variance: f64,
    /// Σ ωy²/λ.
    pub target_square: f64,
    /// Σ ωxxᵀ/λ, its lower triangle column by column.
    pub gram: Vec<f64>,
    /// Σ ωyx/λ.
    pub projection: Vec<f64>,
    /// The second moments.
    pub histogram: Histogram,
}

/// What is no list of numbers.
#[derive(Serialize, Deserialize)]
struct Description {
    columns: usize,
    rows: u64,
    weight: f64,
    cost: f64,
    weighted_square: f64,
    log_variance: f64,
    target_square: f64,
    first_bin: usize,
}

impl Sums {
    /// Of no rows.
    pub fn zero(columns: usize) -> Self {
        Self {
            rows: 0,
            weight: 0.0,
            cost: 0.0,
            weighted_square: 0.0,
            log_variance: 0.0,
            target_square: 0.0,
            gram: vec![0.0; packed_length(columns).unwrap_or(0)],
            projection: vec![0.0; columns],
            histogram: Histogram::default(),
        }
    }

    /// Adds the sums over other rows of as many columns. The order matters in the last digits: partitions are added in theirs.
    pub fn merge(&mut self, other: &Self) {
        let add = |own: &mut [f64], other: &[f64]| own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
        self.rows += other.rows;
        self.weight += other.weight;
        self.cost += other.cost;
        self.weighted_square += other.weighted_square;
        self.log_variance += other.log_variance;
        self.target_square += other.target_square;
        add(&mut self.gram, &other.gram);
        add(&mut self.projection, &other.projection);
        self.histogram.merge(&other.histogram);
    }

    /// As bytes, to travel.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (first_bin, bins) = self.histogram.to_numbers();
        let description = Description {
            columns: self.projection.len(),
            rows: self.rows,
            weight: self.weight,
            cost: self.cost,
            weighted_square: self.weighted_square,
            log_variance: self.log_variance,
            target_square: self.target_square,
            first_bin,
        };
        encode(KIND, &description, &[(GRAM, &self.gram), (PROJECTION, &self.projection), (HISTOGRAM, &bins)])
    }

    /// What [`Self::to_bytes`] has written.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (description, mut numbers) = decode::<Description>(KIND, bytes)?;
        let Description { columns, rows, weight, cost, weighted_square, log_variance, target_square, first_bin } =
            description;
        let bins = numbers.take(HISTOGRAM, None)?;
        let Some(histogram) = Histogram::from_numbers(first_bin, &bins) else {
            return Err(numbers.damaged("the histogram has another length".to_owned()));
        };
        Ok(Self {
            rows,
            weight,
            cost,
            weighted_square,
            log_variance,
            target_square,
            gram: numbers.take(GRAM, packed_length(columns))?,
            projection: numbers.take(PROJECTION, Some(columns))?,
            histogram,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_bring_them_back() {
        let mut histogram = Histogram::default();
        histogram.add(&[0.3, 1e-200, 17.0, 1e300], &[1.0, 2.0, 0.5, 1.0]);
        let sums = Sums {
            rows: 4,
            weight: 4.5,
            cost: 0.1,
            weighted_square: 0.7,
            log_variance: -2.0,
            target_square: 1.0 / 3.0,
            gram: vec![1.0, 0.5, 2.0],
            projection: vec![-1.0, 0.0],
            histogram,
        };
        let bytes = sums.to_bytes();
        assert_eq!(Sums::from_bytes(&bytes).unwrap(), sums);
        assert!((0..bytes.len()).all(|length| Sums::from_bytes(&bytes[..length]).is_err()));
        assert!(super::super::Broadcast::from_bytes(&bytes).unwrap_err().to_string().contains("broadcast"));
        let mut twice = sums.clone();
        twice.merge(&sums);
        assert_eq!((twice.rows, twice.gram[2]), (8, 4.0));
    }
}
