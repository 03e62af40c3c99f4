//! Colours, on a terminal only: what is printed through `anstream` loses them everywhere else.

use std::fmt::Write as _;
use std::io::Write as _;

use anstyle::{AnsiColor, Style};
use robustard_report::visible;

const HEADING: Style = AnsiColor::Cyan.on_default().bold();
const BAR: Style = AnsiColor::Blue.on_default();
const ERROR: Style = AnsiColor::Red.on_default().bold();
const NOTE: Style = AnsiColor::Yellow.on_default();

/// Says something on standard error; nothing is left to tell when that is gone.
pub fn say(text: &str) {
    // Text from a table could hold codes that a terminal obeys.
    let text = visible(text);
    let (style, rest) = match text.split_once(": ") {
        Some(("error", _)) => (ERROR, "error"),
        Some(("note", _)) => (NOTE, "note"),
        _ => (Style::new(), ""),
    };
    let _ = writeln!(anstream::stderr().lock(), "{style}{rest}{style:#}{}", &text[rest.len()..]);
}

/// A summary: the words at the start of a line are headings.
pub fn painted(text: &str) -> String {
    let mut out = String::with_capacity(2 * text.len());
    for line in text.split_inclusive('\n') {
        let heading = line.find(char::is_whitespace).filter(|end| *end > 0).unwrap_or(0);
        let (heading, rest) = line.split_at(heading);
        let (before, bar) = rest.split_at(rest.find('█').unwrap_or(rest.len()));
        for (style, part) in [(HEADING, heading), (Style::new(), before), (BAR, bar)] {
            if !part.is_empty() {
                // Writing to a string does not fail.
                let _ = write!(out, "{style}{part}{style:#}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_leave_the_text_alone() {
        let text = "Data     a.csv\n         x  1 ███\n\nRows     none\n";
        assert_ne!(painted(text), text);
        assert_eq!(anstream::adapter::strip_str(&painted(text)).to_string(), text);
    }
}
