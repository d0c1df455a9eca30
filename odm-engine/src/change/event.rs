use bson::{DateTime, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, Timestamp, rawdoc};

use super::description::describe_update;
use super::difference::describe_difference;
use super::{ModificationKind, ModifiedDocument, ResumeToken};
use crate::document::{self, append_field};
use crate::error::{Error, Result};

/// MongoDB's change event for one document, without the fields that are known only at the commit.
#[derive(Clone, Debug)]
pub(crate) struct ChangeEvent {
    body: RawDocumentBuf,
}

/// The commit time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventTime {
    /// The cluster time. All events of a write or transaction share one cluster time, which grows from commit to commit.
    pub(crate) cluster_time: Timestamp,
    pub(crate) wall_time: DateTime,
}

impl ChangeEvent {
    pub(crate) fn for_insert(collection: &str, document: &RawDocument) -> Result<ChangeEvent> {
        ChangeEvent::new("insert", collection, document, Some(document), None)
    }

    pub(crate) fn for_modification(
        collection: &str,
        before: &RawDocument,
        modified: &ModifiedDocument,
    ) -> Result<ChangeEvent> {
        let after = &*modified.document;
        match &modified.kind {
            ModificationKind::Replacement => {
                ChangeEvent::new("replace", collection, after, Some(after), None)
            }
            ModificationKind::Update(places) => {
                let description = describe_update(before, after, places);
                ChangeEvent::new("update", collection, after, None, Some(description))
            }
            ModificationKind::Pipeline => match describe_difference(before, after) {
                None => ChangeEvent::new("replace", collection, after, Some(after), None),
                description => ChangeEvent::new("update", collection, after, None, description),
            },
        }
    }

    pub(crate) fn for_delete(collection: &str, document: &RawDocument) -> Result<ChangeEvent> {
        ChangeEvent::new("delete", collection, document, None, None)
    }

    /// Returns the event for a dropped collection. The log has no events for the dropped documents.
    pub(crate) fn for_drop(collection: &str) -> Result<ChangeEvent> {
        let mut body = RawDocumentBuf::new();
        append_field(&mut body, "operationType", "drop");
        append_field(&mut body, "ns", rawdoc! { "coll": collection });
        Ok(ChangeEvent { body })
    }

    /// Returns the last event of a stream on a dropped collection.
    pub(crate) fn for_invalidate() -> ChangeEvent {
        let mut body = RawDocumentBuf::new();
        append_field(&mut body, "operationType", "invalidate");
        ChangeEvent { body }
    }

    fn new(
        operation: &str,
        collection: &str,
        document: &RawDocument,
        full: Option<&RawDocument>,
        description: Option<RawDocumentBuf>,
    ) -> Result<ChangeEvent> {
        let mut key = RawDocumentBuf::new();
        append_field(&mut key, "_id", document::document_id(document)?);
        let mut body = RawDocumentBuf::new();
        append_field(&mut body, "operationType", operation);
        if let Some(full) = full {
            append_field(&mut body, "fullDocument", full);
        }
        append_field(&mut body, "ns", rawdoc! { "coll": collection });
        append_field(&mut body, "documentKey", key);
        if let Some(description) = description {
            append_field(&mut body, "updateDescription", description);
        }
        Ok(ChangeEvent { body })
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.body.as_bytes()
    }

    /// Reads an event from the bytes of [`as_bytes`](ChangeEvent::as_bytes).
    ///
    /// # Errors
    /// Damaged.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<ChangeEvent> {
        let body = RawDocumentBuf::from_bytes(bytes.to_vec()).map_err(unreadable_event)?;
        Ok(ChangeEvent { body })
    }

    pub(crate) fn collection(&self) -> Result<&str> {
        let namespace = self.body.get_document("ns").map_err(unreadable_event)?;
        namespace.get_str("coll").map_err(unreadable_event)
    }

    pub(crate) fn is_drop(&self) -> Result<bool> {
        let operation = self
            .body
            .get_str("operationType")
            .map_err(unreadable_event)?;
        Ok(operation == "drop")
    }

    /// Returns the `_id` of an updated document. `None` for other kinds of events, which need no lookup of the document.
    pub(crate) fn updated_id(&self) -> Result<Option<RawBsonRef<'_>>> {
        if self
            .body
            .get_str("operationType")
            .map_err(unreadable_event)?
            != "update"
        {
            return Ok(None);
        }
        let key = self
            .body
            .get_document("documentKey")
            .map_err(unreadable_event)?;
        document::document_id(key).map(Some)
    }

    /// Returns the event as a caller sees it, with `looked_up` as `fullDocument` if present.
    pub(crate) fn to_document(
        &self,
        token: &ResumeToken,
        moment: EventTime,
        looked_up: Option<&RawBson>,
    ) -> Result<RawDocumentBuf> {
        let mut output = RawDocumentBuf::new();
        append_field(&mut output, "_id", token.to_document());
        for element in self.body.iter_elements() {
            let element = element.map_err(unreadable_event)?;
            let name = element.key();
            if let ("ns", Some(document)) = (name.as_str(), looked_up) {
                append_field(&mut output, "fullDocument", document.as_raw_bson_ref());
            }
            output.append(name, element.value().map_err(unreadable_event)?);
            if name.as_str() == "operationType" {
                append_field(&mut output, "clusterTime", moment.cluster_time);
                append_field(&mut output, "wallTime", moment.wall_time);
            }
        }
        Ok(output)
    }
}

fn unreadable_event(error: bson::error::Error) -> Error {
    Error::damaged(format!(
        "an event of the change log cannot be read: {error}"
    ))
}
