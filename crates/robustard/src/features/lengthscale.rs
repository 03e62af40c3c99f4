use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Lengthscales of Fourier and kernel features, in standardized inputs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Lengthscale {
    /// One for each input, learnt.
    Each,
    /// One for all inputs, learnt.
    One,
    /// √(inputs/2).
    Usual,
    /// This one, above 0.
    Given(f64),
}

impl Lengthscale {
    /// Whether it is learnt from the target.
    pub fn is_learnt(self) -> bool {
        matches!(self, Self::Each | Self::One)
    }

    /// Its value for so many inputs, unless it is learnt.
    pub(super) fn fixed(self, inputs: usize) -> Option<f64> {
        match self {
            Self::Each | Self::One => None,
            Self::Usual => Some((inputs as f64 / 2.0).sqrt()),
            Self::Given(length) => Some(length),
        }
    }

    /// A given one must be above 0 and finite, however it came about.
    pub(crate) fn is_in_range(self) -> bool {
        if let Self::Given(length) = self { length > 0.0 && length.is_finite() } else { true }
    }
}

/// A lengthscale that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is no lengthscale; use each (one for each input, learnt), one (learnt), usual (√(inputs/2)) or a number above 0"
)]
pub struct LengthscaleError(String);

impl FromStr for Lengthscale {
    type Err = LengthscaleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "each" => Ok(Self::Each),
            "one" => Ok(Self::One),
            "usual" => Ok(Self::Usual),
            _ => {
                let number = text.parse().ok().filter(|length: &f64| *length > 0.0 && length.is_finite());
                number.map(Self::Given).ok_or_else(|| LengthscaleError(text.to_owned()))
            }
        }
    }
}

impl TryFrom<String> for Lengthscale {
    type Error = LengthscaleError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Lengthscale> for String {
    fn from(lengthscale: Lengthscale) -> Self {
        lengthscale.to_string()
    }
}

impl fmt::Display for Lengthscale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Each => write!(f, "each"),
            Self::One => write!(f, "one"),
            Self::Usual => write!(f, "usual"),
            Self::Given(length) => write!(f, "{length:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengthscales_are_read_and_written() {
        for text in ["each", "one", "usual", "0.25", "1e-5", "3.0"] {
            assert_eq!(text.parse::<Lengthscale>().unwrap().to_string(), text);
        }
        for text in ["", "0", "-1", "nan", "inf", "many"] {
            assert!(text.parse::<Lengthscale>().unwrap_err().to_string().contains("each"), "{text}");
        }
    }
}
