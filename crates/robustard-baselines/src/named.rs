//! Baselines by name, with the parameters that they are compared with.

use std::str::FromStr;

use thiserror::Error;

use crate::{Baseline, Penalty};

/// Degrees of freedom of the Student-t regression: heavy tails that still have a variance.
const STUDENT_DEGREES: f64 = 4.0;
/// Inducing points of the sparse Gaussian process, as in the paper.
const INDUCING_POINTS: usize = 256;
/// Starts of the Gaussian process.
const PROCESS_STARTS: usize = 2;

const NAMED: [(&str, Baseline); 8] = [
    ("ols", Baseline::Ols),
    ("ridge", Baseline::Ridge { penalty: Penalty::Given(1.0) }),
    ("ridge_loo", Baseline::Ridge { penalty: Penalty::LeaveOneOut }),
    ("huber", Baseline::Huber),
    ("student_t", Baseline::StudentT { degrees: STUDENT_DEGREES }),
    ("gp", Baseline::Gp { per_input: false, starts: PROCESS_STARTS }),
    ("gp_per_input", Baseline::Gp { per_input: true, starts: PROCESS_STARTS }),
    ("sparse_gp", Baseline::SparseGp { points: INDUCING_POINTS }),
];

/// A name that no baseline has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no baseline '{name}'; they are {}", Baseline::NAMES.join(", "))]
pub struct UnknownBaseline {
    /// The name given.
    pub name: String,
}

impl Baseline {
    /// Names that can be parsed.
    pub const NAMES: [&'static str; NAMED.len()] = {
        let mut names = [""; NAMED.len()];
        let mut k = 0;
        while k < names.len() {
            names[k] = NAMED[k].0;
            k += 1;
        }
        names
    };

    /// The name that means this baseline with these parameters.
    pub fn name(&self) -> Option<&'static str> {
        NAMED.iter().find(|(_, baseline)| baseline == self).map(|(name, _)| *name)
    }
}

impl FromStr for Baseline {
    type Err = UnknownBaseline;

    fn from_str(name: &str) -> Result<Self, UnknownBaseline> {
        let found = NAMED.iter().find(|(known, _)| *known == name);
        found.map(|(_, baseline)| *baseline).ok_or_else(|| UnknownBaseline { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_baselines() {
        for name in Baseline::NAMES {
            assert_eq!(name.parse::<Baseline>().unwrap().name(), Some(name));
        }
        assert_eq!(Baseline::StudentT { degrees: 3.0 }.name(), None);
        assert!("lasso".parse::<Baseline>().unwrap_err().to_string().contains("ridge_loo"));
    }
}
