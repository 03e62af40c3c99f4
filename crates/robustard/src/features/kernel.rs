use faer::{Mat, MatRef};
use serde::{Deserialize, Serialize};

use super::{FeatureError, check_columns, check_positive};

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
    pub fn fit(inputs: MatRef<'_, f64>, lengthscale: f64) -> Result<Self, FeatureError> {
        check_positive("lengthscale", lengthscale)?;
        let centres = inputs.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<_>>()).collect();
        Ok(Self { centres, inputs: inputs.ncols(), lengthscale })
    }

    /// n × centres kernel values.
    pub fn transform(&self, inputs: MatRef<'_, f64>) -> Result<Mat<f64>, FeatureError> {
        check_columns(self.inputs, inputs)?;
        let centres: Vec<&[f64]> = self.centres.chunks(self.inputs.max(1)).collect();
        Ok(Mat::from_fn(inputs.nrows(), centres.len(), |i, j| {
            let distance: f64 = inputs.row(i).iter().zip(centres[j]).map(|(a, b)| (a - b).powi(2)).sum();
            // Divided twice: the square of a tiny lengthscale is 0.
            (-0.5 * (distance / self.lengthscale) / self.lengthscale).exp()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_is_symmetric_with_unit_diagonal() {
        let x = Mat::from_fn(5, 2, |i, j| (i + 2 * j) as f64 * 0.3);
        let k = Kernel::fit(x.as_ref(), 0.8).unwrap().transform(x.as_ref()).unwrap();
        for i in 0..5 {
            assert_eq!(k[(i, i)], 1.0);
            for j in 0..5 {
                assert_eq!(k[(i, j)], k[(j, i)]);
            }
        }
        assert!((k[(0, 1)] - (-0.5 * 0.18 / 0.64f64).exp()).abs() < 1e-15);
        assert!(Kernel::fit(x.as_ref(), 0.0).is_err());
        let fewer = x.as_ref().subcols(0, 1);
        assert!(Kernel::fit(x.as_ref(), 0.8).unwrap().transform(fewer).is_err());
    }
}
