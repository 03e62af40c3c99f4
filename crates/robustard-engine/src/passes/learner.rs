//! From the sums of one pass to the broadcast of the next.

use std::f64::consts::TAU;

use faer::Par;
use serde::{Deserialize, Serialize};

use super::broadcast::{Belief, Broadcast};
use super::codec::{DecodeError, decode, encode};
use super::histogram::Bins;
use super::part::Part;
use super::sums::Sums;
use super::weights::Weights;
use crate::math::anderson::History;
use crate::math::cholesky::FactorError;
use crate::math::packed::{pack_lower, packed_length};
use crate::noise::{Noise, NoiseModel, Shared};
use crate::problem::Groups;

/// EM steps of the precisions after each of the first passes. While the variances are far off, many steps lead to worse optima where columns
/// overlap; after these passes the precisions go all the way.
const FIRST_STEPS: [usize; 5] = [3, 1, 1, 2, 2];
/// Updates of the noise model between two passes, and the change of its coordinates that is none.
const NOISE_UPDATES: usize = 20;
const SETTLED_NOISE: f64 = 1e-7;
/// Rounds of the precisions and the variance of shared noise, and the change of its logarithm that is none.
const SHARED_ROUNDS: usize = 200;
const SETTLED_VARIANCE: f64 = 1e-9;
/// A fit has converged when the weights are nearer to where they go than this, in posterior standard deviations, and the objective changes by
/// less than this part of it.
const SETTLED_WEIGHTS: f64 = 3e-4;
const SETTLED_OBJECTIVE: f64 = 1e-7;
/// The distance still to go is judged by how much each step is shorter than the one before it, but never to be as long as this many steps.
const MOST_STEPS_TO_GO: f64 = 20.0;
/// Looks at the columns that have left.
const MOST_LOOKS: usize = 5;
/// Passes that the extrapolation looks back.
const MEMORY: usize = 6;
/// After a rejected extrapolation, plain steps are made longer, each twice as much as the one before it, so often.
const STRETCHED_STEPS: u32 = 4;
/// An extrapolated step may be worse by this part of the objective: rounding.
const ROUNDING: f64 = 1e-9;

/// What is to be learnt.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The groups of columns.
    pub groups: Groups,
    /// The range of γ, one per group.
    pub weight_precision_bounds: Vec<[f64; 2]>,
    /// Where γ starts, one per group; fixed precisions stay.
    pub weight_precision: Vec<f64>,
    /// What is known of all weights and of the noise before the first pass, if anything is: from some of the rows.
    pub start: Option<(Belief, NoiseModel)>,
    /// The noise.
    pub noise: Noise,
    /// The range of λ.
    pub noise_variance_bounds: [f64; 2],
    /// Passes after which the fit stops unconverged.
    pub most_passes: usize,
}

/// What passes have led to.
#[derive(Debug, Clone)]
pub struct End {
    /// The columns in use, in ascending order.
    pub columns: Vec<usize>,
    /// γ, one per group; at its bound where the columns have left.
    pub weight_precision: Vec<f64>,
    /// The posterior of the columns in use.
    pub belief: Belief,
    /// The noise model.
    pub noise: NoiseModel,
    /// Factor of the noise variances in the posterior that error bars are taken from ([`NoiseModel::inflation`]), and R of that one.
    pub inflation: f64,
    /// See `inflation`.
    pub wide_inverse_factor: Vec<f64>,
    /// Number of rows.
    pub rows: u64,
    /// Σ ω.
    pub weight: f64,
    /// How many weights the rows determine.
    pub effective_weights: f64,
    /// The objective of the solvers.
    pub objective: f64,
    /// −log p(y | γ, λ).
    pub neg_log_evidence: f64,
}

/// What comes after a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Another pass.
    Pass,
    /// Nothing: the fit has converged.
    Converged,
    /// Nothing: there have been as many passes as there may be.
    PassLimit,
}

const KIND: &str = "learner";
const PRECISION: &str = "weight_precision";
const UNITS: &str = "units";
const OBJECTIVES: &str = "objectives";
const SINGLE: &str = "objective_and_step";
const HISTORY: &str = "history.";
const POINT: [&str; 2] = ["point.mean", "point.inverse_factor"];
const PLAIN: [&str; 2] = ["plain.mean", "plain.inverse_factor"];

/// What of a learner is no list of numbers.
#[derive(Serialize, Deserialize)]
struct Description {
    passes: usize,
    rejected: usize,
    looks: usize,
    stretches: u32,
    part: Vec<usize>,
    looked_from: Option<Vec<usize>>,
    point: Option<NoiseModel>,
    plain: Option<NoiseModel>,
    history: usize,
}

/// What the next pass speaks of.
#[derive(Clone)]
struct Point {
    belief: Belief,
    noise: NoiseModel,
}

/// A fit under way, between two passes.
pub struct Learner {
    plan: Plan,
    par: Par,
    /// γ of all groups.
    precision: Vec<f64>,
    part: Part,
    /// None before the first pass.
    point: Option<Point>,
    /// The plain step, where the next pass is at an extrapolated one.
    plain: Option<Point>,
    history: History,
    /// Steps still to be stretched.
    stretches: u32,
    /// Units of the history's coordinates.
    units: Vec<f64>,
    /// J of the last point that was taken.
    objective: f64,
    objectives: Vec<f64>,
    passes: usize,
    rejected: usize,
    /// Length of the last step of the weights, in posterior standard deviations.
    step: f64,
    /// Looks at the columns that have left, and the part that was in use when the last one began.
    looks: usize,
    looked_from: Option<Part>,
}

impl Learner {
    /// Before the first pass.
    pub fn new(plan: Plan, par: Par) -> Self {
        let start = plan.start.clone().filter(|_| plan.noise != Noise::Shared);
        Self {
            precision: plan.weight_precision.clone(),
            part: Part::whole(&plan),
            plan,
            par,
            point: start.map(|(belief, noise)| Point { belief, noise }),
            plain: None,
            history: History::new(MEMORY),
            stretches: 0,
            units: Vec::new(),
            objective: f64::INFINITY,
            objectives: Vec::new(),
            passes: 0,
            rejected: 0,
            step: f64::INFINITY,
            looks: 0,
            looked_from: None,
        }
    }

    /// What the rows have to know for the next pass. In the first one all variances are 1.
    pub fn broadcast(&self) -> Broadcast {
        let columns = self.part.columns.clone();
        match &self.point {
            Some(Point { belief, noise, .. }) => Broadcast {
                columns,
                belief: Some(belief.clone()),
                noise: *noise,
                variance_bounds: self.plan.noise_variance_bounds,
            },
            None => Broadcast { columns, belief: None, noise: NoiseModel::shared(1.0), variance_bounds: [1.0, 1.0] },
        }
    }

    /// Passes so far.
    pub fn passes(&self) -> usize {
        self.passes
    }

    /// Extrapolated steps that were worse than the point before them: each has cost a pass.
    pub fn rejected(&self) -> usize {
        self.rejected
    }

    /// J at each pass but the first, rejected ones included.
    pub fn objectives(&self) -> &[f64] {
        &self.objectives
    }

    /// γ of the groups; at its bound where the columns have left.
    pub fn weight_precision(&self) -> &[f64] {
        &self.precision
    }

    /// The noise model; none before the first pass.
    pub fn noise(&self) -> Option<NoiseModel> {
        self.point.as_ref().map(|point| point.noise)
    }

    /// μ of all columns, 0 where they have left.
    pub fn mean(&self) -> Vec<f64> {
        self.of_all(|belief, j| belief.mean[j])
    }

    /// Posterior standard deviations of the weights, 0 where the columns have left.
    pub fn standard_deviations(&self) -> Vec<f64> {
        let variances = self.point.as_ref().map_or_else(Vec::new, |point| point.belief.variances());
        self.of_all(|_, j| variances[j].sqrt())
    }

    fn of_all(&self, value: impl Fn(&Belief, usize) -> f64) -> Vec<f64> {
        let mut all = vec![0.0; self.plan.groups.of_column().len()];
        if let Some(Point { belief, .. }) = &self.point {
            self.part.columns.iter().enumerate().for_each(|(j, &column)| all[column] = value(belief, j));
        }
        all
    }

    /// Learns from the sums over all rows under [`Self::broadcast`].
    pub fn learn(&mut self, sums: &Sums) -> Result<Step, FactorError> {
        self.passes += 1;
        let Some(point) = self.point.take() else { return self.begin(sums) };
        let before = self.precision.clone();
        let (next, evidence) = self.next(&point, sums)?;
        // −log p(y | γ, λ) and the noise prior, at the variances of this pass and the precisions that go with them.
        let objective = sums.cost - 0.5 * sums.weighted_square + point.noise.penalty(&[], &[]) + evidence;
        self.objectives.push(objective);
        if let Some(plain) = self.plain.take()
            && objective.total_cmp(&(self.objective + ROUNDING * self.objective.abs())).is_gt()
        {
            self.rejected += 1;
            // Extrapolation leads to points where nothing moves, saddles among them; from those, longer steps lead away.
            self.stretches = if self.stretches > 0 { 0 } else { STRETCHED_STEPS };
            self.history.restart();
            self.precision = before;
            self.point = Some(plain);
            return Ok(self.next_pass());
        }
        let change = (self.objective - objective).abs();
        self.objective = objective;
        let is_level = change < SETTLED_OBJECTIVE * (1.0 + objective.abs());
        let is_near = self.is_near(&point.belief, &next);
        if self.is_early() {
            self.point = Some(next);
            return Ok(self.next_pass());
        }
        if let Some(before) = self.looked_from.take() {
            // The columns that had left were looked at; the others had settled before.
            let has_newcomers = self.narrow(sums, next)?.columns != before.columns;
            return Ok(if has_newcomers { self.next_pass() } else { Step::Converged });
        }
        if is_level && is_near {
            return Ok(self.look_or_end(next));
        }
        let is_same = Part::in_use(&self.plan, &self.precision).numbers == self.part.numbers;
        if is_same {
            self.extrapolate(&point, next);
        } else {
            self.narrow(sums, next)?;
        }
        Ok(self.next_pass())
    }

    /// Whether the variances are still far off.
    fn is_early(&self) -> bool {
        self.plan.start.is_none() && self.passes <= FIRST_STEPS.len()
    }

    fn next_pass(&self) -> Step {
        if self.passes >= self.plan.most_passes { Step::PassLimit } else { Step::Pass }
    }

    /// After the first pass: shared noise, which the weights and their precisions are learnt with.
    fn begin(&mut self, sums: &Sums) -> Result<Step, FactorError> {
        let [low, high] = self.plan.noise_variance_bounds;
        let Plan { groups, weight_precision_bounds, noise, .. } = &self.plan;
        let all: Vec<usize> = (0..self.part.columns.len()).collect();
        let mut weights = Weights::new(sums, &all, groups, weight_precision_bounds, self.par);
        let mut variance = (sums.target_square / sums.weight).clamp(low, high);
        let is_shared = *noise == Noise::Shared;
        for round in 0..if is_shared { SHARED_ROUNDS } else { FIRST_STEPS[0] } {
            weights.set_shared_variance(variance);
            if is_shared && round > FIRST_STEPS.len() {
                weights.maximise(&mut self.precision)?;
            } else {
                weights.refresh(&self.precision)?;
                weights.expect(&mut self.precision);
            }
            let before = variance;
            variance = weights.shared_variance(&self.precision).clamp(low, high);
            if round > FIRST_STEPS.len() && (before / variance).ln().abs() < SETTLED_VARIANCE {
                break;
            }
        }
        weights.set_shared_variance(variance);
        weights.refresh(&self.precision)?;
        self.point = Some(point_of(&weights, NoiseModel::new(*noise, variance)));
        if !is_shared {
            return Ok(self.next_pass());
        }
        self.objective = 0.5 * sums.weight * (TAU * variance).ln() + weights.evidence_cost(&self.precision);
        // Columns that do nothing do nothing at all: of one whose mean is large beside its deviation, even a rest would be much.
        let part = Part::in_use(&self.plan, &self.precision);
        if part.numbers.len() < self.part.numbers.len() {
            let mut weights = Weights::new(sums, &part.places_in(&self.part), &part.groups, &part.bounds, self.par);
            weights.set_shared_variance(variance);
            weights.refresh(&part.pick(&self.precision))?;
            self.point = Some(point_of(&weights, NoiseModel::new(*noise, variance)));
            self.part = part;
        }
        self.objectives.push(self.objective);
        Ok(Step::Converged)
    }

    /// The plain step from a point, given the sums at it.
    fn next(&mut self, point: &Point, sums: &Sums) -> Result<(Point, f64), FactorError> {
        let noise = self.noise_after(point.noise, sums);
        let Part { groups, bounds, .. } = &self.part;
        let all: Vec<usize> = (0..self.part.columns.len()).collect();
        let mut weights = Weights::new(sums, &all, groups, bounds, self.par);
        let mut precision = self.part.pick(&self.precision);
        if self.is_early() {
            for _ in 0..FIRST_STEPS[self.passes - 1] {
                weights.refresh(&precision)?;
                weights.expect(&mut precision);
            }
            weights.refresh(&precision)?;
        } else {
            weights.maximise(&mut precision)?;
        }
        self.part.put(&precision, &mut self.precision);
        Ok((point_of(&weights, noise), weights.evidence_cost(&precision)))
    }

    /// The noise model that explains the second moments best.
    fn noise_after(&self, mut noise: NoiseModel, sums: &Sums) -> NoiseModel {
        let bounds = self.plan.noise_variance_bounds;
        if self.objectives.is_empty() && self.plan.start.is_none() {
            noise.start_at_median(sums.histogram.median(), bounds);
        }
        let Bins { second_moment, weight } = sums.histogram.bins();
        for _ in 0..NOISE_UPDATES {
            let before = noise.to_coordinates();
            noise.fit_parameters(&second_moment, &weight, bounds);
            let after = noise.to_coordinates();
            if before.iter().zip(&after).all(|(a, b)| (a - b).abs() < SETTLED_NOISE) {
                break;
            }
        }
        noise
    }

    /// Whether the weights are as near as wanted to where they go, from a belief and the next one.
    fn is_near(&mut self, before: &Belief, next: &Point) -> bool {
        let variance = next.belief.variances();
        let steps = before.mean.iter().zip(&next.belief.mean).zip(&variance);
        let step = steps.map(|((old, new), variance)| (new - old).abs() / variance.sqrt()).fold(0.0, f64::max);
        let shrinkage = step / std::mem::replace(&mut self.step, step);
        let to_go = if shrinkage < 1.0 { shrinkage / (1.0 - shrinkage) } else { f64::INFINITY };
        step * to_go.min(MOST_STEPS_TO_GO) < SETTLED_WEIGHTS
    }

    /// What the passes have led to, given the sums of the last one, which were of these columns.
    pub fn end(&self, sums: &Sums, columns: &[usize]) -> Result<Option<End>, FactorError> {
        let Some(Point { belief, noise }) = self.plain.as_ref().or(self.point.as_ref()) else { return Ok(None) };
        let Part { groups, bounds, columns: own, .. } = &self.part;
        let places: Vec<usize> = own.iter().map(|column| columns.partition_point(|other| other < column)).collect();
        let precision = self.part.pick(&self.precision);
        let Bins { second_moment, weight } = sums.histogram.bins();
        let shared = if let NoiseModel::Shared(Shared { variance }) = noise { Some(*variance) } else { None };
        let inflation = if shared.is_some() { 1.0 } else { noise.inflation(&second_moment, &weight) };
        let mut weights = Weights::new(sums, &places, groups, bounds, self.par);
        weights.set_shared_variance(shared.unwrap_or(1.0));
        weights.refresh(&precision)?;
        let variances = shared.map_or(sums.log_variance, |variance| sums.weight * variance.ln());
        let neg_log_evidence = 0.5 * (sums.weight * TAU.ln() + variances) + weights.evidence_cost(&precision);
        let effective_weights = weights.effective_weights(&precision);
        weights.set_shared_variance(inflation * shared.unwrap_or(1.0));
        weights.refresh(&precision)?;
        Ok(Some(End {
            columns: own.clone(),
            weight_precision: self.precision.clone(),
            belief: belief.clone(),
            noise: *noise,
            inflation,
            wide_inverse_factor: pack_lower(weights.factor().inverse()),
            rows: sums.rows,
            weight: sums.weight,
            effective_weights,
            objective: self.objective,
            neg_log_evidence,
        }))
    }

    /// All that is known between two passes, so that another learner with the same plan can go on.
    pub fn to_bytes(&self) -> Vec<u8> {
        let numbers = |part: &Part| part.numbers.clone();
        let history = self.history.to_lists();
        let description = Description {
            passes: self.passes,
            rejected: self.rejected,
            looks: self.looks,
            stretches: self.stretches,
            part: numbers(&self.part),
            looked_from: self.looked_from.as_ref().map(numbers),
            point: self.point.as_ref().map(|point| point.noise),
            plain: self.plain.as_ref().map(|point| point.noise),
            history: history.len(),
        };
        let single = [self.objective, self.step];
        let names: Vec<String> = (0..history.len()).map(|k| format!("{HISTORY}{k}")).collect();
        let mut lists: Vec<(&str, &[f64])> =
            vec![(PRECISION, &self.precision), (UNITS, &self.units), (OBJECTIVES, &self.objectives), (SINGLE, &single)];
        for ([mean, factor], point) in [(POINT, &self.point), (PLAIN, &self.plain)] {
            if let Some(Point { belief, .. }) = point {
                lists.extend([(mean, belief.mean.as_slice()), (factor, belief.inverse_factor.as_slice())]);
            }
        }
        lists.extend(names.iter().map(String::as_str).zip(history.iter().map(Vec::as_slice)));
        encode(KIND, &description, &lists)
    }

    /// Goes on where another learner of the same plan was when it gave [`Self::to_bytes`].
    pub fn go_on(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let (description, mut numbers) = decode::<Description>(KIND, bytes)?;
        let count = self.plan.groups.count();
        let is_part = |part: &[usize]| part.is_sorted_by(|a, b| a < b) && part.last().is_some_and(|&last| last < count);
        if !is_part(&description.part) || !description.looked_from.as_deref().is_none_or(is_part) {
            return Err(numbers.damaged("the columns are not those of the fit".to_owned()));
        }
        let part = Part::of_numbers(&self.plan, &description.part);
        let mut point = |[mean, factor]: [&str; 2], noise: Option<NoiseModel>| {
            let Some(noise) = noise else { return Ok(None) };
            let columns = part.columns.len();
            let mean = numbers.take(mean, Some(columns))?;
            let inverse_factor = numbers.take(factor, packed_length(columns).or(Some(0)))?;
            Ok::<_, DecodeError>(Some(Point { belief: Belief { mean, inverse_factor }, noise }))
        };
        let (at, plain) = (point(POINT, description.point)?, point(PLAIN, description.plain)?);
        let history = (0..description.history).map(|k| numbers.take(&format!("{HISTORY}{k}"), None));
        let history = history.collect::<Result<Vec<_>, _>>()?;
        let single = numbers.take(SINGLE, Some(2))?;
        self.precision = numbers.take(PRECISION, Some(count))?;
        self.units = numbers.take(UNITS, None)?;
        self.objectives = numbers.take(OBJECTIVES, None)?;
        self.history.set_lists(history);
        (self.objective, self.step) = (single[0], single[1]);
        (self.point, self.plain) = (at, plain);
        self.looked_from = description.looked_from.map(|numbers| Part::of_numbers(&self.plan, &numbers));
        self.part = part;
        let Description { passes, rejected, looks, stretches, .. } = description;
        (self.passes, self.rejected, self.looks, self.stretches) = (passes, rejected, looks, stretches);
        Ok(())
    }

    /// Goes on with the columns that are still in use.
    fn narrow(&mut self, sums: &Sums, next: Point) -> Result<&Part, FactorError> {
        let part = Part::in_use(&self.plan, &self.precision);
        self.history.restart();
        if part.numbers.len() < self.part.numbers.len() {
            let places = part.places_in(&self.part);
            let mut weights = Weights::new(sums, &places, &part.groups, &part.bounds, self.par);
            let precision = part.pick(&self.precision);
            weights.refresh(&precision)?;
            self.point = Some(point_of(&weights, next.noise));
        } else {
            self.point = Some(next);
        }
        self.part = part;
        Ok(&self.part)
    }

    /// Once settled: a look at the columns that have left, if there are any, or the end.
    fn look_or_end(&mut self, next: Point) -> Step {
        let is_last = self.part.is_whole(&self.plan) || self.looks == MOST_LOOKS;
        let widened = if is_last { None } else { self.part.widen(&next.belief, &self.plan, &self.precision) };
        let Some(belief) = widened else {
            self.point = Some(next);
            return Step::Converged;
        };
        self.looks += 1;
        self.history.restart();
        self.point = Some(Point { belief, ..next });
        self.looked_from = Some(std::mem::replace(&mut self.part, Part::whole(&self.plan)));
        self.next_pass()
    }

    /// Goes on from where the steps so far would lead, if the map from point to point were affine in the weights and the noise.
    fn extrapolate(&mut self, point: &Point, next: Point) {
        if self.history.is_empty() {
            // Weights in posterior standard deviations, and the noise in something like its own.
            let noise = (self.objective.abs() + 1.0).sqrt().recip();
            self.units = next.belief.variances().into_iter().map(f64::sqrt).collect();
            self.units.extend([noise; NoiseModel::COORDINATES]);
        }
        let coordinates = |point: &Point| -> Vec<f64> {
            let values = point.belief.mean.iter().copied().chain(point.noise.to_coordinates());
            values.zip(&self.units).map(|(value, unit)| value / unit).collect()
        };
        let mut x = coordinates(point);
        let mut f: Vec<f64> = coordinates(&next).iter().zip(&x).map(|(next, x)| next - x).collect();
        let mut target = Vec::new();
        self.history.remember(&x, &f);
        let is_found = if self.stretches > 0 {
            let factor = f64::from(1u32 << (STRETCHED_STEPS + 1 - self.stretches));
            self.stretches -= 1;
            target.extend(x.iter().zip(&f).map(|(x, f)| x + factor * f));
            true
        } else {
            self.history.extrapolate(&x, &f, &mut target)
        };
        let is_found = is_found && target.iter().all(|value| value.is_finite());
        self.history.set_last(&mut x, &mut f);
        if !is_found {
            self.point = Some(next);
            return;
        }
        target.iter_mut().zip(&self.units).for_each(|(value, unit)| *value *= unit);
        let (mean, noise) = target.split_at(next.belief.mean.len());
        let mut extrapolated = next.clone();
        extrapolated.noise.set_coordinates(std::array::from_fn(|k| noise[k]), self.plan.noise_variance_bounds);
        extrapolated.belief.mean.copy_from_slice(mean);
        (self.point, self.plain) = (Some(extrapolated), Some(next));
    }

    /// The variance of shared noise.
    pub fn shared_variance(&self) -> Option<f64> {
        if let Some(NoiseModel::Shared(Shared { variance })) = self.noise() { Some(variance) } else { None }
    }
}

/// The point at a posterior.
fn point_of(weights: &Weights<'_>, noise: NoiseModel) -> Point {
    let inverse_factor = pack_lower(weights.factor().inverse());
    Point { belief: Belief { mean: weights.mean().to_vec(), inverse_factor }, noise }
}
