//! The findings of a check.

use std::fmt;

use bson::{Bson, RawBson, RawDocument};
use serde::Serialize;

use super::display_id;
use crate::{
    Error, ErrorKind,
    language::field::FoundReference,
    pending::{blocked::Rejection, record::PendingKind},
    schema::{LinkField, Model},
    write::{StaleCopy, WrongComputedField, WrongCount},
};

/// The findings of a [`Check`](super::Check). The report is available as text and, with serde, as JSON.
#[derive(Debug, Clone, Serialize)]
#[must_use = "call `is_clean` to see the result"]
pub struct CheckReport {
    /// The number of checked documents.
    pub documents: u64,
    /// The number of checked references.
    pub references: u64,
    /// The differences between the documents and the schema.
    pub findings: Vec<Finding>,
}

impl CheckReport {
    /// Returns whether there are no findings.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        write!(
            f,
            "{} documents, {} references: {}",
            self.documents,
            self.references,
            match self.findings.len() {
                0 => "no findings".to_owned(),
                1 => "1 finding".to_owned(),
                many => format!("{many} findings"),
            }
        )
    }
}

/// A difference between a document and the schema.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The name of the model.
    pub model: &'static str,
    /// The collection of the model.
    pub collection: &'static str,
    /// The `_id` of the document.
    pub id: Bson,
    /// The path in the document, with stored names and array positions. Empty for the whole document.
    pub path: String,
    /// The kind of difference.
    pub kind: FindingKind,
}

/// The kind of a [`Finding`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub enum FindingKind {
    /// The target of a reference does not exist.
    Dangling {
        /// The collection of the target.
        to: &'static str,
        /// The missing `_id`.
        id: Bson,
    },
    /// A reference and an inverse do not match: the document on the other side exists, and does not refer back.
    OneSided {
        /// The collection of the document on the other side.
        to: &'static str,
        /// The `_id` of the document on the other side.
        id: Bson,
    },
    /// An inverse contains a referrer more than once.
    DuplicateInverse {
        /// The collection of the referrer.
        to: &'static str,
        /// The `_id` of the referrer.
        id: Bson,
    },
    /// A copy differs from the source, and no pending work will update the copy.
    Stale {
        /// The collection of the source.
        from: &'static str,
        /// The `_id` of the source. Null without a reference: the copy must be null as well.
        id: Bson,
        /// The stored value.
        actual: Box<Bson>,
        /// The value in the source.
        expected: Box<Bson>,
    },
    /// The parents of documents of a tree form a circle: the document is its own ancestor.
    Cycle {
        /// The `_id` of the parent.
        parent: Bson,
    },
    /// A count, sum or latest-N list differs from the children, and no pending work will update the value.
    WrongCount {
        /// The collection of the children.
        of: &'static str,
        /// The stored value.
        actual: Box<Bson>,
        /// The value that results from the children.
        expected: Box<Bson>,
    },
    /// A computed field has a wrong value.
    WrongComputedField {
        /// The stored value; null if the field is missing.
        actual: Box<Bson>,
        /// The computed value. `None` if the value does not fit into the field.
        expected: Option<Box<Bson>>,
    },
    /// The document has no sequence number: the document is older than the declaration.
    MissingNumber,
    /// The flag of an overflow array does not match the array.
    WrongFlag {
        /// The flag field.
        flag: &'static str,
        /// Whether the flag is set.
        actual: bool,
    },
    /// An overflow array has too many or too large elements in the owner document.
    TooManyResident {
        /// The number of elements in the owner document.
        actual: usize,
        /// The declared maximum in the owner document.
        max: usize,
    },
    /// A chunk number of an overflow array is missing or not unique.
    OutOfSequence {
        /// The collection of the chunk documents.
        of: &'static str,
        /// The chunk number.
        seq: i64,
        /// The last of the following chunk numbers with the same number of documents.
        to: i64,
        /// The number of documents with this chunk number.
        times: usize,
    },
    /// The elements of an overflow array are not in the declared order, or the owner document does not have the first elements.
    OutOfOrder,
    /// A chunk document that no owner document uses.
    Orphaned {
        /// The collection of the owner documents.
        of: &'static str,
        /// The `_id` of the owner document, which may not exist.
        owner: Bson,
        /// The chunk number.
        seq: i64,
    },
    /// Work of the document is pending because a document rejects the follow-up write. Change the rejecting document, then call
    /// [`Database::run_pending`](crate::Database::run_pending).
    Blocked {
        /// The collection of the rejecting document.
        by: String,
        /// The `_id` of the rejecting document.
        id: Bson,
        /// The message of the error.
        reason: String,
    },
    /// The document does not fit the model.
    Unreadable {
        /// The reason.
        message: String,
    },
    /// An array is longer than `max`, or a map has a key that is not allowed.
    OutOfBounds {
        /// The reason.
        message: String,
    },
}

impl Finding {
    pub(super) fn new(
        model: &Model,
        raw: &RawDocument,
        path: impl Into<String>,
        kind: FindingKind,
    ) -> Self {
        Self {
            model: model.name,
            collection: model.collection,
            id: display_id(raw),
            path: path.into(),
            kind,
        }
    }

    pub(super) fn of_dangling(model: &Model, raw: &RawDocument, referring: FoundReference) -> Self {
        let kind = FindingKind::Dangling {
            to: referring.to.collection,
            id: Bson::try_from(referring.id).unwrap_or(Bson::Null),
        };
        Self::new(model, raw, referring.path, kind)
    }

    /// Returns a finding about an id in a reference or an inverse.
    pub(super) fn of_entry(
        model: &Model,
        raw: &RawDocument,
        side: &LinkField,
        id: RawBson,
        kind: fn(&'static str, Bson) -> FindingKind,
    ) -> Self {
        let id = Bson::try_from(id).unwrap_or(Bson::Null);
        Self::new(model, raw, side.stored, kind(side.collection, id))
    }

    pub(super) fn of_copy(model: &Model, raw: &RawDocument, copy: StaleCopy) -> Self {
        if copy.is_cycle {
            return Self::new(
                model,
                raw,
                copy.path,
                FindingKind::Cycle { parent: copy.id },
            );
        }
        let kind = FindingKind::Stale {
            from: copy.source.collection,
            id: copy.id,
            actual: Box::new(copy.actual),
            expected: Box::new(copy.expected),
        };
        Self::new(model, raw, copy.path, kind)
    }

    pub(super) fn of_count(model: &Model, raw: &RawDocument, count: WrongCount) -> Self {
        let kind = FindingKind::WrongCount {
            of: count.child_model.collection,
            actual: Box::new(count.actual),
            expected: Box::new(count.expected),
        };
        Self::new(model, raw, count.path, kind)
    }

    pub(super) fn of_computed(model: &Model, raw: &RawDocument, field: WrongComputedField) -> Self {
        let kind = FindingKind::WrongComputedField {
            actual: Box::new(field.actual),
            expected: field.expected.map(Box::new),
        };
        Self::new(model, raw, field.path, kind)
    }

    pub(super) fn of_blocked(
        model: &Model,
        raw: &RawDocument,
        pending: PendingKind,
        rejection: Rejection,
    ) -> Self {
        let kind = FindingKind::Blocked {
            by: rejection.collection,
            id: rejection.id,
            reason: rejection.reason,
        };
        Self::new(model, raw, pending.lease_path(), kind)
    }

    pub(super) fn of_error(model: &Model, raw: &RawDocument, error: Error) -> Self {
        let message = error.message().to_owned();
        let kind = match error.kind() {
            ErrorKind::TooManyElements | ErrorKind::Invalid => FindingKind::OutOfBounds { message },
            _ => FindingKind::Unreadable { message },
        };
        Self::new(model, raw, error.path().unwrap_or_default(), kind)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.collection, self.id)?;
        if !self.path.is_empty() {
            write!(f, ", `{}`", self.path)?;
        }
        match &self.kind {
            FindingKind::Dangling { to, id } => {
                write!(f, ": refers to {id} in {to}, which does not exist")
            }
            FindingKind::OneSided { to, id } => {
                write!(f, ": refers to {id} in {to}, which does not refer back")
            }
            FindingKind::Stale {
                from,
                id,
                actual,
                expected,
            } => write!(f, ": has {actual}, expected {expected} from {id} in {from}"),
            FindingKind::WrongCount {
                of,
                actual,
                expected,
            } => {
                write!(f, ": has {actual}, expected {expected} from {of}")
            }
            FindingKind::WrongComputedField {
                actual,
                expected: Some(expected),
            } => write!(f, ": has {actual}, expected {expected}"),
            FindingKind::WrongComputedField {
                actual,
                expected: None,
            } => {
                write!(
                    f,
                    ": has {actual}, but the computed value does not fit into the field"
                )
            }
            FindingKind::Cycle { parent } => {
                write!(f, ": the document is above its parent {parent} in the tree")
            }
            FindingKind::MissingNumber => f.write_str(": has no sequence number"),
            FindingKind::WrongFlag { flag, actual: true } => {
                write!(f, ": `{flag}` is set, but no elements are spilled")
            }
            FindingKind::WrongFlag {
                flag,
                actual: false,
            } => {
                write!(f, ": elements are spilled, but `{flag}` is not set")
            }
            FindingKind::TooManyResident { actual, max: after } => write!(
                f,
                ": {actual} elements are in the document, at most {after} are allowed, or fewer if the elements are large"
            ),
            FindingKind::OutOfSequence { of, seq, to, times } => {
                write!(f, ": {times} chunk documents in {of} have the number {seq}")?;
                match to > seq {
                    true => write!(f, ", and each following number up to {to}"),
                    false => Ok(()),
                }
            }
            FindingKind::OutOfOrder => f.write_str(": the elements are not in the declared order"),
            FindingKind::Orphaned { of, owner, seq } => {
                write!(
                    f,
                    ": chunk {seq} of {owner} in {of}, which does not use the chunk"
                )
            }
            FindingKind::Blocked { by, id, reason } => write!(
                f,
                ": pending work is blocked, because {id} in {by} rejects the write: {reason}"
            ),
            FindingKind::DuplicateInverse { to, id } => {
                write!(f, ": lists {id} of {to} more than once")
            }
            FindingKind::Unreadable { message } | FindingKind::OutOfBounds { message } => {
                write!(f, ": {message}")
            }
        }
    }
}
