//! The engine's cursors in batches.

use std::{
    mem,
    time::{Duration, Instant},
};

use bson::{RawDocumentBuf, raw::CStr, rawdoc};
use odm_engine::Interrupt;

use super::{blocking::CancelOnDrop, error};
use crate::{
    Result,
    backend::{BoxFuture, Cursor},
    task::{self, Task},
};

/// The size limits of a batch. The document that exceeds a limit is the last of its batch.
///
/// A batch shares the cost of a thread switch among its documents, and bounds the memory of a cursor.
const MAX_CURSOR_BATCH_DOCUMENTS: usize = 1_000;
const MAX_CURSOR_BATCH_BYTES: usize = 1024 * 1024;

/// Documents that were read, and the cursor for the remaining documents.
pub(super) struct EngineBatch {
    documents: Vec<RawDocumentBuf>,
    rest: Option<odm_engine::Cursor>,
    /// The error that ended the read after these documents.
    failure: Option<odm_engine::Error>,
}

impl EngineBatch {
    /// Reads the first documents of a cursor. If the first read fails, the error is the result.
    pub(super) fn read_first(cursor: odm_engine::Cursor) -> odm_engine::Result<Self> {
        let fetched = Self::read_next(cursor);
        match fetched.failure {
            Some(failure) if fetched.documents.is_empty() => Err(failure),
            _ => Ok(fetched),
        }
    }

    /// The result of a read by several keys or queries. Each document gets the position of its key or query.
    pub(super) fn from_numbered_groups(
        name: &'static CStr,
        groups: Vec<Vec<RawDocumentBuf>>,
    ) -> Self {
        let numbered = (0_i32..).zip(groups);
        let documents = numbered.flat_map(|(position, documents)| {
            let wrap = move |document| rawdoc! { name: position, "document": document };
            documents.into_iter().map(wrap)
        });
        Self {
            documents: documents.collect(),
            rest: None,
            failure: None,
        }
    }

    fn at_end() -> Self {
        Self {
            documents: Vec::new(),
            rest: None,
            failure: None,
        }
    }

    fn read_next(mut cursor: odm_engine::Cursor) -> Self {
        let mut documents = Vec::new();
        let mut bytes = 0;
        let (rest, failure) = loop {
            if documents.len() >= MAX_CURSOR_BATCH_DOCUMENTS || bytes >= MAX_CURSOR_BATCH_BYTES {
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
    state: EngineCursorState,
    /// The time limit of further reads, for all of them together.
    max_time: Option<Duration>,
    /// Dropping the cursor cancels a running read.
    _cancel: CancelOnDrop,
    interrupt: Interrupt,
}

enum EngineCursorState {
    Ready(EngineBatch),
    /// A running read. If the future of the call is dropped, the next call takes the documents.
    Reading(Task<EngineBatch>),
}

impl EngineCursor {
    pub(super) fn new_boxed(first: EngineBatch, max_time: Option<Duration>) -> Box<dyn Cursor> {
        let interrupt = Interrupt::new();
        Box::new(Self {
            state: EngineCursorState::Ready(first),
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
                    EngineCursorState::Ready(fetched) => {
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
                        let read = move || interrupt.run(|| EngineBatch::read_next(rest));
                        self.state = EngineCursorState::Reading(task::spawn_blocking(read));
                    }
                    EngineCursorState::Reading(read) => {
                        let started = Instant::now();
                        let joined = match self.max_time {
                            None => Some(read.await),
                            Some(max_time) => task::timeout(max_time, read).await.ok(),
                        };
                        self.max_time = self
                            .max_time
                            .map(|remaining| remaining.saturating_sub(started.elapsed()));
                        // After an error the cursor is at its end.
                        self.state = EngineCursorState::Ready(EngineBatch::at_end());
                        let joined = joined.ok_or_else(|| {
                            self.interrupt.cancel();
                            crate::error::read_timed_out()
                        })?;
                        self.state = EngineCursorState::Ready(joined?);
                    }
                }
            }
        })
    }
}
