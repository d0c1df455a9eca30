//! The write path: every typed write becomes a plan, and no typed write goes around it.
//!
//! A plan is the write itself and the maintenance that the schema asks for: copies, inverse sides, counters. No model of
//! this version has derived data, so a plan is its write and nothing else; what follows from it will be added here and
//! nowhere else.

use std::sync::Arc;

use crate::{
    Result,
    backend::{
        Executor,
        operation::{Delete, Deleted, Insert, Update, Updated},
        outcome,
    },
    schema::Model,
};

/// A write to documents of one model.
#[derive(Debug)]
pub(crate) struct Plan<W> {
    model: &'static Model,
    write: W,
}

/// The write of a plan: one operation of a backend.
pub(crate) trait Write: Send + 'static {
    /// What the backend tells of it.
    type Done: Send + 'static;

    /// Carries it out.
    fn run(self, executor: &dyn Executor) -> impl Future<Output = Result<Self::Done>> + Send;
}

impl<W: Write> Plan<W> {
    pub(crate) fn new(model: &'static Model, write: W) -> Self {
        Self { model, write }
    }

    /// Carries the plan out in a task of its own, so that it is not left half done when the caller is dropped.
    pub(crate) async fn run(self, executor: Arc<dyn Executor>) -> Result<W::Done> {
        let model = self.model;
        let done = tokio::spawn(async move { self.write.run(&*executor).await }).await;
        outcome(done).flatten().map_err(|error| {
            error
                .with_model(model.name)
                .with_collection(model.collection)
        })
    }
}

impl Write for Insert {
    type Done = ();
    async fn run(self, executor: &dyn Executor) -> Result<()> {
        executor.insert(self).await
    }
}

impl Write for Update {
    type Done = Updated;
    async fn run(self, executor: &dyn Executor) -> Result<Updated> {
        executor.update(self).await
    }
}

impl Write for Delete {
    type Done = Deleted;
    async fn run(self, executor: &dyn Executor) -> Result<Deleted> {
        executor.delete(self).await
    }
}
