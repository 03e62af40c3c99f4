//! Features: what is made of the inputs.
//!
//! A [`FeatureKind`] says which features, a [`FeatureMap`] is what was learnt of them and is applied unchanged to new rows. Every
//! kind has a file of its own, with a type for the kind (`Kind`) and one for the map (`Map`), and one line in the list below.

mod exchange;
mod fourier;
mod kernel;
mod lengthscale;
mod linear;
mod polynomial;
mod smooth;

use std::fmt;
use std::str::FromStr;

use faer::{Mat, MatMut, MatRef, Par};
use robustard_engine::{Noise, Start};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use crate::learn::{Curve, Fourier, Shape};
pub(crate) use exchange::{Exchanged, Exchanger};
pub use fourier::{FourierKind, FourierMap};
pub use kernel::{KernelKind, KernelMap};
pub use lengthscale::{Lengthscale, LengthscaleError};
pub use linear::{LinearKind, LinearMap};
pub use polynomial::{PolynomialKind, PolynomialMap};
pub(crate) use smooth::{LearntSmooth, SmoothOptions, learn_smooth};
pub use smooth::{SmoothKind, SmoothMap};

use crate::control::Control;
use crate::range::Range;
use crate::scaling::Standardizer;

/// Why features cannot be learnt or made.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum FeatureError {
    /// Wrong number of inputs.
    #[error("the model has {expected} inputs but the rows have {found}; give the columns it was fitted to")]
    InputCount {
        /// Inputs of the map.
        expected: usize,
        /// Columns given.
        found: usize,
    },
    /// No posterior could be computed while lengthscales were learnt.
    #[error(
        "lengthscales cannot be learnt from these rows; use linear features, or rff or rbf with a given lengthscale"
    )]
    NotLearnt,
    /// A curve was asked for only if there is one.
    #[error("a curve explains {rows} rows only {gain:.1} nats better than lines; use linear features")]
    Straight {
        /// Nats.
        gain: f64,
        /// Rows.
        rows: usize,
    },
}

/// What features are learnt from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Training<'a> {
    /// Standardized inputs, n × p.
    pub inputs: MatRef<'a, f64>,
    /// Standardized target.
    pub target: &'a [f64],
    /// The range of all rows, if `inputs` are some of them.
    pub range: Option<&'a Range>,
    /// For each input the category that it is a level of; may be empty if there are no categories.
    pub levels: &'a [Option<usize>],
    /// How often each row counts.
    pub row_weight: &'a [f64],
    /// The noise.
    pub noise: Noise,
    /// The least variance that noise can have.
    pub least_variance: f64,
    /// Whether it is a transformation of what is predicted.
    pub has_transformed_target: bool,
    /// Lengthscales.
    pub lengthscale: Lengthscale,
    /// Seed.
    pub seed: u64,
    /// How features are scaled.
    pub scaling: Scaling,
    /// Who watches.
    pub control: &'a Control,
}

/// How columns are scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scaling {
    /// Whether they are at all.
    pub standardize: bool,
    /// Whether their mean is taken away, too; without an intercept it must not be.
    pub centre: bool,
}

impl Scaling {
    /// Of columns of an n × p matrix whose rows count as often as their weights say.
    fn of(self, values: MatRef<'_, f64>, weight: &[f64]) -> Standardizer {
        match (self.standardize, self.centre) {
            (false, _) => Standardizer::identity(values.ncols()),
            (true, true) => Standardizer::weighted(values, weight),
            (true, false) => Standardizer::weighted(values, weight).without_shift(),
        }
    }
}

/// Features that were learnt, and where their fit should start, if that became known.
pub(crate) struct Learnt<M> {
    pub map: M,
    pub start: Option<Start>,
}

/// How far a row lies from what the features know.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gap {
    /// Prior variance of the curve that no feature carries, in units of 1/γ of the curve's weights.
    pub curve: f64,
    /// Squared distance beyond the range, in units of 1/γ of the lines' weights.
    pub line: f64,
}

/// A kind of features: its name and parameters, and how its map is learnt.
trait Kind: Copy + PartialEq {
    /// The map that it learns.
    type Map: Map;
    /// What it is called in texts such as `rff:64`.
    const NAME: &'static str;
    /// How the text is described.
    const USAGE: &'static str;

    /// Of what comes after the name in a text; none if that makes no sense.
    fn parse(argument: Option<&str>) -> Option<Self>;

    /// What comes after the name.
    fn argument(&self) -> Option<String>;

    /// Whether lengthscales are learnt from the target.
    fn learns(&self, _lengthscale: Lengthscale) -> bool {
        false
    }

    /// Whether a lengthscale can be given.
    fn takes_lengthscale(&self) -> bool {
        false
    }

    /// Whether all of its weights have precisions of their own.
    fn has_own_precisions(&self, lengthscale: Lengthscale) -> bool {
        !self.learns(lengthscale)
    }

    /// Whether it looks after copies of rows by itself.
    fn counts_copies(&self) -> bool {
        false
    }

    /// Whether inputs are scaled to −1…1 instead of a standard deviation of 1.
    fn scales_to_range(&self) -> bool {
        false
    }

    /// Learns the map.
    fn learn(&self, training: &Training<'_>) -> Result<Learnt<Self::Map>, FeatureError>;
}

/// A learnt map from standardized inputs (m × p) to features, and what is known of them.
trait Map {
    /// Number of features of so many inputs.
    fn count(&self, inputs: usize) -> usize;

    /// Writes the features, count × m.
    fn write(&self, inputs: MatRef<'_, f64>, features: MatMut<'_, f64>, par: Par);

    /// Weights of the features as weights of what costs less to compute, if there is such a thing: for expected values alone.
    fn fold(&self, _weights: &[f64]) -> Option<Vec<f64>> {
        None
    }

    /// The sums of weights times features, by folded weights.
    fn folded_sums(&self, _inputs: MatRef<'_, f64>, _folded: &[f64], _par: Par) -> Vec<f64> {
        Vec::new()
    }

    /// Names of the features, made of those of the inputs.
    fn names(&self, inputs: &[String]) -> Vec<String>;

    /// The groups of features that share a precision, given those of the inputs.
    fn groups(&self, inputs: &[usize]) -> Vec<usize>;

    /// Whether the parts agree about the number of inputs, as they do unless the map comes from a damaged file.
    fn is_consistent(&self, inputs: usize) -> bool;

    /// Range of the training rows, if inputs are held in it.
    fn range(&self) -> Option<&Range> {
        None
    }

    /// How far rows lie from what a learnt curve knows, given its features (count × m).
    fn gaps(&self, _inputs: MatRef<'_, f64>, _features: MatRef<'_, f64>) -> Option<Vec<Gap>> {
        None
    }

    /// The covariances between rows of what [`Gap`] has the variances of: m × m of the curve and of the lines.
    fn gap_covariances(&self, _inputs: MatRef<'_, f64>, _features: MatRef<'_, f64>) -> Option<[Mat<f64>; 2]> {
        None
    }

    /// How much a learnt curve bends along each input: the prior variance of its slope, of weights with precision 1. Its first
    /// features are then the inputs themselves.
    fn bends(&self) -> Option<Vec<f64>> {
        None
    }

    /// Number of lengthscales that were learnt.
    fn learnt_lengthscales(&self) -> usize {
        0
    }

    /// Whether its first features are the inputs.
    fn begins_with_inputs(&self) -> bool {
        self.bends().is_some()
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident($kind:ty, $map:ty)),* $(,)?) => {
        /// Which features are made of the inputs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        #[non_exhaustive]
        pub enum FeatureKind {
            $($(#[$doc])* $variant($kind)),*
        }

        /// A learnt map from standardized inputs to features.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        #[non_exhaustive]
        pub enum FeatureMap {
            $($(#[$doc])* $variant($map)),*
        }

        impl FeatureKind {
            /// How texts of all kinds look.
            const USAGES: &'static [&'static str] = &[$(<$kind as Kind>::USAGE),*];

            fn parse(name: &str, argument: Option<&str>) -> Option<Self> {
                $(if name == <$kind as Kind>::NAME {
                    return <$kind as Kind>::parse(argument).map(Self::$variant);
                })*
                None
            }

            fn parts(&self) -> (&'static str, Option<String>) {
                match self { $(Self::$variant(kind) => (<$kind as Kind>::NAME, Kind::argument(kind))),* }
            }

            /// Whether lengthscales are learnt from the target.
            pub fn learns(&self, lengthscale: Lengthscale) -> bool {
                match self { $(Self::$variant(kind) => kind.learns(lengthscale)),* }
            }

            /// Whether a lengthscale can be given.
            pub fn takes_lengthscale(&self) -> bool {
                match self { $(Self::$variant(kind) => kind.takes_lengthscale()),* }
            }

            /// Whether every weight has a precision of its own.
            pub fn has_own_precisions(&self, lengthscale: Lengthscale) -> bool {
                match self { $(Self::$variant(kind) => kind.has_own_precisions(lengthscale)),* }
            }

            pub(crate) fn counts_copies(&self) -> bool {
                match self { $(Self::$variant(kind) => kind.counts_copies()),* }
            }

            pub(crate) fn scales_to_range(&self) -> bool {
                match self { $(Self::$variant(kind) => kind.scales_to_range()),* }
            }

            pub(crate) fn learn(&self, training: &Training<'_>) -> Result<Learnt<FeatureMap>, FeatureError> {
                match self {
                    $(Self::$variant(kind) => {
                        kind.learn(training).map(|Learnt { map, start }| Learnt { map: FeatureMap::$variant(map), start })
                    })*
                }
            }
        }

        impl FeatureMap {
            fn map(&self) -> &dyn Map {
                match self { $(Self::$variant(map) => map),* }
            }
        }
    };
}

// The kinds, one line each.
kinds! {
    /// The inputs themselves.
    Linear(LinearKind, LinearMap),
    /// Their powers up to a degree.
    Polynomial(PolynomialKind, PolynomialMap),
    /// Random Fourier features; with learnt lengthscales, and the inputs beside them.
    Fourier(FourierKind, FourierMap),
    /// The inputs, and a smooth curve with learnt lengthscales.
    Smooth(SmoothKind, SmoothMap),
    /// Kernel functions on training rows: the relevance vector machine.
    Kernel(KernelKind, KernelMap),
}

/// Features that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' are not features; use {usages}", usages = one_of(FeatureKind::USAGES))]
pub struct FeatureKindError(String);

fn one_of(words: &[&str]) -> String {
    match words {
        [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
        _ => words.join(""),
    }
}

impl FeatureKind {
    /// The inputs themselves.
    pub fn linear() -> Self {
        Self::Linear(LinearKind)
    }

    /// The inputs and a smooth curve, seen from as many rows as suits the table.
    pub fn smooth() -> Self {
        Self::Smooth(SmoothKind::default())
    }

    /// So many random Fourier features.
    pub fn fourier(count: usize) -> Result<Self, FeatureKindError> {
        format!("{}:{count}", FourierKind::NAME).parse()
    }

    /// Powers up to a degree.
    pub fn polynomial(degree: usize) -> Result<Self, FeatureKindError> {
        format!("{}:{degree}", PolynomialKind::NAME).parse()
    }

    /// Kernel functions where they raise the evidence.
    pub fn kernel() -> Self {
        Self::Kernel(KernelKind::default())
    }
}

impl FromStr for FeatureKind {
    type Err = FeatureKindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, argument) = text.split_once(':').map_or((text, None), |(name, argument)| (name, Some(argument)));
        Self::parse(name, argument).ok_or_else(|| FeatureKindError(text.to_owned()))
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
        match self.parts() {
            (name, Some(argument)) => write!(f, "{name}:{argument}"),
            (name, None) => write!(f, "{name}"),
        }
    }
}

impl FeatureMap {
    /// Number of features of so many inputs.
    pub fn count(&self, inputs: usize) -> usize {
        self.map().count(inputs)
    }

    /// The features of standardized inputs (m × p): count × m.
    pub fn transform(&self, inputs: MatRef<'_, f64>, par: Par) -> Mat<f64> {
        let mut features = Mat::zeros(self.count(inputs.ncols()), inputs.nrows());
        self.write(inputs, features.as_mut(), par);
        features
    }

    pub(crate) fn write(&self, inputs: MatRef<'_, f64>, features: MatMut<'_, f64>, par: Par) {
        self.map().write(inputs, features, par);
    }

    pub(crate) fn gap_covariances(&self, inputs: MatRef<'_, f64>, features: MatRef<'_, f64>) -> Option<[Mat<f64>; 2]> {
        self.map().gap_covariances(inputs, features)
    }

    pub(crate) fn fold(&self, weights: &[f64]) -> Option<Vec<f64>> {
        self.map().fold(weights)
    }

    pub(crate) fn folded_sums(&self, inputs: MatRef<'_, f64>, folded: &[f64], par: Par) -> Vec<f64> {
        self.map().folded_sums(inputs, folded, par)
    }

    /// Names of the features, made of those of the inputs.
    pub fn names(&self, inputs: &[String]) -> Vec<String> {
        self.map().names(inputs)
    }

    /// The groups of features that share a precision, given those of the inputs.
    pub fn groups(&self, inputs: &[usize]) -> Vec<usize> {
        self.map().groups(inputs)
    }

    pub(crate) fn is_consistent(&self, inputs: usize) -> bool {
        self.map().is_consistent(inputs)
    }

    pub(crate) fn range(&self) -> Option<&Range> {
        self.map().range()
    }

    pub(crate) fn gaps(&self, inputs: MatRef<'_, f64>, features: MatRef<'_, f64>) -> Option<Vec<Gap>> {
        self.map().gaps(inputs, features)
    }

    /// How much a learnt curve bends along each input; none for other features.
    pub fn bends(&self) -> Option<Vec<f64>> {
        self.map().bends()
    }

    /// Number of lengthscales that were learnt.
    pub fn learnt_lengthscales(&self) -> usize {
        self.map().learnt_lengthscales()
    }

    /// Whether the first features are the inputs themselves.
    pub fn begins_with_inputs(&self) -> bool {
        self.map().begins_with_inputs()
    }
}

/// One precision for the lines, one for the curve.
fn lines_and_curve(lines: usize, curve: usize) -> Vec<usize> {
    let mut groups = vec![0; lines];
    groups.resize(lines + curve, usize::from(lines > 0));
    groups
}

/// A whole number in a range, from text.
fn count_in(text: &str, range: std::ops::RangeInclusive<usize>) -> Option<usize> {
    text.parse().ok().filter(|count| range.contains(count))
}

/// Writes standardized inputs (m × p) as the first p rows of the features (count × m).
fn write_inputs(inputs: MatRef<'_, f64>, mut features: MatMut<'_, f64>) {
    features.as_mut().subrows_mut(0, inputs.ncols()).copy_from(inputs.transpose());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_and_written() {
        for text in ["linear", "poly:3", "smooth", "smooth:9", "rff:64", "rbf", "rbf:all"] {
            assert_eq!(text.parse::<FeatureKind>().unwrap().to_string(), text);
        }
        for text in ["", "poly", "poly:1", "poly:x", "rff:0", "spline", "linear:2", "rbf:some"] {
            assert!(text.parse::<FeatureKind>().unwrap_err().to_string().contains("linear"), "{text}");
        }
    }

    /// Ranges hold however a kind is made.
    #[test]
    fn kinds_are_checked_when_built() {
        assert_eq!(FeatureKind::polynomial(3).unwrap(), "poly:3".parse().unwrap());
        for wrong in [FeatureKind::polynomial(1), FeatureKind::polynomial(31), FeatureKind::fourier(0)] {
            assert!(wrong.is_err());
        }
        assert!(serde_json::from_str::<FeatureKind>("\"poly:99\"").is_err());
    }

    #[test]
    fn maps_agree_with_their_names() {
        let x = Mat::from_fn(7, 2, |i, j| (i as f64 * 1.3 + j as f64).sin());
        let names = ["a".to_owned(), "b".to_owned()];
        let y: Vec<f64> = (0..7).map(|i| x[(i, 0)]).collect();
        let cases = [
            ("linear", "usual"),
            ("poly:3", "usual"),
            ("smooth:4", "usual"),
            ("rff:5", "usual"),
            ("rff:6", "each"),
            ("rff:6", "one"),
            ("rbf", "0.7"),
            ("rbf", "each"),
            ("rbf:all", "0.7"),
        ];
        for (kind, lengthscale) in cases {
            for standardize in [true, false] {
                let training = Training {
                    range: None,
                    inputs: x.as_ref(),
                    target: &y,
                    levels: &[],
                    row_weight: &[1.0; 7],
                    noise: Noise::Shared,
                    least_variance: 0.0,
                    has_transformed_target: false,
                    lengthscale: lengthscale.parse().unwrap(),
                    seed: 1,
                    scaling: Scaling { standardize, centre: standardize },
                    control: &Control::new(),
                };
                let map = kind.parse::<FeatureKind>().unwrap().learn(&training).unwrap().map;
                assert!(map.is_consistent(2) && (kind == "linear" || !map.is_consistent(3)), "{kind}");
                let features = map.transform(x.as_ref(), Par::Seq);
                assert_eq!(features.nrows(), map.names(&names).len(), "{kind}");
                assert_eq!(features.nrows(), map.groups(&[0, 1]).len(), "{kind}");
            }
        }
    }
}
