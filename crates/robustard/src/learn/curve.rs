//! The covariance of a smooth curve.

use faer::{Mat, MatRef, Par};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::exp::{OfSingles, Seen, Single, add_matern, add_squares, add_steps, gauss, laplace, matern};

/// How the joint part falls off with distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// (1 + √3 r) e^(−√3 r): curves with one derivative, which follow bends that smoother ones cannot.
    Matern,
    /// e^(−r²/2): curves with all derivatives.
    Gauss,
    /// e^(−r) with r the sum of the distances along the inputs: curves with no derivative, which may change in any way from one value of
    /// an input to the next and differently for each value of the others, as trees do.
    Laplace,
}

impl Shape {
    /// Adds what one input contributes to distances as [`Self::fall_off`] takes them: s|x − c| or its square.
    pub(super) fn add_apart(self, values: &mut [f64], x: &[f64], centre: f64, scale: f64) {
        match self {
            Self::Matern | Self::Gauss => add_squares(values, x, centre, scale),
            Self::Laplace => add_steps(values, x, centre, scale),
        }
    }

    /// The same of one value.
    pub(super) fn apart(self, step: f64) -> f64 {
        match self {
            Self::Matern | Self::Gauss => step * step,
            Self::Laplace => step.abs(),
        }
    }

    /// Of distances makes the kernel, and its exponential in `decay`.
    pub(super) fn fall_off(self, apart: &mut [f64], decay: &mut [f64]) {
        match self {
            Self::Matern => matern(apart, decay),
            Self::Gauss => gauss(apart, decay),
            Self::Laplace => laplace(apart, decay),
        }
    }

    /// Minus the slope of the kernel by the logarithm of a lengthscale, divided by its exponential and the input's part of the distance.
    pub(super) fn fall(self) -> f64 {
        match self {
            Self::Matern => 3.0,
            Self::Gauss | Self::Laplace => 1.0,
        }
    }
}

/// So few rows take the place of centres.
const FEW_ROWS: usize = 16;

/// κ(x, z) = v₁ k(|s∘(x − z)|) + v₂ Σⱼ mⱼ + (v₃/q) Σ_{j<k} mⱼ mₖ with mⱼ = m(aⱼ|xⱼ − zⱼ|), k of the shape, m Matérn and q the number of the mⱼ:
/// the covariance of a curve that adds up a joint part, curves of single inputs and surfaces of pairs of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Shape of the joint part.
    pub shape: Shape,
    /// s: inverse lengthscales of the joint part, one per input.
    pub scales: Vec<f64>,
    /// How many of them were learnt: the levels of a category share one.
    pub lengthscales: usize,
    /// v₁.
    pub variance: f64,
    /// The inputs with curves of their own.
    pub singles: Vec<usize>,
    /// a: their inverse lengthscales.
    pub single_scales: Vec<f64>,
    /// v₂.
    pub single_variance: f64,
    /// v₃.
    #[serde(default)]
    pub pair_variance: f64,
}

impl Curve {
    /// κ(x, x).
    pub fn prior_variance(&self) -> f64 {
        let q = self.singles.len() as f64;
        let OfSingles { single, pair } = self.of_singles();
        self.variance + single * q + pair * 0.5 * q * (q - 1.0)
    }

    /// What sums of the mⱼ and of their products are multiplied by.
    pub(super) fn of_singles(&self) -> OfSingles {
        OfSingles { single: self.single_variance, pair: self.pair_variance / (self.singles.len() as f64).max(1.0) }
    }

    /// Prior variance of the slope along each input.
    pub fn bends(&self) -> Vec<f64> {
        let fall = self.shape.fall();
        let mut bends: Vec<f64> = self.scales.iter().map(|s| fall * self.variance * s * s).collect();
        let OfSingles { single, pair } = self.of_singles();
        let variance = single + pair * (self.singles.len() as f64 - 1.0);
        for (&input, a) in self.singles.iter().zip(&self.single_scales) {
            bends[input] += 3.0 * variance * a * a;
        }
        bends
    }

    /// The values of inputs, given as columns, that have curves of their own, each to be paired with so many others.
    pub(super) fn singles<'x>(&self, columns: &[&'x [f64]], others: usize) -> Vec<Single<'x>> {
        let single = if others < FEW_ROWS { Single::of_few_pairs } else { Single::new };
        self.singles.iter().zip(&self.single_scales).map(|(&input, scale)| single(columns[input], *scale)).collect()
    }

    /// κ of rows, given as columns, with one centre, from which their single inputs are `seen`; with room for as many values twice.
    fn values<'s>(
        &self,
        columns: &[&[f64]],
        centre: &[f64],
        seen: impl Iterator<Item = Seen<'s>>,
        values: &mut [f64],
        [decay, sums]: [&mut [f64]; 2],
    ) {
        values.fill(0.0);
        for ((x, c), scale) in columns.iter().zip(centre).zip(&self.scales) {
            self.shape.add_apart(values, x, *c, *scale);
        }
        self.shape.fall_off(values, decay);
        let squares = decay;
        squares.fill(0.0);
        sums.fill(0.0);
        seen.for_each(|seen| add_matern(sums, squares, seen));
        let OfSingles { single, pair } = self.of_singles();
        for ((value, sum), square) in values.iter_mut().zip(&*sums).zip(&*squares) {
            *value = self.variance * *value + single * sum + pair * 0.5 * (sum * sum - square);
        }
    }

    /// κ of every row with every centre, both n × p.
    pub fn matrix(&self, inputs: MatRef<'_, f64>, centres: MatRef<'_, f64>, par: Par) -> Mat<f64> {
        let n = inputs.nrows();
        if n < FEW_ROWS && n < centres.nrows() {
            // κ is symmetric, and the work goes along the rows.
            return self.matrix(centres, inputs, par).transpose().to_owned();
        }
        let mut matrix = Mat::<f64>::zeros(n, centres.nrows());
        let [columns, centre_columns] = [inputs, centres].map(columns);
        let [columns, centre_columns]: [Vec<&[f64]>; 2] =
            [&columns, &centre_columns].map(|columns| columns.iter().map(Vec::as_slice).collect());
        let [singles, single_centres] =
            [&columns, &centre_columns].map(|columns| self.singles(columns, n.min(centres.nrows())));
        let mut targets: Vec<&mut [f64]> = matrix.col_iter_mut().map(column_slice).collect();
        let new_room = || [vec![0.0; n], vec![0.0; n]];
        let fill = |room: &mut [Vec<f64>; 2], (j, target): (usize, &mut &mut [f64])| {
            let centre: Vec<f64> = centres.row(j).iter().copied().collect();
            let seen = singles.iter().zip(&single_centres).map(|(single, centres)| single.seen_from(0, centres, j));
            self.values(&columns, &centre, seen, target, room.each_mut().map(Vec::as_mut_slice));
        };
        match par {
            Par::Seq => {
                let mut room = new_room();
                targets.iter_mut().enumerate().for_each(|target| fill(&mut room, target));
            }
            Par::Rayon(_) => targets.par_iter_mut().enumerate().for_each_init(new_room, fill),
        }
        matrix
    }

    /// κ(x, z) of two points.
    pub fn between(&self, x: &[f64], z: &[f64]) -> f64 {
        let [columns, centre_columns]: [Vec<&[f64]>; 2] = [x, z].map(|point| point.chunks(1).collect());
        let [singles, single_centres] = [&columns, &centre_columns].map(|columns| self.singles(columns, 1));
        let seen = singles.iter().zip(&single_centres).map(|(single, centres)| single.seen_from(0, centres, 0));
        let (mut value, mut decay, mut sum) = ([0.0], [0.0], [0.0]);
        self.values(&columns, z, seen, &mut value, [&mut decay, &mut sum]);
        value[0]
    }
}

pub(super) fn column_slice(column: faer::ColMut<'_, f64>) -> &mut [f64] {
    column.try_as_col_major_mut().expect("column-major").as_slice_mut()
}

fn columns(inputs: MatRef<'_, f64>) -> Vec<Vec<f64>> {
    inputs.col_iter().map(|column| column.iter().copied().collect()).collect()
}
