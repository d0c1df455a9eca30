//! The engine's cursors in batches.

use std::mem;

use bson::{RawDocumentBuf, raw::CStr, rawdoc};
use odm_engine::Interrupt;
use tokio::{runtime::Handle, task::JoinHandle};

use super::{error, work::CancelOnDrop};
use crate::{
    Result,
    backend::{BoxFuture, Cursor, task::outcome},
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
    /// A read that is under way ends when the cursor is dropped.
    _cancel: CancelOnDrop,
    interrupt: Interrupt,
}

enum State {
    Ready(Fetched),
    /// A read that goes on even if nobody waits for it: the next call takes its documents.
    Reading(JoinHandle<Fetched>),
}

impl EngineCursor {
    pub(super) fn boxed(first: Fetched) -> Box<dyn Cursor> {
        let interrupt = Interrupt::new();
        Box::new(Self {
            state: State::Ready(first),
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
                        self.state = match Handle::try_current() {
                            Ok(runtime) => {
                                let read = move || interrupt.run(|| Fetched::next(rest));
                                State::Reading(runtime.spawn_blocking(read))
                            }
                            Err(_) => State::Ready(Fetched::next(rest)),
                        };
                    }
                    State::Reading(task) => {
                        let joined = outcome(task.await);
                        let end = Fetched {
                            documents: Vec::new(),
                            rest: None,
                            failure: None,
                        };
                        self.state = State::Ready(end);
                        self.state = State::Ready(joined?);
                    }
                }
            }
        })
    }
}
