use std::sync::OnceLock;

use crate::error::{Error, Result};

/// The outcome of the writes that are committed together.
#[derive(Default)]
pub(super) struct BatchOutcome(OnceLock<Result<()>>);

impl BatchOutcome {
    /// Returns the outcome of a write that changed nothing on a durable state.
    pub(super) fn already_durable() -> BatchOutcome {
        BatchOutcome(OnceLock::from(Ok(())))
    }

    pub(super) fn is_known(&self) -> bool {
        self.0.get().is_some()
    }

    /// Returns the outcome of the writes.
    ///
    /// # Errors
    /// The error of the commit.
    pub(super) fn committed_result(&self) -> Result<()> {
        // A leader always sets the outcome of its batch.
        let lost_commit = || Err(Error::damaged("a commit was lost"));
        self.0.get().cloned().unwrap_or_else(lost_commit)
    }

    pub(super) fn set(&self, outcome: Result<()>) {
        // The first outcome wins: a later failure does not undo a durable write.
        let _known = self.0.set(outcome);
    }
}
