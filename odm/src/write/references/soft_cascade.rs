//! Soft deletes that cascade: `soft_delete(cascade)`.
//!
//! A soft delete also soft-deletes the referrers with the delete rule `cascade`, if the model of the referrers has a soft delete,
//! and so on. All documents get the same date. A restore restores the referrers with the date of the restored document: a
//! referrer that was deleted before, on its own, stays deleted.
//!
//! Everything happens in one transaction. Afterwards no live document refers by such a reference to a soft-deleted document:
//!
//! - A restored document can refer to a document that stays deleted. A document of the restore itself is then an error, and a
//!   cascaded document stays deleted: it gets the date of the other document, and is restored with that document.
//! - A restore writes to the other documents that the reached documents refer to. So a concurrent soft delete or restore of such a
//!   document conflicts. A new reference does the same.

use std::collections::BTreeMap;

use bson::{RawBson, RawDocumentBuf};

use super::{
    MAX_LINK_QUERY_DOCUMENTS,
    delete_rule::{DeleteRule, rules_targeting},
    delete_set::DeleteSet,
    guard_targets,
    linked_document::{LinkedDocument, read_linked},
    validate::target_is_deleted,
};
use crate::{
    Result,
    backend::operation::{DocumentChange, Stage, UpdateOperation},
    error,
    language::query::single_field_document,
    model::ids::{OrderedId, id_batches, id_values, ids_filter},
    schema::{Model, ReferenceLink},
    session::access::{Access, ModelAccess, add_condition, find_matching},
    write::{
        Footprint, add_managed_fields,
        footprint::{Operator, path_changes},
        maintainer::{Strategy, WriteContext},
        narrow_filter,
    },
};

/// A soft delete or a restore that can reach other documents, or that depends on other documents.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SoftDeleteChange {
    /// A soft delete, with the date.
    Delete(RawBson),
    Restore,
}

impl SoftDeleteChange {
    /// Returns the change that a write makes to the deletion dates of documents. `None` if no other document matters.
    pub(super) fn of_write(model: &'static Model, footprint: &Footprint<'_>) -> Option<Self> {
        let (field, Footprint::Changes(change)) = (model.soft_delete?, footprint) else {
            return None;
        };
        let mut changes = path_changes(change.update()?);
        let change = changes.find(|change| change.path == field)?;
        let change = match (change.operator, RawBson::from(change.operand)) {
            (Operator::Set, RawBson::Null) | (Operator::Unset, _) => SoftDeleteChange::Restore,
            (Operator::Set, date) => SoftDeleteChange::Delete(date),
            // Only the framework writes the field, by the operators above.
            (
                Operator::SetOnInsert
                | Operator::Rename
                | Operator::Inc
                | Operator::Mul
                | Operator::Min
                | Operator::Max
                | Operator::Bit
                | Operator::CurrentDate
                | Operator::Push
                | Operator::AddToSet
                | Operator::Pull
                | Operator::PullAll
                | Operator::Pop
                | Operator::Unknown,
                _,
            ) => return None,
        };
        let is_restored = change == SoftDeleteChange::Restore;
        let depends = is_restored && cascading_links(model).next().is_some();
        (model.soft_delete_cascades || depends).then_some(change)
    }
}

/// Whether a write can reach other documents by their deletion dates, or depends on these dates.
pub(super) fn is_affected(cx: &WriteContext, footprint: &Footprint<'_>) -> bool {
    // Without transactions, no soft delete cascades, so a restore meets no deleted target.
    let is_possible = cx.strategy != Strategy::Standalone || cx.model.soft_delete_cascades;
    is_possible && !cx.is_cascaded && SoftDeleteChange::of_write(cx.model, footprint).is_some()
}

/// Whether a soft delete of the target of a reference reaches the referrer.
fn is_cascading_link(link: &ReferenceLink) -> bool {
    link.on_delete.is_cascading() && (link.link_field.model)().soft_delete_cascades
}

/// Returns the references of a model whose targets take the document along in a soft delete.
pub(super) fn cascading_links(
    model: &'static Model,
) -> impl Iterator<Item = &'static ReferenceLink> {
    let links = model.links().iter();
    links.filter(|link| is_cascading_link(link))
}

/// Returns the references by which a soft delete of a model's documents reaches other documents.
pub(super) fn cascading_rules(access: ModelAccess<'_>) -> impl Iterator<Item = DeleteRule> + use<> {
    let cascades = access.model.soft_delete_cascades;
    let rules = rules_targeting(access).filter(DeleteRule::is_cascading);
    rules.filter(move |rule| cascades && rule.model.soft_delete.is_some())
}

/// The documents that a soft delete or a restore reaches.
#[derive(Debug)]
pub(super) struct SoftCascade {
    change: SoftDeleteChange,
    documents: DeleteSet,
    /// The cascaded documents that a restore does not restore, with their new dates.
    kept: BTreeMap<DocumentKey, RawBson>,
    /// The targets of reached documents that the restore reads and does not restore.
    other_targets: BTreeMap<DocumentKey, &'static ReferenceLink>,
}

impl SoftCascade {
    /// Collects the documents that a write of `roots` reaches. `roots` have the references after the write. Returns `None` if there are
    /// more than `max_documents`.
    ///
    /// # Errors
    ///
    /// [`Dangling`](crate::ErrorKind::Dangling) if a document of `roots` refers to a document that stays deleted.
    pub(super) async fn collect(
        full_access: ModelAccess<'_>,
        change: SoftDeleteChange,
        roots: &[LinkedDocument],
        max_documents: Option<usize>,
    ) -> Result<Option<Self>> {
        // The reached documents have the date of their root before the write.
        let dated = roots.iter().map(|root| {
            let date = match &change {
                SoftDeleteChange::Delete(_) => RawBson::Null,
                SoftDeleteChange::Restore => root.deleted_at.clone(),
            };
            (date, root.clone())
        });
        let mut documents = DeleteSet::new(false);
        for (date, roots) in group_by_date(dated) {
            let collected =
                documents.collect_soft_cascade(full_access, roots, &date, max_documents);
            if !collected.await? {
                return Ok(None);
            }
        }
        let mut cascade = Self {
            change,
            documents,
            kept: BTreeMap::new(),
            other_targets: BTreeMap::new(),
        };
        if cascade.change == SoftDeleteChange::Restore {
            cascade.keep_below_deleted(full_access, roots).await?;
            cascade.guard_other_targets(&full_access).await?;
        }
        Ok(Some(cascade))
    }

    /// Keeps cascaded documents deleted that refer to a document which stays deleted. Such a document can be the only reason to
    /// keep the next one.
    async fn keep_below_deleted(
        &mut self,
        full_access: ModelAccess<'_>,
        roots: &[LinkedDocument],
    ) -> Result<()> {
        let mut references = self.references_of_all(&full_access).await?;
        let mut stored_dates = BTreeMap::new();
        loop {
            references.retain(|reference| !self.kept.contains_key(&reference.referrer()));
            let targets = references
                .iter()
                .map(|reference| (reference.target(), reference.link));
            let unread = targets.filter(|(target, _)| {
                !self.restores(target) && !self.other_targets.contains_key(target)
            });
            let unread: BTreeMap<_, _> = unread.collect();
            stored_dates.extend(read_deletion_dates(&full_access, &unread).await?);
            self.other_targets.extend(unread);
            let mut kept = Vec::new();
            for reference in &references {
                let target = reference.target();
                let date = match self.restores(&target) {
                    true => None,
                    false => self.kept.get(&target).or(stored_dates.get(&target)),
                };
                let Some(date) = date else {
                    continue;
                };
                let is_root = reference.model.collection == full_access.model.collection
                    && roots.iter().any(|root| root.id == reference.id);
                if is_root {
                    let target = reference.target.to_value()?;
                    let Reference { link, model, .. } = reference;
                    return Err(target_is_deleted(link, model, &reference.id, &target));
                }
                kept.push((reference.referrer(), date.clone()));
            }
            if kept.is_empty() {
                return Ok(());
            }
            self.kept.extend(kept);
        }
    }

    /// Returns the cascading references of all documents.
    async fn references_of_all(&self, full_access: &Access) -> Result<Vec<Reference>> {
        let mut references = Vec::new();
        for part in self.documents.by_model() {
            for rule in DeleteRule::declared_by(part.model) {
                if !is_cascading_link(rule.link) {
                    continue;
                }
                for document in &part.documents {
                    let mut targets = document.targets_of(rule.link_index);
                    targets.append(&mut rule.overflow_targets(full_access, &document.id).await?);
                    references.extend(targets.into_iter().map(|target| Reference {
                        model: part.model,
                        id: document.id.clone(),
                        link: rule.link,
                        target,
                    }));
                }
            }
        }
        Ok(references)
    }

    /// Whether the restore restores a document.
    fn restores(&self, document: &DocumentKey) -> bool {
        let (collection, id) = document;
        self.documents.contains_in(collection, id) && !self.kept.contains_key(document)
    }

    /// Writes to the targets that the restore relies on, so that a concurrent soft delete or restore of one of them conflicts.
    async fn guard_other_targets(&self, full_access: &Access) -> Result<()> {
        for (link, targets) in group_by_collection(&self.other_targets) {
            guard_targets(full_access, link, targets).await?;
        }
        Ok(())
    }

    /// Writes the cascaded documents: all except `roots`, which the write itself changes.
    pub(super) async fn write_cascaded(
        &self,
        full_access: ModelAccess<'_>,
        roots: &[LinkedDocument],
    ) -> Result<()> {
        for part in self.documents.by_model() {
            let excluded = match part.model.collection == full_access.model.collection {
                true => roots,
                false => &[],
            };
            let cascaded = DeleteSet::documents_except(part, excluded).into_iter();
            let dated = cascaded.map(|document| {
                let key = (part.model.collection, OrderedId::from_id(&document.id));
                let date = match (&self.change, self.kept.get(&key)) {
                    (SoftDeleteChange::Delete(date), _) | (_, Some(date)) => date.clone(),
                    (SoftDeleteChange::Restore, None) => RawBson::Null,
                };
                (date, document)
            });
            for (date, documents) in group_by_date(dated) {
                set_deletion_date(full_access.to(part.model), &documents, &date).await?;
            }
        }
        Ok(())
    }
}

/// The collection and the id of a document.
type DocumentKey = (&'static str, OrderedId);

/// A reference of a reached document.
struct Reference {
    model: &'static Model,
    id: RawBson,
    link: &'static ReferenceLink,
    target: OrderedId,
}

impl Reference {
    fn referrer(&self) -> DocumentKey {
        (self.model.collection, OrderedId::from_id(&self.id))
    }

    fn target(&self) -> DocumentKey {
        (self.link.link_field.collection, self.target.clone())
    }
}

/// Returns the deletion dates of the soft-deleted documents among some targets.
async fn read_deletion_dates(
    full_access: &Access,
    targets: &BTreeMap<DocumentKey, &'static ReferenceLink>,
) -> Result<Vec<(DocumentKey, RawBson)>> {
    let mut dates = Vec::new();
    for (link, ids) in group_by_collection(targets) {
        let model = (link.link_field.model)();
        let Some(field) = model.soft_delete else {
            continue;
        };
        for batch in id_batches(&ids, MAX_LINK_QUERY_DOCUMENTS) {
            let mut filter = ids_filter(&id_values(batch)?);
            let deleted = single_field_document("$ne", RawBson::Null)?;
            add_condition(&mut filter, field, deleted)?;
            let find = find_matching(model.collection, &filter)
                .with_origin(Stage::REFERENCES.step("read the deleted targets"));
            let found = read_linked(full_access.to(model), find).await?.into_iter();
            dates.extend(found.map(|found| {
                let id = OrderedId::from_id(&found.id);
                ((model.collection, id), found.deleted_at)
            }));
        }
    }
    Ok(dates)
}

/// Groups targets by their collection, each group with a reference to the collection.
fn group_by_collection(
    targets: &BTreeMap<DocumentKey, &'static ReferenceLink>,
) -> impl Iterator<Item = (&'static ReferenceLink, Vec<OrderedId>)> {
    let mut groups = BTreeMap::<&str, (&'static ReferenceLink, Vec<OrderedId>)>::new();
    for ((collection, id), link) in targets {
        let (_, ids) = groups.entry(collection).or_insert((link, Vec::new()));
        ids.push(id.clone());
    }
    groups.into_values()
}

/// Groups documents by a date.
fn group_by_date(
    documents: impl Iterator<Item = (RawBson, LinkedDocument)>,
) -> impl Iterator<Item = (RawBson, Vec<LinkedDocument>)> {
    let mut groups = BTreeMap::<OrderedId, (RawBson, Vec<LinkedDocument>)>::new();
    for (date, document) in documents {
        let (_, group) = groups
            .entry(OrderedId::from_id(&date))
            .or_insert((date, Vec::new()));
        group.push(document);
    }
    groups.into_values()
}

/// Sets the deletion date of cascaded documents, or removes it, with all that follows from it.
async fn set_deletion_date(
    access: ModelAccess<'_>,
    documents: &[LinkedDocument],
    date: &RawBson,
) -> Result<()> {
    let model = access.model;
    let Some(field) = model.soft_delete else {
        return Ok(());
    };
    let (operator, operand, step) = match date {
        RawBson::Null => (
            "$unset",
            RawBson::from(""),
            "restore the cascaded documents",
        ),
        date => ("$set", date.clone(), "soft-delete the cascaded documents"),
    };
    let update = single_field_document(operator, single_field_document(field, operand)?)?;
    let mut change = DocumentChange::operators(update);
    add_managed_fields(&mut change, model)?;
    for batch in id_batches(documents, MAX_LINK_QUERY_DOCUMENTS) {
        let mut filter: RawDocumentBuf = ids_filter(batch.iter().map(|document| &document.id));
        narrow_filter(access, &mut filter).await?;
        let write = UpdateOperation {
            collection: model.collection.into(),
            filter,
            change: change.clone(),
            multi: true,
            upsert: false,
            origin: Stage::REFERENCES.step(step),
        };
        let cx = WriteContext::of_follow_up(access).within_cascade();
        let outcome = cx.run_next(write.into()).await;
        outcome.map_err(error::naming_model(model))?;
    }
    Ok(())
}
