//! The engine's change streams in batches.

use std::{future::poll_fn, mem};

use bson::RawDocumentBuf;
use odm_engine::ChangeStream;

use super::error;
use crate::{
    Result,
    backend::{BoxFuture, ChangeCursor, Cursor},
    session::task::{self, Task},
};

/// The size limits of a batch, as for cursors. The event that exceeds a limit is the last of its batch.
const MAX_BATCH_EVENTS: usize = 1_000;
const MAX_EVENT_BATCH_BYTES: usize = 1024 * 1024;

/// A change stream of the engine. The wait for an event occupies no thread. The read does, because reading is I/O.
pub(super) struct EngineChangeCursor {
    state: EngineChangeState,
    /// The resume token after the last returned event.
    token: RawDocumentBuf,
}

enum EngineChangeState {
    /// Waits for a commit.
    Waiting(Box<ChangeStream>),
    /// A running read. If the future of the call is dropped, the next call takes the events.
    Reading(Task<EngineEventBatch>),
    /// The stream has ended after an error, or after a panic of the reader.
    Over,
}

struct EngineEventBatch {
    events: odm_engine::Result<Vec<RawDocumentBuf>>,
    changes: Box<ChangeStream>,
}

impl EngineChangeCursor {
    pub(super) fn new_boxed(changes: ChangeStream) -> Box<dyn ChangeCursor> {
        Box::new(Self {
            token: changes.resume_token(),
            state: EngineChangeState::Waiting(Box::new(changes)),
        })
    }
}

impl EngineEventBatch {
    fn read_events(mut changes: Box<ChangeStream>) -> Self {
        let mut events = Vec::new();
        let mut bytes = 0;
        while events.len() < MAX_BATCH_EVENTS && bytes < MAX_EVENT_BATCH_BYTES {
            match changes.try_next() {
                Ok(None) => break,
                Ok(Some(event)) => {
                    bytes += event.as_bytes().len();
                    events.push(event);
                }
                // Return the events before the error first. The next read fails with the same error.
                Err(_) if !events.is_empty() => break,
                Err(failure) => {
                    return Self {
                        events: Err(failure),
                        changes,
                    };
                }
            }
        }
        Self {
            events: Ok(events),
            changes,
        }
    }
}

impl Cursor for EngineChangeCursor {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move {
            loop {
                match &mut self.state {
                    EngineChangeState::Over => return Ok(Vec::new()),
                    EngineChangeState::Waiting(changes) => {
                        if changes.is_over() {
                            return Ok(Vec::new());
                        }
                        poll_fn(|context| changes.poll_committed(context)).await;
                        // No await follows until the state is set, so a dropped future loses no events.
                        let waiting = mem::replace(&mut self.state, EngineChangeState::Over);
                        if let EngineChangeState::Waiting(changes) = waiting {
                            let read = task::spawn_blocking(move || {
                                EngineEventBatch::read_events(changes)
                            });
                            self.state = EngineChangeState::Reading(read);
                        }
                    }
                    EngineChangeState::Reading(read) => {
                        let joined = read.await;
                        self.state = EngineChangeState::Over;
                        let batch = joined?;
                        self.token = batch.changes.resume_token();
                        let events = batch.events.map_err(error::from_engine)?;
                        self.state = EngineChangeState::Waiting(batch.changes);
                        if !events.is_empty() {
                            return Ok(events);
                        }
                    }
                }
            }
        })
    }
}

impl ChangeCursor for EngineChangeCursor {
    fn resume_token(&self) -> RawDocumentBuf {
        self.token.clone()
    }
}
