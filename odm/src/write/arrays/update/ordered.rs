//! Pushes to a sorted array.

use bson::{Bson, Document, doc};

use super::{
    super::{
        array_work::write_attempts,
        capacity::{
            count_fitting, fits_resident, has_room_in_tail, resident_unchanged, room_condition,
        },
        manifest::{ArrayState, ArrayWorkKind, Manifest},
        order::{ArrayOrder, max_resident_elements},
        rewrite,
    },
    ArrayUpdate,
};
use crate::{
    Result,
    metadata::overflow::{BOUND, KIND, TAIL},
    schema::OverflowField,
    session::retry,
    write::{
        WriteOutcome,
        footprint::{merge_update, put_operator},
    },
};

/// The places of pushed elements in a sorted array.
struct Placement {
    /// The pushed elements that become resident.
    resident: Vec<Bson>,
    /// The new resident elements, if old elements must be spilled.
    replacement: Option<Vec<Bson>>,
    /// The elements that go to the tail.
    spilled: Vec<Bson>,
    /// The new bound, if the bound changes.
    bound: Option<Bson>,
}

impl Placement {
    /// Places the values in an array in this state.
    fn place_values(
        order: &ArrayOrder,
        field: &OverflowField,
        owner: &ArrayState,
        values: &[Bson],
    ) -> Result<Self> {
        let bound = owner
            .manifest
            .as_ref()
            .and_then(|manifest| manifest.bound.as_ref());
        let (resident, pushed_to_tail) = match bound {
            Some(bound) => order.split_at_bound(values, bound),
            None => (values.to_vec(), Vec::new()),
        };
        let mut elements: Vec<_> = owner.resident.iter().chain(&resident).cloned().collect();
        if fits_resident(field, &elements)? {
            return Ok(Self {
                resident,
                replacement: None,
                spilled: pushed_to_tail,
                bound: None,
            });
        }
        order.sort_elements(&mut elements);
        let resident_count = count_fitting(field, &[], &elements)?;
        let mut spilled = elements.split_off(resident_count.min(elements.len()));
        let bound = spilled.first().map(|first| order.sort_key(first));
        spilled.extend(pushed_to_tail);
        Ok(Self {
            resident: Vec::new(),
            replacement: Some(elements),
            spilled,
            bound,
        })
    }
}

impl ArrayUpdate {
    /// Pushes elements in sort order.
    pub(super) async fn push_in_order(
        &self,
        order: &ArrayOrder,
        values: &[Bson],
    ) -> Result<WriteOutcome> {
        let pushed = self.push_resident(order, values, doc! {}).await?;
        if let Some(done) = pushed {
            return Ok(done);
        }
        for attempt in write_attempts() {
            let Some(owner) = self.read_ordered_state(attempt).await? else {
                return Ok(WriteOutcome::default());
            };
            let placement = Placement::place_values(order, self.field, &owner, values)?;
            if self.tail_push(&placement.spilled)?.is_none() {
                return self.push_multi_step(values).await;
            }
            let done = self.apply_placement(order, &owner, placement, attempt, Vec::new());
            if let Some(done) = done.await? {
                return Ok(done);
            }
        }
        Err(self.contention_error())
    }

    /// Pushes the elements that the array does not have, in sort order.
    pub(super) async fn add_in_order(
        &self,
        order: &ArrayOrder,
        values: &[Bson],
    ) -> Result<WriteOutcome> {
        let field = self.field;
        let all_missing = doc! { field.stored: { "$nin": values.to_vec() } };
        if let Some(done) = self.push_resident(order, values, all_missing).await? {
            return Ok(done);
        }
        for attempt in write_attempts() {
            let Some(owner) = self.read_ordered_state(attempt).await? else {
                return Ok(WriteOutcome::default());
            };
            if owner.pending_work().is_some() {
                self.array_handle(&owner.id.clone())
                    .complete_or_wait(owner, attempt)
                    .await?;
                continue;
            }
            let missing = self.missing_values(&owner, values).await?;
            let unchanged = self.unchanged_since_read(owner.manifest.as_ref());
            let done = if missing.is_empty() {
                // A pull of no values leaves the array unchanged. The write still runs for the rest of the update.
                let no_change = doc! { "$pullAll": { field.stored: [] } };
                let mut condition = unchanged;
                if owner.manifest.is_none() {
                    condition.extend(self.presence_unchanged(values, &missing)?);
                }
                self.try_write(condition, &[&no_change]).await?
            } else {
                let placement = Placement::place_values(order, field, &owner, &missing)?;
                if self.tail_push(&placement.spilled)?.is_none() {
                    match self.add_multi_step(values).await? {
                        Some(done) => return Ok(done),
                        None => continue,
                    }
                }
                let not_in = doc! { "$nin": missing.clone() };
                let resident = match owner.manifest {
                    Some(_) => doc! { field.stored: not_in.clone() },
                    None => self.presence_unchanged(values, &missing)?,
                };
                let conditions = vec![
                    unchanged,
                    resident,
                    doc! { field.manifest_path(TAIL): not_in },
                ];
                self.apply_placement(order, &owner, placement, attempt, conditions)
                    .await?
            };
            if let Some(done) = done {
                return Ok(done);
            }
        }
        Err(self.contention_error())
    }

    /// Returns the pushed elements that go to the tail, and the displaced old elements.
    pub(super) fn displaced_by(
        &self,
        order: &ArrayOrder,
        owner: &ArrayState,
        values: &[Bson],
    ) -> Result<Vec<Bson>> {
        Ok(Placement::place_values(order, self.field, owner, values)?.spilled)
    }

    /// Pushes elements to an array without spilled elements, if the document has capacity.
    async fn push_resident(
        &self,
        order: &ArrayOrder,
        values: &[Bson],
        condition: Document,
    ) -> Result<Option<WriteOutcome>> {
        let field = self.field;
        let Some(max_current) = max_resident_elements(field).checked_sub(values.len()) else {
            return Ok(None);
        };
        let Some(has_room) =
            room_condition(field.stored, max_current, field.max_resident_bytes, values)?
        else {
            return Ok(None);
        };
        let all_conditions = doc! { "$and": [self.nothing_spilled(), has_room, condition] };
        self.try_write(all_conditions, &[&self.sorted_push(order, values)])
            .await
    }

    /// Returns the operators that push resident elements in sort order.
    fn sorted_push(&self, order: &ArrayOrder, values: &[Bson]) -> Document {
        let push = doc! { "$each": values.to_vec(), "$sort": order.sort_document("") };
        doc! { "$push": { self.field.stored: push } }
    }

    /// Reads the state of a sorted array, when no rewrite is staged.
    async fn read_ordered_state(&self, attempt: u32) -> Result<Option<ArrayState>> {
        if attempt > 1 {
            retry::pause_before_retry("no form of the push matched the array", attempt).await;
        }
        for attempt in write_attempts() {
            let Some(owner) = self.read_state().await? else {
                return Ok(None);
            };
            let is_sorted = rewrite::is_resident_sorted(self.field, &owner);
            let is_staged = owner.pending_work().is_some_and(|work| work.is_staging());
            if is_sorted && !is_staged {
                return Ok(Some(owner));
            }
            let id = owner.id.clone();
            let array = self.array_handle(&id);
            match owner.pending_work() {
                Some(_) => array.complete_or_wait(owner, attempt).await?,
                // The array is older than the declaration of the sort order.
                None => drop(rewrite::spill_or_sort(&array).await?),
            }
        }
        Err(self.contention_error())
    }

    /// Writes the placement, unless a relevant part of the array has changed. Otherwise makes room in the tail, and returns
    /// `None` for a retry.
    async fn apply_placement(
        &self,
        order: &ArrayOrder,
        owner: &ArrayState,
        placement: Placement,
        attempt: u32,
        mut conditions: Vec<Document>,
    ) -> Result<Option<WriteOutcome>> {
        let field = self.field;
        if let Some(manifest) = &owner.manifest {
            if !has_room_in_tail(field, manifest, &placement.spilled)? {
                let array = self.array_handle(&owner.id);
                match manifest.work {
                    Some(_) => array.complete_or_wait(owner.clone(), attempt).await?,
                    None => array.spill_tail(owner).await?,
                }
                return Ok(None);
            }
            conditions.push(self.bound_unchanged(manifest));
        } else {
            conditions.push(self.nothing_spilled());
        }
        let mut operators = Document::new();
        if let Some(replacement) = placement.replacement {
            conditions.push(resident_unchanged(field, &owner.resident));
            put_operator(&mut operators, "$set", field.stored, replacement);
        } else if !placement.resident.is_empty() {
            let (resident, max_bytes) = (&placement.resident, field.max_resident_bytes);
            let max_current = max_resident_elements(field).checked_sub(resident.len());
            let has_room = max_current
                .map(|max_current| room_condition(field.stored, max_current, max_bytes, resident));
            conditions.extend(has_room.transpose()?.flatten());
            operators = self.sorted_push(order, &placement.resident);
        }
        if !placement.spilled.is_empty()
            && let Some((has_room, push)) = self.tail_push(&placement.spilled)?
        {
            conditions.push(has_room);
            merge_update(&mut operators, &push);
        }
        if let Some(bound) = placement.bound {
            put_operator(&mut operators, "$set", &field.manifest_path(BOUND), bound);
        }
        self.try_write(doc! { "$and": conditions }, &[&operators])
            .await
    }

    /// Returns the condition that the bound is unchanged and that no rewrite is staged.
    fn bound_unchanged(&self, manifest: &Manifest) -> Document {
        let bound = manifest.bound.clone().unwrap_or(Bson::Null);
        doc! {
            self.field.manifest: { "$exists": true },
            self.field.manifest_path(BOUND): { "$eq": bound },
            self.field.work_path(KIND): { "$ne": ArrayWorkKind::Stage.name() },
        }
    }

    /// Returns the operators for the owner document, and the elements that go to chunks, for a push of many elements.
    pub(super) fn stage_ordered_push(
        &self,
        order: &ArrayOrder,
        resident: &[Bson],
        manifest: &Manifest,
        values: &[Bson],
    ) -> Result<(Document, Vec<Bson>)> {
        let (inserted, pushed_to_chunks) = match &manifest.bound {
            Some(bound) => order.split_at_bound(values, bound),
            None => (values.to_vec(), Vec::new()),
        };
        let mut elements: Vec<_> = resident.iter().cloned().chain(inserted).collect();
        order.sort_elements(&mut elements);
        let resident_count = count_fitting(self.field, &[], &elements)?;
        let mut spilled = elements.split_off(resident_count.min(elements.len()));
        let bound = match (&manifest.bound, spilled.first()) {
            (Some(bound), None) => bound.clone(),
            _ => order.bound_between(&elements, &spilled),
        };
        spilled.extend(pushed_to_chunks);
        let set = doc! { self.field.stored: elements, self.field.manifest_path(BOUND): bound };
        Ok((doc! { "$set": set }, spilled))
    }
}
