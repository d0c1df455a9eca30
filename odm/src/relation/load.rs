//! Execution of joins: one query per relation and level, for any number of documents.

mod spilled;

use std::{collections::HashMap, sync::Arc};

use bson::{Bson, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, oid::ObjectId};

use super::{
    join::{FromLinks, Joins, Parents, ReferencePlace},
    link::{Link, LinkItem, Links},
    resolve::resolve_related,
    target_join::JoinEdge,
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{FindEach, FindOperation, Stage},
    error,
    language::query::{FilterNode, encode_value, single_field_document, to_raw},
    model::{
        decode::{self, decode_all},
        document::Document,
        ids::id_batches,
        projection::{self, Projection},
    },
    session::{
        access::{Access, add_condition},
        soft_delete::Visibility,
    },
};

/// The maximum number of ids in one query. Long ids reduce the number: see [`id_batches`].
pub(crate) const MAX_IDS_PER_QUERY: usize = 10_000;

/// Loads the targets of each parent's references. Each target is loaded once.
///
/// The targets have the order of the references, or the order of the join if the join has one.
pub(super) async fn load_targets<P, R, J>(
    access: Access,
    parents: Parents,
    mut edge: JoinEdge,
    joins: J,
) -> Result<Vec<Result<P::Out<J::Item>>>>
where
    P: ReferencePlace,
    R: Projection<Of = P::Target>,
    J: Joins<R, Item: LinkItem<Of = P::Target>>,
{
    if let Some(covering) = &edge.covering
        && let Some(targets) = covering.targets_of(&access, &parents)?
    {
        return links_of_copies::<P, R, J>(access, &parents, edge.path.dotted(), targets, joins)
            .await;
    }
    edge.filter = resolve_related(&access, &P::Target::MODEL, edge.filter).await?;
    let filter = to_raw(&edge.filter)?;
    let spilled = match P::overflow_model() {
        Some(model) => {
            spilled::load_references::<P::Target>(&access, model, &parents, &edge).await?
        }
        None => HashMap::new(),
    };
    let mut ids = DistinctIds::default();
    let mut references: Vec<Option<Vec<SlottedReference<'_>>>> = parents
        .iter()
        .enumerate()
        .map(|(position, parent)| {
            let raw_references = match spilled.get(&position) {
                Some(elements) => elements.iter().map(RawBson::as_raw_bson_ref).collect(),
                None => edge.path.find_references(parent)?,
            };
            Some(ids.assign_slots(raw_references))
        })
        .collect();
    let omits_missing = !filter.is_empty() || edge.limit.is_some();
    let omits_missing = omits_missing && <P::Out<J::Item> as FromLinks<J::Item>>::CAN_OMIT_MISSING;
    let query = TargetQuery {
        filter,
        sort: edge.sort,
    };
    let is_sorted = query.sort.is_some();
    let targets = LoadedTargets::load_all::<R, J>(access, ids, query, joins).await?;
    Ok(references
        .iter_mut()
        .zip(parents.iter())
        .map(|(references, parent)| {
            let no_reference = || missing_required_reference(parent, edge.path.dotted());
            let Some(references) = references else {
                return P::Out::from_links(Vec::new()).ok_or_else(no_reference);
            };
            if P::IS_REQUIRED && references.is_empty() {
                return Err(no_reference());
            }
            if omits_missing {
                references.retain(|reference| targets.rank_of(reference).is_some());
            }
            if is_sorted {
                references
                    .sort_by_key(|reference| targets.rank_of(reference).unwrap_or(usize::MAX));
            }
            references.truncate(edge.limit.unwrap_or(usize::MAX));
            P::Out::from_links(targets.to_links(references)?).ok_or_else(no_reference)
        })
        .collect())
}

/// Returns the links to targets that the copies of the parents contain.
async fn links_of_copies<P, R, J>(
    access: Access,
    parents: &[RawDocumentBuf],
    path: &str,
    targets: Vec<Vec<RawDocumentBuf>>,
    joins: J,
) -> Result<Vec<Result<P::Out<J::Item>>>>
where
    P: ReferencePlace,
    R: Projection<Of = P::Target>,
    J: Joins<R, Item: LinkItem<Of = P::Target>>,
{
    let counts: Vec<_> = targets.iter().map(Vec::len).collect();
    let (roots, documents) = decode_all::<R>(targets.into_iter().flatten().collect());
    let items = joins.load_relations(access, documents, roots).await?;
    let mut items = items.into_iter();
    let links = parents.iter().zip(counts).map(|(parent, count)| {
        let links = items.by_ref().take(count);
        let links = links.map(|item| Ok(Link::from_loaded(Arc::new(item?))));
        let links = links
            .collect::<Vec<_>>()
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        let no_reference = || missing_required_reference(parent, path);
        P::Out::from_links(links).ok_or_else(no_reference)
    });
    Ok(links.collect())
}

/// Loads documents by their ids, in the order of the ids.
pub(crate) async fn load_by_ids<R, J>(
    access: Access,
    ids: &[<R::Of as Document>::Id],
    joins: J,
) -> Result<Links<J::Item>>
where
    R: Projection<Of: Document>,
    J: Joins<R, Item: LinkItem<Of = R::Of>>,
{
    let raw = ids.iter().map(encode_value).collect::<Result<Vec<_>>>()?;
    let mut ids = DistinctIds::default();
    let references = ids.assign_slots(raw.iter().map(RawBson::as_raw_bson_ref));
    let query = TargetQuery::default();
    let targets = LoadedTargets::load_all::<R, J>(access, ids, query, joins).await?;
    Ok(targets.to_links(&references)?.into_iter().collect())
}

/// Returns the found documents as links, in the order of the ids.
pub(crate) fn links_of_found<T: Document>(
    raw: &[RawBson],
    documents: Vec<RawDocumentBuf>,
) -> Result<Links<T>> {
    let (items, documents) = decode_all::<T>(documents);
    let mut ids = DistinctIds::default();
    let references = ids.assign_slots(raw.iter().map(RawBson::as_raw_bson_ref));
    let targets = LoadedTargets::new(&ids.slots, &documents, items);
    Ok(targets.to_links(&references)?.into_iter().collect())
}

/// The distinct ids among a set of references. Each distinct id has a slot.
#[derive(Default)]
struct DistinctIds<'r> {
    slots: HashMap<IdKey<'r>, usize>,
    /// The id of each slot.
    by_slot: Vec<RawBsonRef<'r>>,
}

/// A reference, with the slot of its target.
#[derive(Clone, Copy)]
struct SlottedReference<'r> {
    id: RawBsonRef<'r>,
    slot: usize,
}

impl<'r> DistinctIds<'r> {
    fn assign_slots(
        &mut self,
        ids: impl IntoIterator<Item = RawBsonRef<'r>>,
    ) -> Vec<SlottedReference<'r>> {
        ids.into_iter().map(|id| self.assign_slot(id)).collect()
    }

    fn assign_slot(&mut self, id: RawBsonRef<'r>) -> SlottedReference<'r> {
        let place = *self.slots.entry(IdKey::from_raw(id)).or_insert_with(|| {
            self.by_slot.push(id);
            self.by_slot.len() - 1
        });
        SlottedReference { id, slot: place }
    }
}

/// The query for the targets of references.
#[derive(Default)]
struct TargetQuery {
    filter: RawDocumentBuf,
    sort: Option<RawDocumentBuf>,
}

/// The targets of a set of references, by slot, each loaded once. `None` if the target was not found.
struct LoadedTargets<X>(Vec<Option<LoadedTarget<X>>>);

struct LoadedTarget<X> {
    /// The position of the document in the result of the query.
    rank: usize,
    item: Result<Arc<X>>,
}

impl<X: LinkItem> LoadedTargets<X> {
    async fn load_all<R, J>(
        access: Access,
        ids: DistinctIds<'_>,
        query: TargetQuery,
        joins: J,
    ) -> Result<Self>
    where
        R: Projection<Of = X::Of>,
        J: Joins<R, Item = X>,
    {
        let batches: Vec<_> = id_batches(&ids.by_slot, MAX_IDS_PER_QUERY).collect();
        if query.sort.is_some() && batches.len() > 1 {
            let message = format!(
                "a sorted join can load at most {MAX_IDS_PER_QUERY} documents with 6 MB of ids, but this join needs {} documents: remove \
                 its `sort`, or read fewer documents at once with `stream` or `page`",
                ids.by_slot.len()
            );
            let error = Error::new(ErrorKind::Unsupported, message);
            return Err(error::of_model::<X::Of>(error));
        }
        let mut needed_fields = joins.needed_fields()?;
        needed_fields.push("_id".to_owned());
        let projection = projection::to_raw::<R>(&needed_fields)?;
        let mut documents = Vec::new();
        for batch in batches {
            let mut keys = RawArrayBuf::new();
            for id in batch {
                keys.push(*id);
            }
            let mut filter = query.filter.clone();
            add_condition(&mut filter, "_id", single_field_document("$in", keys)?)?;
            let find = FindOperation {
                collection: X::Of::COLLECTION.into(),
                filter,
                projection: projection.clone(),
                sort: query.sort.clone(),
                limit: None,
                options: Stage::JOINS.step("read the targets").into(),
            };
            documents.extend(access.find_all(&X::Of::MODEL, find).await?);
        }
        let (roots, documents) = decode_all::<R>(documents);
        // Soft-deleted parents do not make soft-deleted joined documents visible.
        let access = access.with_visibility(Visibility::Present);
        let items = joins
            .load_relations(access, Arc::clone(&documents), roots)
            .await?;
        Ok(Self::new(&ids.slots, &documents, items))
    }

    /// Assigns the found documents to the slots of their ids.
    fn new(
        places: &HashMap<IdKey<'_>, usize>,
        documents: &[RawDocumentBuf],
        items: Vec<Result<X>>,
    ) -> Self {
        let mut targets: Vec<Option<LoadedTarget<X>>> = Vec::new();
        targets.resize_with(places.len(), || None);
        for (rank, (raw, item)) in documents.iter().zip(items).enumerate() {
            let place = decode::stored_id(raw).and_then(|id| places.get(&IdKey::from_raw(id)));
            if let Some(target) = place.and_then(|place| targets.get_mut(*place)) {
                let item = item.map(Arc::new);
                *target = Some(LoadedTarget { rank, item });
            }
        }
        Self(targets)
    }

    fn target_of(&self, reference: &SlottedReference<'_>) -> Option<&LoadedTarget<X>> {
        self.0.get(reference.slot)?.as_ref()
    }

    /// Returns the position of the target in the result of the query, if the target was found.
    fn rank_of(&self, reference: &SlottedReference<'_>) -> Option<usize> {
        self.target_of(reference).map(|target| target.rank)
    }

    fn to_links(&self, references: &[SlottedReference<'_>]) -> Result<Vec<Link<X>>> {
        let mut links = Vec::with_capacity(references.len());
        for reference in references {
            links.push(match self.target_of(reference) {
                Some(target) => target.item.clone().map(Link::from_loaded),
                None => decode::decode_value(&RawBson::from(reference.id)).map(Link::from_missing),
            }?);
        }
        Ok(links)
    }
}

/// The query for the children of each parent.
#[derive(Clone)]
pub(super) struct ChildrenQuery {
    pub(super) path: String,
    pub(super) filter: FilterNode,
    pub(super) sort: Option<RawDocumentBuf>,
    pub(super) limit: Option<u64>,
}

/// Loads the documents that refer to each of the parents.
pub(super) async fn load_children<R, J>(
    access: Access,
    parents: Parents,
    query: ChildrenQuery,
    joins: J,
) -> Result<Vec<Result<Vec<J::Item>>>>
where
    R: Projection<Of: Document>,
    J: Joins<R>,
{
    let keys = parents
        .iter()
        .map(|parent| decode::stored_id(parent).map(RawBson::from))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| {
            Error::new(
                ErrorKind::Decode,
                "the backend returned a document without an `_id`",
            )
        })?;

    let filter = resolve_related(&access, &R::Of::MODEL, query.filter).await?;
    let filter = to_raw(&filter)?;
    let projection = projection::to_raw::<R>(&joins.needed_fields()?)?;
    let mut parent_positions = Vec::new();
    let mut documents = Vec::new();
    let mut batch_start = 0;
    for batch in id_batches(&keys, MAX_IDS_PER_QUERY) {
        let find_each = FindEach {
            collection: R::Of::COLLECTION.into(),
            path: query.path.clone(),
            keys: batch.to_vec(),
            filter: filter.clone(),
            projection: projection.clone(),
            sort: query.sort.clone(),
            limit: query.limit,
            options: Stage::JOINS.step("read the children").into(),
        };
        for row in access.find_each(&R::Of::MODEL, find_each).await? {
            let (position, child) = parse_row(&row).ok_or_else(malformed_answer)?;
            parent_positions.push(batch_start + position);
            documents.push(child);
        }
        batch_start += batch.len();
    }
    let (children, documents) = decode_all::<R>(documents);
    let items = joins.load_relations(access, documents, children).await?;

    let mut results: Vec<Result<Vec<J::Item>>> = Vec::new();
    results.resize_with(keys.len(), || Ok(Vec::new()));
    for (position, item) in parent_positions.into_iter().zip(items) {
        let slot = results.get_mut(position).ok_or_else(malformed_answer)?;
        match (slot, item) {
            (Ok(items), Ok(item)) => items.push(item),
            (slot, Err(error)) => *slot = Err(error),
            (Err(_), Ok(_)) => {}
        }
    }
    Ok(results)
}

fn parse_row(row: &RawDocument) -> Option<(usize, RawDocumentBuf)> {
    let position = row.get_i32("key").ok()?;
    let child = row.get_document("document").ok()?;
    Some((usize::try_from(position).ok()?, child.to_owned()))
}

/// The error of a backend that broke its contract.
pub(super) fn malformed_answer() -> Error {
    Error::new(
        ErrorKind::Backend,
        "the backend returned a malformed row for a join: expected `{key: <int32>, document: {…}}`",
    )
}

fn missing_required_reference(parent: &RawDocument, path: &str) -> Error {
    let error = Error::new(
        ErrorKind::Decode,
        "the document has no reference in a required field: repair the document, or make the reference optional",
    )
    .with_path(path);
    match decode::stored_id(parent).and_then(|id| Bson::try_from(id).ok()) {
        Some(id) => error.with_id(id),
        None => error,
    }
}

/// An id in a form for comparisons. Integers of different types with one value are equal, as for the server.
#[derive(PartialEq, Eq, Hash)]
enum IdKey<'r> {
    Integer(i64),
    Text(&'r str),
    ObjectId(ObjectId),
    Other(Vec<u8>),
}

impl<'r> IdKey<'r> {
    fn from_raw(value: RawBsonRef<'r>) -> Self {
        match value {
            RawBsonRef::Int32(number) => Self::Integer(number.into()),
            RawBsonRef::Int64(number) => Self::Integer(number),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_precision_loss,
                clippy::float_cmp,
                reason = "taken only where the way there and back gives the same number"
            )]
            RawBsonRef::Double(number) if number as i64 as f64 == number => {
                Self::Integer(number as i64)
            }
            RawBsonRef::String(text) => Self::Text(text),
            RawBsonRef::ObjectId(id) => Self::ObjectId(id),
            other => {
                let mut bytes = RawDocumentBuf::new();
                bytes.append(bson::raw::cstr!(""), other);
                Self::Other(bytes.into_bytes())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_either_width_are_one_id() {
        assert!(IdKey::from_raw(RawBsonRef::Int32(5)) == IdKey::from_raw(RawBsonRef::Int64(5)));
        assert!(IdKey::from_raw(RawBsonRef::Double(5.0)) == IdKey::from_raw(RawBsonRef::Int64(5)));
        assert!(IdKey::from_raw(RawBsonRef::String("5")) != IdKey::from_raw(RawBsonRef::Int64(5)));
    }
}
