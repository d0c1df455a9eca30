//! Calls that block.

use odm_engine::Interrupt;
use tokio::runtime::Handle;

use crate::{Result, backend::task::outcome};

/// Runs blocking work where it does not hold up other tasks, and to its end even if the future is dropped.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match Handle::try_current() {
        Ok(runtime) => outcome(runtime.spawn_blocking(work).await)?,
        Err(_) => work(),
    }
}

/// The same of a read, which ends soon when the future is dropped.
pub(super) async fn read<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let interrupt = Interrupt::new();
    let unless_done = CancelOnDrop::new(interrupt.clone());
    let done = blocking(move || interrupt.run(work)).await;
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
