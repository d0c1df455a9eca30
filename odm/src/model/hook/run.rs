//! Runs a write and the hooks after the write.

use super::{Committed, RunHooks};
use crate::{
    Error, Result,
    backend::BoxFuture,
    error,
    model::document::Document,
    session::{
        access::Access,
        transaction_scope::{self, PostCommit},
    },
};

/// The hooks of a model, as an object.
pub(crate) type ModelHooks<T> = &'static dyn RunHooks<T>;

/// The result of a write with hooks.
pub(crate) struct HookedWrite<T: Document, R> {
    pub(crate) done: R,
    /// The result of the hooks after the write.
    pub(crate) after_hooks: Result<()>,
    /// The events for [`after_commit`](super::Hooks::after_commit).
    pub(crate) events: Vec<Committed<T>>,
}

impl<T: Document, R> HookedWrite<T, R> {
    /// Makes the result of a write that matched no document, for which no hooks run.
    pub(crate) fn without_match(outcome: R) -> Self {
        Self {
            done: outcome,
            after_hooks: Ok(()),
            events: Vec::new(),
        }
    }
}

/// Runs a write and the hooks after the write to their end, so that a caller that drops the future cannot stop between the two.
pub(crate) async fn run_with_after_hooks<T, R, W, F>(
    access: Access,
    hooks: ModelHooks<T>,
    write: W,
) -> Result<R>
where
    T: Document,
    R: Send + 'static,
    W: FnOnce(Access) -> F,
    F: Future<Output = Result<HookedWrite<T, R>>> + Send + 'static,
{
    transaction_scope::ensure_in_transaction(&access).map_err(error::naming_model(&T::MODEL))?;
    let write = write(access.clone());
    // Boxed as a trait object: the following code is compiled once per type of future.
    let task: BoxFuture<'static, Result<R>> = Box::pin(async move {
        let written = write.await?;
        let scope = access.scope();
        let events = written.events.into_iter().map(|event| -> PostCommit {
            let scope = scope.clone();
            Box::new(move |database| {
                Box::pin(async move {
                    let result = hooks.after_commit(event, database.with_scope(scope)).await;
                    result.map_err(Error::of_post_commit_hook)
                })
            })
        });
        match access.transaction_scope() {
            Some(transaction) => {
                written
                    .after_hooks
                    .map_err(|error| access.fail_transaction(error))?;
                events.for_each(|event| transaction.add_post_commit(event));
            }
            None => {
                let events = events.collect();
                let result = transaction_scope::run_post_commit(access.clone(), events).await;
                written
                    .after_hooks
                    .map_err(Error::of_post_commit_hook)
                    .and(result)?;
            }
        }
        Ok(written.done)
    });
    transaction_scope::run_write(task).await
}
