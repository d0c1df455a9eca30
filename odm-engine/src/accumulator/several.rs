//! What the accumulators of several values have in common: `$firstN`, `$lastN`, `$minN`, `$maxN`, and
//! with keys to sort by `$topN` and `$bottomN`.

use std::collections::VecDeque;

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument};

use super::{Accumulation, Accumulator, Call};
use crate::expression::{Computation, Value};
use crate::value::{self, Number};
use crate::{Error, Result};

/// Which values are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    First,
    Last,
    Smallest,
    Largest,
}

struct Several {
    keep: Keep,
    count: usize,
    values: VecDeque<RawBson>,
    bytes: usize,
}

/// Reads `{ input, n }`.
pub(super) fn parse(call: &Call<'_>, keep: Keep) -> Result<Accumulation> {
    let RawBsonRef::Document(arguments) = call.operand else {
        let message = format!("{} takes a document of 'input' and 'n'", call.name);
        return Err(Error::server(5787801, message));
    };
    let (mut input, mut count) = (None, None);
    for (name, argument) in value::fields(arguments) {
        match name {
            "input" => input = Some(argument),
            "n" => count = Some(argument),
            other => {
                let message = format!("{} has no argument '{other}'", call.name);
                return Err(Error::server(5787901, message));
            }
        }
    }
    let missing = |code, name| Error::server(code, format!("{} needs '{name}'", call.name));
    let count = count.ok_or_else(|| missing(5787906, "n"))?;
    let input = input.ok_or_else(|| missing(5787907, "input"))?;
    let count = Computation::parse(count, call.environment)?;
    call.accumulation(input, move |id| {
        Ok(Box::new(Several {
            keep,
            count: whole(&count.of(id)?)?,
            values: VecDeque::new(),
            bytes: 0,
        }))
    })
}

/// How many values are wanted.
///
/// # Errors
/// Not a whole number above zero.
pub(super) fn whole(value: &Value<'_>) -> Result<usize> {
    let refused = |code, what: &str| Error::server(code, format!("'n' must be {what}"));
    let number = value
        .number()
        .ok_or_else(|| refused(5787902, "a whole number"))?;
    let whole = Number::whole(number).ok_or_else(|| refused(5787903, "a whole number"))?;
    if whole <= 0 {
        return Err(refused(5787908, "greater than 0"));
    }
    Ok(usize::try_from(whole).unwrap_or(usize::MAX))
}

impl Several {
    /// Where in the ascending values another one belongs, behind those that are equal.
    fn place(&self, value: RawBsonRef<'_>) -> usize {
        self.values
            .partition_point(|other| value::compare(other.as_raw_bson_ref(), value).is_le())
    }
}

impl Accumulator for Several {
    fn add(&mut self, value: Value<'_>, _: &RawDocument) -> Result<()> {
        if matches!(self.keep, Keep::Smallest | Keep::Largest) && value.is_nullish() {
            return Ok(());
        }
        let is_full = self.values.len() >= self.count;
        if is_full && self.keep == Keep::First {
            return Ok(());
        }
        let value = value.into_bson().unwrap_or(RawBson::Null);
        self.bytes += bytes(&value);
        match self.keep {
            Keep::First | Keep::Last => self.values.push_back(value),
            Keep::Smallest | Keep::Largest => {
                let place = self.place(value.as_raw_bson_ref());
                self.values.insert(place, value);
            }
        }
        if is_full {
            let gone = match self.keep {
                Keep::First | Keep::Smallest => self.values.pop_back(),
                Keep::Last | Keep::Largest => self.values.pop_front(),
            };
            self.bytes -= gone.as_ref().map_or(0, bytes);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Option<RawBson> {
        let values = self.values.into_iter();
        let array: RawArrayBuf = match self.keep {
            Keep::Largest => values.rev().collect(),
            _ => values.collect(),
        };
        Some(array.into())
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// How many bytes a value takes, roughly.
pub(super) fn bytes(value: &RawBson) -> usize {
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
