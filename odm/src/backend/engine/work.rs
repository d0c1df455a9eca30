//! Calls that block.

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
