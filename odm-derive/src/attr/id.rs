//! The setting `id`: `id = auto`, or the template of an `_id` that is composed of fields, `id = "{user}/entries/{#number:06}"`.

use syn::{
    Ident, LitStr,
    meta::ParseNestedMeta,
    parse::{Parse, ParseStream},
};

use super::parse_value;

/// The value of the setting `id`.
pub(crate) enum IdSetting {
    /// `id = auto`: the framework generates the `_id`.
    Auto(Ident),
    Template(IdTemplate),
}

/// The template of an `_id`, segment by segment.
pub(crate) struct IdTemplate {
    /// The template as written, for error messages.
    pub(crate) literal: LitStr,
    pub(crate) segments: Vec<IdSegment>,
}

/// A part of the template between two slashes.
pub(crate) enum IdSegment {
    Text(String),
    Part(IdField),
}

/// A placeholder for the value of a field.
pub(crate) struct IdField {
    /// The name of the field.
    pub(crate) name: String,
    /// `#`: the framework numbers documents with equal preceding segments.
    pub(crate) is_number: bool,
    /// `:06`: the minimum number of digits.
    pub(crate) width: Option<usize>,
}

/// The maximum number of digits of an integer.
const MAX_INTEGER_DIGITS: usize = 20;

const ID_USAGE: &str = "`id` needs `auto` or a template: write `id = auto` for a generated `_id`, or `id = \"users/{name}\"`, with \
     fields in braces, constant texts, and slashes between them";

/// The part of the setting after the `=`.
enum IdValue {
    Auto(Ident),
    Template(LitStr),
}

impl Parse for IdValue {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        match input.peek(LitStr) {
            true => input.parse().map(Self::Template),
            false => input.parse().map(Self::Auto),
        }
    }
}

/// Parses `id = auto` or `id = "…"` inside `#[document(…)]`.
pub(crate) fn parse_id(meta: &ParseNestedMeta<'_>) -> syn::Result<IdSetting> {
    let literal = match parse_value(&meta.path, meta.input, ID_USAGE)? {
        IdValue::Auto(auto) if auto == "auto" => return Ok(IdSetting::Auto(auto)),
        IdValue::Auto(other) => return Err(syn::Error::new_spanned(other, ID_USAGE)),
        IdValue::Template(literal) => literal,
    };
    let text = literal.value();
    let segments: Result<Vec<_>, String> = text.split('/').map(parse_segment).collect();
    let fail = |message: String| syn::Error::new_spanned(&literal, message);
    let segments = segments.map_err(fail)?;
    let parts = |segment: &&IdSegment| matches!(segment, IdSegment::Part(_));
    if segments.iter().filter(parts).count() == 0 {
        return Err(fail(format!(
            "all documents would have the same `_id`: add a field that differs between documents, `{text}/{{name}}`"
        )));
    }
    let numbers = |segment: &&IdSegment| matches!(segment, IdSegment::Part(part) if part.is_number);
    if segments.iter().filter(numbers).count() > 1 {
        return Err(fail(
            "an `_id` can contain only one number that the framework assigns".into(),
        ));
    }
    Ok(IdSetting::Template(IdTemplate { literal, segments }))
}

fn parse_segment(text: &str) -> Result<IdSegment, String> {
    if text.is_empty() {
        return Err("empty part of the `_id`: a slash must stand between two parts".into());
    }
    if !text.contains(['{', '}']) {
        if text.contains('%') || text.contains(char::is_control) {
            return Err(format!(
                "the text `{text}` contains `%` or a control character, which are reserved for escaping the values of fields: \
                 remove it"
            ));
        }
        return Ok(IdSegment::Text(text.to_owned()));
    }
    let placeholder = text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let Some(placeholder) = placeholder.filter(|placeholder| !placeholder.contains(['{', '}']))
    else {
        return Err(format!(
            "ambiguous part `{text}`: a field must stand alone between slashes, `users/{{name}}/{{number}}`"
        ));
    };
    let (name, width) = match placeholder.split_once(':') {
        None => (placeholder, None),
        Some((name, digits)) => (name, Some(parse_width(name, digits)?)),
    };
    let (name, is_number) = match name.strip_prefix('#') {
        None => (name, false),
        Some(name) => (name, true),
    };
    if name.is_empty() && is_number {
        return Err(
            "missing name of the number: write `{#number}`, and add `number: i64` to the model"
                .into(),
        );
    }
    if name.is_empty() {
        return Err(
            "missing name of a field: write `{name}`, or `{#number}` for a number that the framework assigns".into(),
        );
    }
    Ok(IdSegment::Part(IdField {
        name: name.to_owned(),
        is_number,
        width,
    }))
}

fn parse_width(name: &str, digits: &str) -> Result<usize, String> {
    let digits = digits
        .strip_prefix('0')
        .and_then(|digits| digits.parse().ok());
    digits.filter(|width| (1..=MAX_INTEGER_DIGITS).contains(width)).ok_or_else(|| {
        format!(
            "the colon must be followed by the minimum number of digits with zeros in front, so that the ids sort: \
             `{{{name}:06}}`, up to {MAX_INTEGER_DIGITS}"
        )
    })
}
