//! A write with the hooks behind it.

use super::{Committed, RunHooks};
use crate::{
    Error, Result,
    access::Access,
    backend::BoxFuture,
    document::Document,
    error, task,
    unit::{self, Behind},
};

/// The hooks of a model.
pub(crate) type Hooks<T> = &'static dyn RunHooks<T>;

/// A write that was carried out.
pub(crate) struct Written<T: Document, R> {
    pub(crate) done: R,
    /// What the hooks behind it said.
    pub(crate) after: Result<()>,
    /// What is to be told once it is committed.
    pub(crate) events: Vec<Committed<T>>,
}

impl<T: Document, R> Written<T, R> {
    /// A write that has found nothing to do: it has no hooks behind it.
    pub(crate) fn nothing(done: R) -> Self {
        Self {
            done,
            after: Ok(()),
            events: Vec::new(),
        }
    }
}

/// Carries out a write and the hooks behind it in a task of their own, so that a caller that is dropped does not come between.
pub(crate) async fn written<T, R, W, F>(access: Access, hooks: Hooks<T>, write: W) -> Result<R>
where
    T: Document,
    R: Send + 'static,
    W: FnOnce(Access) -> F,
    F: Future<Output = Result<Written<T, R>>> + Send + 'static,
{
    unit::refuse_outside(&access).map_err(error::of(&T::MODEL))?;
    let write = write(access.clone());
    // As an object: a task is compiled for each kind of future that it is made of.
    let task: BoxFuture<'static, Result<R>> = Box::pin(async move {
        let written = write.await?;
        let scope = access.scope();
        let events = written.events.into_iter().map(|event| -> Behind {
            let scope = scope.clone();
            Box::new(move |database| {
                Box::pin(async move {
                    let told = hooks.after_commit(event, database.within(scope)).await;
                    told.map_err(Error::of_hook_behind)
                })
            })
        });
        match access.unit() {
            Some(unit) => {
                written.after.map_err(|error| access.fail(error))?;
                events.for_each(|event| unit.then(event));
            }
            None => {
                let events = events.collect();
                let told = unit::finish(access.clone(), events).await;
                written.after.map_err(Error::of_hook_behind).and(told)?;
            }
        }
        Ok(written.done)
    });
    task::run(task).await
}
