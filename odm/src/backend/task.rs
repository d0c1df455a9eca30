//! What becomes of work in a task of its own.

use tokio::task::JoinError;

use crate::{Error, ErrorKind, Result};

/// The result of a task. It is lost only if the runtime shuts down first, or by a bug in what ran.
pub(crate) fn outcome<T>(joined: Result<T, JoinError>) -> Result<T> {
    joined.map_err(|error| {
        let (kind, message) = if error.is_cancelled() {
            (
                ErrorKind::Connection,
                "the Tokio runtime shut down before the answer came",
            )
        } else {
            (ErrorKind::Backend, "the backend panicked")
        };
        Error::new(kind, message).with_source(error)
    })
}
