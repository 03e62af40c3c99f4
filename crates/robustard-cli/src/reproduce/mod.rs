//! `robustard reproduce`: the paper's experiments.

mod default;
mod run;

use clap::{Args, Subcommand};
use robustard_lab::experiment::Experiment;

use crate::{Ending, Outcome};

/// Options of `reproduce`.
#[derive(Args)]
#[command(after_help = "Examples:
  robustard reproduce all --data data --quick     a look at everything in minutes
  robustard reproduce tabular --data data --datasets yacht --methods em,em_shared --trials 3
  robustard reproduce all --data data --results docs/reproduction

Trials that are in the results folder already are not run again: stop with Ctrl-C and go on later.")]
pub struct Reproduce {
    #[command(subcommand)]
    experiment: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Every experiment of the paper
    All(run::Run),
    /// Recovery of sparse weights and noisy rows in synthetic data (Figure 3)
    Synthetic(run::Run),
    /// Nine data sets, clean and with 10% wrong rows, all methods (Tables 3, 6-10)
    Tabular(run::Run),
    /// Kernel regression on Boston with 0 to 30% wrong rows (Figure 4, Tables 4-5)
    Kernel(run::Run),
    /// A linear layer on image embeddings with wrong counts (Figures 5, 8)
    Neural(run::Run),
    /// EM with the exact posterior against the Bayesian learning rule (Table 2)
    Blr(run::Run),
    /// The motorcycle data (Figures 1 and 2)
    Mcycle(run::Run),
    /// The star cluster with four giants (Figure 7)
    Stars(run::Run),
    /// The default against shared noise, the paper's recipe and fixed lengthscales, on the nine data sets
    #[command(after_help = "Example:\n  robustard reproduce default --data data --sets yacht,boston --seeds 100-102")]
    Default(default::DefaultExperiment),
}

impl Reproduce {
    /// Runs the experiment.
    pub fn run(&self) -> Outcome<Ending> {
        match &self.experiment {
            Command::All(run) => run.run(&Experiment::ALL),
            Command::Synthetic(run) => run.run(&[Experiment::Synthetic]),
            Command::Tabular(run) => run.run(&[Experiment::Tabular]),
            Command::Kernel(run) => run.run(&[Experiment::Kernel]),
            Command::Neural(run) => run.run(&[Experiment::Neural]),
            Command::Blr(run) => run.run(&[Experiment::Blr]),
            Command::Mcycle(run) => run.run(&[Experiment::Mcycle]),
            Command::Stars(run) => run.run(&[Experiment::Stars]),
            Command::Default(experiment) => experiment.run(),
        }
    }
}
