//! `$zip`: the first elements of several arrays as an array, then their second ones, and so on, as
//! far as the shortest of them goes; with `useLongestLength` the longest, where `defaults` or nulls
//! take the places of what is not there.
//!
//! ```text
//! { "$zip": { "inputs": [[1, 2, 3], ["a", "b"]] } } → [[1, "a"], [2, "b"]]
//! { "$zip": { "inputs": [[1], []], "useLongestLength": true, "defaults": [0, "x"] } } → [[1, "x"]]
//! { "$zip": { "inputs": [[1], null] } } → null
//! ```

use bson::{RawArrayBuf, RawBsonRef};

use crate::expression::call::{Call, Operands, evaluate_all};
use crate::expression::{Expression, Operator, Scope, Value};
use crate::value::growth;
use crate::{Error, Result, value};

#[derive(Debug)]
struct Zip {
    inputs: Vec<Expression>,
    longest: bool,
    /// One for each input, or none.
    defaults: Vec<Expression>,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let known = &["defaults", "inputs", "useLongestLength"];
    let arguments = call.arguments(known, 34460, 34464)?;
    let list = |argument: RawBsonRef<'_>, name, code| match argument {
        RawBsonRef::Array(items) => value::items(items)
            .map(|item| call.parse(item))
            .collect::<Result<Vec<_>>>(),
        other => {
            let found = value::type_name(other);
            let message = format!("'{name}' of $zip is an array of expressions, not {found}");
            Err(Error::server(code, message))
        }
    };
    let longest = match arguments.get("useLongestLength") {
        None => false,
        Some(RawBsonRef::Boolean(longest)) => longest,
        Some(other) => {
            let found = value::type_name(other);
            let message = format!("'useLongestLength' of $zip is a bool, not {found}");
            return Err(Error::server(34463, message));
        }
    };
    let inputs = match arguments.get("inputs") {
        Some(inputs) => list(inputs, "inputs", 34461)?,
        None => Vec::new(),
    };
    let defaults = match arguments.get("defaults") {
        Some(defaults) => list(defaults, "defaults", 34462)?,
        None => Vec::new(),
    };
    if inputs.is_empty() {
        return Err(Error::server(34465, "$zip needs at least one input"));
    }
    if !longest && !defaults.is_empty() {
        let message = "$zip uses 'defaults' only with 'useLongestLength'";
        return Err(Error::server(34466, message));
    }
    if !defaults.is_empty() && defaults.len() != inputs.len() {
        let message = "$zip needs one of 'defaults' for each of 'inputs'";
        return Err(Error::server(34467, message));
    }
    call.fold(Zip {
        inputs,
        longest,
        defaults,
    })
}

impl Operands for Zip {
    fn operands(&self) -> impl Iterator<Item = &Expression> {
        self.inputs.iter().chain(&self.defaults)
    }
}

impl Operator for Zip {
    fn evaluate<'v>(&'v self, scope: &Scope<'_, 'v>) -> Result<Value<'v>> {
        let inputs = evaluate_all(&self.inputs, scope)?;
        let mut columns = Vec::new();
        for input in &inputs {
            if input.is_nullish() {
                return Ok(Value::NULL);
            }
            let array = input.array().ok_or_else(|| {
                let found = input.type_name();
                Error::server(34468, format!("$zip takes arrays, not {found}"))
            })?;
            columns.push(value::items(array).collect::<Vec<_>>());
        }
        let lengths = columns.iter().map(Vec::len);
        let length = if self.longest {
            lengths.max()
        } else {
            lengths.min()
        };
        let defaults = evaluate_all(&self.defaults, scope)?;
        // A default that is missing leaves the element out.
        let default = |column: usize| match defaults.get(column) {
            Some(default) => default.as_bson(),
            None => Some(RawBsonRef::Null),
        };
        let mut rows = RawArrayBuf::new();
        for row in 0..length.unwrap_or(0) {
            let mut cells = RawArrayBuf::new();
            for (column, items) in columns.iter().enumerate() {
                if let Some(cell) = items.get(row).copied().or(default(column)) {
                    cells.push(cell);
                    growth::check_size(rows.as_bytes().len() + cells.as_bytes().len())?;
                }
            }
            rows.push(cells);
        }
        Ok(rows.into())
    }
}
