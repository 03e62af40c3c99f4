//! Lengthscales of curved features, learnt by the gradient of the evidence through the features.
//!
//! At variances λ of the rows the objective is −log p(y | θ, sλ) plus a normal prior of the log lengthscales, over θ (log
//! lengthscales and log variances of the parts of the curve) and log s: a few steps of L-BFGS in turn with a few updates of the
//! noise model. Scaling all variances and the noise model's scale by s leaves the noise penalty as it is, so that every step
//! lowers the same bound.

mod curve;
mod exp;
mod fourier;
mod frequencies;
mod process;
mod relevance;
mod stages;

use std::cell::RefCell;
use std::ops::Range;

use argmin::core::{CostFunction, Error, Executor, Gradient};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;

pub use curve::{Curve, Shape};
pub(crate) use fourier::{FourierOptions, learn_fourier};
pub use frequencies::Fourier;
pub(crate) use relevance::{Relevance, normal_scores, relevance};
pub use stages::Effort;
pub(crate) use stages::{CurveOptions, LearntCurve, NotLearnt, SKETCH_ROWS, learn_curve};

use robustard_engine::noise::learning::{START_VARIANCE, VARIANCE_BOUNDS, leading_model, starting_model, update_noise};
use robustard_engine::noise::{Noise, NoiseModel};

use crate::control::{Control, Progress as Told};

/// Strength of the normal prior of each log lengthscale: it is within a factor e of the start with 5/2 nats to spare.
const PRIOR_STRENGTH: f64 = 5.0;
/// L-BFGS steps of a round, and how many steps it remembers.
const STEPS: u64 = 6;
const MEMORY: usize = 7;
/// Rounds of the noise that leads to noise with gross errors.
const LEADING_ROUNDS: usize = 3;
/// Noise updates of a round.
const NOISE_UPDATES: usize = 2;
/// Updates of noise that is fitted to a curve that stays, for each of its moments.
const SETTLING_REPEATS: usize = 20;
/// A round asks for no more evaluations than these: some line searches would go on for hundreds.
const MOST_EVALUATIONS: usize = 20;
/// A round that lowers the bound by less, per row, ends the work.
const LEAST_GAIN: f64 = 1e-4;
/// Parameters are kept within ± this, where exp is harmless.
const LARGEST_LOG: f64 = 12.0;

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
}

impl Progress {
    fn start(parameters: Vec<f64>, rows: usize, wanted: Noise) -> Self {
        let leading = leading_model(wanted);
        let (is_leading, noise) = (leading.is_some(), leading.unwrap_or(starting_model(wanted)));
        let variance = vec![START_VARIANCE; rows];
        Self { parameters, noise, variance, is_leading, bound: f64::INFINITY, evaluations: 0 }
    }

    /// Starts at parameters that were learnt with other noise.
    fn start_from(parameters: Vec<f64>, rows: usize, noise: Noise, variance: f64) -> Self {
        let model = starting_model(noise);
        Self { noise: model, variance: vec![variance; rows], is_leading: false, ..Self::start(parameters, rows, noise) }
    }

    /// Fits the noise, so many updates, to parameters that stay.
    fn settle(&mut self, evidence: &impl Evidence, updates: usize) -> Option<()> {
        let bounds = evidence.variance_bounds();
        // Of shared noise the first is the last.
        let repeats = if self.noise.is_shared() { 1 } else { SETTLING_REPEATS };
        for _ in 0..updates {
            let now = evidence.value(&self.parameters, &self.variance)?;
            for _ in 0..repeats {
                let (noise, variance) = (&mut self.noise, &mut self.variance);
                update_noise(noise, variance, &now.second_moment, evidence.row_weight(), bounds);
            }
        }
        let cost = evidence.value(&self.parameters, &self.variance)?.cost;
        self.bound = cost + self.noise.penalty(&self.variance, evidence.row_weight());
        self.evaluations += updates + 1;
        Some(())
    }

    /// Goes on for so many rounds, fewer if nothing is gained, which are the given shares of the whole work; of an empty range
    /// nothing is told.
    fn advance(&mut self, evidence: &impl Evidence, wanted: Noise, rounds: usize, shares: Range<f64>) -> Option<()> {
        let (row_weight, bounds) = (evidence.row_weight(), evidence.variance_bounds());
        let mut is_new = self.evaluations == 0;
        let mut settling = 2;
        for round in 0..rounds {
            if round > 0 && evidence.control().is_stopped() {
                if std::mem::take(&mut self.is_leading) {
                    // Whoever goes on from here has the wanted noise.
                    let moments = evidence.value(&self.parameters, &self.variance)?.second_moment;
                    self.noise = starting_model(wanted);
                    self.noise.start_at(&moments, bounds);
                    update_noise(&mut self.noise, &mut self.variance, &moments, row_weight, bounds);
                }
                break;
            }
            if !shares.is_empty() {
                let done = round as f64 / rounds as f64;
                evidence.control().tell(Told::Share(shares.start + (shares.end - shares.start) * done));
            }
            if self.is_leading && round == LEADING_ROUNDS {
                self.noise = starting_model(wanted);
                (self.is_leading, is_new, settling) = (false, true, round + 2);
            }
            // The noise for the present features.
            let updates = if round == 0 { 2 * NOISE_UPDATES } else { NOISE_UPDATES };
            for _ in 0..updates {
                let moments = evidence.value(&self.parameters, &self.variance)?.second_moment;
                if std::mem::take(&mut is_new) {
                    self.noise.start_at(&moments, bounds);
                }
                update_noise(&mut self.noise, &mut self.variance, &moments, row_weight, bounds);
            }
            let now = evidence.evaluate(&self.parameters, &self.variance)?;
            self.evaluations += 1 + updates;
            let penalty = self.noise.penalty(&self.variance, row_weight);
            let before = std::mem::replace(&mut self.bound, now.value.cost + penalty);
            if self.noise.is_shared() && !self.is_leading {
                // Its variance is among the parameters: one run takes all rounds.
                self.step(evidence, now, rounds, shares);
                break;
            }
            if before - self.bound < LEAST_GAIN * row_weight.len() as f64 && round >= settling && !self.is_leading {
                break;
            }
            self.step(evidence, now, 1, 0.0..0.0);
        }
        Some(())
    }

    /// A few steps of L-BFGS for each round, at the present noise; what they are of the whole work is told unless it is nothing.
    fn step(&mut self, evidence: &impl Evidence, now: Evaluation, rounds: usize, shares: Range<f64>) {
        let cost = now.value.cost;
        let start = Visited { at: self.parameters.clone(), cost, gradient: now.gradient };
        let seen = RefCell::new(Seen { last: start.clone(), best: start, evaluations: 0 });
        let most_evaluations = rounds * MOST_EVALUATIONS;
        let objective = Objective { evidence, variance: &self.variance, most_evaluations, shares, seen };
        let least = LEAST_GAIN * self.variance.len() as f64 / STEPS as f64;
        let solver = LBFGS::new(MoreThuenteLineSearch::new(), MEMORY);
        let solver = if rounds > 1 { solver.with_tolerance_cost(least).expect("a positive tolerance") } else { solver };
        let start = self.parameters.clone();
        // A run that fails has seen points all the same; the noise updates go on from the best.
        let _ = Executor::new(&objective, solver)
            .configure(|state| state.param(start).max_iters(rounds as u64 * STEPS))
            .run();
        let Seen { best, evaluations, .. } = objective.seen.into_inner();
        self.evaluations += evaluations;
        if best.cost < cost {
            self.parameters = limited(&best.at);
            let last = self.parameters.last_mut().expect("log s");
            let factor = std::mem::replace(last, 0.0).exp();
            let [low, high] = evidence.variance_bounds();
            self.variance.iter_mut().for_each(|v| *v = (*v * factor).clamp(low, high));
            self.noise.rescale(factor);
            let least = self.noise.variance(0.0);
            if least < low {
                self.noise.rescale(low / least);
            }
            self.bound += best.cost - cost;
        }
    }
}

fn limited(parameters: &[f64]) -> Vec<f64> {
    parameters.iter().map(|value| value.clamp(-LARGEST_LOG, LARGEST_LOG)).collect()
}

/// The objective as argmin takes it; cost and gradient of a point are asked for one after the other and worked out once.
struct Objective<'a, E> {
    evidence: &'a E,
    variance: &'a [f64],
    most_evaluations: usize,
    shares: Range<f64>,
    seen: RefCell<Seen>,
}

/// Where the objective was asked for.
struct Seen {
    last: Visited,
    best: Visited,
    evaluations: usize,
}

#[derive(Clone)]
struct Visited {
    at: Vec<f64>,
    cost: f64,
    gradient: Vec<f64>,
}

impl<E: Evidence> Objective<'_, E> {
    fn at(&self, values: &[f64]) -> Result<Visited, Error> {
        let mut seen = self.seen.borrow_mut();
        if seen.last.at == values {
            return Ok(seen.last.clone());
        }
        if seen.evaluations == self.most_evaluations || self.evidence.control().is_stopped() {
            return Err(Error::msg("enough"));
        }
        seen.evaluations += 1;
        let Range { start, end } = self.shares;
        if start < end {
            let done = seen.evaluations as f64 / (self.most_evaluations + 1) as f64;
            self.evidence.control().tell(Told::Share(start + (end - start) * done));
        }
        let (cost, gradient) = match self.evidence.evaluate(&limited(values), self.variance) {
            Some(evaluation) => (evaluation.value.cost, evaluation.gradient),
            // A wall: the line search turns back.
            None => (f64::MAX.sqrt(), vec![0.0; values.len()]),
        };
        seen.last = Visited { at: values.to_vec(), cost, gradient };
        if cost < seen.best.cost {
            seen.best = seen.last.clone();
        }
        Ok(seen.last.clone())
    }
}

impl<E: Evidence> CostFunction for &Objective<'_, E> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, values: &Vec<f64>) -> Result<f64, Error> {
        Ok(self.at(values)?.cost)
    }
}

impl<E: Evidence> Gradient for &Objective<'_, E> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, values: &Vec<f64>) -> Result<Vec<f64>, Error> {
        Ok(self.at(values)?.gradient)
    }
}
