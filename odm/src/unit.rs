//! What is committed together: a transaction, with what waits for its end.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    Error, ErrorKind, Result,
    access::Access,
    backend::{BoxFuture, Transaction},
    retry, task,
};

/// A transaction that has been begun, with what its writes leave for its end.
pub(crate) struct Unit {
    transaction: Arc<dyn Transaction>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Why it must not be committed.
    doomed: Option<Error>,
    /// What is to be done once it is committed.
    behind: Vec<Behind>,
}

/// Something to do once a transaction is committed, in its database.
pub(crate) type Behind = Box<dyn FnOnce(Access) -> BoxFuture<'static, Result<()>> + Send>;

/// How often, or for how long, a transaction is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempts {
    /// Once: `work` cannot run again, or the caller repeats it.
    One,
    /// Again after each conflict, until [`RETRY_FOR`] has passed. An attempt that has begun is not cut off.
    Many,
    /// Again after each conflict. After this time the attempt is aborted, unless it is committing.
    Within(Duration),
}

/// The usual one.
pub(crate) const ATTEMPTS: Attempts = Attempts::Many;

/// For how long a transaction that meets conflicts is tried again, unless its caller sets a limit.
pub(crate) const RETRY_FOR: Duration = Duration::from_secs(60);

/// How often a transaction is tried at most that fails with a conflict which is not one of two transactions: a document is not
/// as `work` read it before. Often it is so for good.
const FEW: u32 = 10;

/// How long others may take for something that a transaction has to wait for, from the first time that it meets that.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `work` in a transaction of the database and commits it. After a conflict, `work` waits for the earlier conflicting
/// transactions of this process over the same collection, and runs again. Without a `collection`, the error names it.
pub(crate) async fn run<R, W, F>(
    database: &Access,
    attempts: Attempts,
    collection: Option<&str>,
    mut work: W,
) -> Result<R>
where
    W: FnMut(Access) -> F + Send,
    F: Future<Output = Result<R>> + Send,
{
    refuse_outside(database)?;
    let clock = Clock::start(attempts);
    let mut attempt = 1;
    let mut turn = None;
    let mut waits = None;
    loop {
        match once(database, &mut work, Haste::Now, clock).await {
            Err(error)
                if error.is_passing()
                    && attempts != Attempts::One
                    && waits.get_or_insert_with(Instant::now).elapsed() < PATIENCE =>
            {
                turn = None;
                clock.limit(retry::long_pause()).await?;
            }
            Err(error)
                if error.is_conflict()
                    && attempts != Attempts::One
                    && (error.is_of_backend() || attempt < FEW) =>
            {
                let Some(left) = clock.left() else {
                    return Err(clock.gave_up(error, attempt));
                };
                // With the turn, a transaction conflicts only with other processes and with first attempts.
                if turn.is_none() {
                    let contended = collection.or(error.collection()).unwrap_or_default();
                    let line = (Database::of(database), contended);
                    turn = retry::OF_COLLECTIONS.turn(line, left).await;
                } else {
                    task::sleep(retry::pause_after(attempt).min(left)).await;
                }
                attempt += 1;
            }
            done => return done,
        }
    }
}

/// The time that a transaction may take.
#[derive(Debug, Clone, Copy)]
struct Clock {
    attempts: Attempts,
    begun: Instant,
}

impl Clock {
    fn start(attempts: Attempts) -> Self {
        Self {
            attempts,
            begun: Instant::now(),
        }
    }

    /// What is left for further attempts.
    fn left(&self) -> Option<Duration> {
        let all = match self.attempts {
            Attempts::One | Attempts::Many => RETRY_FOR,
            Attempts::Within(limit) => limit,
        };
        let left = all.saturating_sub(self.begun.elapsed());
        (!left.is_zero()).then_some(left)
    }

    /// Awaits what may be cut off at the caller's time limit.
    async fn limit<R>(&self, work: impl Future<Output = R>) -> Result<R> {
        let Attempts::Within(limit) = self.attempts else {
            return Ok(work.await);
        };
        let left = limit.saturating_sub(self.begun.elapsed());
        let done = task::timeout(left, work).await;
        done.map_err(|_| timed_out(limit))
    }

    /// The error of the attempt that was the last one.
    fn gave_up(&self, conflict: Error, attempts: u32) -> Error {
        if let Attempts::Within(limit) = self.attempts {
            return timed_out(limit).with_source(conflict);
        }
        let taken = self.begun.elapsed();
        let message = format!(
            "too much contention: {attempts} attempts in {taken:.0?} met conflicts with other writes, and nothing was kept; let the \
             transaction be shorter, or write less often to what others write to"
        );
        let error = Error::new(ErrorKind::Conflict, message);
        let error = match conflict.collection() {
            Some(collection) => error.with_collection(collection),
            None => error,
        };
        error.with_source(conflict)
    }
}

fn timed_out(limit: Duration) -> Error {
    let message = "the transaction took longer than its time limit, conflicts included; it was aborted, and nothing of it was kept";
    Error::new(ErrorKind::Timeout, message).with_limit("transaction", limit)
}

/// Runs `work` in a transaction that gives way to others: it is tried once, and they do not wait for its commit.
pub(crate) async fn run_behind_others<R, W, F>(database: &Access, mut work: W) -> Result<R>
where
    W: FnMut(Access) -> F + Send,
    F: Future<Output = Result<R>> + Send,
{
    refuse_outside(database)?;
    let clock = Clock::start(Attempts::One);
    once(database, &mut work, Haste::BehindOthers, clock).await
}

/// How soon a transaction is to be committed.
#[derive(Debug, Clone, Copy)]
enum Haste {
    Now,
    BehindOthers,
}

tokio::task_local! {
    /// The database of the transaction that this is the work of.
    static AT_WORK: Database;
}

/// Which database it is, among those of this process.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Database(usize);

impl Database {
    fn of(access: &Access) -> Self {
        Self(std::ptr::from_ref(access.shared()).addr())
    }
}

/// The caller's work in a transaction: what it writes through the database, and not in the transaction, is refused.
pub(crate) fn work<F: Future + Send>(
    database: &Access,
    work: F,
) -> impl Future<Output = F::Output> + Send {
    AT_WORK.scope(Database::of(database), work)
}

/// Refuses a write that would be no part of the transaction in whose work it is asked for.
pub(crate) fn refuse_outside(access: &Access) -> Result<()> {
    let is_at_work = AT_WORK.try_with(|database| *database == Database::of(access));
    if access.unit().is_some() || !is_at_work.unwrap_or(false) {
        return Ok(());
    }
    let message = "it is asked for in the closure of a transaction, of which it would be no part, and stay if that is aborted: write by \
                   `tx`; what is to be apart goes into a task of its own (`tokio::spawn`)";
    Err(Error::new(ErrorKind::OutsideTransaction, message))
}

async fn once<R, W, F>(database: &Access, work: &mut W, haste: Haste, clock: Clock) -> Result<R>
where
    W: FnMut(Access) -> F + Send,
    F: Future<Output = Result<R>> + Send,
{
    let transaction = database.begin().await?;
    let unit = Arc::new(Unit {
        transaction,
        state: Mutex::default(),
    });
    let unfinished = Unfinished(Some(Arc::clone(&unit)));
    // Boxed, as transactions are many layers of futures around their work.
    let done = clock.limit(Box::pin(work(database.inside(Arc::clone(&unit)))));
    let done = done.await.flatten();
    match done.and_then(|value| unit.refused().map_or(Ok(value), Err)) {
        Ok(value) => {
            unfinished.commit(database.clone(), haste).await?;
            Ok(value)
        }
        Err(error) => {
            unfinished.abort().await;
            Err(error)
        }
    }
}

impl Unit {
    pub(crate) fn transaction(&self) -> &Arc<dyn Transaction> {
        &self.transaction
    }

    /// It is not committed, whatever its work makes of the error.
    pub(crate) fn doom(&self, error: &Error) {
        self.with(|state| {
            state.doomed.get_or_insert_with(|| error.clone());
        });
    }

    /// Does this once it is committed.
    pub(crate) fn then(&self, behind: Behind) {
        self.with(|state| state.behind.push(behind));
    }

    fn refused(&self) -> Option<Error> {
        self.with(|state| state.doomed.clone())
    }

    async fn commit(&self, database: Access, haste: Haste) -> Result<()> {
        match haste {
            Haste::Now => self.transaction.commit().await?,
            Haste::BehindOthers => self.transaction.commit_behind_others().await?,
        }
        finish(
            database,
            self.with(|state| std::mem::take(&mut state.behind)),
        )
        .await
    }

    fn with<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.transaction.fmt(f)
    }
}

/// Does what was left for the time after a write: all of it, though some of it may fail.
pub(crate) async fn finish(database: Access, all: Vec<Behind>) -> Result<()> {
    let mut done = Ok(());
    for behind in all {
        let own = behind(database.clone()).await;
        done = done.and(own);
    }
    done
}

/// A transaction that `work` may hold on to: aborted when the whole future is dropped, not when the last handle is.
struct Unfinished(Option<Arc<Unit>>);

impl Unfinished {
    async fn commit(mut self, database: Access, haste: Haste) -> Result<()> {
        match self.0.take() {
            // In a task of its own: a caller that is dropped now must not leave the commit half sent.
            Some(unit) => {
                let commit = async move { unit.commit(database, haste).await };
                task::run(commit).await
            }
            None => Ok(()),
        }
    }

    async fn abort(mut self) {
        if let Some(unit) = self.0.take() {
            unit.transaction.abort().await;
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(unit) = self.0.take() {
            task::spawn(async move { unit.transaction.abort().await });
        }
    }
}
