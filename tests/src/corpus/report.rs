//! The report of passed and failed cases.

use std::{collections::BTreeMap, fmt};

use super::Verdict;
use super::operation::NotOffered;

/// The numbers of passed, failed and not offered cases of a file.
#[derive(Default)]
pub(super) struct Report {
    pub(super) passed: usize,
    pub(super) failed: usize,
    /// The number of repeated runs.
    pub(super) reruns: usize,
    not_offered: BTreeMap<NotOffered, usize>,
}

impl Report {
    pub(super) fn count(&mut self, verdict: &Verdict) {
        match verdict {
            Ok(None) => self.passed += 1,
            Ok(Some(_)) => self.failed += 1,
            Err(reason) => *self.not_offered.entry(reason.clone()).or_default() += 1,
        }
    }

    pub(super) fn add(&mut self, other: &Report) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.reruns += other.reruns;
    }

    /// Returns a line for each operation that the backend does not offer.
    pub(super) fn reasons(&self) -> String {
        let line = |(reason, count)| format!("{count:8} {reason}\n");
        self.not_offered.iter().map(line).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not_offered: usize = self.not_offered.values().sum();
        let (passed, failed) = (self.passed, self.failed);
        write!(
            f,
            "{passed} passed, {failed} failed, {not_offered} not offered"
        )
    }
}
