//! The changes of the source during a copy.

use std::collections::{BTreeMap, BTreeSet};

use bson::{RawDocument, RawDocumentBuf, doc, oid::ObjectId, rawdoc};

use super::documents::{Ids, id_bytes};
use crate::{
    Error, ErrorKind, Result,
    backend::{
        Backend, ChangeCursor,
        operation::{
            DeleteOperation, FullDocument, InsertOperation, OperationOrigin, WatchFrom,
            WatchOperation,
        },
    },
    error,
    metadata::transfer::{COPY, TRANSFERS},
    model::stored::{to_raw_document, to_raw_value},
};

/// MongoDB's code in place of an event that is too large for a reply.
const EVENT_TOO_LARGE_CODE: i32 = 10334;

/// The number of changed documents that are applied together.
const MAX_CHANGED_DOCUMENTS: usize = 10_000;

/// The change stream of the source.
pub(super) struct SourceChanges<'a> {
    from: &'a dyn Backend,
    copy: ObjectId,
    stream: Box<dyn ChangeCursor>,
}

/// Changed documents, by collection. The content of a change plays no role: the copy reads the current documents.
#[derive(Default)]
pub(super) struct ChangedDocuments {
    pub(super) ids: BTreeMap<String, Ids>,
    /// The collections that were dropped. The documents of a new collection of the same name are in `ids`.
    pub(super) dropped: BTreeSet<String>,
    count: usize,
    /// The marks that were found.
    marks: BTreeSet<ObjectId>,
}

impl ChangedDocuments {
    /// Whether as many documents have changed as are applied together.
    pub(super) fn is_full(&self) -> bool {
        self.count >= MAX_CHANGED_DOCUMENTS
    }

    pub(super) fn has_mark(&self, mark: ObjectId) -> bool {
        self.marks.contains(&mark)
    }

    /// Adds the document of an event.
    fn add_event(&mut self, event: &RawDocument) -> Result<()> {
        let kind = event.get_str("operationType").map_err(error::from_bson)?;
        match kind {
            "insert" | "update" | "replace" | "delete" => {
                let collection = collection_of(event)?;
                let key = event
                    .get_document("documentKey")
                    .map_err(error::from_bson)?;
                let Some(id) = key.get("_id").map_err(error::from_bson)? else {
                    return Err(unreadable_event(kind));
                };
                self.add_document(collection, id.into());
            }
            "drop" => {
                let collection = collection_of(event)?;
                // The end of an earlier copy drops the marks. The state in the target has the same collection.
                if collection != TRANSFERS {
                    self.ids.remove(collection);
                    self.dropped.insert(collection.to_owned());
                }
            }
            "rename" => {
                let message = "a collection was renamed during the copy: drop the copy by `restart`, and rename no collection";
                let error = Error::new(ErrorKind::Unsupported, message);
                return Err(error.with_collection(collection_of(event)?));
            }
            kind => return Err(unreadable_event(kind)),
        }
        Ok(())
    }

    fn add_document(&mut self, collection: &str, id: bson::RawBson) {
        if collection == TRANSFERS {
            self.marks.extend(id.as_raw_bson_ref().as_object_id());
            return;
        }
        if !self.ids.contains_key(collection) {
            self.ids.insert(collection.to_owned(), Ids::new());
        }
        if let Some(ids) = self.ids.get_mut(collection)
            && ids.insert(id_bytes(id.as_raw_bson_ref()), id).is_none()
        {
            self.count += 1;
        }
    }
}

fn collection_of(event: &RawDocument) -> Result<&str> {
    let namespace = event.get_document("ns").map_err(error::from_bson)?;
    namespace.get_str("coll").map_err(error::from_bson)
}

fn unreadable_event(kind: &str) -> Error {
    let message = format!("the source had an event of the kind `{kind}` during the copy");
    Error::new(ErrorKind::Unsupported, message)
}

impl<'a> SourceChanges<'a> {
    /// Opens the change stream of the source, from now on or after a token.
    pub(super) async fn open(
        from: &'a dyn Backend,
        copy: ObjectId,
        start: WatchFrom,
    ) -> Result<Self> {
        let watch = WatchOperation {
            from: start,
            full_document: FullDocument::Default,
            ..WatchOperation::database()
        };
        let stream = from.watch(watch).await?;
        Ok(Self { from, copy, stream })
    }

    /// Returns the position of the stream, after the events that were read.
    pub(super) fn token(&self) -> RawDocumentBuf {
        self.stream.resume_token()
    }

    /// Writes a mark into the source. All writes that were acknowledged before have an event before the event of the mark.
    pub(super) async fn mark(&mut self) -> Result<ObjectId> {
        let mark = ObjectId::new();
        let insert = InsertOperation {
            collection: TRANSFERS.into(),
            documents: vec![to_raw_document(&doc! { "_id": mark, COPY: self.copy })?],
            ordered: true,
            origin: OperationOrigin::default(),
        };
        self.from.insert(insert).await?;
        Ok(mark)
    }

    /// Removes a mark.
    pub(super) async fn remove_mark(&mut self, mark: ObjectId) -> Result<()> {
        let delete = DeleteOperation {
            collection: TRANSFERS.into(),
            filter: rawdoc! { "_id": mark },
            multi: false,
            origin: OperationOrigin::default(),
        };
        self.from.delete(delete).await.map(|_| ())
    }

    /// Waits for the next events, and adds their documents. Dropping the future loses no event.
    pub(super) async fn read_into(&mut self, changed: &mut ChangedDocuments) -> Result<()> {
        match self.stream.next_batch().await {
            Ok(events) if events.is_empty() => {
                let message = "the source database was dropped during the copy";
                Err(Error::new(ErrorKind::HistoryLost, message))
            }
            Ok(events) => events.iter().try_for_each(|event| changed.add_event(event)),
            Err(error) if error.code() == Some(EVENT_TOO_LARGE_CODE) => {
                match (error.collection(), error.id()) {
                    (Some(collection), Some(id)) => {
                        changed.add_document(collection, to_raw_value(id)?);
                        Ok(())
                    }
                    _ => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, collection: &str, id: i32) -> RawDocumentBuf {
        rawdoc! { "operationType": kind, "ns": { "coll": collection }, "documentKey": { "_id": id } }
    }

    #[test]
    fn a_dropped_collection_keeps_only_later_changes() {
        let mut changed = ChangedDocuments::default();
        for event in [
            event("insert", "a", 1),
            event("update", "b", 1),
            event("insert", "a", 1),
        ] {
            changed.add_event(&event).unwrap();
        }
        changed
            .add_event(&rawdoc! { "operationType": "drop", "ns": { "coll": "a" } })
            .unwrap();
        changed.add_event(&event("insert", "a", 2)).unwrap();
        assert_eq!(changed.dropped, BTreeSet::from(["a".to_owned()]));
        let ids: Vec<_> = changed.ids["a"].values().collect();
        assert_eq!(ids, [&bson::RawBson::Int32(2)]);
        assert_eq!(changed.ids["b"].len(), 1);
    }

    #[test]
    fn a_drop_of_the_marks_leaves_the_state_of_the_target() {
        let mut changed = ChangedDocuments::default();
        let drop = rawdoc! { "operationType": "drop", "ns": { "coll": TRANSFERS } };
        changed.add_event(&drop).unwrap();
        assert!(changed.dropped.is_empty());
    }

    #[test]
    fn an_event_that_cannot_be_copied_is_an_error() {
        for kind in ["rename", "dropDatabase", "invalidate", "reshardCollection"] {
            let event = rawdoc! { "operationType": kind, "ns": { "coll": "a" } };
            let error = ChangedDocuments::default().add_event(&event).unwrap_err();
            assert!(error.is_unsupported(), "{error}");
        }
    }
}
