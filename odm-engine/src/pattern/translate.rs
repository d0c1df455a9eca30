//! From Perl's regular expressions, which MongoDB takes, to those of the `regex` crate.
//!
//! Most of the language is shared. What differs: `\d`, `\w`, `\s` and `\b` are about ASCII, `$`
//! also stands before a last line break, a brace that starts no repetition is just a brace, and
//! some escapes have other names. The option `x` is carried out here, as the crate also takes blanks
//! out of classes and forgets blanks after a backslash.

use std::iter::Peekable;
use std::str::Chars;

use crate::{Error, Result};

/// The largest number of a quantifier.
const MAX_REPEAT: u32 = 65535;

/// The end of the text, or the line break before it.
const END: &str = r"(?:\n?\z)";

/// Blanks and line breaks, which `\h` and `\v` stand for, as the inside of a class.
const HORIZONTAL: &str = r"\t \x{A0}\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}";
const VERTICAL: &str = r"\n-\r\x{85}\x{2028}\x{2029}";

/// The names of classes within brackets.
const CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// Rewrites a pattern. The result has no need of the crate's option to ignore blanks.
///
/// # Errors
/// Look-around, back-references and what else cannot be searched for in linear time; a pattern whose
/// end is inside a comment or a quotation (code 51091).
pub(super) fn translate(pattern: &str, multi_line: bool, extended: bool) -> Result<String> {
    let (unicode, pattern) = start_verbs(pattern);
    let mut translator = Translator {
        rest: pattern.chars().peekable(),
        unicode,
        output: String::with_capacity(pattern.len()),
        flags: Flags {
            multi_line,
            extended,
        },
        outer: Vec::new(),
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

/// The options that change how a pattern is read. Groups can set them.
#[derive(Clone, Copy)]
struct Flags {
    /// `m`: `$` stands before every line break.
    multi_line: bool,
    /// `x`: blanks and comments are left out.
    extended: bool,
}

struct Translator<'p> {
    rest: Peekable<Chars<'p>>,
    /// Whether classes are those of Unicode rather than ASCII's.
    unicode: bool,
    output: String,
    flags: Flags,
    /// The options of the groups around, which are those again after the group.
    outer: Vec<Flags>,
}

impl Translator<'_> {
    fn run(&mut self) -> Result<()> {
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.group()?,
                ')' => {
                    self.output.push(')');
                    self.flags = self.outer.pop().unwrap_or(self.flags);
                }
                '$' if !self.flags.multi_line => self.output.push_str(END),
                '{' if !self.starts_repetition() => self.output.push_str(r"\{"),
                '{' if self.repeats_too_often() => {
                    return Err(invalid("a quantifier is larger than 65535"));
                }
                '}' if !self.ends_repetition() => self.output.push_str(r"\}"),
                '*' | '+' | '?' | '}' => {
                    if c != '}' && self.has_nothing_to_repeat() {
                        return Err(invalid("a quantifier has nothing to repeat"));
                    }
                    self.output.push(c);
                    match self.rest.peek() {
                        Some('+') => return Err(not_supported("possessive quantifiers")),
                        Some('*') => return Err(invalid("a quantifier follows a quantifier")),
                        _ => {}
                    }
                }
                '#' if self.flags.extended => self.comment()?,
                c if self.flags.extended && is_blank(c) => {}
                c => self.output.push(c),
            }
        }
        Ok(())
    }

    /// Whether a quantifier would follow the start of a group or an anchor.
    fn has_nothing_to_repeat(&self) -> bool {
        let follows = |what: char| {
            let before = self.output.strip_suffix(what);
            before.is_some_and(|before| !before.ends_with('\\'))
        };
        follows('(') || follows('^') || follows('$') || self.output.ends_with(END)
    }

    /// Leaves out a comment.
    ///
    /// # Errors
    /// Its line does not end. The server puts a parenthesis after each pattern, which would be a part of
    /// the comment.
    fn comment(&mut self) -> Result<()> {
        match self.rest.by_ref().find(|c| *c == '\n') {
            Some(_) => Ok(()),
            None => Err(invalid(
                "a comment of the option x needs a line break after it",
            )),
        }
    }

    fn group(&mut self) -> Result<()> {
        self.output.push('(');
        let mut ahead = self.rest.clone();
        if ahead.next_if_eq(&'?').is_none() {
            self.outer.push(self.flags);
            return Ok(());
        }
        match (ahead.next(), ahead.next()) {
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
                    None => Err(invalid("a comment needs a closing parenthesis")),
                }
            }
            (Some('\''), _) => {
                // The crate writes the name between angle brackets.
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
                // Up to the end of the name.
                while let Some(c) = self.rest.next_if(|c| *c != ')') {
                    self.output.push(c);
                    if c == '>' {
                        break;
                    }
                }
                Ok(())
            }
            _ => self.options(),
        }
    }

    /// The options of a group, or of what is left of the group around: `(?i-x:` and `(?i-x)`.
    fn options(&mut self) -> Result<()> {
        self.rest.next();
        let (mut on, mut off) = (String::new(), String::new());
        let (mut flags, mut is_on) = (self.flags, true);
        loop {
            match self.rest.next() {
                Some('x') => flags.extended = is_on,
                Some(c @ ('i' | 'm' | 's' | 'U')) => {
                    if c == 'm' {
                        flags.multi_line = is_on;
                    }
                    let (set, other) = match is_on {
                        true => (&mut on, &mut off),
                        false => (&mut off, &mut on),
                    };
                    // The last word counts, and the crate takes no flag twice.
                    other.retain(|known| known != c);
                    if !set.contains(c) {
                        set.push(c);
                    }
                }
                // Names that occur twice, and letters after a backslash: nothing here depends on them.
                Some('J' | 'X') => {}
                Some('-') if is_on => is_on = false,
                Some(end @ (':' | ')')) => {
                    let minus = if off.is_empty() { "" } else { "-" };
                    if end == ':' {
                        self.outer.push(self.flags);
                        self.output.extend(["?", &on, minus, &off, ":"]);
                    } else if on.is_empty() && off.is_empty() {
                        self.output.pop();
                    } else {
                        self.output.extend(["?", &on, minus, &off, ")"]);
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => return Err(invalid("an unknown option stands after (?")),
            }
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
            'b' => self.output.push_str(r"(?-u:\b)"),
            'R' => self
                .output
                .push_str(r"(?:\r\n|[\n-\r\x{85}\x{2028}\x{2029}])"),
            'N' if self.rest.peek() == Some(&'{') => {
                return Err(invalid(r"\N{ names no character"));
            }
            'N' => self.output.push_str(r"[^\n]"),
            'Z' => self.output.push_str(END),
            'A' | 'z' => self.output.extend(['\\', c]),
            'Q' => self.quoted()?,
            'E' => {}
            // The crate has no ASCII form of this one.
            'B' => self.output.push_str(r"\B"),
            'G' | 'K' | 'X' | 'C' => {
                return Err(not_supported(&format!(r"\{c}")));
            }
            '8' | '9' => self.literal(c),
            // The option i does not change what a property is.
            'p' | 'P' => {
                self.output.push_str("(?-i:");
                self.property(c)?;
                self.output.push(')');
            }
            'k' | 'g' => return Err(not_supported("back-references")),
            '1'..='7' => match self.octal_from_two(c) {
                Some(code) => self.code(code)?,
                None => return Err(not_supported("back-references")),
            },
            c if self.class_escape(c, false) => {}
            c => self.common_escape(c)?,
        }
        Ok(())
    }

    /// Writes the class that a letter stands for, inside or outside of brackets. Whether it is one.
    fn class_escape(&mut self, c: char, within: bool) -> bool {
        let inside = match c.to_ascii_lowercase() {
            'd' => "0-9",
            'w' => "0-9A-Za-z_",
            's' => r"\t\n\x0B\x0C\r ",
            'h' => HORIZONTAL,
            'v' => VERTICAL,
            _ => return false,
        };
        match (c.is_ascii_uppercase(), within) {
            (true, _) => self.output.extend(["[^", inside, "]"]),
            (false, true) => self.output.push_str(inside),
            (false, false) => self.output.extend(["[", inside, "]"]),
        }
        true
    }

    /// Escapes that mean the same inside and outside of brackets.
    fn common_escape(&mut self, c: char) -> Result<()> {
        match c {
            'e' => self.output.push_str(r"\x1B"),
            'n' | 'r' | 't' | 'f' | 'a' => self.output.extend(['\\', c]),
            'p' | 'P' => self.property(c)?,
            'x' => self.hexadecimal()?,
            'o' => {
                if self.rest.next_if_eq(&'{').is_none() {
                    return Err(invalid(r"\o needs a brace after it"));
                }
                let digits: String = self.rest.by_ref().take_while(|c| *c != '}').collect();
                let code = u32::from_str_radix(&digits, 8);
                self.code(code.map_err(|_| invalid(r"\o{} needs octal digits"))?)?;
            }
            '0' => {
                let mut code = 0;
                for _ in 0..2 {
                    if let Some(digit) = self.rest.next_if(|c| c.is_digit(8)) {
                        code = code * 8 + digit.to_digit(8).unwrap_or_default();
                    }
                }
                self.code(code)?;
            }
            'c' => match self.rest.next().filter(char::is_ascii) {
                Some(c) => self.code(u32::from(c.to_ascii_uppercase()) ^ 0x40)?,
                None => return Err(invalid(r"\c needs an ASCII character after it")),
            },
            'l' | 'L' | 'u' | 'U' | 'N' => {
                return Err(invalid(&format!(r"\{c} has no meaning here")));
            }
            c => self.literal(c),
        }
        Ok(())
    }

    /// The number of two or three octal digits, of which one is read already.
    fn octal_from_two(&mut self, first: char) -> Option<u32> {
        let mut ahead = self.rest.clone();
        let mut code = first.to_digit(8)?;
        code = code * 8 + ahead.next()?.to_digit(8)?;
        self.rest.next();
        if let Some(digit) = self.rest.next_if(|c| c.is_digit(8)) {
            code = code * 8 + digit.to_digit(8)?;
        }
        Some(code)
    }

    fn hexadecimal(&mut self) -> Result<()> {
        let mut ahead = self.rest.clone();
        if ahead.next_if_eq(&'{').is_some() {
            let digits: String = ahead.by_ref().take_while(|c| *c != '}').collect();
            let code = u32::from_str_radix(&digits, 16);
            self.rest = ahead;
            return self.code(code.map_err(|_| invalid(r"\x{} needs hexadecimal digits"))?);
        }
        let mut code = 0;
        for _ in 0..2 {
            if let Some(digit) = self.rest.next_if(char::is_ascii_hexdigit) {
                code = code * 16 + digit.to_digit(16).unwrap_or_default();
            }
        }
        self.code(code)
    }

    /// A character by its number.
    fn code(&mut self, code: u32) -> Result<()> {
        if char::from_u32(code).is_none() {
            return Err(invalid("a number stands for no character"));
        }
        self.output.push_str(&format!(r"\x{{{code:X}}}"));
        Ok(())
    }

    /// `\p{…}`, whose braces are no repetition.
    fn property(&mut self, c: char) -> Result<()> {
        let mut is_negated = c == 'P';
        let mut name: String = match self.rest.next_if_eq(&'{') {
            Some(_) => self.rest.by_ref().take_while(|c| *c != '}').collect(),
            None => self.rest.next().into_iter().collect(),
        };
        if let Some(rest) = name.strip_prefix('^') {
            (is_negated, name) = (!is_negated, rest.to_owned());
        }
        // Perl's own names, as the inside of a class.
        let inside = match name.as_str() {
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
        self.output.extend([start, inside, "]"]);
        Ok(())
    }

    fn literal(&mut self, c: char) {
        self.output
            .push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
    }

    /// Everything up to `\E` stands for itself.
    ///
    /// # Errors
    /// There is no `\E`: the parenthesis that the server puts after each pattern would be quoted.
    fn quoted(&mut self) -> Result<()> {
        while let Some(c) = self.rest.next() {
            if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                return Ok(());
            }
            self.literal(c);
        }
        Err(invalid(r"\Q needs an \E after it"))
    }

    fn class(&mut self) -> Result<()> {
        for (name, word) in [("[:<:]]", r"\b{start}"), ("[:>:]]", r"\b{end}")] {
            let mut ahead = self.rest.clone();
            if name.chars().all(|c| ahead.next() == Some(c)) {
                self.rest = ahead;
                self.output.extend(["(?-u:", word, ")"]);
                return Ok(());
            }
        }
        self.refuse_class_as_element()?;
        self.output.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.output.push('^');
        }
        while self.starts_with(r"\E") {
            self.rest.nth(1);
        }
        // Whether a hyphen starts a range: it does after a single character.
        let mut after_single = false;
        if self.rest.next_if_eq(&']').is_some() {
            self.output.push_str(r"\]");
            after_single = true;
        }
        let (mut is_quoted, mut in_range) = (false, false);
        while let Some(c) = self.rest.next() {
            if is_quoted {
                match c {
                    '\\' if self.rest.next_if_eq(&'E').is_some() => is_quoted = false,
                    c => self.literal_in_class(c),
                }
                after_single = true;
                continue;
            }
            let ends_range = std::mem::take(&mut in_range);
            let is_single = std::mem::replace(&mut after_single, !ends_range);
            match c {
                ']' => {
                    self.output.push(']');
                    return Ok(());
                }
                '-' => match self.rest.peek().copied() {
                    Some(']') | None => self.output.push_str(r"\-"),
                    Some(_) if is_single && self.starts_class() => {
                        return Err(invalid("a range ends with a class"));
                    }
                    Some(_) if is_single => {
                        self.output.push('-');
                        in_range = true;
                        if self.rest.next_if_eq(&'-').is_some() {
                            self.output.push_str(r"\-");
                            (in_range, after_single) = (false, false);
                        }
                    }
                    Some(_) => self.output.push_str(r"\-"),
                },
                '[' if matches!(self.rest.peek(), Some('.' | '=')) => {
                    self.refuse_class_as_element()?;
                    self.literal_in_class(c);
                }
                '[' if self.rest.peek() == Some(&':') && self.named_class()? => {
                    after_single = false;
                }
                '\\' => match self.rest.next() {
                    Some(c @ ('d' | 'D' | 'w' | 'W' | 's' | 'S')) if self.unicode => {
                        self.output.extend(['\\', c]);
                        after_single = false;
                    }
                    Some('b') => self.output.push_str(r"\x08"),
                    Some('Q') => is_quoted = true,
                    Some('E') => after_single = is_single,
                    Some(c @ ('1'..='7')) => {
                        let code = self.octal_from_two(c);
                        self.code(code.or(c.to_digit(8)).unwrap_or_default())?;
                    }
                    Some(c) if self.class_escape(c, true) => after_single = false,
                    Some(c) => self.common_escape(c)?,
                    None => self.output.push('\\'),
                },
                c => self.literal_in_class(c),
            }
        }
        Ok(())
    }

    fn starts_with(&self, text: &str) -> bool {
        let mut ahead = self.rest.clone();
        text.chars().all(|c| ahead.next() == Some(c))
    }

    /// Whether a class comes next within brackets.
    fn starts_class(&self) -> bool {
        let mut ahead = self.rest.clone();
        match (ahead.next(), ahead.next()) {
            (Some('\\'), Some(c)) => "dDwWsShHvV".contains(c),
            (Some('['), Some(':')) => true,
            _ => false,
        }
    }

    /// Takes the name of a class, such as `[:alpha:]`, of which the bracket is read. Whether it is one.
    fn named_class(&mut self) -> Result<bool> {
        let mut ahead = self.rest.clone();
        ahead.next();
        let name: String = ahead.by_ref().take_while(|c| *c != ']').collect();
        let Some(name) = name.strip_suffix(':') else {
            return Ok(false);
        };
        self.rest = ahead;
        match name {
            "alpha" if self.unicode => self.output.push_str(r"\p{L}"),
            "digit" if self.unicode => self.output.push_str(r"\p{Nd}"),
            "alnum" if self.unicode => self.output.push_str(r"\p{L}\p{N}"),
            name if CLASSES.contains(&name.trim_start_matches('^')) => {
                self.output.extend(["[:", name, ":]"]);
            }
            name => return Err(invalid(&format!("there is no class [:{name}:]"))),
        }
        Ok(true)
    }

    /// Refuses `[:alpha:]` that is in no class, `[.a.]` and `[=a=]`, as PCRE does.
    fn refuse_class_as_element(&self) -> Result<()> {
        let mut rest = self.rest.clone();
        let Some(mark) = rest.next_if(|c| matches!(c, ':' | '.' | '=')) else {
            return Ok(());
        };
        let mut last = None;
        for c in rest {
            match c {
                ']' if last == Some(mark) => {
                    return Err(invalid("the name of a class stands in brackets of its own"));
                }
                ']' | '[' | '\\' => return Ok(()),
                c => last = Some(c),
            }
        }
        Ok(())
    }

    fn literal_in_class(&mut self, c: char) {
        // A backslash makes these two word boundaries.
        if c.is_ascii_punctuation() && !matches!(c, '<' | '>') {
            self.output.push('\\');
        }
        self.output.push(c);
    }

    /// Whether a number of the repetition that comes next is too large for PCRE.
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

    /// Whether what follows an opening brace is `3}`, `3,}` or `3,5}`.
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

fn invalid(why: &str) -> Error {
    Error::server(51091, format!("a regular expression is invalid: {why}"))
}

/// What the option `x` leaves out.
fn is_blank(c: char) -> bool {
    matches!(c, '\t'..='\r' | ' ')
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
