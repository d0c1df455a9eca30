//! The fast path of a query for documents by their `_id`, without a plan.

use std::ops::Range;

use bson::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf};

use super::matches::SearchTurn;
use super::{Find, ReadState};
use crate::catalog::Collection;
use crate::cursor::Cursor;
use crate::direction::Direction;
use crate::error::Result;
use crate::index::IndexState;
use crate::interrupt;
use crate::key::{self, value::encode_value};
use crate::plan;
use crate::store::{Snapshot, StoreView};
use crate::value;

/// A condition on the `_id` alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum IdCondition<'f> {
    /// `{ _id: 7 }` or `{ _id: { $eq: 7 } }`.
    Equal(RawBsonRef<'f>),
    /// `{ _id: { $in: [7, 8] } }`.
    In(&'f RawArray),
}

/// Returns the condition of a query for whole documents by their `_id` alone. Returns `None` if the query needs a plan.
pub(super) fn parse_id_condition(find: &Find) -> Option<IdCondition<'_>> {
    let is_plain = find.projection.is_none()
        && find.sort.is_none()
        && find.skip == 0
        && find.limit != Some(0)
        && find.hint.is_none()
        && find.collation.is_none()
        && find.variables.is_empty();
    if !is_plain {
        return None;
    }
    match only_field(&find.filter)? {
        ("_id", RawBsonRef::Document(condition)) => match only_field(condition)? {
            ("$eq", id) => is_scalar(id).then_some(IdCondition::Equal(id)),
            ("$in", RawBsonRef::Array(ids)) => {
                let mut each = ids.into_iter();
                let are_scalar = each.all(|id| id.is_ok_and(is_scalar));
                are_scalar.then_some(IdCondition::In(ids))
            }
            _ => None,
        },
        ("_id", id) => is_scalar(id).then_some(IdCondition::Equal(id)),
        _ => None,
    }
}

/// Returns the documents with the ids, in the order of the ids' keys, as a plan would.
///
/// # Errors
/// Damaged, I/O; an [interrupt](crate::Interrupt).
pub(super) fn find_by_ids(
    reading: ReadState<'_>,
    name: &str,
    condition: IdCondition<'_>,
    limit: Option<u64>,
) -> Result<Cursor> {
    let collection = reading.catalog.get(name);
    let state = collection.and_then(|collection| collection.indexes.first());
    let (Some(collection), Some(state)) = (collection, state) else {
        return Ok(Cursor::new(std::iter::empty()));
    };
    match condition {
        IdCondition::Equal(id) => {
            interrupt::check()?;
            let mut entry =
                Vec::with_capacity(state.prefix.len() + value::approximate_bytes(id) + 8);
            entry.extend_from_slice(&state.prefix);
            encode_value(id, Direction::Ascending, &mut entry)?;
            let document = read_entry(reading.view, collection.id, &entry)?;
            Ok(Cursor::new(document.into_iter().map(Ok)))
        }
        IdCondition::In(ids) => {
            let found = IdLookups::new(reading.view, collection, state, ids)?;
            let limit = limit.and_then(|limit| usize::try_from(limit).ok());
            Ok(Cursor::new(found.take(limit.unwrap_or(usize::MAX))))
        }
    }
}

/// The documents with some ids.
struct IdLookups {
    view: StoreView,
    collection: u32,
    /// The keys of the entries, in one sequence.
    keys: Vec<u8>,
    /// The places of the remaining keys in ascending order.
    places: std::vec::IntoIter<Range<usize>>,
    turn: SearchTurn,
}

impl IdLookups {
    fn new(
        view: &StoreView,
        collection: &Collection,
        state: &IndexState,
        ids: &RawArray,
    ) -> Result<IdLookups> {
        let (mut keys, mut places) = (Vec::with_capacity(ids.as_bytes().len() * 2), Vec::new());
        for id in ids {
            interrupt::check()?;
            let start = keys.len();
            keys.extend_from_slice(&state.prefix);
            encode_value(id?, Direction::Ascending, &mut keys)?;
            places.push(start..keys.len());
        }
        places.sort_unstable_by_key(|place| keys.get(place.clone()));
        places.dedup_by(|a, b| keys.get(a.clone()) == keys.get(b.clone()));
        Ok(IdLookups {
            view: view.clone(),
            collection: collection.id,
            keys,
            places: places.into_iter(),
            turn: SearchTurn::new(),
        })
    }

    /// Returns the place of the next key. After an interrupt, the next call returns the same place.
    fn next_place(&mut self) -> Result<Option<Range<usize>>> {
        self.turn.count_candidate()?;
        Ok(self.places.next())
    }

    fn next_document(&mut self) -> Result<Option<RawDocumentBuf>> {
        while let Some(place) = self.next_place()? {
            let entry = self.keys.get(place).unwrap_or_default();
            let document = read_entry(&self.view, self.collection, entry)?;
            if document.is_some() {
                return Ok(document);
            }
        }
        Ok(None)
    }
}

impl Iterator for IdLookups {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_document().transpose()
    }
}

/// Reads the document of an entry of the index of `_id`, if the entry exists.
fn read_entry(view: &StoreView, collection: u32, entry: &[u8]) -> Result<Option<RawDocumentBuf>> {
    let Some(stored) = view.get(entry)? else {
        return Ok(None);
    };
    let record = key::trailing_record(&stored)?;
    let document = view.get(&key::for_record(collection, record))?;
    let document = document.ok_or_else(plan::missing_document_error)?;
    Ok(Some(plan::read_document(&document)?.to_owned()))
}

fn only_field(document: &RawDocument) -> Option<(&str, RawBsonRef<'_>)> {
    let mut fields = document.iter();
    let (name, value) = fields.next()?.ok()?;
    fields.next().is_none().then_some((name.as_str(), value))
}

/// Whether a condition on an `_id` with the value is an equality, and the encoding of the value identifies the document.
fn is_scalar(id: RawBsonRef<'_>) -> bool {
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
    use bson::{RawArrayBuf, RawBson, rawdoc};
    use proptest::prelude::*;

    use super::*;
    use crate::Database;

    fn find(filter: RawDocumentBuf) -> Find {
        Find {
            filter,
            ..Find::default()
        }
    }

    #[test]
    fn a_condition_on_the_id_alone_is_recognized() {
        let is = |id: RawBson, filter| {
            let find = find(filter);
            assert_eq!(
                parse_id_condition(&find),
                Some(IdCondition::Equal(id.as_raw_bson_ref()))
            );
        };
        is(1.into(), rawdoc! { "_id": 1 });
        is("a".into(), rawdoc! { "_id": { "$eq": "a" } });
        let any = find(rawdoc! { "_id": { "$in": [1, "a"] } });
        assert!(matches!(parse_id_condition(&any), Some(IdCondition::In(_))));
        for filter in [
            rawdoc! {},
            rawdoc! { "a": 1 },
            rawdoc! { "_id": 1, "a": 1 },
            rawdoc! { "_id": { "$gt": 1 } },
            rawdoc! { "_id": { "$eq": 1, "$ne": 2 } },
            rawdoc! { "_id": { "$in": [1, RawBson::Null] } },
            rawdoc! { "_id": { "$in": 1 } },
            rawdoc! { "_id": { "a": 1 } },
            rawdoc! { "_id": [1] },
            rawdoc! { "_id": RawBson::Null },
        ] {
            let find = find(filter);
            assert_eq!(parse_id_condition(&find), None, "{:?}", find.filter);
        }
    }

    #[test]
    fn other_options_are_left_to_the_planner() {
        let plain = Find {
            limit: Some(1),
            ..find(rawdoc! { "_id": 1 })
        };
        assert!(parse_id_condition(&plain).is_some());
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
            assert!(parse_id_condition(&find).is_none(), "{find:?}");
        }
    }

    #[test]
    fn ids_of_equal_numbers_and_repeated_ids_find_each_document_once() {
        let database = Database::memory();
        let documents = [7.into(), 8.into(), 9.into(), RawBson::from("7")];
        let documents = documents.map(|id| rawdoc! { "_id": id }).to_vec();
        assert_eq!(database.insert("c", documents).unwrap().inserted, 4);
        let found = |filter, limit| {
            let find = Find {
                limit,
                ..find(filter)
            };
            let documents = database.find("c", &find).unwrap();
            let ids =
                documents.map(|document| document.unwrap().get("_id").unwrap().map(RawBson::from));
            ids.map(Option::unwrap).collect::<Vec<_>>()
        };
        assert_eq!(found(rawdoc! { "_id": 7_i64 }, None), [RawBson::from(7)]);
        assert_eq!(
            found(rawdoc! { "_id": { "$eq": 7.0 } }, None),
            [RawBson::from(7)]
        );
        assert_eq!(found(rawdoc! { "_id": "7" }, None), [RawBson::from("7")]);
        assert_eq!(found(rawdoc! { "_id": 7.5 }, None), []);
        let any = || rawdoc! { "_id": { "$in": ["7", 9, 5, 7.0, 9_i64, 7, "9"] } };
        let expected = [7.into(), 9.into(), RawBson::from("7")];
        assert_eq!(found(any(), None), expected);
        assert_eq!(found(any(), Some(2)), expected[..2]);
        assert_eq!(found(rawdoc! { "_id": { "$in": [] } }, None), []);
    }

    fn any_id() -> impl Strategy<Value = RawBson> {
        prop_oneof![
            (-3..3).prop_map(RawBson::Int32),
            (-3..3_i64).prop_map(RawBson::Int64),
            (-3..3).prop_map(|half| RawBson::Double(f64::from(half) / 2.0)),
            "[ab]{0,2}".prop_map(RawBson::String),
            (-3..3_i64).prop_map(|millis| RawBson::DateTime(bson::DateTime::from_millis(millis))),
            prop::sample::select(vec![f64::NAN, -0.0, 9_007_199_254_740_992.0])
                .prop_map(RawBson::Double),
            (9_007_199_254_740_991..9_007_199_254_740_994_i64).prop_map(RawBson::Int64),
            prop::sample::select(vec!["NaN", "1.0", "-0", "9007199254740993"])
                .prop_map(|text| RawBson::Decimal128(text.parse().unwrap())),
            "[ab]{0,1}".prop_map(RawBson::Symbol),
            (0..3_u8)
                .prop_map(|byte| RawBson::ObjectId(bson::oid::ObjectId::from_bytes([byte; 12]))),
            (0..2_u8).prop_map(|byte| RawBson::Binary(bson::Binary {
                subtype: bson::spec::BinarySubtype::Generic,
                bytes: vec![byte],
            })),
        ]
    }

    proptest! {
        #[test]
        fn look_ups_equal_planned_queries(
            stored in prop::collection::vec(any_id(), 0..12),
            wanted in prop::collection::vec(any_id(), 0..8),
            limit in prop::option::of(1..4_u64),
        ) {
            let database = Database::memory();
            let documents = stored.iter().map(|id| rawdoc! { "_id": id.clone() }).collect();
            // Some ids repeat.
            let _ = database.insert_unordered("c", documents).unwrap();
            let ids: RawArrayBuf = wanted.iter().map(RawBson::as_raw_bson_ref).collect();
            let condition = rawdoc! { "_id": { "$in": ids } };
            let found = |filter| {
                let find = Find { limit, ..find(filter) };
                let documents = database.find("c", &find).unwrap();
                documents.map(Result::unwrap).collect::<Vec<_>>()
            };
            let planned = rawdoc! { "$and": [condition.clone()] };
            prop_assert_eq!(found(condition), found(planned));
            for id in wanted {
                let planned = rawdoc! { "$and": [{ "_id": id.clone() }] };
                prop_assert_eq!(found(rawdoc! { "_id": id }), found(planned));
            }
        }
    }
}
