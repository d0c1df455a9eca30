//! The documents that have the elements outside of an owner, and which of them an owner reads.
//!
//! ```text
//! { _id: { owner, generation, key, n }, book_id: owner, seq: 7, customers_purchased_extra: […],
//!   _odm: { generation, done: 12, own: { due, key } } }
//! ```
//!
//! `generation` says of which time of the array it is: an owner reads those of one alone. `done` is the version of the last change of
//! elements that has been made here. `own` says that the document may be no owner's: without a key it follows from what its owner says,
//! with one it is read only when that key is published. One with `given_up` in its `_id` has no elements: it says for a while that the
//! insert with that key was taken for left behind.

use bson::{Bson, Document, RawDocumentBuf, doc, oid::ObjectId};

use super::header::{Kind, Owner, integer};
use crate::{
    Result,
    access::{Access, found_by},
    backend::operation::{Aggregate, Find},
    schema::OverflowField,
    stored::{close, open},
};

/// In such a document: that it may be no owner's.
pub(crate) const OWN: &str = "_odm.own";

/// Of which generation it is.
pub(crate) const GENERATION: &str = "_odm.generation";

/// The condition that a document has elements of an owner, as this says.
pub(crate) fn of_owner(field: &OverflowField, owner: &Owner) -> Option<Document> {
    let header = owner.header.as_ref()?;
    let generation = header.generation.filter(|_| header.has_documents())?;
    let mut filter = of_generation(field, &owner.id, generation);
    filter.insert(field.seq, doc! { "$lt": header.next });
    let unpublished = doc! { "_odm.own.key": { "$exists": false } };
    match &header.work {
        Some(work) if matches!(work.kind, Kind::Published { .. }) => {
            let published = doc! { "_odm.own.key": { "$eq": work.key } };
            filter.insert("$or", vec![unpublished, published]);
        }
        _ => filter.extend(unpublished),
    }
    Some(filter)
}

/// The condition that a document is of an owner and a generation.
pub(crate) fn of_generation(field: &OverflowField, owner: &Bson, generation: ObjectId) -> Document {
    doc! { field.owner: { "$eq": owner.clone() }, GENERATION: { "$eq": generation } }
}

/// Those with elements of an owner, in order.
pub(crate) fn in_order(field: &OverflowField, filter: &Document) -> Result<Find> {
    Ok(Find {
        sort: Some(close(&doc! { field.seq: 1 })?),
        ..found_by(&field.extras.collection.into(), &close(filter)?)
    })
}

/// How many elements they have.
pub(crate) async fn count(
    access: &Access,
    field: &OverflowField,
    filter: &Document,
) -> Result<i64> {
    let elements = format!("${}", field.elements);
    let len = doc! { "$size": { "$ifNull": [elements, []] } };
    sum(access, field, filter, len).await
}

/// How many bytes they have.
pub(crate) async fn bytes(
    access: &Access,
    field: &OverflowField,
    filter: &Document,
) -> Result<i64> {
    let size = doc! { "$bsonSize": { "a": format!("${}", field.elements) } };
    sum(access, field, filter, size).await
}

async fn sum(
    access: &Access,
    field: &OverflowField,
    filter: &Document,
    of_each: Document,
) -> Result<i64> {
    let pipeline = vec![
        close(&doc! { "$match": filter.clone() })?,
        close(&doc! { "$group": { "_id": null, "sum": { "$sum": of_each } } })?,
    ];
    let aggregate = Aggregate {
        collection: field.extras.collection.into(),
        pipeline,
        variables: RawDocumentBuf::new(),
        max_time: None,
    };
    let found = access.aggregate_all(field.extras, aggregate).await?;
    let first = found.first().map(|raw| open(raw)).transpose()?;
    Ok(first.map_or(0, |first| integer(first.get("sum"))))
}
