//! A curve learnt in stages: from a few rows first, from more of them then.

use faer::{Mat, MatRef, Par};
use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;
use robustard_engine::LeftOut;
use robustard_engine::noise::{Noise, NoiseModel};

use super::curve::{Curve, Shape};
use super::descent::Memory;
use super::process::{Point, Process};
use super::relevance::Relevance;
use super::{Progress, VARIANCE_BOUNDS, update_noise};
use crate::control::Control;

/// Rows that the parameters are learnt from, at first and in the end, and the rounds of each stage.
const STAGES: [(usize, usize); 2] = [(SKETCH_ROWS, 10), (800, 3)];
/// Rows of the first stage.
pub(crate) const SKETCH_ROWS: usize = 350;
/// Share of the work that the first stage is, if another follows.
const FIRST_STAGE: f64 = 0.5;
/// Nats by which the evidence of the first stage's rows has to be better with a curve than without, where that is asked.
const LEAST_CURVE_GAIN: f64 = 0.3;
/// Larger tables are not told the variance of every row's prediction.
const MOST_PREDICTED_VARIANCES: usize = 20_000;
/// A first stage with less than this share of the last one's rows is worth it.
const WORTHWHILE_STAGE: f64 = 0.7;

/// How a curve is learnt.
#[derive(Debug, Clone)]
pub(crate) struct CurveOptions<'a> {
    pub shape: Shape,
    /// The number of each input's lengthscale in the joint part: 0, 1, 2, … without gaps.
    pub lengthscales: Vec<usize>,
    /// The group of each input's slope, which has one prior variance: 0, 1 without gaps.
    pub lines: Vec<usize>,
    /// The inputs with curves of their own.
    pub singles: Vec<usize>,
    /// One lengthscale per input, or one for all.
    pub per_input: bool,
    /// Seed of the rows that are learnt from.
    pub seed: u64,
    pub noise: Noise,
    /// The least that noise can be.
    pub least_variance: f64,
    /// Whether to give up when a curve is hardly better than lines.
    pub must_bend: bool,
    pub effort: Effort,
    /// A curve to start at.
    pub start: Option<&'a Curve>,
    /// What is known of the inputs from all rows, as a start.
    pub relevance: Option<&'a Relevance>,
    pub control: &'a Control,
}

impl CurveOptions<'_> {
    /// How many groups of slopes there are.
    pub fn line_groups(&self) -> usize {
        self.lines.iter().max().map_or(0, |last| last + 1)
    }

    /// How many lengthscales the joint part has.
    pub fn joint_lengthscales(&self) -> usize {
        self.lengthscales.iter().max().map_or(0, |last| last + 1)
    }

    /// Range of noise variances.
    pub fn variance_bounds(&self) -> [f64; 2] {
        let [low, high] = VARIANCE_BOUNDS;
        [low.max(self.least_variance), high]
    }
}

/// How much work is put into learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Effort {
    /// The first stage only.
    #[default]
    Sketch,
    /// All stages.
    Whole,
    /// Only the noise, for a curve that is known, from the same rows.
    Settle,
    /// Nothing, for a curve that is known: how it predicts each of the last stage's rows from the others.
    Review,
}

/// Why nothing was learnt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum NotLearnt {
    /// No posterior could be computed.
    Failed,
    /// A curve explains so many rows hardly better than lines do, by so many nats.
    Straight { gain: f64, rows: usize },
}

/// A learnt curve.
#[derive(Debug, Clone)]
pub(crate) struct LearntCurve {
    pub curve: Curve,
    /// Prior variances of the groups of slopes.
    pub line_variances: Vec<f64>,
    pub noise: NoiseModel,
    /// λ of all rows.
    pub noise_variance: Vec<f64>,
    /// Errors of all rows: of those learnt from, each without itself.
    pub left_out: LeftOut,
    /// Bound on the log evidence, per row learnt from.
    pub evidence: f64,
    /// The rows in a random order.
    pub order: Vec<usize>,
    /// How many of them, the first ones, were learnt from.
    pub rows: usize,
    parameters: Vec<f64>,
    memory: Memory,
}

/// Learns a curve of standardized inputs (n × p) for a standardized target, going on from one learnt with other noise if there is.
pub(crate) fn learn_curve(
    inputs: MatRef<'_, f64>,
    target: &[f64],
    row_weight: &[f64],
    options: &CurveOptions<'_>,
    from: Option<&LearntCurve>,
    par: Par,
) -> Result<LearntCurve, NotLearnt> {
    let n = target.len();
    let order = sample(&mut ChaCha8Rng::seed_from_u64(options.seed), n, n).into_vec();
    let process = |rows: usize| Process::new(inputs, target, row_weight, &order[..rows.min(n)], options, par);
    let [(first, first_rounds), (last, last_rounds)] = STAGES;
    let is_one_stage = first as f64 > WORTHWHILE_STAGE * n as f64;
    let learnt = |stage: &Process<'_>, progress: Progress, order: &[usize]| -> Option<LearntCurve> {
        let rows = stage.target.len();
        let left_out = left_out_of_all(stage, &progress, inputs, target, order)?;
        let rule = progress.noise.variance_rule();
        let [low, high] = options.variance_bounds();
        let errors = left_out.residual.iter().zip(&left_out.latent_variance);
        let mut noise_variance: Vec<f64> = errors.map(|(r, q)| rule(r * r + q).clamp(low, high)).collect();
        order[..rows].iter().zip(&progress.variance).for_each(|(&row, variance)| noise_variance[row] = *variance);
        let Point { curve, line_variances, .. } = stage.point(&progress.parameters);
        let evidence = -progress.bound / stage.row_weight.iter().sum::<f64>();
        let Progress { parameters, noise, memory, .. } = progress;
        let order = order.to_vec();
        Some(LearntCurve {
            curve,
            line_variances,
            noise,
            noise_variance,
            left_out,
            evidence,
            order,
            rows,
            parameters,
            memory,
        })
    };
    let known = from.filter(|from| from.order == order);
    let (mut stage, mut progress) = if let Some(from) = known {
        let rows = match options.effort {
            Effort::Sketch if !is_one_stage => first,
            Effort::Settle => from.rows,
            _ => last,
        };
        let stage = process(rows);
        let rows = stage.target.len();
        let parameters = from.parameters.clone();
        let mut progress = Progress::start_from(parameters, rows, options.noise, from.noise.variance(0.0));
        if from.curve.shape == options.shape {
            progress.memory = from.memory.clone().scaled(rows as f64 / from.rows as f64);
        }
        if std::mem::discriminant(&from.noise) == std::mem::discriminant(&progress.noise) {
            progress.noise = from.noise;
            progress.variance = order[..rows].iter().map(|&row| from.noise_variance[row]).collect();
        } else if !progress.noise.is_shared() {
            // The rows that the curve does not explain are known already.
            let LeftOut { residual, latent_variance } = &from.left_out;
            let moment = |&row: &usize| residual[row].powi(2) + latent_variance[row];
            let moments: Vec<f64> = order[..rows].iter().map(moment).collect();
            let bounds = options.variance_bounds();
            progress.noise.start_at(&moments, bounds);
            update_noise(&mut progress.noise, &mut progress.variance, &moments, &stage.row_weight, bounds);
        }
        (stage, progress)
    } else {
        let stage = process(if is_one_stage { last } else { first });
        let mut progress = Progress::start(stage.start(), stage.target.len(), options.noise);
        let share = if options.effort == Effort::Whole && !is_one_stage { FIRST_STAGE } else { 1.0 };
        progress.advance(&stage, options.noise, first_rounds, 0.0..share).ok_or(NotLearnt::Failed)?;
        (stage, progress)
    };
    if options.must_bend {
        let gain = stage.gain_of_bending(&progress).ok_or(NotLearnt::Failed)?;
        if gain < LEAST_CURVE_GAIN {
            return Err(NotLearnt::Straight { gain, rows: stage.target.len() });
        }
    }
    match (options.effort, known) {
        (Effort::Settle, Some(_)) => progress.settle(&stage).ok_or(NotLearnt::Failed)?,
        (Effort::Review, Some(_)) => {}
        (Effort::Sketch, Some(_)) => {
            progress.advance(&stage, options.noise, first_rounds, 0.0..1.0).ok_or(NotLearnt::Failed)?;
        }
        (Effort::Whole, Some(_)) => {
            progress.advance(&stage, options.noise, last_rounds, 0.0..1.0).ok_or(NotLearnt::Failed)?;
        }
        (Effort::Whole, None) if !is_one_stage => {
            let next = process(last);
            let rows = next.target.len();
            let all = learnt(&stage, progress.clone(), &order[..rows]).ok_or(NotLearnt::Failed)?;
            progress.variance = order[..rows].iter().map(|&row| all.noise_variance[row]).collect();
            progress.bound = f64::INFINITY;
            progress.memory = progress.memory.scaled(rows as f64 / all.rows as f64);
            progress.advance(&next, options.noise, last_rounds, FIRST_STAGE..1.0).ok_or(NotLearnt::Failed)?;
            stage = next;
        }
        _ => {}
    }
    learnt(&stage, progress, &order).ok_or(NotLearnt::Failed)
}

/// Errors of the rows in `order`; the first of them were learnt from.
fn left_out_of_all(
    stage: &Process<'_>,
    progress: &Progress,
    inputs: MatRef<'_, f64>,
    target: &[f64],
    order: &[usize],
) -> Option<LeftOut> {
    let own = stage.left_out(&progress.parameters, &progress.variance)?;
    let (known, others) = order.split_at(stage.target.len());
    let mut all = LeftOut { residual: vec![0.0; target.len()], latent_variance: vec![0.0; target.len()] };
    for (k, &row) in known.iter().enumerate() {
        (all.residual[row], all.latent_variance[row]) = (own.residual[k], own.latent_variance[k]);
    }
    let with_variance = others.len() <= MOST_PREDICTED_VARIANCES;
    let usual = own.latent_variance.iter().sum::<f64>() / known.len() as f64;
    let inputs = Mat::from_fn(others.len(), inputs.ncols(), |i, j| inputs[(others[i], j)]);
    let [mean, latent] = stage.predict(&progress.parameters, &progress.variance, inputs.as_ref(), with_variance)?;
    for (k, &row) in others.iter().enumerate() {
        all.residual[row] = target[row] - mean[k];
        all.latent_variance[row] = latent.get(k).copied().unwrap_or(usual);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::process::tests::{example, options};

    /// The input that does not matter gets long lengthscales; threads change nothing, bit for bit.
    #[test]
    fn lengthscales_tell_inputs_apart_whatever_the_threads() {
        let control = Control::new();
        let (x, y) = example(600);
        let weight = vec![1.0; 600];
        for prior in ["student-t", "contaminated-t"] {
            let options = options(&control, Shape::Matern, vec![0, 1, 2], prior);
            let [one, two] =
                [Par::Seq, Par::rayon(2)].map(|par| learn_curve(x.as_ref(), &y, &weight, &options, None, par).unwrap());
            assert_eq!(one.curve, two.curve);
            assert_eq!(one.noise_variance, two.noise_variance);
            let joint = |j: usize| one.curve.variance * one.curve.scales[j].powi(2);
            let bend = |j: usize| joint(j) + one.curve.single_variance * one.curve.single_scales[j].powi(2);
            // The second is a line.
            assert!(bend(0) > 10.0 * bend(1) && bend(0) > 10.0 * bend(2), "{prior}: {:?}", one.curve);
        }
    }

    #[test]
    fn lines_are_told_from_curves() {
        let control = Control::new();
        let (x, y) = example(300);
        let options = options(&control, Shape::Matern, vec![0, 1, 2], "contaminated");
        let learn = |y: &[f64]| learn_curve(x.as_ref(), y, &[1.0; 300], &options, None, Par::Seq);
        assert!(learn(&y).is_ok());
        let noise = |i: usize| 0.2 * ((i * i) as f64 * 3.7).sin();
        let straight: Vec<f64> = (0..300).map(|i| 0.5 * x[(i, 0)] - 0.3 * x[(i, 1)] + noise(i)).collect();
        assert!(matches!(learn(&straight), Err(NotLearnt::Straight { rows: 300, .. })));
    }

    /// With a floor of e⁻¹² the curves of single inputs stay there, which is more than the least noise.
    #[test]
    fn parts_that_explain_nothing_vanish() {
        let control = Control::new();
        let value = |i: usize, j: usize| 3.4 * (((i + 1) as f64 * [0.618_034, 0.414_214, 0.732_051][j]).fract() - 0.5);
        let x = Mat::from_fn(300, 3, value);
        let joint: Vec<f64> = (0..300).map(|i| (1.0 + 0.3 * x[(i, 0)]) / (1.0 + 0.3 * x[(i, 1)]) - 1.0).collect();
        let options = options(&control, Shape::Gauss, vec![0, 1, 2], "shared");
        let learnt = learn_curve(x.as_ref(), &joint, &[1.0; 300], &options, None, Par::Seq).unwrap();
        assert!(learnt.curve.single_variance < (-14f64).exp(), "{:?}", learnt.curve);
    }
}
