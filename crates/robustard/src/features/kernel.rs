use faer::{Mat, MatRef};
use serde::{Deserialize, Serialize};

/// The kernel basis of the relevance vector machine: column j is exp(−‖x − xⱼ‖²/(2ℓ²)) for training row xⱼ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// The training rows, one after the other.
    pub centres: Vec<f64>,
    /// Number of inputs.
    pub inputs: usize,
    /// ℓ.
    pub lengthscale: f64,
}

impl Kernel {
    /// Puts one basis function on every row.
    pub fn fit(inputs: MatRef<'_, f64>, lengthscale: f64) -> Self {
        let centres = inputs.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<_>>()).collect();
        Self { centres, inputs: inputs.ncols(), lengthscale }
    }

    /// n × centres kernel values.
    pub fn transform(&self, inputs: MatRef<'_, f64>) -> Mat<f64> {
        let centres: Vec<&[f64]> = self.centres.chunks(self.inputs.max(1)).collect();
        Mat::from_fn(inputs.nrows(), centres.len(), |i, j| {
            let distance: f64 = inputs.row(i).iter().zip(centres[j]).map(|(a, b)| (a - b).powi(2)).sum();
            (-0.5 * distance / (self.lengthscale * self.lengthscale)).exp()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_is_symmetric_with_unit_diagonal() {
        let x = Mat::from_fn(5, 2, |i, j| (i + 2 * j) as f64 * 0.3);
        let k = Kernel::fit(x.as_ref(), 0.8).transform(x.as_ref());
        for i in 0..5 {
            assert_eq!(k[(i, i)], 1.0);
            for j in 0..5 {
                assert_eq!(k[(i, j)], k[(j, i)]);
            }
        }
        let expected: f64 = (-0.5 * (2.0 * 0.09) / 0.64f64).exp();
        assert!((k[(0, 1)] - (-0.5 * 0.18 / 0.64f64).exp()).abs() < 1e-15 && expected > 0.0);
    }
}
