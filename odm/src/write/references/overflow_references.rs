//! References in overflow arrays, whose elements can be spilled into chunk documents.
//!
//! The array stage writes these arrays, and separates resident from spilled elements before the reference stage runs. So this
//! module guards new targets and updates inverses around that write. A search for referrers includes spilled elements.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use bson::{Bson, DateTime, RawArrayBuf, RawBson, RawDocument, RawDocumentBuf};

use super::{
    MAX_LINK_QUERY_DOCUMENTS,
    delete_rule::DeleteRule,
    exclude_final_tombstones,
    footprint::{self, RemovedIds},
    intent,
    inverse_batch::InverseBatch,
    linked_document::LinkedDocument,
    overflow_inverse::InverseChange,
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{Direction, DocumentChange, Index},
    error,
    language::{
        field::Path,
        query::{
            FilterNode, append_field, equal_to, field_missing, id_filter, single_field_document,
        },
    },
    metadata::{
        overflow::{BLOCK, TAIL, VERSION},
        references::{LEASE, intended_ids_path},
    },
    model::ids::{OrderedId, id_array, id_batches, id_values, ids_filter, one_of},
    overflow::{ArrayReader, ArrayState, element_search::owners_with_element},
    schema::{Model, OverflowField, ReferenceLink},
    session::{
        access::{Access, ModelAccess},
        soft_delete::Visibility,
    },
    write::{
        WriteOperation, WriteOutcome,
        maintainer::{DeclaredIndexes, ElementUpdate, Strategy},
        recovery::retry_after_recovery,
    },
};

/// The maximum size in bytes of the references that a write adds, or removes without naming the ids, on a standalone server.
///
/// The intent record in the document holds these references and stays below 1 MiB in total.
pub(super) const MAX_ADDED_BYTES: usize = 320 * 1024;

/// The maximum size in bytes of an intent record, including the references before the write.
///
/// The same document holds at most three more parts of 128 KiB: the resident elements, the tail and the pending change. While an
/// array is folded back into the document, the array and the intent record may be larger.
pub(super) const MAX_INTENT_BYTES: usize = 512 * 1024;

/// The maximum number of referrers with spilled references that one filter names, for callers that search again.
pub(super) const MAX_REFERRERS_PER_FILTER: Option<usize> = Some(MAX_LINK_QUERY_DOCUMENTS);

/// Returns the delete rule of an overflow array of references.
pub(super) fn rule_of_array(model: &'static Model, field: &OverflowField) -> Option<DeleteRule> {
    let mut declared = DeleteRule::declared_by(model);
    declared.find(|rule| rule.link.link_field.stored == field.stored)
}

/// Guards the targets of new elements until the commit of the transaction, and adds the document to the inverses of the targets.
pub(super) async fn add_to_inverses(
    access: &Access,
    rule: DeleteRule,
    referrer: &Bson,
    elements: impl IntoIterator<Item = &Bson>,
) -> Result<()> {
    let referrer = RawBson::try_from(referrer.clone()).map_err(error::from_bson)?;
    let added = raw_ids(elements)?.iter().map(OrderedId::from_id).collect();
    rule.update_inverses(access, &referrer, BTreeSet::new(), added)
        .await
}

/// Writes to an overflow array of references, guards the new targets, and updates inverses for added and removed elements.
///
/// Returns `None` if no document with the id matches the filter of the write.
pub(super) async fn write_references(update: ElementUpdate<'_>) -> Result<Option<WriteOutcome>> {
    let (cx, write) = (update.cx, update.write);
    let access = &cx.access;
    let Some(rule) = rule_of_array(cx.model, update.array) else {
        return (update.run)(cx.clone(), write.clone()).await.map(Some);
    };
    let referrer = RawBson::try_from(update.id.clone()).map_err(error::from_bson)?;
    let elements = raw_ids(update.added)?;
    if cx.strategy != Strategy::Transactional {
        if id_array(&elements).as_bytes().len() > MAX_ADDED_BYTES {
            return Err(intent_too_large(rule.model, rule.link, MAX_INTENT_BYTES));
        }
        let run_write = |write| (update.run)(cx.clone().with_intent(), write);
        return intent::change_with_intent(access.to(rule.model), write, &referrer, run_write)
            .await;
    }
    let (run, referrer, elements) = (update.run, &referrer, &elements);
    let run_transaction = |access: Access| async move {
        let run_write = |write| run(cx.with_access(&access), write);
        let outcome =
            write_in_transaction(&access, rule, write.clone(), referrer, elements, run_write).await;
        outcome.map_err(|error| access.fail_transaction(error))
    };
    let attempt = || access.run_transactional(run_transaction);
    let outcome = retry_after_recovery(access, attempt).await;
    outcome.map(Some)
}

/// Writes to an overflow array of references in a transaction, and updates inverses.
async fn write_in_transaction<C, F>(
    access: &Access,
    rule: DeleteRule,
    mut write: WriteOperation,
    referrer: &RawBson,
    elements: &[RawBson],
    run_write: C,
) -> Result<WriteOutcome>
where
    C: FnOnce(WriteOperation) -> F,
    F: Future<Output = Result<WriteOutcome>>,
{
    let full_access = access.with_full_visibility();
    let removed_ids = match write.change() {
        Some(DocumentChange::Operators { update, .. }) if rule.inverse.is_some() => {
            footprint::removed_ids(update, &rule.link.link_field)
        }
        _ => RemovedIds::Named(Vec::new()),
    };
    let before = match &removed_ids {
        RemovedIds::Named(ids) => ids.iter().map(OrderedId::from_id).collect(),
        RemovedIds::Unknown => rule.overflow_targets(&full_access, referrer).await?,
    };
    // A document with a final tombstone is removed from inverses once, by the delete.
    if let Some(filter) = write.filter_mut() {
        exclude_final_tombstones(filter)?;
    }
    let outcome = run_write(write).await?;
    if outcome.matched == 0 {
        return Ok(outcome);
    }
    let after = match removed_ids {
        RemovedIds::Named(_) => elements.iter().map(OrderedId::from_id).collect(),
        RemovedIds::Unknown => rule.overflow_targets(&full_access, referrer).await?,
    };
    let removed = before.difference(&after).cloned().collect();
    let added = after.difference(&before).cloned().collect();
    rule.update_inverses(access, referrer, removed, added)
        .await?;
    Ok(outcome)
}

/// Loads the spilled references of documents that a delete removes, where a target has an inverse.
pub(super) async fn load_spilled_targets(
    full_access: ModelAccess<'_>,
    documents: &mut Cow<'_, [LinkedDocument]>,
) -> Result<()> {
    let rules = DeleteRule::declared_by(full_access.model);
    for rule in rules.filter(|rule| rule.overflow_array().is_some() && rule.inverse.is_some()) {
        for document in documents.to_mut() {
            let targets = rule.overflow_targets(&full_access, &document.id).await?;
            document.set_targets(rule.link_index, id_values(&targets)?);
        }
    }
    Ok(())
}

/// The ids that a change removes from overflow arrays whose targets have inverses.
#[derive(Debug, Default)]
pub(super) struct RemovedSpilledIds {
    /// Removed ids that the update names, by index of the reference in the model.
    pub(super) named: BTreeMap<usize, Vec<RawBson>>,
    /// Rules of references for which the update does not name the removed ids.
    pub(super) unknown: Vec<DeleteRule>,
}

pub(super) fn removed_by_change(
    model: &'static Model,
    change: Option<&DocumentChange>,
) -> RemovedSpilledIds {
    let mut removed_ids = RemovedSpilledIds::default();
    let Some(DocumentChange::Operators { update, .. }) = change else {
        return removed_ids;
    };
    let declared = DeleteRule::declared_by(model);
    for rule in declared.filter(|rule| rule.overflow_array().is_some() && rule.inverse.is_some()) {
        match footprint::removed_ids(update, &rule.link.link_field) {
            RemovedIds::Named(ids) => drop(removed_ids.named.insert(rule.link_index, ids)),
            RemovedIds::Unknown => removed_ids.unknown.push(rule),
        }
    }
    removed_ids
}

/// Returns an error if an intent record would be too large because of references in overflow arrays.
pub(super) fn ensure_intent_fits(
    model: &'static Model,
    old_ids: &RawDocument,
    new_ids: &RawDocument,
) -> Result<()> {
    let (old_bytes, new_bytes) = (old_ids.as_bytes().len(), new_ids.as_bytes().len());
    let arrays = DeleteRule::declared_by(model).filter_map(|rule| rule.overflow_array());
    let inline = arrays.filter(|field| field.is_inline());
    let max_bytes = MAX_INTENT_BYTES + inline.map(|field| field.max_resident_bytes).sum::<usize>();
    let mut declared = DeleteRule::declared_by(model);
    match declared.find(|rule| rule.overflow_array().is_some()) {
        Some(rule) if new_bytes > MAX_ADDED_BYTES || old_bytes + new_bytes > max_bytes => {
            Err(intent_too_large(model, rule.link, max_bytes))
        }
        _ => Ok(()),
    }
}

pub(super) fn intent_too_large(
    model: &'static Model,
    link: &ReferenceLink,
    max_bytes: usize,
) -> Error {
    let message = format!(
        "too many references in one write: without transactions, a write adds at most {MAX_ADDED_BYTES} bytes of references, removes at most \
         as many without naming them, and handles at most {max_bytes} bytes together with the references before the write; nothing was \
         written: split the write, and remove references by id"
    );
    let error = Error::new(ErrorKind::Unsupported, message);
    error::naming_model(model)(error.with_path(link.link_field.field))
}

fn raw_ids<'e>(elements: impl IntoIterator<Item = &'e Bson>) -> Result<Vec<RawBson>> {
    let ids = elements.into_iter().cloned().map(RawBson::try_from);
    ids.collect::<Result<_, _>>().map_err(error::from_bson)
}

/// Adds the conditions of another filter.
pub(super) fn add_conditions(filter: &mut RawDocumentBuf, other: RawDocumentBuf) -> Result<()> {
    let mut fields = other.iter().flatten();
    if fields.any(|(name, _)| filter.get(name).is_ok_and(|value| value.is_some())) {
        let mut both = RawArrayBuf::new();
        both.push(std::mem::take(filter));
        both.push(other);
        return append_field(filter, "$and", both);
    }
    for field in other.iter() {
        let (name, value) = field.map_err(error::from_bson)?;
        append_field(filter, name.as_str(), RawBson::from(value))?;
    }
    Ok(())
}

/// Adds the indexes that find referrers among the spilled elements of arrays.
pub(super) fn add_element_indexes(declared: &mut [DeclaredIndexes]) {
    let mut in_chunks = BTreeMap::new();
    for (model, indexes) in &mut *declared {
        for field in model.overflows {
            if rule_of_array(model, field).is_some() {
                indexes.push(Index::sparse_on(field.manifest_path(TAIL)));
                indexes.push(Index::sparse_on(field.work_path(BLOCK)));
                in_chunks.insert(field.chunks.collection, field.elements);
            }
        }
    }
    for (model, indexes) in declared {
        if let Some(elements) = in_chunks.get(model.collection) {
            let key = ((*elements).to_owned(), Direction::Ascending);
            indexes.push(Index::new(vec![key]));
        }
    }
}

impl DeleteRule {
    /// Returns the overflow array that holds the reference. `None` for a reference in an ordinary field.
    pub(super) fn overflow_array(&self) -> Option<&'static OverflowField> {
        self.model.overflow_of(&self.link.link_field)
    }

    /// Returns the condition that a document references any of the given ids, including spilled references.
    ///
    /// The condition names referrers with spilled references by id. A concurrent write may have removed the reference by the time
    /// the condition matches. `max_referrers` limits the number of named referrers; `None` names all of them.
    pub(super) async fn references_filter(
        &self,
        access: &Access,
        ids: &[&RawBson],
        max_referrers: Option<usize>,
    ) -> Result<RawDocumentBuf> {
        let path = self.link.link_field.stored;
        let resident = single_field_document(path, one_of(ids.iter().copied()))?;
        let Some(field) = self.overflow_array() else {
            return Ok(resident);
        };
        let ids = id_array(ids.iter().copied());
        let are_among =
            |path: &str| FilterNode::Test(Path::ROOT.append_name(path), "$in", ids.clone().into());
        // The places of an element in the order of a spill. An element that moves during the reads appears at a later place.
        let places = [
            FilterNode::And(vec![
                FilterNode::Test(Path::ROOT.append_name(LEASE), "$gte", DateTime::MIN.into()),
                are_among(&intended_ids_path(path)),
            ]),
            are_among(&field.manifest_path(TAIL)),
            are_among(&field.work_path(BLOCK)),
        ];
        let in_chunk = are_among(field.elements);
        let owners = access.to(self.model);
        let referrers = owners_with_element(owners, field, &places, &in_chunk, max_referrers);
        let referrers = referrers.await?;
        if referrers.is_empty() {
            return Ok(resident);
        }
        let mut either = RawArrayBuf::new();
        either.push(resident);
        either.push(ids_filter(&referrers));
        single_field_document("$or", either)
    }

    /// Returns how many passes a search for referrers needs before the answer "no referrer" is safe. An element that moves to
    /// another place during the first pass is found in the second pass.
    pub(super) fn search_passes(&self) -> usize {
        if self.overflow_array().is_some() {
            2
        } else {
            1
        }
    }

    /// Updates inverses in a transaction, for the removed and the added targets of a document.
    async fn update_inverses(
        &self,
        access: &Access,
        referrer: &RawBson,
        removed: BTreeSet<OrderedId>,
        added: BTreeSet<OrderedId>,
    ) -> Result<()> {
        let present = access.clone().with_visibility(Visibility::Present);
        let full_access = access.with_full_visibility();
        let with_referrer = |targets: BTreeSet<OrderedId>| {
            let targets = targets.into_iter();
            let targets = targets.map(|target| (target, vec![referrer.clone()]));
            targets.collect()
        };
        let mut inverse_batch = InverseBatch::new(&present, &full_access);
        let (removed, added) = (with_referrer(removed), with_referrer(added));
        inverse_batch
            .queue_changes(self.link, removed, added, InverseChange::Add)
            .await?;
        inverse_batch.write_all().await
    }

    /// Returns those targets that a document references, in resident and spilled elements.
    pub(super) async fn referenced_among(
        &self,
        access: &Access,
        referrer: &RawBson,
        targets: &BTreeSet<OrderedId>,
    ) -> Result<BTreeSet<OrderedId>> {
        let Some(field) = self.overflow_array() else {
            return Ok(BTreeSet::new());
        };
        let targets: Vec<_> = targets.iter().collect();
        let mut referenced = BTreeSet::new();
        for batch in id_batches(&targets, MAX_LINK_QUERY_DOCUMENTS) {
            let values = batch.iter().map(|id| {
                let id = id.to_value()?;
                Bson::try_from(id).map_err(error::from_bson)
            });
            let values = values.collect::<Result<Vec<_>>>()?;
            let array = ArrayReader::new(access, self.model, field, id_filter(referrer));
            let found = array.values_present(&values).await?;
            referenced.extend(raw_ids(&found)?.iter().map(OrderedId::from_id));
        }
        Ok(referenced)
    }

    /// Returns all targets in an overflow array of a document. Empty if the reference is not in an overflow array.
    pub(super) async fn overflow_targets(
        &self,
        access: &Access,
        referrer: &RawBson,
    ) -> Result<BTreeSet<OrderedId>> {
        let Some(field) = self.overflow_array() else {
            return Ok(BTreeSet::new());
        };
        let array = ArrayReader::new(access, self.model, field, id_filter(referrer));
        let elements = array.read_all().await?.unwrap_or_default();
        Ok(raw_ids(&elements)?.iter().map(OrderedId::from_id).collect())
    }

    /// Returns the condition that a document references a target and the reference is unchanged since the read.
    ///
    /// Returns `None` if the document does not reference the target.
    pub(super) async fn unchanged_reference_filter(
        &self,
        access: &Access,
        referrer: &RawBson,
        target: &RawBson,
    ) -> Result<Option<RawDocumentBuf>> {
        let Some(field) = self.overflow_array() else {
            return single_field_document(self.link.link_field.stored, equal_to(target.clone()))
                .map(Some);
        };
        let id = Bson::try_from(referrer.clone()).map_err(error::from_bson)?;
        let Some(array_state) = ArrayState::read_by_id(access.to(self.model), field, &id).await?
        else {
            return Ok(None);
        };
        if !self
            .overflow_targets(access, referrer)
            .await?
            .contains(&OrderedId::from_id(target))
        {
            return Ok(None);
        }
        let Some(manifest) = array_state.manifest else {
            let mut resident =
                single_field_document(self.link.link_field.stored, equal_to(target.clone()))?;
            append_field(&mut resident, field.manifest, field_missing())?;
            return Ok(Some(resident));
        };
        // A push is the only change that keeps the version.
        let unchanged = match manifest.version {
            0 => single_field_document("$in", id_array([&RawBson::Null, &RawBson::Int64(0)]))?,
            version => equal_to(version),
        };
        single_field_document(&field.manifest_path(VERSION), unchanged).map(Some)
    }
}
