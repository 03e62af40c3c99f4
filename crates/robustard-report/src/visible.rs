//! Text from tables as it is shown: characters that steer a terminal, or turn the direction of text, become visible.

/// Whether a character is obeyed rather than shown. Those that join letters are part of words.
fn is_hidden(c: char) -> bool {
    let is_format = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
    );
    is_format || (c.is_control() && !matches!(c, '\n' | '\t'))
}

/// The text with what is hidden written out, such as `\u001b`. In JSON the same means the character itself.
pub fn visible(text: &str) -> String {
    written_out(text, "\\u")
}

fn written_out(text: &str, begin: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            out += &format!("{begin}{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// JSON in which texts are as they are to be shown.
pub(crate) fn visible_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(place) = rest.find('\\') {
        out += &rest[..place];
        let escape = &rest[place..];
        let (length, value) = match escape.as_bytes().get(1) {
            Some(b'u') => (6, escape.get(2..6).and_then(|digits| u32::from_str_radix(digits, 16).ok())),
            Some(b'b') => (2, Some(8)),
            Some(b'f') => (2, Some(12)),
            Some(b'r') => (2, Some(13)),
            _ => (2, None),
        };
        match value.and_then(char::from_u32).filter(|c| is_hidden(*c)) {
            Some(c) => out += &format!("\\\\u{:04x}", u32::from(c)),
            None => out += escape.get(..length).unwrap_or(escape),
        }
        rest = escape.get(length..).unwrap_or_default();
    }
    out += rest;
    written_out(&out, "\\\\u")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_shown() {
        assert_eq!(visible("a\u{1b}[31m\u{202e}b\nc\td"), "a\\u001b[31m\\u202eb\nc\td");
        assert_eq!(visible("Köln 東京 👩\u{200d}🔬"), "Köln 東京 👩\u{200d}🔬");
        let shown = |text: &str| {
            let json = serde_json::to_string(text).unwrap();
            serde_json::from_str::<String>(&visible_json(&json)).unwrap()
        };
        for text in ["plain", "a\\b\"c\nd\te", "ü\\u001b"] {
            assert_eq!(shown(text), text);
        }
        assert_eq!(shown("a\u{1b}\u{8}\u{202e}\r"), "a\\u001b\\u0008\\u202e\\u000d");
        // In JSON it stays the same text.
        let json = visible(&serde_json::to_string("\u{202e}\u{9b}x").unwrap());
        assert!(json.is_ascii());
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), "\u{202e}\u{9b}x");
    }
}
