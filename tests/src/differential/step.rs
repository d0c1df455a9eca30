//! A single operation with its collection, and its form in a corpus case.

use bson::{Bson, Document, doc};

use crate::corpus::operation::Operation;

/// The collections that every generated database has.
pub(super) const COLLECTIONS: [&str; 2] = ["c", "o1"];

/// A single operation in the format of the corpus.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    pub(super) collection: String,
    pub(super) name: String,
    pub(super) args: Document,
    /// The transaction of the operation.
    pub(super) session: Option<String>,
}

impl Step {
    pub(super) fn new(collection: &str, name: &str, args: Document) -> Self {
        Self {
            collection: collection.to_owned(),
            name: name.to_owned(),
            args,
            session: None,
        }
    }

    /// Returns the same operation in a transaction.
    pub(super) fn in_transaction(mut self, session: &str) -> Self {
        self.session = Some(session.to_owned());
        self
    }

    pub(super) fn operation(&self) -> Operation<'_> {
        Operation {
            session: self.session.as_deref(),
            ..Operation::new(&self.collection, &self.name, &self.args)
        }
    }

    /// Returns whether the operation can change documents.
    pub(super) fn is_write(&self) -> bool {
        ["insert", "update", "replace", "delete", "findOneAnd"]
            .iter()
            .any(|prefix| self.name.starts_with(prefix))
    }

    /// Returns whether the operation begins or ends a transaction.
    pub(super) fn is_transaction_boundary(&self) -> bool {
        self.name.ends_with("Transaction")
    }

    /// Returns whether the operation creates or drops collections or indexes.
    pub(super) fn is_definition(&self) -> bool {
        self.name == "create" || self.name.ends_with("Indexes")
    }

    /// Returns the step in the format of a corpus case, with the expected answer.
    pub(super) fn to_document(&self, expect: Option<&Document>) -> Document {
        let mut step = doc! { "op": &self.name };
        if self.collection != COLLECTIONS[0] {
            step.insert("collection", &self.collection);
        }
        if !self.args.is_empty() {
            step.insert("args", self.args.clone());
        }
        if let Some(session) = &self.session {
            step.insert("session", session);
        }
        if let Some(expect) = expect {
            step.insert("expect", expect.clone());
        }
        step
    }

    /// Returns a document argument, or `None` if the argument is missing or has a different type.
    pub(super) fn document(&self, name: &str) -> Option<&Document> {
        self.args.get(name).and_then(Bson::as_document)
    }
}
