//! Waiting after a conflict: a pause, or a queue.

use std::{
    collections::BTreeMap,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::{schema::Model, session::task};

/// The pause after the first conflict. Each further pause is twice as long, up to [`MAX_CONFLICT_PAUSE`], less a random part.
const FIRST_CONFLICT_PAUSE: Duration = Duration::from_millis(2);
const MAX_CONFLICT_PAUSE: Duration = Duration::from_millis(250);

/// The log target of retries and of fallbacks to another strategy.
const RETRY_TARGET: &str = "odm::retry";

/// Logs the reason of a retry, and waits. Attempts count from 1.
pub(crate) async fn pause_before_retry(reason: &str, attempt: u32) {
    log_retry(reason, attempt);
    task::sleep(pause_duration(attempt)).await;
}

/// Logs the reason of a retry.
pub(crate) fn log_retry(reason: impl fmt::Display, attempt: u32) {
    tracing::debug!(target: RETRY_TARGET, %reason, attempt, "retry");
}

/// Logs that a write continues with another strategy.
pub(crate) fn log_fallback(model: &Model, reason: impl fmt::Display) {
    tracing::debug!(target: RETRY_TARGET, model = model.name, %reason, "fallback");
}

/// Waits for a step of another writer that takes a while.
pub(crate) async fn long_pause() {
    task::sleep(pause_duration(6)).await;
}

/// Returns how long to wait after an attempt. The random part keeps two colliding writers from colliding again.
pub(crate) fn pause_duration(attempt: u32) -> Duration {
    let longest = FIRST_CONFLICT_PAUSE
        .saturating_mul(1 << attempt.min(16))
        .min(MAX_CONFLICT_PAUSE);
    let random = bson::oid::ObjectId::new().bytes();
    let part = random.iter().fold(0_u32, |sum, &byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    longest.mul_f64(f64::from(part % 1_000) / 2_000.0 + 0.5)
}

/// The queues of this process's writers, by document or by collection. Two keys can share a queue.
pub(crate) struct WriterQueues([WriterQueue; 64]);

/// The queues of `modify`, by document.
pub(crate) static DOCUMENT_QUEUES: WriterQueues = WriterQueues::new();

/// The queues of transactions, by collection. A `modify` that waits in [`DOCUMENT_QUEUES`] can wait here too.
pub(crate) static COLLECTION_QUEUES: WriterQueues = WriterQueues::new();

impl WriterQueues {
    const fn new() -> Self {
        Self([const { WriterQueue::new() }; 64])
    }

    /// Waits for the turn after a conflict, first come, first served. Without the queue, all conflicting writers would retry at
    /// once and conflict again.
    ///
    /// Returns `None` if the turn did not come in time. A write without the turn is allowed: the turn only makes a conflict less
    /// likely.
    pub(crate) async fn wait_for_turn(
        &'static self,
        key: impl Hash,
        max_wait: Duration,
    ) -> Option<QueueTurn> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let line = hasher.finish() % self.0.len() as u64;
        let line = self.0.get(usize::try_from(line).ok()?)?;
        task::timeout(max_wait, line.wait_in_queue()).await.ok()
    }
}

/// The time after which the queue passes over a member. The task of the member may no longer poll the future, for example in a
/// `select!` or in a stream.
const MAX_IDLE_TURN: Duration = Duration::from_secs(1);

struct WriterQueue(Mutex<QueueState>);

struct QueueState {
    /// The waiting members by number, with their notifications.
    waiting: BTreeMap<u64, Arc<Notify>>,
    next: u64,
    /// The member with the turn.
    holder: Option<u64>,
    /// The time of the last change of `holder`.
    moved: Option<Instant>,
}

impl WriterQueue {
    const fn new() -> Self {
        Self(Mutex::new(QueueState {
            waiting: BTreeMap::new(),
            next: 0,
            holder: None,
            moved: None,
        }))
    }

    async fn wait_in_queue(&'static self) -> QueueTurn {
        let called = Arc::new(Notify::new());
        // Dropping this future drops the turn, which leaves the queue.
        let turn = QueueTurn {
            number: self.lock_state().join_queue(Arc::clone(&called)),
            line: self,
        };
        loop {
            let wait = self.lock_state().longest_wait(turn.number);
            let Some(wait) = wait else { return turn };
            // Check for the turn after a notification and after a timeout.
            let _ = task::timeout(wait, called.notified()).await;
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, QueueState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    fn join_queue(&mut self, called: Arc<Notify>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting.insert(number, called);
        number
    }

    /// Returns the longest time until a member checks again, or `None` if the member has the turn now. Each member ahead has
    /// [`MAX_IDLE_TURN`] to proceed.
    fn longest_wait(&mut self, number: u64) -> Option<Duration> {
        let queue_position =
            self.waiting.range(..number).count() + usize::from(self.holder.is_some());
        let queue_position = u32::try_from(queue_position).unwrap_or(u32::MAX);
        let idle = self
            .moved
            .map_or(Duration::MAX, |last_move| last_move.elapsed());
        let wait = MAX_IDLE_TURN
            .saturating_mul(queue_position)
            .saturating_sub(idle);
        if !wait.is_zero() {
            return Some(wait);
        }
        self.waiting.remove(&number);
        self.holder = Some(number);
        self.moved = Some(Instant::now());
        None
    }

    fn leave_queue(&mut self, number: u64) {
        self.waiting.remove(&number);
        if self.holder == Some(number) {
            self.holder = None;
            self.moved = Some(Instant::now());
        }
        if self.holder.is_none()
            && let Some(first) = self.waiting.values().next()
        {
            first.notify_one();
        }
    }
}

/// The turn in a queue, or a place in it. Dropping it leaves the queue.
pub(crate) struct QueueTurn {
    line: &'static WriterQueue,
    number: u64,
}

impl Drop for QueueTurn {
    fn drop(&mut self) {
        self.line.lock_state().leave_queue(self.number);
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test runs on Tokio")]
mod tests {
    use super::*;

    const LONG_PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_queue_keeps_its_order() {
        static LINES: WriterQueues = WriterQueues::new();
        let first = LINES.wait_for_turn(1, LONG_PATIENCE).await;
        let finished = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for number in 0..50 {
            let finished = Arc::clone(&finished);
            tasks.push(tokio::spawn(async move {
                let turn = LINES.wait_for_turn(1, LONG_PATIENCE).await;
                finished.lock().unwrap().push(number);
                assert!(turn.is_some());
                // The sum of all pauses exceeds the time limit of a single turn.
                tokio::time::sleep(MAX_IDLE_TURN / 25).await;
            }));
            tokio::task::yield_now().await;
        }
        // A dropped member does not block the queue.
        tasks.remove(20).abort();
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        let expected: Vec<_> = (0..50).filter(|number| *number != 20).collect();
        assert_eq!(*finished.lock().unwrap(), expected);
    }

    #[tokio::test]
    async fn a_stalled_member_is_passed_over() {
        static LINES: WriterQueues = WriterQueues::new();
        let holder = LINES.wait_for_turn(1, LONG_PATIENCE).await;
        // This member waits, and is not polled again.
        let mut unpolled = Box::pin(LINES.wait_for_turn(1, LONG_PATIENCE));
        assert!(futures_util::poll!(&mut unpolled).is_pending());
        assert!(
            LINES
                .wait_for_turn(1, Duration::from_millis(50))
                .await
                .is_none()
        );
        let started = Instant::now();
        let next = LINES.wait_for_turn(1, LONG_PATIENCE).await;
        assert!(next.is_some() && started.elapsed() >= MAX_IDLE_TURN);
        // Dropping both does not give back the turn of `next`.
        drop((holder, unpolled));
        assert!(
            LINES
                .wait_for_turn(1, Duration::from_millis(50))
                .await
                .is_none()
        );
        drop(next);
        assert!(LINES.wait_for_turn(1, LONG_PATIENCE).await.is_some());
    }
}
