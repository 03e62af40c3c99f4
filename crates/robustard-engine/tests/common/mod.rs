//! Problems that tests and benchmarks share.
#![allow(dead_code)] // each user takes what it needs

use std::io::Read;
use std::path::PathBuf;

use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use robustard_engine::Problem;
use robustard_engine::faer::Mat;

pub fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

pub fn normal(rng: &mut ChaCha8Rng) -> f64 {
    rng.sample(StandardNormal)
}

pub fn gaussian_matrix(rows: usize, columns: usize, rng: &mut ChaCha8Rng) -> Mat<f64> {
    let values: Vec<f64> = (0..rows * columns).map(|_| normal(rng)).collect();
    Mat::from_fn(rows, columns, |i, j| values[i * columns + j])
}

/// The paper's synthetic design: sparse weights, Gaussian features, a share of rows with inflated noise.
#[derive(Clone, Copy)]
pub struct Synthetic {
    pub rows: usize,
    pub columns: usize,
    pub support: usize,
    pub sigma: f64,
    pub contamination: f64,
    pub multiplier: f64,
}

pub struct SyntheticData {
    pub x: Mat<f64>,
    pub y: Vec<f64>,
    pub theta: Vec<f64>,
    pub support: Vec<usize>,
    pub outliers: Vec<usize>,
}

impl Synthetic {
    /// n = 500, d = 50, |S| = 10, σ = 0.2, ρ = 0.2, m = 10.
    pub const PAPER: Synthetic =
        Synthetic { rows: 500, columns: 50, support: 10, sigma: 0.2, contamination: 0.2, multiplier: 10.0 };

    pub fn draw(&self, seed: u64) -> SyntheticData {
        let mut rng = rng(seed);
        let x = gaussian_matrix(self.rows, self.columns, &mut rng);
        let support = sample(&mut rng, self.columns, self.support).into_vec();
        let mut theta = vec![0.0; self.columns];
        support.iter().for_each(|&j| theta[j] = normal(&mut rng));
        let outlier_count = (self.contamination * self.rows as f64) as usize;
        let outliers = sample(&mut rng, self.rows, outlier_count).into_vec();
        let mut sigma = vec![self.sigma; self.rows];
        outliers.iter().for_each(|&i| sigma[i] *= self.multiplier);
        let y = (0..self.rows)
            .map(|i| (0..self.columns).map(|j| x[(i, j)] * theta[j]).sum::<f64>() + sigma[i] * normal(&mut rng))
            .collect();
        SyntheticData { x, y, theta, support, outliers }
    }

    pub fn problem(&self, seed: u64) -> Problem<'static> {
        let data = self.draw(seed);
        Problem::new(data.x.as_ref(), &data.y).unwrap()
    }
}

/// Runs `work` on one thread.
pub fn on_one_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(work)
}

/// Means and standard deviations of columns.
pub struct Standardizer {
    mean: Vec<f64>,
    scale: Vec<f64>,
}

impl Standardizer {
    pub fn fit(table: &Mat<f64>) -> Self {
        let n = table.nrows() as f64;
        let of_column = |j: usize| {
            let mean = table.col(j).iter().sum::<f64>() / n;
            let variance = table.col(j).iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
            (mean, if variance > 0.0 { variance.sqrt() } else { 1.0 })
        };
        let (mean, scale) = (0..table.ncols()).map(of_column).unzip();
        Self { mean, scale }
    }

    pub fn transform(&self, table: &Mat<f64>) -> Mat<f64> {
        Mat::from_fn(table.nrows(), table.ncols(), |i, j| (table[(i, j)] - self.mean[j]) / self.scale[j])
    }
}

/// Random Fourier features √(2/K) cos(xᵀw + b) with w ~ N(0, 2γ).
pub struct Fourier {
    frequencies: Mat<f64>,
    phases: Vec<f64>,
}

impl Fourier {
    pub fn new(inputs: usize, features: usize, gamma: f64, seed: u64) -> Self {
        let mut rng = rng(seed);
        let scale = (2.0 * gamma).sqrt();
        let values: Vec<f64> = (0..inputs * features).map(|_| scale * normal(&mut rng)).collect();
        let phases = (0..features).map(|_| std::f64::consts::TAU * rng.random::<f64>()).collect();
        Self { frequencies: Mat::from_fn(inputs, features, |i, k| values[k * inputs + i]), phases }
    }

    pub fn transform(&self, inputs: &Mat<f64>) -> Mat<f64> {
        let scale = (2.0 / self.phases.len() as f64).sqrt();
        let angles = inputs * &self.frequencies;
        Mat::from_fn(angles.nrows(), angles.ncols(), |i, k| scale * (angles[(i, k)] + self.phases[k]).cos())
    }
}

/// The folder with the data sets, if the environment names one.
pub fn data_folder() -> Option<PathBuf> {
    std::env::var_os("ROBUSTARD_DATA").map(PathBuf::from)
}

/// A numeric CSV table, gzipped or not: its values row by row, features first. Without it, says so; under CI, fails.
pub fn read_table(name: &str) -> Option<Mat<f64>> {
    let table = read_table_if_there(name);
    if table.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{name}: no data; CI must set ROBUSTARD_DATA to the folder with it");
        eprintln!("{name}: no data (set ROBUSTARD_DATA), skipped");
    }
    table
}

fn read_table_if_there(name: &str) -> Option<Mat<f64>> {
    let folder = data_folder()?;
    let plain = folder.join(format!("{name}.csv"));
    let text = if plain.exists() {
        std::fs::read_to_string(plain).ok()?
    } else {
        let file = std::fs::File::open(folder.join(format!("{name}.csv.gz"))).ok()?;
        let mut text = String::new();
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).ok()?;
        text
    };
    let rows: Vec<Vec<f64>> =
        text.lines().skip(1).map(|line| line.split(',').map(|v| v.trim().parse().unwrap()).collect()).collect();
    // The paper regresses column F1 of protein on the others; elsewhere the target is last.
    let target = if name == "protein" { 1 } else { rows[0].len() - 1 };
    Some(Mat::from_fn(rows.len(), rows[0].len(), |i, j| {
        let last = rows[0].len() - 1;
        let column = if j == last { target } else { j + usize::from(j >= target) };
        rows[i][column]
    }))
}

pub const DATA_SETS: [&str; 9] =
    ["boston", "carbon", "concrete", "elevators", "energy", "kin8nm", "power", "protein", "yacht"];

/// The paper's tabular design and the rows left out of it.
pub struct FourierSplit {
    pub problem: Problem<'static>,
    /// Features of the test rows.
    pub test: Mat<f64>,
    /// Their targets, clean, in the training target's standard deviations.
    pub test_target: Vec<f64>,
}

/// 80% of the rows, at most 2000, 256 Fourier features of standardized inputs, standardized target, a share of the
/// training targets moved by ±3·N(1, 0.25²).
pub fn fourier_split(name: &str, contamination: f64, seed: u64) -> Option<FourierSplit> {
    fourier_split_of(name, 2000, 256, contamination, seed)
}

/// The same with other numbers of rows and of features.
pub fn fourier_split_of(
    name: &str,
    most_rows: usize,
    features: usize,
    contamination: f64,
    seed: u64,
) -> Option<FourierSplit> {
    let table = read_table(name)?;
    let mut rng = rng(seed);
    let (n, inputs) = (table.nrows(), table.ncols() - 1);
    let order = sample(&mut rng, n, n).into_vec();
    let (train, test) = order.split_at(n * 4 / 5);
    let train = &train[..train.len().min(most_rows)];
    let part = |rows: &[usize], columns: std::ops::Range<usize>| {
        Mat::from_fn(rows.len(), columns.len(), |i, j| table[(rows[i], columns.start + j)])
    };
    let scale_inputs = Standardizer::fit(&part(train, 0..inputs));
    let scale_target = Standardizer::fit(&part(train, inputs..inputs + 1));
    let map = Fourier::new(inputs, features, 1.0 / inputs as f64, seed);
    let features_of = |rows: &[usize]| map.transform(&scale_inputs.transform(&part(rows, 0..inputs)));
    let target = |rows: &[usize]| -> Vec<f64> {
        let standard = scale_target.transform(&part(rows, inputs..inputs + 1));
        standard.col(0).iter().copied().collect()
    };
    let mut y = target(train);
    for i in sample(&mut rng, train.len(), (contamination * train.len() as f64) as usize) {
        let sign = if rng.random::<bool>() { 1.0 } else { -1.0 };
        y[i] += sign * 3.0 * (1.0 + 0.25 * normal(&mut rng));
    }
    let problem = Problem::new(features_of(train).as_ref(), &y).unwrap();
    Some(FourierSplit { problem, test: features_of(test), test_target: target(test) })
}
