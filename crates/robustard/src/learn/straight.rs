//! Lines alone, for the same rows as a curve: the evidence of their slopes' variance and the noise, in weight space, which takes no time.

use faer::{Accum, Mat, MatRef, Par};
use robustard_engine::math::cholesky::Factor;
use robustard_engine::math::product::matmul;

use super::exp::dot;
use super::{Evaluation, Evidence, Value};
use crate::control::Control;

/// Rows without a curve. Parameters: log variances of the groups of slopes, log s.
pub(super) struct Straight<'a> {
    /// n × p.
    pub inputs: MatRef<'a, f64>,
    /// The group of each input's slope.
    pub lines: &'a [usize],
    pub target: &'a [f64],
    pub row_weight: &'a [f64],
    pub variance_bounds: [f64; 2],
    pub intercept_variance: f64,
    pub control: &'a Control,
}

impl Evidence for Straight<'_> {
    fn value(&self, parameters: &[f64], variance: &[f64]) -> Option<Value> {
        self.evaluate(parameters, variance).map(|evaluation| evaluation.value)
    }

    /// With A the columns times the deviations of their weights and V the rows' variances, K = V + AAᵀ and B = I + AᵀV⁻¹A:
    /// log |K| = log |V| + log |B|, K⁻¹ = V⁻¹ − V⁻¹AB⁻¹AᵀV⁻¹.
    fn evaluate(&self, parameters: &[f64], variance: &[f64]) -> Option<Evaluation> {
        let (noise_scale, deviations) = parameters.split_last()?;
        let noise_scale = noise_scale.exp();
        let deviations: Vec<f64> = deviations.iter().map(|log_variance| (0.5 * log_variance).exp()).collect();
        let (n, d) = (self.inputs.nrows(), self.inputs.ncols() + 1);
        let scaled: Vec<f64> = variance.iter().zip(self.row_weight).map(|(v, w)| noise_scale * v / w).collect();
        let columns = Mat::from_fn(n, d, |i, j| match j {
            0 => self.intercept_variance.sqrt(),
            j => deviations[self.lines[j - 1]] * self.inputs[(i, j - 1)],
        });
        let weighted = Mat::from_fn(n, d, |i, j| columns[(i, j)] / scaled[i]);
        let mut information = Mat::<f64>::identity(d, d);
        matmul(information.as_mut(), Accum::Add, columns.transpose(), weighted.as_ref(), 1.0, Par::Seq);
        let mut factor = Factor::new(d, Par::Seq);
        factor.factorise(information.as_ref()).ok()?;
        factor.invert();
        let mut mean: Vec<f64> = (0..d).map(|j| dot(weighted.col_as_slice(j), self.target)).collect();
        factor.solve(&mut mean);
        // K⁻¹y, and the variances of the lines.
        let mut image = Mat::<f64>::zeros(n, d);
        matmul(image.as_mut(), Accum::Replace, columns.as_ref(), factor.inverse().transpose(), 1.0, Par::Seq);
        let fitted = |i: usize| (0..d).map(|j| columns[(i, j)] * mean[j]).sum::<f64>();
        let residual: Vec<f64> = (0..n).map(|i| self.target[i] - fitted(i)).collect();
        let second_moment: Vec<f64> = (0..n).map(|i| residual[i].powi(2) + image.row(i).squared_norm_l2()).collect();
        let solved: Vec<f64> = residual.iter().zip(&scaled).map(|(r, v)| r / v).collect();
        let fit: f64 = self.target.iter().zip(&solved).map(|(y, a)| y * a).sum();
        let rows = variance.iter().zip(self.row_weight);
        let log_variance: f64 = rows.map(|(v, w)| w * (std::f64::consts::TAU * noise_scale * v).ln()).sum();
        let cost = 0.5 * (fit + factor.log_determinant() + log_variance);
        // ½ tr(K⁻¹ ∂K) − ½ αᵀ ∂K α, where tr(AᵀK⁻¹A) = tr(I − B⁻¹) over the slopes' columns.
        let mut posterior = vec![0.0; d];
        factor.inverse_diagonal(&mut posterior);
        let of_slope = |j: usize| 1.0 - posterior[j] - dot(columns.col_as_slice(j), &solved).powi(2);
        let mut gradient = vec![0.0; parameters.len()];
        (1..d).for_each(|j| gradient[self.lines[j - 1]] += 0.5 * of_slope(j));
        let moments = second_moment.iter().zip(&scaled).zip(self.row_weight);
        let by_noise: f64 = moments.map(|((moment, scaled), weight)| weight - moment / scaled).sum();
        gradient[parameters.len() - 1] = 0.5 * by_noise;
        cost.is_finite().then_some(Evaluation { value: Value { cost, second_moment }, gradient })
    }

    fn row_weight(&self) -> &[f64] {
        self.row_weight
    }

    fn variance_bounds(&self) -> [f64; 2] {
        self.variance_bounds
    }

    fn control(&self) -> &Control {
        self.control
    }
}
