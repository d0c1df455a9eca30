//! How to wait after a conflict: for a while, or in a line.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use tokio::sync::{Mutex, MutexGuard};

/// The pause after the first conflict; each further one is twice as long, up to [`MAX_PAUSE`], less a random part.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const MAX_PAUSE: Duration = Duration::from_millis(250);

/// Waits after an attempt that met a conflict; attempts are counted from 1.
pub(crate) async fn pause(attempt: u32) {
    tokio::time::sleep(length(attempt)).await;
}

/// Waits for something that takes others a while.
pub(crate) async fn long_pause() {
    pause(6).await;
}

/// Two that collided once must not come back at the same time.
fn length(attempt: u32) -> Duration {
    let full = FIRST_PAUSE
        .saturating_mul(1 << attempt.min(16))
        .min(MAX_PAUSE);
    let spread = bson::oid::ObjectId::new().bytes();
    let part = spread.iter().fold(0_u32, |sum, &byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    full.mul_f64(f64::from(part % 1_000) / 2_000.0 + 0.5)
}

/// The lines in which the writers of this process wait for a document, or for the documents of a model. Two may have the same one.
pub(crate) struct Lines([Mutex<()>; 64]);

/// Those who read, change and save a document.
pub(crate) static OF_DOCUMENTS: Lines = Lines::new();

/// Those whose write is a transaction: one of the former may stand here too.
pub(crate) static OF_MODELS: Lines = Lines::new();

/// How long to stand in a line: who is in front may have been forgotten by the task that polls it.
const MAX_WAIT: Duration = Duration::from_secs(1);

impl Lines {
    const fn new() -> Self {
        Self([const { Mutex::const_new(()) }; 64])
    }

    /// Waits for the turn among those that have met a conflict over the same, so that not all of them come back at once, again and
    /// again. None if it did not come within [`MAX_WAIT`]: the turn makes a conflict less likely, and keeps nobody from writing.
    pub(crate) async fn turn(&'static self, over: impl Hash) -> Option<MutexGuard<'static, ()>> {
        let mut hasher = DefaultHasher::new();
        over.hash(&mut hasher);
        let line = hasher.finish() % self.0.len() as u64;
        let line = self.0.get(usize::try_from(line).ok()?)?;
        tokio::time::timeout(MAX_WAIT, line.lock()).await.ok()
    }
}
