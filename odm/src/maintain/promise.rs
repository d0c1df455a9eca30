//! What documents say while something is owed behind a write to them.

use std::time::{Duration, SystemTime};

use bson::{
    DateTime, Document, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, doc, oid::ObjectId,
};

use super::{copy, link, tally};
use crate::{
    Result,
    access::Access,
    error,
    query::{append, document},
    schema::{Model, OverflowField},
};

/// How long what is owed is left to whoever said it.
pub(crate) const LEASE: Duration = Duration::from_secs(5);

/// Something that is owed, where a document says so: a token, and when others may see to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Promise(pub(super) &'static str);

impl Promise {
    /// Copies of the document are to follow it.
    pub(crate) const FAN: Self = Self("_odm.fan");
    /// The document's own copies are to be looked at again.
    pub(crate) const VERIFY: Self = Self("_odm.verify");
    /// The document is to be counted at those that it refers to.
    pub(crate) const COUNT: Self = Self("_odm.count");
    /// Those that refer to the document are to be looked for, and counted.
    pub(crate) const RECOUNT: Self = Self("_odm.recount");
    /// Its references and their other sides are being written.
    pub(crate) const LINK: Self = Self("_odm");

    /// Something is being done to an array that overflows.
    pub(crate) fn of_array(field: &OverflowField) -> Self {
        Self(field.work)
    }

    /// Where it stands in a document.
    pub(crate) fn name(self) -> &'static str {
        self.0
    }

    /// A field of what is said.
    pub(crate) fn field(self, name: &str) -> String {
        format!("{}.{name}", self.0)
    }

    pub(super) fn token(self) -> String {
        self.field("token")
    }

    /// The field by whose index what is owed is found.
    pub(crate) fn due(self) -> String {
        self.field("due")
    }

    /// The condition that others may see to it by now.
    pub(super) fn overdue(self) -> Result<RawDocumentBuf> {
        document(&self.due(), document("$lte", DateTime::now())?)
    }

    /// When others may see to it, as it stands in a document.
    pub(crate) fn due_of(self, raw: &RawDocument) -> Result<Option<DateTime>> {
        let due = self.said_in(raw, "due")?;
        Ok(due.and_then(RawBsonRef::as_datetime))
    }

    /// Since when it is owed that others have taken over, as it stands in a document.
    pub(crate) fn since(self, raw: &RawDocument) -> Result<Option<DateTime>> {
        let since = self.said_in(raw, "since")?;
        Ok(since.and_then(RawBsonRef::as_datetime))
    }

    /// A field of what a document says.
    pub(crate) fn said_in<'d>(
        self,
        raw: &'d RawDocument,
        name: &str,
    ) -> Result<Option<RawBsonRef<'d>>> {
        let mut found = raw.get("_odm").map_err(error::encode)?;
        for part in self.field(name).split('.').skip(1) {
            let inside = found.and_then(RawBsonRef::as_document);
            found = inside.and_then(|inside| inside.get(part).ok().flatten());
        }
        Ok(found)
    }

    /// Whether documents of a model may say so.
    pub(crate) fn is_of(self, access: &Access, model: &'static Model) -> bool {
        let mut arrays = model.overflows.iter();
        if arrays.any(|field| field.work == self.0) {
            return true;
        }
        match self {
            Self::FAN => copy::is_source(access, model),
            Self::VERIFY => copy::is_dependent(model),
            Self::COUNT | Self::RECOUNT => tally::says(access, model, self),
            _ => link::is_promising(access, model),
        }
    }
}

/// What one write says that is owed: by it the documents that say so are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) token: ObjectId,
    pub(super) due: DateTime,
}

impl Said {
    pub(super) fn now() -> Self {
        Self {
            token: ObjectId::new(),
            due: DateTime::from_system_time(SystemTime::now() + LEASE),
        }
    }

    /// As a document says it.
    pub(super) fn read(raw: &RawDocument, promise: Promise) -> Result<Option<Self>> {
        let due = promise.due_of(raw)?;
        let token = promise.said_in(raw, "token")?;
        let token = token.and_then(RawBsonRef::as_object_id);
        Ok(token.zip(due).map(|(token, due)| Self { token, due }))
    }

    /// When it was said, if nobody has taken it over.
    pub(super) fn at(self) -> DateTime {
        DateTime::from_system_time(self.due.to_system_time() - LEASE)
    }

    /// The condition that a document says so.
    pub(super) fn filter(self, promise: Promise) -> Result<RawDocumentBuf> {
        let mut filter = document(&promise.due(), document("$eq", self.due)?)?;
        append(&mut filter, &promise.token(), document("$eq", self.token)?)?;
        Ok(filter)
    }

    /// As it stands in a document.
    pub(super) fn to_document(self) -> Document {
        doc! { "token": self.token, "due": self.due }
    }

    pub(super) fn to_raw(self) -> Result<RawBson> {
        let raw = RawDocumentBuf::try_from(&self.to_document());
        raw.map(RawBson::from).map_err(error::encode)
    }
}
