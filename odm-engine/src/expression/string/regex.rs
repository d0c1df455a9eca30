//! The operators with regular expressions: `{ input: …, regex: …, options: … }`.

use std::borrow::Cow;

use bson::{RawArrayBuf, RawBsonRef, RawDocumentBuf};

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope};
use crate::pattern::Regex;
use crate::value::growth;
use crate::{Error, Result, document};

/// The result of a search, given the string and the pattern. `None` if either is null.
pub(super) type Search = fn(Option<(&str, &Regex)>) -> Result<Value<'static>>;

#[derive(Debug)]
struct RegexOperator {
    name: Box<str>,
    input: Expression,
    pattern: PatternSource,
    search: Search,
}

#[derive(Debug)]
enum PatternSource {
    /// `None` if the pattern is null.
    Constant(Option<Regex>),
    Computed {
        regex: Expression,
        options: Option<Expression>,
    },
}

pub(super) fn parse_regex_operator(call: &OperatorCall<'_>, search: Search) -> Result<Expression> {
    let arguments = call.named_arguments(&["input", "options", "regex"], 51103, 31024)?;
    let input = arguments.required_expression("input", 31022)?;
    let regex = arguments.required_expression("regex", 31023)?;
    let options = arguments.optional_expression("options")?;
    let constant = match &options {
        None => regex.as_constant().map(|regex| (regex, None)),
        Some(options) => regex.as_constant().zip(options.as_constant().map(Some)),
    };
    let pattern = match constant {
        Some((regex, options)) => {
            PatternSource::Constant(compile_pattern(call.name, &regex, options.as_ref())?)
        }
        None => PatternSource::Computed { regex, options },
    };
    Ok(Expression::from_operator(RegexOperator {
        name: call.name.into(),
        input,
        pattern,
        search,
    }))
}

impl ExpressionOperator for RegexOperator {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        let input = self.input.evaluate(scope)?;
        let computed;
        let pattern = match &self.pattern {
            PatternSource::Constant(pattern) => pattern.as_ref(),
            PatternSource::Computed { regex, options } => {
                let options = options.as_ref().map(|options| options.evaluate(scope));
                let options = options.transpose()?;
                computed = compile_pattern(&self.name, &regex.evaluate(scope)?, options.as_ref())?;
                computed.as_ref()
            }
        };
        if input.is_nullish() {
            return (self.search)(None);
        }
        let text = input.as_text().ok_or_else(|| {
            let (name, type_name) = (&self.name, input.type_name());
            let message = format!("the input of {name} must be a string, not {type_name}");
            Error::with_server_code(51104, message)
        })?;
        (self.search)(pattern.map(|pattern| (text, pattern)))
    }
}

/// Compiles a pattern. `None` if the source is null.
fn compile_pattern(
    name: &str,
    regex: &Value<'_>,
    options: Option<&Value<'_>>,
) -> Result<Option<Regex>> {
    let flags = match options.filter(|options| !options.is_nullish()) {
        None => None,
        Some(options) => Some(options.as_text().ok_or_else(|| {
            let type_name = options.type_name();
            let message = format!("the options of {name} must be a string, not {type_name}");
            Error::with_server_code(51106, message)
        })?),
    };
    let (pattern, options) = match regex.or_null() {
        RawBsonRef::Null | RawBsonRef::Undefined => {
            // The options must be valid even without a pattern.
            return Regex::new("", flags.unwrap_or_default()).map(|_| None);
        }
        RawBsonRef::String(pattern) => (Cow::Borrowed(pattern), flags.unwrap_or_default()),
        RawBsonRef::RegularExpression(regex) => {
            let literal_options = regex.options.as_str();
            if flags.is_some() && !literal_options.is_empty() {
                let message = format!("{name} has options both in 'regex' and in 'options'");
                return Err(Error::with_server_code(51107, message));
            }
            let pattern = Cow::Borrowed(regex.pattern.as_str());
            (pattern, flags.unwrap_or(literal_options))
        }
        other => {
            let type_name = crate::value::type_name(other);
            let message = format!("'regex' of {name} must be a string or a regex, not {type_name}");
            return Err(Error::with_server_code(51105, message));
        }
    };
    let null_byte = |argument, code| {
        Error::with_server_code(code, format!("{argument} of {name} has a null byte"))
    };
    if pattern.contains('\0') {
        return Err(null_byte("'regex'", 51109));
    }
    if options.contains('\0') {
        return Err(null_byte("'options'", 51110));
    }
    Regex::new(&pattern, options).map(Some).map_err(|error| {
        // Expressions have their own error code for an invalid pattern.
        if error.code() == Some(51091) {
            Error::with_server_code(51111, error.message())
        } else {
            error
        }
    })
}

/// A position in a string, in bytes and in code points.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TextPosition {
    pub(super) byte: usize,
    code_point: usize,
}

impl TextPosition {
    /// Returns this position moved forward to a byte.
    pub(super) fn move_to(self, text: &str, byte: usize) -> TextPosition {
        let skipped_text = text.get(self.byte..byte).unwrap_or_default();
        TextPosition {
            byte,
            code_point: self.code_point + skipped_text.chars().count(),
        }
    }
}

/// Finds the first match from a position on. Returns the start, the length in bytes, and the match
/// as a document.
///
/// # Errors
/// The captures are too large.
pub(super) fn next_match(
    text: &str,
    regex: &Regex,
    from: TextPosition,
) -> Result<Option<(TextPosition, usize, RawDocumentBuf)>> {
    let regex_match = regex.find_at(text, from.byte);
    let Some((full_match, regex_match)) =
        regex_match.and_then(|regex_match| Some((regex_match.get(0)?, regex_match)))
    else {
        return Ok(None);
    };
    let place = from.move_to(text, full_match.start());
    let mut captures = RawArrayBuf::new();
    for group in regex_match.iter().skip(1) {
        match group {
            Some(group) => captures.push(group.as_str()),
            None => captures.push(RawBsonRef::Null),
        }
        growth::check_size(captures.as_bytes().len())?;
    }
    let mut output = RawDocumentBuf::new();
    document::append_field(&mut output, "match", full_match.as_str());
    // The length of a string fits into 32 bits.
    let index = i32::try_from(place.code_point).unwrap_or(i32::MAX);
    document::append_field(&mut output, "idx", index);
    document::append_field(&mut output, "captures", captures);
    Ok(Some((place, full_match.len(), output)))
}
