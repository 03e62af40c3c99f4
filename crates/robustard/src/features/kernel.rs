use faer::{Mat, MatRef, Par};
use serde::{Deserialize, Serialize};

use super::{FeatureError, Training, check_columns, check_positive};
use crate::learn::{CurveOptions, Effort, LearningNoise, Shape, learn_curve};

/// The kernel basis of the relevance vector machine: column j is exp(−Σₖ(xₖ − xⱼₖ)²/(2ℓₖ²)) for training row xⱼ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// The training rows, one after the other.
    pub centres: Vec<f64>,
    /// ℓ, one per input.
    pub lengthscales: Vec<f64>,
}

impl Kernel {
    /// Puts one basis function on every row.
    pub fn fit(inputs: MatRef<'_, f64>, lengthscales: Vec<f64>) -> Result<Self, FeatureError> {
        lengthscales.iter().try_for_each(|length| check_positive("lengthscale", *length))?;
        check_columns(lengthscales.len(), inputs)?;
        let centres = inputs.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<_>>()).collect();
        Ok(Self { centres, lengthscales })
    }

    /// The same, with the lengthscales of the Gaussian process that explains the rows best.
    pub fn learn(
        inputs: MatRef<'_, f64>,
        training: &Training<'_>,
        per_input: bool,
        seed: u64,
    ) -> Result<Self, FeatureError> {
        let options = CurveOptions {
            shape: Shape::Gauss,
            singles: Vec::new(),
            per_input,
            seed,
            noise: LearningNoise { kind: training.noise, prior: training.noise_prior },
            must_bend: false,
            effort: Effort::Whole,
        };
        let learnt = learn_curve(inputs, training.target, training.row_weight, &options, None, Par::rayon(0));
        let curve = learnt.map_err(|_| FeatureError::NotLearnt)?.curve;
        Self::fit(inputs, curve.scales.iter().map(|scale| 1.0 / scale).collect())
    }

    /// Number of basis functions.
    pub fn size(&self) -> usize {
        self.centres.len() / self.lengthscales.len().max(1)
    }

    /// n × centres kernel values.
    pub fn transform(&self, inputs: MatRef<'_, f64>) -> Result<Mat<f64>, FeatureError> {
        check_columns(self.lengthscales.len(), inputs)?;
        let centres: Vec<&[f64]> = self.centres.chunks(self.lengthscales.len().max(1)).collect();
        Ok(Mat::from_fn(inputs.nrows(), centres.len(), |i, j| {
            let steps = inputs.row(i).iter().zip(centres[j]).zip(&self.lengthscales);
            // Divided before squaring: the square of a tiny lengthscale is 0.
            let distance: f64 = steps.map(|((a, b), length)| ((a - b) / length).powi(2)).sum();
            (-0.5 * distance).exp()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_is_symmetric_with_unit_diagonal() {
        let x = Mat::from_fn(5, 2, |i, j| (i + 2 * j) as f64 * 0.3);
        let k = Kernel::fit(x.as_ref(), vec![0.8; 2]).unwrap().transform(x.as_ref()).unwrap();
        for i in 0..5 {
            assert_eq!(k[(i, i)], 1.0);
            for j in 0..5 {
                assert_eq!(k[(i, j)], k[(j, i)]);
            }
        }
        assert!((k[(0, 1)] - (-0.5 * 0.18 / 0.64f64).exp()).abs() < 1e-15);
        assert!(Kernel::fit(x.as_ref(), vec![0.0; 2]).is_err());
        let fewer = x.as_ref().subcols(0, 1);
        assert!(Kernel::fit(x.as_ref(), vec![0.8; 2]).unwrap().transform(fewer).is_err());
    }
}
