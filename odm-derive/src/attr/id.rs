//! Of what an `_id` is made: `id = "{user}/entries/{#number:06}"`.

use syn::{LitStr, meta::ParseNestedMeta};

use super::value;

/// What an `_id` is made of, segment by segment.
pub(crate) struct IdTemplate {
    /// As it was said, for messages.
    pub(crate) said: LitStr,
    pub(crate) segments: Vec<Segment>,
}

/// What stands between two slashes.
pub(crate) enum Segment {
    Text(String),
    Part(Part),
}

/// The value of a field.
pub(crate) struct Part {
    /// The name of the field.
    pub(crate) name: String,
    /// `#`: the framework numbers the documents that have the same before it.
    pub(crate) is_number: bool,
    /// `:06`: at least so many digits.
    pub(crate) width: Option<usize>,
}

/// The most digits that an integer has.
const MAX_WIDTH: usize = 20;

const SAY: &str = "of what is the `_id` made? Say `id = \"users/{name}\"`: fields between braces, texts, and slashes between them";

/// `id = "…"` inside `#[document(…)]`.
pub(crate) fn parse_id(meta: &ParseNestedMeta<'_>) -> syn::Result<IdTemplate> {
    let said: LitStr = value(&meta.path, meta.input, SAY)?;
    let text = said.value();
    let segments: Result<Vec<_>, String> = text.split('/').map(segment).collect();
    let fail = |message: String| syn::Error::new_spanned(&said, message);
    let segments = segments.map_err(fail)?;
    let parts = |segment: &&Segment| matches!(segment, Segment::Part(_));
    if segments.iter().filter(parts).count() == 0 {
        return Err(fail(format!(
            "all documents would have the same `_id`: name a field that tells them apart, `{text}/{{name}}`"
        )));
    }
    let numbers = |segment: &&Segment| matches!(segment, Segment::Part(part) if part.is_number);
    if segments.iter().filter(numbers).count() > 1 {
        return Err(fail(
            "only one field of an `_id` is a number that the framework gives".into(),
        ));
    }
    Ok(IdTemplate { said, segments })
}

fn segment(text: &str) -> Result<Segment, String> {
    if text.is_empty() {
        return Err("a slash stands between two parts of an `_id`: neither first, nor last, nor beside another one".into());
    }
    if !text.contains(['{', '}']) {
        if text.contains('%') || text.contains(char::is_control) {
            return Err(format!(
                "the text `{text}` has a `%` or a control character, by which texts from fields are escaped: leave that out"
            ));
        }
        return Ok(Segment::Text(text.to_owned()));
    }
    let inside = text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let Some(inside) = inside.filter(|inside| !inside.contains(['{', '}'])) else {
        return Err(format!(
            "nobody could tell where a field ends in `{text}`: each stands alone between slashes, `users/{{name}}/{{number}}`"
        ));
    };
    let (name, width) = match inside.split_once(':') {
        None => (inside, None),
        Some((name, said)) => (name, Some(width(name, said)?)),
    };
    let (name, is_number) = match name.strip_prefix('#') {
        None => (name, false),
        Some(name) => (name, true),
    };
    if name.is_empty() && is_number {
        return Err(
            "which field keeps the number? Name it, `{#number}`, and give the model `number: i64`"
                .into(),
        );
    }
    if name.is_empty() {
        return Err(
            "which field? Name it, `{name}`; `{#number}` is one that the framework numbers".into(),
        );
    }
    Ok(Segment::Part(Part {
        name: name.to_owned(),
        is_number,
        width,
    }))
}

fn width(name: &str, said: &str) -> Result<usize, String> {
    let digits = said
        .strip_prefix('0')
        .and_then(|digits| digits.parse().ok());
    digits.filter(|width| (1..=MAX_WIDTH).contains(width)).ok_or_else(|| {
        format!(
            "behind the colon stands how many digits a number has at least, with zeros in front, so that the ids sort: `{{{name}:06}}`, up \
             to {MAX_WIDTH}"
        )
    })
}
