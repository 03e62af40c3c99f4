//! Delimited text to columns of known types, piece by piece in parallel: several times as fast as the general reader.
//! Whatever is out of the ordinary (ragged lines, stray quotes) is left to that one.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, Schema};
use rayon::prelude::*;

/// Why a text could not be read here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Odd {
    /// A field is not of its column's type.
    Type {
        /// The column.
        column: usize,
    },
    /// A quote that is never closed.
    OpenQuote {
        /// Bytes of the text from that quote on.
        rest: usize,
    },
    /// Something else about lines and quotes.
    Layout,
}

/// One column being read.
enum Column {
    Float(Float64Builder),
    Integer(Int64Builder),
    Boolean(BooleanBuilder),
    /// Also what is cast to another type at the end, such as dates.
    Text(StringBuilder),
}

impl Column {
    fn new(data_type: &DataType, rows: usize) -> Self {
        match data_type {
            DataType::Float64 => Self::Float(Float64Builder::with_capacity(rows)),
            DataType::Int64 => Self::Integer(Int64Builder::with_capacity(rows)),
            DataType::Boolean => Self::Boolean(BooleanBuilder::with_capacity(rows)),
            _ => Self::Text(StringBuilder::with_capacity(rows, 8 * rows)),
        }
    }

    /// None if the field is not of this type.
    fn push(&mut self, field: &[u8]) -> Option<()> {
        match self {
            Self::Float(values) if field.is_empty() => values.append_null(),
            Self::Integer(values) if field.is_empty() => values.append_null(),
            Self::Boolean(values) if field.is_empty() => values.append_null(),
            Self::Text(values) if field.is_empty() => values.append_null(),
            Self::Float(values) => values.append_value(fast_float2::parse(field).ok()?),
            Self::Integer(values) => values.append_value(std::str::from_utf8(field).ok()?.parse().ok()?),
            Self::Boolean(values) if field.eq_ignore_ascii_case(b"true") => values.append_value(true),
            Self::Boolean(values) if field.eq_ignore_ascii_case(b"false") => values.append_value(false),
            Self::Boolean(_) => return None,
            Self::Text(values) => values.append_value(std::str::from_utf8(field).ok()?),
        }
        Some(())
    }

    /// None if a text is not of the type wanted.
    fn finish(self, data_type: &DataType) -> Option<ArrayRef> {
        match self {
            Self::Float(mut values) => Some(Arc::new(values.finish())),
            Self::Integer(mut values) => Some(Arc::new(values.finish())),
            Self::Boolean(mut values) => Some(Arc::new(values.finish())),
            Self::Text(mut values) => {
                let text: ArrayRef = Arc::new(values.finish());
                let typed = cast(&text, data_type).ok()?;
                (typed.null_count() == text.null_count()).then_some(typed)
            }
        }
    }
}

/// Pieces of a text, as [`cut`] makes them, to one batch each. Fields must be of the schema's types.
pub(crate) fn parse(
    pieces: &[&[u8]],
    schema: &Arc<Schema>,
    delimiter: u8,
    header: bool,
) -> Result<Vec<RecordBatch>, Odd> {
    let parse = |(k, piece): (usize, &&[u8])| {
        let mut reader = Reader { rest: piece, delimiter };
        if header && k == 0 {
            (0..schema.fields().len()).try_for_each(|_| reader.field().map(|_| ()))?;
        }
        parse_piece(reader, schema)
    };
    pieces.par_iter().enumerate().map(parse).collect()
}

fn parse_piece(mut reader: Reader<'_>, schema: &Arc<Schema>) -> Result<RecordBatch, Odd> {
    /// Bytes of a short field, to make room for all rows at once.
    const SHORT_FIELD: usize = 8;
    let count = schema.fields().len();
    let room = reader.rest.len() / (SHORT_FIELD * count.max(1)) + 1;
    let mut columns: Vec<Column> = schema.fields().iter().map(|field| Column::new(field.data_type(), room)).collect();
    let last = columns.len().checked_sub(1).ok_or(Odd::Layout)?;
    while !reader.is_done() {
        if reader.skip_empty_line() {
            // In one column an empty line may be a missing value; the general reader knows.
            if last == 0 {
                return Err(Odd::Layout);
            }
            continue;
        }
        for (k, column) in columns.iter_mut().enumerate() {
            let Field { content, ends_line, is_quoted } = reader.field()?;
            // A stray quote is no number, so that only text need be searched for it.
            let is_stray = || matches!(column, Column::Text(_)) && !is_quoted && content.contains(&b'"');
            if (k == last) != ends_line || is_stray() {
                return Err(Odd::Layout);
            }
            column.push(&content).ok_or(Odd::Type { column: k })?;
        }
    }
    let finish =
        |(k, column): (usize, Column)| column.finish(schema.field(k).data_type()).ok_or(Odd::Type { column: k });
    let arrays = columns.into_iter().enumerate().map(finish).collect::<Result<_, _>>()?;
    RecordBatch::try_new(schema.clone(), arrays).map_err(|_| Odd::Layout)
}

/// What is left of a text.
struct Reader<'a> {
    rest: &'a [u8],
    delimiter: u8,
}

struct Field<'a> {
    content: Cow<'a, [u8]>,
    ends_line: bool,
    is_quoted: bool,
}

impl<'a> Reader<'a> {
    fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    fn skip_empty_line(&mut self) -> bool {
        let length = match self.rest {
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            _ => 0,
        };
        self.rest = &self.rest[length..];
        length > 0
    }

    fn field(&mut self) -> Result<Field<'a>, Odd> {
        if self.rest.first() == Some(&b'"') {
            return self.quoted_field();
        }
        let delimiter = self.delimiter;
        let is_end = |&byte: &u8| byte == delimiter || byte == b'\n';
        let end = self.rest.iter().position(is_end).unwrap_or(self.rest.len());
        let content = &self.rest[..end];
        let ends_line = self.rest.get(end) != Some(&delimiter);
        let content = if ends_line { content.strip_suffix(b"\r").unwrap_or(content) } else { content };
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        Ok(Field { content: Cow::Borrowed(content), ends_line, is_quoted: false })
    }

    /// A quote within quotes is written twice.
    fn quoted_field(&mut self) -> Result<Field<'a>, Odd> {
        let text = &self.rest[1..];
        let mut content: Cow<'a, [u8]> = Cow::Borrowed(&[]);
        let mut start = 0;
        loop {
            let quote = text[start..].iter().position(|&byte| byte == b'"');
            let quote = start + quote.ok_or(Odd::OpenQuote { rest: self.rest.len() })?;
            let is_inner = text.get(quote + 1) == Some(&b'"');
            let part = &text[start..quote + usize::from(is_inner)];
            if content.is_empty() {
                content = Cow::Borrowed(part);
            } else {
                content.to_mut().extend_from_slice(part);
            }
            if is_inner {
                start = quote + 2;
                continue;
            }
            let (ends_line, length) = match &text[quote + 1..] {
                [] => (true, 0),
                [b'\n', ..] => (true, 1),
                [b'\r', b'\n', ..] => (true, 2),
                [byte, ..] if *byte == self.delimiter => (false, 1),
                _ => return Err(Odd::Layout),
            };
            self.rest = &text[quote + 1 + length..];
            return Ok(Field { content, ends_line, is_quoted: true });
        }
    }
}

/// About `count` pieces, each ending with the end of a line that is not within quotes.
pub(crate) fn cut(text: &[u8], count: usize) -> Vec<&[u8]> {
    let length = text.len() / count.max(1) + 1;
    let quotes: Vec<usize> =
        text.par_chunks(length).map(|part| part.iter().filter(|&&byte| byte == b'"').count()).collect();
    let mut pieces = Vec::with_capacity(count);
    let (mut start, mut quotes_before) = (0, 0);
    for (k, in_part) in quotes.iter().enumerate() {
        quotes_before += in_part;
        let place = (k + 1) * length;
        if place >= text.len() {
            break;
        }
        let mut is_quoted = quotes_before % 2 == 1;
        let ends = |&byte: &u8| {
            is_quoted ^= byte == b'"';
            byte == b'\n' && !is_quoted
        };
        // A piece that ended beyond this place has taken this one's lines.
        let Some(end) = text[place..].iter().position(ends).map(|end| place + end + 1) else { break };
        if end > start {
            pieces.push(&text[start..end]);
            start = end;
        }
    }
    if start < text.len() {
        pieces.push(&text[start..]);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int64Type};
    use arrow_schema::Field as SchemaField;

    use super::*;

    fn schema(types: &[DataType]) -> Arc<Schema> {
        let field = |(k, data_type): (usize, &DataType)| SchemaField::new(format!("c{k}"), data_type.clone(), true);
        Arc::new(Schema::new(types.iter().enumerate().map(field).collect::<Vec<_>>()))
    }

    #[test]
    fn fields_are_read_and_oddities_left_alone() {
        let both = schema(&[DataType::Float64, DataType::Int64]);
        let read = |text: &str| parse(&[text.as_bytes()], &both, b',', false);
        let batch = &read("1.5,2\r\n,-3\n\n1e-3,\n\"7\",\"8\"").unwrap()[0];
        let floats: Vec<_> = batch.column(0).as_primitive::<Float64Type>().iter().collect();
        let integers: Vec<_> = batch.column(1).as_primitive::<Int64Type>().iter().collect();
        assert_eq!(floats, [Some(1.5), None, Some(1e-3), Some(7.0)]);
        assert_eq!(integers, [Some(2), Some(-3), None, Some(8)]);
        for odd in ["1,2,3\n", "1\n", "\"1\"2,3\n"] {
            assert_eq!(read(odd).unwrap_err(), Odd::Layout, "{odd:?}");
        }
        assert_eq!(parse(&[b"5\" pipe\n"], &schema(&[DataType::Utf8]), b',', false).unwrap_err(), Odd::Layout);
        assert_eq!(read("1,2\n\"1,2\n").unwrap_err(), Odd::OpenQuote { rest: 5 });
        assert_eq!(read("1,2\nx,1\n").unwrap_err(), Odd::Type { column: 0 });
        assert_eq!(read("1,2\n1,2.5\n").unwrap_err(), Odd::Type { column: 1 });
    }

    #[test]
    fn text_truth_and_dates_are_read() {
        let all = schema(&[DataType::Utf8, DataType::Boolean, DataType::Date32]);
        let text = "\"a, \"\"b\"\"\nc\",True,2024-02-29\nü,false,\n,,2023-01-01\n";
        let batch = &parse(&[text.as_bytes()], &all, b',', false).unwrap()[0];
        let words: Vec<_> = batch.column(0).as_string::<i32>().iter().collect();
        assert_eq!(words, [Some("a, \"b\"\nc"), Some("ü"), None]);
        assert_eq!(batch.column(1).as_boolean().iter().collect::<Vec<_>>(), [Some(true), Some(false), None]);
        assert_eq!(batch.column(2).null_count(), 1);
        let wrong = parse(&[b"a,true,2024-02-30\n"], &all, b',', false).unwrap_err();
        assert_eq!(wrong, Odd::Type { column: 2 });
    }

    /// The same bits as the standard library's parser.
    #[test]
    fn floats_are_exact() {
        let float = schema(&[DataType::Float64, DataType::Float64]);
        for text in ["0.1,2.2250738585072011e-308", "123456789012345678,-1e300", "5e-324,0.30000000000000004"] {
            let batch = &parse(&[text.as_bytes()], &float, b',', false).unwrap()[0];
            for (k, field) in text.split(',').enumerate() {
                let value = batch.column(k).as_primitive::<Float64Type>().value(0);
                assert_eq!(value.to_bits(), field.parse::<f64>().unwrap().to_bits(), "{field}");
            }
        }
    }

    #[test]
    fn pieces_end_with_lines_that_are_not_quoted() {
        let text: String = (0..500).map(|k| format!("{k},\"line\none\",{}\n", "x".repeat(k % 13))).collect();
        for count in [1, 2, 7, 100, 5000] {
            let pieces = cut(text.as_bytes(), count);
            assert_eq!(pieces.concat(), text.as_bytes());
            for piece in &pieces {
                assert!(piece.ends_with(b"\n") && piece[0].is_ascii_digit(), "{}", String::from_utf8_lossy(piece));
                assert_eq!(piece.iter().filter(|&&byte| byte == b'"').count() % 2, 0);
            }
            assert!(count < 3 || pieces.len() > 2);
        }
    }
}
