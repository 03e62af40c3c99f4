//! Evaluations and objectives of the plain and the accelerated solver, to one tolerance, on Gaussian and Fourier designs.
//!
//! `cargo xtask bench acceleration`; the Fourier designs need `ROBUSTARD_DATA`.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{DATA_SETS, Synthetic, fourier_split};
use robustard_engine::{Acceleration, Problem, Settings, SolverKind, Status, fit};

/// The problems, drawn with seeds from `first_seed` on.
fn cases(first_seed: u64) -> Vec<(String, Problem<'static>)> {
    let mut cases = Vec::new();
    for (rows, columns) in [(500, 50), (1000, 256), (12, 20)] {
        for seed in first_seed..first_seed + 3 {
            let design = Synthetic { rows, columns, support: (columns / 5).min(rows / 3), ..Synthetic::PAPER };
            cases.push((format!("gaussian {rows}x{columns} #{seed}"), design.problem(seed)));
        }
    }
    for name in DATA_SETS {
        for contamination in [0.0, 0.1] {
            if let Some(split) = fourier_split(name, contamination, first_seed) {
                cases.push((format!("{name} {contamination}"), split.problem));
            }
        }
    }
    cases
}

const TOLERANCE: f64 = 1e-6;

/// The settings that a title names: a solver and a noise.
fn settings(solver: SolverKind, noise: &str) -> Settings {
    Settings {
        solver,
        noise: noise.parse().expect("a noise model"),
        tolerance: TOLERANCE,
        patience: 5,
        max_iterations: 2000,
        pruning: false,
        acceleration: Acceleration::None,
        ..Settings::default()
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let (seeds, wanted): (Vec<&String>, Vec<&String>) = words.iter().partition(|word| word.starts_with("seed="));
    let first_seed = seeds.first().and_then(|word| word["seed=".len()..].parse().ok()).unwrap_or(0);
    for (name, solver) in [("em", SolverKind::Em), ("mackay", SolverKind::Mackay), ("irls-l2", SolverKind::IrlsL2)] {
        for noise in ["student-t:4", "contaminated", "inverse-gamma:2,0.1", "shared"] {
            let title = format!("{name} {noise}");
            if wanted.iter().all(|word| title.contains(word.as_str())) {
                compare(&title, &settings(solver, noise), first_seed);
            }
        }
    }
}

/// One line per case: plain, accelerated, and accelerated with pruning.
fn compare(title: &str, plain: &Settings, first_seed: u64) {
    println!(
        "\n{title}: tolerance {TOLERANCE:e}, at most {} iterations, seeds from {first_seed}",
        plain.max_iterations
    );
    println!("{:22} {:>24} | {:>31} | {:>31}", "", "plain", "accelerated", "accelerated and pruned");
    let heads = format!("{:>7} {:>9} {:>6}", "evals", "change", "ratio");
    println!("{:22} {:>7} {:>9} {:>6} | {heads} {:>6} | {heads} {:>6}", "", "evals", "objective", "sec", "sec", "sec");
    let mut ratios = [Vec::new(), Vec::new()];
    let mut worse = [0, 0];
    for (name, problem) in cases(first_seed) {
        let run = |settings: &Settings| {
            let model = fit(&problem, settings).expect("the benchmark's problems can be fitted");
            let mark = if model.status() == Status::Converged { ' ' } else { '*' };
            (model.outcome().evaluations, model.outcome().objective, model.outcome().elapsed.as_secs_f64(), mark)
        };
        let base = run(plain);
        print!("{name:22} {:>6}{} {:>9.2} {:>6.2}", base.0, base.3, base.1, base.2);
        for (k, pruning) in [false, true].into_iter().enumerate() {
            let fast = run(&Settings { acceleration: Acceleration::Anderson, pruning, ..plain.clone() });
            let ratio = fast.0 as f64 / base.0 as f64;
            ratios[k].push(ratio);
            worse[k] += usize::from(fast.1 - base.1 > 0.5);
            print!(" | {:>6}{} {:>+9.2} {ratio:>6.3} {:>6.2}", fast.0, fast.3, fast.1 - base.1, fast.2);
        }
        println!();
    }
    for (ratios, (worse, what)) in ratios.iter_mut().zip(worse.iter().zip(["accelerated", "and pruned"])) {
        ratios.sort_by(f64::total_cmp);
        println!(
            "{what}: median ratio {:.3}; worse by more than 0.5 in {worse} of {} cases",
            ratios[ratios.len() / 2],
            ratios.len()
        );
    }
    println!("* stopped by the iteration limit");
}
