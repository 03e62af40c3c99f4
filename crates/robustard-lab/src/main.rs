//! The `robustard-lab` program: the paper's experiments, and the default against what it replaces.

mod command;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use robustard_lab::experiment::Experiment;

use command::default::DefaultExperiment;
use command::run::Run;
use command::streams::Streams;

/// What a command gives back, or what went wrong.
type Outcome<T> = Result<T, Box<dyn Error>>;

/// The paper's experiments on public data sets.
#[derive(Parser)]
#[command(
    name = "robustard-lab",
    version,
    bin_name = "cargo xtask reproduce",
    after_help = "Examples:
  cargo xtask reproduce all --data data --quick     a look at everything in minutes
  cargo xtask reproduce tabular --data data --datasets yacht --methods em,em_shared --trials 3
  cargo xtask reproduce all --data data --results docs/reproduction

Trials that are in the results folder already are not run again: stop with Ctrl-C and go on later.

Exit codes: 0 fine, 1 data or run-time error, 2 usage, 130 interrupted."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Every experiment of the paper
    All(Run),
    /// Recovery of sparse weights and noisy rows in synthetic data (Figure 3)
    Synthetic(Run),
    /// Nine data sets, clean and with 10% wrong rows, all methods (Tables 3, 6-10)
    Tabular(Run),
    /// Kernel regression on Boston with 0 to 30% wrong rows (Figure 4, Tables 4-5)
    Kernel(Run),
    /// A linear layer on image embeddings with wrong counts (Figures 5, 8)
    Neural(Run),
    /// EM with the exact posterior against the Bayesian learning rule (Table 2)
    Blr(Run),
    /// The motorcycle data (Figures 1 and 2)
    Mcycle(Run),
    /// The star cluster with four giants (Figure 7)
    Stars(Run),
    /// The default against shared noise, the paper's recipe and fixed lengthscales, on the nine data sets
    #[command(after_help = "Example:\n  cargo xtask reproduce default --data data --sets yacht,boston --seeds 100-102")]
    Default(DefaultExperiment),
    /// Fits by passes over files against fits in memory, on all sets, with all noise models
    #[command(after_help = "Example:\n  cargo xtask reproduce streams --data data --sets yacht,boston")]
    Streams(Streams),
}

/// A command line that makes no sense: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

/// How a command ended when nothing went wrong.
enum Ending {
    Done,
    /// Ctrl-C, with everything that was done kept.
    Interrupted,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::All(run) => run.run(&Experiment::ALL),
        Command::Synthetic(run) => run.run(&[Experiment::Synthetic]),
        Command::Tabular(run) => run.run(&[Experiment::Tabular]),
        Command::Kernel(run) => run.run(&[Experiment::Kernel]),
        Command::Neural(run) => run.run(&[Experiment::Neural]),
        Command::Blr(run) => run.run(&[Experiment::Blr]),
        Command::Mcycle(run) => run.run(&[Experiment::Mcycle]),
        Command::Stars(run) => run.run(&[Experiment::Stars]),
        Command::Default(experiment) => experiment.run(),
        Command::Streams(streams) => streams.run(),
    };
    match result {
        Ok(Ending::Done) => ExitCode::SUCCESS,
        Ok(Ending::Interrupted) => ExitCode::from(130),
        Err(error) => {
            eprintln!("error: {error}");
            if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}
