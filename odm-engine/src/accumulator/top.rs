//! `$top`, `$topN`, `$bottom`, `$bottomN`: of the documents that come first or last in an order.
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

use super::several::{bytes, whole};
use super::{Accumulation, Accumulator, Call};
use crate::expression::{Computation, Value};
use crate::sort::{Sort, SortKey};
use crate::{Error, Result, value};

struct Top {
    sort: Arc<Sort>,
    is_top: bool,
    /// How many values are wanted. `None` for one that is no array.
    count: Option<usize>,
    /// In the order.
    held: VecDeque<(SortKey, RawBson)>,
    bytes: usize,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Accumulation> {
    read(call, false)
}

pub(super) fn parse_several(call: &Call<'_>) -> Result<Accumulation> {
    read(call, true)
}

fn read(call: &Call<'_>, is_several: bool) -> Result<Accumulation> {
    let RawBsonRef::Document(arguments) = call.operand else {
        let message = format!("{} takes a document of arguments", call.name);
        return Err(Error::server(5788001, message));
    };
    let (mut sort, mut output, mut count) = (None, None, None);
    for (name, argument) in value::fields(arguments) {
        match (name, argument) {
            ("sortBy", RawBsonRef::Document(by)) => sort = Some(Sort::parse(by)?),
            ("sortBy", _) => {
                let message = format!("'sortBy' of {} is not a document", call.name);
                return Err(Error::server(10065, message));
            }
            ("output", argument) => output = Some(argument),
            ("n", argument) if is_several => count = Some(argument),
            (other, _) => {
                let message = format!("{} has no argument '{other}'", call.name);
                return Err(Error::server(5788002, message));
            }
        }
    }
    let missing = |code, name| Error::server(code, format!("{} needs '{name}'", call.name));
    let count = match (is_several, count) {
        (false, _) => None,
        (true, None) => return Err(missing(5788003, "n")),
        (true, Some(count)) => Some(Computation::parse(count, call.environment)?),
    };
    let output = output.ok_or_else(|| missing(5788004, "output"))?;
    let sort = Arc::new(sort.ok_or_else(|| missing(5788005, "sortBy"))?);
    let is_top = call.name.starts_with("$top");
    call.accumulation(output, move |id| {
        let count = match &count {
            Some(count) => Some(whole(&count.of(id)?)?),
            None => None,
        };
        Ok(Box::new(Top {
            sort: Arc::clone(&sort),
            is_top,
            count,
            held: VecDeque::new(),
            bytes: 0,
        }))
    })
}

impl Accumulator for Top {
    fn add(&mut self, value: Value<'_>, document: &RawDocument) -> Result<()> {
        let key = self.sort.key(document)?;
        let value = value.into_bson().unwrap_or(RawBson::Null);
        // Behind those that are equal, so that the order of the documents stays.
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
        self.bytes += key.size() + bytes(&value);
        self.held.insert(place, (key, value));
        if is_full {
            let gone = match self.is_top {
                true => self.held.pop_back(),
                false => self.held.pop_front(),
            };
            self.bytes -= gone.map_or(0, |(key, value)| key.size() + bytes(&value));
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Option<RawBson> {
        let mut values = self.held.into_iter().map(|(_, value)| value);
        match self.count {
            None => values.next(),
            Some(_) => Some(values.collect::<RawArrayBuf>().into()),
        }
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}
