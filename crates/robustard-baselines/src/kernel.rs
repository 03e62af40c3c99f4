//! The squared exponential kernel and how Gaussian processes see their target.

use faer::{Mat, MatRef};

use crate::linear::mean;

/// Bounds of the log lengthscales, of standardized inputs, and of the log variances, of a standardized target.
const LENGTHSCALES: [f64; 2] = [1e-2, 1e3];
const VARIANCES: [f64; 2] = [1e-6, 1e4];
/// Where the noise variance starts, of a standardized target.
const START_NOISE: f64 = 0.1;

/// Parameters of a Gaussian process by name; as a vector, logs in this order.
#[derive(Debug, Clone)]
pub(crate) struct KernelParameters {
    /// ℓ: one for all inputs or one each.
    pub lengthscales: Vec<f64>,
    /// σ_f².
    pub signal: f64,
    /// σ_n².
    pub noise: f64,
}

impl KernelParameters {
    pub fn from_logs(logs: &[f64]) -> Self {
        let (lengthscales, variances) = logs.split_at(logs.len() - 2);
        Self {
            lengthscales: lengthscales.iter().map(|l| l.exp()).collect(),
            signal: variances[0].exp(),
            noise: variances[1].exp(),
        }
    }

    /// Logs, with variances in the unit of a target of this scale.
    pub fn logs(&self, scale: TargetScale) -> Vec<f64> {
        let mut logs: Vec<f64> = self.lengthscales.iter().map(|l| l.ln()).collect();
        logs.extend([self.signal, self.noise].map(|variance| variance.ln() + 2.0 * scale.deviation.ln()));
        logs
    }

    /// Logs to start from: ℓ = √p, σ_f² the target's variance, σ_n² a tenth of it.
    pub fn start(lengthscales: usize, inputs: usize) -> Vec<f64> {
        let mut logs = vec![0.5 * (inputs as f64).ln(); lengthscales];
        logs.extend([0.0, START_NOISE.ln()]);
        logs
    }

    pub fn bounds(lengthscales: usize) -> Vec<[f64; 2]> {
        let mut bounds = vec![LENGTHSCALES.map(f64::ln); lengthscales];
        bounds.extend([VARIANCES.map(f64::ln); 2]);
        bounds
    }

    /// 1/ℓ for each of p inputs.
    pub fn scales(&self, inputs: usize) -> Vec<f64> {
        (0..inputs).map(|j| 1.0 / self.lengthscales[j % self.lengthscales.len()]).collect()
    }
}

/// Squared distances of the rows of a (m) and b (n) with inputs multiplied by `scales`, m × n.
pub(crate) fn squared_distances(a: MatRef<'_, f64>, b: MatRef<'_, f64>, scales: &[f64]) -> Mat<f64> {
    let mut squares = Mat::zeros(a.nrows(), b.nrows());
    for (input, scale) in scales.iter().enumerate() {
        let column: Vec<f64> = a.col(input).iter().map(|x| scale * x).collect();
        for j in 0..b.nrows() {
            add_squares(squares.col_as_slice_mut(j), &column, scale * b[(j, input)]);
        }
    }
    squares
}

/// Adds (xᵢ − centre)² to the sums.
pub(crate) fn add_squares(sums: &mut [f64], values: &[f64], centre: f64) {
    for (sum, x) in sums.iter_mut().zip(values) {
        *sum += (x - centre) * (x - centre);
    }
}

/// σ_f² exp(−½ Σ (xⱼ − x'ⱼ)²/ℓⱼ²) for the rows of a (m) and b (n), m × n.
pub(crate) fn kernel_matrix(a: MatRef<'_, f64>, b: MatRef<'_, f64>, parameters: &KernelParameters) -> Mat<f64> {
    let mut kernel = squared_distances(a, b, &parameters.scales(a.ncols()));
    for j in 0..kernel.ncols() {
        kernel.col_as_slice_mut(j).iter_mut().for_each(|k| *k = parameters.signal * (-0.5 * *k).exp());
    }
    kernel
}

/// Mean and size of a target, by which it is standardized.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TargetScale {
    pub mean: f64,
    /// Standard deviation; 1 for a constant target.
    pub deviation: f64,
}

impl TargetScale {
    pub fn of(target: &[f64]) -> Self {
        let centre = mean(target);
        let deviation = mean(&target.iter().map(|y| (y - centre).powi(2)).collect::<Vec<_>>()).sqrt();
        // A spread of rounding errors is none.
        let is_constant = deviation <= f64::EPSILON * centre.abs() * target.len() as f64;
        Self { mean: centre, deviation: if is_constant { 1.0 } else { deviation } }
    }

    pub fn standardize(&self, target: &[f64]) -> Vec<f64> {
        target.iter().map(|y| (y - self.mean) / self.deviation).collect()
    }
}
