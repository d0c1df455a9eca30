//! Updates: operators, replacements and pipelines that change a document.
//!
//! An update with operators is parsed once into operations on paths. Paths with `$`, `$[]` and
//! `$[name]` are resolved against the original document.
//!
//! The operations then run in the order of their paths on an [`UpdateNode`] tree, which decodes
//! only the changed parts. Each operator is a file of this module and is listed in the registry of
//! [`parse`].

mod add_to_set;
mod arithmetic;
mod array_filter;
mod bit;
mod changed_places;
mod current_date;
mod in_place;
mod min_max;
mod node;
mod opened_fields;
mod operation;
mod parse;
mod pipeline;
mod pop;
mod pull;
mod pull_all;
mod push;
mod rename;
mod replacement;
mod set;
mod target;
mod unset;
mod upsert_seed;

use std::sync::Arc;

use bson::oid::ObjectId;
use bson::raw::cstr;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::change::{ModificationKind, ModifiedDocument};
use crate::collation::ValueOrder;
use crate::expression::Environment;
use crate::filter::Filter;
use crate::pattern::PatternScope;
use crate::{Error, Result, value};

use array_filter::ArrayFilters;
use node::UpdateNode;
use operation::UpdateOperations;
use pipeline::UpdatePipeline;
use replacement::Replacement;

/// A parsed update: operators such as `$set`, a replacement, or a pipeline.
#[derive(Debug)]
pub(crate) struct ParsedUpdate(UpdateKind);

#[derive(Debug)]
enum UpdateKind {
    Operators(UpdateOperations),
    Replacement(Replacement),
    Pipeline(UpdatePipeline),
}

impl ParsedUpdate {
    /// Parses an update and the array filters that `$[name]` refers to.
    ///
    /// # Errors
    /// Unknown operators, operands of the wrong type, conflicting paths, and array filters that are
    /// missing or unused. Codes are MongoDB's.
    pub(crate) fn parse(
        update: &RawDocument,
        array_filters: &[RawDocumentBuf],
        order: &ValueOrder,
    ) -> Result<ParsedUpdate> {
        value::check_document(update)?;
        let _patterns = PatternScope::enter();
        let first = value::fields(update).next();
        Ok(ParsedUpdate(
            if first.is_some_and(|(name, _)| name.starts_with('$')) {
                UpdateKind::Operators(parse::parse_operators(update, array_filters, order)?)
            } else {
                // A replacement cannot refer to array filters, but the filters must be valid.
                ArrayFilters::parse(array_filters, order)?;
                crate::document::ensure_single_id(update)?;
                UpdateKind::Replacement(Replacement::new(update))
            },
        ))
    }

    /// Parses an update by a pipeline.
    ///
    /// # Errors
    /// Stages that are malformed or not allowed in an update, and array filters, which a pipeline
    /// cannot use.
    pub(crate) fn parse_pipeline(
        stages: &[RawDocumentBuf],
        array_filters: &[RawDocumentBuf],
        environment: &Arc<Environment>,
    ) -> Result<ParsedUpdate> {
        if !array_filters.is_empty() {
            let message = "an update by a pipeline cannot have array filters";
            return Err(Error::with_server_code(9, message));
        }
        let transforms = UpdatePipeline::parse(stages, environment)?;
        Ok(ParsedUpdate(UpdateKind::Pipeline(transforms)))
    }

    /// Returns whether the update replaces the document. An update of many documents must not be a
    /// replacement.
    pub(crate) fn is_replacement(&self) -> bool {
        matches!(self.0, UpdateKind::Replacement(_))
    }

    /// Applies the update to a document that `filter` matched. `None` if the document does not
    /// count as modified.
    ///
    /// As on MongoDB, an unchanged document can count as modified: a replacement does unless all
    /// bytes are equal, including `_id`, and `$push` always does.
    ///
    /// # Errors
    /// The update does not fit the document: a path that cannot be created, a value of the wrong
    /// type, or a change of `_id`.
    pub(crate) fn apply(
        &self,
        document: &RawDocument,
        filter: &Filter,
    ) -> Result<Option<ModifiedDocument>> {
        let modified = match &self.0 {
            UpdateKind::Operators(operations) => {
                if let Some(few) = operations.static_operations()
                    && let Some(patched) = in_place::apply_operations(few, document)?
                {
                    let is_modified = !patched.places.is_empty();
                    return Ok(is_modified.then_some(ModifiedDocument {
                        document: patched.document,
                        kind: ModificationKind::Update(patched.places),
                    }));
                }
                let mut root = UpdateNode::from_document(document);
                let places = operations.apply_to(document, filter, &mut root, false)?;
                if places.is_empty() {
                    return Ok(None);
                }
                ModifiedDocument {
                    document: root.into_document(),
                    kind: ModificationKind::Update(places),
                }
            }
            UpdateKind::Replacement(replacement) => {
                let changed = replacement.apply_to(document)?;
                if replacement.has_same_bytes(document) {
                    return Ok(None);
                }
                check_id_unchanged(document, &changed)?;
                ModifiedDocument {
                    document: changed,
                    kind: ModificationKind::Replacement,
                }
            }
            UpdateKind::Pipeline(transforms) => {
                let changed = transforms.apply_to(document)?;
                if changed.as_bytes() == document.as_bytes() {
                    return Ok(None);
                }
                let changed = with_id_of(&changed, document);
                check_id_unchanged(document, &changed)?;
                ModifiedDocument {
                    document: changed,
                    kind: ModificationKind::Pipeline,
                }
            }
        };
        value::check_document(&modified.document)?;
        Ok(Some(modified))
    }

    /// Returns the document that an upsert inserts: the filter's equalities, changed by the update,
    /// with `_id` first. A missing `_id` is generated.
    ///
    /// # Errors
    /// See [`ParsedUpdate::apply`]. Also, the filter's equalities contradict each other.
    pub(crate) fn upserted_document(&self, filter: &Filter) -> Result<RawDocumentBuf> {
        let document = match &self.0 {
            UpdateKind::Operators(operations) => {
                let seed = upsert_seed::equalities_document(filter)?;
                let mut root = UpdateNode::from_document(&seed);
                operations.apply_to(&seed, filter, &mut root, true)?;
                root.into_document()
            }
            UpdateKind::Replacement(replacement) => replacement.upserted_document(filter)?,
            UpdateKind::Pipeline(transforms) => {
                let seed = upsert_seed::equalities_document(filter)?;
                let document = with_id_of(&transforms.apply_to(&seed)?, &seed);
                ensure_no_array_id(&document)?;
                if value::get(&seed, "_id").is_some() {
                    check_id_unchanged(&seed, &document)?;
                }
                document
            }
        };
        let document = with_id_first(&document);
        ensure_valid_id(&document)?;
        value::check_document(&document)?;
        Ok(document)
    }
}

/// Checks that operators leave `_id` unchanged, including the type.
fn check_id_untouched(before: &RawDocument, after: &RawDocument) -> Result<()> {
    let (old, new) = (value::get(before, "_id"), value::get(after, "_id"));
    if old == new {
        return Ok(());
    }
    // Compare the bytes, so that NaN equals NaN.
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

/// Checks that `_id` keeps its value. A replacement may change the numeric type.
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
    Error::with_server_code(66, "the update cannot change '_id': the field is immutable")
}

fn ensure_valid_id(document: &RawDocument) -> Result<()> {
    match value::get(document, "_id") {
        Some(
            id @ (RawBsonRef::Array(_) | RawBsonRef::RegularExpression(_) | RawBsonRef::Undefined),
        ) => {
            let kind = value::type_name(id);
            Err(Error::with_server_code(
                53,
                format!("'_id' cannot be of type {kind}"),
            ))
        }
        _ => Ok(()),
    }
}

/// Checks that the `_id` of an upserted replacement or pipeline result is not an array.
///
/// The check must precede the comparison with the filter's `_id`, because MongoDB reports this
/// error first. Operators have another code for an array.
fn ensure_no_array_id(document: &RawDocument) -> Result<()> {
    match value::get(document, "_id") {
        Some(RawBsonRef::Array(_)) => Err(Error::with_server_code(54, "'_id' cannot be an array")),
        _ => Ok(()),
    }
}

/// Returns the document with the `_id` of `other`, unless the document has its own `_id`.
fn with_id_of(document: &RawDocument, other: &RawDocument) -> RawDocumentBuf {
    let mut completed = document.to_owned();
    if value::get(document, "_id").is_none()
        && let Some(id) = value::get(other, "_id")
    {
        completed.append(cstr!("_id"), id);
    }
    with_id_first(&completed)
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

    /// Applies an update to a document with an empty filter.
    pub(super) fn apply_update(
        document: RawDocumentBuf,
        update: RawDocumentBuf,
    ) -> Result<RawDocumentBuf> {
        let filter = Filter::parse(&RawDocumentBuf::new())?;
        let changed =
            ParsedUpdate::parse(&update, &[], ValueOrder::SIMPLE)?.apply(&document, &filter)?;
        Ok(changed.map_or(document, |modified| modified.document))
    }

    #[test]
    fn updates_without_effect_return_none() {
        let filter = Filter::parse(&rawdoc! {}).unwrap();
        let update =
            ParsedUpdate::parse(&rawdoc! { "$set": { "a": 1 } }, &[], ValueOrder::SIMPLE).unwrap();
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
        assert_eq!(
            ParsedUpdate::parse(&conflict, &[], ValueOrder::SIMPLE)
                .unwrap_err()
                .code(),
            Some(40)
        );
        let separate = rawdoc! { "$set": { "a.c": 1, "ab": 1 }, "$inc": { "a.b": 1 } };
        assert!(ParsedUpdate::parse(&separate, &[], ValueOrder::SIMPLE).is_ok());
    }

    #[test]
    fn the_first_mistake_counts() {
        let code = |update: RawDocumentBuf| {
            ParsedUpdate::parse(&update, &[], ValueOrder::SIMPLE)
                .unwrap_err()
                .code()
        };
        let conflict_first =
            rawdoc! { "$set": { "a": 1 }, "$rename": { "a.b": "a" }, "$inc": { "c": "x" } };
        assert_eq!(code(conflict_first), Some(40));
        let operand_first = rawdoc! { "$inc": { "c": "x" }, "$set": { "a": 1, "a.b": 1 } };
        assert_eq!(code(operand_first), Some(14));
        let of_id = rawdoc! { "$inc": { "c": 1 }, "$set": { "_id": 2 } };
        let rejection = apply_update(rawdoc! { "_id": 1, "c": "x" }, of_id);
        assert_eq!(rejection.unwrap_err().code(), Some(66));
        let moved = rawdoc! { "$rename": { "a.b": "z" }, "$inc": { "c": 1 } };
        let rejection = apply_update(rawdoc! { "a": 1, "c": "x" }, moved);
        assert_eq!(rejection.unwrap_err().code(), Some(14));
        let of_array = rawdoc! { "$inc": { "b.$[]": 1, "a": 1 } };
        let rejection = apply_update(rawdoc! { "a": "x" }, of_array);
        assert_eq!(rejection.unwrap_err().code(), Some(14));
    }

    #[test]
    fn set_on_insert_requires_arrays_even_without_an_insert() {
        let update = || rawdoc! { "$setOnInsert": { "a.$[]": 1 } };
        assert_eq!(
            apply_update(rawdoc! {}, update()).unwrap_err().code(),
            Some(2)
        );
        let document = rawdoc! { "a": [2] };
        assert_eq!(apply_update(document.clone(), update()).unwrap(), document);
    }

    #[test]
    fn ids_never_change() {
        let document = || rawdoc! { "_id": 1 };
        assert_eq!(
            apply_update(document(), rawdoc! { "$set": { "_id": 2 } })
                .unwrap_err()
                .code(),
            Some(66)
        );
        assert_eq!(
            apply_update(document(), rawdoc! { "$set": { "_id": 1.0 } })
                .unwrap_err()
                .code(),
            Some(66)
        );
        let not_a_number = rawdoc! { "_id": f64::NAN };
        let update = rawdoc! { "$set": { "_id": f64::NAN, "a": 1 } };
        assert!(apply_update(not_a_number, update).is_ok());
        assert_eq!(
            apply_update(document(), rawdoc! { "_id": 1.0 }).unwrap(),
            rawdoc! { "_id": 1.0 }
        );
        assert_eq!(
            apply_update(document(), rawdoc! { "_id": 2 })
                .unwrap_err()
                .code(),
            Some(66)
        );
        assert_eq!(
            apply_update(document(), rawdoc! { "a": 2 }).unwrap(),
            rawdoc! { "_id": 1, "a": 2 }
        );
    }

    #[test]
    fn positions_come_from_the_filter_and_from_array_filters() {
        let document = rawdoc! { "a": [1, 5, 9] };
        let filter = Filter::parse(&rawdoc! { "a": { "$gt": 4 } }).unwrap();
        let run = |update: RawDocumentBuf, filters: &[RawDocumentBuf]| {
            ParsedUpdate::parse(&update, filters, ValueOrder::SIMPLE)
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
            apply_update(document(), update)
                .err()
                .and_then(|error| error.code())
        };
        let invalid = [
            rawdoc! { "$set": { "$a": 1 } },
            rawdoc! { "$set": { "$new.b": 1 } },
            rawdoc! { "$push": { "$l": 1 } },
            rawdoc! { "$rename": { "$a": "$b" } },
        ];
        for update in invalid {
            assert_eq!(code(update.clone()), Some(52), "{update:?}");
        }
        let valid = [
            rawdoc! { "$inc": { "$a.b": 1 } },
            rawdoc! { "$set": { "$a.$c": 1, "d.$e": 1 } },
            rawdoc! { "$unset": { "$a": 1 } },
            rawdoc! { "$rename": { "$a": "b" } },
            rawdoc! { "$pull": { "$l": 1 } },
            rawdoc! { "$set": { "$a": { "b": 1 } } },
        ];
        for update in valid {
            assert_eq!(code(update.clone()), None, "{update:?}");
        }
    }

    #[test]
    fn an_upsert_starts_from_the_filter() {
        let filter = Filter::parse(&rawdoc! { "a.b": 1, "c": { "$gt": 1 }, "_id": 7 }).unwrap();
        let update = rawdoc! { "$set": { "d": 2 }, "$setOnInsert": { "e": 3 } };
        let document = ParsedUpdate::parse(&update, &[], ValueOrder::SIMPLE)
            .unwrap()
            .upserted_document(&filter)
            .unwrap();
        assert_eq!(
            document,
            rawdoc! { "_id": 7, "a": { "b": 1 }, "d": 2, "e": 3 }
        );
    }

    #[test]
    fn an_upsert_keeps_the_type_of_the_id_that_the_filter_has() {
        let filter = Filter::parse(&rawdoc! { "_id": 1 }).unwrap();
        let update =
            ParsedUpdate::parse(&rawdoc! { "$set": { "_id": 1.0 } }, &[], ValueOrder::SIMPLE)
                .unwrap();
        assert_eq!(
            update.upserted_document(&filter).unwrap_err().code(),
            Some(66)
        );
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
            if let Ok(changed) = apply_update(document, update) {
                prop_assert!(value::check_document(&changed).is_ok());
                prop_assert_eq!(value::get(&changed, "_id"), Some(RawBsonRef::Int32(1)));
                prop_assert_eq!(with_id_first(&changed), changed);
            }
        }
    }
}
