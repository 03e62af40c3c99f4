//! Lower triangles without the zeros above them: the columns from the diagonal down, one after the other.

use faer::{Mat, MatRef};

/// Number of values in the lower triangle of a size × size matrix; none if that is beyond `usize`.
pub fn packed_length(size: usize) -> Option<usize> {
    size.checked_mul(size.checked_add(1)?).map(|twice| twice / 2)
}

/// The lower triangle of a square matrix.
pub fn pack_lower(matrix: MatRef<'_, f64>) -> Vec<f64> {
    let size = matrix.nrows();
    (0..size).flat_map(|j| (j..size).map(move |i| matrix[(i, j)])).collect()
}

/// The matrix with this lower triangle and zeros above; none if the number of values is not that of a triangle of this size.
pub fn unpack_lower(values: &[f64], size: usize) -> Option<Mat<f64>> {
    if packed_length(size) != Some(values.len()) {
        return None;
    }
    let mut matrix = Mat::<f64>::zeros(size, size);
    let mut rest = values;
    for j in 0..size {
        let (column, next) = rest.split_at(size - j);
        matrix.col_as_slice_mut(j)[j..].copy_from_slice(column);
        rest = next;
    }
    Some(matrix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_is_undone() {
        for size in 0..5 {
            let lower = Mat::from_fn(size, size, |i, j| if i >= j { (10 * i + j) as f64 } else { 0.0 });
            let packed = pack_lower(lower.as_ref());
            assert_eq!(unpack_lower(&packed, size), Some(lower));
        }
        assert_eq!(unpack_lower(&[1.0, 2.0], 2), None);
        assert_eq!(unpack_lower(&[1.0], usize::MAX), None);
    }
}
