//! Delimited text: delimiter and header are found out, types are inferred from the first rows and widened where a later row
//! asks for it.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_csv::ReaderBuilder;
use arrow_csv::reader::Format;
use arrow_schema::{ArrowError, DataType, Field, Schema};

use crate::fields::{self, Odd};
use crate::read::Header;

/// Rows from which types are inferred.
const SAMPLE_ROWS: usize = 1000;
/// Lines looked at to find the delimiter.
const SAMPLE_LINES: usize = 50;
/// Text above this size is parsed in parallel.
const PARALLEL_BYTES: usize = 1 << 20;
/// Room is made for a whole batch, so one of many columns must have fewer rows.
const BATCH_VALUES: usize = 1 << 20;
const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];

/// The delimiter that cuts most of the first lines into the same number of fields, at least two; a comma if none does.
pub(crate) fn find_delimiter(text: &[u8]) -> u8 {
    let score = |delimiter: u8| {
        let counts: Vec<usize> = lines(text).take(SAMPLE_LINES).map(|line| fields(line, delimiter).len()).collect();
        let first = counts.first().copied().unwrap_or(1);
        let agreeing = counts.iter().filter(|&&count| count == first).count();
        if first < 2 { 0 } else { agreeing * 1000 / counts.len() * 100 + first.min(99) }
    };
    DELIMITERS.into_iter().rev().max_by_key(|&delimiter| score(delimiter)).filter(|&d| score(d) > 0).unwrap_or(b',')
}

/// A header is a first row without numbers or empty fields, or one with a name above a column of numbers.
pub(crate) fn has_header(text: &[u8], delimiter: u8, header: Header) -> bool {
    match header {
        Header::Yes => return true,
        Header::No => return false,
        Header::Auto => {}
    }
    let mut rows = lines(text).take(SAMPLE_LINES).map(|line| fields(line, delimiter));
    let Some(first) = rows.next() else { return true };
    let rest: Vec<Vec<String>> = rows.collect();
    let is_name = |field: &String| !field.is_empty() && field.parse::<f64>().is_err();
    let stands_above_numbers = |(k, field): (usize, &String)| {
        let below = || rest.iter().filter_map(|row| row.get(k)).filter(|field| !field.is_empty());
        is_name(field) && below().next().is_some() && below().all(|field| field.parse::<f64>().is_ok())
    };
    first.iter().all(is_name) || first.iter().enumerate().any(stands_above_numbers)
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n').map(|line| line.trim_ascii()).filter(|line| !line.is_empty())
}

/// The fields of one line, quotes removed.
fn fields(line: &[u8], delimiter: u8) -> Vec<String> {
    let mut fields = vec![Vec::new()];
    let mut quoted = false;
    for &byte in line {
        match byte {
            b'"' => quoted = !quoted,
            _ if byte == delimiter && !quoted => fields.push(Vec::new()),
            _ => fields.last_mut().expect("never empty").push(byte),
        }
    }
    fields.iter().map(|field| String::from_utf8_lossy(field).trim().to_owned()).collect()
}

/// Parses the text. Columns without a header are named c1, c2, ….
pub(crate) fn parse(
    text: &[u8],
    delimiter: u8,
    header: bool,
    text_columns: &[String],
) -> Result<(Arc<Schema>, Vec<RecordBatch>), ArrowError> {
    let format = Format::default().with_header(header).with_delimiter(delimiter);
    let (schema, _) = format.infer_schema(text, Some(SAMPLE_ROWS))?;
    let mut typed = Arc::new(named(&schema, header, |field| match field.data_type() {
        DataType::Null => DataType::Utf8,
        _ if text_columns.iter().any(|name| name == field.name().trim()) => DataType::Utf8,
        other => other.clone(),
    }));
    let mut pieces =
        if text.len() < PARALLEL_BYTES { vec![text] } else { fields::cut(text, 4 * rayon::current_num_threads()) };
    loop {
        match fields::parse(&pieces, &typed, delimiter, header) {
            Ok(batches) => return Ok((typed, batches)),
            // A later row is of another type than the first ones.
            Err(Odd::Type { column }) if *typed.field(column).data_type() != DataType::Utf8 => {
                typed = Arc::new(widened(&typed, column));
            }
            // Only who reads from the start knows which quotes belong together.
            Err(Odd::OpenQuote { .. }) if pieces.len() > 1 => pieces = vec![text],
            Err(Odd::OpenQuote { rest }) => {
                let line = 1 + text[..text.len() - rest].iter().filter(|&&byte| byte == b'\n').count();
                return Err(ArrowError::CsvError(format!(
                    "the quote that line {line} opens is never closed; close it"
                )));
            }
            Err(_) => break,
        }
    }
    match parse_whole(text, &typed, &format) {
        Ok(batches) => Ok((typed, batches)),
        Err(ArrowError::ParseError(_)) => {
            let text_only = Arc::new(named(&schema, header, |_| DataType::Utf8));
            let batches = parse_whole(text, &text_only, &format)?;
            Ok((text_only, batches))
        }
        Err(error) => Err(error),
    }
}

/// The schema with a column of a wider type: integers become numbers, all else text.
fn widened(schema: &Schema, column: usize) -> Schema {
    let widen = |(k, field): (usize, &Arc<Field>)| match field.data_type() {
        DataType::Int64 if k == column => Field::new(field.name(), DataType::Float64, true),
        _ if k == column => Field::new(field.name(), DataType::Utf8, true),
        _ => field.as_ref().clone(),
    };
    Schema::new(schema.fields().iter().enumerate().map(widen).collect::<Vec<_>>())
}

fn named(schema: &Schema, header: bool, data_type: impl Fn(&Field) -> DataType) -> Schema {
    let name = |k: usize, field: &Field| match field.name().trim() {
        name if header && !name.is_empty() => name.to_owned(),
        _ => format!("c{}", k + 1),
    };
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(k, field)| Field::new(name(k, field), data_type(field), true))
        .collect();
    Schema::new(fields)
}

/// By the general reader, whose messages name the line.
fn parse_whole(text: &[u8], schema: &Arc<Schema>, format: &Format) -> Result<Vec<RecordBatch>, ArrowError> {
    let most = (BATCH_VALUES / schema.fields().len().max(1)).max(1);
    let rows = most.min(1 + text.iter().filter(|&&byte| byte == b'\n').count());
    ReaderBuilder::new(schema.clone()).with_format(format.clone()).with_batch_size(rows).build(text)?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters_and_headers_are_found() {
        for (text, delimiter, header) in [
            ("a,b\n1,2\n", b',', true),
            ("a;b\n1,5;2\n", b';', true),
            ("a\tb\n1\t2\n", b'\t', true),
            ("1|2\n3|4\n", b'|', false),
            ("a\n1\n2\n", b',', true),
            ("\"x,y\",z\n\"1,2\",3\n", b',', true),
            (",x,y\n0,1,2\n1,3,4\n", b',', true),
            ("year,2019,2020\n1,5,6\n", b',', true),
            ("a,1,2\nb,3,4\n", b',', false),
        ] {
            let found = find_delimiter(text.as_bytes());
            assert_eq!(found as char, delimiter as char, "{text}");
            assert_eq!(has_header(text.as_bytes(), found, Header::Auto), header, "{text}");
        }
    }

    #[test]
    fn parallel_parsing_keeps_the_order() {
        let rows = 200_000;
        let text: String =
            std::iter::once("i,x\n".to_owned()).chain((0..rows).map(|i| format!("{i},{}.5\n", i % 7))).collect();
        let (_, batches) = parse(text.as_bytes(), b',', true, &[]).unwrap();
        let mut next = 0;
        for batch in batches {
            let column = batch.column(0).as_any().downcast_ref::<arrow_array::Int64Array>().unwrap();
            for value in column.values() {
                assert_eq!(*value, next);
                next += 1;
            }
        }
        assert_eq!(next, rows);
    }
}
