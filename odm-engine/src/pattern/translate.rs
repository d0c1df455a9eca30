//! From Perl's regular expressions, which MongoDB takes, to those of the `regex` crate.
//!
//! Most of the language is shared. What differs: `\d`, `\w`, `\s` and `\b` are about ASCII, `$`
//! also stands before a last line break, a brace that starts no repetition is just a brace, and
//! some escapes have other names.

use std::iter::Peekable;
use std::str::Chars;

use crate::{Error, Result};

/// Rewrites a pattern.
///
/// # Errors
/// Look-around, back-references and what else cannot be searched for in linear time.
pub(super) fn translate(pattern: &str, multi_line: bool, extended: bool) -> Result<String> {
    let (unicode, pattern) = start_verbs(pattern);
    let mut translator = Translator {
        rest: pattern.chars().peekable(),
        unicode,
        output: String::with_capacity(pattern.len()),
        multi_line,
        extended,
    };
    translator.run()?;
    Ok(translator.output)
}

/// Takes off the settings that a pattern may start with; `(*UCP)` makes its classes Unicode's.
fn start_verbs(pattern: &str) -> (bool, &str) {
    let (mut unicode, mut rest) = (false, pattern);
    loop {
        if let Some(after) = rest.strip_prefix("(*UCP)") {
            (unicode, rest) = (true, after);
        } else if let Some(after) = rest
            .strip_prefix("(*UTF)")
            .or_else(|| rest.strip_prefix("(*UTF8)"))
        {
            rest = after;
        } else {
            return (unicode, rest);
        }
    }
}

struct Translator<'p> {
    rest: Peekable<Chars<'p>>,
    /// Whether classes are those of Unicode rather than ASCII's.
    unicode: bool,
    output: String,
    multi_line: bool,
    extended: bool,
}

impl Translator<'_> {
    fn run(&mut self) -> Result<()> {
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.group()?,
                '$' if !self.multi_line => self.output.push_str(r"(?:\n?\z)"),
                '{' if !self.starts_repetition() => self.output.push_str(r"\{"),
                '}' if !self.ends_repetition() => self.output.push_str(r"\}"),
                '*' | '+' | '?' | '}' => {
                    self.output.push(c);
                    if self.rest.peek() == Some(&'+') {
                        return Err(not_supported("possessive quantifiers"));
                    }
                }
                '#' if self.extended => {
                    // A comment is copied as it is, up to the end of its line.
                    self.output.push('#');
                    while let Some(c) = self.rest.next_if(|c| *c != '\n') {
                        self.output.push(c);
                    }
                }
                c => self.output.push(c),
            }
        }
        Ok(())
    }

    fn group(&mut self) -> Result<()> {
        self.output.push('(');
        let mut ahead = self.rest.clone();
        if ahead.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        match (ahead.next(), ahead.next()) {
            (Some('=' | '!'), _) | (Some('<'), Some('=' | '!')) => {
                Err(not_supported("look-around"))
            }
            (Some('>'), _) => Err(not_supported("atomic groups")),
            (Some('('), _) => Err(not_supported("conditional groups")),
            (Some('R' | '&' | '0'..='9'), _) | (Some('P'), Some('>')) => {
                Err(not_supported("recursion"))
            }
            (Some('P'), Some('=')) => Err(not_supported("back-references")),
            (Some('#'), _) => {
                self.output.pop();
                self.rest.by_ref().find(|c| *c == ')');
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn escape(&mut self) -> Result<()> {
        let Some(c) = self.rest.next() else {
            self.output.push('\\');
            return Ok(());
        };
        match c {
            'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'b' if self.unicode => {
                self.output.extend(['\\', c]);
            }
            'd' => self.output.push_str("[0-9]"),
            'D' => self.output.push_str("[^0-9]"),
            'w' => self.output.push_str("[0-9A-Za-z_]"),
            'W' => self.output.push_str("[^0-9A-Za-z_]"),
            's' => self.output.push_str(r"[\t\n\x0B\x0C\r ]"),
            'S' => self.output.push_str(r"[^\t\n\x0B\x0C\r ]"),
            'b' => self.output.push_str(r"(?-u:\b)"),
            'h' => self.output.push_str(r"[\t \x{a0}]"),
            'R' => self.output.push_str(r"(?:\r\n|[\n-\r])"),
            'N' => self.output.push_str(r"[^\n]"),
            'Z' => self.output.push_str(r"(?:\n?\z)"),
            'Q' => self.quoted(),
            'E' => {}
            // The crate has no ASCII form of this one.
            'B' => self.output.push_str(r"\B"),
            'G' | 'K' | 'X' | 'C' => {
                return Err(not_supported(&format!(r"\{c}")));
            }
            '1'..='9' | 'k' | 'g' => return Err(not_supported("back-references")),
            c => self.common_escape(c),
        }
        Ok(())
    }

    /// Escapes that mean the same inside and outside of brackets.
    fn common_escape(&mut self, c: char) {
        match c {
            'e' => self.output.push_str(r"\x1B"),
            '0' => self.output.push_str(r"\x00"),
            'A' | 'z' | 'n' | 'r' | 't' | 'f' | 'v' | 'a' => self.output.extend(['\\', c]),
            'x' | 'p' | 'P' => self.braced_escape(c),
            c => self.literal(c),
        }
    }

    /// `\x{…}` and `\p{…}`, whose braces are no repetition.
    fn braced_escape(&mut self, c: char) {
        self.output.extend(['\\', c]);
        if self.rest.next_if_eq(&'{').is_none() {
            return;
        }
        let name: String = self.rest.by_ref().take_while(|c| *c != '}').collect();
        match (name.as_str(), c) {
            // Perl's own name for letters and digits.
            ("Xan", 'p') => {
                self.output.truncate(self.output.len().saturating_sub(2));
                self.output.push_str(r"[\p{L}\p{N}]");
            }
            _ => self.output.extend(["{", &name, "}"]),
        }
    }

    fn literal(&mut self, c: char) {
        self.output
            .push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
    }

    /// Everything up to `\E` stands for itself.
    fn quoted(&mut self) {
        while let Some(c) = self.rest.next() {
            if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                return;
            }
            self.literal(c);
        }
    }

    fn class(&mut self) -> Result<()> {
        self.output.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.output.push('^');
        }
        if self.rest.next_if_eq(&']').is_some() {
            self.output.push_str(r"\]");
        }
        while let Some(c) = self.rest.next() {
            match c {
                ']' => {
                    self.output.push(']');
                    return Ok(());
                }
                '[' if self.rest.peek() == Some(&':') => {
                    let name: String = self.rest.by_ref().take_while(|c| *c != ']').collect();
                    match name.as_str() {
                        ":alpha:" if self.unicode => self.output.push_str(r"\p{L}"),
                        ":digit:" if self.unicode => self.output.push_str(r"\p{Nd}"),
                        ":alnum:" if self.unicode => self.output.push_str(r"\p{L}\p{N}"),
                        name => self.output.extend(["[", name, "]"]),
                    }
                }
                '\\' => match self.rest.next() {
                    Some(c @ ('d' | 'D' | 'w' | 'W' | 's' | 'S')) if self.unicode => {
                        self.output.extend(['\\', c]);
                    }
                    Some('d') => self.output.push_str("0-9"),
                    Some('w') => self.output.push_str("0-9A-Za-z_"),
                    Some('s') => self.output.push_str(r"\t\n\x0B\x0C\r "),
                    Some('h') => self.output.push_str(r"\t "),
                    Some('b') => self.output.push_str(r"\x08"),
                    Some(c @ ('D' | 'W' | 'S')) => {
                        self.output.push_str("[^");
                        self.output.push_str(match c {
                            'D' => "0-9",
                            'W' => "0-9A-Za-z_",
                            _ => r"\t\n\x0B\x0C\r ",
                        });
                        self.output.push(']');
                    }
                    Some(c) => self.common_escape(c),
                    None => self.output.push('\\'),
                },
                // These mean something only to the other side.
                '[' | '&' | '~' => self.literal(c),
                c if self.extended && c.is_ascii_whitespace() => {
                    self.output.extend(['\\', c]);
                }
                c => self.output.push(c),
            }
        }
        Ok(())
    }

    /// Whether what follows an opening brace is `3}`, `3,}` or `3,5}`.
    fn starts_repetition(&self) -> bool {
        let inside: String = self.rest.clone().take_while(|c| *c != '}').collect();
        let closed = self.rest.clone().any(|c| c == '}');
        let (from, to) = inside.split_once(',').unwrap_or((&inside, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        closed && !from.is_empty() && digits(from) && digits(to)
    }

    /// Whether a closing brace belongs to an opening one that was copied.
    fn ends_repetition(&self) -> bool {
        let open = self.output.rfind('{');
        open.is_some_and(|open| {
            let inside = self.output.get(open + 1..).unwrap_or_default();
            let escaped = self
                .output
                .get(..open)
                .is_some_and(|before| before.ends_with('\\'));
            !escaped && !inside.contains('}')
        })
    }
}

fn not_supported(what: &str) -> Error {
    Error::not_supported(format!(
        "{what} in regular expressions: not supported, as they cannot be searched for in linear time"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        regex::Regex::new(&translate(pattern, false, false).unwrap())
            .unwrap()
            .is_match(text)
    }

    #[test]
    fn classes_are_ascii() {
        assert!(matches(r"^\d+$", "123"));
        assert!(!matches(r"\d", "٣"));
        assert!(matches(r"^[\w.]+$", "a.b"));
        assert!(matches(r"^[^\d]$", "é"));
    }

    #[test]
    fn the_end_may_precede_a_line_break() {
        assert!(matches("a$", "a\n"));
        assert!(!matches("a$", "a\nb"));
    }

    #[test]
    fn braces_and_quotes_stand_for_themselves() {
        assert!(matches("a{b}", "a{b}"));
        assert!(matches("^a{2}$", "aa"));
        assert!(matches(r"\Qa.b\E", "a.b"));
        assert!(!matches(r"\Qa.b\E", "axb"));
        assert!(matches(r"a\/\<b", "a/<b"));
        assert!(matches("[[:alpha:]&&]", "&"));
    }

    #[test]
    fn what_needs_backtracking_is_refused() {
        for pattern in [r"(a)\1", "(?=a)", "(?<!a)b", "(?>a)", "a++", r"a\Kb"] {
            assert!(translate(pattern, false, false).is_err(), "{pattern}");
        }
    }
}
