//! A lower triangular matrix, which files hold without its zeros.

use faer::{Mat, MatRef};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A lower triangular matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Triangle(Mat<f64>);

impl Triangle {
    /// The lower triangle of a matrix.
    pub(crate) fn of(matrix: MatRef<'_, f64>) -> Self {
        Self(Mat::from_fn(matrix.nrows(), matrix.ncols(), |i, j| if i >= j { matrix[(i, j)] } else { 0.0 }))
    }

    /// The matrix, zeros included.
    pub fn matrix(&self) -> MatRef<'_, f64> {
        self.0.as_ref()
    }

    /// Number of rows.
    pub fn size(&self) -> usize {
        self.0.nrows()
    }
}

impl Serialize for Triangle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let size = self.size();
        serializer.collect_seq((0..size).flat_map(|j| self.0.col_as_slice(j)[j..].iter()))
    }
}

impl<'de> Deserialize<'de> for Triangle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = Vec::<f64>::deserialize(deserializer)?;
        // n(n + 1)/2 values; the square root is exact to far more rows than memory holds.
        let size = ((2.0 * values.len() as f64 + 0.25).sqrt() - 0.5).round() as usize;
        if size * (size + 1) / 2 != values.len() {
            return Err(serde::de::Error::custom(format!("{} values are no triangle", values.len())));
        }
        let mut values = values.iter();
        let mut matrix = Mat::zeros(size, size);
        for j in 0..size {
            matrix.col_as_slice_mut(j)[j..].iter_mut().zip(values.by_ref()).for_each(|(to, from)| *to = *from);
        }
        Ok(Self(matrix))
    }
}
