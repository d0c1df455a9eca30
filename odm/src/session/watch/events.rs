//! The events of a change stream of the backend.

use std::collections::VecDeque;

use bson::{DateTime, RawArrayBuf, RawDocumentBuf, Timestamp, raw::cstr, rawdoc};

use super::{IntoResumeToken, ResumeToken, change};
use crate::{
    Error, ErrorKind, Result,
    backend::{
        ChangeCursor,
        operation::{FullDocument, WatchFrom, WatchOperation},
    },
    language::query::single_field_document,
    schema::Model,
    session::access::Access,
};

/// The options of every watch.
#[derive(Debug, Clone, Default)]
pub(super) struct WatchOptions {
    pub(super) looks_up_documents: bool,
    from: WatchFrom,
}

impl WatchOptions {
    pub(super) fn start_after(&mut self, token: impl IntoResumeToken) {
        if let Some(token) = token.into_resume_token() {
            self.from = WatchFrom::After(token.into_raw());
        }
    }

    pub(super) fn start_since(&mut self, time: DateTime) {
        let seconds = time.timestamp_millis().div_euclid(1_000);
        self.from = WatchFrom::At(Timestamp {
            time: u32::try_from(seconds.max(0)).unwrap_or(u32::MAX),
            increment: 0,
        });
    }

    /// Opens the stream of the inserts, updates, replacements and deletes in the collections of the models: in one collection, or
    /// else in the whole database. The condition is on the documents of the events.
    ///
    /// On MongoDB, the token of an event starts only a stream that has the event: the same kind of stream, with a filter that the
    /// event meets.
    pub(super) async fn open(
        self,
        access: &Access,
        collection: Option<&'static str>,
        models: &[&'static Model],
        condition: RawDocumentBuf,
    ) -> Result<Events> {
        models.iter().try_for_each(|model| ensure_whole(model))?;
        if access.transaction_scope().is_some() {
            let message = "a transaction cannot watch changes: call `watch` on the database";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let kinds = rawdoc! { "$in": ["insert", "update", "replace", "delete"] };
        let mut filter = single_field_document("operationType", kinds)?;
        if collection.is_none() {
            let mut collections = RawArrayBuf::new();
            for model in models {
                collections.push(model.collection);
            }
            filter.append(cstr!("ns.coll"), rawdoc! { "$in": collections });
        }
        if !condition.is_empty() {
            let mut disjunction = RawArrayBuf::new();
            disjunction.push(rawdoc! { "fullDocument": { "$eq": null } });
            disjunction.push(condition);
            filter.append(cstr!("$or"), disjunction);
        }
        let operation = WatchOperation {
            collection: collection.map(Into::into),
            filter,
            from: self.from,
            full_document: match self.looks_up_documents {
                true => FullDocument::UpdateLookup,
                false => FullDocument::Default,
            },
        };
        let cursor = access.backend().watch(operation).await?;
        Ok(Events {
            token: cursor.resume_token(),
            cursor,
            ready: VecDeque::new(),
        })
    }
}

/// Ensures that a model is not the model of a single variant of an enum.
pub(super) fn ensure_whole(model: &Model) -> Result<()> {
    let Some((_, tag)) = model.tag else {
        return Ok(());
    };
    let message = format!(
        "a delete event does not contain the variant of the document, so `{tag}` cannot be watched alone: watch the enum"
    );
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// The events of a change stream, one by one.
pub(super) struct Events {
    cursor: Box<dyn ChangeCursor>,
    ready: VecDeque<RawDocumentBuf>,
    /// The token of the last returned event.
    token: RawDocumentBuf,
}

impl Events {
    /// Waits for the next event. Returns `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<Result<RawDocumentBuf>> {
        while self.ready.is_empty() {
            match self.cursor.next_batch().await {
                Ok(events) if events.is_empty() => return None,
                Ok(events) => self.ready.extend(events),
                Err(error) => return Some(Err(error)),
            }
        }
        let event = self.ready.pop_front()?;
        match event.get_document("_id") {
            Ok(token) => self.token = token.to_owned(),
            Err(error) => return Some(Err(change::malformed_event(error))),
        }
        Some(Ok(event))
    }

    /// Returns the position after the last returned event. If no event is ready, the position is also after the events that the
    /// filter has excluded.
    pub(super) fn token(&self) -> ResumeToken {
        ResumeToken::new(match self.ready.is_empty() {
            true => self.cursor.resume_token(),
            false => self.token.clone(),
        })
    }
}
