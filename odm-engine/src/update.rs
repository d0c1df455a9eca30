//! Updates: what becomes of a document.
//!
//! An update is parsed once into operations on paths. To apply it, paths with `$`, `$[]` and
//! `$[name]` are resolved against the document as it was, then every operation runs in the order
//! of the paths on a [`Node`] tree, of which only what changes is decoded. Each
//! operator is a file of this module, listed in [`parse`]'s registry.

mod add_to_set;
mod arithmetic;
mod array_filter;
mod bit;
mod changed;
mod current_date;
mod fields;
mod min_max;
mod node;
mod operation;
mod parse;
mod pipeline;
mod pop;
mod pull;
mod pull_all;
mod push;
mod rename;
mod replacement;
mod seed;
mod set;
mod target;
mod unset;

use std::sync::Arc;

use bson::oid::ObjectId;
use bson::raw::cstr;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::change::{How, Modified};
use crate::expression::Environment;
use crate::filter::Filter;
use crate::pattern::PatternScope;
use crate::{Error, Result, value};

use array_filter::ArrayFilters;
use node::Node;
use operation::Operations;
use pipeline::Transforms;
use replacement::Replacement;

/// A parsed update: operators such as `$set`, a replacement, or a pipeline.
#[derive(Debug)]
pub(crate) struct Update(Kind);

#[derive(Debug)]
enum Kind {
    Operators(Operations),
    Replacement(Replacement),
    Pipeline(Transforms),
}

impl Update {
    /// Reads an update and the filters that its `$[name]` refer to.
    ///
    /// # Errors
    /// Unknown operators, operands of the wrong kind, paths that conflict, array filters that
    /// are missing or unused, with MongoDB's codes.
    pub(crate) fn parse(update: &RawDocument, array_filters: &[RawDocumentBuf]) -> Result<Update> {
        value::check(update)?;
        let _patterns = PatternScope::enter();
        let first = value::fields(update).next();
        Ok(Update(
            if first.is_some_and(|(name, _)| name.starts_with('$')) {
                Kind::Operators(parse::operators(update, array_filters)?)
            } else {
                // Nothing can refer to them, but they must be array filters.
                ArrayFilters::parse(array_filters)?;
                crate::document::refuse_second_id(update)?;
                Kind::Replacement(Replacement::new(update))
            },
        ))
    }

    /// Reads an update that is a pipeline.
    ///
    /// # Errors
    /// Stages that are malformed or have no place in an update; array filters, which nothing in a
    /// pipeline can refer to.
    pub(crate) fn parse_pipeline(
        stages: &[RawDocumentBuf],
        array_filters: &[RawDocumentBuf],
        environment: &Arc<Environment>,
    ) -> Result<Update> {
        if !array_filters.is_empty() {
            let message = "an update by a pipeline cannot have array filters";
            return Err(Error::server(9, message));
        }
        let transforms = Transforms::parse(stages, environment)?;
        Ok(Update(Kind::Pipeline(transforms)))
    }

    /// Whether this replaces the document, which no update of several documents may do.
    pub(crate) fn is_replacement(&self) -> bool {
        matches!(self.0, Kind::Replacement(_))
    }

    /// Changes a document that `filter` has found. `None` if it does not count as modified.
    ///
    /// As on MongoDB a document can count as modified and be what it was: a replacement counts
    /// unless it is the document to the last byte, `_id` included, and `$push` always does.
    ///
    /// # Errors
    /// The update does not fit the document: paths that lead nowhere, values of the wrong type,
    /// or a change of `_id`.
    pub(crate) fn apply(
        &self,
        document: &RawDocument,
        filter: &Filter,
    ) -> Result<Option<Modified>> {
        let modified = match &self.0 {
            Kind::Operators(operations) => {
                let mut root = Node::document(document);
                let places = operations.apply(document, filter, &mut root, false)?;
                if places.is_empty() {
                    return Ok(None);
                }
                Modified {
                    document: root.into_document(),
                    how: How::Update(places),
                }
            }
            Kind::Replacement(replacement) => {
                let changed = replacement.apply(document)?;
                if replacement.is(document) {
                    return Ok(None);
                }
                check_id_unchanged(document, &changed)?;
                Modified {
                    document: changed,
                    how: How::Replacement,
                }
            }
            Kind::Pipeline(transforms) => {
                let changed = transforms.apply(document)?;
                if changed.as_bytes() == document.as_bytes() {
                    return Ok(None);
                }
                let changed = with_id_of(&changed, document);
                check_id_unchanged(document, &changed)?;
                Modified {
                    document: changed,
                    how: How::Pipeline,
                }
            }
        };
        value::check(&modified.document)?;
        Ok(Some(modified))
    }

    /// The document to insert where `filter` has found none: the filter's equalities, changed by
    /// the update, with an `_id` at the front, made up if neither says one.
    ///
    /// # Errors
    /// As [`Update::apply`], and equalities that contradict each other.
    pub(crate) fn upsert(&self, filter: &Filter) -> Result<RawDocumentBuf> {
        let document = match &self.0 {
            Kind::Operators(operations) => {
                let seed = seed::document(filter)?;
                let mut root = Node::document(&seed);
                operations.apply(&seed, filter, &mut root, true)?;
                root.into_document()
            }
            Kind::Replacement(replacement) => replacement.upsert(filter)?,
            Kind::Pipeline(transforms) => {
                let seed = seed::document(filter)?;
                let document = with_id_of(&transforms.apply(&seed)?, &seed);
                refuse_array_id(&document)?;
                if value::get(&seed, "_id").is_some() {
                    check_id_unchanged(&seed, &document)?;
                }
                document
            }
        };
        let document = with_id_first(&document);
        check_id(&document)?;
        value::check(&document)?;
        Ok(document)
    }
}

/// Operators may not even change the type of an `_id`.
fn check_id_untouched(before: &RawDocument, after: &RawDocument) -> Result<()> {
    let (old, new) = (value::get(before, "_id"), value::get(after, "_id"));
    if old == new {
        return Ok(());
    }
    // By their bytes, so that NaN is what it was.
    let bytes = |id: Option<RawBsonRef<'_>>| {
        let mut document = RawDocumentBuf::new();
        id.into_iter()
            .for_each(|id| document.append(cstr!("_id"), id));
        document
    };
    if bytes(old).as_bytes() == bytes(new).as_bytes() {
        return Ok(());
    }
    Err(id_changed())
}

/// A replacement may have the `_id` in another type of number.
fn check_id_unchanged(before: &RawDocument, after: &RawDocument) -> Result<()> {
    let same = match (value::get(before, "_id"), value::get(after, "_id")) {
        (Some(before), Some(after)) => value::equal(before, after),
        (before, after) => before.is_none() && after.is_none(),
    };
    if same {
        return Ok(());
    }
    Err(id_changed())
}

fn id_changed() -> Error {
    Error::server(66, "the update would change '_id', which never changes")
}

fn check_id(document: &RawDocument) -> Result<()> {
    match value::get(document, "_id") {
        Some(
            id @ (RawBsonRef::Array(_) | RawBsonRef::RegularExpression(_) | RawBsonRef::Undefined),
        ) => {
            let kind = value::type_name(id);
            Err(Error::server(53, format!("'_id' cannot be of type {kind}")))
        }
        _ => Ok(()),
    }
}

/// Refuses an array as the `_id` of a whole document that an upsert makes, before the `_id` is compared with
/// that of the filter. Operators that make such an `_id` have another code.
fn refuse_array_id(document: &RawDocument) -> Result<()> {
    match value::get(document, "_id") {
        Some(RawBsonRef::Array(_)) => Err(Error::server(54, "'_id' cannot be an array")),
        _ => Ok(()),
    }
}

/// A document without an `_id` gets that of another one.
fn with_id_of(document: &RawDocument, other: &RawDocument) -> RawDocumentBuf {
    let mut whole = document.to_owned();
    if value::get(document, "_id").is_none()
        && let Some(id) = value::get(other, "_id")
    {
        whole.append(cstr!("_id"), id);
    }
    with_id_first(&whole)
}

fn with_id_first(document: &RawDocument) -> RawDocumentBuf {
    let mut ordered = RawDocumentBuf::new();
    match value::get(document, "_id") {
        Some(id) => ordered.append(cstr!("_id"), id),
        None => ordered.append(cstr!("_id"), RawBsonRef::ObjectId(ObjectId::new())),
    }
    for element in document.iter_elements().map_while(|element| element.ok()) {
        if let Ok(value) = element.value()
            && element.key().as_str() != "_id"
        {
            ordered.append(element.key(), value);
        }
    }
    ordered
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use bson::{Document, bson, rawdoc};
    use proptest::prelude::*;

    /// Applies an update to a document that an empty filter has found.
    pub(super) fn updated(
        document: RawDocumentBuf,
        update: RawDocumentBuf,
    ) -> Result<RawDocumentBuf> {
        let filter = Filter::parse(&RawDocumentBuf::new())?;
        let changed = Update::parse(&update, &[])?.apply(&document, &filter)?;
        Ok(changed.map_or(document, |modified| modified.document))
    }

    #[test]
    fn what_changes_nothing_says_so() {
        let filter = Filter::parse(&rawdoc! {}).unwrap();
        let update = Update::parse(&rawdoc! { "$set": { "a": 1 } }, &[]).unwrap();
        assert!(
            update
                .apply(&rawdoc! { "a": 1 }, &filter)
                .unwrap()
                .is_none()
        );
        assert!(
            update
                .apply(&rawdoc! { "a": 2 }, &filter)
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn paths_may_not_conflict() {
        let conflict = rawdoc! { "$set": { "a": 1 }, "$inc": { "a.b": 1 } };
        assert_eq!(Update::parse(&conflict, &[]).unwrap_err().code(), Some(40));
        let beside = rawdoc! { "$set": { "a.c": 1, "ab": 1 }, "$inc": { "a.b": 1 } };
        assert!(Update::parse(&beside, &[]).is_ok());
    }

    #[test]
    fn the_first_mistake_counts() {
        let code = |update: RawDocumentBuf| Update::parse(&update, &[]).unwrap_err().code();
        let conflict_first =
            rawdoc! { "$set": { "a": 1 }, "$rename": { "a.b": "a" }, "$inc": { "c": "x" } };
        assert_eq!(code(conflict_first), Some(40));
        let operand_first = rawdoc! { "$inc": { "c": "x" }, "$set": { "a": 1, "a.b": 1 } };
        assert_eq!(code(operand_first), Some(14));
        let of_id = rawdoc! { "$inc": { "c": 1 }, "$set": { "_id": 2 } };
        let refused = updated(rawdoc! { "_id": 1, "c": "x" }, of_id);
        assert_eq!(refused.unwrap_err().code(), Some(66));
        let moved = rawdoc! { "$rename": { "a.b": "z" }, "$inc": { "c": 1 } };
        let refused = updated(rawdoc! { "a": 1, "c": "x" }, moved);
        assert_eq!(refused.unwrap_err().code(), Some(14));
        let of_array = rawdoc! { "$inc": { "b.$[]": 1, "a": 1 } };
        let refused = updated(rawdoc! { "a": "x" }, of_array);
        assert_eq!(refused.unwrap_err().code(), Some(14));
    }

    #[test]
    fn what_is_set_on_insert_needs_its_arrays_always() {
        let update = || rawdoc! { "$setOnInsert": { "a.$[]": 1 } };
        assert_eq!(updated(rawdoc! {}, update()).unwrap_err().code(), Some(2));
        let document = rawdoc! { "a": [2] };
        assert_eq!(updated(document.clone(), update()).unwrap(), document);
    }

    #[test]
    fn ids_never_change() {
        let document = || rawdoc! { "_id": 1 };
        assert_eq!(
            updated(document(), rawdoc! { "$set": { "_id": 2 } })
                .unwrap_err()
                .code(),
            Some(66)
        );
        assert_eq!(
            updated(document(), rawdoc! { "$set": { "_id": 1.0 } })
                .unwrap_err()
                .code(),
            Some(66)
        );
        let not_a_number = rawdoc! { "_id": f64::NAN };
        let update = rawdoc! { "$set": { "_id": f64::NAN, "a": 1 } };
        assert!(updated(not_a_number, update).is_ok());
        assert_eq!(
            updated(document(), rawdoc! { "_id": 1.0 }).unwrap(),
            rawdoc! { "_id": 1.0 }
        );
        assert_eq!(
            updated(document(), rawdoc! { "_id": 2 })
                .unwrap_err()
                .code(),
            Some(66)
        );
        assert_eq!(
            updated(document(), rawdoc! { "a": 2 }).unwrap(),
            rawdoc! { "_id": 1, "a": 2 }
        );
    }

    #[test]
    fn positions_come_from_the_filter_and_from_array_filters() {
        let document = rawdoc! { "a": [1, 5, 9] };
        let filter = Filter::parse(&rawdoc! { "a": { "$gt": 4 } }).unwrap();
        let run = |update: RawDocumentBuf, filters: &[RawDocumentBuf]| {
            Update::parse(&update, filters)
                .unwrap()
                .apply(&document, &filter)
                .unwrap()
                .unwrap()
                .document
        };
        assert_eq!(
            run(rawdoc! { "$set": { "a.$": 0 } }, &[]),
            rawdoc! { "a": [1, 0, 9] }
        );
        assert_eq!(
            run(rawdoc! { "$inc": { "a.$[]": 1 } }, &[]),
            rawdoc! { "a": [2, 6, 10] }
        );
        let odd = [rawdoc! { "x": { "$gte": 5 } }];
        assert_eq!(
            run(rawdoc! { "$inc": { "a.$[x]": 1 } }, &odd),
            rawdoc! { "a": [1, 6, 10] }
        );
    }

    #[test]
    fn names_with_a_dollar_are_not_given_to_fields_at_the_top() {
        let document = || rawdoc! { "_id": 1, "$a": { "b": 1 }, "$l": [1, 2] };
        let code = |update| {
            updated(document(), update)
                .err()
                .and_then(|error| error.code())
        };
        let refused = [
            rawdoc! { "$set": { "$a": 1 } },
            rawdoc! { "$set": { "$new.b": 1 } },
            rawdoc! { "$push": { "$l": 1 } },
            rawdoc! { "$rename": { "$a": "$b" } },
        ];
        for update in refused {
            assert_eq!(code(update.clone()), Some(52), "{update:?}");
        }
        let taken = [
            rawdoc! { "$inc": { "$a.b": 1 } },
            rawdoc! { "$set": { "$a.$c": 1, "d.$e": 1 } },
            rawdoc! { "$unset": { "$a": 1 } },
            rawdoc! { "$rename": { "$a": "b" } },
            rawdoc! { "$pull": { "$l": 1 } },
            rawdoc! { "$set": { "$a": { "b": 1 } } },
        ];
        for update in taken {
            assert_eq!(code(update.clone()), None, "{update:?}");
        }
    }

    #[test]
    fn an_upsert_starts_from_the_filter() {
        let filter = Filter::parse(&rawdoc! { "a.b": 1, "c": { "$gt": 1 }, "_id": 7 }).unwrap();
        let update = rawdoc! { "$set": { "d": 2 }, "$setOnInsert": { "e": 3 } };
        let document = Update::parse(&update, &[])
            .unwrap()
            .upsert(&filter)
            .unwrap();
        assert_eq!(
            document,
            rawdoc! { "_id": 7, "a": { "b": 1 }, "d": 2, "e": 3 }
        );
    }

    #[test]
    fn an_upsert_keeps_the_type_of_the_id_that_the_filter_has() {
        let filter = Filter::parse(&rawdoc! { "_id": 1 }).unwrap();
        let update = Update::parse(&rawdoc! { "$set": { "_id": 1.0 } }, &[]).unwrap();
        assert_eq!(update.upsert(&filter).unwrap_err().code(), Some(66));
    }

    fn any_value() -> impl Strategy<Value = bson::Bson> {
        let scalar = prop_oneof![
            Just(bson::Bson::Null),
            (-3..4).prop_map(bson::Bson::Int32),
            (-3..4_i64).prop_map(bson::Bson::Int64),
            Just(bson!(0.5)),
            Just(bson!("x")),
        ];
        scalar.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(bson::Bson::Array),
                prop::collection::btree_map("[ab]", inner, 0..3)
                    .prop_map(|fields| bson::Bson::Document(fields.into_iter().collect())),
            ]
        })
    }

    fn any_operation() -> impl Strategy<Value = (&'static str, String, bson::Bson)> {
        let operator = prop::sample::select(vec![
            "$addToSet",
            "$bit",
            "$inc",
            "$max",
            "$min",
            "$mul",
            "$pop",
            "$pull",
            "$pullAll",
            "$push",
            "$rename",
            "$set",
            "$unset",
        ]);
        let operand = prop_oneof![
            any_value(),
            Just(bson!({ "or": 2 })),
            Just(bson!("b.a")),
            any_value().prop_map(|value| bson!({ "$each": [value] })),
        ];
        (operator, r"[ab](\.([ab]|[0-3]|\$\[\])){0,3}", operand)
    }

    proptest! {
        #[test]
        fn updates_keep_documents_whole(
            a in any_value(),
            b in any_value(),
            operations in prop::collection::vec(any_operation(), 1..4),
        ) {
            let document = RawDocumentBuf::try_from(&bson::doc! { "_id": 1, "a": a, "b": b }).unwrap();
            let mut update = Document::new();
            for (operator, path, operand) in operations {
                let paths = update.entry(operator.to_owned()).or_insert_with(|| bson!({}));
                paths.as_document_mut().unwrap().insert(path, operand);
            }
            let update = RawDocumentBuf::try_from(&update).unwrap();
            if let Ok(changed) = updated(document, update) {
                prop_assert!(value::check(&changed).is_ok());
                prop_assert_eq!(value::get(&changed, "_id"), Some(RawBsonRef::Int32(1)));
                prop_assert_eq!(with_id_first(&changed), changed);
            }
        }
    }
}
