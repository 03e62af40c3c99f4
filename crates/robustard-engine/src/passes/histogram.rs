//! How the rows' second moments are distributed: all that a noise model's parameters need of the rows.

use serde::{Deserialize, Serialize};

/// Bits of the mantissa that tell bins apart: values in a bin differ by at most 1/256.
const MANTISSA_BITS: u32 = 8;
const SHIFT: u32 = f64::MANTISSA_DIGITS - 1 - MANTISSA_BITS;

/// Second moments are counted within this range; no weight is lost beyond it.
const RANGE: [f64; 2] = [1e-60, 1e60];

/// Weights and mean second moments of rows, by the second moment on a logarithmic scale. What is summed over bins instead of rows is wrong
/// by the square of their width, 10⁻⁶ of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "Packed", try_from = "Packed")]
pub struct Histogram {
    /// Place of the first bin.
    first: usize,
    bins: Vec<Bin>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Bin {
    /// Σ ω.
    weight: f64,
    /// Σ ωe².
    sum: f64,
    /// Number of rows, exact to 2⁵³.
    rows: f64,
}

/// As it is saved.
#[derive(Serialize, Deserialize)]
struct Packed {
    first: usize,
    bins: Vec<f64>,
}

impl From<Histogram> for Packed {
    fn from(histogram: Histogram) -> Self {
        let (first, bins) = histogram.to_numbers();
        Self { first, bins }
    }
}

impl TryFrom<Packed> for Histogram {
    type Error = &'static str;

    fn try_from(Packed { first, bins }: Packed) -> Result<Self, Self::Error> {
        Self::from_numbers(first, &bins).ok_or("the histogram has another length")
    }
}

/// Bins as if they were rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bins {
    /// Mean second moment of each bin, smallest first.
    pub second_moment: Vec<f64>,
    /// Σ ω of each bin.
    pub weight: Vec<f64>,
}

impl Histogram {
    /// Numbers of a bin when saved.
    const FIELDS: usize = 3;
    /// Place of the last bin there can be.
    const LAST_PLACE: usize = (RANGE[1].to_bits() >> SHIFT) as usize;

    /// Counts rows.
    pub fn add(&mut self, second_moment: &[f64], row_weight: &[f64]) {
        for (e2, w) in second_moment.iter().zip(row_weight) {
            let bin = self.bin((e2.clamp(RANGE[0], RANGE[1]).to_bits() >> SHIFT) as usize);
            bin.weight += w;
            bin.sum += w * e2;
            bin.rows += 1.0;
        }
    }

    /// Adds the rows of another.
    pub fn merge(&mut self, other: &Self) {
        if let Some(last) = other.bins.len().checked_sub(1) {
            // Room once.
            self.bin(other.first);
            self.bin(other.first + last);
        }
        for (k, bin) in other.bins.iter().enumerate() {
            let own = self.bin(other.first + k);
            own.weight += bin.weight;
            own.sum += bin.sum;
            own.rows += bin.rows;
        }
    }

    /// The bin at a place, which is made if there is none.
    #[inline]
    fn bin(&mut self, place: usize) -> &mut Bin {
        if self.bins.is_empty() {
            self.first = place;
        }
        if place < self.first {
            let more = self.first - place;
            self.bins.splice(0..0, std::iter::repeat_n(Bin::default(), more));
            self.first = place;
        }
        if place - self.first >= self.bins.len() {
            self.bins.resize(place - self.first + 1, Bin::default());
        }
        &mut self.bins[place - self.first]
    }

    fn filled(&self) -> impl Iterator<Item = &Bin> {
        self.bins.iter().filter(|bin| bin.rows > 0.0)
    }

    /// The bins that hold rows.
    pub fn bins(&self) -> Bins {
        let (second_moment, weight) = self.filled().map(|bin| (bin.sum / bin.weight, bin.weight)).unzip();
        Bins { second_moment, weight }
    }

    /// Median of the second moments, each row counted once; 0 of none.
    pub fn median(&self) -> f64 {
        let half = 0.5 * self.bins.iter().map(|bin| bin.rows).sum::<f64>();
        let mut before = 0.0;
        for bin in self.filled() {
            before += bin.rows;
            if before >= half {
                return bin.sum / bin.weight;
            }
        }
        0.0
    }

    /// The place of the first bin and the numbers of all bins.
    pub(super) fn to_numbers(&self) -> (usize, Vec<f64>) {
        (self.first, self.bins.iter().flat_map(|bin| [bin.weight, bin.sum, bin.rows]).collect())
    }

    /// The inverse of [`Self::to_numbers`]; none if there are bins where none can be.
    pub(super) fn from_numbers(first: usize, numbers: &[f64]) -> Option<Self> {
        let (bins, rest) = numbers.as_chunks::<{ Self::FIELDS }>();
        let is_possible =
            rest.is_empty() && first.checked_add(bins.len()).is_some_and(|end| end <= Self::LAST_PLACE + 1);
        let bins = bins.iter().map(|&[weight, sum, rows]| Bin { weight, sum, rows }).collect();
        is_possible.then_some(Self { first, bins })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::order::median;
    use crate::noise::{Noise, NoiseModel};

    fn rows() -> (Vec<f64>, Vec<f64>) {
        let e2 =
            (0..5000).map(|i| (0.3 * (f64::from(i) * 0.7).sin().exp()).powi(2) * if i % 10 == 0 { 90.0 } else { 1.0 });
        (e2.collect(), (0..5000).map(|i| 1.0 + f64::from(i % 3)).collect())
    }

    #[test]
    fn bins_are_as_good_as_rows() {
        let (e2, weight) = rows();
        let mut histogram = Histogram::default();
        histogram.add(&e2, &weight);
        let bins = histogram.bins();
        assert!(bins.weight.len() < 2500);
        assert!((histogram.median() / median(&e2) - 1.0).abs() < 1.0 / 256.0);
        for noise in ["student-t:4", "student-t:learned", "contaminated", "contaminated-t:5"] {
            let mut models = [NoiseModel::new(noise.parse::<Noise>().unwrap(), 0.1); 2];
            for _ in 0..20 {
                models[0].fit_parameters(&e2, &weight, [1e-10, 1e10]);
                models[1].fit_parameters(&bins.second_moment, &bins.weight, [1e-10, 1e10]);
            }
            let [rows, bins] = models.map(|model| model.to_coordinates());
            for (a, b) in rows.iter().zip(&bins) {
                assert!((a - b).abs() < 2e-5, "{noise}: {rows:?} {bins:?}");
            }
        }
    }

    #[test]
    fn parts_add_up() {
        let (e2, weight) = rows();
        let mut whole = Histogram::default();
        whole.add(&e2, &weight);
        let mut parts = Histogram::default();
        for (e2, weight) in e2.chunks(700).zip(weight.chunks(700)) {
            let mut part = Histogram::default();
            part.add(e2, weight);
            parts.merge(&part);
        }
        let [whole, parts] = [whole.bins(), parts.bins()];
        assert_eq!(whole.weight, parts.weight);
        assert!(whole.second_moment.iter().zip(&parts.second_moment).all(|(a, b)| (a / b - 1.0).abs() < 1e-12));
    }
}
