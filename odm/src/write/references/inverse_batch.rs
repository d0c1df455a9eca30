//! A batch of inverse changes, written in the transaction of the write that changes references.
//!
//! Most overflow inverses have no spilled elements and enough room in the document. The batch includes a write for each of them,
//! on condition that both are still true. The inverse versions show which conditional writes did not match; the batch repeats
//! these few writes separately.

use std::collections::{BTreeMap, BTreeSet};

use bson::{RawBson, RawBsonRef, RawDocumentBuf, oid::ObjectId};

use super::{
    MAX_LINK_QUERY_DOCUMENTS, guard_targets,
    linked_document::read_matching,
    overflow_inverse::{InverseChange, OverflowInverse},
    validate::{delete_undecided, inverse_full, inverse_taken, missing_target},
};
use crate::{
    Result,
    backend::operation::{
        BulkItem, BulkItemOutcome, BulkOperation, BulkWrite, DocumentChange, Stage, Unmatched,
        UpdateOperation,
    },
    language::query::{append_field, field_missing, id_filter, single_field_document},
    metadata::{
        Metadata,
        references::{INVERSE_VERSION, TombstoneState, tombstone},
    },
    model::{
        decode,
        ids::{OrderedId, contains_id, id_array, id_batches, ids_filter, none_of, one_of},
    },
    schema::{InverseLink, Model, ReferenceLink},
    session::access::{Access, find_matching},
    write::narrow_filter,
};

/// The inverse changes of one write. Each change sets a new inverse version, even without any other effect, so two transactions
/// with different views of the references conflict.
pub(super) struct InverseBatch<'a> {
    /// Access with the visibility of the writer: limits which targets may be referenced.
    writer_access: &'a Access,
    /// Access to documents of all scopes, including soft-deleted documents.
    full_access: &'a Access,
    updates: Vec<BulkItem>,
    overflow_changes: Vec<OverflowChange<'a>>,
    additions: Vec<InverseEntry>,
}

/// A change of an overflow inverse.
struct OverflowChange<'a> {
    inverse: OverflowInverse,
    change: InverseChange,
    /// The referrers that the change adds or removes.
    entry: InverseEntry,
    /// The inverse version that the change writes.
    new_version: ObjectId,
    /// Access for the target of the change.
    access_to_target: &'a Access,
    /// The same change for a target without spilled elements. `None` if the new elements cannot fit into the document.
    resident_write: Option<BulkItem>,
}

/// Referrers that an inverse gains or loses.
pub(super) struct InverseEntry {
    pub(super) link: &'static ReferenceLink,
    pub(super) inverse: &'static InverseLink,
    pub(super) target: RawBson,
    pub(super) referrers: Vec<RawBson>,
}

impl<'a> InverseBatch<'a> {
    pub(super) fn new(writer_access: &'a Access, full_access: &'a Access) -> Self {
        Self {
            writer_access,
            full_access,
            updates: Vec::new(),
            overflow_changes: Vec::new(),
            additions: Vec::new(),
        }
    }

    /// Queues the removal and the addition of referrers, grouped by target. Without an inverse, the targets are guarded until the
    /// commit.
    pub(super) async fn queue_changes(
        &mut self,
        link: &'static ReferenceLink,
        removed: BTreeMap<OrderedId, Vec<RawBson>>,
        added: BTreeMap<OrderedId, Vec<RawBson>>,
        addition: InverseChange,
    ) -> Result<()> {
        let Some(inverse) = link.find_inverse() else {
            return guard_targets(self.writer_access, link, added.into_keys().collect()).await;
        };
        let removals = removed
            .into_iter()
            .map(|entry| (InverseChange::Remove, entry));
        let additions = added.into_iter().map(|entry| (addition, entry));
        for (change, (target, referrers)) in removals.chain(additions) {
            let target = target.to_value()?;
            let entry = InverseEntry {
                link,
                inverse,
                target,
                referrers,
            };
            self.queue_change(change, entry).await?;
        }
        Ok(())
    }

    /// Queues the addition of referrers to the inverse of a target, or the removal.
    pub(super) async fn queue_change(
        &mut self,
        change: InverseChange,
        entry: InverseEntry,
    ) -> Result<()> {
        if let Some(inverse) = OverflowInverse::on_target(entry.link, entry.inverse) {
            return self.queue_overflow_change(inverse, change, entry).await;
        }
        if change.adds() {
            let item = bulk_item(self.writer_access, entry.addition_update()?).await?;
            self.updates.push(item);
            self.additions.push(entry);
        } else {
            let item = bulk_item(self.full_access, entry.removal_update()?).await?;
            self.updates.push(item);
        }
        Ok(())
    }

    /// Queues a change of an overflow inverse.
    async fn queue_overflow_change(
        &mut self,
        inverse: OverflowInverse,
        change: InverseChange,
        entry: InverseEntry,
    ) -> Result<()> {
        let access_to_target = match change.adds() {
            true => self.writer_access,
            false => self.full_access,
        };
        let new_version = ObjectId::new();
        let referrers = &entry.referrers;
        let resident_write =
            match inverse.resident_change_filter(&entry.target, change, referrers)? {
                None => None,
                Some(filter) => {
                    let update = inverse.change_update(filter, change, referrers, new_version)?;
                    Some(bulk_item(access_to_target, (inverse.model, update)).await?)
                }
            };
        self.overflow_changes.push(OverflowChange {
            inverse,
            change,
            entry,
            new_version,
            access_to_target,
            resident_write,
        });
        Ok(())
    }

    /// Writes all queued changes.
    pub(super) async fn write_all(mut self) -> Result<()> {
        let writes = std::mem::take(&mut self.updates);
        let expected = writes.len();
        if self.write_in_one_bulk(writes).await? < expected {
            // A missing target is fine for a removal, and an error for an addition.
            for addition in &self.additions {
                addition.ensure_added(self.writer_access).await?;
            }
        }
        let changes = std::mem::take(&mut self.overflow_changes);
        let resident_writes = changes
            .iter()
            .filter_map(|change| change.resident_write.clone());
        let resident_writes: Vec<_> = resident_writes.collect();
        let matched = self.write_in_one_bulk(resident_writes).await?;
        if matched == changes.len() {
            return Ok(());
        }
        let unwritten = self.unwritten_changes(&changes, matched).await?;
        let is_proven = unwritten.is_some();
        let unwritten = match unwritten {
            Some(unwritten) => unwritten,
            None => self.possibly_unwritten_changes(&changes).await?,
        };
        for change in unwritten {
            let filter = OverflowInverse::change_filter(&change.entry.target, change.change)?;
            let kind = match change.change {
                // The bulk write may have added the referrers.
                InverseChange::AddInserted if !is_proven => InverseChange::Add,
                kind => kind,
            };
            let (access, version) = (change.access_to_target, change.new_version);
            let referrers = &change.entry.referrers;
            let write = change
                .inverse
                .apply_change(access, &filter, kind, referrers, version);
            if !write.await? && kind.adds() {
                change.entry.ensure_added(self.writer_access).await?;
                let model = change.inverse.model;
                return Err(delete_undecided(model, &change.entry.target));
            }
        }
        Ok(())
    }

    /// Writes the given updates in a single bulk write. Returns the number of matched documents.
    async fn write_in_one_bulk(&self, writes: Vec<BulkItem>) -> Result<usize> {
        if writes.is_empty() {
            return Ok(0);
        }
        let bulk = BulkWrite {
            writes,
            ordered: true,
            origin: Stage::REFERENCES.step("write the inverses"),
        };
        let outcome = self.writer_access.bulk_write(bulk).await?;
        for result in outcome.results {
            if let BulkItemOutcome::Failed(error) = result {
                return Err(error);
            }
        }
        Ok(usize::try_from(outcome.matched).unwrap_or(usize::MAX))
    }

    /// Returns the changes of overflow inverses that were not written, after a bulk write that matched `matched` documents. `None`
    /// if the inverse versions do not prove which changes were written.
    ///
    /// The versions prove it if each target has one change and no target is missing: a target then has the version of its change,
    /// or the change was not written.
    async fn unwritten_changes<'o>(
        &self,
        changes: &'o [OverflowChange<'a>],
        matched: usize,
    ) -> Result<Option<Vec<&'o OverflowChange<'a>>>> {
        let targets: BTreeSet<_> = changes.iter().map(OverflowChange::target_key).collect();
        if targets.len() < changes.len() {
            return Ok(None);
        }
        let unwritten = self.read_versions(changes, VersionFilter::NotWritten);
        let unwritten = unwritten.await?;
        if matched + unwritten.len() < changes.len() {
            return Ok(None);
        }
        let is_unwritten =
            |change: &&OverflowChange<'a>| unwritten.contains_key(&change.target_key());
        Ok(Some(changes.iter().filter(is_unwritten).collect()))
    }

    /// Returns the changes of overflow inverses that may be unwritten.
    async fn possibly_unwritten_changes<'o>(
        &self,
        changes: &'o [OverflowChange<'a>],
    ) -> Result<Vec<&'o OverflowChange<'a>>> {
        let versions = self.read_versions(changes, VersionFilter::All).await?;
        let (mut unwritten, mut written) = (Vec::new(), BTreeSet::new());
        for change in changes.iter().rev() {
            let target = change.target_key();
            let location = (change.inverse.field.stored, target.clone());
            if versions.get(&target) == Some(&Some(change.new_version)) {
                written.insert(location.clone());
            }
            // Writes run in order. Each earlier change of the same inverse met the same conditions, so a written later change
            // proves the earlier ones.
            if !written.contains(&location) {
                unwritten.push(change);
            }
        }
        unwritten.reverse();
        Ok(unwritten)
    }

    /// Returns the inverse versions of the targets that a filter selects.
    async fn read_versions(
        &self,
        changes: &[OverflowChange<'a>],
        selected: VersionFilter,
    ) -> Result<BTreeMap<TargetKey, Option<ObjectId>>> {
        let mut by_model: BTreeMap<_, (_, Vec<&OverflowChange<'a>>)> = BTreeMap::new();
        for change in changes {
            let model = change.inverse.model;
            let (_, changes) = by_model
                .entry(model.collection)
                .or_insert_with(|| (model, Vec::new()));
            changes.push(change);
        }
        let mut versions = BTreeMap::new();
        for (collection, (model, changes)) in by_model {
            let targets = changes.iter().map(|change| change.entry.target.clone());
            let targets: Vec<_> = targets.collect();
            let mut new_versions = changes.iter().map(|change| change.new_version.into());
            for batch in id_batches(&targets, MAX_LINK_QUERY_DOCUMENTS) {
                let mut filter = ids_filter(batch);
                let new_versions: Vec<_> = new_versions.by_ref().take(batch.len()).collect();
                if selected == VersionFilter::NotWritten {
                    let is_other = none_of(&new_versions);
                    append_field(&mut filter, INVERSE_VERSION, is_other)?;
                }
                let find = find_matching(collection, &filter)
                    .with_origin(Stage::REFERENCES.step("read the inverses"))
                    .with_projection(single_field_document(INVERSE_VERSION, 1)?);
                for raw in self.full_access.find_all(model, find).await? {
                    let id = decode::owned_id(&raw);
                    let version = Metadata::of(&raw).inverse_version();
                    let version = version.and_then(RawBsonRef::as_object_id);
                    versions.extend(id.map(|id| ((collection, OrderedId::from_id(&id)), version)));
                }
            }
        }
        Ok(versions)
    }
}

/// The collection and the `_id` of a target.
type TargetKey = (&'static str, OrderedId);

/// The targets whose inverse versions are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VersionFilter {
    All,
    /// The targets without the version of a change.
    NotWritten,
}

impl OverflowChange<'_> {
    fn target_key(&self) -> TargetKey {
        let target = OrderedId::from_id(&self.entry.target);
        (self.inverse.model.collection, target)
    }
}

/// Returns the change that removes referrers from an ordinary inverse. A single inverse becomes empty.
pub(super) fn removal_change<'r>(
    inverse: &InverseLink,
    referrers: impl IntoIterator<Item = &'r RawBson>,
) -> Result<RawDocumentBuf> {
    let path = inverse.link_field.stored;
    let mut set = single_field_document(INVERSE_VERSION, ObjectId::new())?;
    let mut change = RawDocumentBuf::new();
    if inverse.link_field.is_many {
        let removed = single_field_document(path, id_array(referrers))?;
        append_field(&mut change, "$pullAll", removed)?;
    } else if (inverse.omits_none)() {
        append_field(&mut change, "$unset", single_field_document(path, "")?)?;
    } else {
        append_field(&mut set, path, RawBson::Null)?;
    }
    append_field(&mut change, "$set", set)?;
    Ok(change)
}

/// Returns an update of the document that holds an inverse.
fn inverse_update(
    link: &ReferenceLink,
    filter: RawDocumentBuf,
    change: RawDocumentBuf,
) -> (&'static Model, UpdateOperation) {
    let model = (link.link_field.model)();
    (model, update_of_inverse(model, filter, change))
}

/// Returns an update of an inverse in the documents of a model.
pub(super) fn update_of_inverse(
    model: &Model,
    filter: RawDocumentBuf,
    change: RawDocumentBuf,
) -> UpdateOperation {
    UpdateOperation {
        collection: model.collection.into(),
        filter,
        change: DocumentChange::operators(change),
        multi: true,
        upsert: false,
        origin: Stage::REFERENCES.step("write the inverse"),
    }
}

/// Returns the update as a bulk item, narrowed to documents that `access` can see.
pub(super) async fn bulk_item(
    access: &Access,
    (model, mut update): (&'static Model, UpdateOperation),
) -> Result<BulkItem> {
    narrow_filter(access.to(model), &mut update.filter).await?;
    Ok(BulkItem {
        write: BulkOperation::Update(update),
        unmatched: Unmatched::Ignore,
    })
}

impl InverseEntry {
    /// Returns the update that adds the referrers to an ordinary inverse.
    pub(super) fn addition_update(&self) -> Result<(&'static Model, UpdateOperation)> {
        let Self {
            link,
            inverse,
            target,
            referrers,
        } = self;
        let path = inverse.link_field.stored;
        let mut filter = id_filter(target);
        append_field(&mut filter, tombstone::TOKEN, field_missing())?;
        let mut set = single_field_document(INVERSE_VERSION, ObjectId::new())?;
        let mut change = RawDocumentBuf::new();
        if inverse.link_field.is_many {
            if let Some(max) = inverse.max {
                let Some(last_free) = max.checked_sub(referrers.len()) else {
                    return Err(inverse_full(link, inverse, target));
                };
                let last_free = format!("{path}.{last_free}");
                append_field(&mut filter, &last_free, field_missing())?;
            }
            let each = single_field_document("$each", id_array(referrers))?;
            append_field(&mut change, "$addToSet", single_field_document(path, each)?)?;
        } else {
            let [referrer] = referrers.as_slice() else {
                return Err(inverse_taken(link, inverse, target));
            };
            append_field(&mut filter, path, one_of([referrer, &RawBson::Null]))?;
            append_field(&mut set, path, referrer.clone())?;
        }
        append_field(&mut change, "$set", set)?;
        Ok(inverse_update(link, filter, change))
    }

    /// Returns the update that removes the referrers from an ordinary inverse.
    fn removal_update(&self) -> Result<(&'static Model, UpdateOperation)> {
        let (inverse, referrers) = (self.inverse, &self.referrers);
        let mut filter = id_filter(&self.target);
        if !inverse.link_field.is_many {
            append_field(&mut filter, inverse.link_field.stored, one_of(referrers))?;
        }
        let change = removal_change(inverse, referrers)?;
        Ok(inverse_update(self.link, filter, change))
    }

    /// Returns an error if the addition was not applied: missing target, undecided delete, full inverse or inverse in use.
    async fn ensure_added(&self, access: &Access) -> Result<()> {
        let model = (self.link.link_field.model)();
        let filter = id_filter(&self.target);
        let found = read_matching(access.to(model), "read the target", &filter).await?;
        let target = match found.first() {
            Some(target) if target.tombstone == TombstoneState::Live => target,
            // The other delete may still be rolled back.
            Some(target) if target.tombstone == TombstoneState::Provisional => {
                return Err(delete_undecided(model, &self.target));
            }
            _ => return Err(missing_target(self.link, &self.target)),
        };
        if OverflowInverse::on_target(self.link, self.inverse).is_some() {
            // An overflow inverse has room for any number of referrers.
            return Ok(());
        }
        let inverse_ids = target.referrers_in(model, self.inverse);
        let mut referrers = self.referrers.iter();
        if referrers.all(|referrer| contains_id(inverse_ids, referrer)) {
            return Ok(());
        }
        Err(match self.inverse.link_field.is_many {
            true => inverse_full(self.link, self.inverse, &self.target),
            false => inverse_taken(self.link, self.inverse, &self.target),
        })
    }
}
