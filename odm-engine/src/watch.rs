use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use bson::{RawBson, RawDocumentBuf, Timestamp, rawdoc};

use crate::catalog::check_name;
use crate::change::{ChangeEvent, EventTime, ResumeToken};
use crate::command::{Find, find};
use crate::commit::{Committer, DatabaseState};
use crate::error::Result;
use crate::filter::Filter;

/// Options of a change stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watch {
    /// The collection to watch, which need not exist yet. `None` watches the whole database.
    pub collection: Option<String>,
    /// A filter on the event documents. An empty filter matches all events.
    pub filter: RawDocumentBuf,
    /// The starting point of the stream.
    pub from: WatchFrom,
    /// Whether events of updates include the full document.
    pub full_document: FullDocument,
}

/// The starting point of a change stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum WatchFrom {
    /// The next commit.
    #[default]
    Now,
    /// After the event with this token as its `_id`, or at the position of the stream that returned the token. MongoDB's
    /// `startAfter`.
    After(RawDocumentBuf),
    /// The first event with this `clusterTime` or a later one. MongoDB's `startAtOperationTime`.
    At(Timestamp),
}

/// Whether events of updates include the full document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FullDocument {
    /// Only the changed fields.
    #[default]
    Default,
    /// Also `fullDocument`: the document at the time when the event is read, which may be later than the update; null if the
    /// document no longer exists.
    UpdateLookup,
}

/// A stream of committed changes.
///
/// Events are documents in MongoDB's format:
///
/// | field | content |
/// |---|---|
/// | `_id` | the event's resume token |
/// | `operationType` | `insert`, `update`, `replace`, `delete`, or `drop` for a dropped collection |
/// | `clusterTime`, `wallTime` | time of the commit |
/// | `ns: { coll }` | name of the collection |
/// | `documentKey: { _id }` | `_id` of the document |
/// | `fullDocument` | for inserts and replacements |
/// | `updateDescription: { updatedFields, removedFields, truncatedArrays }` | for updates |
///
/// Events are in commit order. The events of one transaction are consecutive and share one `clusterTime`.
///
/// After its collection is dropped, a stream on one collection returns `drop` and `invalidate`, and is then
/// [over](ChangeStream::is_over). The token of `invalidate` resumes after both events, for a new collection with the same name.
/// An update by a pipeline is reported as an `update`, or as a `replace` if the description of the difference would be larger
/// than the document.
///
/// A stream reads the database's log at its own pace. It holds one event in memory and blocks no writer. A stream that is too
/// slow for the log's limits fails with [history lost](crate::Error::is_history_lost). An open stream keeps the database open.
///
/// ```
/// use std::time::Duration;
/// use bson::rawdoc;
/// use odm_engine::{Database, Watch, WatchFrom};
///
/// let database = Database::memory();
/// let orders = Watch { collection: Some("orders".to_owned()), ..Watch::default() };
/// let mut changes = database.watch(&orders)?;
///
/// database.insert("orders", vec![rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }])?.into_result()?;
/// let first = changes.next(Duration::from_secs(1))?.expect("an insert was committed");
/// assert_eq!(first.get_str("operationType")?, "insert");
/// assert_eq!(first.get_document("fullDocument")?, &*rawdoc! { "_id": 1 });
///
/// // A stored token resumes the stream from here, even in another process.
/// let token = changes.resume_token();
/// let mut changes = database.watch(&Watch { from: WatchFrom::After(token), ..orders })?;
/// let second = changes.try_next()?.expect("an insert was committed");
/// assert_eq!(second.get_document("documentKey")?, &*rawdoc! { "_id": 2 });
/// assert!(changes.try_next()?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ChangeStream {
    committer: Arc<Committer>,
    /// The stream's number among the tasks that wait for a commit.
    watcher_id: u64,
    collection: Option<String>,
    filter: Filter,
    full_document: FullDocument,
    /// Events with an earlier cluster time are skipped.
    skip_before: Option<Timestamp>,
    /// The position after the last examined event.
    position: ResumeToken,
    end: StreamEnd,
}

/// Whether the stream can return more events.
enum StreamEnd {
    /// More events may follow.
    Open,
    /// The collection was dropped at this time. The final `invalidate` event is still due.
    Dropped(EventTime),
    /// No events follow.
    Over,
}

impl ChangeStream {
    pub(crate) fn open(committer: &Arc<Committer>, watch: &Watch) -> Result<ChangeStream> {
        committer.check_open()?;
        if let Some(name) = &watch.collection {
            check_name(name)?;
        }
        let filter = Filter::parse(&watch.filter)?;
        let from = match &watch.from {
            WatchFrom::After(token) => Some(ResumeToken::from_document(token)?),
            WatchFrom::Now | WatchFrom::At(_) => None,
        };
        let state = committer.state_with_log()?;
        let (place, not_before) = match (from, &watch.from) {
            (Some(place), _) => {
                state.log.check_token(&state.view, &place)?;
                (place, None)
            }
            (None, WatchFrom::At(time)) => {
                (state.log.token_before(&state.view, *time)?, Some(*time))
            }
            (None, _) => (state.log.end_token(), None),
        };
        Ok(ChangeStream {
            committer: Arc::clone(committer),
            watcher_id: committer.watchers().register(),
            collection: watch.collection.clone(),
            filter,
            full_document: watch.full_document,
            skip_before: not_before,
            position: place,
            end: StreamEnd::Open,
        })
    }

    /// Returns the next event, or `None` if no event is committed before the timeout.
    ///
    /// # Errors
    /// See [`try_next`](ChangeStream::try_next).
    pub fn next(&mut self, timeout: Duration) -> Result<Option<RawDocumentBuf>> {
        let deadline = Instant::now().checked_add(timeout);
        let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
        loop {
            if let Some(event) = self.try_next()? {
                return Ok(Some(event));
            }
            if self.is_over() {
                return Ok(None);
            }
            while self
                .poll_committed(&mut Context::from_waker(&waker))
                .is_pending()
            {
                match deadline.map(|deadline| deadline.checked_duration_since(Instant::now())) {
                    None => thread::park(),
                    Some(Some(remaining)) if !remaining.is_zero() => {
                        thread::park_timeout(remaining)
                    }
                    Some(_) => return Ok(None),
                }
            }
        }
    }

    /// Returns the next event, or `None` if no further event is committed yet.
    ///
    /// # Errors
    /// History lost: the log dropped events that this stream had not read. I/O, damaged file. A retry returns the same error, and
    /// loses no event.
    pub fn try_next(&mut self) -> Result<Option<RawDocumentBuf>> {
        loop {
            match self.end {
                StreamEnd::Open => {}
                StreamEnd::Dropped(moment) => {
                    self.end = StreamEnd::Over;
                    let changes =
                        ChangeEvent::for_invalidate().to_document(&self.position, moment, None)?;
                    return Ok(self.filter.matches(&changes)?.then_some(changes));
                }
                StreamEnd::Over => return Ok(None),
            }
            let state = self.committer.state();
            let after = state.log.event_after(&state.view, &self.position)?;
            let Some((event, moment, place)) = after else {
                // Return the error only after all events that were committed before the store failed.
                return self.committer.failure().map_or(Ok(None), Err);
            };
            let is_requested = self
                .skip_before
                .is_none_or(|time| moment.cluster_time >= time)
                && match &self.collection {
                    Some(name) => event.collection()? == name,
                    None => true,
                };
            if is_requested {
                let looked_up = self.find_full_document(&state, &event)?;
                let changes = event.to_document(&place, moment, looked_up.as_ref())?;
                let is_wanted = self.filter.matches(&changes)?;
                self.position = place;
                if self.collection.is_some() && event.is_drop()? {
                    self.end = StreamEnd::Dropped(moment);
                }
                if is_wanted {
                    return Ok(Some(changes));
                }
            }
            self.position = place;
        }
    }

    /// Returns ready if [`try_next`](ChangeStream::try_next) has an error or an event to examine, even if the filter rejects the
    /// event. Otherwise wakes the task once that is the case.
    ///
    /// Asynchronous programs wait with this method.
    pub fn poll_committed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let watchers = self.committer.watchers();
        // Register before the check, so that no commit is missed in between.
        watchers.set_waker(self.watcher_id, context.waker());
        let state = self.committer.state();
        let is_open = matches!(self.end, StreamEnd::Open);
        if !is_open || state.log.has_next(&self.position) || self.committer.failure().is_some() {
            watchers.unregister(self.watcher_id);
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Returns whether the stream has ended because its collection was dropped. The stream returns the final events first.
    pub fn is_over(&self) -> bool {
        matches!(self.end, StreamEnd::Over)
    }

    /// Returns the stream's position in the history of the database: after the last returned event, and after the following
    /// events that the filter rejected.
    pub fn resume_token(&self) -> RawDocumentBuf {
        self.position.to_document()
    }

    /// Returns the current document of an update event if requested; null if the document no longer exists.
    fn find_full_document(
        &self,
        state: &DatabaseState,
        event: &ChangeEvent,
    ) -> Result<Option<RawBson>> {
        if self.full_document == FullDocument::Default {
            return Ok(None);
        }
        let Some(id) = event.updated_id()? else {
            return Ok(None);
        };
        let by_id = Find {
            filter: rawdoc! { "_id": { "$eq": id } },
            ..Find::default()
        };
        let mut matches = find::run_find(state.read_state(), event.collection()?, &by_id)?;
        let document = matches.next().transpose()?;
        Ok(Some(document.map_or(RawBson::Null, RawBson::Document)))
    }
}

impl Drop for ChangeStream {
    fn drop(&mut self) {
        self.committer.watchers().unregister(self.watcher_id);
    }
}

impl std::fmt::Debug for ChangeStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChangeStream")
            .field("collection", &self.collection)
            .field("place", &self.position)
            .finish_non_exhaustive()
    }
}

/// A waker that unparks a thread.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
