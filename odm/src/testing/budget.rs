//! Budgets: the number of operations that a call may use.

use std::ops::{RangeInclusive, RangeToInclusive};

use crate::backend::{Recorder, operation::Operation};

/// Runs an expression, and panics unless it sent the expected number of reads to the database. Returns the value of the
/// expression.
///
/// The number is exact, or a range: `..=3`. The message of the panic lists all operations.
///
/// ```
/// # use odm::{prelude::*, testing::TestDb};
/// # #[derive(Debug, Serialize, Deserialize, Document)]
/// # #[document(collection = "parts")]
/// # struct Part { #[serde(rename = "_id")] id: i64 }
/// # #[derive(Schema)] #[schema(models(Part))] struct Shop;
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// let db = TestDb::<Shop>::new().await;
/// let parts = odm::assert_queries!(db, 1, db.find::<Part>().all().await?);
/// let count = odm::assert_queries!(db, ..=2, db.find::<Part>().count().await?);
/// assert_eq!(parts.len() as u64, count);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! assert_queries {
    ($db:expr, $expected:expr, $work:expr $(,)?) => {{
        let count = $crate::testing::Count::start($db.recorder());
        let value = $work;
        count.assert_queries($expected);
        value
    }};
}

/// Runs an expression, and panics unless it sent the expected number of writes to the database. Returns the value of the
/// expression.
///
/// The number is exact, or a range: `..=3`. A bulk write is one write. The writes of follow-up work count if they end before the
/// expression does: await [`wait_for_pending`](crate::Database::wait_for_pending) inside of the expression to count all.
///
/// ```
/// # use odm::{prelude::*, testing::TestDb};
/// # #[derive(Debug, Serialize, Deserialize, Document)]
/// # #[document(collection = "parts")]
/// # struct Part { #[serde(rename = "_id")] id: i64 }
/// # #[derive(Schema)] #[schema(models(Part))] struct Shop;
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// let db = TestDb::<Shop>::new().await;
/// odm::assert_writes!(db, 1, db.insert_many((0..100).map(|id| Part { id })).await?);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! assert_writes {
    ($db:expr, $expected:expr, $work:expr $(,)?) => {{
        let count = $crate::testing::Count::start($db.recorder());
        let value = $work;
        count.assert_writes($expected);
        value
    }};
}

/// The operations since a moment. The macros use this type.
#[derive(Debug)]
pub struct Count {
    recorder: Recorder,
    earlier: usize,
}

impl Count {
    /// Counts the operations from now on.
    #[must_use]
    pub fn start(recorder: &Recorder) -> Self {
        Self {
            recorder: recorder.clone(),
            earlier: recorder.operations().len(),
        }
    }

    /// Panics unless the expected number of reads ran.
    #[track_caller]
    pub fn assert_queries(&self, expected: impl Into<Expected>) {
        self.assert(expected.into(), "queries", Operation::is_query);
    }

    /// Panics unless the expected number of writes ran.
    #[track_caller]
    pub fn assert_writes(&self, expected: impl Into<Expected>) {
        self.assert(expected.into(), "writes", Operation::is_write);
    }

    #[track_caller]
    fn assert(&self, expected: Expected, unit: &str, counts: fn(&Operation) -> bool) {
        let operations = self.recorder.operations();
        let operations = operations.iter().skip(self.earlier);
        let count = operations
            .clone()
            .filter(|operation| counts(operation))
            .count();
        if !expected.contains(count) {
            let lines = operations.enumerate();
            let lines: Vec<_> = lines
                .map(|(position, operation)| format!("{:4}. {operation}", position + 1))
                .collect();
            panic!(
                "number of {unit}: expected {expected}, found {count}:\n{}",
                lines.join("\n")
            );
        }
    }
}

/// An expected number of operations: an exact number, or a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    min: usize,
    max: usize,
}

impl Expected {
    fn contains(self, count: usize) -> bool {
        (self.min..=self.max).contains(&count)
    }
}

impl From<usize> for Expected {
    fn from(exact: usize) -> Self {
        Self {
            min: exact,
            max: exact,
        }
    }
}

impl From<RangeInclusive<usize>> for Expected {
    fn from(range: RangeInclusive<usize>) -> Self {
        Self {
            min: *range.start(),
            max: *range.end(),
        }
    }
}

impl From<RangeToInclusive<usize>> for Expected {
    fn from(range: RangeToInclusive<usize>) -> Self {
        Self {
            min: 0,
            max: range.end,
        }
    }
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.min, self.max) {
            (min, max) if min == max => write!(f, "{min}"),
            (0, max) => write!(f, "at most {max}"),
            (min, max) => write!(f, "{min} to {max}"),
        }
    }
}
