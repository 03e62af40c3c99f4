//! How large the packed parts of an Arrow file say they are. Its reader makes room for that before it unpacks them, and ends the process
//! if there is none.

use std::io::{Read, Seek, SeekFrom};

use arrow_ipc::{Message, root_as_footer, root_as_message};
use arrow_schema::ArrowError;

use crate::limits::size_words;

/// The first bytes of a file, which has a table of its blocks at its end; other data is a stream of messages.
const FILE: &[u8] = b"ARROW1";
/// The end of a file: the length of its footer and the first bytes again.
const TRAILER: usize = 10;
/// What the length of a message comes after.
const MARK: &[u8] = &[0xff; 4];

/// Refuses a part that says that it unpacks to more than `most` bytes. What is not laid out as it should be is left to the reader, which
/// says what is wrong.
pub(crate) fn check<R: Read + Seek>(reader: &mut R, most: u64) -> Result<(), ArrowError> {
    let mut parts = Parts { length: reader.seek(SeekFrom::End(0))?, reader };
    let is_file = parts.at(0, FILE.len()).is_some_and(|start| start == FILE);
    let largest = if is_file { parts.largest_of_file() } else { parts.largest_of_stream().map(Some) };
    reader.rewind()?;
    match largest.unwrap_or(Some(0)) {
        None => Err(ArrowError::IpcError("a block is not where the end of the file says".to_owned())),
        Some(size) if size > most => Err(ArrowError::IpcError(format!(
            "a part of it unpacks to {}, more than there is memory for",
            size_words(size)
        ))),
        _ => Ok(()),
    }
}

struct Parts<'r, R> {
    reader: &'r mut R,
    length: u64,
}

impl<R: Read + Seek> Parts<'_, R> {
    /// Some bytes; none if the data is shorter.
    fn at(&mut self, start: u64, length: usize) -> Option<Vec<u8>> {
        if start.checked_add(length as u64)? > self.length {
            return None;
        }
        self.reader.seek(SeekFrom::Start(start)).ok()?;
        let mut bytes = vec![0; length];
        self.reader.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    /// None if there is no table of blocks, and none in it if a block is not where the table says.
    fn largest_of_file(&mut self) -> Option<Option<u64>> {
        let trailer = self.at(self.length.checked_sub(TRAILER as u64)?, TRAILER)?;
        let length = usize::try_from(i32::from_le_bytes(*trailer.first_chunk()?)).ok()?;
        let footer = self.at(self.length.checked_sub((TRAILER + length) as u64)?, length)?;
        let footer = root_as_footer(&footer).ok()?;
        let blocks = footer.dictionaries().into_iter().flatten().chain(footer.recordBatches().into_iter().flatten());
        let mut largest = 0;
        for block in blocks {
            let (Ok(start), Ok(length)) = (u64::try_from(block.offset()), usize::try_from(block.metaDataLength()))
            else {
                return Some(None);
            };
            let head = self.at(start, length).unwrap_or_default();
            let head = head.strip_prefix(MARK).unwrap_or(&head).get(4..).unwrap_or_default();
            // The reader would look for the message beyond what is said to be its place.
            let Ok(message) = root_as_message(head) else { return Some(None) };
            largest = largest.max(self.largest_of_message(&message, start + length as u64));
        }
        Some(Some(largest))
    }

    fn largest_of_stream(&mut self) -> Option<u64> {
        let (mut place, mut largest) = (0, 0);
        while let Some(mut word) = self.at(place, 4) {
            place += 4;
            if word == MARK {
                word = self.at(place, 4)?;
                place += 4;
            }
            let length = usize::try_from(i32::from_le_bytes(*word.first_chunk()?)).ok()?;
            // No length is the end. What comes before counts, whatever comes after.
            let Some(head) = self.at(place, length).filter(|_| length > 0) else { break };
            let Ok(message) = root_as_message(&head) else { break };
            let body = place + length as u64;
            largest = largest.max(self.largest_of_message(&message, body));
            let Some(next) = u64::try_from(message.bodyLength()).ok().and_then(|length| body.checked_add(length))
            else {
                break;
            };
            place = next;
        }
        Some(largest)
    }

    /// Of a message whose body begins at `body`.
    fn largest_of_message(&mut self, message: &Message<'_>, body: u64) -> u64 {
        let of_dictionary = || message.header_as_dictionary_batch().and_then(|batch| batch.data());
        let batch = message.header_as_record_batch().or_else(of_dictionary);
        let Some(batch) = batch.filter(|batch| batch.compression().is_some()) else { return 0 };
        let mut largest = 0;
        for buffer in batch.buffers().into_iter().flatten().filter(|buffer| buffer.length() > 0) {
            let place = u64::try_from(buffer.offset()).ok().and_then(|offset| body.checked_add(offset));
            let size = place.and_then(|place| self.at(place, 8));
            let size = size.and_then(|size| size.first_chunk().map(|size| i64::from_le_bytes(*size)));
            // A negative size is that of a part that is not packed.
            largest = largest.max(size.map_or(0, |size| u64::try_from(size).unwrap_or(0)));
        }
        largest
    }
}
