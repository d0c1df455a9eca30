//! The engine's change streams in batches.

use std::future::poll_fn;

use bson::RawDocumentBuf;
use odm_engine::ChangeStream;
use tokio::{runtime::Handle, task::JoinHandle};

use super::error;
use crate::{
    Error, ErrorKind, Result,
    backend::{BoxFuture, ChangeCursor, Cursor, task::outcome},
};

/// A batch ends with the event that goes past one of these, as the batches of other cursors do.
const BATCH_EVENTS: usize = 1_000;
const BATCH_BYTES: usize = 1024 * 1024;

/// Waiting holds no thread; reading does, as it is I/O.
pub(super) struct EngineChanges {
    /// None while it is read from, and lost with a reader that panicked.
    changes: Option<ChangeStream>,
    /// A read that goes on even if nobody waits for it: the next call takes its events.
    reading: Option<JoinHandle<Batch>>,
    /// Behind the events that were handed out.
    token: RawDocumentBuf,
}

struct Batch {
    events: odm_engine::Result<Vec<RawDocumentBuf>>,
    changes: ChangeStream,
}

impl EngineChanges {
    pub(super) fn boxed(changes: ChangeStream) -> Box<dyn ChangeCursor> {
        Box::new(Self {
            token: changes.resume_token(),
            changes: Some(changes),
            reading: None,
        })
    }
}

impl Batch {
    fn read(mut changes: ChangeStream) -> Self {
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
                let batch = match &mut self.reading {
                    Some(task) => {
                        let joined = outcome(task.await);
                        self.reading = None;
                        joined?
                    }
                    None => {
                        let Some(changes) = &mut self.changes else {
                            return Err(lost());
                        };
                        if changes.is_over() {
                            return Ok(Vec::new());
                        }
                        poll_fn(|context| changes.poll_committed(context)).await;
                        let Some(changes) = self.changes.take() else {
                            return Err(lost());
                        };
                        match Handle::try_current() {
                            Ok(runtime) => {
                                let read = move || Batch::read(changes);
                                self.reading = Some(runtime.spawn_blocking(read));
                                continue;
                            }
                            Err(_) => Batch::read(changes),
                        }
                    }
                };
                self.token = batch.changes.resume_token();
                self.changes = Some(batch.changes);
                let events = batch.events.map_err(error::from_engine)?;
                if !events.is_empty() {
                    return Ok(events);
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

fn lost() -> Error {
    Error::new(
        ErrorKind::Backend,
        "an earlier read of the changes did not end: watch again, from the resume token",
    )
}
