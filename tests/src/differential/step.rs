//! An operation with what it is asked of, and its form in a case of the corpus.

use bson::{Bson, Document, doc};

use crate::corpus::operation::Operation;

/// The collections of every world.
pub(super) const COLLECTIONS: [&str; 2] = ["c", "o1"];

/// One operation, in the words of the corpus.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    pub(super) collection: String,
    pub(super) name: String,
    pub(super) args: Document,
    /// The transaction that it is a part of.
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

    /// The same in a transaction.
    pub(super) fn within(mut self, session: &str) -> Self {
        self.session = Some(session.to_owned());
        self
    }

    pub(super) fn operation(&self) -> Operation<'_> {
        Operation {
            session: self.session.as_deref(),
            ..Operation::new(&self.collection, &self.name, &self.args)
        }
    }

    /// Whether it can change documents.
    pub(super) fn is_write(&self) -> bool {
        ["insert", "update", "replace", "delete", "findOneAnd"]
            .iter()
            .any(|prefix| self.name.starts_with(prefix))
    }

    /// Whether it begins or ends a transaction.
    pub(super) fn is_bound(&self) -> bool {
        self.name.ends_with("Transaction")
    }

    /// Whether it makes or drops collections or indexes.
    pub(super) fn is_definition(&self) -> bool {
        self.name == "create" || self.name.ends_with("Indexes")
    }

    /// As a step of a case of the corpus, with what is expected of it.
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

    /// A document among the arguments; none if it is absent or something else.
    pub(super) fn document(&self, name: &str) -> Option<&Document> {
        self.args.get(name).and_then(Bson::as_document)
    }
}
