//! Which documents have an element, wherever it is.

use std::collections::BTreeMap;

use bson::{Bson, Document, RawBson, RawDocumentBuf, doc, oid::ObjectId};

use super::{
    extras::{GENERATION, OWN},
    header::{Header, Kind, Owner, integer},
};
use crate::{
    Error, ErrorKind, Result,
    access::{Access, found_by},
    backend::operation::{Aggregate, Find},
    batches::id_batches,
    decode, error,
    field::Path,
    maintain::{
        link::linked::Id,
        stored::{close, get, open},
    },
    query::{self, Node},
    schema::{Model, OverflowField},
};

/// How many documents a condition names at most.
const MAX_NAMED: usize = 100_000;

/// How many documents are looked at by one query.
const AT_ONCE: usize = 1_000;

/// A document of elements, among those of its owner.
struct Part {
    generation: ObjectId,
    seq: i64,
    /// Of the write that it is published by, as long as it says so.
    key: Option<ObjectId>,
}

/// The condition that a document has an element that meets a condition: in its array at any time, or outside of it now.
///
/// What moves from the document to the extras meanwhile is seen before it does, and what moves back in the document: so what is there all
/// the time is found, unless the whole array is replaced meanwhile by another that has it too, or is in an order and a push lets it go from
/// the array in the document meanwhile.
pub(crate) async fn anywhere(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    condition: &Node,
) -> Result<Node> {
    let at = |path: &str| Node::Element(Path::ROOT.append(path), Box::new(condition.clone()));
    let inside = |name: &str| at(&super::place(field, name));
    let waiting = [Node::Or(vec![inside("tail"), inside("work.block")])];
    let elements = at(field.elements);
    let ids = owners_of(access, model, field, &waiting, &elements, None).await?;
    let resident = at(field.stored);
    if ids.is_empty() {
        return Ok(resident);
    }
    let mut named = bson::RawArrayBuf::new();
    for id in ids {
        named.push(id);
    }
    let outside = Node::Test(Path::ROOT.append("_id"), "$in", named.into());
    Ok(Node::Or(vec![resident, outside]))
}

/// The documents that meet one of some conditions, which are asked in their order, and then those of which the elements in a document
/// outside of them meet another; so many at most, or all.
pub(in crate::maintain) async fn owners_of(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    within: &[Node],
    elements: &Node,
    most: Option<usize>,
) -> Result<Vec<RawBson>> {
    let mut ids: Vec<RawBson> = Vec::new();
    for condition in within {
        let filter = query::to_raw(condition).map_err(error::of(model))?;
        let find = Find {
            projection: Some(close(&doc! { "_id": 1 })?),
            limit: most.map(|most| most as u64),
            ..found_by(&model.collection.into(), &filter)
        };
        let found = access.find_all(model, find).await?;
        let found = found.iter().filter_map(|raw| decode::id(raw));
        ids.extend(found.map(RawBson::from));
    }
    if most.is_some_and(|most| ids.len() >= most) {
        return Ok(ids);
    }
    let parts = parts_with(access, field, elements).await?;
    let candidates: Vec<_> = parts.keys().collect();
    for some in id_batches(&candidates, AT_ONCE) {
        if most.is_some_and(|most| ids.len() >= most) {
            return Ok(ids);
        }
        for owner in owners(access, model, field, some).await? {
            let id = RawBson::try_from(owner.id).map_err(error::encode)?;
            let own = parts.get(&Id::of(&id)).map_or(&[][..], Vec::as_slice);
            let header = owner.header.as_ref();
            if header.is_some_and(|header| own.iter().any(|part| header.reads(part))) {
                ids.push(id);
            }
        }
    }
    if ids.len() > MAX_NAMED {
        let message = format!(
            "{} documents have such elements outside of them, where a condition names {MAX_NAMED} at most: narrow it, or pull them first",
            ids.len()
        );
        return Err(error::of(model)(
            Error::new(ErrorKind::Unsupported, message).with_path(field.field),
        ));
    }
    Ok(ids)
}

/// The documents of elements that meet the condition, by their owners.
async fn parts_with(
    access: &Access,
    field: &'static OverflowField,
    condition: &Node,
) -> Result<BTreeMap<Id, Vec<Part>>> {
    let condition = query::to_raw(condition).map_err(error::of(field.extras))?;
    let those = doc! { field.owner: 1, field.seq: 1, GENERATION: 1, OWN: 1, "_id": 0 };
    let aggregate = Aggregate {
        collection: field.extras.collection.into(),
        pipeline: vec![
            close(&doc! { "$match": open(&condition)? })?,
            close(&doc! { "$project": those })?,
        ],
        variables: RawDocumentBuf::new(),
        max_time: None,
    };
    let mut parts: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for row in access.aggregate_all(field.extras, aggregate).await? {
        let row = open(&row)?;
        let key = get(&row, &format!("{OWN}.key")).and_then(Bson::as_object_id);
        let generation = get(&row, GENERATION).and_then(Bson::as_object_id);
        if let (Some(owner), Some(generation)) = (row.get(field.owner), generation) {
            let owner = RawBson::try_from(owner.clone()).map_err(error::encode)?;
            let seq = integer(row.get(field.seq));
            parts.entry(Id::of(&owner)).or_default().push(Part {
                generation,
                seq,
                key,
            });
        }
    }
    Ok(parts)
}

/// What these documents know of their elements.
async fn owners(
    access: &Access,
    model: &'static Model,
    field: &'static OverflowField,
    ids: &[&Id],
) -> Result<Vec<Owner>> {
    let ids = ids.iter().map(|id| {
        let id = id.value()?;
        Bson::try_from(id).map_err(error::encode)
    });
    let ids = ids.collect::<Result<Vec<_>>>()?;
    let mut known = Document::new();
    for name in ["generation", "next", "work"] {
        known.insert(super::place(field, name), 1);
    }
    let find = Find {
        projection: Some(close(&known)?),
        ..found_by(
            &model.collection.into(),
            &close(&doc! { "_id": { "$in": ids } })?,
        )
    };
    let found = access.find_all(model, find).await?;
    found.iter().map(|raw| Owner::of(field, raw)).collect()
}

impl Header {
    /// Whether a document has elements of it: what `extras::of_owner` asks for.
    fn reads(&self, part: &Part) -> bool {
        let published = self.work.as_ref();
        let published = published.filter(|work| matches!(work.kind, Kind::Published { .. }));
        let is_published = part
            .key
            .is_none_or(|key| published.is_some_and(|work| work.key == key));
        self.generation == Some(part.generation) && part.seq < self.next && is_published
    }
}
