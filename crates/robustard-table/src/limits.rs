//! What a table may be at the most, so that one that is too large ends in an error that says so and not in a full memory.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use serde::{Deserialize, Serialize};

use crate::error::TableError;

/// Columns of a table.
const MOST_COLUMNS: usize = 200_000;
/// Levels of a column that is said to be a category: each is a column of the model, and a fit of 1000 takes half a minute.
const MOST_LEVELS: usize = 1000;
/// Bytes of memory for each byte of text: the text, the table, the numbers made of it and what is worked out for each row.
pub(crate) const BYTES_PER_BYTE: u64 = 4;
/// The same of text that was packed or comes through a pipe, so that nothing else is known of it: a number of one digit, and a delimiter,
/// becomes one of eight bytes, in the rows as they are read, in the table and among the numbers that are fitted.
const BYTES_PER_UNKNOWN_BYTE: u64 = 12;
/// Copies of the numbers that are fitted, numbers that are worked out for each row, and squares of the smaller of the two sides of the
/// table that a fit holds.
const COPIES: u64 = 3;
const NUMBERS_PER_ROW: u64 = 24;
const SQUARES: u64 = 4;

/// The most that is read and fitted. An error names the one that a table goes beyond.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Columns of a table.
    pub columns: usize,
    /// Levels of a column that is said to be a category.
    pub levels: usize,
    /// Bytes of memory [default: what is free].
    #[serde(skip)]
    pub memory: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { columns: MOST_COLUMNS, levels: MOST_LEVELS, memory: None }
    }
}

impl Limits {
    /// Bytes that a table may have as text, unpacked.
    pub(crate) fn text(&self) -> u64 {
        self.memory.or_else(free_memory).map_or(u64::MAX, |memory| memory / BYTES_PER_UNKNOWN_BYTE)
    }

    /// Refuses a fit of so many rows and features that would take more memory than there is.
    pub fn check_fit(&self, rows: usize, features: usize) -> Result<(), TableError> {
        let Some(memory) = self.memory.or_else(free_memory) else { return Ok(()) };
        let (rows, features) = (rows as u64, features as u64);
        let per_row = features.saturating_mul(COPIES).saturating_add(NUMBERS_PER_ROW);
        let numbers = rows.saturating_mul(per_row);
        let squares = rows.min(features).saturating_mul(rows.min(features)).saturating_mul(SQUARES);
        let needed = numbers.saturating_add(squares).saturating_mul(size_of::<f64>() as u64);
        if needed <= memory {
            return Ok(());
        }
        Err(TableError::Memory { rows, features, needed, memory })
    }
}

/// Bytes that the system says are free, and that the process may have.
pub(crate) fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let free = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| 1024 * kibibytes)?;
    Some([address_space(), group_memory()].into_iter().flatten().fold(free, u64::min))
}

/// What `ulimit -v` leaves.
fn address_space() -> Option<u64> {
    const KIBIBYTE: u64 = 1024;
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit = line.split_whitespace().next()?.parse::<u64>().ok()?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let used = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    let used = used.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    Some(limit.saturating_sub(KIBIBYTE * used))
}

/// What the limit of a container leaves.
fn group_memory() -> Option<u64> {
    let number =
        |name: &str| std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse::<u64>().ok();
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

/// Bytes as people say them.
pub(crate) fn size_words(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} bytes"),
    }
}

thread_local! {
    /// Whether a panic of this thread will be an error.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Runs a reader that is not ours; its panic over a damaged file is an error with that text, and nothing is printed.
pub(crate) fn caught<T>(read: impl FnOnce() -> T) -> Result<T, String> {
    static SILENCE: Once = Once::new();
    SILENCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_CAUGHT.get() {
                before(panic);
            }
        }));
    });
    let outer = IS_CAUGHT.replace(true);
    let result = catch_unwind(AssertUnwindSafe(read));
    IS_CAUGHT.set(outer);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        text.unwrap_or("its reader gave up").lines().next().unwrap_or_default().to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_of_readers_are_errors() {
        assert_eq!(caught(|| 1), Ok(1));
        assert_eq!(caught(|| -> () { panic!("no {}", "block") }), Err("no block".to_owned()));
        assert_eq!(caught(|| caught(|| -> () { panic!("inner") }).is_err()), Ok(true));
    }

    #[test]
    fn fits_that_are_too_large_say_what_they_take() {
        let limits = Limits { memory: Some(1_000_000), ..Limits::default() };
        assert!(limits.check_fit(1000, 10).is_ok() && limits.check_fit(10_000, 10).is_err());
        let message = limits.check_fit(1000, 1000).unwrap_err().to_string();
        for part in ["1000 rows", "1000 features", "56.2 MB", "1.0 MB", "--memory"] {
            assert!(message.contains(part), "{message}");
        }
        assert!(Limits::default().check_fit(usize::MAX, usize::MAX).is_err() || free_memory().is_none());
    }
}
