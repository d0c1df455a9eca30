//! What this process carries out behind the answers to writes.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, futures::Notified};

/// What tasks of this process carry out, so that whoever waits for it hears of its end.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    under_way: AtomicUsize,
    ended: Notify,
}

impl Behind {
    /// One more is under way, until what this gives is dropped.
    pub(super) fn begin(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(self)
    }

    /// Whether some of it is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0
    }

    /// When the next one will have ended; once it is enabled, also if that is before it is awaited.
    pub(crate) fn next_end(&self) -> Notified<'_> {
        self.ended.notified()
    }
}

/// Something that is under way.
#[derive(Debug)]
pub(super) struct UnderWay<'b>(&'b Behind);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
        self.0.ended.notify_waiters();
    }
}
