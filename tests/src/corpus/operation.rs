//! An operation of the corpus, with typed access to the arguments.

use std::fmt;

use bson::{Bson, Document, RawBson, RawDocumentBuf};

/// An operation on a collection, in the terms of the corpus.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation<'a> {
    pub(crate) collection: &'a str,
    pub(crate) name: &'a str,
    pub(crate) args: &'a Document,
    /// The session of the transaction that contains the operation.
    pub(crate) session: Option<&'a str>,
}

/// The reason why a backend cannot run a case. The case counts as neither right nor wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NotOffered(String);

impl<'a> Operation<'a> {
    /// Returns an operation outside of any transaction.
    pub(crate) fn new(collection: &'a str, name: &'a str, args: &'a Document) -> Self {
        Self {
            collection,
            name,
            args,
            session: None,
        }
    }

    /// Rejects arguments that are not in `names`.
    pub(crate) fn ensure_only(&self, names: &[&str]) -> Result<(), NotOffered> {
        match self
            .args
            .keys()
            .find(|name| !names.contains(&name.as_str()))
        {
            None => Ok(()),
            Some(other) => Err(self.not_offered(other, "")),
        }
    }

    /// Returns an argument of any type.
    pub(super) fn value(&self, name: &str) -> Result<Option<RawBson>, NotOffered> {
        let raw = |value: &Bson| {
            RawBson::try_from(value.clone())
                .map_err(|error| NotOffered::new(format!("what the driver cannot write: {error}")))
        };
        self.args.get(name).map(raw).transpose()
    }

    pub(crate) fn document(&self, name: &str) -> Result<Option<RawDocumentBuf>, NotOffered> {
        let document = self.args.get(name).map(|value| self.to_raw(name, value));
        document.transpose()
    }

    pub(crate) fn documents(&self, name: &str) -> Result<Vec<RawDocumentBuf>, NotOffered> {
        match self.args.get(name) {
            None => Ok(Vec::new()),
            Some(Bson::Array(values)) => values
                .iter()
                .map(|value| self.to_raw(name, value))
                .collect(),
            Some(_) => Err(self.not_offered(name, " that is not an array")),
        }
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool, NotOffered> {
        match self.args.get(name) {
            None => Ok(false),
            Some(Bson::Boolean(flag)) => Ok(*flag),
            Some(_) => Err(self.not_offered(name, " that is not a boolean")),
        }
    }

    pub(crate) fn text(&self, name: &str) -> Result<&'a str, NotOffered> {
        let text = self.args.get(name).and_then(Bson::as_str);
        text.ok_or_else(|| self.not_offered(name, " that is not a string"))
    }

    pub(crate) fn count(&self, name: &str) -> Result<Option<u64>, NotOffered> {
        let Some(value) = self.args.get(name) else {
            return Ok(None);
        };
        let count = match value {
            Bson::Int32(count) => u64::try_from(*count).ok(),
            Bson::Int64(count) => u64::try_from(*count).ok(),
            _ => None,
        };
        let refused = || self.not_offered(name, " that is not a whole number from 0");
        count.map(Some).ok_or_else(refused)
    }

    /// Returns the reason why this operation cannot have the argument.
    pub(crate) fn not_offered(&self, argument: &str, reason: &str) -> NotOffered {
        NotOffered::new(format!("{} with {argument}{reason}", self.name))
    }

    fn to_raw(self, name: &str, value: &Bson) -> Result<RawDocumentBuf, NotOffered> {
        let document = value.as_document();
        let document = document.ok_or_else(|| self.not_offered(name, " that is not a document"))?;
        encode(document)
    }
}

impl NotOffered {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for NotOffered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Encodes a document.
pub(crate) fn encode(document: &Document) -> Result<RawDocumentBuf, NotOffered> {
    let cannot = |error| NotOffered::new(format!("what the driver cannot write: {error}"));
    RawDocumentBuf::try_from(document).map_err(cannot)
}
