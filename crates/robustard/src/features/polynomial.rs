use faer::{Mat, MatRef};
use serde::{Deserialize, Serialize};

/// The powers x, x², …, x^degree of every input, input by input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Polynomial {
    /// Highest power.
    pub degree: usize,
}

impl Polynomial {
    /// n × (inputs · degree) powers.
    pub fn transform(&self, inputs: MatRef<'_, f64>) -> Mat<f64> {
        Mat::from_fn(inputs.nrows(), inputs.ncols() * self.degree, |i, k| {
            inputs[(i, k / self.degree)].powi((k % self.degree) as i32 + 1)
        })
    }
}
