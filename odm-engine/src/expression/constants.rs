//! Constant folding: computes the constant parts of expressions during parsing and collects their
//! failures.
//!
//! MongoDB computes constant parts after the whole filter, projection or pipeline is parsed. A
//! parse error is therefore reported before the failure of a constant.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Error, Result};

/// The folding mode and the first failure, shared by all expressions of a command.
#[derive(Debug, Clone)]
pub(super) struct ConstantFolding {
    state: Arc<Mutex<FoldingState>>,
    are_folded: bool,
}

#[derive(Debug, Default)]
struct FoldingState {
    /// The nesting depth of the [`ConstantFolding::parse_all`] calls in progress.
    depth: usize,
    failure: Option<Error>,
}

impl ConstantFolding {
    /// Creates the state. The command decides whether constant parts are folded.
    pub(super) fn new(is_enabled: bool) -> ConstantFolding {
        ConstantFolding {
            state: Arc::default(),
            are_folded: is_enabled,
        }
    }

    pub(super) fn are_folded(&self) -> bool {
        self.are_folded
    }

    /// Parses several expressions, such as the stages of a pipeline. The failure of a constant part
    /// is returned only after all are parsed.
    ///
    /// # Errors
    /// `parse` fails, or else a constant part failed: the first failure is returned.
    pub(super) fn parse_all<T>(&self, parse: impl FnOnce() -> Result<T>) -> Result<T> {
        self.lock_state().depth += 1;
        let parsed = parse();
        let failure = {
            let mut state = self.lock_state();
            state.depth -= 1;
            if state.depth > 0 {
                return parsed;
            }
            state.failure.take()
        };
        match failure {
            Some(failure) => parsed.and(Err(failure)),
            None => parsed,
        }
    }

    /// Parses an expression that may turn out to be unreachable. The failure of a constant part is
    /// returned beside the result.
    pub(super) fn parse_separately<T>(
        &self,
        parse: impl FnOnce() -> Result<T>,
    ) -> Result<(T, Option<Error>)> {
        let before = self.lock_state().failure.take();
        let parsed = self.parse_all(|| {
            let parsed = parse()?;
            Ok((parsed, self.lock_state().failure.take()))
        });
        self.lock_state().failure = before;
        parsed
    }

    /// Records the failure of a constant part. Only the first failure is kept.
    pub(super) fn record_failure(&self, failure: &Error) {
        self.lock_state()
            .failure
            .get_or_insert_with(|| failure.clone());
    }

    /// Locks the state. A poisoned lock is still valid: no code panics while the lock is held.
    fn lock_state(&self) -> MutexGuard<'_, FoldingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
