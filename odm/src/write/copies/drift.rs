//! Snapshot drift: snapshots that differ from the current value of the source.

use std::collections::BTreeSet;

use bson::{Bson, DateTime, Document, RawDocument, RawDocumentBuf};

use super::{
    check::is_equal_value,
    layout::{CopyGroup, copy_groups},
    parse_document,
    source::SourceCache,
};
use crate::{
    Result,
    language::query::projection_of,
    metadata::{self, ParsedMetadata, copy::SnapshotOrigin},
    overflow::{ArrayReader, MAX_READ_ATTEMPTS, SpilledCursor},
    schema::{Model, OverflowField, upgrade},
    session::{
        access::{Access, ModelAccess},
        retry,
    },
};

/// A snapshot that differs from the current value of the source.
#[derive(Debug, Clone)]
pub(crate) struct DriftedSnapshot {
    /// The position of the document in the batch.
    pub(crate) batch_position: usize,
    /// The path of the snapshot, with the positions of array elements.
    pub(crate) path: String,
    pub(crate) snapshot: Bson,
    /// `None` if the source was deleted.
    pub(crate) current: Option<Bson>,
    pub(crate) source: &'static Model,
    pub(crate) id: Bson,
    pub(crate) snapshot_at: Option<DateTime>,
}

/// The number of spilled elements of an overflow array that are compared at a time, at least.
const SPILLED_ELEMENTS_PER_PAGE: usize = 5_000;

/// Returns the snapshots in a batch that differ from their sources. Costs one query for each source model, and one for each
/// [`SPILLED_ELEMENTS_PER_PAGE`] elements of an overflow array.
pub(crate) async fn find_drifted(
    access: ModelAccess<'_>,
    batch: &[RawDocumentBuf],
) -> Result<Vec<DriftedSnapshot>> {
    let model = access.model;
    let groups = snapshot_groups(model);
    let (mut resident, mut spilled) = (SnapshotBatch::default(), Vec::new());
    for (position, raw) in batch.iter().enumerate() {
        let document = parse_document(&upgrade::upgrade_for_read(model, raw)?)?;
        for group in &groups {
            for (path, embedded) in group.structs_in_document(&document) {
                resident.add_struct(group, (position, &path), embedded);
            }
        }
        for field in model.overflows {
            let groups = groups.iter().filter(|group| group.is_in_overflow(field));
            let groups: Vec<_> = groups.cloned().collect();
            if !groups.is_empty() {
                let drifted = drifted_in_spilled(access, field, raw, (position, &groups)).await?;
                spilled.extend(drifted);
            }
        }
    }
    let mut drifted = resident.into_drifted(&access, &groups).await?;
    drifted.append(&mut spilled);
    // Report the drift of one document together.
    drifted.sort_by_key(|snapshot| snapshot.batch_position);
    Ok(drifted)
}

/// Returns the drifted snapshots in the spilled elements of one document.
async fn drifted_in_spilled(
    access: ModelAccess<'_>,
    field: &'static OverflowField,
    raw: &RawDocument,
    (batch_position, groups): (usize, &[CopyGroup]),
) -> Result<Vec<DriftedSnapshot>> {
    let full_access = access.with_full_visibility();
    let Some((reader, state)) =
        ArrayReader::from_document(full_access.to(access.model), field, raw)?
    else {
        return Ok(Vec::new());
    };
    let mut next_state = Some(state);
    for attempt in 1..=MAX_READ_ATTEMPTS {
        let Some(state) = next_state else {
            return Ok(Vec::new());
        };
        let mut position = state.resident.len();
        let mut cursor = SpilledCursor::from_state(reader.clone(), state).await?;
        let mut drifted = Vec::new();
        while !cursor.is_exhausted() {
            let mut snapshots = SnapshotBatch::default();
            for element in cursor.next_elements(SPILLED_ELEMENTS_PER_PAGE).await? {
                for group in groups {
                    for (path, embedded) in group.structs_in(1, &element) {
                        let path = format!("{}.{position}.{path}", field.stored);
                        snapshots.add_struct(group, (batch_position, &path), embedded);
                    }
                }
                position += 1;
            }
            drifted.extend(snapshots.into_drifted(&access, groups).await?);
        }
        if cursor.is_complete().await? {
            return Ok(drifted);
        }
        retry::pause_before_retry("the array was replaced during the read", attempt).await;
        next_state = reader.read_state().await?;
    }
    Err(reader.contention_error())
}

/// Snapshots of one batch, each with the source field.
#[derive(Default)]
struct SnapshotBatch(Vec<(DriftedSnapshot, String)>);

impl SnapshotBatch {
    /// Adds the snapshots of a struct at a path of a document.
    fn add_struct(
        &mut self,
        group: &CopyGroup,
        (position, path): (usize, &str),
        embedded: &Document,
    ) {
        for field in group.snapshot_fields() {
            let (id, snapshot_at) = match ParsedMetadata::of(embedded).snapshot_origin(field.stored)
            {
                Some(SnapshotOrigin { id, at }) => (Some(id), Some(at)),
                // A snapshot without a recorded origin comes from the current target of the reference.
                None => (group.reference_in(embedded).cloned(), None),
            };
            let (Some(value), Some(id)) = (embedded.get(field.stored), id) else {
                continue;
            };
            let drifted = DriftedSnapshot {
                batch_position: position,
                path: format!("{path}{}", field.stored),
                snapshot: value.clone(),
                current: None,
                source: (group.source_model)(),
                id,
                snapshot_at,
            };
            self.0.push((drifted, field.source_path.clone()));
        }
    }

    /// Reads the sources and returns the snapshots that differ.
    async fn into_drifted(
        self,
        access: &Access,
        groups: &[CopyGroup],
    ) -> Result<Vec<DriftedSnapshot>> {
        let source_ids = self
            .0
            .iter()
            .map(|(snapshot, _)| (snapshot.source, snapshot.id.clone()));
        let source_ids: Vec<_> = source_ids.collect();
        let mut sources = SourceCache::default();
        sources.read_missing(access, groups, &source_ids).await?;
        let mut drifted = Vec::new();
        for (mut snapshot, source_path) in self.0 {
            let source = sources.get_source(snapshot.source, &snapshot.id)?.flatten();
            snapshot.current = source.map(|source| source.field_value(&source_path));
            let is_unchanged = match &snapshot.current {
                Some(current) => is_equal_value(&snapshot.snapshot, current)?,
                None => false,
            };
            if !is_unchanged {
                drifted.push(snapshot);
            }
        }
        Ok(drifted)
    }
}

/// Returns the projection that reads the snapshots of a model. `None` if the model has no snapshots; `Some(None)` reads whole
/// documents, because an upgrade needs all fields.
pub(crate) fn snapshot_projection(model: &'static Model) -> Result<Option<Option<RawDocumentBuf>>> {
    let groups = snapshot_groups(model);
    if groups.is_empty() {
        return Ok(None);
    }
    if model.upgrade.is_some() {
        return Ok(Some(None));
    }
    let mut roots = BTreeSet::from(["_id", metadata::FIELD]);
    for group in &groups {
        roots.insert(group.root());
        if group.steps.is_empty() {
            roots.extend(group.snapshot_fields().map(|field| field.stored));
        }
    }
    Ok(Some(Some(projection_of(roots)?)))
}

fn snapshot_groups(model: &'static Model) -> Vec<CopyGroup> {
    let mut groups = copy_groups(model);
    groups.retain(|group| group.snapshot_fields().next().is_some());
    groups
}
