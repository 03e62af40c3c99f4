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
mod output;
mod predict;
mod progress;
mod report;
mod text;

use std::error::Error;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use robustard_table::{ModelError, ModelFileError, OutputError, TableError};

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

Exit codes: 0 fine, 1 data or run-time error, 2 usage, 3 not converged under --strict, 130 interrupted\n(nothing is written then; fit --save-interrupted writes the model so far)."
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

/// The exit code of a command that Ctrl-C has ended, as shells have it.
const INTERRUPTED: u8 = 130;
/// What is said then.
const NOTHING_WRITTEN: &str = "interrupted: nothing is written";

/// How a command ended when nothing went wrong.
enum Ending {
    Done,
    /// The fit did not converge and `--strict` was given.
    NotConverged,
    /// Ctrl-C, before there was a whole result.
    Interrupted,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return help(&error),
    };
    let result = match arguments.command {
        Command::Fit(fit) => fit.run(),
        Command::Predict(predict) => predict.run(),
        Command::Diagnose(diagnose) => diagnose.run(),
        Command::Effects(effects) => effects.run(),
        Command::Explain(explain) => explain.run(),
        Command::Report(report) => report.run(),
        Command::Compare(compare) => compare.run(),
        Command::Demo(demo) => demo.run(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "robustard", &mut script);
            output::print(&String::from_utf8_lossy(&script)).map(|()| Ending::Done)
        }
    };
    match result {
        Ok(Ending::Done) => ExitCode::SUCCESS,
        Ok(Ending::Interrupted) => ExitCode::from(INTERRUPTED),
        Ok(Ending::NotConverged) => {
            say("error: the fit has not converged (--strict)");
            ExitCode::from(3)
        }
        // A closed pipe (`robustard demo | head`) is the reader's choice, not a failure.
        Err(error) if output_error(&*error).is_some_and(OutputError::is_closed_stdout) => ExitCode::SUCCESS,
        Err(error) if is_stopped(&*error) => {
            say(NOTHING_WRITTEN);
            ExitCode::from(INTERRUPTED)
        }
        Err(error) => {
            say(&format!("error: {error}"));
            if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// Help, a version, or a command line that makes no sense.
fn help(error: &clap::Error) -> ExitCode {
    match error.print() {
        Err(trouble) if trouble.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}

/// What could not be written, if that is what went wrong.
fn output_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e OutputError> {
    let of_table = |error: &'e TableError| match error {
        TableError::Output(error) => Some(error),
        _ => None,
    };
    if let Some(ModelFileError::Output(error)) = error.downcast_ref() {
        return Some(error);
    }
    match error.downcast_ref::<ModelError>() {
        Some(ModelError::Table(error)) => of_table(error),
        _ => error.downcast_ref().and_then(of_table).or_else(|| error.downcast_ref()),
    }
}

/// Whether Ctrl-C ended the work.
fn is_stopped(error: &(dyn Error + 'static)) -> bool {
    match error.downcast_ref::<ModelError>() {
        Some(ModelError::Regression(error)) => matches!(error, robustard::Error::Stopped),
        Some(ModelError::Table(error)) => matches!(error, TableError::Stopped { .. }),
        _ => matches!(error.downcast_ref(), Some(robustard::Error::Stopped)),
    }
}
