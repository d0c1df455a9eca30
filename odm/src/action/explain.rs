//! `explain` of a write.

use std::{fmt, pin::Pin, sync::Arc};

use crate::{
    Result,
    backend::{
        BoxFuture, Trial,
        operation::{Operation, Stage},
    },
    model::document::Document,
    pending::{PendingWork, read_pending_work},
    session::{access::Access, task, transaction_scope::TransactionAttempts},
};

/// Returns the plan of a write; made by `explain` of [`Update`](super::Update::explain), [`InsertOne`](super::InsertOne::explain),
/// [`InsertMany`](super::InsertMany::explain), [`Save`](super::Save::explain) and [`Delete`](super::Delete::explain).
///
/// `explain` runs the write in a transaction and undoes the transaction, so the operations are exact for the stored documents. Hooks
/// do not run. Until `explain` returns, other writes to the same documents wait or conflict.
///
/// # Errors
///
/// - The errors of the write, and [`Conflict`](crate::ErrorKind::Conflict) if another write changes the same documents meanwhile.
/// - [`Unsupported`](crate::ErrorKind::Unsupported) on a standalone server, which cannot undo a write, and inside of a transaction.
/// - `Unsupported` for a write that undoes its first attempt and then runs in another way. For example, a dependent rejects a copy.
///
/// ```
/// # use odm::prelude::*;
/// #[derive(Serialize, Deserialize, Document)]
/// #[document(collection = "persons")]
/// struct Person {
///     #[serde(rename = "_id")]
///     id: i64,
///     #[reference(inverse_of = owner, max = 200)]
///     tasks: Vec<Ref<Task>>,
/// }
///
/// #[derive(Serialize, Deserialize, Document)]
/// #[document(collection = "tasks")]
/// struct Task {
///     #[serde(rename = "_id")]
///     id: i64,
///     #[reference(inverse = tasks, on_delete = restrict)]
///     owner: Ref<Person>,
/// }
/// # #[derive(Schema)] #[schema(models(Person, Task))] struct Office;
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// # let db = odm::Database::<Office>::open("memory:").await?;
/// # db.insert_many([NewPerson { id: 1 }, NewPerson { id: 2 }]).await?;
/// # db.insert(Task { id: 7, owner: Ref::new(1) }).await?;
///
/// let plan = db.update::<Task>(7).set(|t| t.owner(), Ref::new(2)).explain().await?;
/// assert_eq!(
///     plan.to_string(),
///     "\
/// update of tasks: in one transaction
/// reasons
///     references: `owner` has the inverse `tasks` of persons
/// operations
///     1 × findAndModify tasks            update
///     1 × bulkWrite persons              references: write the inverses
///     1 × commit
/// "
/// );
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
#[must_use = "a write is explained when awaited"]
pub struct ExplainWrite<'w> {
    access: Access,
    collection: &'static str,
    is_standalone: bool,
    /// Whether the write and the hooks of the model share a transaction.
    has_hooks: bool,
    write: Box<dyn FnOnce(Access) -> BoxFuture<'w, Result<()>> + Send + 'w>,
}

/// The plan of a write: how the write runs, and why.
///
/// `Display` writes the plan as text: the strategy, and a list of reasons, of operations and of pending work, each if not empty.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WritePlan {
    /// The typed action, such as `update`.
    pub action: &'static str,
    /// The collection of the documents.
    pub collection: &'static str,
    /// How the operations belong together.
    pub strategy: WriteStrategy,
    /// The stages that run, with the declarations of the model that are the reasons. Empty for a write without references and
    /// derived data.
    pub reasons: Vec<(Stage, String)>,
    /// The operations in the order of their start, each with an [origin](Operation::origin).
    pub operations: Vec<Operation>,
    /// The work that is pending when the write returns, and that a background task completes.
    pub pending: PendingWork,
}

/// How the operations of a write belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteStrategy {
    /// The write needs no follow-up work.
    Direct,
    /// The write and its follow-up work are one transaction.
    Transactional,
    /// The write takes several transactions. For example, a delete of more than 10,000 documents, or an update of several
    /// documents that each change spilled elements.
    Batched,
    /// The write records the follow-up work in the document. The work runs after the write, and any process can complete it.
    Recorded,
}

impl fmt::Display for WriteStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "without follow-up work",
            Self::Transactional => "in one transaction",
            Self::Batched => "in several transactions",
            Self::Recorded => "with follow-up work that the document records",
        })
    }
}

impl<'w> ExplainWrite<'w> {
    pub(super) fn new<T: Document, F>(
        access: Access,
        write: impl FnOnce(Access) -> F + Send + 'w,
    ) -> Self
    where
        F: Future<Output = Result<()>> + Send + 'w,
    {
        Self {
            access,
            collection: T::COLLECTION,
            is_standalone: false,
            has_hooks: T::HAS_HOOKS,
            write: Box::new(|access| Box::pin(write(access))),
        }
    }

    /// Explains the write as it runs on a standalone server of MongoDB, which has no transactions.
    ///
    /// The call needs a database with transactions, such as the embedded engine, because a standalone server cannot undo a write.
    pub fn standalone(self) -> Self {
        Self {
            is_standalone: true,
            ..self
        }
    }

    async fn run(self) -> Result<WritePlan> {
        let explanation = Arc::default();
        let begun = self
            .access
            .begin_trial(Arc::clone(&explanation), !self.is_standalone);
        let (trial, access) = begun.await?;
        // The trial is undone also if the caller drops this future.
        let undo = UndoOnDrop(Some(trial.clone()));
        let result = async {
            let full_access = access.with_full_visibility();
            let models = access.schema_models();
            let before = read_pending_work(&full_access, models, None).await?;
            trial.record();
            let result = match self.has_hooks {
                false => (self.write)(access).await,
                true => {
                    let mut only_attempt = Some(self.write);
                    let run = |access| match only_attempt.take() {
                        Some(write) => write(access),
                        None => Box::pin(async { Ok(()) }),
                    };
                    access
                        .run_with_attempts(TransactionAttempts::Single, run)
                        .await
                }
            };
            let operations = trial.stop_recording(result)?;
            let after = read_pending_work(&full_access, models, None).await?;
            Ok((operations, after.added_since(&before)))
        };
        let result = result.await;
        undo.undo().await;
        let (operations, pending) = result?;
        Ok(WritePlan {
            action: self.access.operation_metrics().name(),
            collection: self.collection,
            strategy: WriteStrategy::of(&operations, &pending),
            reasons: explanation.reasons(),
            operations,
            pending,
        })
    }
}

impl<'w> IntoFuture for ExplainWrite<'w> {
    type Output = Result<WritePlan>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'w>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Undoes a trial when dropped.
struct UndoOnDrop(Option<Trial>);

impl UndoOnDrop {
    async fn undo(mut self) {
        if let Some(trial) = self.0.take() {
            trial.undo().await;
        }
    }
}

impl Drop for UndoOnDrop {
    fn drop(&mut self) {
        if let Some(trial) = self.0.take() {
            task::spawn(async move { trial.undo().await });
        }
    }
}

impl WriteStrategy {
    fn of(operations: &[Operation], pending: &PendingWork) -> Self {
        let begun = |operation: &&Operation| matches!(operation, Operation::Begin);
        let begun = operations.iter().filter(begun).count();
        let is_follow_up =
            |operation: &Operation| operation.is_write() && operation.origin().stage.is_some();
        if begun == 1 {
            Self::Transactional
        } else if begun > 1 {
            Self::Batched
        } else if !pending.is_empty() || operations.iter().any(is_follow_up) {
            Self::Recorded
        } else {
            Self::Direct
        }
    }
}

impl fmt::Display for WritePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} of {}: {}",
            self.action, self.collection, self.strategy
        )?;
        let reasons = self.reasons.iter();
        let reasons = reasons.map(|(stage, reason)| format!("{}: {reason}", stage.name()));
        let lines = count_equal(&self.operations).into_iter();
        let operations = lines.map(|(operation, count)| format!("{count} × {operation}"));
        let models = self.pending.models.iter();
        let pending = models.map(|entry| format!("{}: {}", entry.model, entry.counts()));
        for (title, lines) in [
            ("reasons", reasons.collect::<Vec<_>>()),
            ("operations", operations.collect()),
            ("pending afterwards", pending.collect()),
        ] {
            if !lines.is_empty() {
                writeln!(f, "{title}\n    {}", lines.join("\n    "))?;
            }
        }
        Ok(())
    }
}

/// Returns a line for each kind of operation, with the number of operations, in the order of the first. The start of a transaction
/// is sent with the first operation, and has no line.
fn count_equal(operations: &[Operation]) -> Vec<(String, usize)> {
    let mut lines: Vec<(String, usize)> = Vec::new();
    let sent = operations.iter();
    for operation in sent.filter(|operation| !matches!(operation, Operation::Begin)) {
        let origin = operation.origin();
        let purpose = match origin.stage {
            Some(stage) => format!("{}: {}", stage.name(), origin.step),
            None => origin.action.to_owned(),
        };
        let line = format!("{:30} {purpose}", operation.summary());
        let line = line.trim_end().to_owned();
        match lines.iter_mut().find(|(other, _)| *other == line) {
            Some((_, count)) => *count += 1,
            None => lines.push((line, 1)),
        }
    }
    lines
}
