//! The posterior covariance as predictions need it.

use crate::math::product::matmul;
use faer::{Accum, Mat, MatRef, Par};
use serde::{Deserialize, Serialize};

use crate::math::packed::{pack_lower, unpack_lower};
use crate::math::sum::image_squares_of;

/// The posterior covariance of the active weights, in the form that its route gives. Triangles are saved without their zeros.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "Saved", try_from = "Saved")]
pub enum Covariance {
    /// Σ = RᵀR.
    WeightSpace {
        /// R = L⁻¹, lower triangular with zeros above, d × d.
        inverse_factor: Mat<f64>,
    },
    /// Free columns z and columns of fixed precision f: with W = L⁻¹ZΓ⁻¹ and u = x_f − G x_z,
    /// xᵀΣx = x_zᵀΓ⁻¹x_z − ‖W x_z‖² + ‖L_M⁻¹u‖².
    SampleSpace(SampleSpaceCovariance),
}

/// The parts of a covariance from sample space.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampleSpaceCovariance {
    /// Places of the free columns among the active ones.
    pub(super) free: Vec<usize>,
    /// Places of the columns of fixed precision.
    pub(super) fixed: Vec<usize>,
    /// 1/γ of the free columns.
    pub(super) prior_variance: Vec<f64>,
    /// W, n × free, column by column.
    pub(super) factor: Vec<f64>,
    /// G, fixed × free, column by column.
    pub(super) fixed_gain: Vec<f64>,
    /// L_M⁻¹, fixed × fixed, column by column.
    pub(super) fixed_inverse_factor: Vec<f64>,
    /// n.
    pub(super) rows: usize,
}

/// A covariance as it is saved.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Saved {
    WeightSpace { size: usize, inverse_factor: Vec<f64> },
    SampleSpace(SampleSpaceCovariance),
}

impl From<Covariance> for Saved {
    fn from(covariance: Covariance) -> Self {
        match covariance {
            Covariance::WeightSpace { inverse_factor } => {
                Self::WeightSpace { size: inverse_factor.nrows(), inverse_factor: pack_lower(inverse_factor.as_ref()) }
            }
            Covariance::SampleSpace(parts) => Self::SampleSpace(parts),
        }
    }
}

impl TryFrom<Saved> for Covariance {
    type Error = &'static str;

    fn try_from(saved: Saved) -> Result<Self, Self::Error> {
        match saved {
            Saved::WeightSpace { size, inverse_factor } => unpack_lower(&inverse_factor, size)
                .map(|inverse_factor| Self::WeightSpace { inverse_factor })
                .ok_or("the covariance does not have the number of values that its size says"),
            Saved::SampleSpace(parts) => Ok(Self::SampleSpace(parts)),
        }
    }
}

impl SampleSpaceCovariance {
    fn is_consistent(&self, weights: usize) -> bool {
        let (z, f) = (self.free.len(), self.fixed.len());
        z + f == weights
            && self.free.iter().chain(&self.fixed).all(|&place| place < weights)
            && self.prior_variance.len() == z
            && self.rows.checked_mul(z) == Some(self.factor.len())
            && self.fixed_gain.len() == f * z
            && self.fixed_inverse_factor.len() == f * f
    }

    /// Γ^{-½}x_z, W x_z and L_M⁻¹u, with their signs in xᵀΣx.
    fn images(&self, rows: MatRef<'_, f64>) -> Vec<(f64, Mat<f64>)> {
        let (z, f, m) = (self.free.len(), self.fixed.len(), rows.ncols());
        let of = |places: &[usize]| Mat::from_fn(places.len(), m, |k, i| rows[(places[k], i)]);
        let (free, mut rest) = (of(&self.free), of(&self.fixed));
        rest -= image(MatRef::from_column_major_slice(&self.fixed_gain, f, z), free.as_ref());
        let explained = image(MatRef::from_column_major_slice(&self.factor, self.rows, z), free.as_ref());
        let fixed = image(MatRef::from_column_major_slice(&self.fixed_inverse_factor, f, f), rest.as_ref());
        let prior = Mat::from_fn(z, m, |k, i| self.prior_variance[k].sqrt() * free[(k, i)]);
        vec![(1.0, prior), (-1.0, explained), (1.0, fixed)]
    }
}

fn image(matrix: MatRef<'_, f64>, of: MatRef<'_, f64>) -> Mat<f64> {
    let mut image = Mat::<f64>::zeros(matrix.nrows(), of.ncols());
    matmul(image.as_mut(), Accum::Replace, matrix, of, 1.0, Par::Seq);
    image
}

impl SampleSpaceCovariance {
    /// Σa: of the free columns Γ⁻¹a_z − Wᵀ W a_z − Gᵀ v, of the others v = L_M⁻ᵀ L_M⁻¹ u.
    fn times(&self, rows: MatRef<'_, f64>) -> Mat<f64> {
        let [(_, prior), (_, explained), (_, fixed)]: [_; 3] =
            self.images(rows).try_into().expect("there are three images");
        let (z, f) = (self.free.len(), self.fixed.len());
        let factor = MatRef::from_column_major_slice(&self.factor, self.rows, z);
        let gain = MatRef::from_column_major_slice(&self.fixed_gain, f, z);
        let inverse = MatRef::from_column_major_slice(&self.fixed_inverse_factor, f, f);
        let of_fixed = image(inverse.transpose(), fixed.as_ref());
        let taken = image(factor.transpose(), explained.as_ref()) + image(gain.transpose(), of_fixed.as_ref());
        let mut product = Mat::zeros(rows.nrows(), rows.ncols());
        for i in 0..rows.ncols() {
            for (k, &place) in self.free.iter().enumerate() {
                product[(place, i)] = self.prior_variance[k].sqrt() * prior[(k, i)] - taken[(k, i)];
            }
            self.fixed.iter().enumerate().for_each(|(k, &place)| product[(place, i)] = of_fixed[(k, i)]);
        }
        product
    }
}

impl Covariance {
    /// Σa for each column a of the d × m matrix `rows`.
    pub fn times(&self, rows: MatRef<'_, f64>) -> Mat<f64> {
        match self {
            Self::WeightSpace { inverse_factor } => {
                image(inverse_factor.transpose(), image(inverse_factor.as_ref(), rows).as_ref())
            }
            Self::SampleSpace(parts) => parts.times(rows),
        }
    }

    /// Whether the parts agree about the number of weights.
    pub fn is_consistent(&self, weights: usize) -> bool {
        match self {
            Self::WeightSpace { inverse_factor } => inverse_factor.nrows() == weights,
            Self::SampleSpace(parts) => parts.is_consistent(weights),
        }
    }

    /// Matrices Mₖ and signs with aᵀΣb = Σₖ ±(Mₖa)ᵀ(Mₖb): the images Mₖx of each column x of the d × m matrix `rows`.
    fn images(&self, rows: MatRef<'_, f64>) -> Vec<(f64, Mat<f64>)> {
        match self {
            Self::WeightSpace { inverse_factor } => vec![(1.0, image(inverse_factor.as_ref(), rows))],
            Self::SampleSpace(parts) => parts.images(rows),
        }
    }

    /// xᵀΣx for each column x of the d × m matrix `rows`.
    pub fn quadratic_forms(&self, rows: MatRef<'_, f64>) -> Vec<f64> {
        let parts = match self {
            Self::WeightSpace { inverse_factor } => return image_squares_of(inverse_factor.as_ref(), rows),
            Self::SampleSpace(parts) => parts.images(rows),
        };
        // What is taken away is at most what was there: less would be rounding.
        let form = |i: usize| {
            parts.iter().fold(0.0, |sum: f64, (sign, of)| (sum + sign * of.col(i).squared_norm_l2()).max(0.0))
        };
        (0..rows.ncols()).map(form).collect()
    }

    /// aᵀΣb for all pairs of columns of the d × m matrix `rows`.
    pub fn bilinear_forms(&self, rows: MatRef<'_, f64>) -> Mat<f64> {
        let mut forms = Mat::<f64>::zeros(rows.ncols(), rows.ncols());
        for (sign, image) in self.images(rows) {
            matmul(forms.as_mut(), Accum::Add, image.transpose(), image.as_ref(), sign, Par::Seq);
        }
        forms
    }
}
