//! An operation of the corpus, and what it may ask for.

use std::fmt;

use bson::{Bson, Document, RawBson, RawDocumentBuf};

/// An operation on a collection, in the words of the corpus.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation<'a> {
    pub(crate) collection: &'a str,
    pub(crate) name: &'a str,
    pub(crate) args: &'a Document,
    /// The transaction that it is a part of.
    pub(crate) session: Option<&'a str>,
}

/// Why a backend was not asked, or said that it does not have it: neither right nor wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NotOffered(String);

impl<'a> Operation<'a> {
    /// An operation outside of any transaction.
    pub(crate) fn new(collection: &'a str, name: &'a str, args: &'a Document) -> Self {
        Self {
            collection,
            name,
            args,
            session: None,
        }
    }

    /// Refuses arguments other than these.
    pub(crate) fn only(&self, names: &[&str]) -> Result<(), NotOffered> {
        match self
            .args
            .keys()
            .find(|name| !names.contains(&name.as_str()))
        {
            None => Ok(()),
            Some(other) => Err(self.not_offered(other, "")),
        }
    }

    /// A value of any type.
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

    /// What does not exist with this operation.
    pub(crate) fn not_offered(&self, argument: &str, what: &str) -> NotOffered {
        NotOffered::new(format!("{} with {argument}{what}", self.name))
    }

    fn to_raw(self, name: &str, value: &Bson) -> Result<RawDocumentBuf, NotOffered> {
        let document = value.as_document();
        let document = document.ok_or_else(|| self.not_offered(name, " that is not a document"))?;
        raw(document)
    }
}

impl NotOffered {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for NotOffered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The bytes of a document.
pub(crate) fn raw(document: &Document) -> Result<RawDocumentBuf, NotOffered> {
    let cannot = |error| NotOffered::new(format!("what the driver cannot write: {error}"));
    RawDocumentBuf::try_from(document).map_err(cannot)
}
