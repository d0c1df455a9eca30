//! The engine's cursors in batches.

use std::{
    mem,
    time::{Duration, Instant},
};

use bson::{RawDocumentBuf, raw::CStr, rawdoc};
use odm_engine::{Interrupt, brief_time_left};

use super::{
    blocking::{self, CancelOnDrop, MIN_TIME_OF_BATCH},
    error,
};
use crate::{
    Result,
    backend::{BoxFuture, Cursor},
    session::task::{self, Task},
};

/// The size limits of a batch. The document that exceeds a limit is the last of its batch.
///
/// A batch shares the cost of a thread switch among its documents, and bounds the memory of a cursor.
const MAX_CURSOR_BATCH_DOCUMENTS: usize = 1_000;
const MAX_CURSOR_BATCH_BYTES: usize = 1024 * 1024;

/// How many documents a batch reads between two looks at the clock, after the first documents.
const DOCUMENTS_PER_TIME_CHECK: usize = 8;

/// Documents that were read, and the cursor for the remaining documents.
#[derive(Default)]
pub(super) struct EngineBatch {
    documents: Vec<RawDocumentBuf>,
    bytes: usize,
    rest: Option<odm_engine::Cursor>,
    /// The error that ended the read after these documents.
    failure: Option<odm_engine::Error>,
    /// Whether the time on the thread of the caller ended the read.
    is_partial: bool,
}

impl EngineBatch {
    /// Reads the first documents of a cursor. If the first read fails, the error is the result. If the read would block, the
    /// documents are read again on another thread, so they are dropped.
    pub(super) fn read_first(cursor: odm_engine::Cursor) -> odm_engine::Result<Self> {
        let fetched = Self::read_next(cursor);
        match fetched.failure {
            Some(failure) if fetched.documents.is_empty() || failure.is_would_block() => {
                Err(failure)
            }
            _ => Ok(fetched),
        }
    }

    /// Reads the remaining documents of a partial batch, on a thread for blocking work.
    pub(super) async fn complete(self, max_time: Option<Duration>) -> Result<Self> {
        if !self.is_partial {
            return Ok(self);
        }
        blocking::run_interruptible(max_time, move || self.fill()).await
    }

    /// Returns the documents if they are all documents of the cursor. Returns the batch otherwise.
    pub(super) fn into_all(self) -> std::result::Result<Vec<RawDocumentBuf>, Self> {
        match self.rest.is_none() && self.failure.is_none() {
            true => Ok(self.documents),
            false => Err(self),
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
            ..Self::default()
        }
    }

    fn read_next(cursor: odm_engine::Cursor) -> Self {
        let empty = Self {
            rest: Some(cursor),
            ..Self::default()
        };
        empty.fill()
    }

    /// Reads documents until the batch is full, or until the time on the thread of the caller ends.
    fn fill(mut self) -> Self {
        self.is_partial = false;
        while let Some(cursor) = &mut self.rest {
            if self.documents.len() >= MAX_CURSOR_BATCH_DOCUMENTS
                || self.bytes >= MAX_CURSOR_BATCH_BYTES
            {
                break;
            }
            if is_time_checked(self.documents.len())
                && brief_time_left().is_some_and(|left| left < MIN_TIME_OF_BATCH)
            {
                self.is_partial = true;
                break;
            }
            match cursor.next() {
                Some(Ok(document)) => {
                    self.bytes += document.as_bytes().len();
                    self.documents.push(document);
                }
                end => {
                    self.failure = end.and_then(Result::err);
                    self.rest = None;
                }
            }
        }
        self
    }
}

/// Whether to look at the clock after this number of documents: often at the beginning, and then every few documents.
fn is_time_checked(documents: usize) -> bool {
    documents.is_power_of_two() || documents.is_multiple_of(DOCUMENTS_PER_TIME_CHECK)
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
                        self.state = EngineCursorState::Ready(EngineBatch::default());
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
