//! Several writes that happen together or not at all.

use std::{fmt, ops::Deref, sync::Arc};

use crate::{
    Result,
    access::Access,
    backend::{self, Backend, outcome},
    retry,
    schema::Schema,
    session::Session,
};

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

/// How often a transaction is tried at most.
const ATTEMPTS: u32 = 10;

pub(crate) async fn run<S, T, W, F>(backend: &dyn Backend, mut work: W) -> Result<T>
where
    S: Schema,
    W: FnMut(Transaction<S>) -> F + Send,
    F: Future<Output = Result<T>> + Send,
    T: Send,
{
    let mut attempt = 1;
    loop {
        match once(backend, &mut work).await {
            Err(error) if error.is_conflict() && attempt < ATTEMPTS => {
                retry::pause(attempt).await;
                attempt += 1;
            }
            done => return done,
        }
    }
}

async fn once<S, T, W, F>(backend: &dyn Backend, work: &mut W) -> Result<T>
where
    S: Schema,
    W: FnMut(Transaction<S>) -> F + Send,
    F: Future<Output = Result<T>> + Send,
{
    let handle = backend.begin().await?;
    let transaction = Unfinished(Some(Arc::clone(&handle)));
    let session = Session::new(Access::new(handle));
    match work(Transaction { session }).await {
        Ok(value) => {
            transaction.commit().await?;
            Ok(value)
        }
        Err(error) => {
            transaction.abort().await;
            Err(error)
        }
    }
}

/// A transaction that `work` may hold on to: aborted when the whole future is dropped, not when the last handle is.
struct Unfinished(Option<Arc<dyn backend::Transaction>>);

impl Unfinished {
    async fn commit(mut self) -> Result<()> {
        match self.0.take() {
            // In a task of its own: a caller that is dropped now must not leave the commit half sent.
            Some(transaction) => {
                outcome(tokio::spawn(async move { transaction.commit().await }).await)?
            }
            None => Ok(()),
        }
    }

    async fn abort(mut self) {
        if let Some(transaction) = self.0.take() {
            transaction.abort().await;
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(transaction) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { transaction.abort().await });
        }
    }
}
