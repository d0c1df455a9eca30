//! Writes that are sent together.

use tracing::Instrument;

use super::{
    Effect, Means, Removal, Sources, carry_out, computed, copy, fill, link, narrow, overflow, tally,
};
use crate::{
    Error, Result,
    access::Access,
    backend::{
        operation,
        operation::{
            BulkItem, BulkWrite, BulkWritten, Deleted, Insert, Unmatched, Updated, Written,
        },
    },
    error,
    schema::{Model, upgrade},
    task, unit,
};

/// One of several writes, with what the framework fills.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    access: Access,
    model: &'static Model,
    item: BulkItem,
    is_mark: bool,
}

impl Planned {
    /// # Errors
    ///
    /// As [`Plan::new`], and that of what cannot be asked for.
    pub(crate) fn new(
        access: &Access,
        model: &'static Model,
        mut item: BulkItem,
        means: Means,
    ) -> Result<Self> {
        let mut is_mark = false;
        if let operation::Write::Delete(delete) = item.write {
            let removal = Removal::new(model, delete, means)?;
            is_mark = matches!(removal, Removal::Mark(_));
            item.write = removal.into();
        }
        match &mut item.write {
            operation::Write::Insert { document, .. } => upgrade::mark(model, document)?,
            operation::Write::Update(update) => fill(&mut update.change, model)?,
            operation::Write::Delete(_) => {}
        }
        Ok(Self {
            access: access.clone(),
            model,
            item,
            is_mark,
        })
    }

    /// The write, about documents of its model in today's form.
    ///
    /// It is narrowed by its own access: that of a bulk may be one of another scope.
    pub(crate) async fn narrow(mut self) -> Result<Narrowed> {
        let (access, model) = (&self.access, self.model);
        match &mut self.item.write {
            operation::Write::Insert { .. } => {}
            operation::Write::Update(update) => {
                narrow(access, model, &mut update.filter, !update.multi).await?;
            }
            operation::Write::Delete(delete) => {
                narrow(access, model, &mut delete.filter, !delete.multi).await?;
            }
        }
        let effect = match &self.item.write {
            operation::Write::Insert { document, .. } => {
                Effect::Inserts(std::slice::from_ref(document))
            }
            operation::Write::Update(update) => Effect::Changes(&update.change),
            operation::Write::Delete(_) => Effect::Removes,
        };
        let mut is_linking = link::is_linking(access, model, &effect)
            || copy::concerns(access, model, &effect)
            || tally::concerns(access, model, &effect)
            || overflow::concerns(model, &effect)
            || matches!(effect, Effect::Removes) && !model.overflows.is_empty();
        if let (operation::Write::Update(update), false) = (&mut self.item.write, is_linking) {
            is_linking = !computed::at_once(access, model, &mut update.change)?;
        }
        Ok(Narrowed {
            is_linking,
            access: self.access,
            model,
            item: self.item,
            is_mark: self.is_mark,
        })
    }
}

/// One of several writes, as it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Narrowed {
    access: Access,
    model: &'static Model,
    item: BulkItem,
    is_mark: bool,
    /// Whether something follows from it: on the other sides of links, in copies, or in what is computed by an update of its own.
    is_linking: bool,
}

impl Narrowed {
    /// What it may be sent with: others of the same kind and, where something follows from it, nothing.
    pub(crate) fn kind(&self) -> SentWith {
        if self.is_linking {
            SentWith::Nothing
        } else if self.is_mark {
            SentWith::Marks
        } else {
            SentWith::Others
        }
    }

    /// Carries it out with what follows from it.
    async fn run(self) -> Result<BulkWritten> {
        let unmatched = self.item.unmatched;
        let mut done = BulkWritten::default();
        let written = match self.link(&mut done).await {
            Ok(0) if unmatched != Unmatched::Fine => Written::NotApplied,
            Ok(_) => Written::Applied,
            Err(error) => Written::Failed(error),
        };
        done.results = vec![written];
        Ok(done)
    }

    /// Gives how many documents it was about.
    async fn link(self, done: &mut BulkWritten) -> Result<u64> {
        let (access, model) = (self.access, self.model);
        Ok(match self.item.write {
            operation::Write::Insert {
                collection,
                document,
            } => {
                let insert = Insert {
                    collection,
                    documents: vec![document],
                    ordered: true,
                };
                let inserted = carry_out(access, model, insert.into(), Sources::default()).await;
                done.inserted = inserted.map_err(Error::without_inserted)?.into();
                done.inserted
            }
            operation::Write::Update(update) => {
                let updated = carry_out(access, model, update.into(), Sources::default()).await?;
                let updated = Updated::from(updated);
                (done.matched, done.modified) = (updated.matched, updated.modified);
                updated.matched
            }
            operation::Write::Delete(delete) => {
                let removal = Removal::ForGood(delete);
                let removed = carry_out(access, model, removal.into(), Sources::default()).await?;
                done.deleted = Deleted::from(removed).deleted;
                done.deleted
            }
        })
    }
}

/// What a write of a bulk can be sent with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SentWith {
    Others,
    /// Deletes that set a mark: what they match is deleted, not changed.
    Marks,
    /// It has a transaction of its own.
    Nothing,
}

/// Carries out several writes in a task of its own, so that they are not left half done when the caller is dropped.
///
/// All are of one [kind](SentWith): a backend counts together what it has changed.
pub(crate) async fn run_bulk(
    access: Access,
    narrowed: Vec<Narrowed>,
    ordered: bool,
) -> Result<BulkWritten> {
    unit::refuse_outside(&access)?;
    let told = access.clone();
    let kind = narrowed.first().map(Narrowed::kind);
    let parts = narrowed.iter().map(|write| write.model);
    let models: Vec<_> = parts.collect();
    let run = async move {
        let mut narrowed = narrowed;
        match (kind, narrowed.pop()) {
            (Some(SentWith::Nothing), Some(one)) if narrowed.is_empty() => one.run().await,
            (_, last) => {
                let writes = narrowed.into_iter().chain(last).map(|write| write.item);
                let writes = writes.collect();
                let bulk = BulkWrite { writes, ordered };
                access.executor().bulk_write(bulk).await
            }
        }
    };
    let done = task::run(run.instrument(told.told().span().clone())).await;
    told.told().writes();
    let mut done = done?;
    told.told().had(done.inserted + done.matched + done.deleted);
    if kind == Some(SentWith::Marks) {
        done.deleted += std::mem::take(&mut done.matched);
        done.modified = 0;
    }
    for (result, model) in done.results.iter_mut().zip(models) {
        if let Written::Failed(error) = result {
            *error = error::of(model)(computed::said(error.clone()));
        }
    }
    Ok(done)
}
