//! Bulk writes: several writes in as few round trips as possible.

use std::{fmt, pin::Pin};

use bson::{Bson, RawDocumentBuf};

use super::{
    delete::{Delete, DeleteForm},
    insert::{InsertOne, insert_documents},
    outcome::not_applied_error,
    target::{
        AllMatching, AtMostOneTarget, ById, ByIdWhen, CountingTarget, TargetKind, WriteTarget,
    },
    update::{PreparedUpdate, Update, UpdateForm, Updated},
    upsert::Upsert,
};
use crate::{
    Error, ErrorKind, Result,
    backend::{
        BoxFuture,
        operation::{BulkItem, BulkItemOutcome, BulkOperation, BulkWriteResult, Unmatched},
    },
    error,
    language::query::{encode_new_document, encode_value},
    model::document::{Document, Draft},
    schema::Model,
    session::access::Access,
    write::{BatchKind, BulkWriteEntry, DeleteMode, NarrowedBulkWrite, run_bulk},
};

/// A list of writes to documents of any models; made by [`Session::bulk`](crate::Session::bulk).
///
/// Each write behaves as if awaited alone, and each write is atomic. The bulk as a whole is atomic only in a transaction. Each
/// write keeps the scope of the session that made the write, so a bulk can span several [scopes](crate::scope). The writes run in
/// order, and the first failure ends the bulk. An update by id fails if the document does not exist; with a condition the result
/// is [`NotApplied`](BulkResult::NotApplied). With [`unordered`](Self::unordered), the writes run in any order, and all writes
/// are attempted. In a transaction the first failure ends the transaction, and with [`all_or_nothing`](Self::all_or_nothing) also
/// the first unmet condition.
///
/// The embedded engine commits all writes together. On MongoDB, adjacent writes of the same kind to the same collection form one
/// command; in an unordered bulk they need not be adjacent. Such a command is not retried after a lost connection. Conditional
/// deletes are sent separately, and so are updates by id in a transaction without `all_or_nothing`.
///
/// Some writes run separately, in their place in the order:
///
/// - an update with `or_insert`
/// - an update that needs a check of its outcome against the validation rules, or that changes elements of an overflow array
/// - an insert into a model with a sequence number in the `_id`, or of an insert struct such as `NewPost`
/// - any write to a model with hooks
///
/// A push to an array with a `max` costs an extra query if the push did not apply, and always with `update_many`.
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
#[must_use = "a bulk runs when awaited"]
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

    /// Adds a write.
    #[expect(
        clippy::should_implement_trait,
        reason = "as the builder that it is, not as a number"
    )]
    pub fn add(mut self, write: impl IntoBulk) -> Self {
        self.entries.push(write.into_bulk());
        self
    }

    /// Adds several writes of the same kind.
    pub fn add_all(mut self, writes: impl IntoIterator<Item: IntoBulk>) -> Self {
        let entries = writes.into_iter().map(IntoBulk::into_bulk);
        self.entries.extend(entries);
        self
    }

    /// Allows any order, and attempts all writes even if some fail.
    pub fn unordered(mut self) -> Self {
        self.ordered = false;
        self
    }

    /// Requires that every write applies. The first write that does not apply ends the bulk and the transaction: the awaited bulk
    /// is an error, and nothing of the transaction is written. [`Error::failures`] names the write by its position.
    ///
    /// MongoDB then gets all adjacent updates of a collection in one command. A push to an array with a `max` is sent separately,
    /// to find the reason of a failure, and so is an `inc` or `mul` without `when` of a number other than an `i64`. With `when`, a
    /// number that would leave the range of its type counts as an unmet condition.
    ///
    /// An order takes several products from stock, and is inserted only if each product has enough:
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Debug, Serialize, Deserialize, Document)]
    /// # #[document(collection = "products")]
    /// # struct Product { #[serde(rename = "_id")] id: String, stock: i64 }
    /// # #[derive(Debug, Clone, Serialize, Deserialize, Document)]
    /// # #[document(collection = "orders")]
    /// # struct Order { #[serde(rename = "_id")] id: i64, #[embed(max = 100)] lines: Vec<Line> }
    /// # #[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
    /// # struct Line { #[reference] product: Ref<Product>, amount: i64 }
    /// # #[derive(Schema)] #[schema(models(Product, Order))] struct Shop;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let db = odm::Database::<Shop>::open("memory:").await?;
    /// # let [saw, nail] = [("saw", 1), ("nail", 100)].map(|(id, stock)| Product { id: id.into(), stock });
    /// # let (saw, nail) = (db.insert(saw).await?, db.insert(nail).await?);
    /// # let line = |product: &Product, amount| Line { product: product.to_ref(), amount };
    /// # let order = Order { id: 1, lines: vec![line(&nail, 50), line(&saw, 2)] };
    /// let placed = db
    ///     .transaction(async |tx| {
    ///         let take = |line: &Line| {
    ///             let amount = line.amount;
    ///             let update = tx.update::<Product>(&line.product);
    ///             update.when(|p| p.stock().gte(amount)).inc(|p| p.stock(), -amount)
    ///         };
    ///         tx.bulk().add_all(order.lines.iter().map(take)).all_or_nothing().await?;
    ///         tx.insert(order.clone()).await
    ///     })
    ///     .await;
    /// let error = placed.unwrap_err();
    /// assert_eq!(error.kind(), odm::ErrorKind::NotApplied);
    /// // The second line: there is a single saw.
    /// assert_eq!(error.failures().map(|(position, _)| position).collect::<Vec<_>>(), [1]);
    /// assert_eq!(db.get::<Product>("nail").await?.stock, 100);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// The awaited bulk fails with
    ///
    /// - [`NotApplied`](ErrorKind::NotApplied) for a write with an unmet condition,
    /// - the error of a write that fails, for example [`NotFound`](ErrorKind::NotFound) for an update by id alone,
    /// - [`Invalid`](ErrorKind::Invalid) outside of a transaction, before any write: use
    ///   [`Database::transaction`](crate::Database::transaction).
    pub fn all_or_nothing(self) -> AllOrNothing {
        AllOrNothing(self)
    }

    async fn run_entries(self, all_or_nothing: bool) -> Result<BulkReport> {
        let mut run = BulkRun {
            access: self.access,
            ordered: self.ordered,
            all_or_nothing,
            report: BulkReport::not_attempted(self.entries.len()),
            ready: Vec::new(),
            last_error: None,
        };
        for (position, entry) in self.entries.into_iter().enumerate() {
            if !run.add_entry(position, entry).await? {
                return Ok(run.report);
            }
        }
        run.send_ready().await?;
        Ok(run.report)
    }
}

impl IntoFuture for Bulk {
    type Output = Result<BulkReport>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run_entries(false))
    }
}

/// A bulk in which every write must apply; made by [`Bulk::all_or_nothing`].
#[must_use = "a bulk runs when awaited"]
#[derive(Debug)]
pub struct AllOrNothing(Bulk);

impl AllOrNothing {
    async fn run_in_transaction(self) -> Result<()> {
        let access = self.0.access.clone();
        if access.transaction_scope().is_none() {
            let message = "an all-or-nothing bulk needs a transaction: make the bulk and its writes with `tx`, in \
                           `db.transaction(async |tx| …)`";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let report = self.0.run_entries(true).await;
        let report = report.and_then(BulkReport::into_result).map(drop);
        report.map_err(|error| access.fail_transaction(error))
    }
}

impl IntoFuture for AllOrNothing {
    type Output = Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run_in_transaction())
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

/// The results of a [`Bulk`], for each write and in total.
#[must_use = "some of the writes may have failed: `into_result` returns the failures as an error"]
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct BulkReport {
    /// The result of each write, in the order of the calls of [`add`](Bulk::add).
    pub results: Vec<BulkResult>,
    /// The number of inserted documents.
    pub inserted: u64,
    /// The number of documents that matched an update.
    pub matched: u64,
    /// The number of documents that an update changed.
    pub modified: u64,
    /// The number of deleted documents.
    pub deleted: u64,
}

/// The result of one write of a [`Bulk`].
#[derive(Debug, Clone)]
pub enum BulkResult {
    /// The write was executed. This includes an `update_many`, a `delete_many` or an unconditional `delete` that found no
    /// document.
    Applied,
    /// No document met the condition of an update or a delete, and nothing was written.
    NotApplied,
    /// The write failed, with the same error as if awaited alone.
    Failed(Error),
    /// The write was not attempted, because an earlier write failed.
    NotAttempted,
}

impl BulkResult {
    /// Returns the error of a failed write.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        match self {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Returns whether the write was executed.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied)
    }
}

impl BulkReport {
    fn not_attempted(writes: usize) -> Self {
        Self {
            results: vec![BulkResult::NotAttempted; writes],
            ..Self::default()
        }
    }

    /// Returns whether no write failed. An unmet condition is no failure.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.failures().next().is_none()
    }

    /// Returns the failed writes: the position of each, from 0, and the error.
    pub fn failures(&self) -> impl Iterator<Item = (usize, &Error)> {
        let results = self.results.iter().enumerate();
        results.filter_map(|(position, result)| Some((position, result.error()?)))
    }

    /// Returns the report if no write failed.
    ///
    /// # Errors
    ///
    /// The first failure; [`Error::failures`] lists all failures with their positions.
    pub fn into_result(self) -> Result<Self> {
        let failures = self
            .failures()
            .map(|(position, error)| (position, error.clone()));
        let failures: Vec<_> = failures.collect();
        match failures.first() {
            None => Ok(self),
            Some((_, first)) => Err(first.clone().with_failures(failures)),
        }
    }
}

/// Writes that can be part of a [`Bulk`]: inserts, updates, upserts and deletes that return no document.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a bulk",
    label = "expected a write that returns no document",
    note = "a bulk takes `insert`, `update` (also with `or_insert`), `update_many`, `delete` and `delete_many`; await a `save`, and a write that returns a document (`returning_after`, `update_first`), outside the bulk"
)]
pub trait IntoBulk {
    #[doc(hidden)]
    fn into_bulk(self) -> BulkEntry;
}

/// A prepared write of a bulk.
#[doc(hidden)]
pub struct BulkEntry {
    access: Access,
    planned: Result<Option<BulkWriteEntry>>,
    /// A check of the stored documents before the write.
    pre_write_check: Option<PreWriteCheck>,
    /// Finds out why no document matched.
    no_match_check: Option<NoMatchCheck>,
    /// The single document that the write changes.
    target: Option<BulkTarget>,
    /// Runs a write that needs more than one operation.
    separate: Option<SeparateWrite>,
}

/// The single document that a write of a bulk changes.
struct BulkTarget {
    model: &'static Model,
    id: Option<Bson>,
    /// The reason that the write did not match.
    reason: UnmatchedReason,
}

/// The possible reasons that no document matches a write of a bulk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UnmatchedReason {
    /// The document does not exist.
    Missing,
    /// The document does not exist, or does not meet a condition.
    Condition,
    /// A query has to find the reason: for example an array without room.
    Unknown,
}

impl BulkTarget {
    fn new<T: Document, K: TargetKind>(
        target: &WriteTarget<T, K>,
        reason: UnmatchedReason,
    ) -> Self {
        let id = target.id().and_then(|id| encode_value(id).ok());
        Self {
            model: &T::MODEL,
            id: id.and_then(|id| Bson::try_from(id).ok()),
            reason,
        }
    }

    /// Returns the error of a required write that matched no document.
    fn not_applied_error(self) -> Error {
        if self.reason == UnmatchedReason::Missing {
            return error::not_found_stored(self.model, self.id);
        }
        let message = "the document does not exist, does not meet the condition of the write, or a number would leave the range \
                       of its type; every write of the bulk must apply, so the transaction ends and nothing is written";
        let error = error::naming_model(self.model)(Error::new(ErrorKind::NotApplied, message));
        match self.id {
            Some(id) => error.with_id(id),
            None => error,
        }
    }
}

/// A write that runs separately, and returns its counts.
type SeparateWrite = Box<dyn FnOnce() -> BoxFuture<'static, Result<BulkReport>> + Send>;

/// A check of the stored documents that returns an error if the write cannot be executed.
type PreWriteCheck = Box<dyn FnOnce() -> BoxFuture<'static, Result<()>> + Send>;

/// A check after an update without a match. Returns an error with the reason, or the result of a second attempt.
type NoMatchCheck = Box<dyn FnOnce() -> BoxFuture<'static, Result<Option<Updated>>> + Send>;

#[diagnostic::do_not_recommend]
impl<T: Document> IntoBulk for InsertOne<T> {
    fn into_bulk(self) -> BulkEntry {
        let (access, document) = self.into_parts();
        let is_draft = document
            .as_ref()
            .is_ok_and(|document| !document.is_complete());
        let is_separate = is_draft || T::HAS_HOOKS || T::MODEL.is_numbered();
        if is_separate {
            let session = access.clone();
            let run = async move {
                let inserted = insert_documents(access, vec![document?]).await;
                inserted.map_err(Error::without_inserted)?;
                Ok(BulkReport {
                    results: vec![BulkResult::Applied],
                    inserted: 1,
                    ..BulkReport::default()
                })
            };
            return BulkEntry::separate_write(session, run);
        }
        let document = document.and_then(Draft::into_document);
        let document = document
            .and_then(|document| encode_new_document(&document).map_err(error::of_model::<T>));
        let planned = document.and_then(|document| {
            let write = BulkOperation::Insert {
                collection: T::COLLECTION.into(),
                document,
            };
            plan_write::<T>(&access, write, Unmatched::Ignore)
        });
        BulkEntry {
            access,
            planned,
            pre_write_check: None,
            no_match_check: None,
            target: None,
            separate: None,
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
        if T::HAS_HOOKS || self.is_unchanged() {
            return hooked_update(self);
        }
        let access = self.access.clone();
        let (planned, update) = match self.into_prepared() {
            Err(error) => (Err(error), None),
            Ok(update) if update.needs_outcome_check() => return separate_update(update),
            Ok(update) => {
                let write = update.to_operation(true).map(BulkOperation::Update);
                let planned =
                    write.and_then(|write| plan_write::<T>(&access, write, Unmatched::Ignore));
                (planned, Some(update))
            }
        };
        let before = update
            .filter(PreparedUpdate::has_requirements)
            .map(|update| {
                let check: PreWriteCheck =
                    Box::new(move || Box::pin(async move { update.check_requirements().await }));
                check
            });
        BulkEntry {
            access,
            planned,
            pre_write_check: before,
            no_match_check: None,
            target: None,
            separate: None,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<T: Document, K: CountingTarget> IntoBulk for Delete<T, K> {
    fn into_bulk(self) -> BulkEntry {
        if T::HAS_HOOKS {
            return hooked_delete(self);
        }
        let reports_match = self.target.id().is_some() && self.target.only_id().is_none();
        let unmatched = match reports_match {
            true => Unmatched::Report,
            false => Unmatched::Ignore,
        };
        let write = self.to_operation().map(BulkOperation::Delete);
        BulkEntry {
            target: reports_match
                .then(|| BulkTarget::new(&self.target, UnmatchedReason::Condition)),
            planned: write.and_then(|write| {
                let item = BulkItem { write, unmatched };
                BulkWriteEntry::new(&self.access, &T::MODEL, item, self.means).map(Some)
            }),
            access: self.access,
            pre_write_check: None,
            no_match_check: None,
            separate: None,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<T: Document, K: AtMostOneTarget> IntoBulk for Upsert<T, K> {
    fn into_bulk(self) -> BulkEntry {
        BulkEntry::separate_write(self.access().clone(), self.into_report())
    }
}

fn update_by_id<T: Document, K: CountingTarget>(update: Update<T, K>) -> BulkEntry {
    if T::HAS_HOOKS || update.is_unchanged() {
        return hooked_update(update);
    }
    let access = update.access.clone();
    let mut target = BulkTarget::new(&update.target, UnmatchedReason::Condition);
    let update = match update.into_prepared() {
        Ok(update) => update,
        Err(error) => {
            return BulkEntry {
                access,
                planned: Err(error),
                pre_write_check: None,
                no_match_check: None,
                target: None,
                separate: None,
            };
        }
    };
    if update.needs_outcome_check() || update.may_spill() {
        return separate_update(update);
    }
    // A missing match may be a failure. Stop the command there, so that no later write runs before the reason is known.
    if update.needs_reason_query() {
        target.reason = UnmatchedReason::Unknown;
    } else if update.always_matches() {
        target.reason = UnmatchedReason::Missing;
    }
    let needs_reason = update.has_requirements() || update.aim.only_id.is_some();
    let unmatched = match needs_reason {
        true => Unmatched::Abort,
        false => Unmatched::Report,
    };
    let write = update.to_operation(false).map(BulkOperation::Update);
    let planned = write.and_then(|write| plan_write::<T>(&access, write, unmatched));
    let check: NoMatchCheck = Box::new(move || {
        Box::pin(async move {
            let counts = update.explain_no_match().await?;
            if counts.is_none() {
                update.ensure_document_exists().await?;
            }
            Ok(counts)
        })
    });
    BulkEntry {
        access,
        planned,
        pre_write_check: None,
        no_match_check: needs_reason.then_some(check),
        target: Some(target),
        separate: None,
    }
}

/// Makes a separate write of an update that needs a check of its outcome.
fn separate_update(update: PreparedUpdate) -> BulkEntry {
    let access = update.access.clone();
    let is_many = update.targets_many();
    let run = async move {
        let counts = update.update_and_count(is_many).await?;
        if !counts.is_applied() {
            update.ensure_document_exists().await?;
        }
        Ok(update_report(counts, is_many))
    };
    BulkEntry::separate_write(access, run)
}

/// Makes a separate write of an update of a model with hooks.
fn hooked_update<T: Document, K: CountingTarget>(update: Update<T, K>) -> BulkEntry {
    let is_many = update.target.id().is_none();
    let access = update.access.clone();
    let run = async move {
        let counts = update.run_update(UpdateForm::Count).await?.into_counts();
        Ok(update_report(counts, is_many))
    };
    BulkEntry::separate_write(access, run)
}

/// Makes a separate write of a delete in a model with hooks.
fn hooked_delete<T: Document, K: CountingTarget>(delete: Delete<T, K>) -> BulkEntry {
    let reports_match = delete.target.id().is_some() && delete.target.only_id().is_none();
    let access = delete.access.clone();
    let run = async move {
        let (counts, _) = delete.run_delete(DeleteForm::Count).await?;
        let result = match counts.is_applied() || !reports_match {
            true => BulkResult::Applied,
            false => BulkResult::NotApplied,
        };
        Ok(BulkReport {
            results: vec![result],
            deleted: counts.deleted,
            ..BulkReport::default()
        })
    };
    BulkEntry::separate_write(access, run)
}

/// Reports an update that ran separately.
fn update_report(counts: Updated, is_many: bool) -> BulkReport {
    let result = match counts.is_applied() || is_many {
        true => BulkResult::Applied,
        false => BulkResult::NotApplied,
    };
    BulkReport {
        results: vec![result],
        matched: counts.matched,
        modified: counts.modified,
        ..BulkReport::default()
    }
}

impl BulkEntry {
    fn separate_write(
        access: Access,
        run: impl Future<Output = Result<BulkReport>> + Send + 'static,
    ) -> Self {
        Self {
            access,
            planned: Ok(None),
            pre_write_check: None,
            no_match_check: None,
            target: None,
            separate: Some(Box::new(move || Box::pin(run))),
        }
    }
}

/// Inserts encoded documents in any order, independently of each other. Returns the error of each document, or `None`.
///
/// A document that was not attempted has the error that ended the insert.
pub(super) async fn insert_each<T: Document>(
    access: &Access,
    documents: &[RawDocumentBuf],
) -> Result<Vec<Option<Error>>> {
    let mut run = BulkRun {
        access: access.clone(),
        ordered: false,
        all_or_nothing: false,
        report: BulkReport::not_attempted(documents.len()),
        ready: Vec::with_capacity(documents.len()),
        last_error: None,
    };
    for (position, document) in documents.iter().enumerate() {
        let write = BulkOperation::Insert {
            collection: T::COLLECTION.into(),
            document: document.clone(),
        };
        let item = BulkItem {
            write,
            unmatched: Unmatched::Ignore,
        };
        let entry = BulkWriteEntry::new(access, &T::MODEL, item, DeleteMode::ModelDefault)?;
        run.ready.push(ReadyWrite {
            position,
            write: entry.into_narrowed().await?,
            no_match_check: None,
            target: None,
        });
    }
    run.send_ready().await?;
    let last_error = run.last_error.unwrap_or_else(|| {
        let message =
            "the document was not inserted, because another document of the insert failed";
        Error::new(ErrorKind::Backend, message)
    });
    let results = run.report.results.into_iter();
    Ok(results
        .map(|result| match result {
            BulkResult::Applied => None,
            BulkResult::Failed(error) => Some(error),
            BulkResult::NotApplied | BulkResult::NotAttempted => Some(last_error.clone()),
        })
        .collect())
}

fn plan_write<T: Document>(
    access: &Access,
    write: BulkOperation,
    unmatched: Unmatched,
) -> Result<Option<BulkWriteEntry>> {
    let item = BulkItem { write, unmatched };
    BulkWriteEntry::new(access, &T::MODEL, item, DeleteMode::ModelDefault).map(Some)
}

/// The state of a running bulk.
struct BulkRun {
    access: Access,
    ordered: bool,
    /// Whether a write without a match is a failure.
    all_or_nothing: bool,
    report: BulkReport,
    /// The writes that are ready to be sent.
    ready: Vec<ReadyWrite>,
    /// The last failure that is no duplicate key. A duplicate key fails only its own write.
    last_error: Option<Error>,
}

struct ReadyWrite {
    position: usize,
    write: NarrowedBulkWrite,
    no_match_check: Option<NoMatchCheck>,
    target: Option<BulkTarget>,
}

impl BulkRun {
    /// Adds a write. Returns whether the bulk continues.
    async fn add_entry(&mut self, position: usize, entry: BulkEntry) -> Result<bool> {
        if !entry.access.is_same_target(&self.access) {
            let message = "a write of the bulk belongs to another session: make the write and the bulk with the same database \
                           or transaction";
            return self
                .record_failure(position, Error::new(ErrorKind::Invalid, message))
                .await;
        }
        let planned = match entry.planned {
            Ok(planned) => planned,
            Err(error) => return self.record_failure(position, error).await,
        };
        let planned = match (planned, entry.separate) {
            (Some(planned), None) => planned,
            (_, Some(separate)) => return self.run_separately(position, separate).await,
            (None, None) => return Ok(true),
        };
        if let Some(check) = entry.pre_write_check {
            // The check must see the results of the earlier writes.
            if self.ordered && !self.send_ready().await? {
                return Ok(false);
            }
            if let Err(error) = check().await {
                return self.record_failure(position, error).await;
            }
        }
        let (mut planned, mut no_match_check) = (planned, entry.no_match_check);
        let is_known =
            |target: &BulkTarget| self.all_or_nothing && target.reason != UnmatchedReason::Unknown;
        if entry.target.as_ref().is_some_and(is_known) {
            // The backend may end the transaction, so no check could run.
            planned = planned.with_unmatched(Unmatched::Rollback);
            no_match_check = None;
        }
        match planned.into_narrowed().await {
            Ok(write) => self.ready.push(ReadyWrite {
                position,
                write,
                no_match_check,
                target: entry.target,
            }),
            Err(error) => return self.record_failure(position, error).await,
        }
        Ok(true)
    }

    /// Runs a separate write after the earlier writes.
    async fn run_separately(&mut self, position: usize, separate: SeparateWrite) -> Result<bool> {
        if self.ordered && !self.send_ready().await? {
            return Ok(false);
        }
        match separate().await {
            Ok(counts) => {
                self.report.inserted += counts.inserted;
                self.report.matched += counts.matched;
                self.report.modified += counts.modified;
                self.report.deleted += counts.deleted;
                let result = counts.results.into_iter().next();
                let result = result.unwrap_or(BulkResult::NotAttempted);
                let result = self.required_result(result, None);
                let continues = result.error().is_none() || !self.ordered;
                self.record_result(position, result);
                Ok(continues)
            }
            Err(error) => {
                self.record_result(position, BulkResult::Failed(error));
                Ok(!self.ordered)
            }
        }
    }

    /// Records a failure that was found before the write was sent.
    async fn record_failure(&mut self, position: usize, error: Error) -> Result<bool> {
        if self.ordered && !self.send_ready().await? {
            return Ok(false);
        }
        self.record_result(position, BulkResult::Failed(error));
        Ok(!self.ordered)
    }

    /// Sends the ready writes. Returns whether the bulk continues.
    async fn send_ready(&mut self) -> Result<bool> {
        while !self.ready.is_empty() {
            let (ready, remaining) = self.take_next_command();
            let writes = ready.iter().map(|ready| ready.write.clone()).collect();
            let result = run_bulk(self.access.clone(), writes, self.ordered).await;
            let counts = match result {
                Ok(counts) => counts,
                // No result is known yet, so the error is the result of the whole bulk.
                Err(error) if self.has_no_results() => return Err(error),
                Err(error) => {
                    for ready in ready {
                        self.record_result(ready.position, BulkResult::Failed(error.clone()));
                    }
                    return Ok(false);
                }
            };
            if !self.record_command_results(ready, counts).await {
                return Ok(false);
            }
            self.ready.extend(remaining);
        }
        Ok(true)
    }

    /// Splits off the next writes that fit into one command. Returns these writes and the remaining writes.
    fn take_next_command(&mut self) -> (Vec<ReadyWrite>, Vec<ReadyWrite>) {
        let mut ready = std::mem::take(&mut self.ready);
        let kind = ready.first().map(|first| first.write.batch_kind());
        if kind == Some(BatchKind::Alone) {
            let remaining = ready.split_off(1);
            return (ready, remaining);
        }
        let is_like = |ready: &ReadyWrite| Some(ready.write.batch_kind()) == kind;
        if self.ordered {
            let end = ready.iter().position(|ready| !is_like(ready));
            let remaining = ready.split_off(end.unwrap_or(ready.len()));
            (ready, remaining)
        } else {
            ready.into_iter().partition(is_like)
        }
    }

    /// Records the results of sent writes. A missing match may turn out to be no failure; the writes that were not attempted
    /// because of that missing match are ready again.
    async fn record_command_results(
        &mut self,
        sent: Vec<ReadyWrite>,
        counts: BulkWriteResult,
    ) -> bool {
        self.report.inserted += counts.inserted;
        self.report.matched += counts.matched;
        self.report.modified += counts.modified;
        self.report.deleted += counts.deleted;
        let mut failed = false;
        let mut remaining = Vec::new();
        for (mut ready, written) in sent.into_iter().zip(counts.results) {
            let result = match written {
                BulkItemOutcome::Applied => BulkResult::Applied,
                BulkItemOutcome::Failed(error) => BulkResult::Failed(error),
                BulkItemOutcome::NotApplied => match ready.no_match_check.take() {
                    None => BulkResult::NotApplied,
                    Some(check) => match check().await {
                        Ok(None) => BulkResult::NotApplied,
                        Ok(Some(counts)) => {
                            self.report.matched += counts.matched;
                            self.report.modified += counts.modified;
                            BulkResult::Applied
                        }
                        Err(error) => BulkResult::Failed(error),
                    },
                },
                BulkItemOutcome::NotAttempted => {
                    remaining.push(ready);
                    continue;
                }
            };
            let result = self.required_result(result, ready.target);
            failed |= result.error().is_some();
            self.record_result(ready.position, result);
        }
        if !failed {
            self.ready = remaining;
        }
        !(failed && self.ordered)
    }

    /// Returns the result of a write, where a bulk that requires every write has an error for an unmet condition.
    fn required_result(&self, result: BulkResult, target: Option<BulkTarget>) -> BulkResult {
        match result {
            BulkResult::NotApplied if self.all_or_nothing => BulkResult::Failed(
                target.map_or_else(not_applied_error, BulkTarget::not_applied_error),
            ),
            result => result,
        }
    }

    fn has_no_results(&self) -> bool {
        let mut results = self.report.results.iter();
        results.all(|result| matches!(result, BulkResult::NotAttempted))
    }

    fn record_result(&mut self, position: usize, result: BulkResult) {
        if let Some(error) = result.error().filter(|error| !error.is_duplicate_key()) {
            self.last_error = Some(error.clone());
        }
        if let Some(slot) = self.report.results.get_mut(position) {
            *slot = result;
        }
    }
}
