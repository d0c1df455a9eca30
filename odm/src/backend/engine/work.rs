//! Calls that block.

use std::time::Duration;

use odm_engine::Interrupt;

use crate::{Result, error, task};

/// Runs blocking work where it does not hold up other tasks, and to its end even if the future is dropped.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    task::outcome(task::spawn_blocking(work).await).flatten()
}

/// The same of a read. It ends soon when the future is dropped, or at its time limit.
pub(super) async fn read<T: Send + 'static>(
    max_time: Option<Duration>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let interrupt = Interrupt::new();
    let unless_done = CancelOnDrop::new(interrupt.clone());
    let reading = blocking(move || interrupt.run(work));
    let done = match max_time {
        None => reading.await,
        Some(max_time) => {
            let Ok(done) = task::timeout(max_time, reading).await else {
                return Err(error::timed_out());
            };
            done
        }
    };
    // Cursors keep the interrupt of the read that opened them.
    unless_done.disarm();
    done
}

/// Ends what runs under an interrupt when this is dropped.
#[derive(Debug)]
pub(super) struct CancelOnDrop(Option<Interrupt>);

impl CancelOnDrop {
    pub(super) fn new(interrupt: Interrupt) -> Self {
        Self(Some(interrupt))
    }

    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(interrupt) = &self.0 {
            interrupt.cancel();
        }
    }
}
