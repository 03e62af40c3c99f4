//! What every row has to know of the fit so far.

use faer::Mat;
use serde::{Deserialize, Serialize};

use super::codec::{DecodeError, decode, encode};
use crate::math::packed::{packed_length, unpack_lower};
use crate::math::sum::square_sum;
use crate::noise::NoiseModel;

const KIND: &str = "broadcast";
const MEAN: &str = "mean";
const INVERSE_FACTOR: &str = "inverse_factor";

/// The posterior of the weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Belief {
    /// μ.
    pub mean: Vec<f64>,
    /// R = L⁻¹ with Σ = RᵀR, its lower triangle column by column.
    pub inverse_factor: Vec<f64>,
}

/// What is sent to the rows before a pass.
#[derive(Debug, Clone, PartialEq)]
pub struct Broadcast {
    /// The columns that the sums are wanted of, in ascending order, and of which `belief` speaks.
    pub columns: Vec<usize>,
    /// None before the first pass: targets are then their own residuals.
    pub belief: Option<Belief>,
    /// The noise model, by which a row's second moment gives its variance.
    pub noise: NoiseModel,
    /// Variances are kept between these.
    pub variance_bounds: [f64; 2],
}

/// What is no list of numbers.
#[derive(Serialize, Deserialize)]
struct Description {
    columns: Vec<usize>,
    noise: NoiseModel,
    variance_bounds: [f64; 2],
    is_known: bool,
}

impl Belief {
    /// R as a matrix; none if the number of values is not that of a triangle.
    pub(super) fn factor(&self) -> Option<Mat<f64>> {
        unpack_lower(&self.inverse_factor, self.mean.len())
    }

    /// Σⱼⱼ of the columns.
    pub(super) fn variances(&self) -> Vec<f64> {
        let mut rest = self.inverse_factor.as_slice();
        let mut variance = |j: usize| {
            let (column, next) = rest.split_at(self.mean.len() - j);
            rest = next;
            square_sum(column)
        };
        (0..self.mean.len()).map(&mut variance).collect()
    }
}

impl Broadcast {
    /// As bytes, to travel.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { columns, belief, noise, variance_bounds } = self.clone();
        let description = Description { columns, noise, variance_bounds, is_known: belief.is_some() };
        let lists = belief
            .iter()
            .flat_map(|belief| [(MEAN, belief.mean.as_slice()), (INVERSE_FACTOR, belief.inverse_factor.as_slice())]);
        encode(KIND, &description, &lists.collect::<Vec<_>>())
    }

    /// What [`Self::to_bytes`] has written.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (description, mut numbers) = decode::<Description>(KIND, bytes)?;
        let Description { columns, noise, variance_bounds, is_known } = description;
        if !columns.is_sorted_by(|a, b| a < b) {
            return Err(numbers.damaged("the columns are not in order".to_owned()));
        }
        let mut read_belief = || {
            let mean = numbers.take(MEAN, Some(columns.len()))?;
            Ok(Belief { mean, inverse_factor: numbers.take(INVERSE_FACTOR, packed_length(columns.len()).or(Some(0)))? })
        };
        let belief = if is_known { Some(read_belief()?) } else { None };
        Ok(Self { columns, belief, noise, variance_bounds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    #[test]
    fn bytes_bring_it_back() {
        let belief = Belief { mean: vec![0.1, -1e-300], inverse_factor: vec![1.0 / 3.0, 2.0, f64::MIN_POSITIVE] };
        for belief in [None, Some(belief)] {
            let noise = NoiseModel::new("contaminated-t:5".parse::<Noise>().unwrap(), 0.1);
            let broadcast = Broadcast { columns: vec![1, 4], belief, noise, variance_bounds: [1e-10, 1e10] };
            let bytes = broadcast.to_bytes();
            assert_eq!(Broadcast::from_bytes(&bytes).unwrap(), broadcast);
            assert_eq!(bytes, broadcast.to_bytes());
            assert!((0..bytes.len()).all(|length| Broadcast::from_bytes(&bytes[..length]).is_err()));
        }
    }
}
