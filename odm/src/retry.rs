//! How to wait after a conflict: for a while, or in a line.

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

/// The lines in which the writers of this process wait for a document, or for the documents of a collection. Two may have the
/// same one.
pub(crate) struct Lines([Line; 64]);

/// The lines of those who read, change and save a document.
pub(crate) static OF_DOCUMENTS: Lines = Lines::new();

/// The lines of transactions, those of single writes included: one of the former may stand here too.
pub(crate) static OF_COLLECTIONS: Lines = Lines::new();

impl Lines {
    const fn new() -> Self {
        Self([const { Line::new() }; 64])
    }

    /// Waits for the turn among those that have met a conflict over the same, in the order in which they came: without it all of
    /// them would come back at once, again and again. None if the turn did not come in time: it makes a conflict less likely,
    /// and keeps nobody from writing.
    pub(crate) async fn turn(&'static self, over: impl Hash, patience: Duration) -> Option<Turn> {
        let mut hasher = DefaultHasher::new();
        over.hash(&mut hasher);
        let line = hasher.finish() % self.0.len() as u64;
        let line = self.0.get(usize::try_from(line).ok()?)?;
        task::timeout(patience, line.turn()).await.ok()
    }
}

/// How long the line waits for one of its members to go on. The future of a member may be one that its task does not poll any
/// more, in a `select!` or in a stream: then the next one goes ahead.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(1);

struct Line(Mutex<State>);

struct State {
    /// Those who wait, by the numbers that they drew, and how to call each.
    waiting: BTreeMap<u64, Arc<Notify>>,
    next: u64,
    /// Whose turn it is.
    holder: Option<u64>,
    /// When somebody took the turn or gave it back.
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
        // From here on its place is given up when this future is dropped.
        let turn = Turn {
            number: self.lock().join(Arc::clone(&called)),
            line: self,
        };
        loop {
            let wait = self.lock().wait_of(turn.number);
            let Some(wait) = wait else { return turn };
            // Called or not, it looks whether it is its turn.
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

    /// How long a member waits at most before it looks again; none if it has the turn now. Everybody ahead of it has
    /// [`FORGOTTEN_AFTER`] to go on.
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

/// The turn in a line, or the place of one who waits for it; given up when it is dropped.
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
        // One that gives up disturbs nobody.
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
        // It waits, but nobody polls it again.
        let mut forgotten = Box::pin(LINES.turn(1, LONG));
        assert!(futures_util::poll!(&mut forgotten).is_pending());
        assert!(LINES.turn(1, Duration::from_millis(50)).await.is_none());
        let begun = Instant::now();
        let next = LINES.turn(1, LONG).await;
        assert!(next.is_some() && begun.elapsed() >= FORGOTTEN_AFTER);
        // What they give up is not the turn of the one who passed them.
        drop((holder, forgotten));
        assert!(LINES.turn(1, Duration::from_millis(50)).await.is_none());
        drop(next);
        assert!(LINES.turn(1, LONG).await.is_some());
    }
}
