//! What the operators with regular expressions share: `{ input: …, regex: …, options: … }`.

use std::borrow::Cow;

use bson::{RawArrayBuf, RawBsonRef, RawDocumentBuf};

use crate::expression::call::Call;
use crate::expression::{Expression, Operator, Scope, Value};
use crate::pattern::Regex;
use crate::value::growth;
use crate::{Error, Result, document};

/// What is done with a string and the pattern to search it for. Either may be null.
pub(super) type Search = fn(Option<(&str, &Regex)>) -> Result<Value<'static>>;

#[derive(Debug)]
struct Searching {
    name: Box<str>,
    input: Expression,
    pattern: Pattern,
    search: Search,
}

#[derive(Debug)]
enum Pattern {
    /// `None` if it is null.
    Constant(Option<Regex>),
    Computed {
        regex: Expression,
        options: Option<Expression>,
    },
}

pub(super) fn parse(call: &Call<'_>, search: Search) -> Result<Expression> {
    let arguments = call.arguments(&["input", "options", "regex"], 51103, 31024)?;
    let input = arguments.required("input", 31022)?;
    let regex = arguments.required("regex", 31023)?;
    let options = arguments.optional("options")?;
    let constant = match &options {
        None => regex.constant().map(|regex| (regex, None)),
        Some(options) => regex.constant().zip(options.constant().map(Some)),
    };
    let pattern = match constant {
        Some((regex, options)) => Pattern::Constant(compile(call.name, &regex, options.as_ref())?),
        None => Pattern::Computed { regex, options },
    };
    Ok(Expression::operator(Searching {
        name: call.name.into(),
        input,
        pattern,
        search,
    }))
}

impl Operator for Searching {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        let input = self.input.evaluate(scope)?;
        let computed;
        let pattern = match &self.pattern {
            Pattern::Constant(pattern) => pattern.as_ref(),
            Pattern::Computed { regex, options } => {
                let options = options.as_ref().map(|options| options.evaluate(scope));
                let options = options.transpose()?;
                computed = compile(&self.name, &regex.evaluate(scope)?, options.as_ref())?;
                computed.as_ref()
            }
        };
        if input.is_nullish() {
            return (self.search)(None);
        }
        let text = input.text().ok_or_else(|| {
            let (name, found) = (&self.name, input.type_name());
            let message = format!("the input of {name} is a string, not {found}");
            Error::server(51104, message)
        })?;
        (self.search)(pattern.map(|pattern| (text, pattern)))
    }
}

/// A pattern from its source, which may be null.
fn compile(name: &str, regex: &Value<'_>, options: Option<&Value<'_>>) -> Result<Option<Regex>> {
    let given = match options.filter(|options| !options.is_nullish()) {
        None => None,
        Some(options) => Some(options.text().ok_or_else(|| {
            let found = options.type_name();
            let message = format!("the options of {name} are a string, not {found}");
            Error::server(51106, message)
        })?),
    };
    let (pattern, options) = match regex.or_null() {
        RawBsonRef::Null | RawBsonRef::Undefined => {
            // The options have to be ones all the same.
            return Regex::new("", given.unwrap_or_default()).map(|_| None);
        }
        RawBsonRef::String(pattern) => (Cow::Borrowed(pattern), given.unwrap_or_default()),
        RawBsonRef::RegularExpression(regex) => {
            let own = regex.options.as_str();
            if given.is_some() && !own.is_empty() {
                let message = format!("{name} has options both in 'regex' and in 'options'");
                return Err(Error::server(51107, message));
            }
            let pattern = Cow::Borrowed(regex.pattern.as_str());
            (pattern, given.unwrap_or(own))
        }
        other => {
            let found = crate::value::type_name(other);
            let message = format!("'regex' of {name} is a string or a regex, not {found}");
            return Err(Error::server(51105, message));
        }
    };
    let null_byte = |what, code| Error::server(code, format!("{what} of {name} has a null byte"));
    if pattern.contains('\0') {
        return Err(null_byte("'regex'", 51109));
    }
    if options.contains('\0') {
        return Err(null_byte("'options'", 51110));
    }
    Regex::new(&pattern, options).map(Some).map_err(|error| {
        // Expressions have a number of their own for a pattern that is none.
        if error.code() == Some(51091) {
            Error::server(51111, error.message())
        } else {
            error
        }
    })
}

/// A place in a string.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    pub(super) byte: usize,
    code_point: usize,
}

impl Place {
    /// This place, moved on to a byte.
    pub(super) fn moved(self, text: &str, byte: usize) -> Place {
        let between = text.get(self.byte..byte).unwrap_or_default();
        Place {
            byte,
            code_point: self.code_point + between.chars().count(),
        }
    }
}

/// The first match from a place on: where it begins and how long it is, and the match as a document.
///
/// # Errors
/// What it captures is too much.
pub(super) fn next_match(
    text: &str,
    regex: &Regex,
    from: Place,
) -> Result<Option<(Place, usize, RawDocumentBuf)>> {
    let found = regex.find_at(text, from.byte);
    let Some((whole, found)) = found.and_then(|found| Some((found.get(0)?, found))) else {
        return Ok(None);
    };
    let place = from.moved(text, whole.start());
    let mut captures = RawArrayBuf::new();
    for group in found.iter().skip(1) {
        match group {
            Some(group) => captures.push(group.as_str()),
            None => captures.push(RawBsonRef::Null),
        }
        growth::check_size(captures.as_bytes().len())?;
    }
    let mut shown = RawDocumentBuf::new();
    document::append(&mut shown, "match", whole.as_str());
    // Strings are shorter than what does not fit.
    let index = i32::try_from(place.code_point).unwrap_or(i32::MAX);
    document::append(&mut shown, "idx", index);
    document::append(&mut shown, "captures", captures);
    Ok(Some((place, whole.len(), shown)))
}
