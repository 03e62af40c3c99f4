//! Passes over the rows until nothing changes any more, and the time of a fit, beside today's accelerated EM.
//!
//! `cargo xtask bench passes`; the Fourier designs need `ROBUSTARD_DATA`.

#[path = "../tests/common/mod.rs"]
mod common;

use std::convert::Infallible;

use common::{Synthetic, fourier_split_of, normal, on_one_thread, rng};
use cpu_time::ProcessTime;
use rand::RngExt;
use robustard_engine::faer::{Mat, Par};
use robustard_engine::passes::{InMemory, Learner, Plan, RowPass};
use robustard_engine::{Problem, Settings, SolverKind, Status, fit};

/// Passes of the reference: many times what is needed.
const REFERENCE_PASSES: usize = 150;
/// Accuracy wanted: of weights, in posterior standard deviations, and of the objective, as a part of it.
const WEIGHTS: f64 = 1e-3;
const OBJECTIVE: f64 = 1e-6;

/// Neighbouring columns with this correlation, 30% of them relevant, 8% of the rows off by 4 to 12 standard deviations.
fn correlated(rows: usize, columns: usize, correlation: f64, seed: u64) -> Problem<'static> {
    let mut rng = rng(seed);
    let mut x = Mat::<f64>::zeros(rows, columns);
    let rest = (1.0 - correlation * correlation).sqrt();
    for i in 0..rows {
        for j in 0..columns {
            let before = if j == 0 { 0.0 } else { x[(i, j - 1)] };
            x[(i, j)] = if j == 0 { normal(&mut rng) } else { correlation * before + rest * normal(&mut rng) };
        }
    }
    let weights: Vec<f64> =
        (0..columns).map(|_| if rng.random::<f64>() < 0.3 { normal(&mut rng) } else { 0.0 }).collect();
    let target: Vec<f64> = (0..rows)
        .map(|i| {
            let truth: f64 = (0..columns).map(|j| x[(i, j)] * weights[j]).sum();
            let sign = if rng.random::<bool>() { 1.0 } else { -1.0 };
            let error = if rng.random::<f64>() < 0.08 { sign * rng.random_range(4.0..12.0) } else { 0.0 };
            truth + normal(&mut rng) + error
        })
        .collect();
    Problem::new(x.as_ref(), &target).expect("finite numbers")
}

fn cases() -> Vec<(String, Problem<'static>)> {
    let mut cases = Vec::new();
    for (rows, columns) in [(5000, 64), (20_000, 256)] {
        let design = Synthetic { rows, columns, support: columns / 5, contamination: 0.05, ..Synthetic::PAPER };
        cases.push((format!("gaussian {rows}x{columns}"), design.problem(0)));
    }
    for (rows, columns, correlation) in [(5000, 64, 0.8), (5000, 64, 0.95), (10_000, 100, 0.9), (20_000, 256, 0.5)] {
        cases.push((format!("ar {correlation} {rows}x{columns}"), correlated(rows, columns, correlation, 0)));
    }
    for (name, features) in
        [("kin8nm", 128), ("power", 128), ("elevators", 128), ("protein", 128), ("carbon", 128), ("kin8nm", 256)]
    {
        if let Some(split) = fourier_split_of(name, 10_000, features, 0.1, 0) {
            cases.push((format!("fourier {name} x{features}"), split.problem));
        }
    }
    cases
}

fn plan(problem: &Problem, noise: &str) -> Plan {
    let (settings, units) = (Settings::default(), problem.natural_units());
    let [low, high] = settings.weight_precision_bounds;
    Plan {
        groups: problem.groups().clone(),
        weight_precision_bounds: units.weight_precision.iter().map(|unit| [low * unit, high * unit]).collect(),
        weight_precision: units.weight_precision.clone(),
        start: None,
        noise: noise.parse().expect("a noise model"),
        noise_variance_bounds: settings.noise_variance_bounds.map(|bound| bound * units.noise_variance),
        most_passes: usize::MAX,
    }
}

/// Objective and weights after each pass, and when the learner says that it has converged.
struct History {
    objective: Vec<f64>,
    mean: Vec<Vec<f64>>,
    deviation: Vec<f64>,
    said: usize,
}

fn history(problem: &Problem, noise: &str) -> History {
    let mut rows = InMemory::new(problem, Par::Seq);
    let mut learner = Learner::new(plan(problem, noise), Par::Seq);
    let mut mean = Vec::new();
    let mut said = None;
    for pass in 1..=REFERENCE_PASSES {
        let sums = rows.pass(&learner.broadcast()).unwrap_or_else(|error: Infallible| match error {});
        let step = learner.learn(&sums).expect("the benchmark's problems have posteriors");
        mean.push(learner.mean());
        if step == robustard_engine::passes::Step::Converged {
            said = said.or(Some(pass));
        }
    }
    let deviation = learner.standard_deviations();
    History { objective: learner.objectives().to_vec(), mean, deviation, said: said.unwrap_or(REFERENCE_PASSES) }
}

/// The first pass from which on everything is as accurate as wanted; more than [`History::said`] if it is not so at the end.
fn passes_needed(history: &History) -> usize {
    let last = history.mean.last().expect("there were passes");
    let least = 1e-3 * history.deviation.iter().copied().fold(0.0, f64::max);
    let is_near = |mean: &[f64]| {
        let off = mean.iter().zip(last).zip(&history.deviation);
        off.map(|((a, b), deviation)| (a - b).abs() / deviation.max(least)).fold(0.0, f64::max) < WEIGHTS
    };
    let end = *history.objective.last().expect("there were passes");
    // The objective of a pass is that of the weights before it.
    let is_level = |pass: usize| (history.objective[pass] - end).abs() < OBJECTIVE * end.abs();
    let is_there = |pass: usize| is_near(&history.mean[pass]) && is_level(pass.min(history.objective.len() - 1));
    // After it has converged, the learner looks for columns that should come back, and comes back itself.
    let far = (0..history.said).rev().find(|&pass| !is_there(pass));
    far.map_or(1, |pass| pass + 2)
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    for noise in ["student-t:4", "student-t:learned", "contaminated", "contaminated-t"] {
        if !wanted.is_empty() && !wanted.iter().any(|word| word == noise) {
            continue;
        }
        println!(
            "\n{noise}: passes until weights are within {WEIGHTS:e} s.d. and the objective within {OBJECTIVE:e} of it; fits by EM and passes"
        );
        println!(
            "{:22} {:>7} {:>5} | {:>6} {:>8} | {:>6} {:>8} {:>10} {:>6}",
            "", "needed", "said", "EM", "CPU s", "passes", "CPU s", "objective", "ratio"
        );
        let mut needed = Vec::new();
        for (name, problem) in cases() {
            let history = history(&problem, noise);
            needed.push(passes_needed(&history));
            let run = |solver| {
                let settings = Settings { solver, noise: noise.parse().expect("a noise model"), ..Settings::default() };
                let started = ProcessTime::now();
                let model = on_one_thread(|| fit(&problem, &settings).expect("the benchmark's problems can be fitted"));
                let mark = if model.status() == Status::Converged { ' ' } else { '*' };
                (model.outcome().evaluations, started.elapsed().as_secs_f64(), model.outcome().objective, mark)
            };
            let [em, passes] = [SolverKind::Em, SolverKind::Passes].map(run);
            println!(
                "{name:22} {:>7} {:>5} | {:>5}{} {:>8.2} | {:>5}{} {:>8.2} {:>+10.2} {:>6.2}",
                needed[needed.len() - 1],
                history.said,
                em.0,
                em.3,
                em.1,
                passes.0,
                passes.3,
                passes.1,
                passes.2 - em.2,
                em.1 / passes.1
            );
        }
        needed.sort_unstable();
        println!("needed: median {}, most {}", needed[needed.len() / 2], needed[needed.len() - 1]);
    }
    println!("* stopped by the iteration limit");
}
