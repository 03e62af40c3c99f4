//! The experiments as data: which rows, which conditions, which methods, how many trials. [`crate::runner`] runs them all.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use robustard_baselines::Baseline;
use robustard_table::Table;

use crate::kernel::kernel_sample;
use crate::method::{Basis, Method, RowNoise, Solver};
use crate::neural::{Embeddings, Ranking};
use crate::protocol::{DATA_SETS, DataSet};
use crate::results::Job;
use crate::synthetic::{Draw, Synthetic};
use crate::tabular::fourier_sample;
use crate::trial::Measures;
use crate::{LabError, mcycle, neural, stars};

/// An experiment of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Experiment {
    /// Recovery of sparse weights and noisy rows (Figure 3).
    Synthetic,
    /// Nine data sets, clean and contaminated (Tables 3, 6–10).
    Tabular,
    /// Kernel functions on Boston (Figure 4, Tables 4–5).
    Kernel,
    /// A linear layer on image embeddings (Figures 5, 8).
    Neural,
    /// The exact posterior against a variational one (Table 2).
    Blr,
    /// The motorcycle data (Figures 1 and 2).
    Mcycle,
    /// The star cluster (Figure 7).
    Stars,
}

/// Which part of an experiment to run.
#[derive(Debug, Clone, Default)]
pub struct Part {
    /// At most so many trials.
    pub trials: Option<u64>,
    /// Only these data sets; all if empty.
    pub datasets: Vec<String>,
    /// Only these methods; all if empty.
    pub methods: Vec<String>,
    /// Two trials, small data sets, few conditions.
    pub quick: bool,
    /// What the neural experiment's data set is called if it is not the paper's.
    pub embeddings: Option<String>,
}

impl Part {
    fn dataset_name(&self, name: &str) -> String {
        match &self.embeddings {
            Some(other) if name == EMBEDDINGS => other.clone(),
            _ => name.to_owned(),
        }
    }
}

/// The paper's embeddings.
pub const EMBEDDINGS: &str = "shanghaitech";

/// Seed of trial 0. Smaller seeds were used while the default was made, those from 1000 on to choose the paper's settings.
const FIRST_SEED: u64 = 500;
/// The data sets with fewer than 1000 training rows, small enough for methods that are cubic in them.
const SMALL_SETS: [&str; 4] = ["boston", "concrete", "energy", "yacht"];

/// The numbers of the synthetic design's heatmaps.
pub const SUPPORTS: [usize; 5] = [2, 5, 10, 20, 40];
/// σ.
pub const SIGMAS: [f64; 5] = [0.05, 0.2, 0.5, 1.0, 2.0];
/// ρ.
pub const CONTAMINATIONS: [f64; 5] = [0.02, 0.05, 0.1, 0.2, 0.4];
/// m.
pub const MULTIPLIERS: [f64; 5] = [1.0, 2.0, 5.0, 10.0, 20.0];
/// Shares of rows removed in the neural experiment.
pub const REMOVED: [f64; 8] = [0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5];
/// Powers of the studentized update; 0 for the plain one.
pub const POWERS: [f64; 4] = [0.0, 2.0, 3.0, 4.0];
/// Contaminations of the kernel experiment.
pub const KERNEL_CONTAMINATIONS: [f64; 7] = [0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3];

/// Where the data is, and the tables that have been read.
#[derive(Debug)]
pub struct Laboratory {
    data: PathBuf,
    /// Embeddings other than the paper's images.
    embeddings: Option<PathBuf>,
    tables: Mutex<HashMap<&'static str, Arc<Table>>>,
    embedded: Mutex<Option<Arc<Embeddings>>>,
}

impl Laboratory {
    /// Reads data sets from a folder.
    pub fn new(data: &Path, embeddings: Option<&Path>) -> Self {
        let embeddings = embeddings.map(Path::to_owned);
        Self { data: data.to_owned(), embeddings, tables: Mutex::default(), embedded: Mutex::default() }
    }

    fn table(&self, set: &DataSet) -> Result<Arc<Table>, LabError> {
        let mut tables = self.tables.lock().expect("nothing panics here");
        if let Some(table) = tables.get(set.name) {
            return Ok(table.clone());
        }
        let table = Arc::new(set.read(&self.data)?);
        tables.insert(set.name, table.clone());
        Ok(table)
    }

    fn embeddings(&self) -> Result<Arc<Embeddings>, LabError> {
        let mut embedded = self.embedded.lock().expect("nothing panics here");
        if let Some(embeddings) = &*embedded {
            return Ok(embeddings.clone());
        }
        let path = self.embeddings.clone().unwrap_or_else(|| self.data.join(neural::FILE));
        let embeddings = Arc::new(Embeddings::read(&path)?);
        *embedded = Some(embeddings.clone());
        Ok(embeddings)
    }
}

impl Experiment {
    /// All experiments.
    pub const ALL: [Self; 7] =
        [Self::Mcycle, Self::Stars, Self::Blr, Self::Neural, Self::Tabular, Self::Kernel, Self::Synthetic];

    /// Its name, and that of its file of results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Synthetic => "synthetic",
            Self::Tabular => "tabular",
            Self::Kernel => "kernel",
            Self::Neural => "neural",
            Self::Blr => "blr",
            Self::Mcycle => "mcycle",
            Self::Stars => "stars",
        }
    }

    /// Trials of the paper.
    fn trials(self) -> u64 {
        match self {
            Self::Kernel => 20,
            Self::Stars => 1,
            _ => 10,
        }
    }

    fn datasets(self) -> Vec<&'static str> {
        match self {
            Self::Tabular => DATA_SETS.iter().map(|set| set.name).collect(),
            Self::Kernel | Self::Blr => vec!["boston"],
            Self::Synthetic => vec!["synthetic"],
            Self::Neural => vec![EMBEDDINGS],
            Self::Mcycle => vec!["mcycle"],
            Self::Stars => vec!["stars"],
        }
    }

    fn conditions(self) -> Vec<String> {
        let contamination = |share: &f64| format!("contamination={share}");
        match self {
            Self::Tabular | Self::Blr => [0.0, 0.1].iter().map(contamination).collect(),
            Self::Kernel => KERNEL_CONTAMINATIONS.iter().map(contamination).collect(),
            Self::Synthetic => {
                let condition = |support: usize, sigma: f64, rho: f64, m: f64| {
                    format!("support={support};sigma={sigma};contamination={rho};multiplier={m}")
                };
                let Synthetic { support, sigma, contamination, multiplier, .. } = Synthetic::PAPER;
                let weights = SUPPORTS.iter().flat_map(|s| SIGMAS.iter().map(move |sigma| (*s, *sigma)));
                let rows = CONTAMINATIONS.iter().flat_map(|rho| MULTIPLIERS.iter().map(move |m| (*rho, *m)));
                let weights = weights.map(|(s, sigma)| condition(s, sigma, contamination, multiplier));
                let mut all: Vec<String> =
                    weights.chain(rows.map(|(rho, m)| condition(support, sigma, rho, m))).collect();
                // The middle is in both.
                all.sort_unstable();
                all.dedup();
                all
            }
            Self::Neural => {
                let condition = |(ranking, removed): (usize, f64)| format!("ranking={ranking};removed={removed}");
                let rankings = 0..Ranking::ALL.len();
                rankings.flat_map(|ranking| REMOVED.map(|removed| (ranking, removed))).map(condition).collect()
            }
            Self::Mcycle => vec!["wrong=6".to_owned()],
            Self::Stars => {
                let condition = |(giants, power): (usize, f64)| format!("giants={giants};power={power}");
                [0, 4].iter().flat_map(|giants| POWERS.map(|power| (*giants, power))).map(condition).collect()
            }
        }
    }

    fn methods(self) -> Vec<Method> {
        let solvers = |method: fn(Solver) -> Method| Solver::ALL.map(method).to_vec();
        let baselines = |names: &[&str]| -> Vec<Method> { names.iter().map(|name| Method::baseline(name)).collect() };
        match self {
            Self::Tabular => [
                baselines(&["ols", "ridge", "gp", "student_t", "huber"]),
                solvers(Method::per_row),
                solvers(Method::shared),
                vec![Method::Converged, Method::Default],
            ]
            .concat(),
            Self::Kernel => {
                let others = vec![Method::shared(Solver::Em), Method::Converged, Method::Default];
                [baselines(&["gp", "sparse_gp", "student_t", "huber"]), solvers(Method::per_row), others].concat()
            }
            Self::Synthetic => {
                [solvers(Method::per_row), solvers(Method::shared), vec![Method::Oracle, Method::Default]].concat()
            }
            Self::Neural => {
                let ard = [Solver::Mackay, Solver::Em].map(Method::per_row).to_vec();
                [baselines(&["ols", "ridge"]), ard].concat()
            }
            Self::Blr => vec![Method::per_row(Solver::Em), Method::Variational],
            Self::Mcycle => {
                vec![Method::shared(Solver::Em), Method::per_row(Solver::Em), Method::Default]
            }
            Self::Stars => vec![Method::per_row(Solver::Em)],
        }
    }

    /// Trials of a method on a data set: fewer for what is slow.
    fn trials_of(self, method: Method, dataset: &str) -> u64 {
        let is_large = self == Self::Tabular && !SMALL_SETS.contains(&dataset);
        let is_closed_form = |solver: Solver| matches!(solver, Solver::Em | Solver::Mackay | Solver::IrlsL2);
        match (self, method) {
            (Self::Tabular, Method::Baseline(Baseline::Gp { .. })) if is_large => 2,
            (Self::Tabular, Method::Ard { solver: Solver::GradientPrimal, .. }) => {
                if is_large {
                    0
                } else {
                    2
                }
            }
            (Self::Tabular, Method::Ard { solver, .. }) if is_large && !is_closed_form(solver) => 5,
            (Self::Tabular, Method::Default) if is_large => 5,
            (Self::Kernel, Method::Ard { solver: Solver::GradientPrimal, .. }) => 2,
            (Self::Kernel, Method::Default) => 10,
            // The same numbers as the other route.
            (Self::Synthetic, Method::Ard { solver: Solver::GradientPrimal, .. }) => 0,
            _ => self.trials(),
        }
    }

    /// Whether a method can be run here.
    fn takes(self, method: Method) -> bool {
        match self {
            Self::Stars => method == Method::per_row(Solver::Em),
            Self::Synthetic => method != Method::Variational,
            _ => method != Method::Oracle,
        }
    }

    /// What has to be run, the first trials of everything first; nothing if no data set or method asked for is of this
    /// experiment.
    pub fn jobs(self, part: &Part) -> Result<Vec<Job>, LabError> {
        let known: Vec<&str> = Self::ALL.iter().flat_map(|experiment| experiment.datasets()).collect();
        if let Some(name) = part.datasets.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(LabError::UnknownSet { name: name.clone(), known: known.join(", ") });
        }
        let mut datasets = self.datasets();
        datasets.retain(|name| part.datasets.is_empty() || part.datasets.iter().any(|wanted| wanted == name));
        let mut methods: Vec<Method> = part.methods.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
        if methods.is_empty() {
            methods = self.methods();
        }
        methods.retain(|method| self.takes(*method));
        let mut conditions = self.conditions();
        if part.quick {
            self.shorten(&mut datasets, &mut conditions, &mut methods);
        }
        let trials = part.trials.unwrap_or(if part.quick { self.trials().min(2) } else { self.trials() });
        let mut jobs = Vec::new();
        for trial in 0..trials {
            for dataset in &datasets {
                for condition in &conditions {
                    for method in &methods {
                        // More trials than the paper's are for methods that are not slow.
                        let most = self.trials_of(*method, dataset);
                        let job = Job {
                            dataset: part.dataset_name(dataset),
                            condition: condition.clone(),
                            method: method.to_string(),
                            trial,
                        };
                        if (trial < most || most == self.trials()) && !jobs.contains(&job) {
                            jobs.push(job);
                        }
                    }
                }
            }
        }
        Ok(jobs)
    }

    /// Says why there is nothing to run.
    pub fn nothing_to_run(self) -> LabError {
        let methods: Vec<String> = self.methods().iter().map(Method::to_string).collect();
        LabError::NothingToRun {
            experiment: self.name(),
            methods: methods.join(", "),
            datasets: self.datasets().join(", "),
        }
    }

    /// Whether it reads files.
    pub fn needs_data(self) -> bool {
        !matches!(self, Self::Synthetic | Self::Mcycle | Self::Stars)
    }

    /// What results depend on beside the job: settings and seeds. Results of another description are not mixed with these.
    pub fn description(self) -> String {
        let mut text = format!("first seed {FIRST_SEED}\n");
        for solver in Solver::ALL {
            for basis in Basis::ALL {
                for noise in [RowNoise::Shared, RowNoise::PerRow] {
                    let belongs = (basis == Basis::Kernel) == (self == Self::Kernel);
                    if belongs && self != Self::Stars {
                        text.push_str(&format!("{:?}\n", solver.settings(noise, basis)));
                    }
                }
            }
        }
        text
    }

    /// What is left for a quick look.
    fn shorten(self, datasets: &mut Vec<&'static str>, conditions: &mut Vec<String>, methods: &mut Vec<Method>) {
        datasets.retain(|name| !matches!(self, Self::Tabular) || ["boston", "yacht"].contains(name));
        let middle = |condition: &String| match self {
            Self::Kernel => condition.ends_with("=0") || condition.ends_with("=0.2"),
            Self::Synthetic => condition.starts_with("support=10;sigma=0.2") && condition.ends_with("multiplier=10"),
            Self::Neural => condition.ends_with("removed=0") || condition.ends_with("removed=0.2"),
            _ => true,
        };
        conditions.retain(middle);
        let slow = |method: &Method| {
            matches!(method, Method::Ard { solver: Solver::GradientPrimal | Solver::GradientDual | Solver::IrlsL1, .. })
        };
        methods.retain(|method| !slow(method));
    }

    /// Runs a job.
    pub fn measure(self, laboratory: &Laboratory, job: &Job) -> Result<Measures, LabError> {
        let method: Method = job.method.parse()?;
        let seed = FIRST_SEED + job.trial;
        let number = |name: &'static str| {
            job.number(name).ok_or_else(|| LabError::BadCondition { condition: job.condition.clone(), name })
        };
        match self {
            Self::Tabular | Self::Blr | Self::Kernel => {
                let set = DataSet::named(&job.dataset)?;
                let table = laboratory.table(&set)?;
                let make = if self == Self::Kernel { kernel_sample } else { fourier_sample };
                make(&set, &table, number("contamination")?, seed)?.measure(method, seed)
            }
            Self::Synthetic => {
                let design = Synthetic {
                    support: number("support")? as usize,
                    sigma: number("sigma")?,
                    contamination: number("contamination")?,
                    multiplier: number("multiplier")?,
                    ..Synthetic::PAPER
                };
                Draw::new(&design, seed).measure(method, seed)
            }
            Self::Neural => {
                let sample = laboratory.embeddings()?.sample(seed)?;
                let ranking = Ranking::ALL[(number("ranking")? as usize).min(Ranking::ALL.len() - 1)];
                neural::measure(&sample, method, ranking, number("removed")?, seed)
            }
            Self::Mcycle => mcycle::measure(method, seed),
            Self::Stars => stars::measure(number("giants")? > 0.0, number("power")?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_parts() {
        for experiment in Experiment::ALL {
            let all = experiment.jobs(&Part::default()).unwrap();
            let quick = experiment.jobs(&Part { quick: true, ..Part::default() }).unwrap();
            assert!(!quick.is_empty() && quick.iter().all(|job| all.contains(job)), "{experiment:?}");
        }
        let part =
            Part { datasets: vec!["yacht".into()], methods: vec!["em".into()], trials: Some(3), ..Part::default() };
        assert_eq!(Experiment::Tabular.jobs(&part).unwrap().len(), 6);
        let part = |datasets: &[&str], methods: &[&str]| Part {
            datasets: datasets.iter().map(|name| (*name).to_owned()).collect(),
            methods: methods.iter().map(|name| (*name).to_owned()).collect(),
            ..Part::default()
        };
        assert!(Experiment::Stars.jobs(&part(&[], &["huber"])).unwrap().is_empty());
        assert_eq!(Experiment::Tabular.jobs(&part(&["yacht", "yacht"], &["ols", "ols"])).unwrap().len(), 20);
        assert!(Experiment::Tabular.jobs(&part(&["nowhere"], &[])).is_err());
        assert!(Experiment::Tabular.jobs(&part(&[], &["nothing"])).is_err());
    }

    /// The data sets that are called small are.
    #[test]
    fn small_sets_exist() {
        assert!(SMALL_SETS.iter().all(|name| DataSet::named(name).is_ok()));
    }
}
