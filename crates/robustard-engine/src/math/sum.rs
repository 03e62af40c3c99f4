//! Sums in an order that vectorises.

use crate::math::product::matmul;
use faer::{Accum, Mat, MatRef, Par};

const LANES: usize = 8;
/// Height of the strips into which triangular products are cut. Narrow strips waste fewer flops on the other triangle, wide ones
/// run faster; 32 was the best of 32, 48, 64, 96 and 128.
pub(crate) const STRIP: usize = 32;
/// Up to so many columns, a product with a triangle is formed column by column.
const FEW: usize = 4;

/// Σ v².
pub fn square_sum(values: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    let blocks = values.chunks_exact(LANES);
    let rest: f64 = blocks.remainder().iter().map(|v| v * v).sum();
    for block in blocks {
        for (sum, v) in sums.iter_mut().zip(block) {
            *sum += v * v;
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// Σ ab.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    let (left, right) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f64 = left.remainder().iter().zip(right.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in left.zip(right) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// Writes ‖L x‖² for each column x of a d × m matrix, L lower triangular; `strip` is room for at least [`STRIP`] × m values.
pub(crate) fn image_squares(
    lower: MatRef<'_, f64>,
    columns: MatRef<'_, f64>,
    strip: &mut Mat<f64>,
    squares: &mut [f64],
) {
    let (d, m) = (columns.nrows(), columns.ncols());
    squares.fill(0.0);
    for row in (0..d).step_by(STRIP) {
        let height = STRIP.min(d - row);
        matmul(
            strip.as_mut().submatrix_mut(0, 0, height, m),
            Accum::Replace,
            lower.submatrix(row, 0, height, row + height),
            columns.subrows(0, row + height),
            1.0,
            Par::Seq,
        );
        for (i, square) in squares.iter_mut().enumerate() {
            *square += square_sum(&strip.col_as_slice(i)[..height]);
        }
    }
}

/// The same with room of its own, and for few columns without the overhead of matrix products.
pub(crate) fn image_squares_of(lower: MatRef<'_, f64>, columns: MatRef<'_, f64>) -> Vec<f64> {
    let (d, m) = (columns.nrows(), columns.ncols());
    let mut squares = vec![0.0; m];
    if m > FEW {
        image_squares(lower, columns, &mut Mat::zeros(STRIP, m), &mut squares);
        return squares;
    }
    let mut image = vec![0.0; d];
    for (i, square) in squares.iter_mut().enumerate() {
        image.fill(0.0);
        for (j, x) in columns.col(i).iter().enumerate() {
            let column = lower.col(j).try_as_col_major().expect("factors are owned").as_slice();
            image[j..].iter_mut().zip(&column[j..]).for_each(|(sum, value)| *sum += x * value);
        }
        *square = square_sum(&image);
    }
    squares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_few_and_of_many_agree() {
        let lower = Mat::from_fn(70, 70, |i, j| if i >= j { ((i * 3 + j) as f64).sin() } else { 0.0 });
        let columns = Mat::from_fn(70, 9, |i, j| ((i + 7 * j) as f64).cos());
        let many = image_squares_of(lower.as_ref(), columns.as_ref());
        for (i, wanted) in many.iter().enumerate() {
            let one = image_squares_of(lower.as_ref(), columns.as_ref().subcols(i, 1));
            assert!((one[0] - wanted).abs() < 1e-12 * wanted, "{one:?} {wanted}");
        }
    }

    #[test]
    fn dot_is_the_sum_of_products() {
        let a: Vec<f64> = (0..19).map(f64::from).collect();
        assert_eq!(dot(&a, &a), square_sum(&a));
        assert_eq!(dot(&a, &a), 2109.0);
    }
}
