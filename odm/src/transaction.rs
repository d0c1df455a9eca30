//! Several writes that happen together or not at all.

use std::{fmt, ops::Deref};

use crate::{Result, schema::Schema, session::Session, unit};

/// A transaction: the operations of [`Session`], on a snapshot of the database, taking effect together.
///
/// [`Database::transaction`](crate::Database::transaction) makes one, and commits it. One that is kept for longer gives
/// errors of kind [`TransactionOver`](crate::ErrorKind::TransactionOver).
pub struct Transaction<S> {
    session: Session<S>,
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
    unit::refuse_outside(database.access())?;
    unit::run(database.access(), unit::ATTEMPTS, None, |access| {
        let session = Session::new(access);
        unit::work(database.access(), work(Transaction { session }))
    })
    .await
}
