//! Inserts of several documents without transactions: each step runs for all documents together.
//!
//! The order of the steps is the order of a single insert, so recovery sees no difference. A document that a shared step cannot
//! complete is completed alone: a target is missing, undecided or full, or another write came first.

use std::collections::{BTreeMap, BTreeSet};

use bson::{RawBson, RawDocumentBuf, oid::ObjectId};

use super::{
    super::{
        MAX_LINK_QUERY_DOCUMENTS,
        delete_rule::DeleteRule,
        inverse_batch::{InverseEntry, bulk_item},
        linked_document::LinkedDocument,
        overflow_inverse::OverflowInverse,
        remove_record,
        validate::{insert_abandoned, is_reference_error},
    },
    Existence, abort_insert, complete_insert, complete_intent,
    inverse_update::find_targets,
    stored_state::{StoredState, find_states},
    unchanged_value, with_insert_intent,
};
use crate::{
    Result,
    backend::operation::{BulkItemOutcome, BulkWrite, InsertOperation, Stage, UpdateOperation},
    language::query::{append_field, field_missing},
    metadata::references::{INTENT_TOKEN, INVERSE_VERSION, tombstone},
    model::ids::{OrderedId, id_batches, ids_filter, one_of},
    schema::Model,
    session::{
        access::{Access, ModelAccess},
        retry,
        soft_delete::Visibility,
    },
};

/// The maximum number and size of the documents in a batch. The steps of a batch must end within the lease of the intent records.
const MAX_DOCUMENTS: usize = 1_000;
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Returns the number of documents at the beginning of the list that can be inserted as a batch: at least one.
pub(super) fn first_batch_len(model: &'static Model, documents: &[RawDocumentBuf]) -> usize {
    if !DeleteRule::declared_by(model).all(|rule| can_share_steps(&rule)) {
        return 1;
    }
    let mut bytes = 0;
    let fitting = documents.iter().take(MAX_DOCUMENTS).take_while(|document| {
        bytes += document.as_bytes().len();
        bytes <= MAX_BYTES
    });
    fitting.count().max(1)
}

/// Whether inserts of several documents with the reference can share their steps.
fn can_share_steps(rule: &DeleteRule) -> bool {
    let overflows = |inverse| OverflowInverse::on_target(rule.link, inverse).is_some();
    // The documents of a batch are undecided until the end of the batch. A reference from one document of the batch to an earlier
    // document would wait for itself.
    !rule.is_self_reference()
        && rule.overflow_array().is_none()
        && !rule.inverse.is_some_and(overflows)
}

/// A document with the intent record of an insert.
struct InsertedDocument {
    id: RawBson,
    token: ObjectId,
}

/// Inserts the documents of a batch in order. An invalid reference rolls the document and all later documents back.
///
/// # Errors
///
/// The error counts the documents of the batch that stay stored.
pub(super) async fn insert_batch(
    access: ModelAccess<'_>,
    documents: &[RawDocumentBuf],
) -> Result<()> {
    let model = access.model;
    let (mut inserted, mut raws) = (Vec::new(), Vec::new());
    for raw in documents {
        let id = LinkedDocument::from_stored(model, raw)?.id;
        let token = ObjectId::new();
        raws.push(with_insert_intent(access, raw, token)?);
        inserted.push(InsertedDocument { id, token });
    }
    let write = InsertOperation {
        collection: model.collection.into(),
        documents: raws,
        ordered: true,
        origin: Stage::REFERENCES.step("insert with intent records"),
    };
    let refused = access.insert(write).await.err();
    if let Some(error) = &refused {
        inserted.truncate(error.inserted().unwrap_or_default());
    }
    if !model.links().is_empty() && !inserted.is_empty() {
        complete_batch(access, &inserted).await?;
    }
    refused.map_or(Ok(()), Err)
}

/// Adds the inserted documents to the inverses of their targets, and removes the intent records.
async fn complete_batch(access: ModelAccess<'_>, inserted: &[InsertedDocument]) -> Result<()> {
    let unshared = match add_to_inverses_together(access, inserted).await {
        Ok(unshared) => unshared,
        Err(error) => {
            abort_inserts(access, inserted).await;
            return Err(error.with_inserted(0));
        }
    };
    let mut gone = None;
    let mut rejected = None;
    for &position in &unshared {
        let document = &inserted[position];
        match complete_insert(access, &document.id, document.token).await {
            Ok(Existence::Present) => {}
            Ok(Existence::Gone) => drop(gone.get_or_insert(position)),
            Err(error) => {
                abort_inserts(access, &inserted[position + 1..]).await;
                rejected = Some((position, error));
                break;
            }
        }
    }
    let end = rejected
        .as_ref()
        .map_or(inserted.len(), |(position, _)| *position);
    let shared = (0..end).filter(|position| !unshared.contains(position));
    let shared: Vec<_> = shared.collect();
    if let Some(position) = remove_intents(access, inserted, &shared).await? {
        gone = Some(gone.map_or(position, |gone: usize| gone.min(position)));
    }
    match (gone, rejected) {
        (Some(position), _) => {
            Err(insert_abandoned(access.model, &inserted[position].id).with_inserted(position))
        }
        (None, Some((position, error))) => Err(error.with_inserted(position)),
        (None, None) => Ok(()),
    }
}

/// Rolls inserts back after an error, the last document first. Recovery rolls back the inserts that this function could not.
async fn abort_inserts(access: ModelAccess<'_>, inserted: &[InsertedDocument]) {
    for document in inserted.iter().rev() {
        if let Err(error) = abort_insert(access, &document.id, document.token).await {
            let reason = format_args!("the rollback of an insert stays pending: {error}");
            retry::log_fallback(access.model, reason);
        }
    }
}

/// Removes the intent records of documents that are in all inverses. Returns the first document that does not exist any more.
async fn remove_intents(
    access: ModelAccess<'_>,
    inserted: &[InsertedDocument],
    positions: &[usize],
) -> Result<Option<usize>> {
    if positions.is_empty() {
        return Ok(None);
    }
    let documents = || positions.iter().map(|position| &inserted[*position]);
    let mut filter = ids_filter(documents().map(|document| &document.id));
    // A token belongs to one document, so the two lists match in pairs.
    let tokens: Vec<_> = documents()
        .map(|document| RawBson::from(document.token))
        .collect();
    append_field(&mut filter, INTENT_TOKEN, one_of(&tokens))?;
    append_field(&mut filter, tombstone::TOKEN, field_missing())?;
    let full_access = access.with_full_visibility();
    let step = "remove the intent records";
    let removed = remove_record(full_access.to(access.model), step, filter).await?;
    if removed == positions.len() as u64 {
        return Ok(None);
    }
    // A concurrent recovery has completed an insert, or rolls an insert back.
    let mut gone = None;
    for &position in positions {
        let document = &inserted[position];
        if complete_intent(access, &document.id, document.token).await? == Existence::Gone {
            gone.get_or_insert(position);
        }
    }
    Ok(gone)
}

/// Adds the inserted documents to the inverses of their targets. Without an inverse, checks that the targets are live.
///
/// Returns the positions of the documents for which a step is missing.
async fn add_to_inverses_together(
    access: ModelAccess<'_>,
    inserted: &[InsertedDocument],
) -> Result<BTreeSet<usize>> {
    let model = access.model;
    let records = find_records(access, inserted).await?;
    let mut unshared: BTreeSet<_> = (0..inserted.len())
        .filter(|position| !records.contains_key(position))
        .collect();
    let mut scopes = records.values().map(|record| record.linked.scope.as_ref());
    let scope = scopes.next().flatten();
    if !scopes.all(|other| other == scope) {
        return Ok((0..inserted.len()).collect());
    }
    // The target must be visible in the scope of the referrer.
    let target_access = access.in_scope_of(model, scope);
    let target_access = target_access.with_visibility(Visibility::Present);
    for rule in DeleteRule::declared_by(model) {
        let mut referrers = BTreeMap::<_, Vec<_>>::new();
        for (position, record) in &records {
            for target in record.possible_targets(model, rule.link_index) {
                referrers.entry(target).or_default().push(*position);
            }
        }
        let targets: Vec<_> = referrers.keys().cloned().collect();
        let target_model = (rule.link.link_field.model)();
        for targets in id_batches(&targets, MAX_LINK_QUERY_DOCUMENTS) {
            // The versions of the inverses are read before the references. Otherwise a change between the reads would go
            // unnoticed.
            let mut found = find_targets(target_access.to(target_model), targets).await?;
            found.retain(|_, target| target.is_live());
            let of_missing = targets.iter().filter(|target| !found.contains_key(target));
            unshared.extend(of_missing.flat_map(|target| &referrers[target]));
            if let Some(inverse) = rule.inverse {
                let current = find_records(access, inserted).await?;
                let mut additions = Vec::new();
                for (id, target) in &found {
                    let positions = &referrers[id];
                    let mut are_current = positions.iter();
                    let referrers = positions.iter().map(|position| &inserted[*position].id);
                    let addition = InverseEntry {
                        link: rule.link,
                        inverse,
                        target: target.linked.id.clone(),
                        referrers: referrers.cloned().collect(),
                    };
                    let update = match are_current.all(|position| current.contains_key(position)) {
                        true => addition_update(&addition, target)?,
                        false => None,
                    };
                    match update {
                        Some(update) => additions.push((update, positions.as_slice())),
                        None => unshared.extend(positions),
                    }
                }
                unshared.extend(write_additions(&target_access, target_model, additions).await?);
            }
        }
    }
    Ok(unshared)
}

/// Writes additions to inverses in one operation. Returns the positions of the referrers with a possibly missing addition: a target
/// has changed since the read, or has no room. A second addition of the same referrer has no effect.
async fn write_additions(
    target_access: &Access,
    target_model: &'static Model,
    additions: Vec<(UpdateOperation, &[usize])>,
) -> Result<Vec<usize>> {
    let (mut writes, mut positions) = (Vec::new(), Vec::new());
    for (update, referrers) in additions {
        writes.push(bulk_item(target_access, (target_model, update)).await?);
        positions.extend_from_slice(referrers);
    }
    if writes.is_empty() {
        return Ok(Vec::new());
    }
    let expected = writes.len() as u64;
    let bulk = BulkWrite {
        writes,
        ordered: false,
        origin: Stage::REFERENCES.step("write the inverses"),
    };
    let outcome = target_access.bulk_write(bulk).await?;
    let is_failure = |result: &BulkItemOutcome| matches!(result, BulkItemOutcome::Failed(_));
    match outcome.matched == expected && !outcome.results.iter().any(is_failure) {
        true => Ok(Vec::new()),
        false => Ok(positions),
    }
}

/// Returns the documents that still have the intent record of the insert, by position.
async fn find_records(
    access: ModelAccess<'_>,
    inserted: &[InsertedDocument],
) -> Result<BTreeMap<usize, StoredState>> {
    let model = access.model;
    let positions = inserted.iter().enumerate();
    let positions: BTreeMap<_, _> = positions
        .map(|(position, document)| (OrderedId::from_id(&document.id), position))
        .collect();
    let full_access = access.with_full_visibility();
    let ids = inserted.iter().map(|document| &document.id);
    let filter = ids_filter(ids);
    let found = find_states(full_access.to(model), "read the intent records", filter).await?;
    let records = found.into_iter().filter_map(|found| {
        let position = *positions.get(&OrderedId::from_id(&found.linked.id))?;
        let intent = found.intent.as_ref()?;
        let is_own = intent.token == inserted[position].token && found.tombstone.is_none();
        is_own.then_some((position, found))
    });
    Ok(records.collect())
}

/// Returns the update that adds referrers to the inverse of a target, unless another write comes first. `None` without enough room.
fn addition_update(
    addition: &InverseEntry,
    target: &StoredState,
) -> Result<Option<UpdateOperation>> {
    match addition.addition_update() {
        Ok((_, mut update)) => {
            let unchanged_version = unchanged_value(target.linked.inverse_version.as_ref())?;
            append_field(&mut update.filter, INVERSE_VERSION, unchanged_version)?;
            Ok(Some(update))
        }
        Err(error) if is_reference_error(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
