//! `{ getMore: id, collection: "c" }`: the next batch of a cursor. On a change stream, the command waits for events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::RawDocumentBuf;
use odm_engine::Interrupt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout_at;

use super::find::take_batch_size;
use super::{Access, Command, Run};
use crate::arguments::Arguments;
use crate::cursor::{self, Batch, OpenCursor};
use crate::dispatch::{lock_session, run_blocking, with_transaction_label};
use crate::error::{CommandError, Result, code};
use crate::namespace::Namespace;
use crate::request::{OperationNumber, RequestOptions};
use crate::server::ServerState;

pub(super) const COMMAND: Command =
    Command::new("getMore", Access::Read, Run::GetMore).in_transaction();

/// How long the command waits for events, unless the client sets `maxTimeMS`.
const DEFAULT_WAIT: Duration = Duration::from_secs(1);

/// Runs the command.
pub(crate) async fn run(
    server: &Arc<ServerState>,
    options: RequestOptions,
    mut arguments: Arguments,
    interrupt: &Interrupt,
    permit: &mut Option<OwnedSemaphorePermit>,
) -> Result<RawDocumentBuf> {
    let id = arguments.integer("getMore")?.unwrap_or(0);
    let namespace = Namespace {
        database: options.database.clone(),
        collection: arguments.collection("collection")?,
    };
    let max_documents = take_batch_size(&mut arguments)?.filter(|max| *max > 0);
    // Members of a replica set send the following arguments to each other.
    arguments.accept(&["term", "lastKnownCommittedOpTime"]);
    arguments.finish()?;
    let session = lock_session(&COMMAND, &options, server).await?;
    let transaction = match (options.number, &session) {
        (OperationNumber::Transaction { number, .. }, Some(session)) => {
            let open = session.transaction(number);
            open.map_err(with_transaction_label)?;
            Some(number)
        }
        _ => None,
    };
    let mut taken = TakenCursor::take(server, id, &namespace)?;
    if !taken.cursor()?.belongs_to(options.session, transaction) {
        let message = format!(
            "Cannot run getMore on cursor {id}, which was created in a different session or transaction"
        );
        taken.give_back();
        return Err(CommandError::new(50741, message));
    }
    let changes = taken.cursor()?.changes().is_some();
    let wait = options.max_time.filter(|_| changes).unwrap_or(DEFAULT_WAIT);
    let deadline = Instant::now() + wait;
    loop {
        let limit = options.max_time.filter(|_| !changes);
        let read = move || {
            // An error closes the cursor.
            let batch = taken.cursor()?.next_batch(max_documents)?;
            Ok((taken, batch))
        };
        let batch;
        (taken, batch) = run_blocking(server, interrupt, limit, permit, read).await?;
        // Without the check of the deadline, a stream that drops every event of busy writers would never answer.
        let is_over = batch.is_last || Instant::now() >= deadline;
        if !changes || batch.count > 0 || is_over {
            return taken.finish(batch);
        }
        // Waiting needs no permit.
        *permit = None;
        let Some(stream) = taken.cursor()?.changes() else {
            return taken.finish(batch);
        };
        if timeout_at(deadline.into(), stream.wait()).await.is_err() {
            return taken.finish(batch);
        }
    }
}

/// A cursor that a request has taken. A cursor that is neither given back nor finished is closed.
struct TakenCursor {
    server: Arc<ServerState>,
    id: i64,
    cursor: Option<OpenCursor>,
}

impl TakenCursor {
    fn take(server: &Arc<ServerState>, id: i64, namespace: &Namespace) -> Result<TakenCursor> {
        let cursor = server.cursors.take(id, namespace)?;
        Ok(TakenCursor {
            server: Arc::clone(server),
            id,
            cursor: Some(cursor),
        })
    }

    fn cursor(&mut self) -> Result<&mut OpenCursor> {
        let message = "the cursor is closed";
        self.cursor
            .as_mut()
            .ok_or_else(|| CommandError::new(code::CURSOR_NOT_FOUND, message))
    }

    /// Gives the cursor back. Returns the id if the cursor is open.
    fn give_back(mut self) -> i64 {
        let cursor = self.cursor.take();
        match cursor.is_some_and(|cursor| self.server.cursors.put_back(self.id, cursor)) {
            true => self.id,
            false => 0,
        }
    }

    /// Gives the cursor back, unless the batch is the last. Returns the reply.
    fn finish(mut self, batch: Batch) -> Result<RawDocumentBuf> {
        let cursor = self.cursor()?;
        let namespace = cursor.namespace().to_string();
        let token = cursor.resume_token();
        let id = match batch.is_last {
            true => 0,
            false => self.give_back(),
        };
        Ok(cursor::to_reply(id, &namespace, batch, false, token))
    }
}

impl Drop for TakenCursor {
    fn drop(&mut self) {
        if self.cursor.take().is_some() {
            self.server.cursors.close(self.id, None);
        }
    }
}
