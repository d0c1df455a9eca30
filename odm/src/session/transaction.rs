//! Transactions: several writes that take effect together or not at all.

use std::{
    fmt,
    future::{Ready, ready},
    ops::Deref,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::TryFutureExt;

use crate::{
    Error, Result,
    schema::Schema,
    session::{
        Session,
        access::Access,
        database::Database,
        transaction_scope::{self, AttemptError, TransactionAttempts},
    },
};

/// A transaction: the operations of [`Session`] on a snapshot of the database, which take effect together.
///
/// [`Database::transaction`](crate::Database::transaction) begins and commits transactions. The closure owns the transaction, so
/// a transaction cannot be left open, and cannot be used after the commit. A copy that outlives the closure returns errors of
/// kind [`TransactionOver`](crate::ErrorKind::TransactionOver).
pub struct Transaction<S> {
    session: Session<S>,
}

/// Implemented by no type: a transaction is begun, committed and aborted by its closure only.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a transaction is controlled by its closure: `Ok` commits the transaction, and an error aborts it",
    label = "transactions cannot be begun, committed, aborted or nested by hand",
    note = "call `db.transaction(…)` with a closure, and use `tx` inside; a function that takes a `&Session` accepts `&tx` as well as `&db`"
)]
pub trait ManualControl {}

/// These methods exist only for the compiler's message.
impl<S: Schema> Transaction<S> {
    #[doc(hidden)]
    pub fn commit(&self) -> Ready<Result<()>>
    where
        Self: ManualControl,
    {
        ready(Ok(()))
    }

    #[doc(hidden)]
    pub fn abort(&self) -> Ready<Result<()>>
    where
        Self: ManualControl,
    {
        ready(Ok(()))
    }

    #[doc(hidden)]
    pub fn transaction<T, W, F>(&self, mut work: W) -> F
    where
        Self: ManualControl,
        W: FnMut(Self) -> F,
        F: Future<Output = Result<T>>,
    {
        let session = self.session.clone();
        work(Self { session })
    }
}

impl<S: Schema> Database<S> {
    #[doc(hidden)]
    pub fn begin(&self) -> Ready<Result<Transaction<S>>>
    where
        Self: ManualControl,
    {
        let session = Session::clone(self);
        ready(Ok(Transaction { session }))
    }
}

impl<S> Deref for Transaction<S> {
    type Target = Session<S>;
    fn deref(&self) -> &Session<S> {
        &self.session
    }
}

impl<S> fmt::Debug for Transaction<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Transaction").field(&self.session).finish()
    }
}

/// Error types of a [transaction](crate::Database::transaction): all types with `From<odm::Error>`, because each operation and
/// the commit can fail.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error type of a transaction",
    label = "an error of the database cannot become a `{Self}`",
    note = "implement `From<odm::Error>` for `{Self}`: each operation and the commit can fail"
)]
pub trait TransactionError: From<Error> {}
#[diagnostic::do_not_recommend]
impl<E: From<Error>> TransactionError for E {}

/// A transaction that runs when awaited. Made by [`Database::transaction`](crate::Database::transaction).
#[must_use = "a transaction runs when it is awaited"]
pub struct RunTransaction<'w, T, E = Error> {
    attempts: TransactionAttempts,
    /// `None` once the transaction runs.
    start: Option<Start<'w, T, E>>,
    running: Option<Running<'w, T, E>>,
}

type Start<'w, T, E> = Box<dyn FnOnce(TransactionAttempts) -> Running<'w, T, E> + Send + 'w>;
type Running<'w, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'w>>;

impl<'w, T, E> RunTransaction<'w, T, E> {
    pub(crate) fn new<S, W, F>(database: Session<S>, mut work: W) -> Self
    where
        S: Schema,
        W: FnMut(Transaction<S>) -> F + Send + 'w,
        F: Future<Output = Result<T, E>> + Send + 'w,
        T: Send + 'w,
        E: TransactionError + Send + 'w,
    {
        let start = |attempts| -> Running<'w, T, E> {
            Box::pin(async move {
                let database = database.access();
                let work = |access: Access| {
                    let scope = access.transaction_scope().cloned();
                    let session = Session::new(access);
                    let closure =
                        transaction_scope::run_closure(database, work(Transaction { session }));
                    closure.map_err(move |error| AttemptError::of_closure(error, scope.as_deref()))
                };
                transaction_scope::run_transaction(database, attempts, None, work).await
            })
        };
        Self {
            attempts: transaction_scope::DEFAULT_TRANSACTION_ATTEMPTS,
            start: Some(Box::new(start)),
            running: None,
        }
    }

    /// Sets a time limit for the whole transaction: the closure, the attempts after conflicts, and the waits between attempts.
    ///
    /// At the limit, the transaction is aborted with an error of kind [`Timeout`](crate::ErrorKind::Timeout). A commit that has
    /// begun is not cut off, because the outcome would be unknown.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "accounts")]
    /// # struct Account { #[serde(rename = "_id")] id: String, credits: i64 }
    /// # #[derive(Schema)] #[schema(models(Account))] struct Bank;
    /// # async fn example(db: odm::Database<Bank>) -> odm::Result<()> {
    /// let give = db.transaction(async |tx| {
    ///     tx.update::<Account>("joe").inc(|a| a.credits(), 5).await?;
    ///     Ok(())
    /// });
    /// give.timeout(Duration::from_secs(5)).await
    /// # }
    /// ```
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.attempts = TransactionAttempts::Within(limit);
        self
    }
}

impl<T, E> Future for RunTransaction<'_, T, E> {
    type Output = Result<T, E>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, E>> {
        if let Some(start) = self.start.take() {
            self.running = Some(start(self.attempts));
        }
        match &mut self.running {
            Some(future) => future.as_mut().poll(context),
            // Unreachable: `start` is set until the first poll, and `running` from then on.
            None => Poll::Pending,
        }
    }
}

impl<T, E> fmt::Debug for RunTransaction<'_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunTransaction")
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}
