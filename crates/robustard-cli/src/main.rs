//! The `robustard` command: regression that finds the columns that matter and the rows that are wrong.

mod demo;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Sparse, robust regression: which columns matter, which rows to look at.
#[derive(Parser)]
#[command(name = "robustard", version, after_help = "Example:\n  robustard demo")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Fit the motorcycle data, with six wrong rows, with and without row noise
    #[command(after_help = "Example:\n  robustard demo --seed 3")]
    Demo(demo::Demo),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Demo(demo) => demo.run(),
    };
    match result {
        // A closed pipe (`robustard demo | head`) is the reader's choice, not a failure.
        Ok(text) => match std::io::stdout().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(error) => fail(&error),
        },
        Err(error) => fail(error.as_ref()),
    }
}

fn fail(error: &dyn std::error::Error) -> ExitCode {
    // Nothing is left to tell when standard error is gone too.
    let _ = writeln!(std::io::stderr(), "error: {error}");
    ExitCode::FAILURE
}
