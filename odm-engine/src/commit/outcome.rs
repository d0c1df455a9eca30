use std::sync::OnceLock;

use crate::error::{Error, Result};

/// What becomes of the writes that are committed together.
#[derive(Default)]
pub(super) struct BatchOutcome(OnceLock<Result<()>>);

impl BatchOutcome {
    /// Of a write that has changed nothing, on a durable state.
    pub(super) fn durable() -> BatchOutcome {
        BatchOutcome(OnceLock::from(Ok(())))
    }

    pub(super) fn is_known(&self) -> bool {
        self.0.get().is_some()
    }

    /// What has become of the writes.
    ///
    /// # Errors
    /// That of the commit.
    pub(super) fn known(&self) -> Result<()> {
        // A leader always says what has become of its batch.
        let lost = || Err(Error::damaged("a commit was lost"));
        self.0.get().cloned().unwrap_or_else(lost)
    }

    pub(super) fn set(&self, outcome: Result<()>) {
        // What came first holds: a write is not undone by what fails after it.
        let _known = self.0.set(outcome);
    }
}
