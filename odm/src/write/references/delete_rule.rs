//! Delete rules: the effect of a delete on the referrers of the deleted documents.

use std::collections::BTreeSet;

use bson::{RawBson, RawDocumentBuf};

use super::{
    detach::detach_change, linked_document::LinkedDocument, overflow_references::add_conditions,
};
use crate::{
    Result,
    backend::operation::{DeleteOperation, DocumentChange, Index, Stage, UpdateOperation},
    error,
    language::query::{field_missing, field_present, single_field_document},
    metadata::references::RECORD,
    model::ids::{OrderedId, id_values, ids_filter, none_of},
    pending::record::PendingKind,
    schema::{InverseLink, Model, ReferenceLink},
    session::access::{Access, ModelAccess, add_condition},
    write::{
        add_managed_fields,
        maintainer::{
            ConditionalRecord, DeclaredIndexes, DeleteFollowUp, FollowUp, MAINTAINERS, Next,
            WriteContext,
        },
        narrow_filter, with_operator,
    },
};

/// A reference with the delete rule, seen from the model of the target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeleteRule {
    /// The model of the referrers.
    pub(crate) model: &'static Model,
    pub(crate) link: &'static ReferenceLink,
    /// The index of the reference in `Model::links()` of the referrer.
    pub(super) link_index: usize,
    /// The inverse on the target, if the schema declares an inverse.
    pub(crate) inverse: Option<&'static InverseLink>,
    /// The inverse, if the target document always holds the complete inverse. Without a complete inverse, a query on the index of
    /// the reference finds the referrers.
    pub(super) complete_inverse: Option<&'static InverseLink>,
}

/// Returns the references to documents of a model, with the delete rules.
pub(crate) fn rules_targeting(access: ModelAccess<'_>) -> impl Iterator<Item = DeleteRule> + use<> {
    let declared = access
        .schema_models()
        .iter()
        .flat_map(|referrer| DeleteRule::declared_by(referrer));
    declared.filter(|rule| rule.link.link_field.collection == access.model.collection)
}

/// Adds the index that finds unfinished writes. Without transactions, a reference is written with an intent record. A target, and a
/// document with follow-up work on a delete, gets a tombstone before the delete.
pub(super) fn add_lease_indexes(models: &[&'static Model], declared: &mut [DeclaredIndexes]) {
    for (model, indexes) in declared {
        let mut links = models.iter().flat_map(|referrer| referrer.links());
        let is_target = links.any(|link| link.link_field.collection == model.collection);
        let follow_up = DeleteFollowUp::of_model(models, model);
        if is_target || !model.links().is_empty() || follow_up != DeleteFollowUp::None {
            indexes.push(Index::sparse_on(PendingKind::REFERENCES.lease_path()));
        }
    }
}

impl DeleteRule {
    /// Returns the references that a model declares.
    pub(super) fn declared_by(model: &'static Model) -> impl Iterator<Item = Self> {
        let declared = model.links().iter().enumerate();
        declared.map(move |(position, link)| Self {
            model,
            link,
            link_index: position,
            inverse: link.find_inverse(),
            complete_inverse: link.complete_inverse(),
        })
    }

    pub(super) fn is_restricting(&self) -> bool {
        self.link.on_delete.is_restricting()
    }

    /// Whether a delete changes or deletes referrers.
    pub(super) fn affects_referrers(&self) -> bool {
        self.link.on_delete.affects_referrers()
    }

    pub(super) fn is_cascading(&self) -> bool {
        self.link.on_delete.is_cascading()
    }

    /// Whether the reference points to documents of the referrer's own model.
    pub(super) fn is_self_reference(&self) -> bool {
        self.link.link_field.collection == self.model.collection
    }

    /// Returns the referrers in the inverses of the given documents, without the documents themselves. Empty without a complete
    /// inverse.
    pub(super) fn referrers_in_inverses(
        &self,
        documents: &[LinkedDocument],
    ) -> BTreeSet<OrderedId> {
        let target_model = (self.link.link_field.model)();
        let entries = self.complete_inverse.into_iter().flat_map(|inverse| {
            let documents = documents.iter();
            documents.flat_map(|document| document.referrers_in(target_model, inverse))
        });
        let mut referrers: BTreeSet<_> = entries.map(OrderedId::from_id).collect();
        if self.is_self_reference() {
            for document in documents {
                referrers.remove(&OrderedId::from_id(&document.id));
            }
        }
        referrers
    }

    /// Returns the condition that a document references any of the given documents without being among them.
    ///
    /// Returns `None` if inverses show that no such referrer exists. `max_referrers` has the meaning of
    /// [`references_filter`](Self::references_filter).
    pub(super) async fn referrer_filter(
        &self,
        access: &Access,
        documents: &[LinkedDocument],
        max_referrers: Option<usize>,
    ) -> Result<Option<RawDocumentBuf>> {
        let mut filter = match self.complete_inverse {
            Some(_) => {
                let referrers = id_values(&self.referrers_in_inverses(documents))?;
                if referrers.is_empty() {
                    return Ok(None);
                }
                ids_filter(&referrers)
            }
            None if self.is_self_reference() => {
                let ids = documents.iter().map(|document| &document.id);
                single_field_document("_id", none_of(ids))?
            }
            None => RawDocumentBuf::new(),
        };
        let ids: Vec<_> = documents.iter().map(|document| &document.id).collect();
        let references = self.references_filter(access, &ids, max_referrers).await?;
        add_conditions(&mut filter, references)?;
        Ok(Some(filter))
    }

    /// Returns the delete of cascaded documents. The delete is a hard delete: a soft delete would leave a dangling reference.
    pub(super) fn cascade_delete(&self, filter: RawDocumentBuf) -> DeleteOperation {
        DeleteOperation {
            collection: self.model.collection.into(),
            filter,
            multi: true,
            origin: Stage::REFERENCES.step("delete the cascaded documents"),
        }
    }

    /// Removes references to deleted documents from all documents that match a filter. Returns the number of matched documents.
    ///
    /// An intent record of the documents is removed as well, if the filter requires one.
    pub(super) async fn detach_matching<'d>(
        &self,
        access: &Access,
        filter: RawDocumentBuf,
        deleted: impl IntoIterator<Item = &'d RawBson>,
        intent: DetachIntent,
    ) -> Result<u64> {
        let DetachUpdate {
            mut write,
            record,
            follow_ups,
        } = self.detach_update(access, filter, deleted)?;
        let mut cx = WriteContext::after_references(access.to(self.model));
        cx.conditional_record = record;
        if intent == DetachIntent::Recorded {
            cx = cx.with_intent();
            if let DocumentChange::Operators { update, .. } = &mut write.change {
                *update = with_operator(update, "$unset", RECORD, "".into())?;
            }
        }
        let outcome = self.run_detach(cx, write).await;
        for run_in_background in follow_ups {
            run_in_background(access);
        }
        outcome.map_err(error::naming_model(self.model))
    }

    /// Updates all documents without spilled elements by a single command, and each document with spilled elements separately.
    async fn run_detach(&self, cx: WriteContext, mut write: UpdateOperation) -> Result<u64> {
        let Some(field) = self.overflow_array() else {
            return Ok(cx.run_next(write.into()).await?.matched);
        };
        let mut resident_write = write.clone();
        add_condition(&mut resident_write.filter, field.manifest, field_missing())?;
        let resident = cx.clone().run_next(resident_write.into()).await?;
        add_condition(&mut write.filter, field.manifest, field_present())?;
        let spilled = Next::all().run(cx, write.into()).await?;
        Ok(resident.matched + spilled.matched)
    }

    /// Returns the update that removes references to deleted documents, with the follow-up work of the update.
    pub(super) fn detach_update<'d>(
        &self,
        access: &Access,
        filter: RawDocumentBuf,
        deleted: impl IntoIterator<Item = &'d RawBson>,
    ) -> Result<DetachUpdate> {
        let mut change = detach_change(self.link, deleted)?;
        let (mut record, mut follow_ups) = (None, Vec::new());
        for kind in MAINTAINERS {
            let detach = kind.extend_detach(access.to(self.model), &mut change)?;
            record = record.or(detach.conditional_record);
            follow_ups.extend(detach.follow_up);
        }
        add_managed_fields(&mut change, self.model)?;
        let write = UpdateOperation {
            collection: self.model.collection.into(),
            filter,
            change,
            multi: true,
            upsert: false,
            origin: Stage::REFERENCES.step("detach the referrers"),
        };
        Ok(DetachUpdate {
            write,
            record,
            follow_ups,
        })
    }
}

/// Whether the referrers of a detach have an intent record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DetachIntent {
    /// The detach runs in a transaction.
    None,
    /// The referrers were claimed by an intent record.
    Recorded,
}

/// An update that removes references, with the additions of the other kinds.
pub(super) struct DetachUpdate {
    pub(super) write: UpdateOperation,
    pub(super) record: Option<ConditionalRecord>,
    pub(super) follow_ups: Vec<FollowUp>,
}

/// Removes references to deleted documents from all remaining referrers, in a transaction.
pub(super) async fn detach_referrers(
    access: ModelAccess<'_>,
    deleted: &[LinkedDocument],
) -> Result<()> {
    for rule in
        rules_targeting(access).filter(|rule| rule.affects_referrers() && !rule.is_cascading())
    {
        let Some(mut filter) = rule.referrer_filter(&access, deleted, None).await? else {
            continue;
        };
        narrow_filter(access.to(rule.model), &mut filter).await?;
        let deleted_ids = deleted.iter().map(|document| &document.id);
        rule.detach_matching(&access, filter, deleted_ids, DetachIntent::None)
            .await?;
    }
    Ok(())
}
