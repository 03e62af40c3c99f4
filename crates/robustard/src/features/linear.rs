use faer::{MatMut, MatRef, Par};
use serde::{Deserialize, Serialize};

use super::{FeatureError, Kind, Learnt, Map, Training, write_inputs};

/// The inputs themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinearKind;

/// Standardized inputs as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinearMap {}

impl Kind for LinearKind {
    type Map = LinearMap;
    const NAME: &'static str = "linear";
    const USAGE: &'static str = "linear";

    fn parse(argument: Option<&str>) -> Option<Self> {
        argument.is_none().then_some(Self)
    }

    fn argument(&self) -> Option<String> {
        None
    }

    fn learn(&self, _training: &Training<'_>) -> Result<Learnt<LinearMap>, FeatureError> {
        Ok(Learnt { map: LinearMap {}, start: None })
    }
}

impl Map for LinearMap {
    fn count(&self, inputs: usize) -> usize {
        inputs
    }

    fn write(&self, inputs: MatRef<'_, f64>, features: MatMut<'_, f64>, _par: Par) {
        write_inputs(inputs, features);
    }

    fn names(&self, inputs: &[String]) -> Vec<String> {
        inputs.to_vec()
    }

    fn groups(&self, inputs: &[usize]) -> Vec<usize> {
        inputs.to_vec()
    }

    fn is_consistent(&self, _inputs: usize) -> bool {
        true
    }

    fn begins_with_inputs(&self) -> bool {
        true
    }
}
