//! Open cursors of clients.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bson::{RawArrayBuf, RawDocumentBuf, raw::cstr};

use crate::change_stream::ChangeCursor;
use crate::error::{CommandError, Result, code};
use crate::namespace::Namespace;
use crate::session::{SESSION_TIMEOUT, SessionId};

/// The number of documents in the first batch, unless the client asks for a different number.
pub(crate) const FIRST_BATCH_DOCUMENTS: usize = 101;

/// The maximum size of the documents in a batch, in bytes. A larger document makes a batch of its own.
const MAX_BATCH_BYTES: usize = 16 << 20;

/// How long a client may leave a cursor unused, as on MongoDB. A cursor with `noCursorTimeout` has [`SESSION_TIMEOUT`].
const CURSOR_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// The maximum number of open cursors. A cursor of a query keeps the pages of its snapshot in the file.
const MAX_CURSORS: usize = 1_000;

/// A cursor between two requests.
pub(crate) struct OpenCursor {
    namespace: Namespace,
    source: CursorSource,
    /// The document that did not fit into the last batch.
    next: Option<RawDocumentBuf>,
    /// The number of documents until the limit of the query.
    remaining: Option<u64>,
    /// The session that opened the cursor, with the number of its transaction.
    session: Option<SessionId>,
    transaction: Option<i64>,
    last_use: Instant,
    timeout: Duration,
}

/// The source of the documents of a cursor.
pub(crate) enum CursorSource {
    Query(odm_engine::Cursor),
    Documents(std::vec::IntoIter<RawDocumentBuf>),
    Changes(Box<ChangeCursor>),
}

/// The documents of one reply.
pub(crate) struct Batch {
    documents: RawArrayBuf,
    pub(crate) count: usize,
    bytes: usize,
    pub(crate) is_last: bool,
}

impl OpenCursor {
    pub(crate) fn new(namespace: Namespace, source: CursorSource) -> OpenCursor {
        OpenCursor {
            namespace,
            source,
            next: None,
            remaining: None,
            session: None,
            transaction: None,
            last_use: Instant::now(),
            timeout: CURSOR_TIMEOUT,
        }
    }

    /// Sets the number of documents after which the cursor ends.
    pub(crate) fn with_limit(mut self, limit: Option<u64>) -> OpenCursor {
        self.remaining = limit;
        self
    }

    /// Sets the session, and the number of the transaction, that the cursor belongs to.
    pub(crate) fn in_session(
        mut self,
        session: Option<SessionId>,
        transaction: Option<i64>,
    ) -> OpenCursor {
        self.session = session;
        self.transaction = transaction;
        self
    }

    /// Sets whether the cursor stays open as long as an unused session. A cursor without any timeout would stay open after its
    /// client has vanished.
    pub(crate) fn with_session_timeout(mut self, has_session_timeout: bool) -> OpenCursor {
        if has_session_timeout {
            self.timeout = SESSION_TIMEOUT;
        }
        self
    }

    pub(crate) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    pub(crate) fn belongs_to(&self, session: Option<SessionId>, transaction: Option<i64>) -> bool {
        self.transaction == transaction && (transaction.is_none() || self.session == session)
    }

    /// Returns the change stream of the cursor.
    pub(crate) fn changes(&mut self) -> Option<&mut ChangeCursor> {
        match &mut self.source {
            CursorSource::Changes(changes) => Some(changes),
            CursorSource::Query(_) | CursorSource::Documents(_) => None,
        }
    }

    /// Reads the next documents, at most `max_documents` and [`MAX_BATCH_BYTES`].
    ///
    /// # Errors
    /// Errors of the engine.
    pub(crate) fn next_batch(&mut self, max_documents: Option<usize>) -> Result<Batch> {
        let mut batch = Batch::new();
        loop {
            if self.remaining == Some(0) {
                batch.is_last = true;
                return Ok(batch);
            }
            if max_documents.is_some_and(|max| batch.count >= max) {
                return Ok(batch);
            }
            let document = match self.next.take() {
                Some(document) => Some(document),
                None => self.source.next()?,
            };
            let Some(document) = document else {
                batch.is_last = self.source.is_over();
                return Ok(batch);
            };
            if let Some(document) = batch.add(document) {
                self.next = Some(document);
                return Ok(batch);
            }
            self.remaining = self.remaining.map(|remaining| remaining - 1);
        }
    }
}

impl CursorSource {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        match self {
            CursorSource::Query(cursor) => Ok(cursor.next().transpose()?),
            CursorSource::Documents(documents) => Ok(documents.next()),
            CursorSource::Changes(changes) => changes.try_next(),
        }
    }

    /// Whether no document follows, after the source has returned none.
    fn is_over(&self) -> bool {
        match self {
            CursorSource::Query(_) | CursorSource::Documents(_) => true,
            CursorSource::Changes(changes) => changes.is_over(),
        }
    }
}

impl Batch {
    pub(crate) fn new() -> Batch {
        Batch {
            documents: RawArrayBuf::new(),
            count: 0,
            bytes: 0,
            is_last: false,
        }
    }

    /// Adds a document. Returns the document if it does not fit.
    fn add(&mut self, document: RawDocumentBuf) -> Option<RawDocumentBuf> {
        let bytes = document.as_bytes().len();
        if self.count > 0 && self.bytes + bytes > MAX_BATCH_BYTES {
            return Some(document);
        }
        self.documents.push(document);
        self.count += 1;
        self.bytes += bytes;
        None
    }
}

/// The open cursors of a server.
#[derive(Default)]
pub(crate) struct Cursors {
    slots: Mutex<HashMap<i64, Slot>>,
}

enum Slot {
    Idle(Box<OpenCursor>),
    /// A request reads the cursor. The namespace is that of the cursor.
    InUse(Namespace),
}

impl Cursors {
    /// Adds a cursor, and returns its id.
    ///
    /// # Errors
    /// Too many open cursors.
    fn add(&self, cursor: OpenCursor) -> Result<i64> {
        let mut slots = self.slots();
        if slots.len() >= MAX_CURSORS {
            let message = format!(
                "the server has {MAX_CURSORS} open cursors; read cursors to the end, or close them"
            );
            return Err(CommandError::new(code::EXCEEDED_MEMORY_LIMIT, message));
        }
        loop {
            let id = i64::from_le_bytes(rand::random()) & i64::MAX;
            if id == 0 {
                continue;
            }
            if let Entry::Vacant(slot) = slots.entry(id) {
                slot.insert(Slot::Idle(Box::new(cursor)));
                return Ok(id);
            }
        }
    }

    /// Takes a cursor for a request.
    ///
    /// # Errors
    /// The cursor does not exist, is in use, or belongs to a different collection.
    pub(crate) fn take(&self, id: i64, namespace: &Namespace) -> Result<OpenCursor> {
        let mut slots = self.slots();
        let slot = slots.get_mut(&id).ok_or_else(|| cursor_not_found(id))?;
        let of_cursor = match slot {
            Slot::InUse(_) => {
                let message = format!("cursor id {id} is already in use");
                return Err(CommandError::new(code::CURSOR_IN_USE, message));
            }
            Slot::Idle(cursor) => cursor.namespace.clone(),
        };
        if of_cursor != *namespace {
            let message = format!(
                "Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace {of_cursor}"
            );
            return Err(CommandError::new(code::UNAUTHORIZED, message));
        }
        match std::mem::replace(slot, Slot::InUse(of_cursor)) {
            Slot::Idle(cursor) => Ok(*cursor),
            Slot::InUse(_) => Err(cursor_not_found(id)),
        }
    }

    /// Gives a cursor back after a request. Returns whether the cursor is open: a different request may have closed the cursor.
    pub(crate) fn put_back(&self, id: i64, mut cursor: OpenCursor) -> bool {
        cursor.last_use = Instant::now();
        match self.slots().get_mut(&id) {
            Some(slot) => {
                *slot = Slot::Idle(Box::new(cursor));
                true
            }
            None => false,
        }
    }

    /// Closes a cursor. Returns whether the cursor was open.
    pub(crate) fn close(&self, id: i64, namespace: Option<&Namespace>) -> bool {
        let mut slots = self.slots();
        let is_of = slots.get(&id).is_some_and(|slot| match slot {
            Slot::Idle(cursor) => namespace.is_none_or(|of| *of == cursor.namespace),
            Slot::InUse(of_cursor) => namespace.is_none_or(|of| of == of_cursor),
        });
        is_of && slots.remove(&id).is_some()
    }

    /// Closes the cursors of a transaction.
    pub(crate) fn close_in_transaction(&self, session: SessionId, number: i64) {
        self.slots().retain(|_, slot| match slot {
            Slot::Idle(cursor) => !cursor.belongs_to(Some(session), Some(number)),
            Slot::InUse(_) => true,
        });
    }

    /// Closes the cursors of ended sessions.
    pub(crate) fn close_in_sessions(&self, sessions: &[SessionId]) {
        self.slots().retain(|_, slot| match slot {
            Slot::Idle(cursor) => !cursor.session.is_some_and(|id| sessions.contains(&id)),
            Slot::InUse(_) => true,
        });
    }

    /// Marks cursors of sessions as used, if they have the timeout of sessions.
    pub(crate) fn refresh_in_sessions(&self, sessions: &[SessionId]) {
        for slot in self.slots().values_mut() {
            if let Slot::Idle(cursor) = slot
                && cursor.timeout == SESSION_TIMEOUT
                && cursor.session.is_some_and(|id| sessions.contains(&id))
            {
                cursor.last_use = Instant::now();
            }
        }
    }

    /// Closes the cursors that no client has used for a long time.
    pub(crate) fn expire(&self, now: Instant) {
        self.slots().retain(|_, slot| match slot {
            Slot::Idle(cursor) => {
                let unused = now.saturating_duration_since(cursor.last_use);
                unused < cursor.timeout
            }
            Slot::InUse(_) => true,
        });
    }

    /// Returns the number of open cursors.
    pub(crate) fn count(&self) -> usize {
        self.slots().len()
    }

    /// Returns the reply with the first batch of a cursor, and keeps the cursor open unless the batch is the last.
    ///
    /// # Errors
    /// Too many open cursors; errors of the engine.
    pub(crate) fn first_reply(
        &self,
        mut cursor: OpenCursor,
        batch_documents: Option<usize>,
        is_single_batch: bool,
    ) -> Result<RawDocumentBuf> {
        let max = batch_documents.unwrap_or(FIRST_BATCH_DOCUMENTS);
        let batch = cursor.next_batch(Some(max))?;
        let (namespace, token) = (cursor.namespace.to_string(), cursor.resume_token());
        let id = match batch.is_last || is_single_batch {
            true => 0,
            false => self.add(cursor)?,
        };
        Ok(to_reply(id, &namespace, batch, true, token))
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<i64, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenCursor {
    /// Returns the position of a change stream.
    pub(crate) fn resume_token(&mut self) -> Option<RawDocumentBuf> {
        self.changes().map(|changes| changes.resume_token())
    }
}

/// Returns the reply with a batch.
pub(crate) fn to_reply(
    id: i64,
    namespace: &str,
    batch: Batch,
    is_first: bool,
    resume_token: Option<RawDocumentBuf>,
) -> RawDocumentBuf {
    let mut cursor = RawDocumentBuf::new();
    let name = match is_first {
        true => cstr!("firstBatch"),
        false => cstr!("nextBatch"),
    };
    cursor.append(name, batch.documents);
    if let Some(token) = resume_token {
        cursor.append(cstr!("postBatchResumeToken"), token);
    }
    cursor.append(cstr!("id"), id);
    cursor.append(cstr!("ns"), namespace);
    let mut reply = RawDocumentBuf::new();
    reply.append(cstr!("cursor"), cursor);
    reply
}

fn cursor_not_found(id: i64) -> CommandError {
    let message = format!("cursor id {id} not found");
    CommandError::new(code::CURSOR_NOT_FOUND, message)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use odm_engine::{Database, Find};

    use super::*;

    fn namespace(collection: &str) -> Namespace {
        Namespace {
            database: "d".to_owned(),
            collection: collection.to_owned(),
        }
    }

    fn cursor(documents: i32, text_bytes: usize) -> OpenCursor {
        let database = Database::memory();
        let text = "x".repeat(text_bytes);
        let documents = (0..documents).map(|id| rawdoc! { "_id": id, "text": &*text });
        let inserted = database.insert("c", documents.collect()).unwrap();
        inserted.into_result().unwrap();
        let found = database.find("c", &Find::default()).unwrap();
        OpenCursor::new(namespace("c"), CursorSource::Query(found))
    }

    #[test]
    fn a_batch_ends_at_its_number_of_documents_and_at_the_limit() {
        let mut three = cursor(3, 1);
        let batch = three.next_batch(Some(3)).unwrap();
        assert_eq!((batch.count, batch.is_last), (3, false));
        let batch = three.next_batch(None).unwrap();
        assert_eq!((batch.count, batch.is_last), (0, true));
        let mut limited = cursor(5, 1).with_limit(Some(2));
        let batch = limited.next_batch(Some(101)).unwrap();
        assert_eq!((batch.count, batch.is_last), (2, true));
    }

    #[test]
    fn a_batch_has_a_maximum_size() {
        let mut large = cursor(5, 7 << 20);
        let counts = std::iter::from_fn(|| {
            let batch = large.next_batch(None).unwrap();
            (batch.count > 0).then_some(batch.count)
        });
        let counts: Vec<_> = counts.collect();
        assert_eq!(counts, [2, 2, 1]);
    }

    #[test]
    fn a_cursor_is_used_by_one_request_and_closes() {
        let cursors = Cursors::default();
        let id = cursors.add(cursor(3, 1)).unwrap();
        let code_of = |result: Result<OpenCursor>| result.map(|_| ()).unwrap_err().code();
        assert_eq!(
            code_of(cursors.take(id, &namespace("other"))),
            code::UNAUTHORIZED
        );
        let taken = cursors.take(id, &namespace("c")).unwrap();
        assert_eq!(
            code_of(cursors.take(id, &namespace("c"))),
            code::CURSOR_IN_USE
        );
        assert!(cursors.put_back(id, taken));
        let taken = cursors.take(id, &namespace("c")).unwrap();
        assert!(!cursors.close(id, Some(&namespace("other"))));
        assert!(cursors.close(id, Some(&namespace("c"))));
        assert!(!cursors.put_back(id, taken));
        assert_eq!(
            code_of(cursors.take(id, &namespace("c"))),
            code::CURSOR_NOT_FOUND
        );
    }

    #[test]
    fn cursors_are_bounded_and_expire() {
        let cursors = Cursors::default();
        for _ in 0..MAX_CURSORS {
            cursors.add(cursor(1, 1)).unwrap();
        }
        let error = cursors.add(cursor(1, 1)).unwrap_err();
        assert_eq!(error.code(), code::EXCEEDED_MEMORY_LIMIT);
        cursors.expire(Instant::now() + CURSOR_TIMEOUT + Duration::from_secs(1));
        assert_eq!(cursors.count(), 0);
        cursors
            .add(cursor(1, 1).with_session_timeout(true))
            .unwrap();
        cursors.expire(Instant::now() + CURSOR_TIMEOUT * 2);
        assert_eq!(cursors.count(), 1);
        cursors.expire(Instant::now() + SESSION_TIMEOUT + Duration::from_secs(1));
        assert_eq!(cursors.count(), 0);
    }

    #[test]
    fn a_refreshed_session_keeps_its_cursors_with_the_session_timeout() {
        let cursors = Cursors::default();
        let sessions = [SessionId([1; 16]), SessionId([2; 16])];
        for session in sessions {
            let cursor = cursor(1, 1).in_session(Some(session), None);
            cursors.add(cursor.with_session_timeout(true)).unwrap();
        }
        let unused_since = Instant::now();
        std::thread::sleep(Duration::from_millis(2));
        cursors.refresh_in_sessions(&sessions[..1]);
        cursors.expire(unused_since + SESSION_TIMEOUT);
        assert_eq!(cursors.count(), 1);
        cursors.close_in_sessions(&sessions[..1]);
        assert_eq!(cursors.count(), 0);
    }

    #[test]
    fn the_end_of_a_transaction_closes_its_cursors() {
        let cursors = Cursors::default();
        let session = SessionId([1; 16]);
        let of_transaction = cursor(1, 1).in_session(Some(session), Some(4));
        cursors.add(of_transaction).unwrap();
        cursors
            .add(cursor(1, 1).in_session(Some(session), None))
            .unwrap();
        cursors.close_in_transaction(session, 5);
        assert_eq!(cursors.count(), 2);
        cursors.close_in_transaction(session, 4);
        assert_eq!(cursors.count(), 1);
        cursors.close_in_sessions(&[session]);
        assert_eq!(cursors.count(), 0);
    }
}
