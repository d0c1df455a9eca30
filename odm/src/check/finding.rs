//! What a check finds.

use std::fmt;

use bson::{Bson, RawBson, RawDocument};
use serde::Serialize;

use super::id_of;
use crate::{
    Error, ErrorKind,
    field::Referring,
    maintain::{Miscomputed, Miscounted, Promise, Rejection, StaleCopy},
    schema::{LinkSide, Model},
};

/// What a [`Check`](super::Check) has found; as text, and by serde as JSON.
#[derive(Debug, Clone, Serialize)]
#[must_use = "whether it is clean is what one wants to know"]
pub struct CheckReport {
    /// How many documents were looked at.
    pub documents: u64,
    /// How many references.
    pub references: u64,
    /// What is not as the schema says.
    pub findings: Vec<Finding>,
}

impl CheckReport {
    /// Whether everything is as the schema says.
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
                0 => "all is as the schema says".to_owned(),
                1 => "1 finding".to_owned(),
                many => format!("{many} findings"),
            }
        )
    }
}

/// Something in a document that is not as the schema says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The model.
    pub model: &'static str,
    /// Its collection.
    pub collection: &'static str,
    /// The `_id` of the document.
    pub id: Bson,
    /// Where it is in the document, by stored names and positions; empty for the document as a whole.
    pub path: String,
    /// What it is.
    pub fault: Fault,
}

/// What is wrong with a document.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Fault {
    /// A reference leads to a document that is not there.
    Dangling {
        /// The collection that it leads to.
        to: &'static str,
        /// The `_id` that no document has there.
        id: Bson,
    },
    /// A side of a link leads to a document that is there, and whose other side does not lead back.
    OneSided {
        /// The collection that it leads to.
        to: &'static str,
        /// The document there.
        id: Bson,
    },
    /// The inverse of a link lists a document more than once.
    ListedTwice {
        /// Its collection.
        to: &'static str,
        /// The document.
        id: Bson,
    },
    /// A copy is not as what it was taken from, and nobody is to bring it up to date.
    Stale {
        /// The collection of its source.
        from: &'static str,
        /// The source; null if there is no reference, and so no copy.
        id: Bson,
        /// What the copy is.
        holds: Box<Bson>,
        /// What it is to be.
        is: Box<Bson>,
    },
    /// A count, a sum or the latest are not what the documents that refer to this one make of them, and nobody is to count these.
    Miscounted {
        /// The collection of those documents.
        of: &'static str,
        /// What it is.
        holds: Box<Bson>,
        /// What it is to be.
        is: Box<Bson>,
    },
    /// A computed field is not what it is computed to be.
    Miscomputed {
        /// What the field holds; null if nothing.
        holds: Box<Bson>,
        /// What it is to hold; none if there is no room for that in it.
        is: Option<Box<Bson>>,
    },
    /// The field that says whether an array overflows says something else than the rest of the document.
    Misflagged {
        /// The field.
        flag: &'static str,
        /// Whether it says so.
        holds: bool,
    },
    /// Of an array that overflows there are more elements, or larger ones, in the document than stay there.
    TooManyInside {
        /// How many there are.
        holds: usize,
        /// How many stay there.
        after: usize,
    },
    /// Of the documents with the other elements of an array none has a number, or each of some in a row, or several have it.
    OutOfSequence {
        /// Their collection.
        of: &'static str,
        /// The number.
        seq: i64,
        /// The last of those behind it of which there are as many.
        to: i64,
        /// How many documents have it.
        times: usize,
    },
    /// The elements of an array that overflows are not in the order that is declared, or those in the document are not the first of all.
    OutOfOrder,
    /// A document with elements of an array is none that the document reads which it is of.
    Orphaned {
        /// The collection of that one.
        of: &'static str,
        /// Its `_id`; there may be no such document.
        owner: Bson,
        /// The number of the document.
        seq: i64,
    },
    /// Follow-up work of the document is pending because a document rejects the write. Let the rejecting document accept the write, then
    /// run `db.settle()`.
    Blocked {
        /// The collection of the rejecting document.
        by: String,
        /// Its `_id`.
        id: Bson,
        /// The message of the error.
        reason: String,
    },
    /// The document does not fit its model, so that nothing else of it could be looked at.
    Unreadable {
        /// Why.
        message: String,
    },
    /// An array has more elements than its `max`, or a map a key that it must not have.
    OutOfBounds {
        /// What is too much.
        message: String,
    },
}

impl Finding {
    pub(super) fn dangling(model: &Model, raw: &RawDocument, referring: Referring) -> Self {
        Self {
            model: model.name,
            collection: model.collection,
            id: id_of(raw),
            path: referring.path,
            fault: Fault::Dangling {
                to: referring.to.collection,
                id: Bson::try_from(referring.id).unwrap_or(Bson::Null),
            },
        }
    }

    /// What is wrong with an entry in a side of a link.
    pub(super) fn of_side(
        model: &Model,
        raw: &RawDocument,
        side: &LinkSide,
        id: RawBson,
        fault: fn(&'static str, Bson) -> Fault,
    ) -> Self {
        let id = Bson::try_from(id).unwrap_or(Bson::Null);
        Self {
            model: model.name,
            collection: model.collection,
            id: id_of(raw),
            path: side.stored.to_owned(),
            fault: fault(side.collection, id),
        }
    }

    pub(super) fn of_copy(model: &Model, raw: &RawDocument, copy: StaleCopy) -> Self {
        Self {
            model: model.name,
            collection: model.collection,
            id: id_of(raw),
            path: copy.path,
            fault: Fault::Stale {
                from: copy.source.collection,
                id: copy.id,
                holds: Box::new(copy.holds),
                is: Box::new(copy.is),
            },
        }
    }

    pub(super) fn of_count(model: &Model, raw: &RawDocument, count: Miscounted) -> Self {
        Self {
            model: model.name,
            collection: model.collection,
            id: id_of(raw),
            path: count.path.to_owned(),
            fault: Fault::Miscounted {
                of: count.of.collection,
                holds: Box::new(count.holds),
                is: Box::new(count.is),
            },
        }
    }

    pub(super) fn of_computed(model: &Model, raw: &RawDocument, field: Miscomputed) -> Self {
        Self {
            model: model.name,
            collection: model.collection,
            id: id_of(raw),
            path: field.path.to_owned(),
            fault: Fault::Miscomputed {
                holds: Box::new(field.holds),
                is: field.is.map(Box::new),
            },
        }
    }

    pub(super) fn blocked(
        model: &Model,
        raw: &RawDocument,
        promise: Promise,
        rejection: Rejection,
    ) -> Self {
        Self {
            model: model.name,
            collection: model.collection,
            id: id_of(raw),
            path: promise.due(),
            fault: Fault::Blocked {
                by: rejection.collection,
                id: rejection.id,
                reason: rejection.reason,
            },
        }
    }

    pub(super) fn of_error(model: &Model, raw: &RawDocument, error: Error) -> Self {
        let message = error.message().to_owned();
        Self {
            model: model.name,
            collection: model.collection,
            id: id_of(raw),
            path: error.path().unwrap_or_default().to_owned(),
            fault: match error.kind() {
                ErrorKind::TooManyElements | ErrorKind::Invalid => Fault::OutOfBounds { message },
                _ => Fault::Unreadable { message },
            },
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.collection, self.id)?;
        if !self.path.is_empty() {
            write!(f, ", `{}`", self.path)?;
        }
        match &self.fault {
            Fault::Dangling { to, id } => write!(f, ": refers to {id} of {to}, which is not there"),
            Fault::OneSided { to, id } => {
                write!(f, ": leads to {id} of {to}, which does not lead back")
            }
            Fault::Stale {
                from,
                id,
                holds,
                is,
            } => write!(f, ": is {holds}, and {is} in {id} of {from}"),
            Fault::Miscounted { of, holds, is } => {
                write!(f, ": is {holds}, and {is} by what {of} make of it")
            }
            Fault::Miscomputed {
                holds,
                is: Some(is),
            } => write!(f, ": is {holds}, and computed to be {is}"),
            Fault::Miscomputed { holds, is: None } => {
                write!(
                    f,
                    ": is {holds}, and computed to be more than it has room for"
                )
            }
            Fault::Misflagged { flag, holds: true } => {
                write!(f, ": `{flag}` says that there is more, and there is not")
            }
            Fault::Misflagged { flag, holds: false } => {
                write!(f, ": there is more, and no `{flag}` says so")
            }
            Fault::TooManyInside { holds, after } => write!(
                f,
                ": {holds} elements are in the document, where {after} stay, as far as there is room for these"
            ),
            Fault::OutOfSequence { of, seq, to, times } => {
                write!(f, ": {times} documents of {of} have the number {seq}")?;
                match to > seq {
                    true => write!(f, ", and so it is up to {to}"),
                    false => Ok(()),
                }
            }
            Fault::OutOfOrder => f.write_str(": its elements are not in their order"),
            Fault::Orphaned { of, owner, seq } => {
                write!(
                    f,
                    ": the number {seq} of {owner} of {of}, which does not read it"
                )
            }
            Fault::Blocked { by, id, reason } => write!(
                f,
                ": work is pending, as {id} of {by} rejects the write that is due to it: {reason}"
            ),
            Fault::ListedTwice { to, id } => write!(f, ": lists {id} of {to} more than once"),
            Fault::Unreadable { message } | Fault::OutOfBounds { message } => {
                write!(f, ": {message}")
            }
        }
    }
}
