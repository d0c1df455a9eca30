//! Source documents of copies: reading sources, and detecting changes of sources.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, Document, RawDocument, RawDocumentBuf};

use super::{layout::CopyGroup, refresh::refresh_groups};
use crate::{
    Result,
    backend::operation::Stage,
    error,
    language::query::append_field,
    metadata::{
        ParsedMetadata,
        copy::SOURCE_VERSION,
        references::{TombstoneState, tombstone},
        rollup::ROLLUP_VERSION,
    },
    model::{
        decode,
        ids::{OrderedId, id_batches, id_values, ids_filter},
    },
    pending::record::PendingKind,
    schema::{Model, upgrade::read_upgraded},
    session::access::{Access, ModelAccess},
    write::{maintainer::CopiedSource, metadata_update::paths_overlap},
};

/// The sources that one operation has read, by collection and id.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceCache {
    /// The result for each requested source: `None` if the source does not exist.
    found: BTreeMap<(&'static str, OrderedId), Option<SourceState>>,
    /// Whether copies in the sources are replaced by the current values.
    reads_current_copies: bool,
}

/// The copied fields of a source document, with the version.
#[derive(Debug, Clone)]
pub(crate) struct SourceState {
    pub(super) version: i64,
    /// Whether the source has a pending fan-out.
    pub(super) has_pending_fan_out: bool,
    pub(super) tombstone: TombstoneState,
    /// The rollup version of the document: every change of the rollups changes this value.
    rollup_version: Option<Bson>,
    values: Document,
}

impl SourceState {
    pub(super) fn from_raw(raw: &RawDocument) -> Result<Self> {
        let values = Document::try_from(raw).map_err(error::from_bson)?;
        let metadata = ParsedMetadata::of(&values);
        Ok(Self {
            version: metadata.source_version().unwrap_or_default(),
            has_pending_fan_out: metadata.has_pending(PendingKind::FAN_OUT),
            tombstone: TombstoneState::from_stored(raw),
            rollup_version: metadata.rollup_version().cloned(),
            values,
        })
    }

    /// Returns the state of a source that is being deleted. The version is higher than every earlier version of the source, and
    /// lower than the version of a later document with the same `_id`.
    pub(super) fn deleted_at(version: i64) -> Self {
        Self {
            version,
            has_pending_fan_out: false,
            tombstone: TombstoneState::Final,
            rollup_version: None,
            values: Document::new(),
        }
    }

    /// Returns a field, or null.
    pub(super) fn field_value(&self, dotted: &str) -> Bson {
        let mut parts = dotted.split('.');
        let first = parts.next().and_then(|part| self.values.get(part));
        let value = parts.fold(first, |value, part| value?.as_document()?.get(part));
        value.cloned().unwrap_or(Bson::Null)
    }
}

impl SourceCache {
    /// Returns an empty set of sources that reads current copies.
    pub(super) fn with_current_copies() -> Self {
        Self {
            reads_current_copies: true,
            ..Self::default()
        }
    }

    /// Returns a source. `None` if the source was not requested; `Some(None)` if the source does not exist.
    pub(super) fn get_source(
        &self,
        model: &Model,
        id: &Bson,
    ) -> Result<Option<Option<&SourceState>>> {
        let id = OrderedId::from_bson(id)?;
        Ok(self.found.get(&(model.collection, id)).map(Option::as_ref))
    }

    /// Returns a source for a dependent with this scope. A source of another scope does not exist for the dependent.
    pub(super) fn get_source_in_scope(
        &self,
        group: &CopyGroup,
        id: &Bson,
        scope: Option<&Bson>,
    ) -> Result<Option<Option<&SourceState>>> {
        let Some(source) = self.get_source((group.source_model)(), id)? else {
            return Ok(None);
        };
        let source = source.filter(|source| group.scope_of_source(source).as_ref() == scope);
        Ok(Some(source))
    }

    /// Returns all sources of followed copies.
    pub(super) fn copied_sources(&self, groups: &[CopyGroup]) -> Result<Vec<CopiedSource>> {
        let mut versions = Vec::new();
        for ((collection, id), source) in &self.found {
            let mut groups = groups.iter().filter(|group| group.has_fan_out());
            let group = groups.find(|group| (group.source_model)().collection == *collection);
            let Some(group) = group else {
                continue;
            };
            let id = Bson::try_from(id.to_value()?).map_err(error::from_bson)?;
            versions.push(CopiedSource {
                model: (group.source_model)(),
                id,
                version: source.as_ref().map(|source| source.version),
                rollup_version: source
                    .as_ref()
                    .and_then(|source| source.rollup_version.clone()),
            });
        }
        Ok(versions)
    }

    /// Reads the sources that were not read before. Costs one query for each model.
    pub(super) async fn read_missing(
        &mut self,
        access: &Access,
        groups: &[CopyGroup],
        source_ids: &[(&'static Model, Bson)],
    ) -> Result<()> {
        let mut missing = BTreeMap::<&str, (&'static Model, BTreeSet<OrderedId>)>::new();
        for (model, id) in source_ids {
            let id = OrderedId::from_bson(id)?;
            if !self.found.contains_key(&(model.collection, id.clone())) {
                let (_, ids) = missing
                    .entry(model.collection)
                    .or_insert((model, BTreeSet::new()));
                ids.insert(id);
            }
        }
        let access = access.for_targets();
        for (collection, (model, ids)) in missing {
            let mut sources =
                read_sources(access.to(model), groups, &ids, self.reads_current_copies).await?;
            for id in ids {
                let source = sources.remove(&id);
                self.found.insert((collection, id), source);
            }
        }
        Ok(())
    }
}

/// Whether all sources still have the copied version and no tombstone.
pub(super) async fn are_unchanged(
    sources: &[CopiedSource],
    access: &Access,
    groups: &[CopyGroup],
) -> Result<bool> {
    let source_ids = sources.iter();
    let source_ids = source_ids.map(|copied| (copied.model, copied.id.clone()));
    let source_ids: Vec<_> = source_ids.collect();
    let mut current = SourceCache::default();
    current.read_missing(access, groups, &source_ids).await?;
    for copied in sources {
        let source = current.get_source(copied.model, &copied.id)?.flatten();
        let has_same_version = |current: &SourceState| Some(current.version) == copied.version;
        if !source.is_some_and(|current| {
            current.tombstone == TombstoneState::Live && has_same_version(current)
        }) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The maximum number of sources in one query.
const MAX_SOURCES_PER_QUERY: usize = 10_000;

async fn read_sources(
    access: ModelAccess<'_>,
    groups: &[CopyGroup],
    ids: &BTreeSet<OrderedId>,
    reads_current_copies: bool,
) -> Result<BTreeMap<OrderedId, SourceState>> {
    let refreshed = match reads_current_copies {
        true => copied_copies(access.model, groups),
        false => Vec::new(),
    };
    let ids = id_values(ids)?;
    let mut sources = BTreeMap::new();
    for batch in id_batches(&ids, MAX_SOURCES_PER_QUERY) {
        let find = access
            .find_matching(&ids_filter(batch))
            .with_origin(Stage::COPIES.step("read the sources"))
            .with_projection(match refreshed.is_empty() {
                true => source_projection(access.model, groups)?,
                false => None,
            });
        let mut documents = read_upgraded(&access, access.model, find).await?;
        if !refreshed.is_empty() {
            refresh_groups(access, &mut documents, refreshed.clone()).await?;
        }
        for raw in documents {
            if let Some(id) = decode::owned_id(&raw) {
                sources.insert(OrderedId::from_id(&id), SourceState::from_raw(&raw)?);
            }
        }
    }
    Ok(sources)
}

/// Returns the groups of a source model with a copy that `groups` copy further. No chain of such groups comes back to a group: the
/// compiler refuses a copy of itself. The ancestors in a tree are an exception, so they are left out.
fn copied_copies(source: &'static Model, groups: &[CopyGroup]) -> Vec<CopyGroup> {
    let groups = groups
        .iter()
        .filter(|group| (group.source_model)().collection == source.collection);
    let paths: Vec<_> = groups
        .flat_map(CopyGroup::fan_out_fields)
        .map(|field| field.source_path.as_str())
        .collect();
    let mut copied = super::copy_groups(source);
    copied.retain(|group| {
        let mut fields = group.fan_out_fields().filter(|field| !field.is_ancestors());
        fields.any(|field| {
            let copy = group.field_path(field.stored);
            paths.iter().any(|path| paths_overlap(&copy, path))
        })
    });
    copied
}

/// Returns the projection for a source. `None` for a model with upgrades: an older document is read completely.
pub(super) fn source_projection(
    model: &Model,
    groups: &[CopyGroup],
) -> Result<Option<RawDocumentBuf>> {
    if model.upgrade.is_some() {
        return Ok(None);
    }
    let groups = groups
        .iter()
        .filter(|group| (group.source_model)().collection == model.collection);
    let copied = groups.flat_map(|group| &group.fields);
    let mut paths: Vec<_> = copied.map(|copied| copied.source_path.as_str()).collect();
    paths.extend(["_id", SOURCE_VERSION, ROLLUP_VERSION, tombstone::PATH]);
    paths.push(PendingKind::FAN_OUT.record_path());
    paths.extend(model.scope.iter().map(|scope| scope.stored));
    paths.sort_unstable();
    paths.dedup();
    let mut projection = RawDocumentBuf::new();
    for (position, path) in paths.iter().enumerate() {
        let is_below = |parent: &&str| {
            path.strip_prefix(*parent)
                .is_some_and(|suffix| suffix.starts_with('.'))
        };
        // A projection must not contain a path below another path.
        if !paths.iter().take(position).any(is_below) {
            append_field(&mut projection, path, 1)?;
        }
    }
    Ok(Some(projection))
}
