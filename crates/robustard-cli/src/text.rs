//! Text that fits a terminal.

use robustard_report::visible;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// At most `width` columns of a terminal, hidden characters written out.
pub fn clipped(text: &str, width: usize) -> String {
    let clean = visible(text).replace('\n', "\\n").replace('\t', "\\t");
    if clean.width() <= width {
        return clean;
    }
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used < width
    };
    clean.chars().take_while(fits).chain(['…']).collect()
}

/// The text and spaces to fill `width` columns of a terminal; `{:<width$}` counts characters, of which some are two columns wide.
pub fn padded(text: &str, width: usize) -> String {
    let text = clipped(text, width);
    let missing = width.saturating_sub(text.width());
    text + &" ".repeat(missing)
}

/// The text in lines of at most `width` columns, as far as its words allow.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => *line = format!("{line} {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A bar for a share of the largest, of at most `width` blocks and at least one.
pub fn bar(share: f64, width: usize) -> String {
    "█".repeat(((share * width as f64).round() as usize).clamp(1, width))
}
