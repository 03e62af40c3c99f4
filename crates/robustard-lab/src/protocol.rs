//! The paper's tabular protocol: 80% of the rows for training, at most 2000 of them; a share of the training targets moved by
//! ±3·N(1, 0.25²) standard deviations; tested on the other rows, whose targets are as they were.

use std::borrow::Cow;
use std::path::Path;

use faer::Mat;
use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;
use robustard_table::samples::make_wrong;
use robustard_table::{ReadOptions, Table, read, write};

use crate::LabError;
use crate::trial::moments;

const MOST_TRAINING_ROWS: usize = 2000;

/// A data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataSet {
    /// Its name, and that of its file.
    pub name: &'static str,
    /// Its target. The paper regresses F1 of protein on the other columns.
    pub target: &'static str,
    is_compressed: bool,
}

/// The nine sets of the paper.
pub const DATA_SETS: [DataSet; 9] = [
    DataSet { name: "boston", target: "medv", is_compressed: false },
    DataSet { name: "carbon", target: "u_calc", is_compressed: false },
    DataSet { name: "concrete", target: "strength", is_compressed: false },
    DataSet { name: "elevators", target: "Goal", is_compressed: true },
    DataSet { name: "energy", target: "heating_load", is_compressed: false },
    DataSet { name: "kin8nm", target: "y", is_compressed: true },
    DataSet { name: "power", target: "PE", is_compressed: false },
    DataSet { name: "protein", target: "F1", is_compressed: true },
    DataSet { name: "yacht", target: "residuary_resistance", is_compressed: false },
];

impl DataSet {
    /// The set of this name.
    pub fn named(name: &str) -> Result<Self, LabError> {
        let known = || DATA_SETS.map(|set| set.name).join(", ");
        let found = DATA_SETS.into_iter().find(|set| set.name == name);
        found.ok_or_else(|| LabError::UnknownSet { name: name.to_owned(), known: known() })
    }

    /// Reads the set from the data folder.
    pub fn read(&self, folder: &Path) -> Result<Table, LabError> {
        let end = if self.is_compressed { ".csv.gz" } else { ".csv" };
        Ok(read(&folder.join(format!("{}{end}", self.name)), &ReadOptions::default())?)
    }

    /// The inputs of a table of this set: n × p, all columns but the target.
    pub fn inputs(&self, table: &Table) -> Result<Mat<f64>, LabError> {
        let names: Vec<String> = table.names().into_iter().filter(|name| name != self.target).collect();
        let columns: Vec<Cow<'_, [f64]>> =
            names.iter().map(|name| table.role(name, "a feature")).collect::<Result<_, _>>()?;
        Ok(Mat::from_fn(table.row_count(), columns.len(), |i, j| columns[j][i]))
    }

    /// The targets of a table of this set.
    pub fn targets(&self, table: &Table) -> Result<Vec<f64>, LabError> {
        Ok(table.role(self.target, "the target")?.into_owned())
    }
}

/// Training and test rows of one seed.
#[derive(Debug, Clone)]
pub struct Split {
    /// Training rows, some of them wrong.
    pub train: Table,
    /// The wrong ones.
    pub wrong: Vec<usize>,
    /// Test rows.
    pub test: Table,
    /// Their targets.
    pub test_target: Vec<f64>,
    /// Mean and standard deviation of the training targets before some were made wrong.
    pub scale: (f64, f64),
}

impl Split {
    /// Splits a set and makes a share of the training targets wrong.
    pub fn new(set: &DataSet, table: &Table, contamination: f64, seed: u64) -> Result<Self, LabError> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let n = table.row_count();
        let order = sample(&mut rng, n, n).into_vec();
        let (train, test) = order.split_at(n * 4 / 5);
        let train = table.take(&train[..train.len().min(MOST_TRAINING_ROWS)]);
        let mut target = set.targets(&train)?;
        let scale = moments(&target);
        let count = (contamination * target.len() as f64) as usize;
        let wrong = make_wrong(&mut target, count, &mut rng);
        let train = train.with_columns(vec![(set.target.to_owned(), Table::number_column(target))]);
        let test = table.take(test);
        let test_target = set.targets(&test)?;
        Ok(Self { train, wrong, test, test_target, scale })
    }

    /// Writes training and test rows as CSV files with the target last.
    pub fn write(&self, set: &DataSet, folder: &Path, name: &str) -> Result<(), LabError> {
        let target_last = |table: &Table| -> Result<Table, LabError> {
            let mut names = table.names();
            names.retain(|name| name != set.target);
            names.push(set.target.to_owned());
            let columns = names.into_iter().map(|name| table.column(&name).cloned().map(|column| (name, column)));
            Ok(Table::from_columns(columns.collect::<Result<_, _>>()?))
        };
        for (part, table) in [("train", &self.train), ("test", &self.test)] {
            let path = folder.join(format!("{name}-{part}.csv"));
            write(&target_last(table)?, &path)?;
        }
        Ok(())
    }

    /// The training rows that are not wrong.
    pub fn clean(&self) -> Table {
        let rows: Vec<usize> =
            (0..self.train.row_count()).filter(|row| self.wrong.binary_search(row).is_err()).collect();
        self.train.take(&rows)
    }
}
