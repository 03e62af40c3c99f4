//! The paper's tabular protocol: 80% of the rows for training, at most 2000 of them; a share of the training targets moved by
//! ±3·N(1, 0.25²) standard deviations, or made wrong in other ways; tested on the other rows, whose targets are as they were.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use faer::Mat;
use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use robustard_table::samples::make_wrong;
use robustard_table::{ReadOptions, Table, read, write};

use crate::LabError;
use crate::trial::moments;

/// Most training rows in the paper.
pub const MOST_TRAINING_ROWS: usize = 2000;

/// A data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataSet {
    /// Its name, and that of its file.
    pub name: &'static str,
    /// Its target. The paper regresses F1 of protein on the other columns.
    pub target: &'static str,
    is_compressed: bool,
    /// The folder in the data folder; none for a set that is made.
    folder: Option<&'static str>,
}

/// Friedman's first function of 5 of 20 inputs, with noise of standard deviation 1: tables of any size. Test targets are without noise.
pub const FRIEDMAN: DataSet = DataSet { name: "friedman", target: "y", is_compressed: false, folder: None };
/// Inputs of Friedman's function, and test rows.
const FRIEDMAN_INPUTS: usize = 20;
const FRIEDMAN_TEST_ROWS: usize = 10_000;

/// The nine sets of the paper.
pub const DATA_SETS: [DataSet; 9] = [
    DataSet::of_paper("boston", "medv", false),
    DataSet::of_paper("carbon", "u_calc", false),
    DataSet::of_paper("concrete", "strength", false),
    DataSet::of_paper("elevators", "Goal", true),
    DataSet::of_paper("energy", "heating_load", false),
    DataSet::of_paper("kin8nm", "y", true),
    DataSet::of_paper("power", "PE", false),
    DataSet::of_paper("protein", "F1", true),
    DataSet::of_paper("yacht", "residuary_resistance", false),
];

/// Ten more, of kinds that the nine lack.
pub const SUITE: [DataSet; 10] = [
    DataSet::of_suite("ailerons", "class", true),
    DataSet::of_suite("autompg", "y", false),
    DataSet::of_suite("autos", "y", false),
    DataSet::of_suite("house_8L", "class", true),
    DataSet::of_suite("machine_cpu", "perf", false),
    DataSet::of_suite("pol", "y", true),
    DataSet::of_suite("puma32H", "class", true),
    DataSet::of_suite("skillcraft", "y", true),
    DataSet::of_suite("solar", "y", false),
    DataSet::of_suite("wine", "y", false),
];

impl DataSet {
    const fn of_paper(name: &'static str, target: &'static str, is_compressed: bool) -> Self {
        Self { name, target, is_compressed, folder: Some("") }
    }

    const fn of_suite(name: &'static str, target: &'static str, is_compressed: bool) -> Self {
        Self { name, target, is_compressed, folder: Some("suite") }
    }

    /// The sets of this name: `paper` is nine of them, `suite` ten more, `all` both.
    pub fn several(name: &str) -> Result<Vec<Self>, LabError> {
        Ok(match name {
            "paper" => DATA_SETS.to_vec(),
            "suite" => SUITE.to_vec(),
            "all" => [DATA_SETS.to_vec(), SUITE.to_vec()].concat(),
            name => vec![Self::named(name)?],
        })
    }

    /// The set of this name.
    pub fn named(name: &str) -> Result<Self, LabError> {
        let all = || DATA_SETS.into_iter().chain(SUITE).chain([FRIEDMAN]);
        let known = || all().map(|set| set.name).collect::<Vec<_>>().join(", ");
        let found = all().find(|set| set.name == name);
        found.ok_or_else(|| LabError::UnknownSet { name: name.to_owned(), known: known() })
    }

    /// Reads the set from the data folder.
    pub fn read(&self, folder: &Path) -> Result<Table, LabError> {
        let end = if self.is_compressed { ".csv.gz" } else { ".csv" };
        let file = folder.join(self.folder.unwrap_or("")).join(format!("{}{end}", self.name));
        Ok(read(&file, &ReadOptions::default())?)
    }

    /// What makes splits of the set, given the most training rows, the damage and a seed.
    pub fn splitter(self, folder: &Path) -> Result<impl Fn(usize, Damage, u64) -> Result<Split, LabError>, LabError> {
        let table = if self.folder.is_some() { Some(self.read(folder)?) } else { None };
        Ok(move |rows, damage, seed| match &table {
            Some(table) => Split::new(&self, table, rows, damage, seed),
            None => Ok(Split::of_friedman(rows, damage, seed)),
        })
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

/// What is wrong with some of the training targets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Damage {
    /// In what way.
    pub kind: DamageKind,
    /// Share of the rows.
    pub share: f64,
}

/// In what way targets are wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageKind {
    /// Moved up or down by about three standard deviations: the paper's.
    Shifted,
    /// Moved up by as much.
    OneSided,
    /// Exchanged among themselves.
    Swapped,
    /// In another unit: times ten.
    Unit,
}

impl Damage {
    /// The paper's.
    pub fn shifted(share: f64) -> Self {
        Self { kind: DamageKind::Shifted, share }
    }

    /// Makes some targets wrong; gives back which, in order.
    fn apply(self, target: &mut [f64], rng: &mut ChaCha8Rng) -> Vec<usize> {
        let count = (self.share * target.len() as f64) as usize;
        if self.kind == DamageKind::Shifted {
            return make_wrong(target, count, rng);
        }
        let (_, deviation) = moments(target);
        let mut wrong = sample(rng, target.len(), count).into_vec();
        match self.kind {
            DamageKind::Shifted => {}
            DamageKind::OneSided => {
                for &row in &wrong {
                    target[row] += 3.0 * deviation * (1.0 + 0.25 * rng.sample::<f64, _>(StandardNormal));
                }
            }
            DamageKind::Swapped => {
                let before: Vec<f64> = wrong.iter().map(|&row| target[row]).collect();
                wrong.iter().enumerate().for_each(|(k, &row)| target[row] = before[(k + 1) % before.len()]);
            }
            DamageKind::Unit => wrong.iter().for_each(|&row| target[row] *= 10.0),
        }
        wrong.sort_unstable();
        wrong
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            _ if self.share == 0.0 => return f.write_str("clean"),
            DamageKind::Shifted => "shifted",
            DamageKind::OneSided => "one-sided",
            DamageKind::Swapped => "swapped",
            DamageKind::Unit => "unit",
        };
        write!(f, "{name}:{}", self.share)
    }
}

impl FromStr for Damage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, share) = text.split_once(':').map_or((text, None), |(name, share)| (name, Some(share)));
        let (kind, usual) = match name {
            "clean" => (DamageKind::Shifted, 0.0),
            "shifted" => (DamageKind::Shifted, 0.1),
            "one-sided" => (DamageKind::OneSided, 0.15),
            "swapped" => (DamageKind::Swapped, 0.15),
            "unit" => (DamageKind::Unit, 0.1),
            _ => {
                return Err(
                    "give clean, shifted, one-sided, swapped or unit, with a share such as shifted:0.2".to_owned()
                );
            }
        };
        let share = share.map_or(Ok(usual), |share| share.parse().map_err(|_| format!("{share} is no share")))?;
        if !(0.0..0.5).contains(&share) {
            return Err(format!("{share} makes no sense; give shares from 0 to 0.5"));
        }
        Ok(Self { kind, share })
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
    /// Splits a set, takes at most so many training rows and makes a share of their targets wrong.
    pub fn new(set: &DataSet, table: &Table, most_rows: usize, damage: Damage, seed: u64) -> Result<Self, LabError> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let n = table.row_count();
        let order = sample(&mut rng, n, n).into_vec();
        let (train, test) = order.split_at(n * 4 / 5);
        let train = table.take(&train[..train.len().min(most_rows)]);
        let mut target = set.targets(&train)?;
        let scale = moments(&target);
        let wrong = damage.apply(&mut target, &mut rng);
        let train = train.with_columns(vec![(set.target.to_owned(), Table::number_column(target))]);
        let test = table.take(test);
        let test_target = set.targets(&test)?;
        Ok(Self { train, wrong, test, test_target, scale })
    }

    /// So many training rows of Friedman's function, some of them wrong.
    fn of_friedman(rows: usize, damage: Damage, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = |rows: usize| -> Vec<Vec<f64>> {
            (0..FRIEDMAN_INPUTS).map(|_| (0..rows).map(|_| rng.random::<f64>()).collect()).collect()
        };
        let [train, test] = [rows, FRIEDMAN_TEST_ROWS].map(&mut draw);
        let value = |x: &[Vec<f64>], row: usize| {
            let waves = 10.0 * (std::f64::consts::PI * x[0][row] * x[1][row]).sin();
            waves + 20.0 * (x[2][row] - 0.5).powi(2) + 10.0 * x[3][row] + 5.0 * x[4][row]
        };
        let test_target: Vec<f64> = (0..FRIEDMAN_TEST_ROWS).map(|row| value(&test, row)).collect();
        let noisy = |row: usize| value(&train, row) + rng.sample::<f64, _>(StandardNormal);
        let mut target: Vec<f64> = (0..rows).map(noisy).collect();
        let scale = moments(&target);
        let wrong = damage.apply(&mut target, &mut rng);
        let table = |inputs: Vec<Vec<f64>>, target: Vec<f64>| {
            let inputs = inputs.into_iter().enumerate().map(|(j, values)| (format!("x{j}"), values));
            let columns = inputs.chain([(FRIEDMAN.target.to_owned(), target)]);
            Table::from_columns(columns.map(|(name, values)| (name, Table::number_column(values))).collect())
        };
        Self { train: table(train, target), wrong, test: table(test, test_target.clone()), test_target, scale }
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
