//! What people are told of bounds, as MongoDB's explain has it: `[3, 7)`, `["a", "a"]`, `[MinKey, MaxKey]`.

use std::fmt;

use bson::oid::ObjectId;
use bson::{DateTime, RawBson, RawBsonRef, RawDocumentBuf};

use super::{Bounds, Interval};
use crate::direction::Direction;
use crate::key::value::Decoder;
use crate::value::Number;

/// How many intervals of one field people are told.
const MAX_SHOWN: usize = 10;

/// How many characters of a value people are told.
const MAX_SHOWN_CHARS: usize = 60;

/// The end of an interval, for people.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    value: RawBson,
    is_included: bool,
}

impl Limit {
    pub(super) fn included(value: RawBsonRef<'_>) -> Limit {
        Limit {
            value: value.into(),
            is_included: true,
        }
    }

    /// The value with this encoding, if it can be told from that.
    pub(super) fn decoded(encoding: &[u8]) -> Option<Limit> {
        let value = Decoder::new(encoding).next(Direction::Ascending)?;
        Some(Limit {
            value,
            is_included: true,
        })
    }

    pub(super) fn excluded(value: RawBsonRef<'_>) -> Limit {
        Limit {
            value: value.into(),
            is_included: false,
        }
    }
}

/// Where the values of this one's type begin and end, as MongoDB's explain has it.
pub(super) fn bracket_limits(value: RawBsonRef<'_>) -> (Option<Limit>, Option<Limit>) {
    let included = |value| Some(Limit::included(value));
    let excluded = |value| Some(Limit::excluded(value));
    let empty = RawDocumentBuf::new();
    let no_items = bson::RawArrayBuf::new();
    let least_id = RawBsonRef::ObjectId(ObjectId::from_bytes([0; 12]));
    let timestamp = |time| {
        RawBsonRef::Timestamp(bson::Timestamp {
            time,
            increment: time,
        })
    };
    if Number::from_bson(value).is_some() {
        let infinite = |value| included(RawBsonRef::Double(value));
        return (infinite(f64::NEG_INFINITY), infinite(f64::INFINITY));
    }
    match value {
        RawBsonRef::String(_) | RawBsonRef::Symbol(_) => (
            included(RawBsonRef::String("")),
            excluded(RawBsonRef::Document(&empty)),
        ),
        RawBsonRef::Document(_) => (
            included(RawBsonRef::Document(&empty)),
            excluded(RawBsonRef::Array(&no_items)),
        ),
        RawBsonRef::Binary(_) => {
            let least = bson::raw::RawBinaryRef {
                subtype: bson::spec::BinarySubtype::Generic,
                bytes: &[],
            };
            (included(RawBsonRef::Binary(least)), excluded(least_id))
        }
        RawBsonRef::ObjectId(_) => (included(least_id), excluded(RawBsonRef::Boolean(false))),
        RawBsonRef::Boolean(_) => (
            included(RawBsonRef::Boolean(false)),
            included(RawBsonRef::Boolean(true)),
        ),
        RawBsonRef::DateTime(_) => (
            included(RawBsonRef::DateTime(DateTime::MIN)),
            included(RawBsonRef::DateTime(DateTime::MAX)),
        ),
        RawBsonRef::Timestamp(_) => (included(timestamp(0)), included(timestamp(u32::MAX))),
        _ => (included(value), excluded(RawBsonRef::MaxKey)),
    }
}

/// The least text, as people see it, above all that begin with `prefix`.
pub(super) fn after_text(prefix: &str) -> Option<String> {
    let mut after = prefix.to_owned();
    let last = after.pop()?;
    after.push(char::from_u32(u32::from(last) + 1)?);
    Some(after)
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, interval) in self.0.iter().take(MAX_SHOWN).enumerate() {
            if position > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{interval}")?;
        }
        match self.0.len().checked_sub(MAX_SHOWN) {
            Some(more) if more > 0 => write!(f, " and {more} more"),
            _ if self.0.is_empty() => f.write_str("nothing"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_included =
            |limit: &Option<Limit>| limit.as_ref().is_none_or(|limit| limit.is_included);
        let shown = |limit: &Option<Limit>, otherwise: &str| match limit {
            Some(limit) => show(&limit.value),
            None => otherwise.to_owned(),
        };
        let (low, high) = (&self.low(), &self.high());
        f.write_str(if is_included(low) { "[" } else { "(" })?;
        write!(f, "{}, {}", shown(low, "MinKey"), shown(high, "MaxKey"))?;
        f.write_str(if is_included(high) { "]" } else { ")" })
    }
}

fn show(value: &RawBson) -> String {
    let text = match value {
        RawBson::MinKey => "MinKey".to_owned(),
        RawBson::MaxKey => "MaxKey".to_owned(),
        RawBson::Undefined => "undefined".to_owned(),
        value => match bson::Bson::try_from(value.clone()) {
            Ok(value) => value.to_string(),
            Err(_) => "…".to_owned(),
        },
    };
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
