//! The progress and the result of a copy.

use std::fmt;

/// The progress of a [copy](crate::copy).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyProgress {
    /// The current step.
    pub stage: CopyStage,
    /// The current collection. Empty if the step is about all collections.
    pub collection: String,
    /// The number of documents that the current step has examined in this process.
    pub documents: u64,
    /// The number of documents in the source at the start of this process.
    pub total: u64,
    /// The number of documents that were copied again, because the source changed.
    pub changes: u64,
}

/// A step of a [copy](crate::copy).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyStage {
    /// Copies the documents.
    #[default]
    Copy,
    /// Compares the documents of both databases.
    Verify,
    /// Copies the changes of the source.
    Follow,
    /// Creates the indexes.
    Finish,
}

impl fmt::Display for CopyStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Copy => "copy",
            Self::Verify => "verify",
            Self::Follow => "follow",
            Self::Finish => "finish",
        })
    }
}

impl fmt::Display for CopyProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stage,
            collection,
            documents,
            total,
            changes,
        } = self;
        match stage {
            CopyStage::Copy | CopyStage::Verify => {
                write!(f, "{stage} {collection}: {documents} of {total} documents")
            }
            CopyStage::Follow => write!(f, "{stage}: {changes} changes"),
            CopyStage::Finish => write!(f, "{stage} {collection}"),
        }
    }
}

/// The result of a [copy](crate::copy).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyReport {
    /// The copied collections, sorted by name.
    pub collections: Vec<CopiedCollection>,
    /// The number of documents that were copied again in this process, because the source changed.
    pub changes: u64,
    /// The options, indexes and views that the target cannot store, with
    /// [`skip_unsupported`](super::CopyDatabase::skip_unsupported).
    pub skipped: Vec<String>,
}

/// A collection of a [copy](crate::copy).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopiedCollection {
    /// The name.
    pub name: String,
    /// The number of documents.
    pub documents: u64,
    /// The number of indexes, without the index on `_id`.
    pub indexes: usize,
}

/// A checked copy that has not started: see [`CopyDatabase::plan`](super::CopyDatabase::plan).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyPlan {
    /// The collections of the source, sorted by name.
    pub collections: Vec<CopiedCollection>,
    /// The options, indexes and views that the copy would leave out.
    pub skipped: Vec<String>,
    /// Whether the copy would continue an unfinished copy.
    pub continues: bool,
}

impl fmt::Display for CopiedCollection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            documents,
            indexes,
        } = self;
        write!(f, "{name}: {documents} documents, {indexes} indexes")
    }
}

impl fmt::Display for CopyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_lines(f, &self.collections, &self.skipped)
    }
}

impl fmt::Display for CopyPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.continues {
            writeln!(f, "continues an unfinished copy")?;
        }
        write_lines(f, &self.collections, &self.skipped)
    }
}

fn write_lines(
    f: &mut fmt::Formatter<'_>,
    collections: &[CopiedCollection],
    skipped: &[String],
) -> fmt::Result {
    let lines = collections.iter().map(ToString::to_string);
    let skipped = skipped.iter().map(|skipped| format!("left out: {skipped}"));
    let lines: Vec<_> = lines.chain(skipped).collect();
    f.write_str(&lines.join("\n"))
}
