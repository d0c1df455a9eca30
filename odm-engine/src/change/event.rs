use bson::{DateTime, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, Timestamp, rawdoc};

use super::description::describe;
use super::difference::difference;
use super::{How, Modified, Token};
use crate::document::{self, append};
use crate::error::{Error, Result};

/// What happened to a document: MongoDB's change event, without what is only known when it is committed.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    body: RawDocumentBuf,
}

/// When an event was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The same for all events of one write or transaction, and later for those of the next.
    pub(crate) cluster: Timestamp,
    pub(crate) wall: DateTime,
}

impl Event {
    pub(crate) fn insert(collection: &str, document: &RawDocument) -> Result<Event> {
        Event::new("insert", collection, document, Some(document), None)
    }

    pub(crate) fn modify(
        collection: &str,
        before: &RawDocument,
        modified: &Modified,
    ) -> Result<Event> {
        let after = &*modified.document;
        match &modified.how {
            How::Replacement => Event::new("replace", collection, after, Some(after), None),
            How::Update(places) => {
                let description = describe(before, after, places);
                Event::new("update", collection, after, None, Some(description))
            }
            How::Pipeline => match difference(before, after) {
                None => Event::new("replace", collection, after, Some(after), None),
                description => Event::new("update", collection, after, None, description),
            },
        }
    }

    pub(crate) fn delete(collection: &str, document: &RawDocument) -> Result<Event> {
        Event::new("delete", collection, document, None, None)
    }

    /// The end of a collection, whose documents are not told.
    pub(crate) fn drop(collection: &str) -> Result<Event> {
        let mut body = RawDocumentBuf::new();
        append(&mut body, "operationType", "drop");
        append(&mut body, "ns", rawdoc! { "coll": collection });
        Ok(Event { body })
    }

    /// What a stream of one collection ends with, once that has been dropped.
    pub(crate) fn invalidate() -> Event {
        let mut body = RawDocumentBuf::new();
        append(&mut body, "operationType", "invalidate");
        Event { body }
    }

    fn new(
        operation: &str,
        collection: &str,
        document: &RawDocument,
        full: Option<&RawDocument>,
        description: Option<RawDocumentBuf>,
    ) -> Result<Event> {
        let mut key = RawDocumentBuf::new();
        append(&mut key, "_id", document::id(document)?);
        let mut body = RawDocumentBuf::new();
        append(&mut body, "operationType", operation);
        if let Some(full) = full {
            append(&mut body, "fullDocument", full);
        }
        append(&mut body, "ns", rawdoc! { "coll": collection });
        append(&mut body, "documentKey", key);
        if let Some(description) = description {
            append(&mut body, "updateDescription", description);
        }
        Ok(Event { body })
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.body.as_bytes()
    }

    /// Reads what [`as_bytes`](Event::as_bytes) has given.
    ///
    /// # Errors
    /// Damaged.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Event> {
        let body = RawDocumentBuf::from_bytes(bytes.to_vec()).map_err(unreadable)?;
        Ok(Event { body })
    }

    pub(crate) fn collection(&self) -> Result<&str> {
        let namespace = self.body.get_document("ns").map_err(unreadable)?;
        namespace.get_str("coll").map_err(unreadable)
    }

    pub(crate) fn is_drop(&self) -> Result<bool> {
        let operation = self.body.get_str("operationType").map_err(unreadable)?;
        Ok(operation == "drop")
    }

    /// The `_id` of the document of an update, which alone does not hold that document.
    pub(crate) fn updated_id(&self) -> Result<Option<RawBsonRef<'_>>> {
        if self.body.get_str("operationType").map_err(unreadable)? != "update" {
            return Ok(None);
        }
        let key = self.body.get_document("documentKey").map_err(unreadable)?;
        document::id(key).map(Some)
    }

    /// The event as it is shown, with the document that was looked up for it if there is one.
    pub(crate) fn show(
        &self,
        token: &Token,
        moment: Moment,
        looked_up: Option<&RawBson>,
    ) -> Result<RawDocumentBuf> {
        let mut shown = RawDocumentBuf::new();
        append(&mut shown, "_id", token.encode());
        for element in self.body.iter_elements() {
            let element = element.map_err(unreadable)?;
            let name = element.key();
            if let ("ns", Some(document)) = (name.as_str(), looked_up) {
                append(&mut shown, "fullDocument", document.as_raw_bson_ref());
            }
            shown.append(name, element.value().map_err(unreadable)?);
            if name.as_str() == "operationType" {
                append(&mut shown, "clusterTime", moment.cluster);
                append(&mut shown, "wallTime", moment.wall);
            }
        }
        Ok(shown)
    }
}

fn unreadable(error: bson::error::Error) -> Error {
    Error::damaged(format!(
        "an event of the change log cannot be read: {error}"
    ))
}
