//! Replacement of a whole array.

use bson::{Bson, Document, doc, oid::ObjectId};

use super::{
    super::{
        ArrayHandle,
        array_work::{pause_after_change, put_all_resident, write_attempts},
        capacity::count_fitting,
        manifest::{ArrayWork, ArrayWorkKind, Manifest},
        order::ArrayOrder,
    },
    ArrayUpdate, MultiStepChange,
    publish::PublishTarget,
};
use crate::{
    Result,
    metadata::overflow::{BOUND, TAIL},
    session::retry,
    write::{WriteOutcome, footprint::put_operator},
};

impl ArrayUpdate {
    /// Replaces all elements by the values.
    pub(super) async fn replace_elements(&self, values: &[Bson]) -> Result<WriteOutcome> {
        let resident_count = count_fitting(self.field, &[], values)?;
        if resident_count == values.len() {
            let set = doc! { "$set": { self.field.stored: values.to_vec() } };
            if let Some(done) = self.try_write(self.nothing_spilled(), &[&set]).await? {
                return Ok(done);
            }
        }
        let done = self
            .run_multi_step(&MultiStepChange::Replace(values, resident_count))
            .await?;
        done.ok_or_else(|| self.contention_error())
    }

    /// Replaces all elements when the values or the current elements are spilled.
    pub(super) async fn replace_multi_step(
        &self,
        values: &[Bson],
        resident_count: usize,
    ) -> Result<WriteOutcome> {
        let field = self.field;
        let (resident, spilled) = values
            .split_at_checked(resident_count)
            .unwrap_or((values, &[]));
        for attempt in write_attempts() {
            let Some(owner) = self.read_idle_state().await? else {
                return Ok(WriteOutcome::default());
            };
            let id = owner.id.clone();
            let array = self.array_handle(&id);
            let set = doc! { "$set": { field.stored: resident.to_vec() } };
            let swept_generation = owner
                .manifest
                .as_ref()
                .and_then(|manifest| manifest.generation);
            if !spilled.is_empty() {
                let work = ArrayWork::new(&self.cx.access, ArrayWorkKind::Stage);
                let condition = self.unchanged_since_read(owner.manifest.as_ref());
                if array.begin_work(condition, &work, false).await?.is_none() {
                    pause_after_change(attempt).await;
                    continue;
                }
                let mut operators = set;
                let no_tail = Vec::<Bson>::new();
                put_operator(&mut operators, "$set", &field.manifest_path(TAIL), no_tail);
                if let Some(order) = ArrayOrder::from_field(field) {
                    let bound = order.bound_between(resident, spilled);
                    put_operator(&mut operators, "$set", &field.manifest_path(BOUND), bound);
                }
                let target = PublishTarget {
                    generation: ObjectId::new(),
                    first_seq: 0,
                    count: spilled.len() as i64,
                    swept_generation,
                };
                match self
                    .publish_chunks(&array, &work, target, spilled.to_vec(), operators, doc! {})
                    .await?
                {
                    Some(done) => return Ok(done),
                    None => {
                        retry::pause_before_retry("the pending change was taken over", attempt)
                            .await
                    }
                }
                continue;
            }
            let done = match &owner.manifest {
                None => self.try_write(self.nothing_spilled(), &[&set]).await?,
                Some(manifest) => {
                    self.clear_spilled(&array, manifest, swept_generation, resident, set)
                        .await?
                }
            };
            match done {
                Some(done) => return Ok(done),
                None => pause_after_change(attempt).await,
            }
        }
        Err(self.contention_error())
    }

    /// Writes all elements as resident, and deletes the chunks of the array afterwards.
    pub(super) async fn clear_spilled(
        &self,
        array: &ArrayHandle<'_>,
        manifest: &Manifest,
        swept_generation: Option<ObjectId>,
        resident: &[Bson],
        mut operators: Document,
    ) -> Result<Option<WriteOutcome>> {
        let work = ArrayWork {
            swept_generation,
            ..ArrayWork::new(&self.cx.access, ArrayWorkKind::Sweep)
        };
        put_all_resident(self.field, &work, resident, &mut operators)?;
        let done = self
            .try_write(self.unchanged_since_read(Some(manifest)), &[&operators])
            .await?;
        if done.is_some() {
            array.complete_own_work(work.token).await?;
        }
        Ok(done)
    }
}
