//! Evaluations and objectives of the plain and the accelerated solver, to one tolerance, on Gaussian and Fourier designs.
//!
//! `cargo xtask bench acceleration`; the Fourier designs need `ROBUSTARD_DATA`.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{DATA_SETS, Synthetic, fourier_problem};
use robustard::{Acceleration, NoisePrior, Problem, Settings, SolverKind, fit};

fn cases() -> Vec<(String, Problem)> {
    let mut cases = Vec::new();
    for (rows, columns) in [(500, 50), (1000, 256), (12, 20)] {
        for seed in 0..3 {
            let design = Synthetic { rows, columns, support: (columns / 5).min(rows / 3), ..Synthetic::PAPER };
            cases.push((format!("gaussian {rows}x{columns} #{seed}"), design.problem(seed)));
        }
    }
    for name in DATA_SETS {
        for contamination in [0.0, 0.1] {
            match fourier_problem(name, contamination, 0) {
                Some(problem) => cases.push((format!("{name} {contamination}"), problem)),
                None => eprintln!("{name}: no data in ROBUSTARD_DATA, skipped"),
            }
        }
    }
    cases
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let solvers = [("em", SolverKind::Em), ("mackay", SolverKind::Mackay)];
    let tolerance = 1e-6;
    for (solver_name, solver) in solvers {
        for prior in ["student-t:4", "contaminated", "inverse-gamma:2,0.1", "shared"] {
            let title = format!("{solver_name} {prior}");
            if !arguments.is_empty() && !arguments.iter().all(|a| title.contains(a.as_str())) {
                continue;
            }
            println!("\n{title}: tolerance {tolerance:e}, no pruning");
            println!(
                "{:24} {:>7} {:>7} {:>6} {:>14} {:>10}  status",
                "case", "plain", "accel", "ratio", "objective", "change"
            );
            let mut ratios = Vec::new();
            for (name, problem) in cases() {
                let base = Settings {
                    solver,
                    tolerance,
                    patience: 5,
                    max_iterations: 3000,
                    pruning: false,
                    ..Settings::default()
                };
                let base = match prior.parse::<NoisePrior>() {
                    Ok(prior) => Settings { noise_prior: prior, ..base },
                    Err(_) => base.with_shared_noise(),
                };
                let plain = fit(&problem, &Settings { acceleration: Acceleration::None, ..base.clone() }).unwrap();
                let fast = fit(&problem, &Settings { acceleration: Acceleration::Anderson, ..base }).unwrap();
                let ratio = fast.outcome.evaluations as f64 / plain.outcome.evaluations as f64;
                ratios.push(ratio);
                println!(
                    "{name:24} {:>7} {:>7} {ratio:>6.3} {:>14.3} {:>10.3}  {:?}/{:?} rejected {}",
                    plain.outcome.evaluations,
                    fast.outcome.evaluations,
                    plain.outcome.objective,
                    fast.outcome.objective - plain.outcome.objective,
                    plain.status(),
                    fast.status(),
                    fast.outcome.interventions.rejected_extrapolations,
                );
            }
            ratios.sort_by(f64::total_cmp);
            println!("median ratio {:.3}", ratios[ratios.len() / 2]);
        }
    }
}
