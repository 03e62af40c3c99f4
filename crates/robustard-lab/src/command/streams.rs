//! Fits by passes over files against fits in memory.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use robustard::features::Lengthscale;
use robustard::{Choice, Control, Options, Recipe, Regression};
use robustard_lab::protocol::{Damage, DataSet, Split};
use robustard_table::{
    EncodeOptions, Input, ReadOptions, StreamOptions, Table, TableModel, fit_stream, model_to_bytes, sources, write,
};

use crate::{Ending, Outcome};

/// Coefficients of both are as near to each other as this, in posterior standard deviations, and objectives as a part of themselves.
const COEFFICIENTS: f64 = 1e-3;
const OBJECTIVE: f64 = 1e-6;
/// A fit in memory goes to this tolerance.
const TOLERANCE: f64 = 1e-10;
const ITERATIONS: usize = 20_000;
/// Files of the same rows, which all have to end in the same bytes.
const FILES: [usize; 3] = [1, 2, 5];

/// Options of `streams`.
#[derive(Args)]
pub struct Streams {
    /// The folder with the data sets
    #[arg(long, value_name = "DIR", env = "ROBUSTARD_DATA")]
    data: PathBuf,
    /// Only these sets; `paper` is the nine of the paper, `suite` ten more, `all` both
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "all")]
    sets: Vec<String>,
    /// Features
    #[arg(long, value_delimiter = ',', default_value = "linear,rff:64")]
    features: Vec<String>,
    /// Noise models
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "shared,student-t:4,student-t:learned,contaminated,contaminated-t"
    )]
    noise: Vec<String>,
    /// Most rows
    #[arg(long, default_value_t = 8000)]
    rows: usize,
}

impl Streams {
    /// Runs and prints.
    pub fn run(&self) -> Outcome<Ending> {
        let sets: Vec<Vec<DataSet>> = self.sets.iter().map(|name| DataSet::several(name)).collect::<Result<_, _>>()?;
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "{:12} {:8} {:18} {:>6} {:>6} {:>6} {:>12} {:>12}  same bytes from {FILES:?} files",
            "set", "features", "noise", "rows", "passes", "iter.", "weights/s.d.", "objective"
        )?;
        let (mut count, mut near, mut no_worse) = (0, 0, 0);
        for set in sets.concat() {
            let split = set.splitter(&self.data)?(self.rows, Damage::shifted(0.1), 0)?;
            for features in &self.features {
                for noise in &self.noise {
                    let found = compare(&set, &split, features, noise)?;
                    let is_near = found.weights < COEFFICIENTS && found.objective.abs() < OBJECTIVE;
                    count += 1;
                    near += usize::from(is_near);
                    no_worse += usize::from(found.objective < OBJECTIVE);
                    writeln!(
                        out,
                        "{:12} {features:8} {noise:18} {:>6} {:>6} {:>6} {:>12.1e} {:>+12.1e}  {}{}",
                        set.name,
                        found.rows,
                        found.passes,
                        found.iterations,
                        found.weights,
                        found.objective,
                        if found.is_same { "yes" } else { "NO" },
                        if is_near { "" } else { "  <<" }
                    )?;
                    out.flush()?;
                }
            }
        }
        writeln!(
            out,
            "{near} of {count} within {COEFFICIENTS:e} posterior s.d. and {OBJECTIVE:e} of the objective; {no_worse} of {count} objectives no worse"
        )?;
        Ok(Ending::Done)
    }
}

/// How a streamed fit differs from one in memory.
struct Found {
    rows: usize,
    passes: usize,
    iterations: usize,
    /// Largest difference of weights in posterior standard deviations; of predictions where features overlap.
    weights: f64,
    /// Difference of the objective as a part of it.
    objective: f64,
    is_same: bool,
}

fn compare(set: &DataSet, split: &Split, features: &str, noise: &str) -> Outcome<Found> {
    let is_linear = features == "linear";
    let options = Options {
        features: Some(Choice::Given(features.parse()?)),
        noise: Some(noise.parse()?),
        lengthscale: if is_linear { None } else { Some(Lengthscale::Usual) },
        tolerance: Some(TOLERANCE),
        max_iterations: Some(ITERATIONS),
        ..Options::default()
    };
    let columns = EncodeOptions::new(set.target);
    let recipe = options.recipe()?;
    let folder = std::env::temp_dir().join(format!("robustard-streams-{}", std::process::id()));
    let streamed = FILES.iter().map(|&files| stream(&split.train, files, &folder, &columns, &recipe));
    let streamed: Outcome<Vec<TableModel>> = streamed.collect();
    let _ = std::fs::remove_dir_all(&folder);
    let streamed = streamed?;
    let bytes: Vec<Vec<u8>> = streamed.iter().map(model_to_bytes).collect::<Result<_, _>>()?;
    let memory = TableModel::fit(&split.train, &columns, &recipe, &Control::new())?.model;
    let [own, other] = [streamed[0].regression(), memory.regression()];
    let [a, b] = [own, other].map(|regression| regression.model().outcome().objective);
    Ok(Found {
        rows: split.train.row_count(),
        passes: own.whole().map_or(0, |whole| whole.passes),
        iterations: other.model().outcome().evaluations,
        weights: if is_linear { weights_apart(own, other) } else { predictions_apart(&streamed[0], &memory, split)? },
        objective: (a - b) / b.abs(),
        is_same: bytes.windows(2).all(|pair| pair[0] == pair[1]),
    })
}

/// The largest difference of standardized weights, in posterior standard deviations; those of columns that are all but dropped are nearly 0.
fn weights_apart(own: &Regression, other: &Regression) -> f64 {
    let [a, b] = [own, other].map(|regression| regression.model().coefficients());
    let deviation = other.model().standard_errors();
    let least = 1e-3 * deviation.iter().copied().fold(0.0, f64::max);
    let off = a.iter().zip(b).zip(deviation).map(|((a, b), deviation)| (a - b).abs() / deviation.max(least));
    off.fold(0.0, f64::max)
}

/// The largest difference of predictions of test rows in posterior standard deviations.
fn predictions_apart(own: &TableModel, other: &TableModel, split: &Split) -> Outcome<f64> {
    let predict = |model: &TableModel| model.predict(&split.test, &Control::new()).map(|predicted| predicted.values);
    let (a, b) = (predict(own)?, predict(other)?);
    let off = a.mean.iter().zip(&b.mean).zip(&b.latent_variance);
    Ok(off.map(|((a, b), variance)| (a - b).abs() / variance.sqrt()).fold(0.0, f64::max))
}

/// A fit to the rows in so many files.
fn stream(table: &Table, files: usize, folder: &Path, columns: &EncodeOptions, recipe: &Recipe) -> Outcome<TableModel> {
    let folder = folder.join(files.to_string());
    std::fs::create_dir_all(&folder)?;
    let rows = table.row_count();
    let ends: Vec<usize> = (0..=files).map(|file| rows * file / files).collect();
    for (file, ends) in ends.windows(2).enumerate() {
        let part: Vec<usize> = (ends[0]..ends[1]).collect();
        write(&table.take(&part), &folder.join(format!("{file}.arrow")))?;
    }
    let files = sources(&[folder])?;
    let (reading, options) = (ReadOptions::default(), StreamOptions::default());
    Ok(fit_stream(Input::Files(&files), &reading, columns, recipe, &Control::new(), &options, None)?.model)
}
