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
    error,
    read::{Kill, Killer, Running},
    transaction,
};
use crate::{
    Error, ErrorKind, Result,
    backend::{BoxFuture, Cursor},
};

/// What a read answered: the first documents, and what fetches the others if there are any.
pub(super) struct Opened {
    first: Vec<RawDocumentBuf>,
    rest: Option<SessionRawBatchCursor>,
}

/// How much the server sends at once.
#[derive(Debug, Clone, Copy)]
pub(super) enum Batches {
    /// 101 documents first and then what fits in a reply: for whoever may stop before the end.
    Usual,
    /// What fits in a reply, 16 MiB, from the first one on: for whoever wants all. Most reads are one round trip then, not two.
    Full,
}

/// How many documents the server sends first, if nobody says anything.
const FIRST: u64 = 101;

/// More documents than fit in a reply.
pub(super) const FULL_BATCH: u32 = i32::MAX.unsigned_abs();

impl Batches {
    /// The size of a batch to ask for.
    pub(super) fn size(self, limit: Option<u64>) -> Option<u32> {
        match self {
            Self::Full if limit.is_none_or(|limit| limit > FIRST) => Some(FULL_BATCH),
            _ => None,
        }
    }
}

impl Opened {
    /// Nothing found.
    pub(super) fn empty() -> Self {
        Self::of(Vec::new())
    }

    /// All that was found.
    pub(super) fn of(documents: Vec<RawDocumentBuf>) -> Self {
        Self {
            first: documents,
            rest: None,
        }
    }

    /// Takes the first documents, which the driver has already, or fetches some.
    pub(super) async fn new(
        mut rest: SessionRawBatchCursor,
        session: &mut ClientSession,
    ) -> Result<Self> {
        let fetched = fetch(&mut rest, session).await?;
        Ok(Self {
            first: fetched.documents,
            rest: fetched.more.then_some(rest),
        })
    }

    /// As a cursor that goes on in the session of the read.
    pub(super) fn in_own_session(
        self,
        session: ClientSession,
        killer: &Arc<Killer>,
        max_time: Option<Duration>,
    ) -> Box<dyn Cursor> {
        let kill = Kill {
            killer: Arc::clone(killer),
            session: Arc::new(session.id().clone().into()),
        };
        let session = Box::new(session);
        self.cursor(SessionOf::Read(session, kill), max_time)
    }

    /// As a cursor that goes on in the transaction as long as that lives.
    pub(super) fn in_transaction(
        self,
        slot: Weak<transaction::Slot>,
        max_time: Option<Duration>,
    ) -> Box<dyn Cursor> {
        self.cursor(SessionOf::Transaction(slot), max_time)
    }

    fn cursor(self, session: SessionOf, max_time: Option<Duration>) -> Box<dyn Cursor> {
        let rest = self.rest.map(|rest| Box::new(Source { rest, session }));
        Box::new(MongoCursor {
            state: State::Ready(self.first, rest),
            max_time,
        })
    }
}

struct Fetched {
    documents: Vec<RawDocumentBuf>,
    more: bool,
}

/// The next documents; none only at the end.
async fn fetch(cursor: &mut SessionRawBatchCursor, session: &mut ClientSession) -> Result<Fetched> {
    loop {
        let Some(batch) = cursor.stream(session).next().await else {
            return Ok(Fetched {
                documents: Vec::new(),
                more: false,
            });
        };
        let fetched = read(&batch.map_err(error::from_driver)?)?;
        // A server may answer with an empty batch before the end.
        if !(fetched.documents.is_empty() && fetched.more) {
            return Ok(fetched);
        }
    }
}

fn read(batch: &RawBatch) -> Result<Fetched> {
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
    Ok(Fetched { documents, more })
}

/// Where further documents come from.
struct Source {
    rest: SessionRawBatchCursor,
    session: SessionOf,
}

/// The session that a cursor goes on in.
enum SessionOf {
    /// That of the read, and how it is ended.
    Read(Box<ClientSession>, Kill),
    /// That of a transaction. Weak, so that a cursor does not keep a transaction alive that was dropped.
    Transaction(Weak<transaction::Slot>),
}

impl Source {
    async fn fetch(&mut self) -> Result<Fetched> {
        match &mut self.session {
            SessionOf::Read(session, _) => fetch(&mut self.rest, session).await,
            SessionOf::Transaction(slot) => {
                let slot = slot.upgrade().ok_or_else(transaction::over)?;
                let mut turn = slot.turn().await?;
                let fetched = fetch(&mut self.rest, turn.session()).await;
                turn.settle(fetched).await
            }
        }
    }

    fn kill(&self) -> Option<Kill> {
        match &self.session {
            SessionOf::Read(_, kill) => Some(kill.clone()),
            SessionOf::Transaction(_) => None,
        }
    }
}

struct MongoCursor {
    state: State,
    /// The time limit of the read. The server counts the time that it spends on all batches.
    max_time: Option<Duration>,
}

enum State {
    /// Documents to hand out, and where the next come from.
    Ready(Vec<RawDocumentBuf>, Option<Box<Source>>),
    /// A fetch that goes on even if nobody waits for it: the next call takes its documents. It ends with the cursor.
    Fetching(Running<(Result<Fetched>, Box<Source>)>),
}

impl Cursor for MongoCursor {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move {
            if let State::Ready(documents, source) = &mut self.state {
                if !documents.is_empty() {
                    return Ok(mem::take(documents));
                }
                let Some(mut source) = source.take() else {
                    return Ok(Vec::new());
                };
                let kill = source.kill();
                let fetch = async move { (source.fetch().await, source) };
                self.state = State::Fetching(Running::start(fetch, kill));
            }
            let State::Fetching(running) = &mut self.state else {
                return Ok(Vec::new());
            };
            let fetched = running.wait(self.max_time).await;
            // From here on nothing waits, so the state cannot be left behind half changed.
            self.state = State::Ready(Vec::new(), None);
            let (fetched, source) = fetched?;
            let fetched = fetched?;
            self.state = State::Ready(Vec::new(), fetched.more.then_some(source));
            Ok(fetched.documents)
        })
    }
}
