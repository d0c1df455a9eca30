//! Several writes that happen together or not at all.

use std::{
    fmt,
    future::{Ready, ready},
    ops::Deref,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use crate::{
    Result,
    database::Database,
    schema::Schema,
    session::Session,
    unit::{self, Attempts},
};

/// A transaction: the operations of [`Session`], on a snapshot of the database, taking effect together.
///
/// [`Database::transaction`](crate::Database::transaction) makes one, and commits it. One that is kept for longer gives
/// errors of kind [`TransactionOver`](crate::ErrorKind::TransactionOver).
///
/// There is no guard that could be forgotten, or used behind its commit: the closure owns the transaction, which is over when it
/// returns.
pub struct Transaction<S> {
    session: Session<S>,
}

/// What nobody does: a transaction is all of its closure, and nothing but that.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a transaction is what its closure does: it is committed when that returns `Ok`, and taken back when that returns an error",
    label = "nothing is done by hand, or twice",
    note = "call `db.transaction(…)` with a closure, and do in there what belongs together, by `tx`; what takes a `&Session` is given `&tx` as well as `&db`"
)]
pub trait ByHand {}

/// The methods that are looked for here in vain, so that the compiler says what to do.
impl<S: Schema> Transaction<S> {
    #[doc(hidden)]
    pub fn commit(&self) -> Ready<Result<()>>
    where
        Self: ByHand,
    {
        ready(Ok(()))
    }

    #[doc(hidden)]
    pub fn abort(&self) -> Ready<Result<()>>
    where
        Self: ByHand,
    {
        ready(Ok(()))
    }

    #[doc(hidden)]
    pub fn transaction<T, W, F>(&self, mut work: W) -> F
    where
        Self: ByHand,
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
        Self: ByHand,
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

/// Runs a closure in a transaction, when it is awaited; made by [`Database::transaction`](crate::Database::transaction).
#[must_use = "a transaction runs when it is awaited"]
pub struct RunTransaction<'w, T> {
    attempts: Attempts,
    /// None once it runs.
    start: Option<Start<'w, T>>,
    running: Option<Running<'w, T>>,
}

type Start<'w, T> = Box<dyn FnOnce(Attempts) -> Running<'w, T> + Send + 'w>;
type Running<'w, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'w>>;

impl<'w, T> RunTransaction<'w, T> {
    pub(crate) fn new<S, W, F>(database: Session<S>, mut work: W) -> Self
    where
        S: Schema,
        W: FnMut(Transaction<S>) -> F + Send + 'w,
        F: Future<Output = Result<T>> + Send + 'w,
        T: Send + 'w,
    {
        let start = |attempts| -> Running<'w, T> {
            Box::pin(async move {
                let database = database.access();
                let work = |access| {
                    let session = Session::new(access);
                    unit::work(database, work(Transaction { session }))
                };
                unit::run(database, attempts, None, work).await
            })
        };
        Self {
            attempts: unit::ATTEMPTS,
            start: Some(Box::new(start)),
            running: None,
        }
    }

    /// A time limit for all of it: the closure, the attempts after conflicts, and the waiting between them.
    ///
    /// When the limit is reached, the transaction is aborted, and the error has the kind
    /// [`Timeout`](crate::ErrorKind::Timeout). A commit that has begun is waited for: whether it took effect would be unknown.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "accounts")]
    /// # struct Account { #[serde(rename = "_id")] id: String, credits: i64 }
    /// # #[derive(Schema)] #[schema(models(Account))] struct Bank;
    /// # async fn example(db: odm::Database<Bank>) -> odm::Result<()> {
    /// let give = db.transaction(|tx| async move {
    ///     tx.update::<Account>("joe").inc(|a| a.credits(), 5).await?;
    ///     Ok(())
    /// });
    /// give.timeout(Duration::from_secs(5)).await
    /// # }
    /// ```
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.attempts = Attempts::Within(limit);
        self
    }
}

impl<T> Future for RunTransaction<'_, T> {
    type Output = Result<T>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        if let Some(start) = self.start.take() {
            self.running = Some(start(self.attempts));
        }
        match &mut self.running {
            Some(running) => running.as_mut().poll(context),
            // It starts once, and runs from then on.
            None => Poll::Pending,
        }
    }
}

impl<T> fmt::Debug for RunTransaction<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunTransaction")
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}
