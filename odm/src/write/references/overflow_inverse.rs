//! Inverses that overflow. The target document holds the resident elements, and chunk documents hold the spilled elements.

use bson::{Bson, RawBson, RawDocument, RawDocumentBuf, oid::ObjectId, rawdoc};

use super::{intent::unchanged_value, inverse_batch::update_of_inverse, linked_document::ids_at};
use crate::{
    Result,
    backend::operation::UpdateOperation,
    error,
    language::query::{append_field, field_missing, id_filter, single_field_document},
    metadata::references::{INVERSE_VERSION, tombstone},
    model::{
        ids::id_array,
        stored::{parse_document, to_raw_document},
    },
    overflow::{
        ArrayReader, ArrayState,
        capacity::{nothing_spilled, resident_room},
        chunks::split_for_pulls,
        max_tail_elements,
    },
    schema::{InverseLink, LinkField, Model, OverflowField, ReferenceLink},
    session::access::{Access, ModelAccess},
    write::{maintainer::run_follow_up, narrow_filter},
};

/// An inverse that is an overflow array.
#[derive(Debug, Clone, Copy)]
pub(super) struct OverflowInverse {
    pub(super) model: &'static Model,
    pub(super) field: &'static OverflowField,
}

/// Returns the ids in a reference or an inverse of a stored document, with spilled elements.
///
/// Returns `None` while pending work changes the spilled elements.
pub(crate) async fn ids_of_side(
    full_access: ModelAccess<'_>,
    side: &LinkField,
    raw: &RawDocument,
) -> Result<Option<Vec<RawBson>>> {
    let resident = || Ok(Some(ids_at(raw, side.stored)));
    let Some(inverse) = OverflowInverse::of_side(full_access.model, side) else {
        return resident();
    };
    if !ArrayState::has_manifest(inverse.field, raw) {
        return resident();
    }
    let array_state = ArrayState::from_document(inverse.field, raw)?;
    if array_state.pending_work().is_some() {
        return Ok(None);
    }
    let id = RawBson::try_from(array_state.id).map_err(error::from_bson)?;
    inverse.all_elements(&full_access, &id).await.map(Some)
}

/// Identifies the content of a spilled inverse: every change of the elements changes the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpilledState {
    generation: Option<ObjectId>,
    version: i64,
    len: u64,
}

/// Returns the state of a spilled inverse. `None` if no element is spilled, or if an array change is pending.
pub(crate) fn spilled_state(
    model: &'static Model,
    side: &LinkField,
    raw: &RawDocument,
) -> Result<Option<SpilledState>> {
    let Some(inverse) = OverflowInverse::of_side(model, side) else {
        return Ok(None);
    };
    if !ArrayState::has_manifest(inverse.field, raw) {
        return Ok(None);
    }
    let array = ArrayState::from_document(inverse.field, raw)?;
    let len = array.len();
    Ok(array
        .manifest
        .filter(|manifest| manifest.work.is_none())
        .map(|manifest| SpilledState {
            generation: manifest.generation,
            version: manifest.version,
            len,
        }))
}

/// A change of an inverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InverseChange {
    /// Add referrers to the inverse. The inverse may have some of the referrers already.
    Add,
    /// Add referrers that the same transaction inserts. The inverse has none of the referrers, so the spilled elements are not
    /// searched. After a delete outside of this framework, an inverse can have the id of a new document; the check then finds a
    /// duplicate.
    AddInserted,
    /// Remove referrers from the inverse.
    Remove,
}

impl InverseChange {
    /// Whether the change adds referrers.
    pub(super) fn adds(self) -> bool {
        match self {
            Self::Add | Self::AddInserted => true,
            Self::Remove => false,
        }
    }
}

impl OverflowInverse {
    /// Returns the inverse of a reference, if the inverse overflows.
    pub(super) fn on_target(link: &ReferenceLink, inverse: &InverseLink) -> Option<Self> {
        Self::of_inverse((link.link_field.model)(), inverse)
    }

    /// Returns an inverse of a model, if the inverse overflows.
    pub(super) fn of_inverse(model: &'static Model, inverse: &InverseLink) -> Option<Self> {
        Self::of_side(model, &inverse.link_field)
    }

    fn of_side(model: &'static Model, side: &LinkField) -> Option<Self> {
        let field = model.overflow_of(side)?;
        Some(Self { model, field })
    }

    /// Returns the condition of a change. A document with a tombstone accepts no new referrers.
    pub(super) fn change_filter(target: &RawBson, change: InverseChange) -> Result<RawDocumentBuf> {
        let mut filter = id_filter(target);
        if change.adds() {
            append_field(&mut filter, tombstone::TOKEN, field_missing())?;
        }
        Ok(filter)
    }

    /// Returns the condition of a change without spilled elements: the array is fully resident, and has room for an addition.
    ///
    /// Returns `None` if the addition can never fit.
    pub(super) fn resident_change_filter(
        &self,
        target: &RawBson,
        change: InverseChange,
        referrers: &[RawBson],
    ) -> Result<Option<RawDocumentBuf>> {
        let mut filter = parse_document(&Self::change_filter(target, change)?)?;
        match change {
            InverseChange::Remove => filter.extend(nothing_spilled(self.field)),
            InverseChange::Add | InverseChange::AddInserted => {
                let referrers = referrers.iter().cloned().map(Bson::try_from);
                let referrers = referrers.collect::<Result<Vec<_>, _>>();
                let referrers = referrers.map_err(error::from_bson)?;
                let Some(room) = resident_room(self.field, &referrers)? else {
                    return Ok(None);
                };
                filter.extend(nothing_spilled(self.field));
                filter.extend(room);
            }
        }
        to_raw_document(&filter).map(Some)
    }

    /// Returns the update of an inverse in a document that meets the condition.
    pub(super) fn change_update(
        &self,
        filter: RawDocumentBuf,
        change: InverseChange,
        referrers: &[RawBson],
        new_version: ObjectId,
    ) -> Result<UpdateOperation> {
        let referrers = id_array(referrers);
        let (operator, operand) = match change {
            InverseChange::Add => ("$addToSet", rawdoc! { "$each": referrers }.into()),
            InverseChange::AddInserted => ("$push", rawdoc! { "$each": referrers }.into()),
            InverseChange::Remove => ("$pullAll", RawBson::Array(referrers)),
        };
        let operand = single_field_document(self.field.stored, operand)?;
        let mut update = single_field_document(operator, operand)?;
        let set = single_field_document(INVERSE_VERSION, new_version)?;
        append_field(&mut update, "$set", set)?;
        Ok(update_of_inverse(self.model, filter, update))
    }

    /// Changes an inverse, including spilled elements. Returns `false` if no document meets the condition.
    pub(super) async fn apply_change(
        &self,
        access: &Access,
        filter: &RawDocumentBuf,
        change: InverseChange,
        referrers: &[RawBson],
        new_version: ObjectId,
    ) -> Result<bool> {
        let batches = match change {
            InverseChange::Add | InverseChange::AddInserted => {
                referrers.chunks(max_tail_elements(self.field)).collect()
            }
            InverseChange::Remove => split_for_pulls(self.field, referrers)?,
        };
        for batch in batches {
            let mut update = self.change_update(filter.clone(), change, batch, new_version)?;
            narrow_filter(access.to(self.model), &mut update.filter).await?;
            let outcome = run_follow_up(access.to(self.model), update).await;
            if outcome.map_err(error::naming_model(self.model))?.matched == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Replaces all elements of an inverse, if the inverse version is unchanged since the read.
    pub(super) async fn replace_elements(
        &self,
        access: &Access,
        target: &RawBson,
        version: Option<&RawBson>,
        referrers: &[&RawBson],
    ) -> Result<bool> {
        let mut filter = id_filter(target);
        append_field(&mut filter, INVERSE_VERSION, unchanged_value(version)?)?;
        let referrers = id_array(referrers.iter().copied());
        let mut set = single_field_document(self.field.stored, referrers)?;
        append_field(&mut set, INVERSE_VERSION, ObjectId::new())?;
        let update = update_of_inverse(self.model, filter, single_field_document("$set", set)?);
        let outcome = run_follow_up(access.to(self.model), update).await;
        Ok(outcome.map_err(error::naming_model(self.model))?.matched == 1)
    }

    /// Returns all elements of an inverse, including spilled elements.
    pub(super) async fn all_elements(
        &self,
        access: &Access,
        target: &RawBson,
    ) -> Result<Vec<RawBson>> {
        let array = ArrayReader::new(access, self.model, self.field, id_filter(target));
        let elements = array.read_all().await?.unwrap_or_default();
        let elements = elements.into_iter().map(RawBson::try_from);
        elements.collect::<Result<_, _>>().map_err(error::from_bson)
    }
}
