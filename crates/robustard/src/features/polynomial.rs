use faer::{Mat, MatMut, MatRef, Par};
use serde::{Deserialize, Serialize};

use super::{FeatureError, Kind, Learnt, Map, Training, count_in};
use crate::scaling::Standardizer;

/// The powers x, x², …, x^degree of every input, of inputs scaled to −1…1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolynomialKind {
    degree: usize,
}

/// Standardized powers, input by input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolynomialMap {
    degree: usize,
    powers: Standardizer,
}

impl Kind for PolynomialKind {
    type Map = PolynomialMap;
    const NAME: &'static str = "poly";
    const USAGE: &'static str = "poly:DEGREE (2 to 30)";

    fn parse(argument: Option<&str>) -> Option<Self> {
        Some(Self { degree: count_in(argument?, 2..=30)? })
    }

    fn argument(&self) -> Option<String> {
        Some(self.degree.to_string())
    }

    fn scales_to_range(&self) -> bool {
        true
    }

    fn learn(&self, training: &Training<'_>) -> Result<Learnt<PolynomialMap>, FeatureError> {
        let powers = powers(training.inputs, self.degree);
        let powers = training.scaling.of(powers.as_ref(), training.row_weight);
        Ok(Learnt { map: PolynomialMap { degree: self.degree, powers }, start: None })
    }
}

/// m × (inputs · degree) powers.
fn powers(inputs: MatRef<'_, f64>, degree: usize) -> Mat<f64> {
    Mat::from_fn(inputs.nrows(), inputs.ncols() * degree, |i, k| inputs[(i, k / degree)].powi((k % degree) as i32 + 1))
}

impl Map for PolynomialMap {
    fn count(&self, inputs: usize) -> usize {
        inputs * self.degree
    }

    fn write(&self, inputs: MatRef<'_, f64>, mut features: MatMut<'_, f64>, _par: Par) {
        let standard = self.powers.transform(powers(inputs, self.degree).as_ref());
        features.copy_from(standard.transpose());
    }

    fn names(&self, inputs: &[String]) -> Vec<String> {
        let of = |name: &String, power| if power == 1 { name.clone() } else { format!("{name}^{power}") };
        inputs.iter().flat_map(|name| (1..=self.degree).map(move |power| of(name, power))).collect()
    }

    fn groups(&self, inputs: &[usize]) -> Vec<usize> {
        (0..inputs.len() * self.degree).collect()
    }

    fn is_consistent(&self, inputs: usize) -> bool {
        let count = inputs.checked_mul(self.degree);
        count == Some(self.powers.mean.len()) && count == Some(self.powers.scale.len())
    }
}
