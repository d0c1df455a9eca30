//! What constant parts of expressions fail with.
//!
//! MongoDB computes them after all has been parsed, be it a filter, a projection or a pipeline. So what
//! cannot be parsed is reported first, wherever it stands.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Error, Result};

/// What is noted of constant parts while a command is parsed, by all that share its environment.
#[derive(Debug, Clone)]
pub(super) struct Constants {
    noted: Arc<Mutex<Noted>>,
    are_folded: bool,
}

#[derive(Debug, Default)]
struct Noted {
    /// How many things that are reported together are being parsed within each other.
    depth: usize,
    failure: Option<Error>,
}

impl Constants {
    /// Whether constant parts are computed beforehand is up to the command.
    pub(super) fn new(are_folded: bool) -> Constants {
        Constants {
            noted: Arc::default(),
            are_folded,
        }
    }

    pub(super) fn are_folded(&self) -> bool {
        self.are_folded
    }

    /// Parses several things, such as the stages of a pipeline: that a constant part of one of them
    /// fails is reported once all of them have been parsed.
    ///
    /// # Errors
    /// What `parse` fails with; what the first constant part fails with.
    pub(super) fn parse_all<T>(&self, parse: impl FnOnce() -> Result<T>) -> Result<T> {
        self.noted().depth += 1;
        let parsed = parse();
        let failure = {
            let mut noted = self.noted();
            noted.depth -= 1;
            if noted.depth > 0 {
                return parsed;
            }
            noted.failure.take()
        };
        match failure {
            Some(failure) => parsed.and(Err(failure)),
            None => parsed,
        }
    }

    /// Parses what may turn out not to be needed: what constant parts fail with is handed back.
    pub(super) fn parse_apart<T>(
        &self,
        parse: impl FnOnce() -> Result<T>,
    ) -> Result<(T, Option<Error>)> {
        let before = self.noted().failure.take();
        let parsed = self.parse_all(|| {
            let parsed = parse()?;
            Ok((parsed, self.noted().failure.take()))
        });
        self.noted().failure = before;
        parsed
    }

    /// A constant part has failed. The first one counts.
    pub(super) fn note(&self, failure: &Error) {
        self.noted().failure.get_or_insert_with(|| failure.clone());
    }

    /// Nothing is done while it is held.
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
