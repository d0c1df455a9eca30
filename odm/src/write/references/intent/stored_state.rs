//! Documents with the stored state of unfinished work: intent record, lease and tombstone.

use std::collections::{BTreeMap, BTreeSet};

use bson::{DateTime, RawBson, RawDocument, RawDocumentBuf, oid::ObjectId};

use super::{
    super::linked_document::{LinkedDocument, ids_at, read_link_fields},
    unchanged_value,
};
use crate::{
    Result,
    backend::operation::{FindOperation, Stage},
    error,
    language::query::{append_field, equal_to, field_missing, field_present, id_filter},
    metadata::{
        Metadata,
        references::{
            INTENT_TOKEN, IntentRecord,
            tombstone::{self, Tombstone},
        },
    },
    model::ids::{OrderedId, id_array},
    pending::{blocked::is_blocked, record::PendingKind},
    schema::{LinkField, LinkStep, Model, ReferenceLink},
    session::access::{ModelAccess, add_condition},
};

/// A document with the state of unfinished work.
#[derive(Debug)]
pub(super) struct StoredState {
    pub(super) linked: LinkedDocument,
    /// The top-level fields with references, as stored.
    fields: Vec<(&'static str, Option<RawBson>)>,
    pub(super) intent: Option<IntentRecord>,
    pub(super) lease_end: Option<DateTime>,
    /// Whether a document rejected the last attempt to complete the work.
    is_blocked: bool,
    pub(super) tombstone: Option<Tombstone>,
}

/// Returns the first document that matches a filter.
pub(super) async fn find_state(
    access: ModelAccess<'_>,
    step: &'static str,
    filter: &RawDocument,
) -> Result<Option<StoredState>> {
    let find = access
        .find_matching(filter)
        .with_origin(Stage::REFERENCES.step(step))
        .with_limit(1);
    Ok(read_states(access, find).await?.pop())
}

/// Returns the document with an id.
pub(super) async fn find_by_id(
    access: ModelAccess<'_>,
    step: &'static str,
    id: &RawBson,
) -> Result<Option<StoredState>> {
    find_state(access, step, &id_filter(id)).await
}

/// Returns all documents that match a filter.
pub(super) async fn find_states(
    access: ModelAccess<'_>,
    step: &'static str,
    filter: RawDocumentBuf,
) -> Result<Vec<StoredState>> {
    read_states(
        access,
        access
            .find_matching(&filter)
            .with_origin(Stage::REFERENCES.step(step)),
    )
    .await
}

async fn read_states(access: ModelAccess<'_>, find: FindOperation) -> Result<Vec<StoredState>> {
    // References in an embedded struct are compared with the complete top-level field.
    let found = read_link_fields(access, find, LinkField::root_field).await?;
    found
        .iter()
        .map(|raw| StoredState::from_stored(access.model, raw))
        .collect()
}

impl StoredState {
    fn from_stored(model: &'static Model, raw: &RawDocument) -> Result<Self> {
        let metadata = Metadata::of(raw);
        let roots: BTreeSet<_> = model
            .links()
            .iter()
            .map(|link| link.link_field.root_field())
            .collect();
        let fields = roots.into_iter().map(|stored| {
            let value = raw.get(stored).map_err(error::from_bson)?;
            Ok((stored, value.map(RawBson::from)))
        });
        Ok(Self {
            linked: LinkedDocument::from_stored(model, raw)?,
            fields: fields.collect::<Result<_>>()?,
            intent: metadata.intent(),
            lease_end: metadata.lease_end(),
            is_blocked: is_blocked(raw, PendingKind::REFERENCES),
            tombstone: metadata.tombstone(),
        })
    }

    /// Whether the document has no active writer. Blocked work counts as abandoned: a waiting writer tries the work and gets the
    /// rejection.
    pub(super) fn is_abandoned(&self) -> bool {
        self.is_blocked
            || self
                .lease_end
                .is_none_or(|lease_end| lease_end <= DateTime::now())
    }

    /// Whether a write or a delete of the document is unfinished.
    pub(super) fn is_in_use(&self) -> bool {
        self.intent.is_some() || self.tombstone.is_some()
    }

    /// Whether the document has a tombstone of the delete with this token.
    pub(super) fn has_tombstone_of(&self, token: ObjectId) -> bool {
        let tombstone = self.tombstone.as_ref();
        tombstone.is_some_and(|tombstone| tombstone.token == token)
    }

    /// Whether the document has a provisional tombstone: the delete is undecided.
    pub(super) fn has_provisional_tombstone(&self) -> bool {
        let tombstone = self.tombstone.as_ref();
        tombstone.is_some_and(|tombstone| tombstone.is_provisional)
    }

    /// Whether the document has a final tombstone, and counts as deleted.
    pub(super) fn has_final_tombstone(&self) -> bool {
        self.tombstone.is_some() && !self.has_provisional_tombstone()
    }

    /// Whether the existence of the document is undecided: a provisional tombstone, or an insert that may be rolled back.
    pub(super) fn is_undecided(&self) -> bool {
        let is_new = self.intent.as_ref().is_some_and(IntentRecord::is_of_insert);
        self.has_provisional_tombstone() || is_new && self.tombstone.is_none()
    }

    /// Whether the document exists, and no write or delete that is in progress can remove the document.
    pub(super) fn is_live(&self) -> bool {
        !self.is_undecided() && self.tombstone.is_none()
    }

    /// Returns the current and the intended targets of a reference. Empty for a document that counts as deleted.
    pub(super) fn possible_targets(&self, model: &Model, position: usize) -> BTreeSet<OrderedId> {
        if self.has_final_tombstone() {
            return BTreeSet::new();
        }
        let mut targets = self.linked.targets_of(position);
        if let Some(intent) = &self.intent
            && !intent.is_committed
            && !intent.is_aborted
        {
            targets.append(&mut intent.new_targets(model, position));
        }
        targets
    }

    /// Adds the condition that the references are unchanged since the read, and that no write is unfinished.
    pub(super) fn add_unchanged_condition(&self, filter: &mut RawDocumentBuf) -> Result<()> {
        add_idle_condition(filter)?;
        for (field, value) in &self.fields {
            add_condition(filter, field, unchanged_value(value.as_ref())?)?;
        }
        Ok(())
    }

    /// Returns all references of the document for an intent record. `spilled` holds spilled references, by index of the
    /// reference.
    pub(super) fn record_references(
        &self,
        model: &Model,
        spilled: &BTreeMap<usize, Vec<RawBson>>,
    ) -> Result<RawDocumentBuf> {
        let resident = self.linked.targets.iter().enumerate();
        let references = resident.map(|(link, ids)| {
            [ids.clone(), spilled.get(&link).cloned().unwrap_or_default()].concat()
        });
        let references: Vec<_> = references.collect();
        let links = model.links().iter().zip(&references);
        ids_by_link(links.map(|(link, ids)| (link, ids.as_slice())))
    }
}

/// Returns the condition that a document has the intent record with this token.
pub(super) fn intent_filter(id: &RawBson, token: ObjectId) -> Result<RawDocumentBuf> {
    let mut filter = id_filter(id);
    append_field(&mut filter, INTENT_TOKEN, equal_to(token))?;
    Ok(filter)
}

/// Returns the condition that a document has a tombstone of the delete with this token.
pub(super) fn tombstone_filter(id: &RawBson, token: ObjectId) -> Result<RawDocumentBuf> {
    let mut filter = id_filter(id);
    append_field(&mut filter, tombstone::TOKEN, equal_to(token))?;
    Ok(filter)
}

/// Returns the condition that a document has a provisional tombstone of the delete with this token.
pub(super) fn provisional_tombstone_filter(
    id: &RawBson,
    token: ObjectId,
) -> Result<RawDocumentBuf> {
    let mut filter = tombstone_filter(id, token)?;
    append_field(&mut filter, tombstone::PROVISIONAL, field_present())?;
    Ok(filter)
}

/// Adds the condition that a document has neither a tombstone nor an intent record.
pub(super) fn add_idle_condition(filter: &mut RawDocumentBuf) -> Result<()> {
    add_condition(filter, tombstone::TOKEN, field_missing())?;
    add_condition(filter, INTENT_TOKEN, field_missing())
}

impl IntentRecord {
    /// Whether the record belongs to an insert.
    pub(super) fn is_of_insert(&self) -> bool {
        self.old.is_none()
    }

    /// Returns the targets of a reference before the write.
    pub(super) fn old_targets(&self, model: &Model, position: usize) -> BTreeSet<OrderedId> {
        self.old
            .as_ref()
            .map(|old| recorded_targets(old, model, position))
            .unwrap_or_default()
    }

    /// Returns the targets that the write may add to a reference.
    pub(super) fn new_targets(&self, model: &Model, position: usize) -> BTreeSet<OrderedId> {
        recorded_targets(&self.new, model, position)
    }
}

/// Returns ids in the form of an intent record: at the path of each reference, without the arrays on the path.
pub(super) fn ids_by_link<'i>(
    ids: impl IntoIterator<Item = (&'static ReferenceLink, &'i [RawBson])>,
) -> Result<RawDocumentBuf> {
    let entries: Vec<_> = ids
        .into_iter()
        .map(|(link, ids)| (link.link_field.steps, ids))
        .collect();
    nest_ids(&entries)
}

fn nest_ids(entries: &[(&[LinkStep], &[RawBson])]) -> Result<RawDocumentBuf> {
    let mut by_field = BTreeMap::<_, Vec<_>>::new();
    for (steps, ids) in entries {
        if let Some((step, rest)) = steps.split_first() {
            by_field.entry(step.stored).or_default().push((rest, *ids));
        }
    }
    let mut nested_ids = RawDocumentBuf::new();
    for (field, entries) in by_field {
        match entries.as_slice() {
            [([], ids)] => append_field(&mut nested_ids, field, id_array(*ids))?,
            entries => append_field(&mut nested_ids, field, nest_ids(entries)?)?,
        }
    }
    Ok(nested_ids)
}

fn recorded_targets(
    references: &RawDocument,
    model: &Model,
    position: usize,
) -> BTreeSet<OrderedId> {
    let link = model.links().get(position);
    let ids = link.map(|link| ids_at(references, link.link_field.stored));
    ids.into_iter()
        .flatten()
        .map(|id| OrderedId::from_id(&id))
        .collect()
}
