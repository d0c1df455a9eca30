//! Pushes to an array in insertion order.

use bson::{Bson, Document, doc, oid::ObjectId};

use super::{
    super::{
        array_work::{pause_after_change, write_attempts},
        capacity::{
            count_fitting, has_room_in_tail, no_room_condition, resident_room, resident_unchanged,
            room_condition,
        },
        chunks,
        manifest::{ArrayState, ArrayWork, ArrayWorkKind},
        max_tail_elements,
        order::ArrayOrder,
        rewrite,
    },
    ArrayUpdate, MultiStepChange,
    publish::PublishTarget,
};
use crate::{
    Result,
    metadata::overflow::TAIL,
    overflow::ElementSet,
    session::retry,
    write::{WriteOutcome, footprint::put_operator},
};

impl ArrayUpdate {
    /// Returns the condition and the operators of a push to the tail, or `None` if the tail can never hold the values.
    pub(super) fn tail_push(&self, values: &[Bson]) -> Result<Option<(Document, Document)>> {
        let Some(max_current) = max_tail_elements(self.field).checked_sub(values.len()) else {
            return Ok(None);
        };
        let tail = self.field.manifest_path(TAIL);
        let Some(condition) =
            room_condition(&tail, max_current, self.field.max_chunk_bytes, values)?
        else {
            return Ok(None);
        };
        let operators = doc! {
            "$push": { tail: { "$each": values.to_vec() } },
            "$set": { self.field.flag: true },
        };
        Ok(Some((condition, operators)))
    }

    /// Pushes values to the end of the array.
    pub(super) async fn push_elements(&self, values: &[Bson]) -> Result<WriteOutcome> {
        let field = self.field;
        let mut nothing_spilled = true;
        for attempt in write_attempts() {
            if let Some(has_room) = resident_room(self.field, values)?.filter(|_| nothing_spilled) {
                let mut condition = self.nothing_spilled();
                condition.extend(has_room);
                let push = doc! { "$push": { field.stored: { "$each": values.to_vec() } } };
                if let Some(done) = self.try_write(condition, &[&push]).await? {
                    return Ok(done);
                }
            }
            let Some((has_room, push)) = self.tail_push(values)? else {
                return self.push_multi_step(values).await;
            };
            let is_full = match values.first() {
                Some(first) => {
                    no_room_condition(field, field.max_resident.saturating_sub(1), first)?
                }
                None => doc! {},
            };
            let has_manifest = doc! { field.manifest: { "$exists": true } };
            let condition = doc! { "$and": [{ "$or": [has_manifest, is_full] }, has_room] };
            if let Some(done) = self.try_write(condition, &[&push]).await? {
                return Ok(done);
            }
            let Some(owner) = self.read_state().await? else {
                return Ok(WriteOutcome::default());
            };
            nothing_spilled = owner.manifest.is_none();
            match &owner.manifest {
                // Some of the values still fit into the document.
                None => {
                    let split = self.push_split(&owner, values, doc! {}).await?;
                    if let Some(done) = split {
                        return Ok(done);
                    }
                }
                Some(manifest) if manifest.work.is_some() => {
                    let array = self.array_handle(&owner.id);
                    let is_full = !has_room_in_tail(field, manifest, values)?;
                    if is_full {
                        array.complete_or_wait(owner.clone(), attempt).await?;
                    }
                }
                Some(manifest) if !has_room_in_tail(field, manifest, values)? => {
                    self.array_handle(&owner.id).spill_tail(&owner).await?;
                }
                Some(_) => {}
            }
            if attempt > 3 {
                retry::pause_before_retry("no form of the push matched the array", attempt).await;
            }
        }
        Err(self.contention_error())
    }

    /// Pushes as many values as fit into the document, and the rest to the tail, of an array without spilled elements.
    pub(super) async fn push_split(
        &self,
        owner: &ArrayState,
        values: &[Bson],
        mut condition: Document,
    ) -> Result<Option<WriteOutcome>> {
        let field = self.field;
        let resident_count = count_fitting(field, &owner.resident, values)?;
        let (resident, spilled) = values
            .split_at_checked(resident_count)
            .unwrap_or((values, &[]));
        if spilled.is_empty() && resident_count > 0 {
            // The document has room for all values by now.
            return Ok(None);
        }
        let Some((_, mut push)) = self.tail_push(spilled)? else {
            return Ok(None);
        };
        if !resident.is_empty() {
            let each = doc! { "$each": resident.to_vec() };
            put_operator(&mut push, "$push", field.stored, each);
        }
        condition.extend(self.nothing_spilled());
        let unchanged = match owner.resident.len() {
            0 => resident_unchanged(field, &[]),
            len => doc! { field.stored: { "$size": len as i64 } },
        };
        let mut conditions = vec![condition, unchanged];
        if !resident.is_empty() {
            // The array may have the same length with larger elements, so the condition compares the size too.
            let max_current = field.max_resident.saturating_sub(resident.len());
            let max_bytes = field.max_resident_bytes;
            let has_room = room_condition(field.stored, max_current, max_bytes, resident)?;
            conditions.extend(has_room);
        }
        let conditions = doc! { "$and": conditions };
        self.try_write(conditions, &[&push]).await
    }

    /// Pushes more values than the tail can hold.
    pub(super) async fn push_multi_step(&self, values: &[Bson]) -> Result<WriteOutcome> {
        let done = self.run_multi_step(&MultiStepChange::Push(values)).await?;
        done.ok_or_else(|| self.contention_error())
    }

    /// Returns whether a single step can add the elements: to the document, or to the tail.
    pub(super) fn fits_single_step(&self, owner: &ArrayState, values: &[Bson]) -> Result<bool> {
        let nothing_spilled = owner.manifest.is_none();
        if nothing_spilled && count_fitting(self.field, &owner.resident, values)? == values.len() {
            return Ok(true);
        }
        let to_tail = match ArrayOrder::from_field(self.field) {
            Some(order) => self.displaced_by(&order, owner, values)?,
            None => values.to_vec(),
        };
        Ok(self.tail_push(&to_tail)?.is_some())
    }

    /// Pushes the values by chunks that are filled before. With `to_set`, pushes only values that the array does not have, and returns
    /// `None` if a single step is enough.
    pub(super) async fn push_staged(
        &self,
        values: &[Bson],
        to_set: bool,
    ) -> Result<Option<WriteOutcome>> {
        let field = self.field;
        for attempt in write_attempts() {
            let Some(owner) = self.read_idle_state().await? else {
                return Ok(Some(WriteOutcome::default()));
            };
            let id = owner.id.clone();
            let array = self.array_handle(&id);
            if !rewrite::is_resident_sorted(field, &owner) {
                rewrite::spill_or_sort(&array).await?;
                continue;
            }
            let nothing_spilled = owner.manifest.is_none();
            let mut values = values.to_vec();
            if to_set {
                let missing = self.missing_values(&owner, &values).await?;
                if self.fits_single_step(&owner, &missing)? {
                    return Ok(None);
                }
                // An array without spilled elements has no version. The missing values may change before the work is recorded, so
                // keep all values until then.
                if !nothing_spilled {
                    values = missing;
                }
            }
            let work = ArrayWork::new(&self.cx.access, ArrayWorkKind::Stage);
            let condition = self.unchanged_since_read(owner.manifest.as_ref());
            let Some(frozen) = array.begin_work(condition, &work, true).await? else {
                pause_after_change(attempt).await;
                continue;
            };
            let Some((manifest, block)) = frozen.manifest.as_ref().and_then(|manifest| {
                let block = manifest.work.as_ref()?.block.clone();
                Some((manifest, block))
            }) else {
                return Err(self.contention_error());
            };
            let mut unchanged_tail = Document::new();
            if to_set {
                // Values may have been pushed since the read. Spilled elements cannot have changed.
                let unchunked = ElementSet::from_elements(frozen.resident.iter().chain(&block))?;
                values = unchunked.filter_missing(values)?;
                let are_few = chunks::split_for_requests(&values)?.len() <= 1;
                let tail = field.manifest_path(TAIL);
                let (tail, condition) = match are_few {
                    true => (tail, doc! { "$nin": values.clone() }),
                    // The values are too many for one condition. Require an empty tail instead.
                    false => (format!("{tail}.0"), doc! { "$exists": false }),
                };
                unchanged_tail.insert(tail, condition);
            }
            let (operators, spilled) = match ArrayOrder::from_field(field) {
                Some(order) => {
                    self.stage_ordered_push(&order, &frozen.resident, manifest, &values)?
                }
                None => self.stage_push(&frozen.resident, nothing_spilled, &values)?,
            };
            if to_set && spilled.is_empty() {
                // A single step is enough by now.
                array.complete_own_work(work.token).await?;
                continue;
            }
            let elements: Vec<_> = block.into_iter().chain(spilled).collect();
            let count = elements.len() as i64;
            let target = PublishTarget {
                generation: manifest.generation.unwrap_or_else(ObjectId::new),
                first_seq: manifest.next_seq,
                count: manifest.count + count,
                swept_generation: None,
            };
            match self
                .publish_chunks(&array, &work, target, elements, operators, unchanged_tail)
                .await?
            {
                Some(done) => return Ok(Some(done)),
                None => {
                    retry::pause_before_retry("the pending change was taken over", attempt).await
                }
            }
        }
        Err(self.contention_error())
    }

    /// Returns the operators for the owner document, and the elements that go to chunks.
    pub(super) fn stage_push(
        &self,
        resident: &[Bson],
        nothing_spilled: bool,
        values: &[Bson],
    ) -> Result<(Document, Vec<Bson>)> {
        let field = self.field;
        let kept_count = match nothing_spilled {
            true => count_fitting(field, resident, values)?,
            false => 0,
        };
        let (kept, spilled) = values.split_at_checked(kept_count).unwrap_or((values, &[]));
        let mut operators = doc! { "$set": {} };
        if !kept.is_empty() {
            let push = doc! { "$each": kept.to_vec() };
            put_operator(&mut operators, "$push", field.stored, push);
        }
        Ok((operators, spilled.to_vec()))
    }
}
