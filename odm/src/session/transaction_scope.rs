//! Transaction scopes: a transaction with its post-commit work.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::TryFutureExt;
use tokio::time::Instant;

use crate::{
    Error, ErrorKind, Result,
    backend::{BackendTransaction, BoxFuture, LastConflict},
    session::{access::Access, retry, task},
};

/// A transaction that has begun, with the post-commit work of its writes.
pub(crate) struct TransactionScope {
    transaction: Arc<dyn BackendTransaction>,
    /// The last conflict of an operation of the transaction.
    last_conflict: Arc<LastConflict>,
    state: Mutex<ScopeState>,
}

#[derive(Default)]
struct ScopeState {
    /// The error that makes the transaction rollback-only.
    rollback_reason: Option<Error>,
    /// The work to do after the commit.
    post_commit: Vec<PostCommit>,
}

/// Work to do after the commit of a transaction, in the same database.
pub(crate) type PostCommit = Box<dyn FnOnce(Access) -> BoxFuture<'static, Result<()>> + Send>;

/// The limit for the attempts of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransactionAttempts {
    /// A single attempt: `work` cannot run again, or the caller retries.
    Single,
    /// Attempts after each conflict, until [`MAX_RETRY_TIME`] has passed. A running attempt is not cut off.
    UntilRetryTime,
    /// Attempts after each conflict, within this time. Then the attempt is aborted, unless the commit has begun.
    Within(Duration),
}

/// The default limit.
pub(crate) const DEFAULT_TRANSACTION_ATTEMPTS: TransactionAttempts =
    TransactionAttempts::UntilRetryTime;

/// The maximum time for attempts after conflicts, unless the caller sets a limit.
pub(crate) const MAX_RETRY_TIME: Duration = Duration::from_secs(60);

/// The maximum number of attempts after conflicts that the backend did not report: a document has changed since `work` read it.
/// Such a conflict is often permanent.
const MAX_STALE_READ_ATTEMPTS: u32 = 10;

/// The maximum time to wait for a step of another writer, counted from the first wait.
const MAX_WAIT_FOR_OTHER_WRITER: Duration = Duration::from_secs(30);

/// The failure of one attempt of a transaction.
pub(crate) struct AttemptError<E> {
    /// The error for the caller.
    error: E,
    /// The conflict that caused the failure: another attempt can succeed.
    conflict: Option<Error>,
}

impl<E> AttemptError<E> {
    /// Returns the failure of the closure of a transaction. The type of the error does not tell the cause, so the last conflict of
    /// an operation in the transaction counts as the cause.
    pub(crate) fn of_closure(error: E, scope: Option<&TransactionScope>) -> Self {
        let conflict = scope.and_then(|scope| scope.last_conflict.get());
        Self { error, conflict }
    }

    pub(crate) fn into_error(self) -> E {
        self.error
    }
}

impl<E: From<Error>> From<Error> for AttemptError<E> {
    fn from(error: Error) -> Self {
        let is_retryable = error.is_conflict() || error.is_transient();
        Self {
            conflict: is_retryable.then(|| error.clone()),
            error: error.into(),
        }
    }
}

/// Runs `work` in a transaction of the database and commits the transaction.
///
/// After a conflict, `work` waits in a queue for the earlier conflicting transactions of this process over the same collection,
/// and runs again. Without `collection`, the error names the collection of the queue.
pub(crate) async fn run_transaction<R, E, W, F>(
    database: &Access,
    attempts: TransactionAttempts,
    collection: Option<&str>,
    mut work: W,
) -> Result<R, E>
where
    E: From<Error>,
    W: FnMut(Access) -> F + Send,
    F: Future<Output = Result<R, AttemptError<E>>> + Send,
{
    ensure_in_transaction(database)?;
    let clock = TransactionClock::start_now(attempts);
    let mut attempt = 1;
    let mut turn = None;
    let mut first_wait = None;
    loop {
        let failure = match run_attempt(database, &mut work, CommitPriority::Normal, clock).await {
            Ok(value) => return Ok(value),
            Err(failure) => failure,
        };
        let Some(conflict) = failure.conflict.as_ref() else {
            return Err(failure.error);
        };
        if attempts == TransactionAttempts::Single {
            return Err(failure.error);
        }
        if conflict.is_transient()
            && first_wait.get_or_insert_with(Instant::now).elapsed() < MAX_WAIT_FOR_OTHER_WRITER
        {
            retry::log_retry(
                format_args!("the transaction has ended: {conflict}"),
                attempt,
            );
            turn = None;
            clock.run_within_limit(retry::long_pause()).await?;
        } else if conflict.is_conflict()
            && (conflict.is_from_backend() || attempt < MAX_STALE_READ_ATTEMPTS)
        {
            let Some(remaining) = clock.remaining_time() else {
                return Err(clock.contention_error(conflict.clone(), attempt).into());
            };
            retry::log_retry(
                format_args!("the transaction has ended: {conflict}"),
                attempt,
            );
            // A transaction at the head of the queue conflicts only with other processes and with first attempts.
            if turn.is_none() {
                let collection_name = collection.or(conflict.collection()).unwrap_or_default();
                let queue = (DatabaseIdentity::of_access(database), collection_name);
                turn = retry::COLLECTION_QUEUES
                    .wait_for_turn(queue, remaining)
                    .await;
            } else {
                task::sleep(retry::pause_duration(attempt).min(remaining)).await;
            }
            attempt += 1;
        } else {
            return Err(failure.error);
        }
    }
}

/// The time limit of a transaction.
#[derive(Debug, Clone, Copy)]
struct TransactionClock {
    attempts: TransactionAttempts,
    started_at: Instant,
}

impl TransactionClock {
    fn start_now(attempts: TransactionAttempts) -> Self {
        Self {
            attempts,
            started_at: Instant::now(),
        }
    }

    /// Returns the remaining time for further attempts, or `None` if no time is left.
    fn remaining_time(&self) -> Option<Duration> {
        let limit = match self.attempts {
            TransactionAttempts::Single | TransactionAttempts::UntilRetryTime => MAX_RETRY_TIME,
            TransactionAttempts::Within(limit) => limit,
        };
        let remaining = limit.saturating_sub(self.started_at.elapsed());
        (!remaining.is_zero()).then_some(remaining)
    }

    /// Awaits a future. A time limit of the caller cancels the future.
    async fn run_within_limit<R>(&self, work: impl Future<Output = R>) -> Result<R> {
        let TransactionAttempts::Within(limit) = self.attempts else {
            return Ok(work.await);
        };
        let remaining = limit.saturating_sub(self.started_at.elapsed());
        let result = task::timeout(remaining, work).await;
        result.map_err(|_| transaction_timed_out(limit))
    }

    /// Returns the error after the last attempt.
    fn contention_error(&self, conflict: Error, attempts: u32) -> Error {
        if let TransactionAttempts::Within(limit) = self.attempts {
            return transaction_timed_out(limit).with_source(conflict);
        }
        let elapsed = self.started_at.elapsed();
        let message = format!(
            "too much contention: {attempts} attempts in {elapsed:.0?} conflicted with other writes, and nothing was written; make the \
             transaction shorter, or write less often to documents that other writers change"
        );
        let error = Error::new(ErrorKind::Conflict, message);
        let error = match conflict.collection() {
            Some(collection) => error.with_collection(collection),
            None => error,
        };
        error.with_source(conflict)
    }
}

fn transaction_timed_out(limit: Duration) -> Error {
    let message = "the transaction exceeded its time limit, retries included; the transaction was aborted, and nothing was written";
    Error::new(ErrorKind::Timeout, message).with_limit("transaction", limit)
}

/// Runs `work` in a low-priority transaction: a single attempt, and no concurrent write waits for the commit.
pub(crate) async fn run_low_priority<R, W, F>(database: &Access, mut work: W) -> Result<R>
where
    W: FnMut(Access) -> F + Send,
    F: Future<Output = Result<R>> + Send,
{
    ensure_in_transaction(database)?;
    let clock = TransactionClock::start_now(TransactionAttempts::Single);
    let mut work = |access| work(access).map_err(AttemptError::from);
    let attempt = run_attempt(database, &mut work, CommitPriority::Low, clock).await;
    attempt.map_err(AttemptError::into_error)
}

/// The priority of a commit.
#[derive(Debug, Clone, Copy)]
enum CommitPriority {
    Normal,
    Low,
}

tokio::task_local! {
    /// The database of the transaction closure that runs in this task.
    static CLOSURE_DATABASE: DatabaseIdentity;
}

/// The identity of a database handle in this process.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct DatabaseIdentity(usize);

impl DatabaseIdentity {
    /// The identity of no database.
    const NONE: Self = Self(0);

    fn of_access(access: &Access) -> Self {
        Self(std::ptr::from_ref(access.shared_state()).addr())
    }
}

/// Runs the closure of a transaction. Inside, writes through the database instead of the transaction are rejected.
pub(crate) fn run_closure<F: Future + Send>(
    database: &Access,
    work: F,
) -> impl Future<Output = F::Output> + Send {
    CLOSURE_DATABASE.scope(DatabaseIdentity::of_access(database), work)
}

/// Runs a write or a commit to its end, even if the returned future is dropped after its first poll.
///
/// The work counts as outside of the closure of a transaction, also while it runs on the task of the closure: follow-up work and
/// hooks after the commit may write through the database.
pub(crate) fn run_write<T: Send + 'static>(
    write: impl Future<Output = Result<T>> + Send + 'static,
) -> impl Future<Output = Result<T>> + Send {
    task::run_inline_to_end(CLOSURE_DATABASE.scope(DatabaseIdentity::NONE, write))
}

/// Ensures that a write in the closure of a transaction uses the transaction.
///
/// # Errors
///
/// [`OutsideTransaction`](ErrorKind::OutsideTransaction) for a write through the database: the write would survive an abort.
pub(crate) fn ensure_in_transaction(access: &Access) -> Result<()> {
    let is_in_closure =
        CLOSURE_DATABASE.try_with(|database| *database == DatabaseIdentity::of_access(access));
    if access.transaction_scope().is_some() || !is_in_closure.unwrap_or(false) {
        return Ok(());
    }
    let message = "a write in the closure of a transaction goes through the database, so an abort would not undo the write: use `tx`, or run \
                   an independent write in a task of its own (`tokio::spawn`)";
    Err(Error::new(ErrorKind::OutsideTransaction, message))
}

async fn run_attempt<R, E, W, F>(
    database: &Access,
    work: &mut W,
    priority: CommitPriority,
    clock: TransactionClock,
) -> Result<R, AttemptError<E>>
where
    E: From<Error>,
    W: FnMut(Access) -> F + Send,
    F: Future<Output = Result<R, AttemptError<E>>> + Send,
{
    let last_conflict = Arc::<LastConflict>::default();
    let transaction = database.begin_transaction(&last_conflict).await?;
    let scope = Arc::new(TransactionScope {
        transaction,
        last_conflict,
        state: Mutex::default(),
    });
    let unfinished = UnfinishedTransaction(Some(Arc::clone(&scope)));
    // Boxed: the future of a transaction wraps many layers around `work`, and would fill the stack.
    let result =
        clock.run_within_limit(Box::pin(work(database.in_transaction(Arc::clone(&scope)))));
    let result = result.await.map_err(AttemptError::from).flatten();
    let result = match scope.rollback_error() {
        Some(error) => result.and(Err(error.into())),
        None => result,
    };
    match result {
        Ok(value) => {
            unfinished.commit_scope(database.clone(), priority).await?;
            Ok(value)
        }
        Err(error) => {
            unfinished.abort_scope().await;
            Err(error)
        }
    }
}

impl TransactionScope {
    pub(crate) fn backend_transaction(&self) -> &Arc<dyn BackendTransaction> {
        &self.transaction
    }

    /// Makes the transaction rollback-only, even if `work` ignores the error.
    pub(crate) fn set_rollback_only(&self, error: &Error) {
        self.with_state(|state| {
            state.rollback_reason.get_or_insert_with(|| error.clone());
        });
    }

    /// Remembers the error of an operation if the error is a conflict: the closure may return an error of its own type instead.
    pub(crate) fn note_conflict(&self, error: &Error) {
        self.last_conflict.note(error);
    }

    /// Adds work to do after the commit.
    pub(crate) fn add_post_commit(&self, work: PostCommit) {
        self.with_state(|state| state.post_commit.push(work));
    }

    fn rollback_error(&self) -> Option<Error> {
        self.with_state(|state| state.rollback_reason.clone())
    }

    async fn commit_transaction(&self, database: Access, priority: CommitPriority) -> Result<()> {
        match priority {
            CommitPriority::Normal => self.transaction.commit().await?,
            CommitPriority::Low => self.transaction.commit_low_priority().await?,
        }
        run_post_commit(
            database,
            self.with_state(|state| std::mem::take(&mut state.post_commit)),
        )
        .await
    }

    fn with_state<R>(&self, change: impl FnOnce(&mut ScopeState) -> R) -> R {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for TransactionScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.transaction.fmt(f)
    }
}

/// Runs all post-commit work, even after an error. Returns the first error.
pub(crate) async fn run_post_commit(database: Access, post_commit: Vec<PostCommit>) -> Result<()> {
    let mut result = Ok(());
    for work in post_commit {
        result = result.and(work(database.clone()).await);
    }
    result
}

/// A transaction that is not finished. Dropping this value aborts the transaction: `work` may keep a handle, so the last handle
/// decides nothing.
struct UnfinishedTransaction(Option<Arc<TransactionScope>>);

impl UnfinishedTransaction {
    async fn commit_scope(mut self, database: Access, priority: CommitPriority) -> Result<()> {
        match self.0.take() {
            // A caller that drops the future now must not leave the commit half sent.
            Some(scope) => {
                run_write(async move { scope.commit_transaction(database, priority).await }).await
            }
            None => Ok(()),
        }
    }

    async fn abort_scope(mut self) {
        if let Some(scope) = self.0.take() {
            scope.transaction.abort().await;
        }
    }
}

impl Drop for UnfinishedTransaction {
    fn drop(&mut self) {
        if let Some(scope) = self.0.take() {
            task::spawn(async move { scope.transaction.abort().await });
        }
    }
}
