//! The engine's cursors in batches.

use std::{
    mem,
    time::{Duration, Instant},
};

use bson::{RawDocumentBuf, raw::CStr, rawdoc};
use odm_engine::Interrupt;
use tokio::task::JoinHandle;

use super::{error, work::CancelOnDrop};
use crate::{
    Result,
    backend::{BoxFuture, Cursor},
    task,
};

/// A batch ends with the document that goes past one of these: the way to another thread is shared by many documents,
/// and what is in memory at once stays small.
const BATCH_DOCUMENTS: usize = 1_000;
const BATCH_BYTES: usize = 1024 * 1024;

/// Documents that were read, and what reads more unless it was at its end.
pub(super) struct Fetched {
    documents: Vec<RawDocumentBuf>,
    rest: Option<odm_engine::Cursor>,
    /// What ended the reading behind the documents.
    failure: Option<odm_engine::Error>,
}

impl Fetched {
    /// The first documents of a cursor; an error before the first of them is the whole answer.
    pub(super) fn first(cursor: odm_engine::Cursor) -> odm_engine::Result<Self> {
        let fetched = Self::next(cursor);
        match fetched.failure {
            Some(failure) if fetched.documents.is_empty() => Err(failure),
            _ => Ok(fetched),
        }
    }

    /// The answer to a read by several keys, or by several queries: each document with the position of its own.
    pub(super) fn marked(name: &'static CStr, found: Vec<Vec<RawDocumentBuf>>) -> Self {
        let each = (0_i32..).zip(found);
        let documents = each.flat_map(|(position, documents)| {
            let marked = move |document| rawdoc! { name: position, "document": document };
            documents.into_iter().map(marked)
        });
        Self {
            documents: documents.collect(),
            rest: None,
            failure: None,
        }
    }

    fn end() -> Self {
        Self {
            documents: Vec::new(),
            rest: None,
            failure: None,
        }
    }

    fn next(mut cursor: odm_engine::Cursor) -> Self {
        let mut documents = Vec::new();
        let mut bytes = 0;
        let (rest, failure) = loop {
            if documents.len() >= BATCH_DOCUMENTS || bytes >= BATCH_BYTES {
                break (Some(cursor), None);
            }
            match cursor.next() {
                None => break (None, None),
                Some(Err(failure)) => break (None, Some(failure)),
                Some(Ok(document)) => {
                    bytes += document.as_bytes().len();
                    documents.push(document);
                }
            }
        };
        Self {
            documents,
            rest,
            failure,
        }
    }
}

pub(super) struct EngineCursor {
    state: State,
    /// How long further reads may take together.
    max_time: Option<Duration>,
    /// A read that is under way ends when the cursor is dropped.
    _cancel: CancelOnDrop,
    interrupt: Interrupt,
}

enum State {
    Ready(Fetched),
    /// A read under way. If the future of the call is dropped, the next call takes the documents.
    Reading(JoinHandle<Fetched>),
}

impl EngineCursor {
    pub(super) fn boxed(first: Fetched, max_time: Option<Duration>) -> Box<dyn Cursor> {
        let interrupt = Interrupt::new();
        Box::new(Self {
            state: State::Ready(first),
            max_time,
            _cancel: CancelOnDrop::new(interrupt.clone()),
            interrupt,
        })
    }
}

impl Cursor for EngineCursor {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move {
            loop {
                match &mut self.state {
                    State::Ready(fetched) => {
                        if !fetched.documents.is_empty() {
                            return Ok(mem::take(&mut fetched.documents));
                        }
                        if let Some(failure) = fetched.failure.take() {
                            return Err(error::from_engine(failure));
                        }
                        let Some(rest) = fetched.rest.take() else {
                            return Ok(Vec::new());
                        };
                        let interrupt = self.interrupt.clone();
                        let read = move || interrupt.run(|| Fetched::next(rest));
                        self.state = State::Reading(task::spawn_blocking(read));
                    }
                    State::Reading(read) => {
                        let begun = Instant::now();
                        let joined = match self.max_time {
                            None => Some(read.await),
                            Some(max_time) => task::timeout(max_time, read).await.ok(),
                        };
                        self.max_time = self
                            .max_time
                            .map(|left| left.saturating_sub(begun.elapsed()));
                        // After an error the cursor is at its end.
                        self.state = State::Ready(Fetched::end());
                        let joined = joined.ok_or_else(|| {
                            self.interrupt.cancel();
                            crate::error::timed_out()
                        })?;
                        self.state = State::Ready(task::outcome(joined)?);
                    }
                }
            }
        })
    }
}
