//! The shortest way of a query: a document by its `_id`, without a plan.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::{Find, ReadState};
use crate::direction::Direction;
use crate::error::Result;
use crate::interrupt;
use crate::key::{self, value::encode_value};
use crate::plan;
use crate::store::Snapshot;
use crate::value;

/// Returns the id of a query for a whole document by its `_id` alone, such as `{ _id: 7 }` or `{ _id: { $eq: 7 } }`.
pub(super) fn only_id(find: &Find) -> Option<RawBsonRef<'_>> {
    let is_plain = find.projection.is_none()
        && find.sort.is_none()
        && find.skip == 0
        && find.limit != Some(0)
        && find.hint.is_none()
        && find.variables.is_empty();
    if !is_plain {
        return None;
    }
    match only_field(&find.filter)? {
        ("_id", RawBsonRef::Document(condition)) => match only_field(condition)? {
            ("$eq", id) => Some(id).filter(is_scalar),
            _ => None,
        },
        ("_id", id) => Some(id).filter(is_scalar),
        _ => None,
    }
}

/// Reads the document with an `_id`.
///
/// # Errors
/// Damaged, I/O; an [interrupt](crate::Interrupt).
pub(super) fn find_by_id(
    reading: ReadState<'_>,
    name: &str,
    id: RawBsonRef<'_>,
) -> Result<Option<RawDocumentBuf>> {
    interrupt::check()?;
    let Some(collection) = reading.catalog.get(name) else {
        return Ok(None);
    };
    let Some(state) = collection.indexes.first() else {
        return Ok(None);
    };
    let mut entry = Vec::with_capacity(state.prefix.len() + value::approximate_bytes(id) + 8);
    entry.extend_from_slice(&state.prefix);
    encode_value(id, Direction::Ascending, &mut entry)?;
    let Some(stored) = reading.view.get(&entry)? else {
        return Ok(None);
    };
    let record = key::trailing_record(&stored)?;
    let document = reading.view.get(&key::for_record(collection.id, record))?;
    let document = document.ok_or_else(plan::missing_document_error)?;
    Ok(Some(plan::read_document(&document)?.to_owned()))
}

fn only_field(document: &RawDocument) -> Option<(&str, RawBsonRef<'_>)> {
    let mut fields = document.iter();
    let (name, value) = fields.next()?.ok()?;
    fields.next().is_none().then_some((name.as_str(), value))
}

/// Whether a condition on an `_id` with the value is an equality, and the encoding of the value identifies the document.
fn is_scalar(id: &RawBsonRef<'_>) -> bool {
    matches!(
        id,
        RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Double(_)
            | RawBsonRef::String(_)
            | RawBsonRef::Binary(_)
            | RawBsonRef::ObjectId(_)
            | RawBsonRef::DateTime(_)
    )
}

#[cfg(test)]
mod tests {
    use bson::{RawBson, rawdoc};

    use super::*;
    use crate::Database;

    fn id_of(filter: RawDocumentBuf) -> Option<RawBson> {
        let find = Find {
            filter,
            ..Find::default()
        };
        only_id(&find).map(RawBson::from)
    }

    #[test]
    fn a_condition_on_the_id_alone_is_recognized() {
        assert_eq!(id_of(rawdoc! { "_id": 1 }), Some(1.into()));
        assert_eq!(id_of(rawdoc! { "_id": { "$eq": "a" } }), Some("a".into()));
        for filter in [
            rawdoc! {},
            rawdoc! { "a": 1 },
            rawdoc! { "_id": 1, "a": 1 },
            rawdoc! { "_id": { "$gt": 1 } },
            rawdoc! { "_id": { "$eq": 1, "$ne": 2 } },
            rawdoc! { "_id": { "a": 1 } },
            rawdoc! { "_id": [1] },
            rawdoc! { "_id": RawBson::Null },
        ] {
            assert_eq!(id_of(filter.clone()), None, "{filter:?}");
        }
    }

    #[test]
    fn other_options_are_left_to_the_planner() {
        let filter = rawdoc! { "_id": 1 };
        let plain = Find {
            filter: filter.clone(),
            limit: Some(1),
            ..Find::default()
        };
        assert!(only_id(&plain).is_some());
        let others: [fn(&mut Find); 6] = [
            |find| find.projection = Some(rawdoc! { "a": 1 }),
            |find| find.sort = Some(rawdoc! { "a": 1 }),
            |find| find.skip = 1,
            |find| find.limit = Some(0),
            |find| find.hint = Some("_id_".into()),
            |find| find.variables = rawdoc! { "a": 1 },
        ];
        for change in others {
            let mut find = plain.clone();
            change(&mut find);
            assert!(only_id(&find).is_none(), "{find:?}");
        }
    }

    #[test]
    fn equal_numbers_of_all_types_find_the_document() {
        let database = Database::memory();
        let documents = vec![rawdoc! { "_id": 7, "a": 1 }, rawdoc! { "_id": "7", "a": 2 }];
        let inserted = database.insert("c", documents).unwrap();
        assert_eq!(inserted.inserted, 2);
        let found = |filter| {
            let find = Find {
                filter,
                ..Find::default()
            };
            let mut documents = database.find("c", &find).unwrap();
            documents
                .next()
                .map(|document| document.unwrap().get_i32("a").unwrap())
        };
        assert_eq!(found(rawdoc! { "_id": 7_i64 }), Some(1));
        assert_eq!(found(rawdoc! { "_id": { "$eq": 7.0 } }), Some(1));
        assert_eq!(found(rawdoc! { "_id": "7" }), Some(2));
        assert_eq!(found(rawdoc! { "_id": 7.5 }), None);
    }
}
