//! Which noise a fit assumes, and how that is written.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::DEFAULT_DEGREES;

/// Degrees of freedom of Student-t noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Degrees {
    /// Given.
    Fixed(f64),
    /// Learnt with the rest.
    Learned,
}

/// The noise that a fit assumes: one variance for all rows, or one per row with a prior.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Noise {
    /// λᵢ = λ: classic sparse Bayesian learning.
    Shared,
    /// One variance per row and nothing known of them, as in the paper. Run to convergence it interpolates about as many rows as
    /// there are active weights.
    Flat,
    /// λᵢ ~ InverseGamma(shape, scale), both given, in units of the squared target.
    InverseGamma {
        /// a
        shape: f64,
        /// b
        scale: f64,
    },
    /// Inverse-gamma with learnt scale: Student-t noise.
    StudentT(Degrees),
    /// Normal noise of which a learnt share has a learnt, larger variance; gives each row a probability of being an outlier.
    Contaminated,
    /// Student-t noise of which a learnt share are gross errors: nests the last two.
    ContaminatedT(Degrees),
}

impl Noise {
    /// Whether all rows have one variance.
    pub fn is_shared(self) -> bool {
        self == Self::Shared
    }
}

impl Default for Noise {
    fn default() -> Self {
        Self::StudentT(Degrees::Fixed(DEFAULT_DEGREES))
    }
}

/// Noise that cannot be read.
#[derive(Debug, Clone, PartialEq, Error)]
#[error(
    "'{0}' is not a noise model; use shared, flat, inverse-gamma:SHAPE,SCALE, student-t, student-t:NU, student-t:learned, contaminated, contaminated-t or contaminated-t:NU"
)]
pub struct NoiseError(String);

impl FromStr for Noise {
    type Err = NoiseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || NoiseError(text.to_owned());
        let number = |part: &str| part.trim().parse::<f64>().map_err(|_| error());
        match text.split_once(':') {
            None => match text {
                "shared" => Ok(Self::Shared),
                "flat" => Ok(Self::Flat),
                "student-t" => Ok(Self::StudentT(Degrees::Fixed(DEFAULT_DEGREES))),
                "contaminated" => Ok(Self::Contaminated),
                "contaminated-t" => Ok(Self::ContaminatedT(Degrees::Learned)),
                _ => Err(error()),
            },
            Some(("student-t", "learned")) => Ok(Self::StudentT(Degrees::Learned)),
            Some(("student-t", degrees)) => Ok(Self::StudentT(Degrees::Fixed(number(degrees)?))),
            Some(("contaminated-t", "learned")) => Ok(Self::ContaminatedT(Degrees::Learned)),
            Some(("contaminated-t", degrees)) => Ok(Self::ContaminatedT(Degrees::Fixed(number(degrees)?))),
            Some(("inverse-gamma", pair)) => {
                let (shape, scale) = pair.split_once(',').ok_or_else(error)?;
                Ok(Self::InverseGamma { shape: number(shape)?, scale: number(scale)? })
            }
            Some(_) => Err(error()),
        }
    }
}

impl fmt::Display for Noise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared => write!(f, "shared"),
            Self::Flat => write!(f, "flat"),
            Self::InverseGamma { shape, scale } => write!(f, "inverse-gamma:{shape},{scale}"),
            Self::StudentT(Degrees::Fixed(degrees)) => write!(f, "student-t:{degrees}"),
            Self::StudentT(Degrees::Learned) => write!(f, "student-t:learned"),
            Self::Contaminated => write!(f, "contaminated"),
            Self::ContaminatedT(Degrees::Fixed(degrees)) => write!(f, "contaminated-t:{degrees}"),
            Self::ContaminatedT(Degrees::Learned) => write!(f, "contaminated-t"),
        }
    }
}

impl Serialize for Noise {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Noise {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in [
            "shared",
            "flat",
            "inverse-gamma:2,0.5",
            "student-t:4",
            "student-t:learned",
            "contaminated",
            "contaminated-t",
            "contaminated-t:6",
        ] {
            assert_eq!(text.parse::<Noise>().unwrap().to_string(), text);
        }
        assert_eq!("student-t".parse::<Noise>().unwrap(), Noise::StudentT(Degrees::Fixed(4.0)));
        for text in ["", "student", "student-t:x", "inverse-gamma:1", "flat:2"] {
            assert!(text.parse::<Noise>().is_err(), "{text}");
        }
    }
}
