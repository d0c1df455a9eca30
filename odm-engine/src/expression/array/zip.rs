//! `$zip`: transposes arrays. The first elements of all arrays form the first row, and so on, up to
//! the shortest array.
//!
//! With `useLongestLength`, rows go up to the longest array, and `defaults` or null fill the gaps.
//!
//! ```text
//! { "$zip": { "inputs": [[1, 2, 3], ["a", "b"]] } } → [[1, "a"], [2, "b"]]
//! { "$zip": { "inputs": [[1], []], "useLongestLength": true, "defaults": [0, "x"] } } → [[1, "x"]]
//! { "$zip": { "inputs": [[1], null] } } → null
//! ```

use bson::{RawArrayBuf, RawBsonRef};

use crate::expression::call::{FoldableOperator, OperatorCall, evaluate_all};
use crate::expression::{Expression, ExpressionOperator, Value, VariableScope};
use crate::value::growth;
use crate::{Error, Result, value};

#[derive(Debug)]
struct ZipArrays {
    inputs: Vec<Expression>,
    longest: bool,
    /// A default for each input, or an empty list.
    defaults: Vec<Expression>,
}

pub(super) fn parse_zip(call: &OperatorCall<'_>) -> Result<Expression> {
    let known = &["defaults", "inputs", "useLongestLength"];
    let arguments = call.named_arguments(known, 34460, 34464)?;
    let list = |argument: RawBsonRef<'_>, name, code| match argument {
        RawBsonRef::Array(items) => value::items(items)
            .map(|item| call.parse_operand(item))
            .collect::<Result<Vec<_>>>(),
        other => {
            let type_name = value::type_name(other);
            let message =
                format!("'{name}' of $zip must be an array of expressions, not {type_name}");
            Err(Error::with_server_code(code, message))
        }
    };
    let longest = match arguments.get("useLongestLength") {
        None => false,
        Some(RawBsonRef::Boolean(longest)) => longest,
        Some(other) => {
            let type_name = value::type_name(other);
            let message = format!("'useLongestLength' of $zip must be a bool, not {type_name}");
            return Err(Error::with_server_code(34463, message));
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
        return Err(Error::with_server_code(
            34465,
            "$zip needs at least one input",
        ));
    }
    if !longest && !defaults.is_empty() {
        let message = "$zip uses 'defaults' only with 'useLongestLength'";
        return Err(Error::with_server_code(34466, message));
    }
    if !defaults.is_empty() && defaults.len() != inputs.len() {
        let message = "$zip needs one default for each input: 'defaults' and 'inputs' must have the same length";
        return Err(Error::with_server_code(34467, message));
    }
    call.fold_constant(ZipArrays {
        inputs,
        longest,
        defaults,
    })
}

impl FoldableOperator for ZipArrays {
    fn operand_expressions(&self) -> impl Iterator<Item = &Expression> {
        self.inputs.iter().chain(&self.defaults)
    }
}

impl ExpressionOperator for ZipArrays {
    fn evaluate<'v>(&'v self, scope: &VariableScope<'_, 'v>) -> Result<Value<'v>> {
        let inputs = evaluate_all(&self.inputs, scope)?;
        let mut columns = Vec::new();
        for input in &inputs {
            if input.is_nullish() {
                return Ok(Value::NULL);
            }
            let array = input.as_array().ok_or_else(|| {
                let type_name = input.type_name();
                Error::with_server_code(34468, format!("$zip takes arrays, not {type_name}"))
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
        // A missing default leaves the element out.
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
