//! `$unset`: removes a field. An element of an array becomes null instead.
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

use super::operation::UpdateOperations;
use crate::Result;

pub(super) fn parse_unset(
    operations: &mut UpdateOperations,
    path: &str,
    _: RawBsonRef<'_>,
) -> Result<()> {
    operations.push_remove(path)
}

#[cfg(test)]
mod tests {
    use super::super::tests::apply_update;
    use bson::{RawBson, rawdoc};

    #[test]
    fn unset_removes_fields_and_nulls_elements() {
        let update = rawdoc! { "$unset": { "a.1": "", "b": "", "c.d.e": "" } };
        let changed = apply_update(rawdoc! { "a": [1, 2], "b": 1, "c": 5 }, update).unwrap();
        assert_eq!(changed, rawdoc! { "a": [1, RawBson::Null], "c": 5 });
    }
}
