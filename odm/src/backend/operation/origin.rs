//! The origin of an operation: the typed action, and the kind of derived data that the action maintains.

use std::fmt;

use super::ReadOptions;

/// The part of a typed action that sends an operation to the backend.
///
/// A write of a model with references or derived data sends several operations. The origin tells them apart: in a
/// [`Recorder`](crate::backend::Recorder), in the events of the log target `odm::operation`, and in the messages of the testing
/// kit.
///
/// ```
/// use odm::backend::operation::Stage;
///
/// let origin = Stage::REFERENCES.step("read the targets");
/// assert_eq!(origin.to_string(), "references: read the targets");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct OperationOrigin {
    /// The typed action, such as `insert` or `run_pending`. Empty for an operation that the application sends itself.
    pub action: &'static str,
    /// The kind of derived data. `None` for the operation that the action is about.
    pub stage: Option<Stage>,
    /// The purpose of the operation in its stage. Empty without a stage.
    pub step: &'static str,
}

impl OperationOrigin {
    /// Returns the origin with the typed action.
    #[must_use]
    pub(crate) fn in_action(self, action: &'static str) -> Self {
        Self { action, ..self }
    }
}

/// Writes `action, stage: step`, without the parts that are empty.
impl fmt::Display for OperationOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.action)?;
        if let Some(stage) = self.stage {
            if !self.action.is_empty() {
                f.write_str(", ")?;
            }
            write!(f, "{}: {}", stage.name(), self.step)?;
        }
        Ok(())
    }
}

/// A part of a typed action that sends operations of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stage(&'static str);

impl Stage {
    /// The documents of a join.
    pub const JOINS: Self = Self("joins");
    /// Existence of referenced documents, inverses and delete rules.
    pub const REFERENCES: Self = Self("references");
    /// Copied fields and snapshots.
    pub const COPIES: Self = Self("copies");
    /// Parents of documents that move in a tree.
    pub const TREES: Self = Self("trees");
    /// Counts, sums and latest lists in parents.
    pub const ROLLUPS: Self = Self("rollups");
    /// Overflow arrays and their chunks.
    pub const ARRAYS: Self = Self("arrays");
    /// Computed fields.
    pub const COMPUTED: Self = Self("computed");
    /// Upgrades of documents with an earlier schema version.
    pub const UPGRADES: Self = Self("upgrades");
    /// Sequence numbers.
    pub const SEQUENCES: Self = Self("sequences");
    /// Reads of the documents that the hooks of a write select.
    pub const HOOKS: Self = Self("hooks");
    /// Records of pending work: rejections, status and progress.
    pub const PENDING: Self = Self("pending");
    /// Checks and repairs of a whole database.
    pub const CHECKS: Self = Self("checks");

    /// Returns the name in logs, such as `references`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0
    }

    /// Returns the origin of an operation in this stage.
    #[must_use]
    pub fn step(self, step: &'static str) -> OperationOrigin {
        OperationOrigin {
            action: "",
            stage: Some(self),
            step,
        }
    }
}

impl From<OperationOrigin> for ReadOptions {
    fn from(origin: OperationOrigin) -> Self {
        Self {
            origin,
            ..Self::default()
        }
    }
}
