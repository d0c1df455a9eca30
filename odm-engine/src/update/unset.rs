//! `$unset`: takes a field away. An element of an array becomes null instead.
//!
//! ```text
//! { "$unset": { "address.city": "" } }
//! in: { "address": { "city": "Bern", "cc": "CH" } }
//! out: { "address": { "cc": "CH" } }
//!
//! { "$unset": { "tags.0": "" } }
//! in: { "tags": ["a", "b"] }
//! out: { "tags": [null, "b"] }
//! ```

use bson::RawBsonRef;

use super::operation::Operations;
use crate::Result;

pub(super) fn parse(operations: &mut Operations, path: &str, _: RawBsonRef<'_>) -> Result<()> {
    operations.remove(path)
}

#[cfg(test)]
mod tests {
    use super::super::tests::updated;
    use bson::{RawBson, rawdoc};

    #[test]
    fn fields_go_and_elements_leave_null() {
        let update = rawdoc! { "$unset": { "a.1": "", "b": "", "c.d.e": "" } };
        let changed = updated(rawdoc! { "a": [1, 2], "b": 1, "c": 5 }, update).unwrap();
        assert_eq!(changed, rawdoc! { "a": [1, RawBson::Null], "c": 5 });
    }
}
