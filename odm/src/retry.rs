//! Waiting after a conflict: a pause, or a queue.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::task;

/// The pause after the first conflict; each further one is twice as long, up to [`MAX_PAUSE`], less a random part.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const MAX_PAUSE: Duration = Duration::from_millis(250);

/// Waits after an attempt that met a conflict; attempts are counted from 1.
pub(crate) async fn pause(attempt: u32) {
    task::sleep(pause_after(attempt)).await;
}

/// Waits for something that takes others a while.
pub(crate) async fn long_pause() {
    pause(6).await;
}

/// How long to wait after an attempt. Two that collided once must not come back at the same time.
pub(crate) fn pause_after(attempt: u32) -> Duration {
    let full = FIRST_PAUSE
        .saturating_mul(1 << attempt.min(16))
        .min(MAX_PAUSE);
    let spread = bson::oid::ObjectId::new().bytes();
    let part = spread.iter().fold(0_u32, |sum, &byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    full.mul_f64(f64::from(part % 1_000) / 2_000.0 + 0.5)
}

/// The queues of this process's writers, by document or by collection. Two keys can share a queue.
pub(crate) struct Lines([Line; 64]);

/// The queues of `modify`, by document.
pub(crate) static OF_DOCUMENTS: Lines = Lines::new();

/// The queues of transactions, by collection. A `modify` that waits in [`OF_DOCUMENTS`] can wait here too.
pub(crate) static OF_COLLECTIONS: Lines = Lines::new();

impl Lines {
    const fn new() -> Self {
        Self([const { Line::new() }; 64])
    }

    /// Waits for the turn after a conflict, first come, first served. Without the queue all conflicting writers would retry at once,
    /// again and again. None if the turn did not come in time. A write without the turn is allowed: the turn only makes a
    /// conflict less likely.
    pub(crate) async fn turn(&'static self, over: impl Hash, patience: Duration) -> Option<Turn> {
        let mut hasher = DefaultHasher::new();
        over.hash(&mut hasher);
        let line = hasher.finish() % self.0.len() as u64;
        let line = self.0.get(usize::try_from(line).ok()?)?;
        task::timeout(patience, line.turn()).await.ok()
    }
}

/// The time after which the queue passes over a member. Its task may no longer poll the future of the member, for example in a
/// `select!` or in a stream.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(1);

struct Line(Mutex<State>);

struct State {
    /// The waiting members by number, with their notifications.
    waiting: BTreeMap<u64, Arc<Notify>>,
    next: u64,
    /// The member with the turn.
    holder: Option<u64>,
    /// The time of the last change of `holder`.
    moved: Option<Instant>,
}

impl Line {
    const fn new() -> Self {
        Self(Mutex::new(State {
            waiting: BTreeMap::new(),
            next: 0,
            holder: None,
            moved: None,
        }))
    }

    async fn turn(&'static self) -> Turn {
        let called = Arc::new(Notify::new());
        // Dropping this future drops the turn, which leaves the queue.
        let turn = Turn {
            number: self.lock().join(Arc::clone(&called)),
            line: self,
        };
        loop {
            let wait = self.lock().wait_of(turn.number);
            let Some(wait) = wait else { return turn };
            // Check for the turn after a notification and after a timeout.
            let _ = task::timeout(wait, called.notified()).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn join(&mut self, called: Arc<Notify>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting.insert(number, called);
        number
    }

    /// The longest time until a member checks again. None if the member has the turn now. Each member before it has
    /// [`FORGOTTEN_AFTER`] to proceed.
    fn wait_of(&mut self, number: u64) -> Option<Duration> {
        let ahead = self.waiting.range(..number).count() + usize::from(self.holder.is_some());
        let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
        let idle = self.moved.map_or(Duration::MAX, |moved| moved.elapsed());
        let wait = FORGOTTEN_AFTER.saturating_mul(ahead).saturating_sub(idle);
        if !wait.is_zero() {
            return Some(wait);
        }
        self.waiting.remove(&number);
        self.holder = Some(number);
        self.moved = Some(Instant::now());
        None
    }

    fn leave(&mut self, number: u64) {
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
pub(crate) struct Turn {
    line: &'static Line,
    number: u64,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.line.lock().leave(self.number);
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test runs on Tokio")]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_line_keeps_its_order() {
        static LINES: Lines = Lines::new();
        let first = LINES.turn(1, LONG).await;
        let came = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for number in 0..50 {
            let came = Arc::clone(&came);
            tasks.push(tokio::spawn(async move {
                let turn = LINES.turn(1, LONG).await;
                came.lock().unwrap().push(number);
                assert!(turn.is_some());
                // Longer in sum than one of them may take.
                tokio::time::sleep(FORGOTTEN_AFTER / 25).await;
            }));
            tokio::task::yield_now().await;
        }
        // A member that is dropped does not stop the others.
        tasks.remove(20).abort();
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        let wanted: Vec<_> = (0..50).filter(|number| *number != 20).collect();
        assert_eq!(*came.lock().unwrap(), wanted);
    }

    #[tokio::test]
    async fn who_is_forgotten_is_passed() {
        static LINES: Lines = Lines::new();
        let holder = LINES.turn(1, LONG).await;
        // It waits, and is not polled again.
        let mut forgotten = Box::pin(LINES.turn(1, LONG));
        assert!(futures_util::poll!(&mut forgotten).is_pending());
        assert!(LINES.turn(1, Duration::from_millis(50)).await.is_none());
        let begun = Instant::now();
        let next = LINES.turn(1, LONG).await;
        assert!(next.is_some() && begun.elapsed() >= FORGOTTEN_AFTER);
        // Dropping the two does not give back the turn of `next`.
        drop((holder, forgotten));
        assert!(LINES.turn(1, Duration::from_millis(50)).await.is_none());
        drop(next);
        assert!(LINES.turn(1, LONG).await.is_some());
    }
}
