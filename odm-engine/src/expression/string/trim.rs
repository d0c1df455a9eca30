//! `$trim`, `$ltrim`, `$rtrim`: a string without white space, or without given characters, at both
//! ends or at one end.
//!
//! ```text
//! { "$trim": { "input": "  a b  " } } → "a b"
//! { "$ltrim": { "input": "ggggoodbyg", "chars": "gd" } } → "oodbyg"
//! { "$rtrim": { "input": "ggggoodbyg", "chars": "gy" } } → "ggggoodb"
//! { "$trim": { "input": null } } → null
//! ```

use bson::RawBsonRef;

use crate::expression::call::{FunctionOf, OperatorCall};
use crate::expression::{Expression, Value};
use crate::{Error, Result};

/// The characters that MongoDB treats as white space.
const WHITE_SPACE: &str = "\0 \t\n\u{b}\u{c}\r\u{a0}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\
    \u{2004}\u{2005}\u{2006}\u{2007}\u{2008}\u{2009}\u{200a}";

pub(super) fn parse_trim(call: &OperatorCall<'_>) -> Result<Expression> {
    parse_with(call, |operands| trim_string(operands, true, true))
}

pub(super) fn parse_left(call: &OperatorCall<'_>) -> Result<Expression> {
    parse_with(call, |operands| trim_string(operands, true, false))
}

pub(super) fn parse_right(call: &OperatorCall<'_>) -> Result<Expression> {
    parse_with(call, |operands| trim_string(operands, false, true))
}

fn parse_with(call: &OperatorCall<'_>, function: FunctionOf<2>) -> Result<Expression> {
    let arguments = call.named_arguments(&["chars", "input"], 50696, 50694)?;
    let input = arguments.required_expression("input", 50695)?;
    let characters = arguments.expression_or("chars", RawBsonRef::String(WHITE_SPACE))?;
    call.fixed_function([input, characters], function)
}

fn trim_string<'v>(
    operands: [Value<'v>; 2],
    trim_start: bool,
    trim_end: bool,
) -> Result<Value<'v>> {
    let [input, characters] = &operands;
    if input.is_nullish() {
        return Ok(Value::NULL);
    }
    let text = input.as_text().ok_or_else(|| {
        let message = format!("'input' must be a string, not {}", input.type_name());
        Error::with_server_code(50699, message)
    })?;
    if characters.is_nullish() {
        return Ok(Value::NULL);
    }
    let characters = characters.as_text().ok_or_else(|| {
        let message = format!("'chars' must be a string, not {}", characters.type_name());
        Error::with_server_code(50700, message)
    })?;
    let mut trimmed = text;
    if trim_start {
        trimmed = trimmed.trim_start_matches(|c| characters.contains(c));
    }
    if trim_end {
        trimmed = trimmed.trim_end_matches(|c| characters.contains(c));
    }
    Ok(trimmed.to_owned().into())
}
