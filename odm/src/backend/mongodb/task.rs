//! Driver calls that always run to their end.

use crate::{Result, session::task};

/// Runs a call to its end in a separate task, even if the returned future is dropped. The call starts when the future is awaited.
pub(super) async fn run_to_end<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    task::run_to_end(work).await
}
