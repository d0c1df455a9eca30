//! `modify`: read, change and save a document; start over after a conflict.

use std::{pin::Pin, time::Duration};

use super::save::{read_edited, save_edited};
use crate::{
    ErrorKind, Result,
    language::query::Key,
    model::document::Document,
    session::{access::Access, retry},
};

/// Changes a document by a function, and retries after a conflict; made by [`Session::modify`](crate::Session::modify) and
/// [`Session::try_modify`](crate::Session::try_modify).
#[must_use = "a write runs when awaited"]
pub struct Modify<'c, T: Document> {
    access: Access,
    key: Key<T>,
    change: ChangeFn<'c, T>,
    attempts: u32,
}

type ChangeFn<'c, T> = Box<dyn FnMut(&mut T) -> Result<()> + Send + 'c>;

/// The default number of attempts before a conflict is returned.
const DEFAULT_MODIFY_ATTEMPTS: u32 = 100;

/// The longest time to wait in the queue of the writers of the same document.
const MAX_QUEUE_WAIT: Duration = Duration::from_secs(30);

/// The reason of a retry, for the log.
const CONFLICT_REASON: &str = "another write changed the document";

impl<'c, T: Document> Modify<'c, T> {
    pub(crate) fn new(
        access: Access,
        key: Key<T>,
        change: impl FnMut(&mut T) -> Result<()> + Send + 'c,
    ) -> Self {
        Self {
            access,
            key,
            change: Box::new(change),
            attempts: DEFAULT_MODIFY_ATTEMPTS,
        }
    }

    /// Sets the number of attempts, at least 1. The default is 100.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    async fn run_attempts(mut self) -> Result<T> {
        let mut attempt = 1;
        let mut conflict = None;
        let mut turn = None;
        loop {
            let mut edited = match read_edited::<T>(&self.access, &self.key).await {
                Ok(edited) => edited,
                // A conflict from the backend has ended the transaction. Return that conflict: only a conflict makes the caller's
                // transaction run again.
                Err(error) if error.kind() == ErrorKind::TransactionOver => {
                    return Err(conflict.unwrap_or(error));
                }
                Err(error) => return Err(error),
            };
            (self.change)(&mut edited)?;
            match save_edited(self.access.clone(), &mut edited).await {
                // The conflict is a pending change of an overflow array. Without hooks, the save has already waited for the
                // change. In the caller's transaction, a retry would read the same state again.
                Err(error)
                    if error.is_transient()
                        && (self.access.transaction_scope().is_some() || !T::HAS_HOOKS) =>
                {
                    return Err(error);
                }
                Err(error) if error.is_conflict() && attempt < self.attempts => {
                    conflict = Some(error);
                    // Do not queue inside a transaction: the writer ahead may be waiting for a write of this transaction.
                    if turn.is_none() && self.access.transaction_scope().is_none() {
                        retry::log_retry(CONFLICT_REASON, attempt);
                        let document = (T::COLLECTION, self.key.to_raw()?.into_bytes());
                        turn = retry::DOCUMENT_QUEUES
                            .wait_for_turn(document, MAX_QUEUE_WAIT)
                            .await;
                    } else {
                        retry::pause_before_retry(CONFLICT_REASON, attempt).await;
                    }
                    attempt += 1;
                }
                result => return result.map(|()| edited.into_inner()),
            }
        }
    }
}

impl<'c, T: Document> IntoFuture for Modify<'c, T> {
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'c>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let access = self.access.clone();
            let result = self.run_attempts().await;
            result.map_err(|error| access.note_conflict(error))
        })
    }
}
