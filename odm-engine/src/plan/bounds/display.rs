//! The display format of bounds, as in MongoDB's explain: `[3, 7)`, `["a", "a"]`, `[MinKey, MaxKey]`.

use std::fmt;

use bson::oid::ObjectId;
use bson::{DateTime, RawBson, RawBsonRef, RawDocumentBuf};

use super::{Interval, ValueBounds};
use crate::direction::Direction;
use crate::key::value::KeyDecoder;
use crate::value::Number;

/// The maximum number of intervals shown for one field.
const MAX_SHOWN_INTERVALS: usize = 10;

/// The maximum number of characters shown of a value.
const MAX_SHOWN_CHARS: usize = 60;

/// The end of an interval, for display.
#[derive(Clone, Debug)]
pub(super) struct DisplayLimit {
    value: RawBson,
    is_included: bool,
}

impl DisplayLimit {
    pub(super) fn inclusive(value: RawBsonRef<'_>) -> DisplayLimit {
        DisplayLimit {
            value: value.into(),
            is_included: true,
        }
    }

    /// Returns the limit for the value with this encoding, if the value can be decoded.
    pub(super) fn from_encoding(encoding: &[u8]) -> Option<DisplayLimit> {
        let value = KeyDecoder::new(encoding).next_value(Direction::Ascending)?;
        Some(DisplayLimit {
            value,
            is_included: true,
        })
    }

    pub(super) fn exclusive(value: RawBsonRef<'_>) -> DisplayLimit {
        DisplayLimit {
            value: value.into(),
            is_included: false,
        }
    }
}

/// Returns the first and last value of the type of `value`, as in MongoDB's explain.
pub(super) fn bracket_limits(
    value: RawBsonRef<'_>,
) -> (Option<DisplayLimit>, Option<DisplayLimit>) {
    let included = |value| Some(DisplayLimit::inclusive(value));
    let excluded = |value| Some(DisplayLimit::exclusive(value));
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

/// Returns the smallest text, for display, above all texts that begin with `prefix`.
pub(super) fn after_text(prefix: &str) -> Option<String> {
    let mut after = prefix.to_owned();
    let last = after.pop()?;
    after.push(char::from_u32(u32::from(last) + 1)?);
    Some(after)
}

impl fmt::Display for ValueBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, interval) in self.0.iter().take(MAX_SHOWN_INTERVALS).enumerate() {
            if position > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{interval}")?;
        }
        match self.0.len().checked_sub(MAX_SHOWN_INTERVALS) {
            Some(hidden) if hidden > 0 => write!(f, " and {hidden} more"),
            _ if self.0.is_empty() => f.write_str("nothing"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_included =
            |limit: &Option<DisplayLimit>| limit.as_ref().is_none_or(|limit| limit.is_included);
        let bound_text = |limit: &Option<DisplayLimit>, default: &str| match limit {
            Some(limit) => display_value(&limit.value),
            None => default.to_owned(),
        };
        let (low, high) = (&self.lower_limit(), &self.upper_limit());
        f.write_str(if is_included(low) { "[" } else { "(" })?;
        write!(
            f,
            "{}, {}",
            bound_text(low, "MinKey"),
            bound_text(high, "MaxKey")
        )?;
        f.write_str(if is_included(high) { "]" } else { ")" })
    }
}

fn display_value(value: &RawBson) -> String {
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
