//! The check and the repair of copies: comparing copies with their sources, and filling stale copies again.

use bson::{Bson, RawBson, RawDocumentBuf, doc};

use super::{
    fan_out::{FanOutBudget, is_copied_further, set_or_unset, source_condition},
    layout::{CopyGroup, copy_groups, dependent_fields},
    parse_document,
    pending::run_fan_outs,
    revalidate::revalidate_write,
    source::SourceCache,
    to_raw_document,
};
use crate::{
    Result,
    backend::operation::Stage,
    language::query::id_filter,
    metadata::{copy::SOURCE_VERSION, references::TombstoneState},
    model::{decode, ids::OrderedId, stored::parse_fields},
    pending::record::{PendingKind, PendingToken},
    schema::{Model, upgrade},
    session::access::ModelAccess,
    write::{
        footprint::put_operator,
        metadata_update::{MetadataUpdate, apply_update, field_names_of, to_raw_value},
        tree_chain::{KnownDocuments, is_own_ancestor},
    },
};

/// A copy that differs from its source.
#[derive(Debug, Clone)]
pub(crate) struct StaleCopy {
    /// The position of the document in the batch.
    pub(crate) batch_position: usize,
    /// The path of the copy, with the positions of array elements.
    pub(crate) path: String,
    pub(crate) source: &'static Model,
    pub(crate) id: Bson,
    pub(crate) actual: Bson,
    pub(crate) expected: Bson,
    /// Whether the document is its own ancestor in a tree.
    pub(crate) is_cycle: bool,
}

/// Returns the copies in a batch that differ from their sources, unless work that will update the copy is pending.
pub(crate) async fn find_stale_copies(
    access: ModelAccess<'_>,
    batch: &[RawDocumentBuf],
) -> Result<Vec<StaleCopy>> {
    let groups = copy_groups(access.model);
    if !groups.iter().any(CopyGroup::has_fan_out) {
        return Ok(Vec::new());
    }
    let names = dependent_fields(&groups);
    let mut source_ids = Vec::new();
    let mut copies = Vec::new();
    for (position, raw) in batch.iter().enumerate() {
        if PendingKind::REVALIDATE.lease_end(raw)?.is_some() {
            continue;
        }
        let current = upgrade::upgrade_for_read(access.model, raw)?;
        let document = parse_fields(&current, &names)?;
        for group in groups.iter().filter(|group| group.has_fan_out()) {
            let scope = group.scope_of_dependent(&document);
            for (path, embedded) in group.structs_in_document(&document) {
                let reference = group.reference_in(embedded);
                for field in group.fan_out_fields() {
                    let actual = embedded.get(field.stored).cloned().unwrap_or(Bson::Null);
                    let path = format!("{path}{}", field.stored);
                    let reference = reference.cloned().unwrap_or(Bson::Null);
                    let reference = (reference, scope.clone());
                    copies.push((position, group, reference, path, field, actual));
                }
                source_ids.extend(group.source_in(embedded));
            }
        }
    }
    let mut sources = SourceCache::default();
    sources.read_missing(&access, &groups, &source_ids).await?;
    let (mut stale, mut known) = (Vec::new(), KnownDocuments::new());
    for (position, group, (reference, scope), path, field, actual) in copies {
        let source = (group.source_model)();
        let found = sources.get_source_in_scope(group, &reference, scope.as_ref())?;
        let expected = match (&reference, found) {
            (Bson::Null, _) => field.value_without_source(),
            (_, None) => continue,
            (_, Some(None)) if field.clears => Bson::Null,
            // A copy keeps its last value when the source is deleted.
            (_, Some(None)) => continue,
            (_, Some(Some(source)))
                if source.has_pending_fan_out || source.tombstone != TombstoneState::Live =>
            {
                continue;
            }
            (_, Some(Some(source))) => field.value_of(source),
        };
        if !is_equal_value(&actual, &expected)? {
            let id = batch.get(position).and_then(|raw| decode::owned_id(raw));
            let is_cycle = match id {
                Some(id) if field.is_ancestors() => {
                    is_own_ancestor(access, &id, to_raw_value(&reference)?, &mut known).await?
                }
                _ => false,
            };
            stale.push(StaleCopy {
                is_cycle,
                batch_position: position,
                path,
                source,
                id: reference,
                actual,
                expected,
            });
        }
    }
    Ok(stale)
}

/// Whether the database considers two values equal. A write that replaces one by the other then starts no fan-out.
pub(super) fn is_equal_value(a: &Bson, b: &Bson) -> Result<bool> {
    Ok(OrderedId::from_bson(a)? == OrderedId::from_bson(b)?)
}

/// Fills a stale copy again by a revalidation. Returns whether the document was changed.
pub(crate) async fn refill_copy(
    access: ModelAccess<'_>,
    document: &RawBson,
    path: &str,
    source: &Bson,
) -> Result<bool> {
    let groups = copy_groups(access.model);
    let copied_path = field_names_of(path);
    let has_copy = |group: &&CopyGroup| {
        let mut fields = group.fan_out_fields();
        fields.any(|field| group.field_path(field.stored) == copied_path)
    };
    let Some(group) = groups.iter().find(has_copy) else {
        return Ok(false);
    };
    // Remove the copied version, as if the copy had never been filled: the revalidation then overwrites the values of slower
    // processes.
    let condition = source_condition(group, source);
    let elements = group.element_paths(&condition);
    let token = PendingToken::with_new_lease(access.lease());
    let mut update =
        doc! { "$set": { PendingKind::REVALIDATE.record_path(): token.to_document() } };
    let mut has_fan_out = false;
    if *source == Bson::Null {
        for field in group.fan_out_fields() {
            let path = format!("{}{}", elements.prefix, field.stored);
            let value = field.stored_value(field.value_without_source());
            set_or_unset(&mut update, path, value);
        }
        has_fan_out = is_copied_further(&access, group);
        if has_fan_out {
            put_operator(&mut update, "$inc", SOURCE_VERSION, 1_i64);
            let path = PendingKind::FAN_OUT.record_path();
            set_or_unset(
                &mut update,
                path.to_owned(),
                Some(token.to_document().into()),
            );
        }
    } else {
        let version_path = format!("{}{}", elements.prefix, group.version_path());
        set_or_unset(&mut update, version_path, None);
    }
    let mut filter = parse_document(&id_filter(document))?;
    filter.extend(group.struct_condition(condition));
    let refill = MetadataUpdate {
        origin: Stage::COPIES.step("refill the copy"),
        filter: to_raw_document(&filter)?,
        update,
        array_filters: elements.array_filters,
    };
    let updated = apply_update(access, refill).await?;
    revalidate_write(access, token, None).await?;
    if has_fan_out {
        run_fan_outs(access, token, FanOutBudget::Unlimited).await?;
    }
    Ok(updated > 0)
}
