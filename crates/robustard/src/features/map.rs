use std::fmt;
use std::str::FromStr;

use faer::{Mat, MatRef};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{
    Effort, FeatureError, Fourier, Gap, Kernel, Polynomial, Range, Smooth, SmoothOptions, Standardizer, Training,
    Waves, check_columns,
};
use crate::solver::Start;

/// Fourier features when no number is given.
pub const DEFAULT_WAVES: usize = 256;

/// Which features are made of the inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum FeatureKind {
    /// The inputs themselves.
    Linear,
    /// Their powers up to a degree, of inputs scaled to −1…1.
    Polynomial {
        /// Highest power.
        degree: usize,
    },
    /// Random Fourier features; with learnt lengthscales, and the inputs beside them.
    Fourier {
        /// How many.
        features: usize,
    },
    /// The inputs, and a smooth curve with learnt lengthscales.
    Smooth {
        /// How many training rows the curve is seen from; by the size of the table if none is given.
        centres: Option<usize>,
    },
    /// Kernel functions on training rows: the relevance vector machine.
    Kernel {
        /// Whether there is one on every row, rather than where they raise the evidence.
        all: bool,
    },
}

/// Features that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' are not features; use linear, smooth[:CENTRES], rff[:COUNT] (1 to 100000), rbf[:all] or poly:DEGREE (2 to 30)"
)]
pub struct FeatureKindError(String);

impl FromStr for FeatureKind {
    type Err = FeatureKindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || FeatureKindError(text.to_owned());
        let count = |word: &str, range: std::ops::RangeInclusive<usize>| {
            word.parse().ok().filter(|count| range.contains(count)).ok_or_else(error)
        };
        match text.split_once(':') {
            None => match text {
                "linear" => Ok(Self::Linear),
                "rff" => Ok(Self::Fourier { features: DEFAULT_WAVES }),
                "smooth" => Ok(Self::Smooth { centres: None }),
                "rbf" => Ok(Self::Kernel { all: false }),
                _ => Err(error()),
            },
            Some(("rbf", "all")) => Ok(Self::Kernel { all: true }),
            Some(("poly", degree)) => Ok(Self::Polynomial { degree: count(degree, 2..=30)? }),
            Some(("smooth", centres)) => Ok(Self::Smooth { centres: Some(count(centres, 1..=10_000)?) }),
            Some(("rff", features)) => Ok(Self::Fourier { features: count(features, 1..=100_000)? }),
            Some(_) => Err(error()),
        }
    }
}

impl TryFrom<String> for FeatureKind {
    type Error = FeatureKindError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<FeatureKind> for String {
    fn from(kind: FeatureKind) -> Self {
        kind.to_string()
    }
}

impl fmt::Display for FeatureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linear => write!(f, "linear"),
            Self::Polynomial { degree } => write!(f, "poly:{degree}"),
            Self::Fourier { features } => write!(f, "rff:{features}"),
            Self::Smooth { centres: None } => write!(f, "smooth"),
            Self::Smooth { centres: Some(centres) } => write!(f, "smooth:{centres}"),
            Self::Kernel { all: false } => write!(f, "rbf"),
            Self::Kernel { all: true } => write!(f, "rbf:all"),
        }
    }
}

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
    /// This one.
    Given(f64),
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

/// How a map is made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FeatureOptions {
    /// Which features.
    pub kind: FeatureKind,
    /// Lengthscales of Fourier and kernel features.
    pub lengthscale: Lengthscale,
    /// Seed of Fourier features.
    pub seed: u64,
    /// Whether inputs (and powers) are standardized.
    pub standardize: bool,
    /// Whether standardizing takes the mean away too; without an intercept it must not.
    pub centre: bool,
}

impl FeatureOptions {
    /// Whether lengthscales are learnt from the target.
    pub fn learns_lengthscales(&self) -> bool {
        match self.kind {
            FeatureKind::Smooth { .. } => true,
            FeatureKind::Fourier { .. } | FeatureKind::Kernel { .. } => {
                matches!(self.lengthscale, Lengthscale::Each | Lengthscale::One)
            }
            FeatureKind::Linear | FeatureKind::Polynomial { .. } => false,
        }
    }

    /// The scaling of columns, whose rows count as often as their weights say.
    pub fn standardizer(&self, values: MatRef<'_, f64>, weight: &[f64]) -> Standardizer {
        match (self.standardize, self.centre) {
            (false, _) => Standardizer::identity(values.ncols()),
            (true, true) => Standardizer::weighted(values, weight),
            (true, false) => Standardizer { mean: vec![0.0; values.ncols()], ..Standardizer::weighted(values, weight) },
        }
    }
}

/// A fitted map from inputs to features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FeatureMap {
    /// Scaling of the inputs.
    pub inputs: Standardizer,
    /// What is made of them.
    pub basis: Basis,
}

/// What is made of the scaled inputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Basis {
    /// Nothing.
    Linear,
    /// Standardized powers.
    Polynomial {
        /// The powers.
        polynomial: Polynomial,
        /// Their scaling.
        powers: Standardizer,
    },
    /// Random Fourier features.
    Fourier {
        /// The features.
        fourier: Fourier,
        /// Range of the training rows, in which inputs are held.
        range: Range,
    },
    /// Inputs and Fourier features with learnt lengthscales.
    Waves(Waves),
    /// Inputs and a smooth curve.
    Smooth(Smooth),
    /// Kernel functions.
    Kernel(Kernel),
}

impl FeatureMap {
    /// Makes the map from the training inputs, which are scaled with rows that count as often as `weight` says; `training` is what
    /// lengthscales are learnt from. If they are, the fit of the features should start where the learning ended.
    pub fn fit(
        inputs: MatRef<'_, f64>,
        weight: &[f64],
        training: &Training<'_>,
        options: &FeatureOptions,
    ) -> Result<(Self, Option<Start>), FeatureError> {
        let standardizer = |values: MatRef<'_, f64>| options.standardizer(values, weight);
        let scaling = match options.kind {
            FeatureKind::Polynomial { .. } if options.standardize && options.centre => Standardizer::of_range(inputs),
            _ => standardizer(inputs),
        };
        if options.kind == FeatureKind::Linear {
            return Ok((Self { inputs: scaling, basis: Basis::Linear }, None));
        }
        let scaled = scaling.transform(inputs)?;
        let mut start = None;
        let basis = match options.kind {
            FeatureKind::Linear => Basis::Linear,
            FeatureKind::Polynomial { degree } => {
                let polynomial = Polynomial { degree };
                let powers = standardizer(polynomial.transform(scaled.as_ref()).as_ref());
                Basis::Polynomial { polynomial, powers }
            }
            FeatureKind::Fourier { features } => match fixed_lengthscale(options, inputs.ncols()) {
                Some(length) => Basis::Fourier {
                    fourier: Fourier::new(inputs.ncols(), features, 0.5 / (length * length), options.seed)?,
                    range: Range::whole(scaled.as_ref()),
                },
                None => {
                    let per_input = options.lengthscale == Lengthscale::Each;
                    let (waves, learnt) = Waves::learn(scaled.as_ref(), training, features, per_input, options.seed)?;
                    start = Some(learnt);
                    Basis::Waves(waves)
                }
            },
            FeatureKind::Smooth { centres } => {
                let (seed, effort) = (options.seed, Effort::Whole);
                let options = SmoothOptions { centres, seed, must_bend: false, effort, from: None };
                let learnt = Smooth::learn(scaled.as_ref(), training, &options)?;
                start = Some(learnt.start);
                Basis::Smooth(learnt.smooth)
            }
            FeatureKind::Kernel { all } => {
                let given = fixed_lengthscale(options, inputs.ncols());
                Basis::Kernel(match given {
                    Some(length) if all => Kernel::fit(scaled.as_ref(), vec![length; inputs.ncols()])?,
                    None if all => Kernel::learn(scaled.as_ref(), training, options)?,
                    _ => {
                        let (kernel, grown) = Kernel::grow(scaled.as_ref(), training, given, options)?;
                        start = Some(grown);
                        kernel
                    }
                })
            }
        };
        Ok((Self { inputs: scaling, basis }, start))
    }

    /// The features of rows of inputs.
    pub fn transform(&self, inputs: MatRef<'_, f64>) -> Result<Mat<f64>, FeatureError> {
        let scaled = self.inputs.transform(inputs)?;
        match &self.basis {
            Basis::Linear => Ok(scaled),
            Basis::Polynomial { polynomial, powers } => {
                powers.transform(polynomial.transform(scaled.as_ref()).as_ref())
            }
            Basis::Fourier { fourier, range } => {
                check_columns(range.low.len(), inputs)?;
                fourier.transform(range.hold(scaled.as_ref()).as_ref())
            }
            Basis::Waves(waves) => waves.transform(scaled.as_ref()),
            Basis::Smooth(smooth) => smooth.transform(scaled.as_ref()),
            Basis::Kernel(kernel) => kernel.transform(scaled.as_ref()),
        }
    }

    /// How far rows lie from what the features of a learnt curve know, given the features; nothing for other features.
    pub fn gaps(&self, inputs: MatRef<'_, f64>, features: MatRef<'_, f64>) -> Result<Option<Vec<Gap>>, FeatureError> {
        let scaled = self.inputs.transform(inputs)?;
        Ok(match &self.basis {
            Basis::Waves(waves) => Some(waves.gaps(scaled.as_ref())),
            Basis::Smooth(smooth) => Some(smooth.gaps(scaled.as_ref(), features)),
            _ => None,
        })
    }

    /// The inputs of Fourier features or a learnt curve that lie outside the range of the training rows, each with the number of rows.
    pub fn beyond(&self, inputs: MatRef<'_, f64>) -> Result<Vec<(usize, usize)>, FeatureError> {
        let scaled = self.inputs.transform(inputs)?;
        Ok(match &self.basis {
            Basis::Fourier { range, .. } | Basis::Waves(Waves { range, .. }) | Basis::Smooth(Smooth { range, .. }) => {
                range.beyond(scaled.as_ref())
            }
            _ => Vec::new(),
        })
    }

    /// How much a learnt curve bends along each input: the prior variance of its slope, of weights with precision 1.
    pub fn bends(&self) -> Option<Vec<f64>> {
        match &self.basis {
            Basis::Waves(waves) => Some(waves.bends()),
            Basis::Smooth(smooth) => Some(smooth.curve.bends()),
            _ => None,
        }
    }

    /// Names of the features, made of those of the inputs.
    pub fn names(&self, inputs: &[String]) -> Vec<String> {
        match &self.basis {
            Basis::Linear => inputs.to_vec(),
            Basis::Polynomial { polynomial, .. } => inputs
                .iter()
                .flat_map(|name| {
                    (1..=polynomial.degree)
                        .map(move |power| if power == 1 { name.clone() } else { format!("{name}^{power}") })
                })
                .collect(),
            Basis::Fourier { fourier, .. } => wave_names(fourier).collect(),
            Basis::Waves(waves) => inputs.iter().cloned().chain(wave_names(&waves.fourier)).collect(),
            Basis::Smooth(smooth) => {
                inputs.iter().cloned().chain((1..=smooth.size()).map(|k| format!("curve {k}"))).collect()
            }
            Basis::Kernel(kernel) => kernel.rows.iter().map(|row| format!("row {}", row + 1)).collect(),
        }
    }

    /// Whether the parts of the map agree about the number of inputs, as they do unless it comes from a damaged file.
    pub fn is_consistent(&self, inputs: usize) -> bool {
        match &self.basis {
            Basis::Linear => true,
            Basis::Polynomial { polynomial, powers } => {
                let count = inputs.checked_mul(polynomial.degree);
                count == Some(powers.mean.len()) && count == Some(powers.scale.len())
            }
            Basis::Fourier { fourier, range } => {
                range.is_consistent(inputs)
                    && fourier.inputs == inputs
                    && inputs.checked_mul(fourier.phases.len()) == Some(fourier.frequencies.len())
            }
            Basis::Smooth(smooth) => smooth.is_consistent(inputs),
            Basis::Waves(Waves { fourier, range, log_scales }) => {
                fourier.inputs == inputs
                    && inputs.checked_mul(fourier.phases.len()) == Some(fourier.frequencies.len())
                    && range.is_consistent(inputs)
                    && log_scales.len() == inputs
            }
            Basis::Kernel(kernel) => {
                kernel.lengthscales.len() == inputs
                    && inputs > 0
                    && inputs.checked_mul(kernel.rows.len()) == Some(kernel.centres.len())
            }
        }
    }

    /// The groups of features that share a precision: those of the inputs for linear features, one for all inputs and one for
    /// all waves with learnt lengthscales, else one each.
    pub fn groups(&self, inputs: &[usize]) -> Vec<usize> {
        match &self.basis {
            Basis::Linear => inputs.to_vec(),
            Basis::Polynomial { polynomial, .. } => (0..inputs.len() * polynomial.degree).collect(),
            Basis::Fourier { fourier, .. } => (0..fourier.phases.len()).collect(),
            // One precision for the lines, one for the curve.
            Basis::Waves(waves) => lines_and_curve(inputs.len(), waves.fourier.phases.len()),
            Basis::Smooth(smooth) => lines_and_curve(inputs.len(), smooth.size()),
            Basis::Kernel(kernel) => (0..kernel.size()).collect(),
        }
    }
}

/// The lengthscale, unless it is to be learnt.
fn fixed_lengthscale(options: &FeatureOptions, inputs: usize) -> Option<f64> {
    match options.lengthscale {
        Lengthscale::Each | Lengthscale::One => None,
        Lengthscale::Usual => Some((inputs as f64 / 2.0).sqrt()),
        Lengthscale::Given(length) => Some(length),
    }
}

fn lines_and_curve(lines: usize, curve: usize) -> Vec<usize> {
    let mut groups = vec![0; lines];
    groups.resize(lines + curve, usize::from(lines > 0));
    groups
}

fn wave_names(fourier: &Fourier) -> impl Iterator<Item = String> {
    (1..=fourier.phases.len()).map(|k| format!("wave {k}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{NoiseKind, NoisePrior};

    #[test]
    fn kinds_are_read_and_written() {
        for text in ["linear", "poly:3", "smooth", "smooth:9", "rff:64", "rbf"] {
            assert_eq!(text.parse::<FeatureKind>().unwrap().to_string(), text);
        }
        for text in ["", "poly", "poly:1", "poly:x", "rff:0", "spline"] {
            assert!(text.parse::<FeatureKind>().unwrap_err().to_string().contains("linear"), "{text}");
        }
    }

    #[test]
    fn lengthscales_are_read_and_written() {
        for text in ["each", "one", "usual", "0.25", "1e-5", "3.0"] {
            assert_eq!(text.parse::<Lengthscale>().unwrap().to_string(), text);
        }
        for text in ["", "0", "-1", "nan", "inf", "many"] {
            assert!(text.parse::<Lengthscale>().unwrap_err().to_string().contains("each"), "{text}");
        }
    }

    #[test]
    fn maps_agree_with_their_names() {
        let x = Mat::from_fn(7, 2, |i, j| (i as f64 * 1.3 + j as f64).sin() * 10.0);
        let names = ["a".to_owned(), "b".to_owned()];
        let y: Vec<f64> = (0..7).map(|i| x[(i, 0)] / 10.0).collect();
        let training = Training {
            target: &y,
            row_weight: &[1.0; 7],
            noise: NoiseKind::Shared,
            noise_prior: NoisePrior::Flat,
            stop: &crate::solver::Stop::default(),
        };
        for (kind, lengthscale) in [
            ("linear", "usual"),
            ("poly:3", "usual"),
            ("smooth:4", "usual"),
            ("rff:5", "usual"),
            ("rff:6", "each"),
            ("rff:6", "one"),
            ("rbf", "0.7"),
            ("rbf", "each"),
        ] {
            for standardize in [true, false] {
                let options = FeatureOptions {
                    kind: kind.parse().unwrap(),
                    lengthscale: lengthscale.parse().unwrap(),
                    seed: 1,
                    standardize,
                    centre: standardize,
                };
                let (map, _) = FeatureMap::fit(x.as_ref(), training.row_weight, &training, &options).unwrap();
                assert!(map.is_consistent(2));
                let features = map.transform(x.as_ref()).unwrap();
                assert_eq!(features.ncols(), map.names(&names).len(), "{kind}");
                assert_eq!(features.ncols(), map.groups(&[0, 1]).len(), "{kind}");
                assert!(map.transform(x.as_ref().subcols(0, 1)).is_err());
            }
        }
    }
}
