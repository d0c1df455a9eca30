//! Calls of the driver that are not dropped half-way.

use tokio::{runtime::Handle, task::JoinHandle};

use crate::{Error, ErrorKind, Result, backend::task::outcome};

/// Runs the work to its end in a task of its own, even if the future returned here is dropped.
pub(super) async fn finish<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    outcome(spawn(work)?.await)?
}

/// Starts the work in a task of its own.
pub(super) fn spawn<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<JoinHandle<T>> {
    let runtime = Handle::try_current().map_err(|error| {
        Error::new(
            ErrorKind::Invalid,
            "MongoDB's driver needs a Tokio runtime: call this from within one",
        )
        .with_source(error)
    })?;
    Ok(runtime.spawn(work))
}
