//! `$getField`: a field by its name, which may have dots and dollars, of `input` or of the document.
//!
//! ```text
//! { "$getField": { "field": "a.b", "input": { "$arrayToObject": [[["a.b", 1]]] } } } → 1
//! { "$getField": { "field": { "$literal": "$a" }, "input": {} } } → missing
//! { "$getField": { "field": "a", "input": null } } → null
//! ```

use bson::RawBsonRef;

use crate::expression::call::{Call, Operands};
use crate::expression::{Expression, Operator, Scope, Value};
use crate::{Error, Result, value};

#[derive(Debug)]
struct GetField {
    field: Box<str>,
    input: Expression,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    // A document is that of the arguments, unless it is an operator that gives the name.
    let is_operator = |name: &str| name.starts_with('$');
    let first = call.operand.as_document().map(|operand| {
        let name = value::fields(operand).next().map(|(name, _)| name);
        name.is_some_and(is_operator)
    });
    let (field, input) = if first == Some(false) {
        let arguments = call.arguments(&["field", "input"], 3041700, 3041701)?;
        let field = arguments.need("field", 3041702)?;
        (field, arguments.required("input", 3041703)?)
    } else {
        let document = call.parse(RawBsonRef::String("$$CURRENT"))?;
        (call.operand, document)
    };
    call.fold(GetField {
        field: name(call, field, [5654600, 5654601, 5654602])?,
        input,
    })
}

/// A name of a field, which has to be constant. The codes are those for a path, for what is not
/// constant and for what is no string.
pub(super) fn name(call: &Call<'_>, name: RawBsonRef<'_>, codes: [i32; 3]) -> Result<Box<str>> {
    let [path, not_constant, no_string] = codes;
    let operator = call.name;
    if name.as_str().is_some_and(|name| name.starts_with('$')) {
        let message = format!(
            "{operator} takes a name, not a path; put it into $literal to have it as it is"
        );
        return Err(Error::server(path, message));
    }
    // MongoDB looks at what is written and computes nothing.
    let is_literal = |name: RawBsonRef<'_>| match name {
        RawBsonRef::Array(_) => false,
        RawBsonRef::Document(document) => matches!(
            value::fields(document).next(),
            Some(("$literal" | "$const", _))
        ),
        _ => true,
    };
    let parsed = call.parse(name)?;
    let Some(value) = parsed.constant().filter(|_| is_literal(name)) else {
        let message = format!("{operator} takes a name that is constant");
        return Err(Error::server(not_constant, message));
    };
    let name = value.text().ok_or_else(|| {
        let found = value.type_name();
        let message = format!("{operator} takes a string as the name of a field, not {found}");
        Error::server(no_string, message)
    })?;
    Ok(name.into())
}

impl Operands for GetField {
    fn operands(&self) -> impl Iterator<Item = &Expression> {
        [&self.input].into_iter()
    }
}

impl Operator for GetField {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        let input = self.input.evaluate(scope)?;
        if input.is_nullish() {
            return Ok(match input {
                Value::Missing => Value::Missing,
                _ => Value::NULL,
            });
        }
        Ok(input.part(|input| value::get(input.as_document()?, &self.field)))
    }
}
