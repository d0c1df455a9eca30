//! Several writes that happen together or not at all.

use std::{
    fmt,
    future::{Ready, ready},
    ops::Deref,
};

use crate::{Result, database::Database, schema::Schema, session::Session, unit};

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

pub(crate) async fn run<S, T, W, F>(database: &Session<S>, mut work: W) -> Result<T>
where
    S: Schema,
    W: FnMut(Transaction<S>) -> F + Send,
    F: Future<Output = Result<T>> + Send,
    T: Send,
{
    unit::run(database.access(), unit::ATTEMPTS, None, |access| {
        let session = Session::new(access);
        unit::work(database.access(), work(Transaction { session }))
    })
    .await
}
