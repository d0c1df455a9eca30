//! Revalidation: comparing new dependents with their sources again after the write, because a source may have changed between the
//! read and the write.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, Document, RawBson, RawDocumentBuf, oid::ObjectId};

use super::{
    fan_out::{
        CopyUpdate, FanOutBudget, FanOutRemainder, MAX_COPY_BATCH_DOCUMENTS, source_condition,
        write_copies,
    },
    layout::CopyGroup,
    parse_document,
    pending::run_next_fan_outs,
    source::{SourceCache, SourceState, are_unchanged},
};
use crate::{
    Error, Result,
    backend::operation::Stage,
    language::query::{id_filter, projection_of},
    metadata,
    metadata::references::TombstoneState,
    model::{
        decode,
        ids::{OrderedId, ids_filter},
    },
    pending::{
        blocked::{self, Rejection},
        record::{PendingKind, PendingToken},
    },
    session::access::ModelAccess,
    write::{
        maintainer::CopiedSource,
        metadata_update::{remove_records, to_raw_value},
        version_clock::first_version,
    },
};

/// Revalidates the documents of a write. If the copied versions are known and all sources still have these versions, the pending
/// records are removed without reading the dependents.
pub(super) async fn revalidate_write(
    access: ModelAccess<'_>,
    token: PendingToken,
    sources: Option<&[CopiedSource]>,
) -> Result<()> {
    let filter = token.token_filter(PendingKind::REVALIDATE)?;
    if let Some(sources) = sources
        && are_unchanged(sources, &access, &super::copy_groups(access.model)).await?
    {
        remove_records(access, Stage::COPIES, PendingKind::REVALIDATE, filter).await?;
        return Ok(());
    }
    let mut blocked = None;
    loop {
        let batch = revalidate_batch(access, &filter).await?;
        blocked = blocked.or(batch.blocked);
        if !batch.has_more {
            return blocked.map_or(Ok(()), Err);
        }
    }
}

/// The result of revalidating a batch of documents.
pub(super) struct RevalidatedBatch {
    /// The number of documents whose revalidation is complete.
    pub(super) documents: u64,
    /// Whether more documents remain.
    pub(super) has_more: bool,
    /// The rejections, if documents reject the current copies.
    pub(super) blocked: Option<Error>,
}

/// Revalidates up to [`MAX_COPY_BATCH_DOCUMENTS`] documents that a filter matches.
pub(super) async fn revalidate_batch(
    access: ModelAccess<'_>,
    filter: &RawDocumentBuf,
) -> Result<RevalidatedBatch> {
    let model = access.model;
    let groups = super::copy_groups(model);
    // A reference can be the scope field.
    let mut fields = BTreeSet::from(["_id", metadata::FIELD]);
    fields.extend(model.scope.iter().map(|scope| scope.stored));
    fields.extend(groups.iter().map(CopyGroup::root));
    let find = access
        .find_matching(filter)
        .with_origin(Stage::COPIES.step("read the copies to revalidate"))
        .with_projection(projection_of(fields)?)
        .with_limit(MAX_COPY_BATCH_DOCUMENTS as u64 + 1);
    let deleted_source = SourceState::deleted_at(first_version());
    let mut dependents = access.find_all(find).await?;
    let has_more = dependents.len() > MAX_COPY_BATCH_DOCUMENTS;
    dependents.truncate(MAX_COPY_BATCH_DOCUMENTS);
    let mut source_ids = Vec::new();
    let mut copies = Vec::new();
    let mut tokens = BTreeMap::<ObjectId, Vec<RawBson>>::new();
    for raw in &dependents {
        let document = parse_document(raw)?;
        let Some(id) = decode::owned_id(raw) else {
            continue;
        };
        for (position, group) in groups.iter().enumerate() {
            let scope = group.scope_of_dependent(&document);
            for (_, embedded) in group.structs_in_document(&document) {
                if let (Some(target), true) = (group.reference_in(embedded), group.has_fan_out()) {
                    source_ids.push(((group.source_model)(), target.clone()));
                    let version = group.version_in(embedded);
                    let reference = (target.clone(), scope.clone());
                    copies.push((position, reference, version, id.clone()));
                }
            }
        }
        if let Some(pending) = PendingToken::from_stored(raw, PendingKind::REVALIDATE)? {
            tokens.entry(pending.token).or_default().push(id);
        }
    }
    let mut sources = SourceCache::default();
    sources.read_missing(&access, &groups, &source_ids).await?;
    let mut stale =
        BTreeMap::<(usize, OrderedId, Option<OrderedId>), (ScopedReference, Vec<RawBson>)>::new();
    for (position, reference, version, id) in copies {
        let Some(group) = groups.get(position) else {
            continue;
        };
        let Some(source) = expected_source(group, &sources, &deleted_source, &reference)? else {
            continue;
        };
        if source.tombstone == TombstoneState::Provisional && group.is_clearing() {
            tokens
                .values_mut()
                .for_each(|ids| ids.retain(|candidate| *candidate != id));
        } else if version.is_none_or(|version| version < source.version) {
            let (target, scope) = &reference;
            let scope = scope.as_ref().map(to_raw_value).transpose()?;
            let scope = scope.as_ref().map(OrderedId::from_id);
            let key = (position, OrderedId::from_bson(target)?, scope);
            let (_, ids) = stale.entry(key).or_insert((reference, Vec::new()));
            ids.push(id);
        }
    }
    let mut remainder = FanOutRemainder::default();
    for (position, group) in groups.iter().enumerate() {
        let stale_in_group = stale
            .iter()
            .filter(|((of_position, ..), _)| *of_position == position);
        let mut updates = Vec::new();
        for (reference, ids) in stale_in_group.map(|(_, stale)| stale) {
            if let Some(source) = expected_source(group, &sources, &deleted_source, reference)? {
                updates.push(CopyUpdate {
                    group,
                    reference_condition: source_condition(group, &reference.0),
                    source,
                    documents: ids_filter(ids),
                    source_id: None,
                    scope_condition: Document::new(),
                });
            }
        }
        if !updates.is_empty() {
            write_copies(&access, group, updates, &mut remainder).await?;
        }
    }
    run_next_fan_outs(&access, remainder.next, FanOutBudget::Unlimited).await?;
    let rejected = remainder.rejected;
    let mut blocked = BTreeMap::<OrderedId, (RawBson, Vec<Rejection>)>::new();
    for rejection in rejected.iter_rejections() {
        let id = to_raw_value(&rejection.id)?;
        let (_, rejections) = blocked
            .entry(OrderedId::from_id(&id))
            .or_insert((id, Vec::new()));
        rejections.push(rejection.clone());
    }
    for ids in tokens.values_mut() {
        ids.retain(|id| !blocked.contains_key(&OrderedId::from_id(id)));
    }
    for (id, rejections) in blocked.values() {
        blocked::record_rejections(access, PendingKind::REVALIDATE, id_filter(id), rejections)
            .await?;
    }
    let mut documents = 0;
    for (token, ids) in tokens {
        let mut filter = ids_filter(&ids);
        PendingKind::REVALIDATE.add_token_condition(&mut filter, token)?;
        documents += remove_records(access, Stage::COPIES, PendingKind::REVALIDATE, filter).await?;
    }
    Ok(RevalidatedBatch {
        documents,
        // Stop if no record was removed: the next batch would be the same.
        has_more: has_more && documents + blocked.len() as u64 > 0,
        blocked: match rejected.is_empty() {
            true => None,
            false => Some(blocked::blocked_error(model, rejected.iter_rejections())),
        },
    })
}

/// The target of a reference, and the scope that the source must have.
type ScopedReference = (Bson, Option<Bson>);

/// Returns the source state that copies must have. `None` if the source is gone and the copies keep their last values.
fn expected_source<'s>(
    group: &CopyGroup,
    sources: &'s SourceCache,
    deleted_source: &'s SourceState,
    (target, scope): &ScopedReference,
) -> Result<Option<&'s SourceState>> {
    let source = sources.get_source_in_scope(group, target, scope.as_ref())?;
    let source = source.flatten();
    let exists = source.is_some_and(|source| source.tombstone != TombstoneState::Final);
    Ok(match group.is_clearing() && !exists {
        true => Some(deleted_source),
        false => source,
    })
}
