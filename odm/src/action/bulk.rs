//! Several writes in as few round trips as the backend has for them.

use std::{fmt, pin::Pin};

use super::{
    delete::{Delete, DeleteHow},
    insert::{InsertOne, insert},
    target::{AllMatching, ById, ByIdWhen, Counted, WithId},
    update::{How, Prepared, Update, Updated},
    upsert::Upsert,
};
use crate::{
    Error, ErrorKind, Result,
    access::Access,
    backend::{
        BoxFuture,
        operation::{BulkItem, BulkWritten, Unmatched, Write, Written},
    },
    document::{Document, Draft},
    error,
    maintain::{Means, Narrowed, Planned, SentWith, run_bulk},
    query::encode_new_document,
};

/// Several writes, to documents of one model or of several; made by [`Session::bulk`](crate::Session::bulk).
///
/// They are the same as when awaited by themselves, each atomic for itself; the bulk as a whole is not, unless it runs in a
/// transaction. Each reaches what the session reaches that made it, so that a bulk may be about several
/// [scopes](crate::scope). They go in order, and the first that fails ends them: an update by id of a document that is not there fails, one
/// with a condition is merely [`NotApplied`](BulkResult::NotApplied). [`unordered`](Self::unordered) carries out all that can
/// be, in any order. In a transaction the first failure ends the transaction.
///
/// The embedded engine writes them in one commit. On MongoDB, writes of one kind to one collection are one command where they
/// stand together, or anywhere in an unordered bulk; such a command is not tried again when the connection is lost. Deletes
/// with a condition go one by one, and in a transaction updates by id do too. An update with `or_insert` or of which only the
/// outcome tells whether it keeps to the rules of its model, an insert
/// of a model whose `_id` has a number of the framework, and any write of a model with hooks, is carried out by itself, in
/// its turn. A push to an array with a `max` costs a further
/// query if it did not apply, and with `update_many` always.
///
/// ```
/// # use odm::prelude::*;
/// # #[derive(Clone, Serialize, Deserialize, Document)]
/// # #[document(collection = "posts")]
/// # struct Post { #[serde(rename = "_id")] id: i64, title: String, votes: i64 }
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "users")]
/// # struct User { #[serde(rename = "_id")] id: i64, karma: i64 }
/// # #[derive(Schema)] #[schema(models(Post, User))] struct Blog;
/// # async fn example(db: odm::Database<Blog>, post: Post, more: Vec<Post>) -> odm::Result<()> {
/// let report = db
///     .bulk()
///     .add(db.insert(post))
///     .add(db.update::<Post>(7).inc(|p| p.votes(), 1))
///     .add(db.update_many::<User>(|u| u.karma().lt(0)).set(|u| u.karma(), 0))
///     .add(db.delete::<User>(3).when(|u| u.karma().eq(0)))
///     .add_all(more.into_iter().map(|post| db.insert(post)))
///     .await?
///     .into_result()?;
/// println!("{} new posts", report.inserted);
/// # Ok(())
/// # }
/// ```
#[must_use = "a bulk of writes happens when it is awaited"]
pub struct Bulk {
    access: Access,
    entries: Vec<BulkEntry>,
    ordered: bool,
}

impl Bulk {
    pub(crate) fn new(access: Access) -> Self {
        Self {
            access,
            entries: Vec::new(),
            ordered: true,
        }
    }

    /// One write more.
    #[expect(
        clippy::should_implement_trait,
        reason = "as the builder that it is, not as a number"
    )]
    pub fn add(mut self, write: impl IntoBulk) -> Self {
        self.entries.push(write.into_bulk());
        self
    }

    /// Several writes more, of one kind.
    pub fn add_all(mut self, writes: impl IntoIterator<Item: IntoBulk>) -> Self {
        let entries = writes.into_iter().map(IntoBulk::into_bulk);
        self.entries.extend(entries);
        self
    }

    /// In any order, and all that can be carried out whichever of them fail.
    pub fn unordered(mut self) -> Self {
        self.ordered = false;
        self
    }

    async fn run(self) -> Result<BulkReport> {
        let mut run = Run {
            access: self.access,
            ordered: self.ordered,
            report: BulkReport::of(self.entries.len()),
            ready: Vec::new(),
        };
        for (position, entry) in self.entries.into_iter().enumerate() {
            if !run.take(position, entry).await? {
                return Ok(run.report);
            }
        }
        run.flush().await?;
        Ok(run.report)
    }
}

impl IntoFuture for Bulk {
    type Output = Result<BulkReport>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for Bulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulk")
            .field("writes", &self.entries.len())
            .field("ordered", &self.ordered)
            .finish_non_exhaustive()
    }
}

/// What the writes of a [`Bulk`] did: of each, and together.
#[must_use = "some of the writes may have failed: `into_result` makes that an error"]
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct BulkReport {
    /// What became of each write, in the order in which they were added.
    pub results: Vec<BulkResult>,
    /// How many documents were inserted.
    pub inserted: u64,
    /// How many documents updates were about.
    pub matched: u64,
    /// How many of them are different now.
    pub modified: u64,
    /// How many documents were deleted.
    pub deleted: u64,
}

/// What became of one write of a [`Bulk`].
#[derive(Debug, Clone)]
pub enum BulkResult {
    /// It was carried out. That is also so if no document was there for an `update_many` or a `delete_many`, or for a
    /// `delete` by an id alone.
    Applied,
    /// No document met the condition of an update or a delete, and nothing was written.
    NotApplied,
    /// It failed, with the error that it has by itself.
    Failed(Error),
    /// It was not attempted, because a write before it failed.
    NotAttempted,
}

impl BulkResult {
    /// The error, if it failed.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        match self {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Whether it was carried out.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied)
    }
}

impl BulkReport {
    fn of(writes: usize) -> Self {
        Self {
            results: vec![BulkResult::NotAttempted; writes],
            ..Self::default()
        }
    }

    /// Whether no write failed. One with a condition that was not met has not failed.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.failures().next().is_none()
    }

    /// The writes that failed: the position of each, from 0, and why.
    pub fn failures(&self) -> impl Iterator<Item = (usize, &Error)> {
        let results = self.results.iter().enumerate();
        results.filter_map(|(position, result)| Some((position, result.error()?)))
    }

    /// The report, if no write failed.
    ///
    /// # Errors
    ///
    /// The first failure; [`Error::failures`] has each with its position.
    pub fn into_result(self) -> Result<Self> {
        let failures = self.failures().map(|(at, error)| (at, error.clone()));
        let failures: Vec<_> = failures.collect();
        match failures.first() {
            None => Ok(self),
            Some((_, first)) => Err(first.clone().with_failures(failures)),
        }
    }
}

/// What can be part of a [`Bulk`]: an insert, an update, an upsert or a delete that only tells what it did.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a bulk",
    label = "not a write that only tells what it did",
    note = "a bulk takes what `insert`, `update` (with `or_insert` too), `update_many`, `delete` and `delete_many` make; what gives a document back (`returning_after`, `update_first`) is awaited by itself, and so is a `save`"
)]
pub trait IntoBulk {
    #[doc(hidden)]
    fn into_bulk(self) -> BulkEntry;
}

/// A write on its way into a bulk.
#[doc(hidden)]
pub struct BulkEntry {
    access: Access,
    planned: Result<Option<Planned>>,
    /// What must be well before the write.
    before: Option<Look>,
    /// What else it may mean that no document matched.
    unmatched: Option<SecondLook>,
    /// How the write is carried out by itself, if it is more than one operation.
    alone: Option<Alone>,
}

/// A write that is carried out by itself, and what it counts.
type Alone = Box<dyn FnOnce() -> BoxFuture<'static, Result<BulkReport>> + Send>;

/// A look at the stored documents, which gives an error if a write cannot be, or could not have been, carried out.
type Look = Box<dyn FnOnce() -> BoxFuture<'static, Result<()>> + Send>;

/// A look at the stored documents after an update has matched none: an error that tells why, or what a second try has done.
type SecondLook = Box<dyn FnOnce() -> BoxFuture<'static, Result<Option<Updated>>> + Send>;

#[diagnostic::do_not_recommend]
impl<T: Document> IntoBulk for InsertOne<T> {
    fn into_bulk(self) -> BulkEntry {
        let (access, document) = self.into_parts();
        let is_draft = document.as_ref().is_ok_and(|document| !document.is_whole());
        let is_more = is_draft || T::HAS_HOOKS || T::MODEL.number.is_some();
        if is_more {
            let session = access.clone();
            let run = async move {
                let inserted = insert(access, vec![document?]).await;
                inserted.map_err(Error::without_inserted)?;
                Ok(BulkReport {
                    results: vec![BulkResult::Applied],
                    inserted: 1,
                    ..BulkReport::default()
                })
            };
            return BulkEntry::alone(session, run);
        }
        let document = document.and_then(Draft::into_whole);
        let document = document
            .and_then(|document| encode_new_document(&document).map_err(error::of_model::<T>));
        let planned = document.and_then(|document| {
            let write = Write::Insert {
                collection: T::COLLECTION.into(),
                document,
            };
            plan::<T>(&access, write, Unmatched::Fine)
        });
        BulkEntry {
            access,
            planned,
            before: None,
            unmatched: None,
            alone: None,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<T: Document> IntoBulk for Update<T, ById> {
    fn into_bulk(self) -> BulkEntry {
        update_by_id(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Document> IntoBulk for Update<T, ByIdWhen> {
    fn into_bulk(self) -> BulkEntry {
        update_by_id(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Document> IntoBulk for Update<T, AllMatching> {
    fn into_bulk(self) -> BulkEntry {
        if T::HAS_HOOKS {
            return update_hooked(self);
        }
        let access = self.access.clone();
        let (planned, update) = match self.prepare() {
            Err(error) => (Err(error), None),
            Ok(update) if update.is_checked_behind() => return update_alone(update),
            Ok(update) => {
                let write = update.operation(true).map(Write::Update);
                let planned = write.and_then(|write| plan::<T>(&access, write, Unmatched::Fine));
                (planned, Some(update))
            }
        };
        let before = update.filter(Prepared::has_requirements).map(|update| {
            let look: Look = Box::new(move || Box::pin(async move { update.look_first().await }));
            look
        });
        BulkEntry {
            access,
            planned,
            before,
            unmatched: None,
            alone: None,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<T: Document, K: Counted> IntoBulk for Delete<T, K> {
    fn into_bulk(self) -> BulkEntry {
        if T::HAS_HOOKS {
            return delete_hooked(self);
        }
        let is_told = self.target.id().is_some() && self.target.only_id().is_none();
        let unmatched = match is_told {
            true => Unmatched::Told,
            false => Unmatched::Fine,
        };
        let write = self.operation().map(Write::Delete);
        BulkEntry {
            planned: write.and_then(|write| {
                let item = BulkItem { write, unmatched };
                Planned::new(&self.access, &T::MODEL, item, self.means).map(Some)
            }),
            access: self.access,
            before: None,
            unmatched: None,
            alone: None,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<T: Document, K: WithId> IntoBulk for Upsert<T, K> {
    fn into_bulk(self) -> BulkEntry {
        BulkEntry::alone(self.access().clone(), self.counted())
    }
}

fn update_by_id<T: Document, K: Counted>(update: Update<T, K>) -> BulkEntry {
    if T::HAS_HOOKS {
        return update_hooked(update);
    }
    let access = update.access.clone();
    let update = match update.prepare() {
        Ok(update) => update,
        Err(error) => {
            return BulkEntry {
                access,
                planned: Err(error),
                before: None,
                unmatched: None,
                alone: None,
            };
        }
    };
    if update.is_checked_behind() || update.may_spill() {
        return update_alone(update);
    }
    // Where that may be a failure, nothing may follow before it is known.
    let must_look = update.has_requirements() || update.aim.only_id.is_some();
    let unmatched = match must_look {
        true => Unmatched::Stops,
        false => Unmatched::Told,
    };
    let write = update.operation(false).map(Write::Update);
    let planned = write.and_then(|write| plan::<T>(&access, write, unmatched));
    let look: SecondLook = Box::new(move || {
        Box::pin(async move {
            let done = update.look_again().await?;
            if done.is_none() {
                update.refuse_missing().await?;
            }
            Ok(done)
        })
    });
    BulkEntry {
        access,
        planned,
        before: None,
        unmatched: must_look.then_some(look),
        alone: None,
    }
}

/// An update of which only the outcome tells whether it keeps to the rules of its model.
fn update_alone(update: Prepared) -> BulkEntry {
    let access = update.access.clone();
    let is_many = update.is_of_many();
    let run = async move {
        let done = update.count(is_many).await?;
        if !done.applied() {
            update.refuse_missing().await?;
        }
        Ok(updated(done, is_many))
    };
    BulkEntry::alone(access, run)
}

/// An update of a model with hooks.
fn update_hooked<T: Document, K: Counted>(update: Update<T, K>) -> BulkEntry {
    let is_many = update.target.id().is_none();
    let access = update.access.clone();
    let run = async move {
        let done = update.perform(How::Count).await?.counted();
        Ok(updated(done, is_many))
    };
    BulkEntry::alone(access, run)
}

/// A delete in a model with hooks.
fn delete_hooked<T: Document, K: Counted>(delete: Delete<T, K>) -> BulkEntry {
    let is_told = delete.target.id().is_some() && delete.target.only_id().is_none();
    let access = delete.access.clone();
    let run = async move {
        let (done, _) = delete.perform(DeleteHow::Count).await?;
        let result = match done.applied() || !is_told {
            true => BulkResult::Applied,
            false => BulkResult::NotApplied,
        };
        Ok(BulkReport {
            results: vec![result],
            deleted: done.deleted,
            ..BulkReport::default()
        })
    };
    BulkEntry::alone(access, run)
}

/// What an update did, by itself.
fn updated(done: Updated, is_many: bool) -> BulkReport {
    let result = match done.applied() || is_many {
        true => BulkResult::Applied,
        false => BulkResult::NotApplied,
    };
    BulkReport {
        results: vec![result],
        matched: done.matched,
        modified: done.modified,
        ..BulkReport::default()
    }
}

impl BulkEntry {
    fn alone(
        access: Access,
        run: impl Future<Output = Result<BulkReport>> + Send + 'static,
    ) -> Self {
        Self {
            access,
            planned: Ok(None),
            before: None,
            unmatched: None,
            alone: Some(Box::new(move || Box::pin(run))),
        }
    }
}

fn plan<T: Document>(
    access: &Access,
    write: Write,
    unmatched: Unmatched,
) -> Result<Option<Planned>> {
    let item = BulkItem { write, unmatched };
    Planned::new(access, &T::MODEL, item, Means::OfModel).map(Some)
}

/// A bulk that is being carried out.
struct Run {
    access: Access,
    ordered: bool,
    report: BulkReport,
    /// What can be sent next.
    ready: Vec<Ready>,
}

struct Ready {
    position: usize,
    write: Narrowed,
    unmatched: Option<SecondLook>,
}

impl Run {
    /// Takes the next write, and says whether there may be another one.
    async fn take(&mut self, position: usize, entry: BulkEntry) -> Result<bool> {
        if !entry.access.is_that_of(&self.access) {
            let message = "a write of a bulk was made by another session: make it and the bulk by the same database or \
                           transaction";
            return self
                .refuse(position, Error::new(ErrorKind::Invalid, message))
                .await;
        }
        let planned = match entry.planned {
            Ok(planned) => planned,
            Err(error) => return self.refuse(position, error).await,
        };
        let planned = match (planned, entry.alone) {
            (Some(planned), None) => planned,
            (_, Some(alone)) => return self.carry_out(position, alone).await,
            (None, None) => return Ok(true),
        };
        if let Some(look) = entry.before {
            // It looks at what the writes before it have left.
            if self.ordered && !self.flush().await? {
                return Ok(false);
            }
            if let Err(error) = look().await {
                return self.refuse(position, error).await;
            }
        }
        match planned.narrow().await {
            Ok(write) => self.ready.push(Ready {
                position,
                write,
                unmatched: entry.unmatched,
            }),
            Err(error) => return self.refuse(position, error).await,
        }
        Ok(true)
    }

    /// Carries out a write by itself, in its turn.
    async fn carry_out(&mut self, position: usize, alone: Alone) -> Result<bool> {
        if self.ordered && !self.flush().await? {
            return Ok(false);
        }
        match alone().await {
            Ok(done) => {
                self.report.inserted += done.inserted;
                self.report.matched += done.matched;
                self.report.modified += done.modified;
                self.report.deleted += done.deleted;
                let result = done.results.into_iter().next();
                self.note(position, result.unwrap_or(BulkResult::NotAttempted));
                Ok(true)
            }
            Err(error) => {
                self.note(position, BulkResult::Failed(error));
                Ok(!self.ordered)
            }
        }
    }

    /// Notes a failure that is known without asking the backend.
    async fn refuse(&mut self, position: usize, error: Error) -> Result<bool> {
        if self.ordered && !self.flush().await? {
            return Ok(false);
        }
        self.note(position, BulkResult::Failed(error));
        Ok(!self.ordered)
    }

    /// Sends what is ready, and says whether something may follow.
    async fn flush(&mut self) -> Result<bool> {
        while !self.ready.is_empty() {
            let (ready, later) = self.next_of_one_kind();
            let writes = ready.iter().map(|ready| ready.write.clone()).collect();
            let sent = run_bulk(self.access.clone(), writes, self.ordered).await;
            let done = match sent {
                Ok(done) => done,
                // What became of these is unknown, of others it may be known.
                Err(error) if self.is_fresh() => return Err(error),
                Err(error) => {
                    for ready in ready {
                        self.note(ready.position, BulkResult::Failed(error.clone()));
                    }
                    return Ok(false);
                }
            };
            if !self.settle(ready, done).await {
                return Ok(false);
            }
            self.ready.extend(later);
        }
        Ok(true)
    }

    /// What is sent next: what goes together with the first, and what comes later.
    fn next_of_one_kind(&mut self) -> (Vec<Ready>, Vec<Ready>) {
        let mut ready = std::mem::take(&mut self.ready);
        let kind = ready.first().map(|first| first.write.kind());
        if kind == Some(SentWith::Nothing) {
            let later = ready.split_off(1);
            return (ready, later);
        }
        let is_like = |ready: &Ready| Some(ready.write.kind()) == kind;
        if self.ordered {
            let end = ready.iter().position(|ready| !is_like(ready));
            let later = ready.split_off(end.unwrap_or(ready.len()));
            (ready, later)
        } else {
            ready.into_iter().partition(is_like)
        }
    }

    /// Notes what became of what was sent. What was not attempted because of a document that did not match, which has
    /// turned out to be no failure, is ready again.
    async fn settle(&mut self, sent: Vec<Ready>, done: BulkWritten) -> bool {
        self.report.inserted += done.inserted;
        self.report.matched += done.matched;
        self.report.modified += done.modified;
        self.report.deleted += done.deleted;
        let mut failed = false;
        let mut rest = Vec::new();
        for (mut ready, written) in sent.into_iter().zip(done.results) {
            let result = match written {
                Written::Applied => BulkResult::Applied,
                Written::Failed(error) => BulkResult::Failed(error),
                Written::NotApplied => match ready.unmatched.take() {
                    None => BulkResult::NotApplied,
                    Some(look) => match look().await {
                        Ok(None) => BulkResult::NotApplied,
                        Ok(Some(done)) => {
                            self.report.matched += done.matched;
                            self.report.modified += done.modified;
                            BulkResult::Applied
                        }
                        Err(error) => BulkResult::Failed(error),
                    },
                },
                Written::NotAttempted => {
                    rest.push(ready);
                    continue;
                }
            };
            failed |= result.error().is_some();
            self.note(ready.position, result);
        }
        if !failed {
            self.ready = rest;
        }
        !(failed && self.ordered)
    }

    fn is_fresh(&self) -> bool {
        let mut results = self.report.results.iter();
        results.all(|result| matches!(result, BulkResult::NotAttempted))
    }

    fn note(&mut self, position: usize, result: BulkResult) {
        if let Some(noted) = self.report.results.get_mut(position) {
            *noted = result;
        }
    }
}
