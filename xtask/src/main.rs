//! Project tasks: `cargo xtask test` checks everything, `cargo xtask bench NAME` measures, `cargo xtask reproduce EXPERIMENT` runs
//! the paper's experiments.

mod browser;
mod package;
mod python;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

const USAGE: &str = "usage: cargo xtask test [--quick]        everything that CI checks; quick: but clusters
       cargo xtask browser               the reports in headless Chromium, with screenshots
       cargo xtask python                the Python package in a new environment
       cargo xtask clusters              fits on Spark, Sail and Ray, by the wheel that was built last
       cargo xtask reproduce EXPERIMENT  the paper's experiments; --help lists them
       cargo xtask bench python [ard] [rvm] [influence] [overhead]
                                         the Python package beside scikit-learn, fastrvm and statsmodels
       cargo xtask bench read            reading a large table, beside polars
       cargo xtask bench default         what the default costs, beside plain fits of 300 iterations
       cargo xtask bench engine          speed of an iteration against the machine's limit
       cargo xtask bench acceleration [SOLVER] [NOISE] [seed=N]
       cargo xtask bench passes [NOISE]
                                         evaluations saved, case by case; set ROBUSTARD_DATA for all cases";

/// One check: what it is called and the cargo command behind it.
struct Step {
    name: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

const TEST_STEPS: [Step; 6] = [
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
    // Of the whole workspace, so that what the step before has built serves this one, too.
    Step {
        name: "remote files",
        arguments: &["test", "--release", "--workspace", "--features", "robustard-table/remote", "--test", "remote"],
        environment: &[],
    },
    Step { name: "demo", arguments: &["run", "--release", "--", "demo", "--force"], environment: &[] },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let succeeded = match words.as_slice() {
        ["test"] | ["test", "--quick"] => {
            TEST_STEPS.iter().all(|step| run(step.name, step.arguments, step.environment))
                && browser::check()
                && package::check()
                && (words.len() > 1 || package::clusters())
        }
        ["browser"] => browser::check(),
        ["python"] => package::check(),
        ["clusters"] => package::clusters(),
        ["reproduce", rest @ ..] => return reproduce(rest),
        ["bench", "python", rest @ ..] => package::bench(rest),
        ["bench", name @ ("engine" | "acceleration" | "passes"), rest @ ..] => {
            let mut cargo = vec!["bench", "--workspace", "--bench", name, "--"];
            cargo.extend(rest);
            run(name, &cargo, &[])
        }
        ["bench", "default"] => run("default", &["bench", "--workspace", "--bench", "cost"], &[]),
        ["bench", "read"] => match python::environment("polars", &["polars"]) {
            Ok(python) => {
                let python = python.display().to_string();
                let cargo = ["bench", "--workspace", "--bench", "read"];
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

/// Builds the laboratory and becomes it, so that Ctrl-C and the exit code are its own.
fn reproduce(arguments: &[&str]) -> ExitCode {
    // One program, but with the features of the workspace: the builds of the tests serve it, too.
    if !run("laboratory", &["build", "--release", "--workspace", "--bin", "robustard-lab"], &[]) {
        return ExitCode::FAILURE;
    }
    let program = match built("robustard-lab") {
        Ok(program) => program,
        Err(error) => {
            eprintln!("── {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut laboratory = Command::new(&program);
    laboratory.args(arguments);
    #[cfg(unix)]
    let error = std::os::unix::process::CommandExt::exec(&mut laboratory);
    #[cfg(not(unix))]
    let error = match laboratory.status() {
        Ok(status) => return ExitCode::from(status.code().map_or(1, |code| code as u8)),
        Err(error) => error,
    };
    eprintln!("── {} could not be started: {error}", program.display());
    ExitCode::FAILURE
}

/// What is built beside xtask.
pub(crate) fn built(name: &str) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(own.with_file_name(format!("{name}{}", std::env::consts::EXE_SUFFIX)))
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
