//! `$currentDate`: sets the current time as a date or a timestamp.
//!
//! ```json
//! { "$currentDate": { "changed": true, "version": { "$type": "timestamp" } } }
//! ```

use bson::{DateTime, RawBson, RawBsonRef, Timestamp};

use super::node::UpdateNode;
use super::operation::{UpdateOperations, UpdateOperator};
use crate::{Error, Result, value};

#[derive(Debug, Clone, Copy)]
enum CurrentDate {
    Date,
    Timestamp,
}

pub(super) fn parse_current_date(
    operations: &mut UpdateOperations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    let malformed = || {
        let message = "$currentDate takes true, { $type: 'date' } or { $type: 'timestamp' }";
        Error::bad_value(message)
    };
    let kind = match operand {
        RawBsonRef::Boolean(_) => CurrentDate::Date,
        RawBsonRef::Document(document) => {
            let mut fields = value::fields(document);
            match (fields.next(), fields.next()) {
                (Some(("$type", RawBsonRef::String("date"))), None) => CurrentDate::Date,
                (Some(("$type", RawBsonRef::String("timestamp"))), None) => CurrentDate::Timestamp,
                _ => return Err(malformed()),
            }
        }
        _ => return Err(malformed()),
    };
    operations.push_change(path, kind)
}

impl CurrentDate {
    fn current_value(self) -> RawBson {
        let now = DateTime::now();
        match self {
            CurrentDate::Date => RawBson::DateTime(now),
            CurrentDate::Timestamp => {
                let time = u32::try_from(now.timestamp_millis() / 1000).unwrap_or(u32::MAX);
                RawBson::Timestamp(Timestamp { time, increment: 1 })
            }
        }
    }
}

impl UpdateOperator for CurrentDate {
    fn change_existing(&self, _: &str, value: &mut UpdateNode<'_>) -> Result<bool> {
        *value = UpdateNode::New(self.current_value());
        Ok(true)
    }

    fn initial_value(&self) -> Result<Option<RawBson>> {
        Ok(Some(self.current_value()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::apply_update;
    use bson::rawdoc;

    #[test]
    fn both_kinds_of_time() {
        let update = rawdoc! { "$currentDate": { "a": true, "b": { "$type": "timestamp" } } };
        let changed = apply_update(rawdoc! {}, update).unwrap();
        assert!(changed.get_datetime("a").is_ok() && changed.get_timestamp("b").is_ok());
        assert!(apply_update(rawdoc! {}, rawdoc! { "$currentDate": { "a": 1 } }).is_err());
    }
}
