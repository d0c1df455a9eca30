//! `$trim`, `$ltrim`, `$rtrim`: a string without the white space, or the given characters, at both
//! its ends or one of them.
//!
//! ```text
//! { "$trim": { "input": "  a b  " } } → "a b"
//! { "$ltrim": { "input": "ggggoodbyg", "chars": "gd" } } → "oodbyg"
//! { "$rtrim": { "input": "ggggoodbyg", "chars": "gy" } } → "ggggoodb"
//! { "$trim": { "input": null } } → null
//! ```

use bson::RawBsonRef;

use crate::expression::call::{Call, FunctionOf};
use crate::expression::{Expression, Value};
use crate::{Error, Result};

/// What MongoDB takes for white space.
const WHITE_SPACE: &str = "\0 \t\n\u{b}\u{c}\r\u{a0}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\
    \u{2004}\u{2005}\u{2006}\u{2007}\u{2008}\u{2009}\u{200a}";

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    with(call, |operands| trim(operands, true, true))
}

pub(super) fn parse_left(call: &Call<'_>) -> Result<Expression> {
    with(call, |operands| trim(operands, true, false))
}

pub(super) fn parse_right(call: &Call<'_>) -> Result<Expression> {
    with(call, |operands| trim(operands, false, true))
}

fn with(call: &Call<'_>, function: FunctionOf<2>) -> Result<Expression> {
    let arguments = call.arguments(&["chars", "input"], 50696, 50694)?;
    let input = arguments.required("input", 50695)?;
    let characters = arguments.optional_or("chars", RawBsonRef::String(WHITE_SPACE))?;
    call.function([input, characters], function)
}

fn trim<'v>(operands: [Value<'v>; 2], left: bool, right: bool) -> Result<Value<'v>> {
    let [input, characters] = &operands;
    if input.is_nullish() {
        return Ok(Value::NULL);
    }
    let text = input.text().ok_or_else(|| {
        let message = format!("what is trimmed is a string, not {}", input.type_name());
        Error::server(50699, message)
    })?;
    if characters.is_nullish() {
        return Ok(Value::NULL);
    }
    let characters = characters.text().ok_or_else(|| {
        let message = format!("'chars' is a string, not {}", characters.type_name());
        Error::server(50700, message)
    })?;
    let mut trimmed = text;
    if left {
        trimmed = trimmed.trim_start_matches(|c| characters.contains(c));
    }
    if right {
        trimmed = trimmed.trim_end_matches(|c| characters.contains(c));
    }
    Ok(trimmed.to_owned().into())
}
