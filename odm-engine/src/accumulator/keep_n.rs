//! Accumulators that keep `n` values: `$firstN`, `$lastN`, `$minN`, `$maxN`. `$topN` and `$bottomN`
//! share the parsing of `n`.

use std::collections::VecDeque;

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument};

use super::{Accumulator, AccumulatorCall, AccumulatorSpec};
use crate::collation::ValueOrder;
use crate::expression::{Computation, Value};
use crate::value::{self, Number};
use crate::{Error, Result};

/// The rule for the values to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeepRule {
    First,
    Last,
    Smallest,
    Largest,
}

struct KeepN {
    keep: KeepRule,
    count: usize,
    values: VecDeque<RawBson>,
    bytes: usize,
    order: ValueOrder,
}

/// Parses `{ input, n }`.
pub(super) fn parse_keep_n(call: &AccumulatorCall<'_>, rule: KeepRule) -> Result<AccumulatorSpec> {
    let RawBsonRef::Document(arguments) = call.operand else {
        let message = format!("{} takes a document with 'input' and 'n'", call.name);
        return Err(Error::with_server_code(5787801, message));
    };
    let (mut input, mut count) = (None, None);
    for (name, argument) in value::fields(arguments) {
        match name {
            "input" => input = Some(argument),
            "n" => count = Some(argument),
            other => {
                let message = format!("{} has no argument '{other}'", call.name);
                return Err(Error::with_server_code(5787901, message));
            }
        }
    }
    let missing =
        |code, name| Error::with_server_code(code, format!("{} needs '{name}'", call.name));
    let count = count.ok_or_else(|| missing(5787906, "n"))?;
    let input = input.ok_or_else(|| missing(5787907, "input"))?;
    let count = Computation::parse(count, call.environment)?;
    let order = call.environment.order().clone();
    call.accumulator_spec(input, move |id| {
        Ok(Box::new(KeepN {
            keep: rule,
            count: positive_count(&count.evaluate(id)?)?,
            values: VecDeque::new(),
            bytes: 0,
            order: order.clone(),
        }))
    })
}

/// Reads the number of values to keep.
///
/// # Errors
/// The value is not a positive whole number.
pub(super) fn positive_count(value: &Value<'_>) -> Result<usize> {
    let rejection = |code, requirement: &str| {
        Error::with_server_code(code, format!("'n' must be {requirement}"))
    };
    let number = value
        .as_number()
        .ok_or_else(|| rejection(5787902, "a whole number"))?;
    let integer = Number::whole_long(number).ok_or_else(|| rejection(5787903, "a whole number"))?;
    if integer <= 0 {
        return Err(rejection(5787908, "greater than 0"));
    }
    Ok(usize::try_from(integer).unwrap_or(usize::MAX))
}

impl KeepN {
    /// Returns the index at which to insert a value into the ascending values: after all equal
    /// values.
    fn insertion_index(&self, value: RawBsonRef<'_>) -> usize {
        self.values
            .partition_point(|other| self.order.compare(other.as_raw_bson_ref(), value).is_le())
    }
}

impl Accumulator for KeepN {
    fn add_value(&mut self, value: Value<'_>, _: &RawDocument) -> Result<()> {
        if matches!(self.keep, KeepRule::Smallest | KeepRule::Largest) && value.is_nullish() {
            return Ok(());
        }
        let is_full = self.values.len() >= self.count;
        if is_full && self.keep == KeepRule::First {
            return Ok(());
        }
        let value = value.into_bson().unwrap_or(RawBson::Null);
        self.bytes += approximate_bytes(&value);
        match self.keep {
            KeepRule::First | KeepRule::Last => self.values.push_back(value),
            KeepRule::Smallest | KeepRule::Largest => {
                let place = self.insertion_index(value.as_raw_bson_ref());
                self.values.insert(place, value);
            }
        }
        if is_full {
            let removed = match self.keep {
                KeepRule::First | KeepRule::Smallest => self.values.pop_back(),
                KeepRule::Last | KeepRule::Largest => self.values.pop_front(),
            };
            self.bytes -= removed.as_ref().map_or(0, approximate_bytes);
        }
        Ok(())
    }

    fn into_value(self: Box<Self>) -> Option<RawBson> {
        let values = self.values.into_iter();
        let array: RawArrayBuf = match self.keep {
            KeepRule::Largest => values.rev().collect(),
            _ => values.collect(),
        };
        Some(array.into())
    }

    fn held_bytes(&self) -> usize {
        self.bytes
    }
}

/// Returns the approximate size of a value in bytes.
pub(super) fn approximate_bytes(value: &RawBson) -> usize {
    size_of::<RawBson>()
        + match value {
            RawBson::Document(document) => document.as_bytes().len(),
            RawBson::Array(array) => array.as_bytes().len(),
            RawBson::String(text) | RawBson::Symbol(text) | RawBson::JavaScriptCode(text) => {
                text.len()
            }
            RawBson::Binary(binary) => binary.bytes.len(),
            _ => 0,
        }
}
