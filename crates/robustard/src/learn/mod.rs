//! Lengthscales of curved features, learnt by the gradient of the evidence through the features.
//!
//! At variances λ of the rows the objective is −log p(y | θ, sλ) plus a normal prior of the log lengthscales, over θ (log
//! lengthscales and log variances of the parts of the curve) and log s: a few steps of L-BFGS in turn with a few updates of the
//! noise model. Scaling all variances and the noise model's scale by s leaves the noise penalty as it is, so that every step
//! lowers the same bound.

mod curve;
mod descent;
mod exchange;
mod exp;
mod fourier;
mod frequencies;
mod process;
mod relevance;
mod stages;
mod straight;

use std::ops::Range;

pub use curve::{Curve, Shape};
pub(crate) use exchange::{Exchange, Values as ExchangedValues};
pub(crate) use exp::dot;
pub(crate) use fourier::{FourierOptions, learn_fourier};
pub use frequencies::Fourier;
pub(crate) use relevance::{Relevance, normal_scores, relevance};
pub use stages::Effort;
pub(crate) use stages::{CurveOptions, LearntCurve, NotLearnt, SKETCH_ROWS, learn_curve};

use robustard_engine::noise::learning::{START_VARIANCE, VARIANCE_BOUNDS, leading_model, starting_model, update_noise};
use robustard_engine::noise::{Noise, NoiseModel};

use self::descent::{Memory, Visited};
use crate::control::{Control, Progress as Told};

/// Strength of the normal prior of each log lengthscale: it is within a factor e of the start with 5/2 nats to spare.
const PRIOR_STRENGTH: f64 = 5.0;
/// L-BFGS steps of a round.
const STEPS: usize = 4;
/// Rounds of the noise that leads to noise with gross errors.
const LEADING_ROUNDS: usize = 3;
/// Updates of noise for the same moments.
const NOISE_UPDATES: usize = 3;
/// Updates of noise that is fitted to a curve that stays, for each of its moments.
const SETTLING_REPEATS: usize = 20;
/// Moments that it is fitted to.
const SETTLING_UPDATES: usize = 2;
/// A round that lowers the bound by less, per row, ends the work; of shared noise, which is among the parameters, a step that lowers it
/// by a quarter of that.
const LEAST_GAIN: f64 = 1e-3;
/// Parameters are kept within these, where exp is harmless: a part of the curve may vanish beside the least noise, [`VARIANCE_BOUNDS`].
const LARGEST_LOG: f64 = 12.0;
const SMALLEST_LOG: f64 = -20.0;

/// The evidence of a set of rows as a function of parameters, the last of which is log s.
trait Evidence {
    /// The value alone, which takes less time; none where no posterior could be computed.
    fn value(&self, parameters: &[f64], variance: &[f64]) -> Option<Value>;
    /// The same with the gradient.
    fn evaluate(&self, parameters: &[f64], variance: &[f64]) -> Option<Evaluation>;
    /// How often each row counts.
    fn row_weight(&self) -> &[f64];
    /// Range of noise variances.
    fn variance_bounds(&self) -> [f64; 2] {
        VARIANCE_BOUNDS
    }
    /// Who watches.
    fn control(&self) -> &Control;
}

/// The evidence at a point.
struct Value {
    /// −log p(y), plus the prior of the parameters.
    cost: f64,
    /// r² + q of the rows.
    second_moment: Vec<f64>,
}

/// The evidence at a point, with its gradient.
struct Evaluation {
    value: Value,
    gradient: Vec<f64>,
}

/// Where learning stands.
#[derive(Debug, Clone)]
struct Progress {
    parameters: Vec<f64>,
    noise: NoiseModel,
    variance: Vec<f64>,
    /// Whether the noise is the one that leads to the wanted one.
    is_leading: bool,
    /// Minus the log evidence, plus the penalties of noise and parameters.
    bound: f64,
    evaluations: usize,
    /// What is known of the curvature.
    memory: Memory,
}

impl Progress {
    fn start(parameters: Vec<f64>, rows: usize, wanted: Noise) -> Self {
        let leading = leading_model(wanted);
        let (is_leading, noise) = (leading.is_some(), leading.unwrap_or(starting_model(wanted)));
        let variance = vec![START_VARIANCE; rows];
        Self {
            parameters,
            noise,
            variance,
            is_leading,
            bound: f64::INFINITY,
            evaluations: 0,
            memory: Memory::default(),
        }
    }

    /// Starts at parameters that were learnt with other noise.
    fn start_from(parameters: Vec<f64>, rows: usize, noise: Noise, variance: f64) -> Self {
        let model = starting_model(noise);
        Self { noise: model, variance: vec![variance; rows], is_leading: false, ..Self::start(parameters, rows, noise) }
    }

    /// Fits the noise to parameters that stay.
    fn settle(&mut self, evidence: &impl Evidence) -> Option<()> {
        let (row_weight, bounds) = (evidence.row_weight(), evidence.variance_bounds());
        // Of shared noise the first update for the same moments is the last.
        let repeats = if self.noise.is_shared() { 1 } else { SETTLING_REPEATS };
        let mut logs = vec![self.noise.variance(0.0).ln()];
        for _ in 0..SETTLING_UPDATES {
            let now = evidence.value(&self.parameters, &self.variance)?;
            for _ in 0..repeats {
                update_noise(&mut self.noise, &mut self.variance, &now.second_moment, row_weight, bounds);
            }
            logs.push(self.noise.variance(0.0).ln());
        }
        if self.noise.is_shared() {
            let factor = (limit_of(&logs) - logs[logs.len() - 1]).exp();
            let [low, high] = bounds;
            self.noise.rescale((self.noise.variance(0.0) * factor).clamp(low, high) / self.noise.variance(0.0));
            self.variance.fill(self.noise.variance(0.0));
        }
        let cost = evidence.value(&self.parameters, &self.variance)?.cost;
        self.bound = cost + self.noise.penalty(&self.variance, row_weight);
        self.evaluations += SETTLING_UPDATES + 1;
        Some(())
    }

    /// Goes on for so many rounds, fewer if nothing is gained, which are the given shares of the whole work; of an empty range
    /// nothing is told.
    fn advance(&mut self, evidence: &impl Evidence, wanted: Noise, rounds: usize, shares: Range<f64>) -> Option<()> {
        let (row_weight, bounds) = (evidence.row_weight(), evidence.variance_bounds());
        let least = LEAST_GAIN * row_weight.len() as f64;
        let mut is_new = self.evaluations == 0;
        let mut settling = 2;
        let mut before = f64::INFINITY;
        let mut moments = evidence.value(&self.parameters, &self.variance)?.second_moment;
        self.evaluations += 1;
        for round in 0..rounds {
            if round > 0 && evidence.control().is_stopped() {
                if std::mem::take(&mut self.is_leading) {
                    // Whoever goes on from here has the wanted noise.
                    self.noise = starting_model(wanted);
                    self.noise.start_at(&moments, bounds);
                    update_noise(&mut self.noise, &mut self.variance, &moments, row_weight, bounds);
                }
                break;
            }
            if self.is_leading && round == LEADING_ROUNDS {
                self.noise = starting_model(wanted);
                (self.is_leading, is_new, settling) = (false, true, round + 2);
            }
            // The noise for the present features.
            if std::mem::take(&mut is_new) {
                self.noise.start_at(&moments, bounds);
            }
            for _ in 0..NOISE_UPDATES {
                update_noise(&mut self.noise, &mut self.variance, &moments, row_weight, bounds);
            }
            let now = evidence.evaluate(&self.parameters, &self.variance)?;
            self.evaluations += 1;
            let penalty = self.noise.penalty(&self.variance, row_weight);
            self.bound = now.value.cost + penalty;
            let gain = std::mem::replace(&mut before, self.bound) - self.bound;
            if gain < least && round >= settling && !self.is_leading {
                break;
            }
            let is_shared = self.noise.is_shared() && !self.is_leading;
            let (steps, least) = if is_shared { (rounds * STEPS, 0.25 * least) } else { (STEPS, 0.0) };
            let tell = |step: usize| {
                if !shares.is_empty() {
                    let done = (round * STEPS + step) as f64 / (rounds * STEPS) as f64;
                    evidence.control().tell(Told::Share(shares.start + (shares.end - shares.start) * done));
                }
            };
            moments = self.descend(evidence, now, steps, least, tell);
            if is_shared {
                break;
            }
        }
        Some(())
    }

    /// So many steps of L-BFGS at the present noise, fewer if one gains too little; the second moments where they end.
    fn descend(
        &mut self,
        evidence: &impl Evidence,
        now: Evaluation,
        steps: usize,
        least: f64,
        tell: impl Fn(usize),
    ) -> Vec<f64> {
        let Evaluation { value: Value { cost, second_moment }, gradient } = now;
        let mut now = Visited { at: self.parameters.clone(), cost, gradient, known: second_moment };
        for step in 0..steps {
            tell(step);
            let objective = |at: Vec<f64>| {
                if evidence.control().is_stopped() {
                    return None;
                }
                self.evaluations += 1;
                let at = limited(&at);
                let Evaluation { value, gradient } = evidence.evaluate(&at, &self.variance)?;
                Some(Visited { at, cost: value.cost, gradient, known: value.second_moment })
            };
            let Some(next) = self.memory.step(&now, objective) else { break };
            let gain = now.cost - next.cost;
            now = next;
            if gain < least {
                break;
            }
        }
        self.parameters = now.at;
        let last = self.parameters.last_mut().expect("log s");
        let factor = std::mem::replace(last, 0.0).exp();
        let [low, high] = evidence.variance_bounds();
        self.variance.iter_mut().for_each(|v| *v = (*v * factor).clamp(low, high));
        self.noise.rescale(factor);
        let least = self.noise.variance(0.0);
        if least < low {
            self.noise.rescale(low / least);
        }
        self.bound += now.cost - cost;
        now.known
    }
}

/// Where a sequence that comes closer by the same factor each time will end; its last value if it does not.
fn limit_of(sequence: &[f64]) -> f64 {
    /// Slower sequences may go anywhere.
    const SLOWEST: f64 = 0.8;
    let &[.., first, second, last] = sequence else { return sequence[sequence.len() - 1] };
    let ratio = (last - second) / (second - first);
    if (0.0..SLOWEST).contains(&ratio) { last + (last - second) * ratio / (1.0 - ratio) } else { last }
}

fn limited(parameters: &[f64]) -> Vec<f64> {
    parameters.iter().map(|value| value.clamp(SMALLEST_LOG, LARGEST_LOG)).collect()
}
