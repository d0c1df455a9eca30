//! Calls of the driver that are not dropped half-way.

use crate::{Result, task};

/// Runs the work to its end in a task of its own, even if the future returned here is dropped. It starts when that is awaited.
pub(super) async fn finish<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    task::run(work).await
}
