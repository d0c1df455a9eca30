//! The driver's cursors as batches of raw documents.

use std::{
    mem,
    sync::{Arc, Weak},
    time::Duration,
};

use ::mongodb::{
    ClientSession,
    raw_batch_cursor::{RawBatch, SessionRawBatchCursor},
};
use bson::RawDocumentBuf;
use futures_util::StreamExt;

use super::{
    cancellation::{DriverCall, SessionKill, SessionKiller},
    error, transaction,
};
use crate::{
    Error, ErrorKind, Result,
    backend::{BoxFuture, Cursor},
};

/// The result of opening a read: the first documents, and the driver's cursor for the remaining documents.
pub(super) struct OpenedRead {
    first: Vec<RawDocumentBuf>,
    rest: Option<SessionRawBatchCursor>,
}

/// The size of the batches that the server sends.
#[derive(Debug, Clone, Copy)]
pub(super) enum BatchSize {
    /// The server's default: 101 documents first, then full replies. For a caller that may stop before the end.
    ServerDefault,
    /// Full replies of 16 MiB from the start. For a caller that reads all documents: most reads then take one round trip instead
    /// of two.
    FullReplies,
}

/// The size of the server's first batch by default, in documents.
const DEFAULT_FIRST_BATCH_DOCUMENTS: u64 = 101;

/// A batch size that no reply can reach, so that a reply is as full as possible.
pub(super) const UNLIMITED_BATCH_DOCUMENTS: u32 = i32::MAX.unsigned_abs();

impl BatchSize {
    /// Returns the batch size to request, or `None` for the server's default.
    pub(super) fn to_driver_size(self, limit: Option<u64>) -> Option<u32> {
        match self {
            Self::FullReplies
                if limit.is_none_or(|limit| limit > DEFAULT_FIRST_BATCH_DOCUMENTS) =>
            {
                Some(UNLIMITED_BATCH_DOCUMENTS)
            }
            _ => None,
        }
    }
}

impl OpenedRead {
    /// An empty result.
    pub(super) fn empty() -> Self {
        Self::from_documents(Vec::new())
    }

    /// A complete result, without further batches.
    pub(super) fn from_documents(documents: Vec<RawDocumentBuf>) -> Self {
        Self {
            first: documents,
            rest: None,
        }
    }

    /// Takes the first batch of a driver's cursor. Fetches a batch if the first one is empty.
    pub(super) async fn new(
        mut rest: SessionRawBatchCursor,
        session: &mut ClientSession,
    ) -> Result<Self> {
        let fetched = fetch_batch(&mut rest, session).await?;
        Ok(Self {
            first: fetched.documents,
            rest: fetched.has_more.then_some(rest),
        })
    }

    /// Converts the result to a cursor that continues in the session of the read.
    pub(super) fn in_own_session(
        self,
        session: ClientSession,
        killer: &Arc<SessionKiller>,
        max_time: Option<Duration>,
    ) -> Box<dyn Cursor> {
        let kill = SessionKill {
            killer: Arc::clone(killer),
            session: Arc::new(session.id().clone().into()),
        };
        let session = Box::new(session);
        self.into_cursor(CursorSession::Read(session, kill), max_time)
    }

    /// Converts the result to a cursor that continues in a transaction, until the end of the transaction.
    pub(super) fn in_transaction(
        self,
        slot: Weak<transaction::SessionSlot>,
        max_time: Option<Duration>,
    ) -> Box<dyn Cursor> {
        self.into_cursor(CursorSession::Transaction(slot), max_time)
    }

    fn into_cursor(self, session: CursorSession, max_time: Option<Duration>) -> Box<dyn Cursor> {
        let rest = self
            .rest
            .map(|rest| Box::new(BatchSource { rest, session }));
        Box::new(MongoCursor {
            state: MongoCursorState::Ready(self.first, rest),
            max_time,
        })
    }
}

struct FetchedBatch {
    documents: Vec<RawDocumentBuf>,
    has_more: bool,
}

/// Fetches the next documents. The result is empty only at the end of the cursor.
async fn fetch_batch(
    cursor: &mut SessionRawBatchCursor,
    session: &mut ClientSession,
) -> Result<FetchedBatch> {
    loop {
        let Some(batch) = cursor.stream(session).next().await else {
            return Ok(FetchedBatch {
                documents: Vec::new(),
                has_more: false,
            });
        };
        let fetched = parse_batch(&batch.map_err(error::from_driver)?)?;
        // Skip an empty batch before the end, because an empty batch would end the cursor of the contract.
        if !(fetched.documents.is_empty() && fetched.has_more) {
            return Ok(fetched);
        }
    }
}

fn parse_batch(batch: &RawBatch) -> Result<FetchedBatch> {
    let malformed = |error: bson::error::Error| {
        Error::new(ErrorKind::Backend, "MongoDB sent a malformed batch").with_source(error)
    };
    let mut documents = Vec::new();
    for value in batch.doc_slices().map_err(error::from_driver)? {
        if let Some(document) = value.map_err(malformed)?.as_document() {
            documents.push(document.to_owned());
        }
    }
    let cursor = batch
        .as_raw_document()
        .get_document("cursor")
        .map_err(malformed)?;
    let more = cursor.get_i64("id").map_err(malformed)? != 0;
    Ok(FetchedBatch {
        documents,
        has_more: more,
    })
}

/// The source of the next documents.
struct BatchSource {
    rest: SessionRawBatchCursor,
    session: CursorSession,
}

/// The session in which a cursor continues.
enum CursorSession {
    /// The session of a read, and the handle to cancel the read.
    Read(Box<ClientSession>, SessionKill),
    /// The session of a transaction. The handle is weak, so that a cursor does not keep a dropped transaction alive.
    Transaction(Weak<transaction::SessionSlot>),
}

impl BatchSource {
    async fn fetch_next(&mut self) -> Result<FetchedBatch> {
        match &mut self.session {
            CursorSession::Read(session, _) => fetch_batch(&mut self.rest, session).await,
            CursorSession::Transaction(slot) => {
                let slot = slot.upgrade().ok_or_else(transaction::transaction_over)?;
                let mut turn = slot.lock_session().await?;
                let fetched = fetch_batch(&mut self.rest, turn.session()).await;
                turn.end_on_error(fetched).await
            }
        }
    }

    fn session_kill(&self) -> Option<SessionKill> {
        match &self.session {
            CursorSession::Read(_, kill) => Some(kill.clone()),
            CursorSession::Transaction(_) => None,
        }
    }
}

struct MongoCursor {
    state: MongoCursorState,
    /// The time limit of the read. The server counts the time that it spends on all batches.
    max_time: Option<Duration>,
}

enum MongoCursorState {
    /// Documents to return, and the source of the next documents.
    Ready(Vec<RawDocumentBuf>, Option<Box<BatchSource>>),
    /// A running fetch, which continues without a waiting caller. The next call takes its documents. Dropping the cursor ends the
    /// fetch.
    Fetching(DriverCall<(Result<FetchedBatch>, Box<BatchSource>)>),
}

impl Cursor for MongoCursor {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move {
            if let MongoCursorState::Ready(documents, source) = &mut self.state {
                if !documents.is_empty() {
                    return Ok(mem::take(documents));
                }
                let Some(mut source) = source.take() else {
                    return Ok(Vec::new());
                };
                let kill = source.session_kill();
                let fetch = async move { (source.fetch_next().await, source) };
                self.state = MongoCursorState::Fetching(DriverCall::spawn_call(fetch, kill));
            }
            let MongoCursorState::Fetching(fetch_call) = &mut self.state else {
                return Ok(Vec::new());
            };
            let fetched = fetch_call.wait_within(self.max_time).await;
            // Set a state without await points from here on, so that a dropped future cannot leave the state half changed.
            self.state = MongoCursorState::Ready(Vec::new(), None);
            let (fetched, source) = fetched?;
            let fetched = fetched?;
            self.state = MongoCursorState::Ready(Vec::new(), fetched.has_more.then_some(source));
            Ok(fetched.documents)
        })
    }
}
