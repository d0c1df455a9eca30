//! The engine's change streams in batches.

use std::{future::poll_fn, mem};

use bson::RawDocumentBuf;
use odm_engine::ChangeStream;
use tokio::task::JoinHandle;

use super::error;
use crate::{
    Result,
    backend::{BoxFuture, ChangeCursor, Cursor},
    task,
};

/// A batch ends with the event that goes past one of these, as the batches of other cursors do.
const BATCH_EVENTS: usize = 1_000;
const BATCH_BYTES: usize = 1024 * 1024;

/// Waiting holds no thread; reading does, as it is I/O.
pub(super) struct EngineChanges {
    state: State,
    /// Behind the events that were handed out.
    token: RawDocumentBuf,
}

enum State {
    /// Until something is committed.
    Waiting(Box<ChangeStream>),
    /// A read under way. If the future of the call is dropped, the next call takes the events.
    Reading(JoinHandle<Batch>),
    /// An error has ended it, or a reader that panicked.
    Over,
}

struct Batch {
    events: odm_engine::Result<Vec<RawDocumentBuf>>,
    changes: Box<ChangeStream>,
}

impl EngineChanges {
    pub(super) fn boxed(changes: ChangeStream) -> Box<dyn ChangeCursor> {
        Box::new(Self {
            token: changes.resume_token(),
            state: State::Waiting(Box::new(changes)),
        })
    }
}

impl Batch {
    fn read(mut changes: Box<ChangeStream>) -> Self {
        let mut events = Vec::new();
        let mut bytes = 0;
        while events.len() < BATCH_EVENTS && bytes < BATCH_BYTES {
            match changes.try_next() {
                Ok(None) => break,
                Ok(Some(event)) => {
                    bytes += event.as_bytes().len();
                    events.push(event);
                }
                // Behind some events it comes again when those have been handed out.
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

impl Cursor for EngineChanges {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move {
            loop {
                match &mut self.state {
                    State::Over => return Ok(Vec::new()),
                    State::Waiting(changes) => {
                        if changes.is_over() {
                            return Ok(Vec::new());
                        }
                        poll_fn(|context| changes.poll_committed(context)).await;
                        // From here on nothing is waited for, so nothing is lost.
                        let waiting = mem::replace(&mut self.state, State::Over);
                        if let State::Waiting(changes) = waiting {
                            let read = task::spawn_blocking(move || Batch::read(changes));
                            self.state = State::Reading(read);
                        }
                    }
                    State::Reading(read) => {
                        let joined = task::outcome(read.await);
                        self.state = State::Over;
                        let batch = joined?;
                        self.token = batch.changes.resume_token();
                        let events = batch.events.map_err(error::from_engine)?;
                        self.state = State::Waiting(batch.changes);
                        if !events.is_empty() {
                            return Ok(events);
                        }
                    }
                }
            }
        })
    }
}

impl ChangeCursor for EngineChanges {
    fn resume_token(&self) -> RawDocumentBuf {
        self.token.clone()
    }
}
