//! Translation of Perl-compatible patterns, as MongoDB accepts, to the syntax of the `regex` crate.
//!
//! Most of the syntax is shared. In PCRE, `\d`, `\w`, `\s` and `\b` are ASCII, `$` also matches
//! before a final line break, a brace without a repetition is literal, and some escapes have other
//! names.
//!
//! The option `x` is applied here, because the crate would also remove blanks inside classes and
//! after a backslash.

use std::iter::Peekable;
use std::str::Chars;

use crate::{Error, Result};

/// The maximum count of a quantifier.
const MAX_REPEAT: u32 = 65535;

/// Matches the end of the text, or the position before a final line break.
const END_PATTERN: &str = r"(?:\n?\z)";

/// The contents of the classes `\h` (horizontal space) and `\v` (vertical space).
const HORIZONTAL_SPACE: &str =
    r"\t \x{A0}\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}";
const VERTICAL_SPACE: &str = r"\n-\r\x{85}\x{2028}\x{2029}";

/// The names of POSIX classes.
const POSIX_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// Translates a pattern. The result does not need the crate's `x` option.
///
/// # Errors
/// Syntax that needs more than linear time, such as look-around and back-references. A pattern that
/// ends inside a comment or a quotation (code 51091).
pub(super) fn translate_pattern(pattern: &str, multi_line: bool, extended: bool) -> Result<String> {
    let (unicode, pattern) = strip_start_verbs(pattern);
    let mut translator = PatternTranslator {
        rest: pattern.chars().peekable(),
        unicode,
        output: String::with_capacity(pattern.len()),
        flags: PatternFlags {
            multi_line,
            extended,
        },
        outer: Vec::new(),
    };
    translator.translate_all()?;
    Ok(translator.output)
}

/// Strips the leading verbs of a pattern. `(*UCP)` selects Unicode classes.
fn strip_start_verbs(pattern: &str) -> (bool, &str) {
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

/// The options that change the translation. Groups can set options.
#[derive(Clone, Copy)]
struct PatternFlags {
    /// `m`: `$` matches before every line break.
    multi_line: bool,
    /// `x`: blanks and comments are ignored.
    extended: bool,
}

struct PatternTranslator<'p> {
    rest: Peekable<Chars<'p>>,
    /// Whether classes are Unicode instead of ASCII.
    unicode: bool,
    output: String,
    flags: PatternFlags,
    /// The options of the enclosing groups, restored at the end of each group.
    outer: Vec<PatternFlags>,
}

impl PatternTranslator<'_> {
    fn translate_all(&mut self) -> Result<()> {
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => self.translate_escape()?,
                '[' => self.translate_class()?,
                '(' => self.translate_group()?,
                ')' => {
                    self.output.push(')');
                    self.flags = self.outer.pop().unwrap_or(self.flags);
                }
                '$' if !self.flags.multi_line => self.output.push_str(END_PATTERN),
                '{' if !self.starts_repetition() => self.output.push_str(r"\{"),
                '{' if self.repeats_too_often() => {
                    return Err(invalid_pattern("a quantifier is larger than 65535"));
                }
                '}' if !self.ends_repetition() => self.output.push_str(r"\}"),
                '*' | '+' | '?' | '}' => {
                    if c != '}' && self.has_nothing_to_repeat() {
                        return Err(invalid_pattern("a quantifier has nothing to repeat"));
                    }
                    self.output.push(c);
                    match self.rest.peek() {
                        Some('+') => return Err(not_supported("possessive quantifiers")),
                        Some('*') => {
                            return Err(invalid_pattern("a quantifier follows a quantifier"));
                        }
                        _ => {}
                    }
                }
                '#' if self.flags.extended => self.skip_comment()?,
                c if self.flags.extended && is_blank(c) => {}
                c => self.output.push(c),
            }
        }
        Ok(())
    }

    /// Returns whether a quantifier would follow the start of a group or an anchor.
    fn has_nothing_to_repeat(&self) -> bool {
        let follows = |mark: char| {
            let before = self.output.strip_suffix(mark);
            before.is_some_and(|before| !before.ends_with('\\'))
        };
        follows('(') || follows('^') || follows('$') || self.output.ends_with(END_PATTERN)
    }

    /// Skips a comment.
    ///
    /// # Errors
    /// The comment is not terminated by a line break. The server appends a parenthesis to each
    /// pattern, which would become part of the comment.
    fn skip_comment(&mut self) -> Result<()> {
        match self.rest.by_ref().find(|c| *c == '\n') {
            Some(_) => Ok(()),
            None => Err(invalid_pattern(
                "with the option x, a comment needs a line break at its end",
            )),
        }
    }

    fn translate_group(&mut self) -> Result<()> {
        self.output.push('(');
        let mut lookahead = self.rest.clone();
        if lookahead.next_if_eq(&'?').is_none() {
            self.outer.push(self.flags);
            return Ok(());
        }
        match (lookahead.next(), lookahead.next()) {
            (Some('=' | '!'), _) | (Some('<'), Some('=' | '!')) => {
                Err(not_supported("look-around"))
            }
            (Some('>'), _) => Err(not_supported("atomic groups")),
            (Some('('), _) => Err(not_supported("conditional groups")),
            (Some('|'), _) => Err(not_supported("groups that reset numbers")),
            (Some('R' | '&' | '0'..='9'), _) | (Some('P'), Some('>')) => {
                Err(not_supported("recursion"))
            }
            (Some('P'), Some('=')) => Err(not_supported("back-references")),
            (Some('#'), _) => {
                self.output.pop();
                match self.rest.by_ref().find(|c| *c == ')') {
                    Some(_) => Ok(()),
                    None => Err(invalid_pattern("a comment needs a closing parenthesis")),
                }
            }
            (Some('\''), _) => {
                // The crate writes the name in angle brackets.
                self.rest.nth(1);
                let name: String = self.rest.by_ref().take_while(|c| *c != '\'').collect();
                self.output.extend(["?<", &name, ">"]);
                self.outer.push(self.flags);
                Ok(())
            }
            (Some('<' | 'P'), _) => {
                self.outer.push(self.flags);
                self.rest.next();
                self.output.push('?');
                // Copy up to the end of the name.
                while let Some(c) = self.rest.next_if(|c| *c != ')') {
                    self.output.push(c);
                    if c == '>' {
                        break;
                    }
                }
                Ok(())
            }
            _ => self.translate_options(),
        }
    }

    /// Translates inline options, for a group `(?i-x:` or for the rest of the enclosing group
    /// `(?i-x)`.
    fn translate_options(&mut self) -> Result<()> {
        self.rest.next();
        let (mut enabled, mut disabled) = (String::new(), String::new());
        let (mut flags, mut is_on) = (self.flags, true);
        loop {
            match self.rest.next() {
                Some('x') => flags.extended = is_on,
                Some(c @ ('i' | 'm' | 's' | 'U')) => {
                    if c == 'm' {
                        flags.multi_line = is_on;
                    }
                    let (set, other) = match is_on {
                        true => (&mut enabled, &mut disabled),
                        false => (&mut disabled, &mut enabled),
                    };
                    // The last setting wins, and the crate rejects repeated flags.
                    other.retain(|known| known != c);
                    if !set.contains(c) {
                        set.push(c);
                    }
                }
                // `J` and `X` concern duplicate names and unknown escapes, which do not affect the
                // translation.
                Some('J' | 'X') => {}
                Some('-') if is_on => is_on = false,
                Some(end @ (':' | ')')) => {
                    let minus = if disabled.is_empty() { "" } else { "-" };
                    if end == ':' {
                        self.outer.push(self.flags);
                        self.output.extend(["?", &enabled, minus, &disabled, ":"]);
                    } else if enabled.is_empty() && disabled.is_empty() {
                        self.output.pop();
                    } else {
                        self.output.extend(["?", &enabled, minus, &disabled, ")"]);
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => return Err(invalid_pattern("unknown option after (?")),
            }
        }
    }

    fn translate_escape(&mut self) -> Result<()> {
        let Some(c) = self.rest.next() else {
            self.output.push('\\');
            return Ok(());
        };
        match c {
            'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'b' if self.unicode => {
                self.output.extend(['\\', c]);
            }
            'b' => self.output.push_str(r"(?-u:\b)"),
            'R' => self
                .output
                .push_str(r"(?:\r\n|[\n-\r\x{85}\x{2028}\x{2029}])"),
            'N' if self.rest.peek() == Some(&'{') => {
                return Err(invalid_pattern(r"\N{ is not supported"));
            }
            'N' => self.output.push_str(r"[^\n]"),
            'Z' => self.output.push_str(END_PATTERN),
            'A' | 'z' => self.output.extend(['\\', c]),
            'Q' => self.translate_quotation()?,
            'E' => {}
            // The crate has no ASCII form of `\B`.
            'B' => self.output.push_str(r"\B"),
            'G' | 'K' | 'X' | 'C' => {
                return Err(not_supported(&format!(r"\{c}")));
            }
            '8' | '9' => self.push_literal(c),
            // The option `i` must not change Unicode properties.
            'p' | 'P' => {
                self.output.push_str("(?-i:");
                self.translate_property(c)?;
                self.output.push(')');
            }
            'k' | 'g' => return Err(not_supported("back-references")),
            '1'..='7' => match self.octal_from_two(c) {
                Some(code) => self.push_code_point(code)?,
                None => return Err(not_supported("back-references")),
            },
            c if self.class_escape(c, false) => {}
            c => self.common_escape(c)?,
        }
        Ok(())
    }

    /// Writes the class of an escape letter, inside or outside of brackets. Returns whether the
    /// letter is a class.
    fn class_escape(&mut self, c: char, in_class: bool) -> bool {
        let contents = match c.to_ascii_lowercase() {
            'd' => "0-9",
            'w' => "0-9A-Za-z_",
            's' => r"\t\n\x0B\x0C\r ",
            'h' => HORIZONTAL_SPACE,
            'v' => VERTICAL_SPACE,
            _ => return false,
        };
        match (c.is_ascii_uppercase(), in_class) {
            (true, _) => self.output.extend(["[^", contents, "]"]),
            (false, true) => self.output.push_str(contents),
            (false, false) => self.output.extend(["[", contents, "]"]),
        }
        true
    }

    /// Translates escapes with the same meaning inside and outside of brackets.
    fn common_escape(&mut self, c: char) -> Result<()> {
        match c {
            'e' => self.output.push_str(r"\x1B"),
            'n' | 'r' | 't' | 'f' | 'a' => self.output.extend(['\\', c]),
            'p' | 'P' => self.translate_property(c)?,
            'x' => self.translate_hexadecimal()?,
            'o' => {
                if self.rest.next_if_eq(&'{').is_none() {
                    return Err(invalid_pattern(r"\o needs a brace"));
                }
                let digits: String = self.rest.by_ref().take_while(|c| *c != '}').collect();
                let code = u32::from_str_radix(&digits, 8);
                self.push_code_point(
                    code.map_err(|_| invalid_pattern(r"\o{} needs octal digits"))?,
                )?;
            }
            '0' => {
                let mut code = 0;
                for _ in 0..2 {
                    if let Some(digit) = self.rest.next_if(|c| c.is_digit(8)) {
                        code = code * 8 + digit.to_digit(8).unwrap_or_default();
                    }
                }
                self.push_code_point(code)?;
            }
            'c' => match self.rest.next().filter(char::is_ascii) {
                Some(c) => self.push_code_point(u32::from(c.to_ascii_uppercase()) ^ 0x40)?,
                None => return Err(invalid_pattern(r"\c needs an ASCII character after it")),
            },
            'l' | 'L' | 'u' | 'U' | 'N' => {
                return Err(invalid_pattern(&format!(r"\{c} has no meaning here")));
            }
            c => self.push_literal(c),
        }
        Ok(())
    }

    /// Reads an octal number of two or three digits whose first digit is already consumed.
    fn octal_from_two(&mut self, first: char) -> Option<u32> {
        let mut lookahead = self.rest.clone();
        let mut code = first.to_digit(8)?;
        code = code * 8 + lookahead.next()?.to_digit(8)?;
        self.rest.next();
        if let Some(digit) = self.rest.next_if(|c| c.is_digit(8)) {
            code = code * 8 + digit.to_digit(8)?;
        }
        Some(code)
    }

    fn translate_hexadecimal(&mut self) -> Result<()> {
        let mut lookahead = self.rest.clone();
        if lookahead.next_if_eq(&'{').is_some() {
            let digits: String = lookahead.by_ref().take_while(|c| *c != '}').collect();
            let code = u32::from_str_radix(&digits, 16);
            self.rest = lookahead;
            return self.push_code_point(
                code.map_err(|_| invalid_pattern(r"\x{} needs hexadecimal digits"))?,
            );
        }
        let mut code = 0;
        for _ in 0..2 {
            if let Some(digit) = self.rest.next_if(char::is_ascii_hexdigit) {
                code = code * 16 + digit.to_digit(16).unwrap_or_default();
            }
        }
        self.push_code_point(code)
    }

    /// Writes a character by its code point.
    fn push_code_point(&mut self, code: u32) -> Result<()> {
        if char::from_u32(code).is_none() {
            return Err(invalid_pattern("the number is not a code point"));
        }
        self.output.push_str(&format!(r"\x{{{code:X}}}"));
        Ok(())
    }

    /// Translates a property, `\p{…}`, whose braces are not a repetition.
    fn translate_property(&mut self, c: char) -> Result<()> {
        let mut is_negated = c == 'P';
        let mut name: String = match self.rest.next_if_eq(&'{') {
            Some(_) => self.rest.by_ref().take_while(|c| *c != '}').collect(),
            None => self.rest.next().into_iter().collect(),
        };
        if let Some(rest) = name.strip_prefix('^') {
            (is_negated, name) = (!is_negated, rest.to_owned());
        }
        // PCRE's own property names, as the contents of a class.
        let contents = match name.as_str() {
            "Xan" => r"\p{L}\p{N}",
            "Xwd" => r"\p{L}\p{N}_",
            "Xsp" | "Xps" => r"\p{Z}\n-\r\t\x{85}",
            "L&" => r"\p{Lu}\p{Ll}\p{Lt}",
            name => {
                let name = format!(r"\{}{{{name}}}", if is_negated { 'P' } else { 'p' });
                self.output.push_str(&name);
                return Ok(());
            }
        };
        let start = if is_negated { "[^" } else { "[" };
        self.output.extend([start, contents, "]"]);
        Ok(())
    }

    fn push_literal(&mut self, c: char) {
        self.output
            .push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
    }

    /// Translates a quotation: all characters up to `\E` are literal.
    ///
    /// # Errors
    /// The pattern has no `\E`. The server appends a parenthesis to each pattern, which would
    /// become part of the quotation.
    fn translate_quotation(&mut self) -> Result<()> {
        while let Some(c) = self.rest.next() {
            if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                return Ok(());
            }
            self.push_literal(c);
        }
        Err(invalid_pattern(r"\Q needs a closing \E"))
    }

    fn translate_class(&mut self) -> Result<()> {
        for (name, word) in [("[:<:]]", r"\b{start}"), ("[:>:]]", r"\b{end}")] {
            let mut lookahead = self.rest.clone();
            if name.chars().all(|c| lookahead.next() == Some(c)) {
                self.rest = lookahead;
                self.output.extend(["(?-u:", word, ")"]);
                return Ok(());
            }
        }
        self.ensure_no_class_as_element()?;
        self.output.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.output.push('^');
        }
        while self.starts_with(r"\E") {
            self.rest.nth(1);
        }
        // Whether a hyphen starts a range, which requires a single character before the hyphen.
        let mut follows_character = false;
        if self.rest.next_if_eq(&']').is_some() {
            self.output.push_str(r"\]");
            follows_character = true;
        }
        let (mut is_quoted, mut in_range) = (false, false);
        while let Some(c) = self.rest.next() {
            if is_quoted {
                match c {
                    '\\' if self.rest.next_if_eq(&'E').is_some() => is_quoted = false,
                    c => self.literal_in_class(c),
                }
                follows_character = true;
                continue;
            }
            let ends_range = std::mem::take(&mut in_range);
            let is_single = std::mem::replace(&mut follows_character, !ends_range);
            match c {
                ']' => {
                    self.output.push(']');
                    return Ok(());
                }
                '-' => match self.rest.peek().copied() {
                    Some(']') | None => self.output.push_str(r"\-"),
                    Some(_) if is_single && self.starts_class() => {
                        return Err(invalid_pattern("a range ends with a class"));
                    }
                    Some(_) if is_single => {
                        self.output.push('-');
                        in_range = true;
                        if self.rest.next_if_eq(&'-').is_some() {
                            self.output.push_str(r"\-");
                            (in_range, follows_character) = (false, false);
                        }
                    }
                    Some(_) => self.output.push_str(r"\-"),
                },
                '[' if matches!(self.rest.peek(), Some('.' | '=')) => {
                    self.ensure_no_class_as_element()?;
                    self.literal_in_class(c);
                }
                '[' if self.rest.peek() == Some(&':') && self.named_class()? => {
                    follows_character = false;
                }
                '\\' => match self.rest.next() {
                    Some(c @ ('d' | 'D' | 'w' | 'W' | 's' | 'S')) if self.unicode => {
                        self.output.extend(['\\', c]);
                        follows_character = false;
                    }
                    Some('b') => self.output.push_str(r"\x08"),
                    Some('Q') => is_quoted = true,
                    Some('E') => follows_character = is_single,
                    Some(c @ ('1'..='7')) => {
                        let code = self.octal_from_two(c);
                        self.push_code_point(code.or(c.to_digit(8)).unwrap_or_default())?;
                    }
                    Some(c) if self.class_escape(c, true) => follows_character = false,
                    Some(c) => self.common_escape(c)?,
                    None => self.output.push('\\'),
                },
                c => self.literal_in_class(c),
            }
        }
        Ok(())
    }

    fn starts_with(&self, text: &str) -> bool {
        let mut lookahead = self.rest.clone();
        text.chars().all(|c| lookahead.next() == Some(c))
    }

    /// Returns whether a class comes next within brackets.
    fn starts_class(&self) -> bool {
        let mut lookahead = self.rest.clone();
        match (lookahead.next(), lookahead.next()) {
            (Some('\\'), Some(c)) => "dDwWsShHvV".contains(c),
            (Some('['), Some(':')) => true,
            _ => false,
        }
    }

    /// Translates a POSIX class such as `[:alpha:]` after the opening bracket. Returns whether the
    /// text is a class.
    fn named_class(&mut self) -> Result<bool> {
        let mut lookahead = self.rest.clone();
        lookahead.next();
        let name: String = lookahead.by_ref().take_while(|c| *c != ']').collect();
        let Some(name) = name.strip_suffix(':') else {
            return Ok(false);
        };
        self.rest = lookahead;
        match name {
            "alpha" if self.unicode => self.output.push_str(r"\p{L}"),
            "digit" if self.unicode => self.output.push_str(r"\p{Nd}"),
            "alnum" if self.unicode => self.output.push_str(r"\p{L}\p{N}"),
            name if POSIX_CLASSES.contains(&name.trim_start_matches('^')) => {
                self.output.extend(["[:", name, ":]"]);
            }
            name => return Err(invalid_pattern(&format!("there is no class [:{name}:]"))),
        }
        Ok(true)
    }

    /// Rejects `[:alpha:]` outside of brackets, `[.a.]` and `[=a=]`, as PCRE does.
    fn ensure_no_class_as_element(&self) -> Result<()> {
        let mut rest = self.rest.clone();
        let Some(mark) = rest.next_if(|c| matches!(c, ':' | '.' | '=')) else {
            return Ok(());
        };
        let mut last = None;
        for c in rest {
            match c {
                ']' if last == Some(mark) => {
                    return Err(invalid_pattern(
                        "a class name needs its own brackets inside of a class, such as [[:alpha:]]",
                    ));
                }
                ']' | '[' | '\\' => return Ok(()),
                c => last = Some(c),
            }
        }
        Ok(())
    }

    fn literal_in_class(&mut self, c: char) {
        // An escaped `<` or `>` would become a word boundary.
        if c.is_ascii_punctuation() && !matches!(c, '<' | '>') {
            self.output.push('\\');
        }
        self.output.push(c);
    }

    /// Returns whether a count of the next repetition is too large for PCRE.
    fn repeats_too_often(&self) -> bool {
        let counts: String = self.rest.clone().take_while(|c| *c != '}').collect();
        let is_too_large = |count: &str| {
            !count.is_empty()
                && count
                    .parse::<u32>()
                    .map_or(true, |count| count > MAX_REPEAT)
        };
        counts.split(',').any(is_too_large)
    }

    /// Returns whether the text after an opening brace is `3}`, `3,}` or `3,5}`.
    fn starts_repetition(&self) -> bool {
        let mut rest = self.rest.clone();
        if rest.next_if(char::is_ascii_digit).is_none() {
            return false;
        }
        while rest.next_if(char::is_ascii_digit).is_some() {}
        if rest.next_if_eq(&',').is_some() {
            while rest.next_if(char::is_ascii_digit).is_some() {}
        }
        rest.next() == Some('}')
    }

    /// Returns whether a closing brace belongs to a copied opening brace.
    fn ends_repetition(&self) -> bool {
        let open = self.output.rfind('{');
        open.is_some_and(|open| {
            let contents = self.output.get(open + 1..).unwrap_or_default();
            let escaped = self
                .output
                .get(..open)
                .is_some_and(|before| before.ends_with('\\'));
            !escaped && !contents.contains('}')
        })
    }
}

fn not_supported(syntax: &str) -> Error {
    Error::not_supported(format!(
        "{syntax} in regular expressions: not supported, because matching would not take linear time"
    ))
}

fn invalid_pattern(reason: &str) -> Error {
    Error::with_server_code(51091, format!("a regular expression is invalid: {reason}"))
}

/// Returns whether the option `x` ignores a character.
fn is_blank(c: char) -> bool {
    matches!(c, '\t'..='\r' | ' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        regex::Regex::new(&translate_pattern(pattern, false, false).unwrap())
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
    fn patterns_that_need_backtracking_are_rejected() {
        for pattern in [r"(a)\1", "(?=a)", "(?<!a)b", "(?>a)", "a++", r"a\Kb"] {
            assert!(
                translate_pattern(pattern, false, false).is_err(),
                "{pattern}"
            );
        }
    }
}
