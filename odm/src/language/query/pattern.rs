//! Regular expressions.

use bson::{
    RawBson, Regex,
    raw::{CString, cstr},
};

/// A regular expression, in the syntax that the backend reads (PCRE on MongoDB; the engine refuses look-around and
/// back-references).
///
/// ```
/// use odm::Pattern;
///
/// let spelled = Pattern::new("colou?r").ignore_case();
/// let from_a_user = Pattern::literal("1+1=2 (?)");
/// # let _ = (spelled, from_a_user);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    pattern: String,
    ignore_case: bool,
    multi_line: bool,
    dot_all: bool,
}

impl Pattern {
    /// Returns a pattern without options.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self {
            pattern: pattern.into(),
            ignore_case: false,
            multi_line: false,
            dot_all: false,
        }
    }

    /// Returns a pattern that matches exactly this text, with any characters. With [`ignore_case`](Self::ignore_case) the pattern
    /// compares without case. Without that option `eq` is faster.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// use odm::Pattern;
    ///
    /// #[derive(Serialize, Deserialize, Document)]
    /// #[document(collection = "users")]
    /// struct User {
    ///     #[serde(rename = "_id")]
    ///     id: i64,
    ///     email: String,
    /// }
    /// # #[derive(Schema)]
    /// # #[schema(models(User))]
    /// # struct App;
    ///
    /// # async fn example(db: odm::Database<App>, typed_in: &str) -> odm::Result<()> {
    /// let same = Pattern::exact(typed_in).ignore_case();
    /// let user = db.find::<User>().filter(|u| u.email().matches(same)).first().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn exact(text: &str) -> Self {
        // `\z` instead of `$`, which also matches before a final line feed and, with `multi_line`, at each line end.
        Self::new(format!(r"\A{}\z", Self::escape(text)))
    }

    /// Returns a pattern that matches any text containing this text, with any characters.
    #[must_use]
    pub fn literal(text: &str) -> Self {
        Self::new(Self::escape(text))
    }

    /// Returns a pattern that matches any text beginning with this text, with any characters.
    #[must_use]
    pub fn prefix(text: &str) -> Self {
        Self::new(format!("^{}", Self::escape(text)))
    }

    /// Escapes every character with a meaning in patterns. Use this function for user input inside a larger pattern.
    ///
    /// ```
    /// use odm::Pattern;
    ///
    /// let user = "a+b.*";
    /// let line = Pattern::new(format!("^name: {}$", Pattern::escape(user))).multi_line();
    /// # let _ = line;
    /// assert_eq!(Pattern::escape(user), r"a\+b\.\*");
    /// ```
    #[must_use]
    pub fn escape(text: &str) -> String {
        let mut escaped = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                // Some regex libraries read escaped `<` and `>` as word boundaries. Unescaped, both are literal outside of `(?`.
                '<' | '>' => {}
                _ if c.is_ascii_control() => {
                    escaped.push_str(&format!("\\x{:02x}", u32::from(c)));
                    continue;
                }
                _ if c.is_ascii() && !c.is_ascii_alphanumeric() && c != '_' => escaped.push('\\'),
                _ => {}
            }
            escaped.push(c);
        }
        escaped
    }

    /// Ignores case: option `i`. An index cannot restrict such a search to a range.
    #[must_use]
    pub fn ignore_case(mut self) -> Self {
        self.ignore_case = true;
        self
    }

    /// Lets `^` and `$` match at each line start and line end: option `m`.
    #[must_use]
    pub fn multi_line(mut self) -> Self {
        self.multi_line = true;
        self
    }

    /// Lets `.` match line ends too: option `s`.
    #[must_use]
    pub fn dot_all(mut self) -> Self {
        self.dot_all = true;
        self
    }

    pub(crate) fn into_raw(self) -> RawBson {
        let mut options = String::new();
        for (set, option) in [
            (self.ignore_case, 'i'),
            (self.multi_line, 'm'),
            (self.dot_all, 's'),
        ] {
            if set {
                options.push(option);
            }
        }
        RawBson::RegularExpression(Regex {
            pattern: c_string(&self.pattern),
            options: c_string(&options),
        })
    }
}

impl From<&str> for Pattern {
    fn from(pattern: &str) -> Self {
        Self::new(pattern)
    }
}

impl From<String> for Pattern {
    fn from(pattern: String) -> Self {
        Self::new(pattern)
    }
}

/// Replaces null bytes, which end a pattern in BSON, by an escape that matches null bytes.
fn c_string(text: &str) -> CString {
    CString::try_from(text.replace('\0', "\\x00")).unwrap_or_else(|_| CString::from(cstr!("")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_escaped_in_patterns() {
        assert_eq!(Pattern::literal("a.b*c").pattern, r"a\.b\*c");
        assert_eq!(Pattern::prefix("$x[0] é").pattern, r"^\$x\[0\]\ é");
    }

    #[test]
    fn null_bytes_do_not_end_a_pattern() {
        let RawBson::RegularExpression(regex) = Pattern::literal("a\0b").into_raw() else {
            panic!("expected a regular expression");
        };
        assert_eq!(regex.pattern.as_str(), r"a\x00b");
    }
}
