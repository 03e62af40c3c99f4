//! The paper's neural linear model: a linear layer on fixed image embeddings, counts of people with wrong labels in crowded scenes,
//! refitted without the rows that look worst.

use std::borrow::Cow;
use std::path::Path;

use faer::Mat;
use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use robustard::Standardizer;
use robustard_table::{ReadOptions, Table, read};

use crate::LabError;
use crate::method::{Basis, Method};
use crate::trial::{Measures, Sample, moments};

/// The file of embeddings in the data folder.
pub const FILE: &str = "shanghaitech_b_efflite0.parquet";
/// Shares of the high-count pool among the rows and of wrong rows in the pool, and the wrong labels' deviation in log space.
const POOL: f64 = 0.4;
const WRONG: f64 = 0.5;
const DEVIATION: f64 = 0.45;
const TARGET: &str = "target";

/// By what rows are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranking {
    /// By what the method doubts in the fit of all rows.
    Learnt,
    /// The wrong rows first.
    Oracle,
    /// At random.
    Random,
}

impl Ranking {
    /// By its number in a condition.
    pub const ALL: [Self; 3] = [Self::Learnt, Self::Oracle, Self::Random];
}

/// Embeddings and log counts.
#[derive(Debug, Clone)]
pub struct Embeddings {
    columns: Vec<Vec<f64>>,
    /// z = log(1 + count).
    log_count: Vec<f64>,
}

impl Embeddings {
    /// Reads a table with a `target` column of counts; all other columns of numbers but `id` are embeddings.
    pub fn read(path: &Path) -> Result<Self, LabError> {
        Self::new(&read(path, &ReadOptions::default())?)
    }

    fn new(table: &Table) -> Result<Self, LabError> {
        let counts = table.role(TARGET, "the target")?;
        let mut columns = Vec::new();
        for name in table.names().iter().filter(|name| *name != TARGET && *name != "id") {
            columns.extend(table.numbers(name)?.map(Cow::into_owned));
        }
        Ok(Self { columns, log_count: counts.iter().map(|count| count.ln_1p()).collect() })
    }

    /// 80% of the rows for training, some of their labels made wrong.
    pub fn sample(&self, seed: u64) -> Result<Sample, LabError> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let n = self.log_count.len();
        let order = sample(&mut rng, n, n).into_vec();
        let (train, test) = order.split_at(n * 4 / 5);
        let part = |rows: &[usize]| Mat::from_fn(rows.len(), self.columns.len(), |i, j| self.columns[j][rows[i]]);
        let standard = Standardizer::fit(part(train).as_ref());
        let inputs = [train, test].map(|rows| standard.transform(part(rows).as_ref()));
        let mut z: Vec<f64> = train.iter().map(|&row| self.log_count[row]).collect();
        let scale = moments(&z);
        let mut by_count: Vec<usize> = (0..z.len()).collect();
        by_count.sort_by(|a, b| z[*b].total_cmp(&z[*a]));
        let pool = (POOL * z.len() as f64) as usize;
        let chosen = sample(&mut rng, pool, (WRONG * pool as f64) as usize);
        let mut wrong: Vec<usize> = chosen.into_iter().map(|place| by_count[place]).collect();
        wrong.sort_unstable();
        for &row in &wrong {
            z[row] += DEVIATION * rng.sample::<f64, _>(StandardNormal);
        }
        let target = z.iter().map(|z| (z - scale.0) / scale.1).collect();
        let test_target = test.iter().map(|&row| self.log_count[row]).collect();
        Ok(Sample { design: inputs.clone(), basis: Basis::Features, inputs, target, test_target, scale, wrong })
    }
}

/// The method on the rows that are left when the share `removed` with the worst ranking is not there.
pub fn measure(
    sample: &Sample,
    method: Method,
    ranking: Ranking,
    removed: f64,
    seed: u64,
) -> Result<Measures, LabError> {
    let n = sample.target.len();
    let count = (removed * n as f64).round() as usize;
    if count == 0 {
        return sample.measure(method, seed);
    }
    // Ties in a random order.
    let mut order = rand::seq::index::sample(&mut ChaCha8Rng::seed_from_u64(seed ^ 0x5eed), n, n).into_vec();
    match ranking {
        Ranking::Random => {}
        Ranking::Oracle => order.sort_by_key(|row| sample.wrong.binary_search(row).is_err()),
        Ranking::Learnt => {
            let doubt = sample.doubt(method, seed)?;
            order.sort_by(|a, b| doubt[*b].total_cmp(&doubt[*a]));
        }
    }
    let gone = &order[..count];
    let found = gone.iter().filter(|row| sample.wrong.binary_search(row).is_ok()).count();
    let mut kept: Vec<usize> = order[count..].to_vec();
    kept.sort_unstable();
    let mut measures = vec![("removed_wrong", found as f64 / count as f64)];
    measures.extend(sample.rows(&kept).measure(method, seed)?);
    Ok(measures)
}
