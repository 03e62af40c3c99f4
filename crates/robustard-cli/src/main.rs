//! The `robustard` command: regression that finds the columns that matter and the rows that are wrong.

mod args;
mod colour;
mod compare;
mod demo;
mod diagnose;
mod effects;
mod explain;
mod fit;
mod json;
mod predict;
mod progress;
mod report;
mod text;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use colour::say;

/// What a command gives back, or what went wrong.
type Outcome<T> = Result<T, Box<dyn Error>>;

/// Sparse, robust regression: which columns matter, which rows to look at.
#[derive(Parser)]
#[command(
    name = "robustard",
    version,
    after_help = "Examples:
  robustard fit houses.csv --target price --save houses
  robustard predict houses.model new.csv -o predicted.csv
  robustard demo

Exit codes: 0 fine, 1 data or run-time error, 2 usage, 3 not converged under --strict, 130 predict or compare interrupted\n(an interrupted fit keeps its model and ends with 0)."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Fit a table: how good, which columns matter, which rows are outliers
    Fit(Box<fit::Fit>),
    /// Predict the rows of a table with a fitted model
    Predict(predict::Predict),
    /// Write the diagnosis of every row of a fitted table
    Diagnose(diagnose::Diagnose),
    /// Write how each column acts, how much it matters, or what pairs do together
    Effects(effects::EffectsCommand),
    /// Say why a row is predicted as it is: contributions of columns, similar rows, unusual values
    Explain(explain::Explain),
    /// Write a page, and figures, about a fitted model
    Report(report::ReportCommand),
    /// Cross-validate ways to fit a table on the same folds
    Compare(Box<compare::Compare>),
    /// Fit the motorcycle data, with six wrong rows, with and without row noise
    #[command(after_help = "Example:\n  robustard demo --seed 3")]
    Demo(demo::Demo),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  robustard completions bash > ~/.local/share/bash-completion/completions/robustard"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// A command line that makes no sense: exit code 2.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Usage {}

/// How a command ended when nothing went wrong.
enum Ending {
    Done,
    /// The fit did not converge and `--strict` was given.
    NotConverged,
    /// Ctrl-C, before there was a whole result.
    Interrupted,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Fit(fit) => fit.run(),
        Command::Predict(predict) => predict.run(),
        Command::Diagnose(diagnose) => diagnose.run(),
        Command::Effects(effects) => effects.run(),
        Command::Explain(explain) => explain.run(),
        Command::Report(report) => report.run(),
        Command::Compare(compare) => compare.run(),
        Command::Demo(demo) => demo.run(),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "robustard", &mut std::io::stdout());
            Ok(Ending::Done)
        }
    };
    match result {
        Ok(Ending::Done) => ExitCode::SUCCESS,
        Ok(Ending::Interrupted) => ExitCode::from(130),
        Ok(Ending::NotConverged) => {
            say("error: the fit has not converged (--strict)");
            ExitCode::from(3)
        }
        // A closed pipe (`robustard demo | head`) is the reader's choice, not a failure.
        Err(error) if error.to_string().contains("Broken pipe") => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error}"));
            if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// Nothing is overwritten without being asked for.
fn refuse_to_overwrite(path: &Path, force: bool) -> Outcome<()> {
    if !force && path != Path::new("-") && path.exists() {
        return Err(format!("{} exists; use --force to overwrite it", path.display()).into());
    }
    Ok(())
}
