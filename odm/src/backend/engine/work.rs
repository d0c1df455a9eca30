//! Calls that block.

use tokio::runtime::Handle;

use crate::{Error, ErrorKind, Result};

/// Runs blocking work where it does not hold up other tasks, and to its end even if the future is dropped.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match Handle::try_current() {
        Ok(runtime) => outcome(runtime.spawn_blocking(work).await)?,
        Err(_) => work(),
    }
}

/// The result of blocking work, which is lost only if the runtime shuts down first, or by a bug in the engine.
pub(super) fn outcome<T>(joined: Result<T, tokio::task::JoinError>) -> Result<T> {
    joined.map_err(|error| {
        let (kind, message) = if error.is_cancelled() {
            (
                ErrorKind::Connection,
                "the Tokio runtime shut down before the operation began",
            )
        } else {
            (ErrorKind::Backend, "the engine panicked")
        };
        Error::new(kind, message).with_source(error)
    })
}
