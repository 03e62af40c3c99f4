//! The scale that a target is fitted on: a transformation if its errors grow with it, then mean 0 and standard deviation 1.

use std::fmt;
use std::str::FromStr;

use faer::ColRef;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Error;
use crate::dataset::Dataset;
use crate::moments::Moments;
use crate::scaling::Standardizer;

/// What is fitted instead of the target; predictions come back in the target's units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TargetTransform {
    /// The target itself.
    #[default]
    None,
    /// ln y, of targets that are all above 0.
    Log,
    /// asinh(y/s): nearly ln y where y is large, y/s near 0, and of any sign. s is the tenth percentile of |y|.
    Asinh,
}

/// The quantile of magnitudes below which targets are small.
pub(crate) const SMALL: f64 = 0.1;
/// Small targets are at least this share of the median, if many are 0.
const LEAST_SMALL: f64 = 1e-3;

impl TargetTransform {
    const ALL: [Self; 3] = [Self::None, Self::Log, Self::Asinh];

    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Log => "log",
            Self::Asinh => "asinh",
        }
    }
}

impl fmt::Display for TargetTransform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TargetTransform {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|transform| transform.name() == text);
        known.ok_or_else(|| format!("'{text}' is no transformation of the target; use none, log or asinh"))
    }
}

impl Serialize for TargetTransform {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TargetTransform {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A size of small targets: below it asinh(y/s) is nearly a line. None if all are 0.
pub(crate) fn small_size(target: &[f64]) -> Option<f64> {
    let mut sizes: Vec<f64> = target.iter().map(|y| y.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let at = |share: f64| sizes.get((share * sizes.len() as f64) as usize).copied().unwrap_or(0.0);
    let small = at(SMALL).max(LEAST_SMALL * at(0.5));
    (small > 0.0).then_some(small)
}

/// A transformation, with what it takes from the data.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Transform {
    #[default]
    None,
    Log,
    Asinh {
        scale: f64,
    },
}

impl Transform {
    fn of(transform: TargetTransform, target: &[f64]) -> Result<Self, Error> {
        Ok(match transform {
            TargetTransform::None => Self::None,
            TargetTransform::Log => match target.iter().position(|y| *y <= 0.0) {
                Some(row) => return Err(Error::LogOfTarget { row, value: target[row] }),
                None => Self::Log,
            },
            TargetTransform::Asinh => Self::Asinh { scale: small_size(target).unwrap_or(1.0) },
        })
    }

    fn apply(self, y: f64) -> f64 {
        match self {
            Self::None => y,
            Self::Log => y.ln(),
            Self::Asinh { scale } => (y / scale).asinh(),
        }
    }

    fn invert(self, value: f64) -> f64 {
        match self {
            Self::None => value,
            Self::Log => value.exp(),
            Self::Asinh { scale } => scale * value.sinh(),
        }
    }

    /// ln of the derivative at a target.
    fn log_slope(self, y: f64) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Log => -y.ln(),
            Self::Asinh { scale } => -scale.ln() - 0.5 * (y / scale).powi(2).ln_1p(),
        }
    }

    /// The expected target where `value` is expected of what is fitted, given what errors do to it.
    fn expect(self, value: f64, [even, odd]: [f64; 2]) -> f64 {
        match self {
            Self::None => value,
            Self::Log => value.exp() * (even + odd),
            Self::Asinh { scale } => scale * (even * value.sinh() + odd * value.cosh()),
        }
    }
}

/// How the target is standardized: transformed, shifted and scaled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TargetScale {
    #[serde(default)]
    transform: Transform,
    /// Mean of the transformed target; 0 without an intercept.
    mean: f64,
    /// Its standard deviation; 1 for a constant target.
    deviation: f64,
    /// Mean of the logarithm of the transformation's slope over the targets.
    #[serde(default)]
    log_slope: f64,
    /// What transformed targets lie between; none if they are not transformed. Where nothing is known, intervals of a logarithm would have
    /// no size that means anything.
    #[serde(default)]
    limits: Option<[f64; 2]>,
    /// What predictions are held in: the transformed targets of right rows. Beyond them a line of a logarithm is an exponential.
    #[serde(default)]
    range: Option<[f64; 2]>,
    /// Means of cosh and sinh of the errors of left-out rows, transformed and not standardized.
    #[serde(default = "no_errors")]
    errors: [f64; 2],
}

const fn no_errors() -> [f64; 2] {
    [1.0, 0.0]
}

impl TargetScale {
    /// Of values that all count once, about their mean.
    pub fn of_values(target: &[f64]) -> Self {
        let standard = Standardizer::fit(ColRef::from_slice(target).as_mat());
        Self {
            transform: Transform::None,
            mean: standard.mean[0],
            deviation: standard.scale[0],
            log_slope: 0.0,
            limits: None,
            range: None,
            errors: no_errors(),
        }
    }

    pub(crate) fn of(dataset: &Dataset<'_>, intercept: bool, transform: TargetTransform) -> Result<Self, Error> {
        let transform = Transform::of(transform, dataset.target())?;
        let transformed: Vec<f64>;
        let target = match transform {
            Transform::None => dataset.target(),
            _ => {
                transformed = dataset.target().iter().map(|y| transform.apply(*y)).collect();
                &transformed
            }
        };
        let column = ColRef::from_slice(target).as_mat();
        let standard = match dataset.weights() {
            Some(weights) => Standardizer::weighted(column, weights),
            None => Standardizer::fit(column),
        };
        let mean = if intercept { standard.mean[0] } else { 0.0 };
        let limits = (transform != Transform::None).then(|| {
            let low = target.iter().copied().fold(f64::INFINITY, f64::min);
            let high = target.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            // Half as far again as targets have been seen.
            let more = 0.5 * (high - low) + 1.0;
            [low - more, high + more]
        });
        let deviation = standard.scale[0];
        let scale = Self { transform, mean, deviation, log_slope: 0.0, limits, range: None, errors: no_errors() };
        Ok(scale.of_the_same(dataset))
    }

    /// The same with another mean and deviation, unless something else is fitted instead of the target.
    pub(crate) fn with_moments(self, (mean, deviation): (f64, f64), intercept: bool) -> Self {
        if self.transform == Transform::None {
            Self { mean: if intercept { mean } else { 0.0 }, deviation, ..self }
        } else {
            self
        }
    }

    /// Whether the target itself is scaled by these.
    pub(crate) fn has_moments(&self, moments: &Moments) -> bool {
        self.transform == Transform::None
            && moments.of_target().is_some_and(|(_, deviation)| deviation == self.deviation)
    }

    /// The same scale of other rows.
    pub(crate) fn of_the_same(self, dataset: &Dataset<'_>) -> Self {
        if self.transform == Transform::None {
            return self;
        }
        let weight = |row: usize| dataset.weights().map_or(1.0, |weights| weights[row]);
        let (mut sum, mut total) = (0.0, 0.0);
        for (row, y) in dataset.target().iter().enumerate() {
            (sum, total) = (sum + weight(row) * self.transform.log_slope(*y), total + weight(row));
        }
        Self { log_slope: sum / total, ..self }
    }

    /// With the range of right rows, given their standardized targets and how far each row is right.
    pub(crate) fn with_range(self, targets: impl Iterator<Item = (f64, f64)>) -> Self {
        /// Rows that are rather wrong than right do not count.
        const RIGHT: f64 = 0.5;
        if self.transform == Transform::None {
            return self;
        }
        let right = targets.filter(|(_, weight)| *weight >= RIGHT).map(|(target, _)| self.transformed(target));
        let range = right.fold(None, |range: Option<[f64; 2]>, value| {
            Some(range.map_or([value; 2], |[low, high]| [low.min(value), high.max(value)]))
        });
        Self { range, ..self }
    }

    /// With the errors of left-out rows, in standard units, that new rows have, too: means of transformed targets are not means of
    /// targets (Duan's smearing).
    pub(crate) fn with_errors(self, errors: impl Iterator<Item = (f64, f64)> + Clone) -> Self {
        /// Errors beyond so many standard deviations count as these: their exponentials would be all that counts.
        const LARGEST: f64 = 4.0;
        if self.transform == Transform::None {
            return self;
        }
        let total: f64 = errors.clone().map(|(_, weight)| weight).sum();
        let squares: f64 = errors.clone().map(|(error, weight)| weight * error * error).sum();
        if total.is_nan() || total <= 0.0 {
            return self;
        }
        let limit = LARGEST * (squares / total).sqrt();
        let mean_of = |of: fn(f64) -> f64| {
            let sum: f64 = errors.clone().map(|(e, w)| w * of(self.deviation * e.clamp(-limit, limit))).sum();
            sum / total
        };
        Self { errors: [mean_of(f64::cosh), mean_of(f64::sinh)], ..self }
    }

    /// What is fitted instead of the target.
    pub fn transform(&self) -> TargetTransform {
        match self.transform {
            Transform::None => TargetTransform::None,
            Transform::Log => TargetTransform::Log,
            Transform::Asinh { .. } => TargetTransform::Asinh,
        }
    }

    /// What is fitted, as a formula of the target's name.
    pub fn formula(&self, target: &str) -> String {
        match self.transform {
            Transform::None => target.to_owned(),
            Transform::Log => format!("log({target})"),
            Transform::Asinh { scale } => {
                // Three digits are enough to be read.
                let digits = 10f64.powi(2 - scale.log10().floor() as i32);
                let rounded = (scale * digits).round() / digits;
                format!("asinh({target} / {})", if rounded.is_finite() { rounded } else { scale })
            }
        }
    }

    /// The target in standard units.
    pub fn standardize(&self, target: &[f64]) -> Vec<f64> {
        target.iter().map(|y| (self.transform.apply(*y) - self.mean) / self.deviation).collect()
    }

    /// A value in the target's units: the median of targets whose errors are as often above as below.
    pub fn unscaled(&self, standard: f64) -> f64 {
        self.inverted(self.transformed(standard))
    }

    /// The expected target where a standardized value is expected.
    pub fn expected(&self, standard: f64) -> f64 {
        self.expect(self.held(self.transformed(standard)))
    }

    /// A prediction, within the range of the targets of right rows where these are transformed.
    fn held(&self, value: f64) -> f64 {
        self.range.map_or(value, |[low, high]| value.clamp(low, high))
    }

    /// The target of a transformed one.
    fn inverted(&self, value: f64) -> f64 {
        self.transform.invert(self.limited(value))
    }

    fn expect(&self, value: f64) -> f64 {
        self.transform.expect(self.limited(value), self.errors)
    }

    fn limited(&self, value: f64) -> f64 {
        self.limits.map_or(value, |[low, high]| value.clamp(low, high))
    }

    /// A standardized value in units of the transformed target.
    pub(crate) fn transformed(&self, standard: f64) -> f64 {
        self.mean + self.deviation * standard
    }

    /// The error of a standardized target, in the target's units, whose standardized error is given.
    pub fn error(&self, standard: f64, error: f64) -> f64 {
        match self.transform {
            Transform::None => self.deviation * error,
            _ => self.unscaled(standard) - self.expected(standard - error),
        }
    }

    /// A difference of values, in units of the transformed target.
    pub fn difference(&self, standard: f64) -> f64 {
        self.deviation * standard
    }

    /// A variance, in squared units of the transformed target.
    pub fn variance(&self, standard: f64) -> f64 {
        self.deviation * self.deviation * standard
    }

    /// A variance in squared units of the target, where a standardized value is expected.
    pub fn variance_at(&self, expected: f64, variance: f64) -> f64 {
        let slope = match self.transform {
            Transform::None => 1.0,
            _ => (-self.transform.log_slope(self.unscaled(expected))).exp(),
        };
        slope * slope * self.variance(variance)
    }

    /// The log density of so many targets in their own units.
    pub fn log_density(&self, standard: f64, targets: f64) -> f64 {
        standard - targets * (self.deviation.ln() - self.log_slope)
    }

    /// The log density of a target in its own unit; it is given standardized, too.
    pub fn log_density_at(&self, standard: f64, log_density: f64) -> f64 {
        let log_slope = match self.transform {
            Transform::None => 0.0,
            _ => self.transform.log_slope(self.unscaled(standard)),
        };
        log_density - self.deviation.ln() + log_slope
    }

    /// Predictions in the target's units, of those in standard units.
    pub(crate) fn prediction(&self, standard: robustard_engine::Prediction) -> Predicted {
        let mut values = standard.scaled(self.mean, self.deviation);
        values.mean.iter_mut().for_each(|value| *value = self.held(*value));
        Predicted { scale: *self, values }
    }
}

/// Predictions in units of the transformed target, and the way back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Predicted {
    scale: TargetScale,
    values: robustard_engine::Prediction,
}

impl Predicted {
    pub fn noise(&self) -> &robustard_engine::PredictiveNoise {
        self.values.noise()
    }

    pub fn mean(&self) -> Vec<f64> {
        self.values.mean.iter().map(|value| self.scale.expect(*value)).collect()
    }

    pub fn median(&self) -> Vec<f64> {
        self.values.mean.iter().map(|value| self.scale.inverted(*value)).collect()
    }

    /// Half the width of the interval of one standard deviation on either side, each transformed back.
    pub fn std(&self) -> Vec<f64> {
        match self.scale.transform {
            Transform::None => self.values.std.clone(),
            _ => {
                let half = |(value, std): (&f64, &f64)| {
                    0.5 * (self.scale.inverted(value + std) - self.scale.inverted(value - std))
                };
                self.values.mean.iter().zip(&self.values.std).map(half).collect()
            }
        }
    }

    pub fn latent_variance(&self) -> Vec<f64> {
        match self.scale.transform {
            Transform::None => self.values.latent_variance.clone(),
            transform => {
                let at = |(value, variance): (&f64, &f64)| {
                    variance * (-2.0 * transform.log_slope(self.scale.inverted(*value))).exp()
                };
                self.values.mean.iter().zip(&self.values.latent_variance).map(at).collect()
            }
        }
    }

    pub fn interval(&self, level: f64) -> Result<robustard_engine::Interval, robustard_engine::PredictError> {
        let mut interval = self.values.interval(level)?;
        if self.scale.transform != Transform::None {
            let ends = interval.lower.iter_mut().chain(&mut interval.upper);
            ends.for_each(|end| *end = self.scale.inverted(*end));
        }
        Ok(interval)
    }

    pub fn log_density(&self, actual: &[f64]) -> Vec<f64> {
        let transform = self.scale.transform;
        if transform == Transform::None {
            return self.values.log_density(actual);
        }
        let transformed: Vec<f64> = actual.iter().map(|y| transform.apply(*y)).collect();
        let densities = self.values.log_density(&transformed);
        densities.iter().zip(actual).map(|(density, y)| density + transform.log_slope(*y)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::Mat;
    use robustard_engine::PredictiveNoise;

    fn targets() -> Vec<f64> {
        (0..200).map(|k| (0.03 * f64::from(k)).exp()).collect()
    }

    fn scales() -> [TargetScale; 3] {
        let (inputs, target) = (Mat::from_fn(200, 1, |i, _| i as f64), targets());
        let dataset = Dataset::new(inputs.as_ref(), &target).unwrap();
        TargetTransform::ALL.map(|transform| TargetScale::of(&dataset, true, transform).unwrap())
    }

    #[test]
    fn targets_come_back() {
        for scale in scales() {
            for (y, z) in targets().iter().zip(scale.standardize(&targets())) {
                assert!((scale.unscaled(z) - y).abs() < 1e-10 * y.abs().max(1.0), "{scale:?}: {y}");
                // The slope is that of the transformation.
                let step = 1e-5;
                let slope = (scale.unscaled(z + step) - scale.unscaled(z - step)) / (2.0 * step);
                assert!((scale.variance_at(z, 1.0).sqrt() / slope - 1.0).abs() < 1e-6, "{scale:?}: {y}");
                assert!((scale.log_density_at(z, 0.0) + slope.ln()).abs() < 1e-6, "{scale:?}: {y}");
            }
        }
    }

    /// Lines of a logarithm do not become exponentials beyond the targets of right rows.
    #[test]
    fn predictions_stay_in_the_range_of_right_rows() {
        let [none, log, asinh] = scales();
        for scale in [log, asinh] {
            let targets = scale.standardize(&[10.0, 1000.0, 1e6]);
            let scale = scale.with_range(targets.iter().copied().zip([1.0, 1.0, 0.1]));
            for (standard, held) in [(targets[1] + 5.0, 1000.0), (targets[0] - 5.0, 10.0), (targets[1], 1000.0)] {
                assert!((scale.expected(standard) - held).abs() < 1e-6 * held, "{}", scale.expected(standard));
            }
        }
        assert_eq!(none.with_range([(1.0, 1.0)].into_iter()), none);
    }

    /// Of errors of d and −d on the log scale the mean is cosh(d) times the median.
    #[test]
    fn means_are_not_medians() {
        let [none, log, asinh] = scales();
        let errors = [(0.3, 1.0), (-0.3, 1.0)];
        for scale in [log, asinh] {
            let scale = scale.with_errors(errors.into_iter());
            let standard = scale.standardize(&[1000.0])[0];
            assert!((scale.unscaled(standard) - 1000.0).abs() < 1e-6);
            let ratio = scale.expected(standard) / 1000.0;
            assert!((ratio - scale.difference(0.3).cosh()).abs() < 1e-9, "{ratio}");
            // The mean is what errors are of.
            assert!((scale.error(standard, 0.0) + 1000.0 * (ratio - 1.0)).abs() < 1e-6);
        }
        assert_eq!(none.with_errors(errors.into_iter()), none);
    }

    /// Densities integrate to one, and intervals hold what they say.
    #[test]
    fn predictions_are_one_distribution() {
        for scale in scales() {
            let noise = PredictiveNoise::Normal { variance: 0.02 };
            let standard = robustard_engine::Prediction::new(vec![0.4], vec![0.01], noise);
            let predicted = scale.prediction(standard);
            let interval = predicted.interval(0.9).unwrap();
            let (low, high) = (interval.lower[0], interval.upper[0]);
            let steps = 2000;
            let step = (high - low) / f64::from(steps);
            let densities = (0..steps).map(|k| predicted.log_density(&[low + (f64::from(k) + 0.5) * step])[0].exp());
            let mass: f64 = densities.map(|density| step * density).sum();
            assert!((mass - 0.9).abs() < 1e-4, "{scale:?}: {mass}");
            assert!(low < predicted.median()[0] && predicted.median()[0] < high);
        }
    }
}
