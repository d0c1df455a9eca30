//! Additions to an array as a set.

use bson::{Bson, Document, doc};

use super::{
    super::{
        array_work::write_attempts,
        capacity::{has_room_in_tail, resident_room},
        chunks::{self, Chunks, live_chunks_filter},
        manifest::ArrayState,
    },
    ArrayUpdate, MultiStepChange,
};
use crate::{
    Result, metadata::overflow::TAIL, overflow::ElementSet, session::retry, write::WriteOutcome,
};

/// Returns the values without duplicates.
pub(super) fn distinct_values(values: &[Bson]) -> Result<Vec<Bson>> {
    let (mut seen, mut distinct) = (ElementSet::default(), Vec::new());
    for value in values {
        if seen.insert(value)? {
            distinct.push(value.clone());
        }
    }
    Ok(distinct)
}

impl ArrayUpdate {
    /// Adds the values that the array does not have.
    pub(super) async fn add_to_set(&self, values: &[Bson]) -> Result<WriteOutcome> {
        let field = self.field;
        if let Some(has_room) = resident_room(self.field, values)? {
            let mut condition = self.nothing_spilled();
            condition.extend(has_room);
            let add = doc! { "$addToSet": { field.stored: { "$each": values.to_vec() } } };
            if let Some(done) = self.try_write(condition, &[&add]).await? {
                return Ok(done);
            }
        }
        for attempt in write_attempts() {
            let Some(owner) = self.read_idle_state().await? else {
                return Ok(WriteOutcome::default());
            };
            let id = owner.id.clone();
            let array = self.array_handle(&id);
            let missing = self.missing_values(&owner, values).await?;
            if !self.fits_single_step(&owner, &missing)? {
                match self.add_multi_step(values).await? {
                    Some(done) => return Ok(done),
                    None => continue,
                }
            }
            let done = match &owner.manifest {
                _ if missing.is_empty() => {
                    // A pull of no values leaves the array unchanged. The write still runs for the rest of the update.
                    let no_change = doc! { "$pullAll": { field.stored: [] } };
                    let mut condition = self.unchanged_since_read(owner.manifest.as_ref());
                    if owner.manifest.is_none() {
                        condition.extend(self.presence_unchanged(values, &missing)?);
                    }
                    self.try_write(condition, &[&no_change]).await?
                }
                None => {
                    let presence = self.presence_unchanged(values, &missing)?;
                    match self.push_split(&owner, &missing, presence.clone()).await? {
                        Some(done) => Some(done),
                        None => {
                            let push =
                                doc! { "$push": { field.stored: { "$each": missing.clone() } } };
                            let mut condition = presence;
                            condition.extend(self.nothing_spilled());
                            match resident_room(self.field, &missing)? {
                                Some(has_room) => {
                                    let all_conditions = doc! { "$and": [condition, has_room] };
                                    self.try_write(all_conditions, &[&push]).await?
                                }
                                None => None,
                            }
                        }
                    }
                }
                Some(manifest) if !has_room_in_tail(field, manifest, &missing)? => {
                    array.spill_tail(&owner).await?;
                    None
                }
                Some(manifest) => match self.tail_push(&missing)? {
                    None => None,
                    Some((has_room, push)) => {
                        let mut condition = self.unchanged_since_read(Some(manifest));
                        condition.insert(field.stored, doc! { "$nin": missing.clone() });
                        let not_in_tail =
                            doc! { field.manifest_path(TAIL): { "$nin": missing.clone() } };
                        let all_conditions = doc! { "$and": [condition, not_in_tail, has_room] };
                        self.try_write(all_conditions, &[&push]).await?
                    }
                },
            };
            if let Some(done) = done {
                return Ok(done);
            }
            if attempt > 1 {
                retry::pause_before_retry("no form of the push matched the array", attempt).await;
            }
        }
        Err(self.contention_error())
    }

    /// Returns the condition that an array without spilled elements still has the present values and still lacks the missing
    /// values. Without a manifest, there is no version to compare.
    pub(super) fn presence_unchanged(&self, values: &[Bson], missing: &[Bson]) -> Result<Document> {
        let mut condition = doc! { "$nin": missing.to_vec() };
        let present = ElementSet::from_elements(missing)?.filter_missing(values.to_vec())?;
        if !present.is_empty() {
            condition.insert("$all", present);
        }
        Ok(doc! { self.field.stored: condition })
    }

    /// Adds more values than the tail can hold. Returns `None` if the array has so many of the values by now that a single step
    /// is enough.
    pub(super) async fn add_multi_step(&self, values: &[Bson]) -> Result<Option<WriteOutcome>> {
        self.run_multi_step(&MultiStepChange::Add(values)).await
    }

    /// Returns the values that are not elements of the array.
    pub(super) async fn missing_values(
        &self,
        owner: &ArrayState,
        values: &[Bson],
    ) -> Result<Vec<Bson>> {
        let tail = owner.manifest.as_ref().map(|manifest| &manifest.tail);
        let unchunked = owner.resident.iter().chain(tail.into_iter().flatten());
        let mut present = ElementSet::from_elements(unchunked)?;
        let missing = present.filter_missing(values.to_vec())?;
        let Some(filter) = live_chunks_filter(self.field, owner).filter(|_| !missing.is_empty())
        else {
            return Ok(missing);
        };
        for batch in chunks::split_for_requests(&missing)? {
            let mut filter = filter.clone();
            filter.insert(self.field.elements, doc! { "$in": batch.to_vec() });
            let chunks = Chunks::new(&self.unrestricted, self.field);
            for element in chunks.read_elements(&filter).await? {
                present.insert(&element)?;
            }
        }
        present.filter_missing(missing)
    }
}
