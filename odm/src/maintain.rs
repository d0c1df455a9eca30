//! The write path: every typed write becomes a plan, and no typed write goes around it.
//!
//! A plan is the write itself and the maintenance that the schema asks for: versions and timestamps, which are part of the
//! same write; copies, inverse sides and counters will follow. It is added here and nowhere else. A delete is a mark here, if its
//! model says so.

mod number;
mod removal;
mod routing;

use bson::{DateTime, RawBson, RawDocument, RawDocumentBuf};
use tracing::Instrument;

pub(crate) use number::Numbers;
pub(crate) use removal::{Means, Removal, of_one};

use crate::{
    Error, ErrorKind, Result,
    access::{Access, also, found_by},
    backend::{
        Executor, operation,
        operation::{
            BulkItem, BulkWrite, BulkWritten, Change, FindAndModify, Insert, Modification, Update,
            Updated, Written,
        },
        outcome,
    },
    error,
    query::append,
    schema::{Model, upgrade},
};

/// A write to documents of one model.
#[derive(Debug)]
pub(crate) struct Plan<W> {
    model: &'static Model,
    write: W,
}

/// The write of a plan: one operation of a backend.
pub(crate) trait Write: Sized + Send + 'static {
    /// What the backend tells of it.
    type Done: Send + 'static;

    /// The write with what the framework fills in the documents of the model.
    ///
    /// The values in documents to insert have been filled when they were made.
    fn filled(self, model: &Model) -> Result<Self>;

    /// How many documents it was about.
    fn documents(done: &Self::Done) -> u64;

    /// Whether it is about one document at most that is stored.
    fn is_of_one(&self) -> bool;

    /// What it is about; none for an insert.
    fn filter(&mut self) -> Option<&mut RawDocumentBuf>;

    /// Carries it out.
    fn run(self, executor: &dyn Executor) -> impl Future<Output = Result<Self::Done>> + Send;
}

impl<W: Write> Plan<W> {
    /// # Errors
    ///
    /// [`Encode`](crate::ErrorKind::Encode) for what cannot stand in a document.
    pub(crate) fn new(model: &'static Model, write: W) -> Result<Self> {
        let write = write.filled(model)?;
        Ok(Self { model, write })
    }

    /// The write.
    pub(crate) fn write(&self) -> &W {
        &self.write
    }

    /// Carries the plan out in a task of its own, so that it is not left half done when the caller is dropped.
    pub(crate) async fn run(mut self, access: Access) -> Result<W::Done> {
        let model = self.model;
        let is_of_one = self.write.is_of_one();
        if let Some(filter) = self.write.filter() {
            narrow(&access, model, filter, is_of_one).await?;
        }
        let (told, write) = (access.clone(), self.write);
        let run = async move { write.run(&**access.executor()).await };
        let done = tokio::spawn(run.instrument(told.told().span().clone())).await;
        told.told().writes();
        let done = outcome(done).flatten().map_err(error::of(model))?;
        told.told().had(W::documents(&done));
        Ok(done)
    }
}

impl Write for Insert {
    type Done = u64;

    fn filled(mut self, model: &Model) -> Result<Self> {
        for document in &mut self.documents {
            upgrade::mark(model, document)?;
        }
        Ok(self)
    }

    fn documents(inserted: &u64) -> u64 {
        *inserted
    }

    fn is_of_one(&self) -> bool {
        false
    }

    fn filter(&mut self) -> Option<&mut RawDocumentBuf> {
        None
    }

    async fn run(self, executor: &dyn Executor) -> Result<u64> {
        let inserted = self.documents.len() as u64;
        executor.insert(self).await.map(|()| inserted)
    }
}

impl Write for Update {
    type Done = Updated;

    fn documents(done: &Updated) -> u64 {
        done.matched
    }

    fn is_of_one(&self) -> bool {
        !self.multi
    }

    fn filled(mut self, model: &Model) -> Result<Self> {
        fill(&mut self.change, model)?;
        Ok(self)
    }

    fn filter(&mut self) -> Option<&mut RawDocumentBuf> {
        Some(&mut self.filter)
    }

    async fn run(self, executor: &dyn Executor) -> Result<Updated> {
        executor.update(self).await
    }
}

impl Write for FindAndModify {
    type Done = Option<RawDocumentBuf>;

    fn documents(found: &Option<RawDocumentBuf>) -> u64 {
        found.is_some().into()
    }

    fn is_of_one(&self) -> bool {
        true
    }

    fn filled(mut self, model: &Model) -> Result<Self> {
        if let Modification::Update { change, .. } = &mut self.modification {
            fill(change, model)?;
        }
        Ok(self)
    }

    fn filter(&mut self) -> Option<&mut RawDocumentBuf> {
        Some(&mut self.filter)
    }

    async fn run(self, executor: &dyn Executor) -> Result<Option<RawDocumentBuf>> {
        executor.find_and_modify(self).await
    }
}

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
        Ok(Narrowed {
            model,
            item: self.item,
            is_mark: self.is_mark,
        })
    }
}

/// One of several writes, as it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Narrowed {
    model: &'static Model,
    item: BulkItem,
    is_mark: bool,
}

impl Narrowed {
    /// Whether it is a delete that sets a mark: what it matches is deleted, not changed.
    pub(crate) fn is_mark(&self) -> bool {
        self.is_mark
    }
}

/// Carries out several writes in a task of its own, so that they are not left half done when the caller is dropped.
///
/// Either all of them set marks, or none does: a backend counts together what it has changed.
pub(crate) async fn run_bulk(
    access: Access,
    narrowed: Vec<Narrowed>,
    ordered: bool,
) -> Result<BulkWritten> {
    let are_marks = narrowed.iter().any(Narrowed::is_mark);
    let parts = narrowed.into_iter().map(|write| (write.model, write.item));
    let (models, writes): (Vec<_>, Vec<_>) = parts.unzip();
    let bulk = BulkWrite { writes, ordered };
    let told = access.clone();
    let run = async move { access.executor().bulk_write(bulk).await };
    let done = tokio::spawn(run.instrument(told.told().span().clone())).await;
    told.told().writes();
    let mut done = outcome(done).flatten()?;
    told.told().had(done.inserted + done.matched + done.deleted);
    if are_marks {
        done.deleted += std::mem::take(&mut done.matched);
        done.modified = 0;
    }
    for (result, model) in done.results.iter_mut().zip(models) {
        if let Written::Failed(error) = result {
            *error = error::of(model)(error.clone());
        }
    }
    Ok(done)
}

/// Narrows what a write is about to documents of the model, in today's form. One of a single document says on which shard that is.
async fn narrow(
    access: &Access,
    model: &Model,
    filter: &mut RawDocumentBuf,
    is_of_one: bool,
) -> Result<()> {
    if is_of_one {
        routing::refuse_unrouted(access, model, filter)?;
    }
    upgrade::before_write(access, model, filter).await?;
    if let Some((mark, current)) = upgrade::is_current(model)? {
        also(filter, mark, current)?;
    }
    access.narrow(model, filter)?;
    let find = || Ok(found_by(&model.collection.into(), filter));
    access.tell_plan(model, find).await;
    Ok(())
}

/// Adds what the framework fills in every document that is changed.
fn fill(change: &mut Change, model: &Model) -> Result<()> {
    // The typed language changes documents by operators alone; what else may come must not go unfilled.
    let update = match change {
        Change::Operators { update, .. } => update,
        _ if model.version.is_none() && model.updated.is_none() => return Ok(()),
        _ => {
            let message = "what the framework fills follows only from update operators";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    };
    if let Some(version) = model.version {
        *update = with(update, "$inc", version, 1_i64.into())?;
    }
    if let Some(updated) = model.updated {
        *update = with(update, "$set", updated, DateTime::now().into())?;
    }
    Ok(())
}

/// The update with an operator on one more path.
fn with(
    update: &RawDocument,
    operator: &str,
    path: &str,
    value: RawBson,
) -> Result<RawDocumentBuf> {
    let mut changed = RawDocumentBuf::new();
    let mut paths = RawDocumentBuf::new();
    for field in update.iter() {
        let (name, value) = field.map_err(error::encode)?;
        match value.as_document() {
            Some(own) if name == operator => paths = own.to_owned(),
            _ => append(&mut changed, name.as_str(), RawBson::from(value))?,
        }
    }
    append(&mut paths, path, value)?;
    append(&mut changed, operator, paths)?;
    Ok(changed)
}
