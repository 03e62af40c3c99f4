//! Rows in which some inputs are exchanged, as effects need them.

use faer::{Mat, MatRef, Par};

use super::{FeatureMap, Map, SmoothMap};
use crate::learn::{Exchange, ExchangedValues};

/// Rows of standardized inputs, in each of which some inputs can be exchanged. What comes out are basis functions: features, or what
/// features are made of by one linear map.
pub(crate) enum Exchanger<'m> {
    /// Features of whole rows.
    Plain {
        /// What makes them.
        map: &'m FeatureMap,
        /// The rows.
        rows: Mat<f64>,
    },
    /// A curve, of which parts are known.
    Curve {
        /// The features.
        map: &'m SmoothMap,
        /// The rows, held in range.
        rows: Mat<f64>,
        /// Covariances with the centres.
        exchange: Exchange<'m>,
    },
}

/// Values that take the place of some inputs.
pub(crate) struct Exchanged {
    inputs: Vec<usize>,
    /// One set of values per row.
    values: Mat<f64>,
    of_curve: Option<ExchangedValues>,
}

impl<'m> Exchanger<'m> {
    pub fn new(map: &'m FeatureMap, rows: MatRef<'_, f64>) -> Self {
        match map {
            FeatureMap::Smooth(map) => {
                let rows = map.held(rows);
                let exchange = Exchange::new(map.curve(), rows.as_ref(), map.centres());
                Self::Curve { map, rows, exchange }
            }
            _ => Self::Plain { map, rows: rows.to_owned() },
        }
    }

    pub fn row_count(&self) -> usize {
        match self {
            Self::Plain { rows, .. } | Self::Curve { rows, .. } => rows.nrows(),
        }
    }

    /// Number of basis functions.
    pub fn size(&self) -> usize {
        match self {
            Self::Plain { map, rows } => map.count(rows.ncols()),
            Self::Curve { map, rows, .. } => map.count(rows.ncols()),
        }
    }

    /// Values (one set per row) for some inputs.
    pub fn values(&self, inputs: &[usize], values: MatRef<'_, f64>) -> Exchanged {
        let (inputs, mut values) = (inputs.to_vec(), values.to_owned());
        let of_curve = match self {
            Self::Plain { .. } => None,
            Self::Curve { map, exchange, .. } => {
                values = map.held_inputs(&inputs, values.as_ref());
                Some(exchange.values(&inputs, values.as_ref()))
            }
        };
        Exchanged { inputs, values, of_curve }
    }

    /// Shows the basis functions of a row, once for each of the values in place of its own.
    pub fn show(&self, row: usize, exchanged: &Exchanged, mut show: impl FnMut(usize, &[f64])) {
        let Exchanged { inputs, values, of_curve } = exchanged;
        match (self, of_curve) {
            (Self::Curve { rows, exchange, .. }, Some(of_curve)) => {
                let p = rows.ncols();
                let mut basis = vec![0.0; self.size()];
                rows.row(row).iter().zip(&mut basis).for_each(|(x, basis)| *basis = *x);
                exchange.show(row, of_curve, |place, kernel| {
                    inputs.iter().zip(values.row(place).iter()).for_each(|(&input, value)| basis[input] = *value);
                    basis[p..].copy_from_slice(kernel);
                    show(place, &basis);
                });
            }
            (Self::Plain { map, rows }, _) => {
                let mut whole = Mat::from_fn(values.nrows(), rows.ncols(), |_, j| rows[(row, j)]);
                for (k, &input) in inputs.iter().enumerate() {
                    (0..values.nrows()).for_each(|place| whole[(place, input)] = values[(place, k)]);
                }
                let mut features = Mat::zeros(self.size(), values.nrows());
                map.write(whole.as_ref(), features.as_mut(), Par::Seq);
                (0..values.nrows()).for_each(|place| show(place, features.col_as_slice(place)));
            }
            (Self::Curve { .. }, None) => unreachable!("values of a curve have parts"),
        }
    }

    /// Weights of the basis functions, by those of the features.
    pub fn weights(&self, of_features: &[f64]) -> Vec<f64> {
        match self {
            Self::Plain { .. } => of_features.to_vec(),
            Self::Curve { map, .. } => map.fold(of_features).expect("curves have folded weights"),
        }
    }

    /// Features, by sums of basis functions (columns).
    pub fn features(&self, basis: MatRef<'_, f64>) -> Mat<f64> {
        match self {
            Self::Plain { .. } => basis.to_owned(),
            Self::Curve { map, .. } => map.features_of(basis),
        }
    }
}
