//! Exact Gaussian process: k(x, x') = σ_f² exp(−½ Σⱼ (xⱼ − x'ⱼ)²/ℓⱼ²) + σ_n² δ, parameters by the largest evidence.

use faer::{Mat, MatRef};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::cholesky::Cholesky;
use crate::error::{check_setting, check_training};
use crate::kernel::{KernelParameters, TargetScale, add_squares, kernel_matrix, squared_distances};
use crate::optimise::{Evaluation, minimise};
use crate::{BaselineError, BaselinePrediction, FittedBaseline, Model};

/// Evaluations of the evidence for each start.
const MOST_EVALUATIONS: usize = 60;
/// Random starts: logs of the lengthscales and of σ_f² are within this of the first start's, σ_n² is within the range.
const START_LOG_RANGE: f64 = 1.5;
const START_NOISE_RANGE: [f64; 2] = [1e-3, 1.0];
/// Rows predicted together, so that the room needed does not grow with the table.
pub(crate) const BLOCK: usize = 1024;

/// A Gaussian process after training.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    inputs: Mat<f64>,
    scale: TargetScale,
    parameters: KernelParameters,
    /// Of K + σ_n² I.
    factor: Cholesky,
    /// α = (K + σ_n² I)⁻¹y.
    dual: Vec<f64>,
}

pub(crate) fn fit(
    inputs: MatRef<'_, f64>,
    target: &[f64],
    per_input: bool,
    starts: usize,
    seed: u64,
) -> Result<FittedBaseline, BaselineError> {
    check_setting("the number of starts", starts as f64, starts > 0, "1 or more")?;
    let (n, p) = inputs.shape();
    let scale = TargetScale::of(target);
    let evidence = Evidence::new(inputs, scale.standardize(target), per_input);
    let lengthscales = if per_input { p } else { 1 };
    let first = KernelParameters::start(lengthscales, p);
    let bounds = KernelParameters::bounds(lengthscales);
    // Per row, so that first steps are of order 1.
    let cost = |logs: &[f64]| {
        let Evaluation { cost, gradient } = evidence.evaluate(logs)?;
        Some(Evaluation { cost: cost / n as f64, gradient: gradient.iter().map(|g| g / n as f64).collect() })
    };
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let minima: Vec<_> = (0..starts)
        .filter_map(|start| {
            let logs = if start == 0 { first.clone() } else { random_start(&first, &mut random) };
            minimise(cost, &logs, &bounds, MOST_EVALUATIONS)
        })
        .collect();
    let evaluations = minima.iter().map(|minimum| minimum.evaluations).sum();
    let best = minima.iter().min_by(|a, b| a.cost.total_cmp(&b.cost));
    let failed = BaselineError::Decomposition { what: "the kernel matrix" };
    let (parameters, state) =
        best.and_then(|best| Some((KernelParameters::from_logs(&best.at), evidence.state(&best.at)?))).ok_or(failed)?;
    let State { factor, dual, .. } = state;
    let weight_size = dual.iter().map(|a| a.abs()).collect();
    let process = Process { inputs: inputs.to_owned(), scale, parameters, factor, dual };
    let model = Model::Gp(Box::new(process));
    Ok(FittedBaseline { columns: p, model, weight_size, row_weight: vec![1.0; n], iterations: evaluations })
}

fn random_start(first: &[f64], random: &mut ChaCha8Rng) -> Vec<f64> {
    let mut logs: Vec<f64> =
        first.iter().map(|log| log + random.random_range(-START_LOG_RANGE..START_LOG_RANGE)).collect();
    let [low, high] = START_NOISE_RANGE.map(f64::ln);
    *logs.last_mut().expect("the noise") = random.random_range(low..high);
    logs
}

impl Process {
    pub fn kernel_logs(&self) -> Vec<f64> {
        self.parameters.logs(self.scale)
    }

    pub fn predict(&self, inputs: MatRef<'_, f64>) -> BaselinePrediction {
        let Self { scale, parameters, .. } = self;
        let (mut mean, mut variance) = (Vec::new(), Vec::new());
        for start in (0..inputs.nrows()).step_by(BLOCK) {
            let block = inputs.subrows(start, BLOCK.min(inputs.nrows() - start));
            let mut cross = kernel_matrix(self.inputs.as_ref(), block, parameters);
            mean.extend(cross.col_iter().map(|column| {
                let fit: f64 = column.iter().zip(&self.dual).map(|(k, a)| k * a).sum();
                scale.mean + scale.deviation * fit
            }));
            self.factor.solve_half_of_columns(cross.as_mut());
            variance.extend(cross.col_iter().map(|column| {
                let latent = (parameters.signal - column.squared_norm_l2()).max(0.0);
                scale.deviation.powi(2) * (latent + parameters.noise)
            }));
        }
        BaselinePrediction { mean, variance }
    }
}

/// The evidence of a target with mean 0 as a function of the logs of the parameters.
struct Evidence {
    /// p columns.
    inputs: Vec<Vec<f64>>,
    target: Vec<f64>,
    /// Squared distances, n × n, when there is one lengthscale.
    squares: Option<Mat<f64>>,
}

struct State {
    /// Without the noise, lower triangle.
    kernel: Mat<f64>,
    factor: Cholesky,
    dual: Vec<f64>,
}

impl Evidence {
    fn new(inputs: MatRef<'_, f64>, target: Vec<f64>, per_input: bool) -> Self {
        let ones = vec![1.0; inputs.ncols()];
        Self {
            inputs: inputs.col_iter().map(|column| column.iter().copied().collect()).collect(),
            target,
            squares: (!per_input).then(|| squared_distances(inputs, inputs, &ones)),
        }
    }

    /// None where the kernel matrix has no factor.
    fn state(&self, logs: &[f64]) -> Option<State> {
        let parameters = KernelParameters::from_logs(logs);
        let kernel = self.kernel(&parameters);
        let mut noisy = kernel.clone();
        (0..self.target.len()).for_each(|i| noisy[(i, i)] += parameters.noise);
        let factor = Cholesky::new(noisy.as_ref())?;
        let mut dual = self.target.clone();
        factor.solve(&mut dual);
        Some(State { kernel, factor, dual })
    }

    fn kernel(&self, parameters: &KernelParameters) -> Mat<f64> {
        let n = self.target.len();
        let scales = parameters.scales(self.inputs.len());
        let scaled: Vec<Vec<f64>> = match self.squares {
            Some(_) => Vec::new(),
            None => self.inputs.iter().zip(&scales).map(|(x, scale)| x.iter().map(|x| scale * x).collect()).collect(),
        };
        let mut kernel = Mat::zeros(n, n);
        for j in 0..n {
            let column = &mut kernel.col_as_slice_mut(j)[j..];
            match &self.squares {
                Some(squares) => {
                    let squares = &squares.col_as_slice(j)[j..];
                    column.iter_mut().zip(squares).for_each(|(k, square)| *k = scales[0] * scales[0] * square);
                }
                None => scaled.iter().for_each(|x| add_squares(column, &x[j..], x[j])),
            }
            column.iter_mut().for_each(|k| *k = parameters.signal * (-0.5 * *k).exp());
        }
        kernel
    }

    /// Minus the log evidence and its gradient.
    fn evaluate(&self, logs: &[f64]) -> Option<Evaluation> {
        let state = self.state(logs)?;
        let n = self.target.len() as f64;
        let fit: f64 = self.target.iter().zip(&state.dual).map(|(y, a)| y * a).sum();
        let cost = 0.5 * (fit + state.factor.log_determinant() + n * std::f64::consts::TAU.ln());
        cost.is_finite()
            .then(|| Evaluation { cost, gradient: self.gradient(&state, &KernelParameters::from_logs(logs)) })
    }

    fn gradient(&self, state: &State, parameters: &KernelParameters) -> Vec<f64> {
        let n = self.target.len();
        let State { kernel, factor, dual } = state;
        let inverse = factor.inverse();
        let scales = parameters.scales(self.inputs.len());
        let mut gradient = vec![0.0; parameters.lengthscales.len() + 2];
        let [signal, noise] = [gradient.len() - 2, gradient.len() - 1];
        let mut weighted = vec![0.0; n];
        for j in 0..n {
            let (kernel, inverse) = (&kernel.col_as_slice(j)[j..], &inverse.col_as_slice(j)[j..]);
            // ½(K⁻¹ − ααᵀ), off the diagonal for both triangles, times the kernel.
            let weighted = &mut weighted[j..];
            for (i, weighted) in weighted.iter_mut().enumerate() {
                *weighted = (inverse[i] - dual[j + i] * dual[j]) * kernel[i];
            }
            weighted[0] *= 0.5;
            gradient[signal] += weighted.iter().sum::<f64>();
            gradient[noise] += 0.5 * parameters.noise * (inverse[0] - dual[j] * dual[j]);
            match &self.squares {
                Some(squares) => {
                    let squares = &squares.col_as_slice(j)[j..];
                    let sum: f64 = weighted.iter().zip(squares).map(|(w, square)| w * square).sum();
                    gradient[0] += scales[0] * scales[0] * sum;
                }
                None => {
                    for (slope, (x, scale)) in gradient.iter_mut().zip(self.inputs.iter().zip(&scales)) {
                        *slope += scale * scale * weighted_squares(weighted, &x[j..], x[j]);
                    }
                }
            }
        }
        gradient
    }
}

/// Σ wᵢ(xᵢ − centre)², in an order that vectorises.
fn weighted_squares(weights: &[f64], values: &[f64], centre: f64) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (weights, weights_left) = weights.as_chunks::<LANES>();
    let (values, values_left) = values.as_chunks::<LANES>();
    for (weights, values) in weights.iter().zip(values) {
        for lane in 0..LANES {
            let difference = values[lane] - centre;
            sums[lane] += weights[lane] * difference * difference;
        }
    }
    let rest: f64 = weights_left.iter().zip(values_left).map(|(w, x)| w * (x - centre) * (x - centre)).sum();
    sums.iter().sum::<f64>() + rest
}

/// Log evidence at given parameters, and its gradient by their logs.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct LogEvidence {
    /// log p(y), or a bound of it.
    pub value: f64,
    /// By the logs of the lengthscales, of σ_f² and of σ_n².
    pub gradient: Vec<f64>,
}

impl From<Evaluation> for LogEvidence {
    fn from(Evaluation { cost, gradient }: Evaluation) -> Self {
        Self { value: -cost, gradient: gradient.iter().map(|slope| -slope).collect() }
    }
}

/// The exact log evidence of a target, taken as it is, at logs of lengthscales (one, or one per input), σ_f² and σ_n².
#[doc(hidden)]
pub fn gp_log_evidence(inputs: MatRef<'_, f64>, target: &[f64], logs: &[f64]) -> Result<LogEvidence, BaselineError> {
    check_training(inputs, target)?;
    let evidence = Evidence::new(inputs, target.to_vec(), logs.len() > 3);
    let evaluation = evidence.evaluate(logs).ok_or(BaselineError::Decomposition { what: "the kernel matrix" })?;
    Ok(evaluation.into())
}
