//! A backend whose writes are undone.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{
    Backend, BackendTransaction, BoxFuture, Capabilities, ChangeCursor,
    operation::{Index, Operation, WatchOperation},
    wrapper::Wrapper,
};
use crate::{Error, ErrorKind, Result};

/// A backend that records every operation and undoes every write, to explain a write.
///
/// All operations run in one transaction of the wrapped backend, which never commits. A transaction of the trial is a part of that
/// transaction: its commit is recorded, and changes nothing.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    backend: Arc<dyn Backend>,
    transaction: Arc<dyn BackendTransaction>,
    /// The reported capability.
    has_transactions: bool,
    recording: Arc<Recording>,
}

#[derive(Debug)]
struct Recording {
    is_on: AtomicBool,
    operations: Mutex<Vec<Operation>>,
    /// The first conflict with another write. A conflict ends the transaction of the trial, so the write cannot try again.
    conflict: Mutex<Option<Error>>,
}

impl Trial {
    /// Begins a trial. Without `has_transactions`, the trial reports the capabilities of a standalone server.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) if the backend has no transactions.
    pub(crate) async fn begin(backend: Arc<dyn Backend>, has_transactions: bool) -> Result<Self> {
        if !backend.capabilities().transactions {
            let message = "a server without transactions cannot undo a write, so `explain` cannot show the operations: explain the write on a \
                           replica set or on the embedded engine, where `.explain().standalone()` shows the operations for this server";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(Self {
            transaction: backend.begin().await?,
            backend,
            has_transactions,
            recording: Arc::new(Recording {
                is_on: AtomicBool::new(false),
                operations: Mutex::default(),
                conflict: Mutex::default(),
            }),
        })
    }

    /// Starts the recording.
    pub(crate) fn record(&self) {
        self.recording.is_on.store(true, Ordering::Relaxed);
    }

    /// Stops the recording, and returns the recorded operations of a write with this result.
    ///
    /// # Errors
    ///
    /// The first conflict with another write, or the error of the write. [`Unsupported`](ErrorKind::Unsupported) if the write
    /// continued after it had undone a part of its work: the trial cannot undo a part.
    pub(crate) fn stop_recording(&self, result: Result<()>) -> Result<Vec<Operation>> {
        self.recording.is_on.store(false, Ordering::Relaxed);
        let operations = std::mem::take(&mut *self.operations());
        if let Some(conflict) = self.lock_conflict().take() {
            return Err(conflict);
        }
        let mut undone =
            operations.split_inclusive(|operation| matches!(operation, Operation::Abort));
        // The part after the last abort was not undone.
        let last = undone.next_back();
        let continues = last.is_some_and(|last| !matches!(last.last(), Some(Operation::Abort)));
        let has_undone_writes = undone.any(|part| {
            let attempt = part.iter().rev();
            let mut attempt =
                attempt.take_while(|operation| !matches!(operation, Operation::Begin));
            attempt.any(Operation::is_write)
        });
        if continues && has_undone_writes {
            let message = "the write undoes its first attempt and runs in another way, which `explain` cannot show";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        result.map(|()| operations)
    }

    /// Undoes all writes.
    pub(crate) async fn undo(&self) {
        self.transaction.abort().await;
    }

    fn operations(&self) -> MutexGuard<'_, Vec<Operation>> {
        let operations = self.recording.operations.lock();
        operations.unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_conflict(&self) -> MutexGuard<'_, Option<Error>> {
        let conflict = self.recording.conflict.lock();
        conflict.unwrap_or_else(PoisonError::into_inner)
    }

    fn record_operation(&self, operation: Operation) {
        if !self.recording.is_on.load(Ordering::Relaxed) {
            return;
        }
        self.operations().push(operation);
    }
}

/// The operations of the trial itself and of its transactions.
impl Wrapper for Trial {
    type Inner = dyn BackendTransaction;

    fn inner(&self) -> &Self::Inner {
        &*self.transaction
    }

    fn perform<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        run: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        self.record_operation(operation);
        Box::pin(async move {
            let result = run.await;
            if let Err(error) = &result {
                self.note_failure(error);
            }
            result
        })
    }

    fn note_failure(&self, error: &Error) {
        if error.is_conflict() || error.is_transient() {
            let mut conflict = self.lock_conflict();
            conflict.get_or_insert_with(|| error.clone());
        }
    }

    fn wrap_transaction(
        &self,
        transaction: Arc<dyn BackendTransaction>,
    ) -> Arc<dyn BackendTransaction> {
        transaction
    }

    fn ends_inner(&self) -> bool {
        false
    }
}

impl Backend for Trial {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            transactions: self.has_transactions,
            ..self.backend.capabilities()
        }
    }

    fn system_name(&self) -> &'static str {
        self.backend.system_name()
    }

    fn begin(&self) -> BoxFuture<'_, Result<Arc<dyn BackendTransaction>>> {
        Box::pin(async {
            self.record_operation(Operation::Begin);
            let part: Arc<dyn BackendTransaction> = Arc::new(self.clone());
            Ok(part)
        })
    }

    fn list_collections(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        self.backend.list_collections()
    }

    /// A write reads the indexes at most once for each database handle, so the read is not recorded.
    fn list_indexes<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Vec<Index>>> {
        self.backend.list_indexes(collection)
    }

    fn create_collection<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
        not_undone()
    }

    fn drop_collection<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
        not_undone()
    }

    fn create_indexes<'a>(&'a self, _: &'a str, _: Vec<Index>) -> BoxFuture<'a, Result<()>> {
        not_undone()
    }

    fn set_expiry<'a>(&'a self, _: &'a str, _: &'a str, _: Duration) -> BoxFuture<'a, Result<()>> {
        not_undone()
    }

    fn drop_index<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<()>> {
        not_undone()
    }

    fn watch(&self, _: WatchOperation) -> BoxFuture<'_, Result<Box<dyn ChangeCursor>>> {
        not_undone()
    }
}

/// Returns the error of an operation that no transaction can undo.
fn not_undone<'a, T: Send + 'a>() -> BoxFuture<'a, Result<T>> {
    let message = "`explain` runs a write that no transaction can undo";
    Box::pin(async move { Err(Error::new(ErrorKind::Unsupported, message)) })
}
