//! Project tasks: `cargo xtask test` checks everything, `cargo xtask bench NAME` measures, `cargo xtask reproduce EXPERIMENT` runs
//! the paper's experiments.

mod browser;
mod package;
mod python;

use std::process::{Command, ExitCode};

const USAGE: &str = "usage: cargo xtask test                  everything that CI checks
       cargo xtask browser               the reports in headless Chromium, with screenshots
       cargo xtask python                the Python package in a new environment
       cargo xtask reproduce EXPERIMENT  the paper's experiments; --help lists them
       cargo xtask bench python [ard] [rvm] [influence] [overhead]
                                         the Python package beside scikit-learn, fastrvm and statsmodels
       cargo xtask bench read            reading a large table, beside polars
       cargo xtask bench default         what the default costs, beside plain fits of 300 iterations
       cargo xtask bench engine          speed of an iteration against the machine's limit
       cargo xtask bench acceleration [SOLVER] [NOISE] [seed=N]
                                         evaluations saved, case by case; set ROBUSTARD_DATA for all cases";

/// One check: what it is called and the cargo command behind it.
struct Step {
    name: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

const TEST_STEPS: [Step; 5] = [
    Step { name: "format", arguments: &["fmt", "--all", "--check"], environment: &[] },
    Step {
        name: "clippy",
        arguments: &["clippy", "--release", "--workspace", "--all-targets", "--", "--deny", "warnings"],
        environment: &[],
    },
    Step {
        name: "documentation",
        arguments: &["doc", "--release", "--workspace", "--no-deps"],
        environment: &[("RUSTDOCFLAGS", "--deny warnings")],
    },
    // Optimised, because the tests fit thousands of models; the same build serves `cargo run --release`.
    Step { name: "tests", arguments: &["test", "--release", "--workspace"], environment: &[] },
    Step { name: "demo", arguments: &["run", "--release", "--", "demo", "--force"], environment: &[] },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let succeeded = match words.as_slice() {
        ["test"] => {
            TEST_STEPS.iter().all(|step| run(step.name, step.arguments, step.environment))
                && browser::check()
                && package::check()
        }
        ["browser"] => browser::check(),
        ["python"] => package::check(),
        ["reproduce", rest @ ..] => {
            let mut cargo = vec!["run", "--release", "--package", "robustard-lab", "--"];
            cargo.extend(rest);
            return become_cargo(&cargo);
        }
        ["bench", "python", rest @ ..] => package::bench(rest),
        ["bench", name @ ("engine" | "acceleration"), rest @ ..] => {
            let mut cargo = vec!["bench", "--package", "robustard", "--bench", name, "--"];
            cargo.extend(rest);
            run(name, &cargo, &[])
        }
        ["bench", "default"] => run("default", &["bench", "--package", "robustard-lab", "--bench", "cost"], &[]),
        ["bench", "read"] => match python::environment("polars", &["polars"]) {
            Ok(python) => {
                let python = python.display().to_string();
                let cargo = ["bench", "--package", "robustard-table", "--bench", "read"];
                run("read", &cargo, &[("ROBUSTARD_POLARS_PYTHON", &python)])
            }
            Err(error) => {
                eprintln!("── polars could not be installed: {error}");
                false
            }
        },
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Cargo in place of this process, so that Ctrl-C and the exit code are its own.
#[cfg(unix)]
fn become_cargo(arguments: &[&str]) -> ExitCode {
    use std::os::unix::process::CommandExt;
    eprintln!("── cargo could not be started: {}", Command::new(env!("CARGO")).args(arguments).exec());
    ExitCode::FAILURE
}

#[cfg(not(unix))]
fn become_cargo(arguments: &[&str]) -> ExitCode {
    if run(arguments[0], arguments, &[]) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(crate) fn run(name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> bool {
    eprintln!("── {name}: cargo {}", arguments.join(" "));
    let status = Command::new(env!("CARGO")).args(arguments).envs(environment.iter().copied()).status();
    match status {
        Ok(status) if status.success() => true,
        Ok(status) => {
            eprintln!("── {name} failed ({status})");
            false
        }
        Err(error) => {
            eprintln!("── {name} could not be started: {error}");
            false
        }
    }
}
