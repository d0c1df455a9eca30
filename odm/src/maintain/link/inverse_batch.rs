//! A batch of inverse changes, written in the transaction of the write that changes references.
//!
//! Most overflow inverses have no spilled elements and enough room in the document. The batch includes a write for each of them,
//! on condition that both are still true. The inverse versions show which conditional writes did not match; the batch repeats
//! these few writes separately.

use std::collections::{BTreeMap, BTreeSet};

use bson::{RawBson, RawBsonRef, RawDocumentBuf, oid::ObjectId};

use super::{
    MAX_LINK_QUERY_DOCUMENTS, guard_targets,
    linked_document::{
        OrderedId, TombstoneState, contains_id, id_array, id_filter, one_of, read_linked,
    },
    overflow_inverse::{InverseChange, OverflowInverse},
    validate::{delete_undecided, inverse_full, inverse_taken, missing_target},
};
use crate::{
    Result,
    access::{Access, find_matching},
    backend::operation::{
        BulkItem, BulkItemOutcome, BulkOperation, BulkWrite, DocumentChange, FindOperation, Stage,
        Unmatched, UpdateOperation,
    },
    id_batches::id_batches,
    maintain::narrow_filter,
    metadata::{
        Metadata,
        references::{INVERSE_VERSION, tombstone},
    },
    query::{append_field, single_field_document},
    schema::{InverseLink, Model, ReferenceLink},
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

/// Referrers that an inverse gains, or loses in a change of an overflow inverse.
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
    ) -> Result<()> {
        let Some(inverse) = link.find_inverse() else {
            return guard_targets(self.writer_access, link, added.into_keys().collect()).await;
        };
        for (target, referrers) in removed {
            self.queue_removal(link, inverse, &target.to_value()?, &referrers)
                .await?;
        }
        for (target, referrers) in added {
            self.queue_addition(link, inverse, target.to_value()?, referrers)
                .await?;
        }
        Ok(())
    }

    /// Queues the removal of referrers from the inverse of a target.
    pub(super) async fn queue_removal(
        &mut self,
        link: &'static ReferenceLink,
        inverse: &'static InverseLink,
        target: &RawBson,
        referrers: &[RawBson],
    ) -> Result<()> {
        if let Some(overflow_inverse) = OverflowInverse::on_target(link, inverse) {
            let removed = InverseEntry {
                link,
                inverse,
                target: target.clone(),
                referrers: referrers.to_vec(),
            };
            return self
                .queue_overflow_change(overflow_inverse, InverseChange::Remove, removed)
                .await;
        }
        let path = inverse.link_field.stored;
        let mut filter = id_filter(target)?;
        let mut set = single_field_document(INVERSE_VERSION, ObjectId::new())?;
        let mut change = RawDocumentBuf::new();
        if inverse.link_field.is_many {
            append_field(
                &mut change,
                "$pullAll",
                single_field_document(path, id_array(referrers))?,
            )?;
        } else {
            append_field(&mut filter, path, one_of(referrers)?)?;
            if (inverse.omits_none)() {
                append_field(&mut change, "$unset", single_field_document(path, "")?)?;
            } else {
                append_field(&mut set, path, RawBson::Null)?;
            }
        }
        append_field(&mut change, "$set", set)?;
        let item = bulk_item(self.full_access, inverse_update(link, filter, change)).await?;
        self.updates.push(item);
        Ok(())
    }

    /// Queues the addition of referrers to the inverse of a target.
    pub(super) async fn queue_addition(
        &mut self,
        link: &'static ReferenceLink,
        inverse: &'static InverseLink,
        target: RawBson,
        referrers: Vec<RawBson>,
    ) -> Result<()> {
        let added = InverseEntry {
            link,
            inverse,
            target,
            referrers,
        };
        if let Some(overflow_inverse) = OverflowInverse::on_target(link, inverse) {
            return self
                .queue_overflow_change(overflow_inverse, InverseChange::Add, added)
                .await;
        }
        let item = bulk_item(self.writer_access, added.addition_update()?).await?;
        self.updates.push(item);
        self.additions.push(added);
        Ok(())
    }

    /// Queues a change of an overflow inverse.
    async fn queue_overflow_change(
        &mut self,
        inverse: OverflowInverse,
        change: InverseChange,
        entry: InverseEntry,
    ) -> Result<()> {
        let access_to_target = match change {
            InverseChange::Add => self.writer_access,
            InverseChange::Remove => self.full_access,
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
        if !self.write_in_one_bulk(writes).await? {
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
        let all_are_resident = resident_writes.len() == changes.len();
        if self.write_in_one_bulk(resident_writes).await? && all_are_resident {
            return Ok(());
        }
        for change in self.unwritten_changes(&changes).await? {
            let filter = OverflowInverse::change_filter(&change.entry.target, change.change)?;
            let write = change.inverse.apply_change(
                change.access_to_target,
                &filter,
                change.change,
                &change.entry.referrers,
                change.new_version,
            );
            if !write.await? && change.change == InverseChange::Add {
                change.entry.ensure_added(self.writer_access).await?;
                let model = change.inverse.model;
                return Err(delete_undecided(model, &change.entry.target));
            }
        }
        Ok(())
    }

    /// Writes the given updates in a single bulk write. Returns whether each update matched a document.
    async fn write_in_one_bulk(&self, writes: Vec<BulkItem>) -> Result<bool> {
        let expected = writes.len() as u64;
        if expected == 0 {
            return Ok(true);
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
        Ok(outcome.matched == expected)
    }

    /// Returns the changes of overflow inverses that may be unwritten. A second write of the same change has no effect.
    async fn unwritten_changes<'o>(
        &self,
        changes: &'o [OverflowChange<'a>],
    ) -> Result<Vec<&'o OverflowChange<'a>>> {
        let mut targets: BTreeMap<_, (_, Vec<RawBson>)> = BTreeMap::new();
        for change in changes {
            let model = change.inverse.model;
            let (_, targets) = targets
                .entry(model.collection)
                .or_insert_with(|| (model, Vec::new()));
            targets.push(change.entry.target.clone());
        }
        let mut versions = BTreeSet::new();
        for (collection, (model, targets)) in targets {
            for batch in id_batches(&targets, MAX_LINK_QUERY_DOCUMENTS) {
                let find = FindOperation {
                    projection: Some(single_field_document(INVERSE_VERSION, 1)?),
                    options: Stage::REFERENCES.step("read the inverses").into(),
                    ..find_matching(
                        &collection.into(),
                        &single_field_document("_id", one_of(batch)?)?,
                    )
                };
                for raw in self.full_access.find_all(model, find).await? {
                    let version = Metadata::of(&raw).inverse_version();
                    versions.extend(version.and_then(RawBsonRef::as_object_id));
                }
            }
        }
        let (mut unwritten, mut written) = (Vec::new(), BTreeSet::new());
        for change in changes.iter().rev() {
            let location = (
                change.inverse.collection_and_field(),
                OrderedId::from_id(&change.entry.target),
            );
            if versions.contains(&change.new_version) {
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
}

/// Returns an update of the document that holds an inverse.
fn inverse_update(
    link: &ReferenceLink,
    filter: RawDocumentBuf,
    change: RawDocumentBuf,
) -> (&'static Model, UpdateOperation) {
    let model = (link.link_field.model)();
    let update = UpdateOperation {
        collection: model.collection.into(),
        filter,
        change: DocumentChange::operators(change),
        multi: true,
        upsert: false,
        origin: Stage::REFERENCES.step("write the inverse"),
    };
    (model, update)
}

/// Returns the update as a bulk item, narrowed to documents that `access` can see.
pub(super) async fn bulk_item(
    access: &Access,
    (model, mut update): (&'static Model, UpdateOperation),
) -> Result<BulkItem> {
    narrow_filter(access, model, &mut update.filter, false).await?;
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
        let mut filter = id_filter(target)?;
        append_field(
            &mut filter,
            tombstone::TOKEN,
            single_field_document("$exists", false)?,
        )?;
        let mut set = single_field_document(INVERSE_VERSION, ObjectId::new())?;
        let mut change = RawDocumentBuf::new();
        if inverse.link_field.is_many {
            if let Some(max) = inverse.max {
                let Some(last_free) = max.checked_sub(referrers.len()) else {
                    return Err(inverse_full(link, inverse, target));
                };
                let last_free = format!("{path}.{last_free}");
                append_field(
                    &mut filter,
                    &last_free,
                    single_field_document("$exists", false)?,
                )?;
            }
            let each = single_field_document("$each", id_array(referrers))?;
            append_field(&mut change, "$addToSet", single_field_document(path, each)?)?;
        } else {
            let [referrer] = referrers.as_slice() else {
                return Err(inverse_taken(link, inverse, target));
            };
            append_field(&mut filter, path, one_of([referrer, &RawBson::Null])?)?;
            append_field(&mut set, path, referrer.clone())?;
        }
        append_field(&mut change, "$set", set)?;
        Ok(inverse_update(link, filter, change))
    }

    /// Returns an error if the addition was not applied: missing target, undecided delete, full inverse or inverse in use.
    async fn ensure_added(&self, access: &Access) -> Result<()> {
        let model = (self.link.link_field.model)();
        let filter = id_filter(&self.target)?;
        let find = find_matching(&model.collection.into(), &filter)
            .with_origin(Stage::REFERENCES.step("read the target"));
        let found = read_linked(access, model, find).await?;
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
