//! Results in long form: one line per measure of a trial, in a CSV file that grows while an experiment runs and is compressed
//! when the run is over.

use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use robustard::metrics::mean;

use crate::LabError;
use crate::trial::Measures;

const HEADER: &str = "dataset,condition,method,trial,measure,value";

/// What is done once: a method on one sample.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Job {
    /// Where the rows come from.
    pub dataset: String,
    /// What was done to them, as `name=value`, several of them separated by semicolons.
    pub condition: String,
    /// The method's name.
    pub method: String,
    /// Number of the trial, which decides its seed.
    pub trial: u64,
}

impl Job {
    /// The value of a name in the condition.
    pub fn number(&self, name: &str) -> Option<f64> {
        number(&self.condition, name)
    }
}

/// The value of a name in a condition.
pub fn number(condition: &str, name: &str) -> Option<f64> {
    condition.split(';').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

/// Mean, standard deviation and number of the trials of one measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Mean.
    pub mean: f64,
    /// Sample standard deviation; 0 of a single trial.
    pub deviation: f64,
    /// Trials.
    pub trials: usize,
}

impl Summary {
    fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        let centre = mean(values);
        let square: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
        let deviation = if n > 1 { (square / (n - 1) as f64).sqrt() } else { 0.0 };
        (n > 0).then_some(Self { mean: centre, deviation, trials: n })
    }

    /// Standard error of the mean.
    pub fn error(&self) -> f64 {
        self.deviation / (self.trials as f64).sqrt()
    }
}

/// The results of an experiment.
#[derive(Debug, Clone, Default)]
pub struct Results {
    lines: BTreeMap<Job, Vec<(String, f64)>>,
}

impl Results {
    /// Reads the file at `path`, or the compressed one of an earlier run; none if there is neither. A last line that was cut off is
    /// left out.
    pub fn read(path: &Path) -> Result<Self, LabError> {
        let failed = |error| LabError::file(path, error);
        let mut text = String::new();
        if path.exists() {
            text = std::fs::read_to_string(path).map_err(failed)?;
        } else if compressed(path).exists() {
            let file = File::open(compressed(path)).map_err(failed)?;
            GzDecoder::new(file).read_to_string(&mut text).map_err(failed)?;
        }
        let mut results = Self::default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for (number, line) in whole.lines().enumerate().skip(1) {
            let bad = || LabError::BadResults { path: path.display().to_string(), line: number + 1 };
            let fields: Vec<&str> = line.split(',').collect();
            let [dataset, condition, method, trial, measure, value] = fields[..] else { return Err(bad()) };
            let job = Job {
                dataset: dataset.to_owned(),
                condition: condition.to_owned(),
                method: method.to_owned(),
                trial: trial.parse().map_err(|_| bad())?,
            };
            let value = value.parse().map_err(|_| bad())?;
            results.lines.entry(job).or_default().push((measure.to_owned(), value));
        }
        Ok(results)
    }

    /// The jobs that are done.
    pub fn done(&self) -> HashSet<Job> {
        self.lines.keys().cloned().collect()
    }

    /// Keeps what `keep` says.
    pub fn retain(&mut self, keep: impl Fn(&Job) -> bool) {
        self.lines.retain(|job, _| keep(job));
    }

    /// All values of a measure, by trial.
    pub fn values(&self, dataset: &str, condition: &str, method: &str, measure: &str) -> Vec<f64> {
        self.lines
            .iter()
            .filter(|(job, _)| job.dataset == dataset && job.condition == condition && job.method == method)
            .filter_map(|(_, measures)| measures.iter().find(|(name, _)| name == measure))
            .map(|(_, value)| *value)
            .collect()
    }

    /// The values of a measure of one job.
    pub fn values_of(&self, job: &Job, measure: &str) -> Vec<f64> {
        let measures = self.lines.get(job).into_iter().flatten();
        measures.filter(|(name, _)| name == measure).map(|(_, value)| *value).collect()
    }

    /// A measure over its trials.
    pub fn summary(&self, dataset: &str, condition: &str, method: &str, measure: &str) -> Option<Summary> {
        Summary::of(&self.values(dataset, condition, method, measure))
    }

    /// Means of a measure of two methods over the trials that both have.
    pub fn paired(&self, dataset: &str, condition: &str, methods: [&str; 2], measure: &str) -> Option<[f64; 2]> {
        let of = |method: &str| -> BTreeMap<u64, f64> {
            self.lines
                .iter()
                .filter(|(job, _)| job.dataset == dataset && job.condition == condition && job.method == method)
                .filter_map(|(job, measures)| Some((job.trial, measures.iter().find(|(name, _)| name == measure)?.1)))
                .collect()
        };
        let [a, b] = methods.map(of);
        let (first, second): (Vec<f64>, Vec<f64>) =
            a.iter().filter_map(|(trial, value)| Some((*value, *b.get(trial)?))).unzip();
        (!first.is_empty()).then(|| [mean(&first), mean(&second)])
    }

    /// The mean of a measure.
    pub fn mean(&self, dataset: &str, condition: &str, method: &str, measure: &str) -> Option<f64> {
        self.summary(dataset, condition, method, measure).map(|summary| summary.mean)
    }

    /// The sum of a measure over all jobs.
    pub fn total(&self, measure: &str) -> f64 {
        let measures = self.lines.values().flatten();
        measures.filter(|(name, _)| name == measure).map(|(_, value)| value).sum()
    }

    /// Fewest and most trials of a method over data sets and conditions.
    pub fn trial_range(&self, method: &str) -> Option<(usize, usize)> {
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for job in self.lines.keys().filter(|job| job.method == method) {
            *counts.entry((&job.dataset, &job.condition)).or_default() += 1;
        }
        Some((*counts.values().min()?, *counts.values().max()?))
    }

    /// Data sets, conditions and methods that occur, each once and in the order of `of`'s values.
    fn distinct(&self, of: impl Fn(&Job) -> &str) -> Vec<String> {
        let mut found: Vec<String> = self.lines.keys().map(|job| of(job).to_owned()).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Data sets that occur.
    pub fn datasets(&self) -> Vec<String> {
        self.distinct(|job| &job.dataset)
    }

    /// Conditions that occur.
    pub fn conditions(&self) -> Vec<String> {
        self.distinct(|job| &job.condition)
    }

    /// Methods that occur.
    pub fn methods(&self) -> Vec<String> {
        self.distinct(|job| &job.method)
    }

    /// Adds the measures of a job.
    pub fn add(&mut self, job: &Job, measures: &Measures) {
        let measures = measures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        self.lines.insert(job.clone(), measures);
    }

    /// The file's text, in an order that does not depend on which job ended first.
    pub fn text(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for (job, measures) in &self.lines {
            text.push_str(&lines(job, measures.iter().map(|(name, value)| (name.as_str(), *value))));
        }
        text
    }
}

fn lines<'a>(job: &Job, measures: impl Iterator<Item = (&'a str, f64)>) -> String {
    let Job { dataset, condition, method, trial } = job;
    measures.map(|(name, value)| format!("{dataset},{condition},{method},{trial},{name},{value}\n")).collect()
}

/// Where the results of a run that is over are: `NAME.csv.gz`.
pub fn compressed(path: &Path) -> PathBuf {
    path.with_extension("csv.gz")
}

/// A file that results are added to, a whole job at a time.
#[derive(Debug)]
pub struct ResultsFile {
    path: PathBuf,
    file: File,
}

impl ResultsFile {
    /// Opens a file for what comes after `results`, which are all that it will hold at first.
    pub fn create(path: &Path, results: &Results) -> Result<Self, LabError> {
        let failed = |error| LabError::file(path, error);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let new = path.with_extension("csv.new");
        std::fs::write(&new, results.text()).map_err(failed)?;
        std::fs::rename(&new, path).map_err(failed)?;
        let file = OpenOptions::new().append(true).open(path).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Compresses results that nothing is added to for now; the plain file is gone then.
    pub fn finish(path: &Path, results: &Results) -> Result<(), LabError> {
        let failed = |error| LabError::file(path, error);
        let new = path.with_extension("gz.new");
        let mut encoder = GzEncoder::new(File::create(&new).map_err(failed)?, Compression::best());
        encoder.write_all(results.text().as_bytes()).and_then(|()| encoder.finish()).map_err(failed)?;
        std::fs::rename(&new, compressed(path)).map_err(failed)?;
        if path.exists() { std::fs::remove_file(path).map_err(failed) } else { Ok(()) }
    }

    /// Adds a job.
    pub fn add(&mut self, job: &Job, measures: &Measures) -> Result<(), LabError> {
        let text = lines(job, measures.iter().copied());
        self.file.write_all(text.as_bytes()).map_err(|error| LabError::file(&self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(trial: u64) -> Job {
        let [dataset, condition, method] = ["yacht", "contamination=0.1;m=3", "em"].map(str::to_owned);
        Job { dataset, condition, method, trial }
    }

    #[test]
    fn results_come_back_even_when_the_end_is_cut_off() {
        let folder = std::env::temp_dir().join(format!("robustard-results-{}", std::process::id()));
        let path = folder.join("a.csv");
        let mut file = ResultsFile::create(&path, &Results::default()).unwrap();
        for (trial, value) in [(0, 1.0), (1, 4.0)] {
            file.add(&job(trial), &vec![("rmse", value), ("nll", 0.1 + 0.2)]).unwrap();
        }
        let results = Results::read(&path).unwrap();
        let summary = results.summary("yacht", "contamination=0.1;m=3", "em", "rmse").unwrap();
        assert_eq!((summary.mean, summary.trials), (2.5, 2));
        assert!((summary.error() - 1.5).abs() < 1e-12);
        assert_eq!(results.values("yacht", "contamination=0.1;m=3", "em", "nll"), [0.1 + 0.2; 2]);
        assert_eq!(job(0).number("m"), Some(3.0));
        let other = Job { method: "gp".to_owned(), ..job(1) };
        file.add(&other, &vec![("rmse", 7.0)]).unwrap();
        let results = Results::read(&path).unwrap();
        assert_eq!(results.paired("yacht", "contamination=0.1;m=3", ["em", "gp"], "rmse"), Some([4.0, 7.0]));
        assert_eq!(results.paired("yacht", "contamination=0.1;m=3", ["em", "ols"], "rmse"), None);
        let text = std::fs::read_to_string(&path).unwrap();
        ResultsFile::finish(&path, &results).unwrap();
        assert!(!path.exists());
        assert_eq!(Results::read(&path).unwrap().text(), results.text());
        // What is being added to counts, not what was compressed before.
        std::fs::write(&path, &text[..text.len() - 4]).unwrap();
        let cut = Results::read(&path).unwrap();
        assert!(cut.values("yacht", "contamination=0.1;m=3", "gp", "rmse").is_empty());
        assert_eq!(cut.values("yacht", "contamination=0.1;m=3", "em", "nll").len(), 2);
        std::fs::write(&path, "a,b\nc\n").unwrap();
        assert!(Results::read(&path).unwrap_err().to_string().contains("line 2"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
