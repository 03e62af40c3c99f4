//! Delimited text that is numbers throughout, which large tables mostly are: several times as fast as the general reader.
//! Whatever is out of the ordinary is left to that one.

use std::sync::Arc;

use arrow_array::builder::{Float64Builder, Int64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema};
use rayon::prelude::*;

/// One column being read.
enum Column {
    Float(Float64Builder),
    Integer(Int64Builder),
}

/// The pieces of a text without quotes, each ending with a line; None if any of it is not as the schema says.
pub(crate) fn parse(pieces: &[&[u8]], schema: &Arc<Schema>, delimiter: u8, header: bool) -> Option<Vec<RecordBatch>> {
    let is_number = |data_type: &DataType| matches!(data_type, DataType::Float64 | DataType::Int64);
    if !schema.fields().iter().all(|field| is_number(field.data_type())) {
        return None;
    }
    pieces
        .par_iter()
        .enumerate()
        .map(|(k, piece)| {
            let skipped = if header && k == 0 { piece.iter().position(|&byte| byte == b'\n')? + 1 } else { 0 };
            parse_piece(&piece[skipped..], schema, delimiter)
        })
        .collect()
}

fn parse_piece(text: &[u8], schema: &Arc<Schema>, delimiter: u8) -> Option<RecordBatch> {
    /// Bytes of a short row, to make room for all rows at once.
    const SHORT_ROW: usize = 8;
    let room = text.len() / (SHORT_ROW * schema.fields().len().max(1)) + 1;
    let mut columns: Vec<Column> = schema
        .fields()
        .iter()
        .map(|field| match field.data_type() {
            DataType::Int64 => Column::Integer(Int64Builder::with_capacity(room)),
            _ => Column::Float(Float64Builder::with_capacity(room)),
        })
        .collect();
    let mut rest = text;
    while !rest.is_empty() {
        let last = columns.len() - 1;
        for (k, column) in columns.iter_mut().enumerate() {
            let end = rest.iter().position(|&byte| byte == delimiter || byte == b'\n').unwrap_or(rest.len());
            // The last field of a line, and no other, ends with the line.
            if (k == last) == (rest.get(end) == Some(&delimiter)) {
                return None;
            }
            let field = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
            if field.is_empty() && last == 0 {
                return None; // an empty line or a missing value: the general reader knows
            }
            match column {
                Column::Float(values) if field.is_empty() => values.append_null(),
                Column::Integer(values) if field.is_empty() => values.append_null(),
                Column::Float(values) => values.append_value(fast_float2::parse(field).ok()?),
                Column::Integer(values) => values.append_value(std::str::from_utf8(field).ok()?.parse().ok()?),
            }
            rest = rest.get(end + 1..).unwrap_or_default();
        }
    }
    let arrays = columns.into_iter().map(|column| -> ArrayRef {
        match column {
            Column::Float(mut values) => Arc::new(values.finish()),
            Column::Integer(mut values) => Arc::new(values.finish()),
        }
    });
    RecordBatch::try_new(schema.clone(), arrays.collect()).ok()
}

#[cfg(test)]
mod tests {
    use arrow_schema::Field;

    use super::*;

    fn schema(types: &[DataType]) -> Arc<Schema> {
        Arc::new(Schema::new(
            types.iter().enumerate().map(|(k, t)| Field::new(format!("c{k}"), t.clone(), true)).collect::<Vec<_>>(),
        ))
    }

    #[test]
    fn numbers_are_read_and_oddities_left_alone() {
        let both = schema(&[DataType::Float64, DataType::Int64]);
        let read = |text: &str| parse(&[text.as_bytes()], &both, b',', false);
        let batch = &read("1.5,2\r\n,-3\n1e-3,\n").unwrap()[0];
        let floats = batch.column(0).as_any().downcast_ref::<arrow_array::Float64Array>().unwrap();
        let integers = batch.column(1).as_any().downcast_ref::<arrow_array::Int64Array>().unwrap();
        assert_eq!(floats.iter().collect::<Vec<_>>(), [Some(1.5), None, Some(1e-3)]);
        assert_eq!(integers.iter().collect::<Vec<_>>(), [Some(2), Some(-3), None]);
        for odd in ["1,2,3\n", "1\n", "x,1\n", "1,2.5\n", "1,2\n\n3,4\n", "1, 2\n"] {
            assert!(read(odd).is_none(), "{odd:?}");
        }
        assert!(parse(&[b"a\n"], &schema(&[DataType::Utf8]), b',', false).is_none());
        assert_eq!(read("1,2").unwrap()[0].num_rows(), 1);
    }

    /// The same bits as the standard library's parser.
    #[test]
    fn floats_are_exact() {
        let float = schema(&[DataType::Float64, DataType::Float64]);
        for text in ["0.1,2.2250738585072011e-308", "123456789012345678,-1e300", "5e-324,0.30000000000000004"] {
            let batch = &parse(&[text.as_bytes()], &float, b',', false).unwrap()[0];
            for (k, field) in text.split(',').enumerate() {
                let column = batch.column(k).as_any().downcast_ref::<arrow_array::Float64Array>().unwrap();
                assert_eq!(column.value(0).to_bits(), field.parse::<f64>().unwrap().to_bits(), "{field}");
            }
        }
    }
}
