//! Search for documents by an element, resident or spilled.

use std::collections::BTreeMap;

use bson::{Bson, Document, RawBson, RawDocumentBuf, doc, oid::ObjectId};

use super::manifest::{ArrayState, ArrayWorkKind, Manifest, integer_or_zero};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{AggregateOperation, Stage},
    error,
    language::{
        field::Path,
        query::{self, FilterNode},
    },
    metadata::overflow::{
        BLOCK, CHUNK_GENERATION, CHUNK_REFERENCES, ChunkMetadata, PROVISIONAL, TAIL,
    },
    model::{
        decode,
        ids::{OrderedId, id_batches},
        stored::{parse_document, to_raw_document},
    },
    schema::OverflowField,
    session::access::{Access, ModelAccess},
};

/// The maximum number of document ids in a condition.
const MAX_IDS_PER_CONDITION: usize = 100_000;

/// The maximum number of owners that one query reads.
const OWNERS_PER_QUERY: usize = 1_000;

/// The identity of a chunk with a matching element.
struct MatchingChunk {
    generation: ObjectId,
    seq: i64,
    /// The token of the write that will publish the chunk. `None` for a published chunk.
    publish_token: Option<ObjectId>,
}

/// Returns the condition that a document has an element that meets `condition`: a resident element at query time, or an element
/// that is spilled now.
///
/// Spilled elements are read before the resident ones, so an element that moves in between is found. Two cases can be missed. A
/// concurrent write replaces the whole array with another that also has the element. Or a push spills the element from a sorted
/// array in between.
pub(crate) async fn any_element_condition(
    access: ModelAccess<'_>,
    field: &'static OverflowField,
    condition: &FilterNode,
) -> Result<FilterNode> {
    let any_in =
        |path: &str| FilterNode::Element(Path::ROOT.append_name(path), Box::new(condition.clone()));
    let buffered = [FilterNode::Or(vec![
        any_in(&field.manifest_path(TAIL)),
        any_in(&field.work_path(BLOCK)),
    ])];
    let in_chunk = any_in(field.elements);
    let ids = owners_with_element(access, field, &buffered, &in_chunk, None).await?;
    let resident = any_in(field.stored);
    if ids.is_empty() {
        return Ok(resident);
    }
    let mut owner_ids = bson::RawArrayBuf::new();
    for id in ids {
        owner_ids.push(id);
    }
    let spilled = FilterNode::Test(Path::ROOT.append_name("_id"), "$in", owner_ids.into());
    Ok(FilterNode::Or(vec![resident, spilled]))
}

/// Returns the ids of at most `limit` documents: first the documents that meet one of the `conditions`, then the documents with a
/// chunk that meets `elements`.
pub(crate) async fn owners_with_element(
    access: ModelAccess<'_>,
    field: &'static OverflowField,
    conditions: &[FilterNode],
    elements: &FilterNode,
    limit: Option<usize>,
) -> Result<Vec<RawBson>> {
    let mut ids: Vec<RawBson> = Vec::new();
    for condition in conditions {
        let filter = query::to_raw(condition).map_err(error::naming_model(access.model))?;
        let find = access
            .find_matching(&filter)
            .with_origin(Stage::ARRAYS.step("read the owners"))
            .with_projection(to_raw_document(&doc! { "_id": 1 })?)
            .with_limit(limit.map(|limit| limit as u64));
        let documents = access.find_all(find).await?;
        let found_ids = documents.iter().filter_map(|raw| decode::stored_id(raw));
        ids.extend(found_ids.map(RawBson::from));
    }
    if limit.is_some_and(|limit| ids.len() >= limit) {
        return Ok(ids);
    }
    let matching = matching_chunks(&access, field, elements).await?;
    let candidates: Vec<_> = matching.keys().collect();
    for batch in id_batches(&candidates, OWNERS_PER_QUERY) {
        if limit.is_some_and(|limit| ids.len() >= limit) {
            return Ok(ids);
        }
        for owner in read_states(access, field, batch).await? {
            let id = RawBson::try_from(owner.id).map_err(error::from_bson)?;
            let chunks = matching
                .get(&OrderedId::from_id(&id))
                .map_or(&[][..], Vec::as_slice);
            let covers_chunk =
                |manifest: Manifest| chunks.iter().any(|chunk| manifest.covers_chunk(chunk));
            if owner.manifest.is_some_and(covers_chunk) {
                ids.push(id);
            }
        }
    }
    if ids.len() > MAX_IDS_PER_CONDITION {
        let message = format!(
            "{} documents have a matching spilled element (max {MAX_IDS_PER_CONDITION}): narrow the condition, or pull elements first",
            ids.len()
        );
        return Err(error::naming_model(access.model)(
            Error::new(ErrorKind::Unsupported, message).with_path(field.field),
        ));
    }
    Ok(ids)
}

/// Returns the chunks that match the condition, by owner id.
async fn matching_chunks(
    access: &Access,
    field: &'static OverflowField,
    condition: &FilterNode,
) -> Result<BTreeMap<OrderedId, Vec<MatchingChunk>>> {
    let condition = query::to_raw(condition).map_err(error::naming_model(field.chunks))?;
    let projection =
        doc! { field.owner: 1, field.seq: 1, CHUNK_GENERATION: 1, PROVISIONAL: 1, "_id": 0 };
    let aggregate = AggregateOperation {
        collection: field.chunks.collection.into(),
        pipeline: vec![
            to_raw_document(&doc! { "$match": parse_document(&condition)? })?,
            to_raw_document(&doc! { "$project": projection })?,
        ],
        variables: RawDocumentBuf::new(),
        options: Stage::ARRAYS.step("read the chunks").into(),
    };
    let mut chunks: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for row in access.aggregate_all(field.chunks, aggregate).await? {
        let row = parse_document(&row)?;
        let metadata = ChunkMetadata::of(&row);
        if let (Some(owner), Some(generation)) = (row.get(field.owner), metadata.generation) {
            let owner = RawBson::try_from(owner.clone()).map_err(error::from_bson)?;
            let chunk = MatchingChunk {
                generation,
                seq: integer_or_zero(row.get(field.seq)),
                publish_token: metadata.token,
            };
            let owner_id = OrderedId::from_id(&owner);
            chunks.entry(owner_id).or_default().push(chunk);
        }
    }
    Ok(chunks)
}

/// Reads the states of the arrays with these owner ids.
async fn read_states(
    access: ModelAccess<'_>,
    field: &'static OverflowField,
    ids: &[&OrderedId],
) -> Result<Vec<ArrayState>> {
    let ids = ids.iter().map(|id| {
        let id = id.to_value()?;
        Bson::try_from(id).map_err(error::from_bson)
    });
    let ids = ids.collect::<Result<Vec<_>>>()?;
    let mut projection = Document::new();
    for name in CHUNK_REFERENCES {
        projection.insert(field.manifest_path(name), 1);
    }
    let find = access
        .find_matching(&to_raw_document(&doc! { "_id": { "$in": ids } })?)
        .with_origin(Stage::ARRAYS.step("read the manifests"))
        .with_projection(to_raw_document(&projection)?);
    let found = access.find_all(find).await?;
    found
        .iter()
        .map(|raw| ArrayState::from_document(field, raw))
        .collect()
}

impl Manifest {
    /// Returns whether the array reads this chunk. Must agree with `chunks::live_chunks_filter`.
    fn covers_chunk(&self, chunk: &MatchingChunk) -> bool {
        let work = self.work.as_ref();
        let published = work.filter(|work| matches!(work.kind, ArrayWorkKind::Published { .. }));
        let is_published = chunk
            .publish_token
            .is_none_or(|token| published.is_some_and(|work| work.token == token));
        self.generation == Some(chunk.generation) && chunk.seq < self.next_seq && is_published
    }
}
