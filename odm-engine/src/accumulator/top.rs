//! `$top`, `$topN`, `$bottom`, `$bottomN`: the values of the first or last documents in a sort
//! order.
//!
//! ```text
//! { "$top": { "sortBy": { "a": -1 }, "output": "$b" } }
//! in:  { "a": 1, "b": "x" }
//! in:  { "a": 2, "b": "y" }
//! out: "y"
//!
//! { "$bottom": { "sortBy": { "a": -1 }, "output": "$b" } }
//! in:  { "a": 1, "b": "x" }
//! in:  { "a": 2, "b": "y" }
//! out: "x"
//!
//! { "$topN": { "sortBy": { "a": 1 }, "output": "$a", "n": 2 } }
//! in:  { "a": 3 }
//! in:  { "a": 1 }
//! in:  { "a": 2 }
//! out: [1, 2]
//!
//! { "$bottomN": { "sortBy": { "a": 1 }, "output": "$a", "n": 2 } }
//! in:  { "a": 3 }
//! in:  { "a": 1 }
//! in:  { "a": 2 }
//! out: [2, 3]
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument};

use super::keep_n::{approximate_bytes, positive_count};
use super::{Accumulator, AccumulatorCall, AccumulatorSpec};
use crate::expression::{Computation, Value};
use crate::sort::{Sort, SortKey};
use crate::{Error, Result, value};

struct TopN {
    sort: Arc<Sort>,
    is_top: bool,
    /// The number of values to keep. `None` for `$top` and `$bottom`, whose result is a single
    /// value, not an array.
    count: Option<usize>,
    /// The kept values in sort order.
    held: VecDeque<(SortKey, RawBson)>,
    bytes: usize,
}

pub(super) fn parse_top(call: &AccumulatorCall<'_>) -> Result<AccumulatorSpec> {
    parse_arguments(call, false)
}

pub(super) fn parse_top_n(call: &AccumulatorCall<'_>) -> Result<AccumulatorSpec> {
    parse_arguments(call, true)
}

fn parse_arguments(call: &AccumulatorCall<'_>, is_several: bool) -> Result<AccumulatorSpec> {
    let RawBsonRef::Document(arguments) = call.operand else {
        let message = format!("{} takes a document of arguments", call.name);
        return Err(Error::with_server_code(5788001, message));
    };
    let (mut sort, mut output, mut count) = (None, None, None);
    for (name, argument) in value::fields(arguments) {
        match (name, argument) {
            ("sortBy", RawBsonRef::Document(order)) => {
                sort = Some(Sort::parse(order, call.environment.order())?)
            }
            ("sortBy", _) => {
                let message = format!("'sortBy' of {} must be a document", call.name);
                return Err(Error::with_server_code(10065, message));
            }
            ("output", argument) => output = Some(argument),
            ("n", argument) if is_several => count = Some(argument),
            (other, _) => {
                let message = format!("{} has no argument '{other}'", call.name);
                return Err(Error::with_server_code(5788002, message));
            }
        }
    }
    let missing =
        |code, name| Error::with_server_code(code, format!("{} needs '{name}'", call.name));
    let count = match (is_several, count) {
        (false, _) => None,
        (true, None) => return Err(missing(5788003, "n")),
        (true, Some(count)) => Some(Computation::parse(count, call.environment)?),
    };
    let output = output.ok_or_else(|| missing(5788004, "output"))?;
    let sort = Arc::new(sort.ok_or_else(|| missing(5788005, "sortBy"))?);
    let is_top = call.name.starts_with("$top");
    call.accumulator_spec(output, move |id| {
        let count = match &count {
            Some(count) => Some(positive_count(&count.evaluate(id)?)?),
            None => None,
        };
        Ok(Box::new(TopN {
            sort: Arc::clone(&sort),
            is_top,
            count,
            held: VecDeque::new(),
            bytes: 0,
        }))
    })
}

impl Accumulator for TopN {
    fn add_value(&mut self, value: Value<'_>, document: &RawDocument) -> Result<()> {
        let key = self.sort.extract_key(document)?;
        let value = value.into_bson().unwrap_or(RawBson::Null);
        // Insert after equal keys, so that equal documents keep their order.
        let place = self
            .held
            .partition_point(|(other, _)| self.sort.compare(other, &key).is_le());
        let is_full = self.held.len() >= self.count.unwrap_or(1);
        let is_out = if self.is_top {
            place == self.held.len()
        } else {
            place == 0
        };
        if is_full && is_out {
            return Ok(());
        }
        self.bytes += key.byte_size() + approximate_bytes(&value);
        self.held.insert(place, (key, value));
        if is_full {
            let removed = match self.is_top {
                true => self.held.pop_back(),
                false => self.held.pop_front(),
            };
            self.bytes -= removed.map_or(0, |(key, value)| {
                key.byte_size() + approximate_bytes(&value)
            });
        }
        Ok(())
    }

    fn into_value(self: Box<Self>) -> Option<RawBson> {
        let mut values = self.held.into_iter().map(|(_, value)| value);
        match self.count {
            None => values.next(),
            Some(_) => Some(values.collect::<RawArrayBuf>().into()),
        }
    }

    fn held_bytes(&self) -> usize {
        self.bytes
    }
}
