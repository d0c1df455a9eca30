//! The write path: every typed write becomes a plan, and no typed write goes around it.
//!
//! A plan is the write itself and the follow-up work that the schema asks for. Versions, timestamps and computed fields are part
//! of the same write. Inverses, copies, rollups and chunk documents are follow-up writes. A delete of a model with
//! `soft_delete` is an update that sets the date.

mod any;
mod behind;
mod blocked;
mod bulk;
mod computed;
mod copy;
mod link;
mod number;
mod overflow;
mod promise;
mod removal;
mod routing;
mod scope;
mod stored;
mod tally;

use std::sync::atomic::{AtomicBool, Ordering};

use any::Any;
use bson::{DateTime, RawBson, RawDocument, RawDocumentBuf};
use tracing::Instrument;

pub use blocked::Rejection;
use blocked::is_rejection;
pub(crate) use blocked::{promises, recorded, rejections, unblock};
pub(crate) use bulk::{Narrowed, Planned, SentWith, run_bulk};
pub(crate) use computed::{Miscomputed, compute_again, fill as compute, fill_open, miscomputed};
use copy::Followed;
pub(crate) use copy::{
    Sources, StaleCopy, bring_current, brings_copies, cleared, copied, copy_again, drifted,
    of_a_save, resolve, snapshots, stale, with_indexes as with_copies,
};
pub use link::Consequences;
pub(crate) use link::{
    Effect, Finished, Mending, PROMISE, Rule, bring_up, consequences, ids_at, list_once, listed,
    mend, refuse_another, rules,
};
pub(crate) use number::Numbers;
pub(crate) use overflow::{
    Folded, Misplaced, Wrong, anywhere, fold, kept_inside, look_for_orphans, mend_orphan,
    mend_overflow, misplaced, owed_outside, owing_outside, spill, too_long_or_large,
    with_indexes as with_overflows,
};
use promise::Said;
pub(crate) use promise::{LEASE, Promise};
pub(crate) use removal::{Means, Removal, of_one};
pub(crate) use tally::{Miscounted, count_again, miscounted, with_indexes as with_tallies};

use crate::{
    Error, ErrorKind, Result,
    access::{Access, also, found_by},
    backend::{
        BoxFuture, Executor,
        operation::{Change, FindAndModify, Insert, Modification, Update, Updated},
    },
    error,
    query::append,
    schema::{Model, upgrade},
    task, unit,
};

/// What the writes of this process that go to one database know of each other.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// What is known of the indexes of the database.
    searched: copy::Searched,
    /// What tasks are finishing for others.
    settling: link::Settling,
    /// What waits to be counted.
    counting: tally::Counting,
    behind: behind::Behind,
}

impl Shared {
    /// What is carried out behind its answer.
    pub(crate) fn behind(&self) -> &behind::Behind {
        &self.behind
    }
}

/// Finishes what writes to documents of a model have begun. One that cannot be finished keeps none of the others from it.
pub(crate) async fn settle(
    access: &Access,
    model: &'static Model,
    settled: &mut Finished,
) -> Result<()> {
    link::settle(access, model, settled).await?;
    copy::settle(access, model, settled).await?;
    tally::settle(access, model, settled).await?;
    overflow::settle(access, model, settled).await
}

/// A write to documents of one model.
#[derive(Debug)]
pub(crate) struct Plan<W> {
    model: &'static Model,
    write: W,
    /// What was read of the documents that are copied from.
    sources: Sources,
}

/// The write of a plan: one operation of a backend.
pub(crate) trait Write: Clone + Sized + Send + Sync + Into<Any> + 'static {
    /// What the backend tells of it.
    type Done: Send + From<any::Done> + 'static;

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

    /// Which of several documents comes first; none in particular unless it says so.
    fn order(&self) -> Option<&RawDocument> {
        None
    }

    /// What it does to references.
    fn effect(&self) -> Effect<'_>;

    /// The documents that it inserts.
    fn documents_to_insert(&mut self) -> Option<&mut [RawDocumentBuf]> {
        None
    }

    /// What it makes of documents; none if they are gone, or new.
    fn change(&mut self) -> Option<&mut Change> {
        None
    }

    /// The same write as one that gives the document back as it was: only for an update of one document by operators, which
    /// inserts none.
    fn giving_back(&self) -> Option<FindAndModify> {
        None
    }

    /// The document that it gives, if that is as it is behind the write.
    fn found_behind<'d>(&self, done: &'d mut Self::Done) -> Option<&'d mut RawDocumentBuf> {
        let _ = done;
        None
    }

    /// What is told of the one document that such a write was about, and that is another one now or not.
    fn done_to_one(is_modified: bool) -> Self::Done {
        Self::done(is_modified.into())
    }

    /// What is told of so many documents that were changed in a plain way; of none it is where a sum begins.
    fn done(documents: u64) -> Self::Done;

    /// Adds what was done to another document.
    fn add(sum: &mut Self::Done, done: Self::Done);

    /// Carries it out.
    fn run(self, executor: &dyn Executor) -> impl Future<Output = Result<Self::Done>> + Send;

    /// Carries it out and then an update of the same documents, in one transaction.
    fn run_before(
        self,
        executor: &dyn Executor,
        then: Update,
    ) -> impl Future<Output = Result<Self::Done>> + Send {
        async move {
            let done = self.run(executor).await?;
            executor.update(then).await?;
            Ok(done)
        }
    }
}

impl<W: Write> Plan<W> {
    /// # Errors
    ///
    /// [`Encode`](crate::ErrorKind::Encode) for what cannot stand in a document.
    pub(crate) fn new(model: &'static Model, write: W) -> Result<Self> {
        let write = write.filled(model)?;
        Ok(Self {
            model,
            write,
            sources: Sources::default(),
        })
    }

    /// A write that changes how documents are stored, and not what they say: neither their version nor their timestamp changes.
    pub(crate) fn of_stored_form(model: &'static Model, write: W) -> Self {
        Self {
            model,
            write,
            sources: Sources::default(),
        }
    }

    /// The same, with what was read already of the documents that are copied from.
    pub(crate) fn with_sources(self, sources: Sources) -> Self {
        Self { sources, ..self }
    }

    /// The write.
    pub(crate) fn write(&self) -> &W {
        &self.write
    }

    /// Carries the plan out in a task of its own, so that it is not left half done when the caller is dropped.
    pub(crate) async fn run(self, access: Access) -> Result<W::Done> {
        let done = perform(access, self.model, self.write.into(), self.sources);
        done.await.map(Into::into)
    }
}

/// The same of a write of any kind: it is compiled here, and nothing of it where the models are.
fn perform(
    access: Access,
    model: &'static Model,
    mut write: Any,
    sources: Sources,
) -> BoxFuture<'static, Result<any::Done>> {
    Box::pin(async move {
        unit::refuse_outside(&access).map_err(error::of(model))?;
        let is_of_one = write.is_of_one();
        if let Some(filter) = write.filter() {
            narrow(&access, model, filter, is_of_one).await?;
        }
        let told = access.clone();
        let run = carry_out(access, model, write, sources);
        let done = task::run(run.instrument(told.told().span().clone())).await;
        told.told().writes();
        let done = done.map_err(error::of(model))?;
        told.told().had(Any::documents(&done));
        Ok(done)
    })
}

/// Carries a write out with all that follows from it.
async fn carry_out(
    access: Access,
    model: &'static Model,
    mut write: Any,
    mut sources: Sources,
) -> Result<any::Done> {
    scope::refuse_references(&access, model, &write.effect())?;
    if !model.overflows.is_empty() {
        copy::fill_elements(&access, model, &mut write, &mut sources).await?;
    }
    match overflow::concerns(model, &write.effect()) {
        true => overflow::run(access, model, write, sources).await,
        false => inside(access, model, write, sources).await,
    }
}

/// Carries a write out with what follows from it elsewhere: what overflows is not in it any more.
async fn inside<W: Write>(
    access: Access,
    model: &'static Model,
    mut write: W,
    mut sources: Sources,
) -> Result<W::Done> {
    let mut owed = copy::prepare(&access, model, &mut write, &mut sources).await?;
    if owed.is_nothing() {
        return tally::run(access, model, write, &mut owed).await;
    }
    let mut together = None;
    if owed.is_together() {
        let is_rejected = AtomicBool::new(false);
        let work = |access: Access| {
            let (write, owed, is_rejected) = (write.clone(), &owed, &is_rejected);
            is_rejected.store(false, Ordering::Relaxed);
            async move {
                // Copies are revalidated after the commit.
                let mut unseen = owed.clone();
                let done = tally::run(access.clone(), model, write, &mut unseen).await?;
                if access.unit().is_none() || W::documents(&done) == 0 {
                    return Ok((done, Followed::Nobody));
                }
                let followed = owed.together(&access, model).await;
                let followed = followed.map_err(|error| {
                    is_rejected.store(is_rejection(&error), Ordering::Relaxed);
                    access.fail(error)
                });
                Ok((done, followed?))
            }
        };
        together = match access.together(unit::ATTEMPTS, work).await {
            Ok((done, followed)) => Some((Ok(done), followed)),
            // A dependent rejects a copy. Commit the write without the fan-out, which stays pending.
            Err(_) if access.unit().is_none() && is_rejected.load(Ordering::Relaxed) => None,
            Err(error) => Some((Err(error), Followed::Nobody)),
        };
    }
    let (done, followed) = match together {
        Some(done) => done,
        None => (
            tally::run(access.clone(), model, write, &mut owed).await,
            Followed::Nobody,
        ),
    };
    let owed = owed.behind(followed);
    match (&done, access.unit()) {
        (Ok(done), _) if W::documents(done) == 0 => {}
        (Ok(_), None) => owed.carry_out(access, model).await,
        // Some of it may have been written.
        (Err(_), None) => owed.carry_out_behind(&access, model),
        // Nothing of it is there before that.
        (Ok(_), Some(_)) => owed.carry_out_behind(&access, model),
        (Err(_), Some(_)) => {}
    }
    done
}

/// What a write leaves to be done that is part of another one.
#[derive(Debug, Clone)]
struct Left {
    copies: copy::Owed,
    counts: Option<Said>,
}

impl Left {
    /// Does it behind what this is part of.
    fn carry_out_behind(self, access: &Access, model: &'static Model) {
        self.copies.carry_out_behind(access, model);
        if let Some(said) = self.counts {
            tally::count_behind(access, model, said);
        }
    }
}

/// Carries a write out with the other sides of links.
async fn linked<W: Write>(access: Access, model: &'static Model, mut write: W) -> Result<W::Done> {
    let is_linking = link::is_linking(&access, model, &write.effect());
    let mut is_promised = || {
        let filter = write.filter();
        filter.is_some_and(|filter| link::is_promised(filter))
    };
    match is_linking && !is_promised() {
        true => link::run(access, model, write).await,
        false if is_taking_along(model, &write) => overflow::remove(&access, model, write).await,
        false => computed::run(&access, model, write).await,
    }
}

/// Whether what is outside of its documents goes with them.
fn is_taking_along<W: Write>(model: &Model, write: &W) -> bool {
    !model.overflows.is_empty() && matches!(write.effect(), Effect::Removes)
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

    fn effect(&self) -> Effect<'_> {
        Effect::Inserts(&self.documents)
    }

    fn documents_to_insert(&mut self) -> Option<&mut [RawDocumentBuf]> {
        Some(&mut self.documents)
    }

    fn done(documents: u64) -> u64 {
        documents
    }

    fn add(sum: &mut u64, done: u64) {
        *sum += done;
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

    fn effect(&self) -> Effect<'_> {
        Effect::Changes(&self.change)
    }

    fn change(&mut self) -> Option<&mut Change> {
        Some(&mut self.change)
    }

    fn giving_back(&self) -> Option<FindAndModify> {
        let is_plain = matches!(self.change, Change::Operators { .. });
        (is_plain && !self.multi && !self.upsert).then(|| FindAndModify {
            collection: self.collection.clone(),
            filter: self.filter.clone(),
            sort: None,
            projection: None,
            modification: Modification::Update {
                change: self.change.clone(),
                upsert: false,
                return_new: false,
            },
        })
    }

    fn done_to_one(is_modified: bool) -> Updated {
        Updated {
            modified: is_modified.into(),
            ..Self::done(1)
        }
    }

    fn done(documents: u64) -> Updated {
        Updated {
            matched: documents,
            modified: documents,
            upserted_id: None,
        }
    }

    fn add(sum: &mut Updated, done: Updated) {
        sum.matched += done.matched;
        sum.modified += done.modified;
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

    fn order(&self) -> Option<&RawDocument> {
        self.sort.as_deref()
    }

    fn effect(&self) -> Effect<'_> {
        match &self.modification {
            Modification::Delete => Effect::Removes,
            Modification::Update { change, .. } => Effect::Changes(change),
        }
    }

    fn change(&mut self) -> Option<&mut Change> {
        match &mut self.modification {
            Modification::Update { change, .. } => Some(change),
            Modification::Delete => None,
        }
    }

    fn found_behind<'d>(
        &self,
        done: &'d mut Option<RawDocumentBuf>,
    ) -> Option<&'d mut RawDocumentBuf> {
        let modification = &self.modification;
        let is_new = matches!(
            modification,
            Modification::Update {
                return_new: true,
                ..
            }
        );
        done.as_mut().filter(|_| is_new)
    }

    fn done(_: u64) -> Option<RawDocumentBuf> {
        None
    }

    fn add(sum: &mut Option<RawDocumentBuf>, done: Option<RawDocumentBuf>) {
        *sum = sum.take().or(done);
    }

    async fn run(self, executor: &dyn Executor) -> Result<Option<RawDocumentBuf>> {
        executor.find_and_modify(self).await
    }

    async fn run_before(
        mut self,
        executor: &dyn Executor,
        then: Update,
    ) -> Result<Option<RawDocumentBuf>> {
        let Modification::Update {
            change,
            return_new: true,
            ..
        } = &mut self.modification
        else {
            let found = self.run(executor).await?;
            executor.update(then).await?;
            return Ok(found);
        };
        // It is given back as it is behind both.
        let first = Update {
            collection: self.collection.clone(),
            filter: self.filter.clone(),
            change: std::mem::replace(change, then.change),
            multi: false,
            upsert: false,
        };
        if executor.update(first).await?.matched == 0 {
            return Ok(None);
        }
        self.filter = then.filter;
        self.run(executor).await
    }
}

/// Narrows what a write is about to documents of the model, in today's form. One of a single document says on which shard that is.
async fn narrow(
    access: &Access,
    model: &'static Model,
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
