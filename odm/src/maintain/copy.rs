//! Copies: fields that are filled from a source document and kept up to date.
//!
//! A *source* has a version, which every write to a copied field increments. A *dependent* records the source version of its
//! copies for each reference. A write replaces a copy only if the copy is older, and the write itself compares the versions.
//! Pending work can therefore run in any process, more than once, and in any order.
//!
//! - A write to a copied field records a pending *fan-out* in the same operation (`copy/fan_out.rs`). The fan-out starts after
//!   the write and updates all dependents that exist by then. At the end it removes the pending record by the token that it read.
//! - A write that adds a reference fills the copies (`copy/fill.rs`) and records a pending *revalidation* (`copy/revalidate.rs`).
//!   The source may have changed after the read, and the fan-out of that change may have finished before the dependent existed.
//!
//! If a fan-out misses a new dependent, the revalidation of that dependent sees the change.

mod check;
mod drift;
mod fan_out;
mod fill;
mod index;
mod layout;
mod lease;
mod pending;
mod refresh;
mod revalidate;
mod save;
mod source;
mod unchanged;

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicI64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

pub(crate) use check::{StaleCopy, find_stale_copies, refill_copy};
pub(crate) use drift::{find_drifted, snapshot_projection};
pub(super) use fan_out::{DeletedSource, clear_copies};
use fill::put_field;
pub(crate) use fill::resolve_drafts;
pub(crate) use index::{IndexedReferences, with_copy_indexes};
use layout::{copy_groups, dependent_groups, split_overflow_groups};
pub(crate) use pending::{FanOutProgress, PendingCopies, recover_model};
pub(crate) use refresh::refresh_copies;
pub(crate) use save::prepare_save;
pub(crate) use source::SourceCache;
pub(super) use source::SourceState;
pub(super) use unchanged::{copied_paths_written, mark_only_if_changed};

use bson::RawDocument;

use super::{
    Footprint, WriteOperation,
    footprint::path_changes,
    metadata_update::{parse_document, to_raw_document},
    reference_scope::can_add_reference,
};
use crate::{
    Error, ErrorKind, Result, access::Access, backend::operation::DocumentChange,
    metadata::copy::SOURCE_VERSION, schema::Model,
};

/// The budget of a bounded fan-out: the maximum number of dependents that are updated before the write returns.
pub(crate) const MAX_BOUNDED_DEPENDENTS: usize = 500;

/// Returns a version for a new document, higher than the version of any earlier document with the same `_id`.
///
/// The upper bits hold the clock time in milliseconds, the lower 20 bits the nanoseconds. No document changes often enough for
/// the version to overtake the clock. Versions of the same process increase, also if the clock is set back.
pub(super) fn first_version() -> i64 {
    static LAST: AtomicI64 = AtomicI64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let millis = i64::try_from(now.as_millis()).unwrap_or(i64::MAX >> 20);
    let clock = (millis << 20) + i64::from(now.subsec_nanos() % 1_000_000);
    higher_version(&LAST, clock)
}

/// Returns the version of the clock, or the lowest version above `last` if the clock was set back.
fn higher_version(last: &AtomicI64, clock: i64) -> i64 {
    let higher = |last: i64| clock.max(last + 1);
    let (Ok(last) | Err(last)) = last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
        Some(higher(last))
    });
    higher(last)
}

/// Whether an update can write a reference with copies or a struct that contains one.
pub(crate) fn writes_copied_reference(model: &Model, change: &DocumentChange) -> bool {
    let DocumentChange::Operators { update, .. } = change else {
        return false;
    };
    if !model.copies.has_filled() {
        return false;
    }
    let groups = copy_groups(model);
    path_changes(update).any(|change| groups.iter().any(|group| group.overlaps(change)))
}

/// Returns a path at which an update can store a copied reference between models with a shared scope.
pub(super) fn path_of_new_reference(model: &Model, update: &RawDocument) -> Option<String> {
    let groups = copy_groups(model);
    let found = path_changes(update).find(|change| {
        let mut groups = groups.iter();
        groups.any(|group| {
            group.overlaps(*change) && can_add_reference(model, (group.source_model)(), change)
        })
    });
    found.map(|change| change.path.to_owned())
}

/// Whether documents of a model have copies that need revalidation.
pub(super) fn is_dependent(model: &Model) -> bool {
    model.copies.has_filled()
        && copy_groups(model)
            .iter()
            .any(layout::CopyGroup::has_fan_out)
}

/// Returns the copies of a model by path, each with a description of the source field.
pub(crate) fn declared_copies(model: &Model) -> BTreeMap<String, String> {
    let mut descriptions = BTreeMap::new();
    for group in copy_groups(model) {
        for field in group.fan_out_fields() {
            let source = (group.source_model)().collection;
            let description = format!(
                "copy of {source}.{} by {}",
                field.source_path, group.reference
            );
            descriptions.insert(group.field_path(field.stored), description);
        }
    }
    descriptions
}

/// Whether other models copy from this model.
pub(super) fn is_source(access: &Access, model: &'static Model) -> bool {
    dependent_groups(access.schema_models(), model)
        .next()
        .is_some()
}

/// Whether a delete of documents of this model sets copies in other models to null.
pub(super) fn has_clearing_dependents(access: &Access, model: &'static Model) -> bool {
    dependent_groups(access.schema_models(), model).any(|(_, group)| group.is_clearing())
}

/// Returns the path of a copy in `model` that a delete of the source document sets to null.
pub(crate) fn cleared_path(model: &Model, source: &Model) -> Option<String> {
    let groups = copy_groups(model).into_iter();
    let mut groups = groups.filter(|group| (group.source_model)().collection == source.collection);
    groups.find_map(|group| {
        let mut fields = group.fan_out_fields();
        let cleared = fields.find(|field| field.clears)?;
        Some(group.field_path(cleared.stored))
    })
}

/// Returns why a write affects copies: the references whose copies the write fills, and the copied fields that change.
pub(super) fn copy_reasons(
    access: &Access,
    model: &'static Model,
    footprint: &Footprint<'_>,
) -> Vec<String> {
    let groups = copy_groups(model);
    let fills = |group: &layout::CopyGroup| {
        let names = group
            .fields
            .iter()
            .map(|field| group.field_path(field.stored));
        let names = names.collect::<Vec<_>>().join("`, `");
        let source = (group.source_model)().collection;
        format!("`{}` fills `{names}` from {source}", group.reference_path())
    };
    match footprint {
        Footprint::Inserts(_) => groups.iter().map(fills).collect(),
        Footprint::Changes(change) => {
            let Some(update) = change.update() else {
                return Vec::new();
            };
            let is_filled = |group: &&layout::CopyGroup| {
                path_changes(update).any(|change| group.overlaps(change))
            };
            let mut reasons: Vec<_> = groups.iter().filter(is_filled).map(fills).collect();
            let dependents: Vec<_> = dependent_groups(access.schema_models(), model).collect();
            let changed = pending::changed_copies(model, &dependents, update);
            reasons.extend(changed.map(|(dependent, group, field)| {
                let copy = group.field_path(field.stored);
                format!(
                    "`{}` is copied to `{copy}` of {}",
                    field.source_path, dependent.collection
                )
            }));
            reasons
        }
        Footprint::Removes => {
            let dependents = dependent_groups(access.schema_models(), model);
            let cleared = dependents.filter(|(_, group)| group.is_clearing());
            let reasons = cleared.map(|(dependent, group)| {
                let (reference, dependents) = (group.reference_path(), dependent.collection);
                format!("the copies beside `{reference}` of {dependents} become null")
            });
            reasons.collect()
        }
    }
}

/// Whether a write can affect copies, in the written documents or in dependents. A delete affects copies through
/// [`clear_copies`].
pub(super) fn may_affect_copies(
    access: &Access,
    model: &'static Model,
    footprint: &Footprint<'_>,
) -> bool {
    let is_delete = matches!(footprint, Footprint::Removes);
    !is_delete && (model.copies.has_filled() || is_source(access, model))
}

/// Fills new elements of overflow arrays, before the write decides between the owner document and chunk documents. Elements have
/// only snapshots, so the write gets no pending record.
pub(super) async fn fill_elements(
    access: &Access,
    model: &'static Model,
    write: &mut WriteOperation,
    sources: &mut SourceCache,
) -> Result<()> {
    let (_, groups) = split_overflow_groups(model);
    if groups.is_empty() {
        return Ok(());
    }
    if let Some(documents) = write.documents_to_insert() {
        fill::fill_inserted(access, model, &groups, documents, sources).await?;
    } else if let Some(DocumentChange::Operators { update, .. }) = write.change_mut() {
        fill::fill_update(access, model, &groups, update, sources).await?;
    }
    Ok(())
}

/// Fills the copies that a write adds, and adds the pending records to the write. Returns the follow-up work.
pub(super) async fn prepare_write(
    access: &Access,
    model: &'static Model,
    write: &mut WriteOperation,
    sources: &mut SourceCache,
) -> Result<PendingCopies> {
    let mut pending = PendingCopies::default();
    if !may_affect_copies(access, model, &write.footprint()) {
        return Ok(pending);
    }
    let (groups, _) = split_overflow_groups(model);
    let dependents: Vec<_> = dependent_groups(access.schema_models(), model).collect();
    if let Some(documents) = write.documents_to_insert() {
        if !groups.is_empty() {
            pending.revalidation =
                fill::fill_inserted(access, model, &groups, documents, sources).await?;
            if pending.revalidation.is_some() {
                pending.sources = Some(sources.source_versions(&groups)?);
            }
        }
        if !dependents.is_empty() {
            for raw in documents {
                put_field(raw, SOURCE_VERSION, first_version().into())?;
            }
        }
        return Ok(pending);
    }
    let Some(change) = write.change_mut() else {
        return Ok(pending);
    };
    let DocumentChange::Operators { update, .. } = change else {
        let message = "copies cannot be maintained by a replacement, and nothing was written: use update operators";
        return Err(Error::new(ErrorKind::Unsupported, message));
    };
    if !groups.is_empty() {
        pending.revalidation = fill::fill_update(access, model, &groups, update, sources).await?;
    }
    if let Some(fan_out) = pending::add_pending_fan_out(access, model, &dependents, update)? {
        index::ensure_indexed(access, &dependents).await?;
        pending.fan_out = Some(fan_out);
    }
    Ok(pending)
}

/// Sets the copies beside a reference to null when an update removes the reference. Returns the follow-up work for copies of
/// these copies.
pub(super) fn clear_detached_copies(
    access: &Access,
    model: &'static Model,
    change: &mut DocumentChange,
) -> Result<PendingCopies> {
    let mut pending = PendingCopies::default();
    let (DocumentChange::Operators { update, .. }, true) = (change, model.copies.has_filled())
    else {
        return Ok(pending);
    };
    fill::null_copies(model, update)?;
    let dependents: Vec<_> = dependent_groups(access.schema_models(), model).collect();
    pending.fan_out = pending::add_pending_fan_out(access, model, &dependents, update)?;
    Ok(pending)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use super::higher_version;

    #[test]
    fn versions_increase_when_the_clock_is_set_back() {
        let last = AtomicI64::new(0);
        let versions = [100, 50, 100, 101, 200].map(|clock| higher_version(&last, clock));
        assert_eq!(versions, [100, 101, 102, 103, 200]);
    }
}
