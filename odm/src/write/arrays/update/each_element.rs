//! Changes of the elements in place, resident and spilled.

use bson::{Document, doc};

use super::{
    super::{
        array_work::{ArrayHandle, write_attempts},
        manifest::{ArrayState, ArrayWork, ArrayWorkKind, Manifest},
    },
    ArrayUpdate, MultiStepChange,
    growth::can_grow,
};
use crate::{
    Result,
    metadata::overflow::{COUNT, VERSION},
    write::{
        WriteOutcome,
        metadata_update::{parse_document, set_at, to_raw_document},
    },
};

impl ArrayUpdate {
    /// Applies the operators to the elements.
    pub(super) async fn change_each(
        &self,
        operators: &Document,
        changes_count: bool,
        growth: usize,
    ) -> Result<WriteOutcome> {
        let mut condition = self.nothing_spilled();
        if growth > 0 {
            condition.extend(can_grow(self.field, growth));
        }
        if let Some(done) = self.try_write(condition, &[operators]).await? {
            return Ok(done);
        }
        let change = MultiStepChange::Each(operators, changes_count, growth);
        let done = self.run_multi_step(&change).await?;
        done.ok_or_else(|| self.contention_error())
    }

    /// Applies the operators to the elements in the owner document, and then to the elements in chunks.
    pub(super) async fn change_each_multi_step(
        &self,
        operators: &Document,
        changes_count: bool,
        growth: usize,
    ) -> Result<WriteOutcome> {
        let change = self.footprint.for_chunks(operators)?;
        let tail_operators = self.footprint.for_tail(operators);
        for attempt in write_attempts() {
            let work = ArrayWork::new(
                &self.cx.access,
                ArrayWorkKind::Change {
                    change: change.clone(),
                    changes_count,
                },
            );
            let record_work = doc! {
                "$inc": { self.field.manifest_path(VERSION): 1_i64 },
                "$set": { self.field.pending_change: work.to_document()? },
            };
            let mut unchanged = Document::new();
            if growth > 0 {
                let Some(owner) = self.read_idle_state().await? else {
                    return Ok(WriteOutcome::default());
                };
                unchanged = self.ensure_growth_fits(&owner, operators, growth).await?;
            }
            let all_operators = [operators, &tail_operators, &record_work];
            let mut idle = self.is_idle();
            idle.extend(unchanged.clone());
            if let Some(mut done) = self.try_write(idle, &all_operators).await? {
                // The document may no longer match the filter of the write, so find the document by id.
                let id = self.document_id()?;
                let array = self.array_handle(&id);
                array.complete_own_work(work.token).await?;
                if changes_count {
                    self.refresh_count(&array, &mut done).await?;
                }
                return Ok(done);
            }
            let mut nothing_spilled = self.nothing_spilled();
            nothing_spilled.extend(unchanged);
            if let Some(done) = self.try_write(nothing_spilled, &[operators]).await? {
                return Ok(done);
            }
            let Some(owner) = self.read_state().await? else {
                return Ok(WriteOutcome::default());
            };
            if owner.pending_work().is_some() {
                let id = owner.id.clone();
                self.array_handle(&id)
                    .complete_or_wait(owner, attempt)
                    .await?;
            }
        }
        Err(self.contention_error())
    }

    /// Refreshes the spilled count in the returned document.
    ///
    /// The document was returned before the chunks changed. If no other write has changed the chunks since then, the current
    /// count belongs to that version. Otherwise the document keeps the old count.
    async fn refresh_count(&self, array: &ArrayHandle<'_>, done: &mut WriteOutcome) -> Result<()> {
        let Some(raw) = &mut done.document else {
            return Ok(());
        };
        if !self.write.returns_new_document() {
            return Ok(());
        }
        let returned = ArrayState::from_document(self.field, raw)?.manifest;
        let current = array.read_state().await?.and_then(|owner| owner.manifest);
        let (Some(returned), Some(current)) = (returned, current) else {
            return Ok(());
        };
        let chunk_version = |manifest: &Manifest| (manifest.generation, manifest.version);
        if chunk_version(&returned) == chunk_version(&current) {
            let mut document = parse_document(raw)?;
            let count_path = self.field.manifest_path(COUNT);
            set_at(&mut document, &count_path, current.count);
            *raw = to_raw_document(&document)?;
        }
        Ok(())
    }
}
