use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use bson::{RawBson, RawDocumentBuf, Timestamp, rawdoc};

use crate::catalog::check_name;
use crate::change::{Event, Moment, Token};
use crate::command::{Find, find};
use crate::commit::{Committer, State};
use crate::error::Result;
use crate::filter::Filter;

/// What to watch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watch {
    /// One collection, which need not exist yet; the whole database if `None`.
    pub collection: Option<String>,
    /// What the events must match, as documents; empty for all.
    pub filter: RawDocumentBuf,
    /// Where to start.
    pub from: WatchFrom,
    /// What the events of updates hold beside the changed fields.
    pub full_document: FullDocument,
}

/// Where in the history of a database watching starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum WatchFrom {
    /// With what is committed from now on.
    #[default]
    Now,
    /// Behind the event that has this token as its `_id`, or where a stream was that has given it: MongoDB's
    /// `startAfter`.
    After(RawDocumentBuf),
    /// With the first event whose `clusterTime` is this or later: MongoDB's `startAtOperationTime`.
    At(Timestamp),
}

/// What the events of updates hold beside the changed fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FullDocument {
    /// Nothing.
    #[default]
    Default,
    /// `fullDocument`: the document as it is when the event is read, which may be later than the update; null if it is
    /// gone by then.
    UpdateLookup,
}

/// What is committed to a database, event by event.
///
/// An event is a document of MongoDB's form: `_id` (its token), `operationType` (`insert`, `update`, `replace`,
/// `delete`, and for a collection that ends `drop`), `clusterTime`, `wallTime`, `ns: { coll }`, `documentKey: { _id }`, of inserts and replacements
/// `fullDocument`, of updates `updateDescription: { updatedFields, removedFields, truncatedArrays }`. Events come in the
/// order of the commits, those of one transaction next to each other and with one `clusterTime`.
///
/// A stream of one collection that is dropped gives `drop`, then `invalidate`, and is [over](ChangeStream::is_over). The
/// token leads on behind both, to what becomes of another collection with that name. An update by a pipeline is told as
/// `replace`; MongoDB tells it as `update` where that takes less room.
///
/// A stream reads the log of the database at its own pace. It holds one event in memory and holds up nobody; if it is so
/// slow that the log does not have its next event any more, it fails with [history
/// lost](crate::Error::is_history_lost). It keeps the database open.
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
/// database.insert("orders", vec![rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }])?.all()?;
/// let first = changes.next(Duration::from_secs(1))?.expect("an insert was committed");
/// assert_eq!(first.get_str("operationType")?, "insert");
/// assert_eq!(first.get_document("fullDocument")?, &*rawdoc! { "_id": 1 });
///
/// // Kept somewhere safe, it leads on from here, also in another process.
/// let token = changes.resume_token();
/// let mut changes = database.watch(&Watch { from: WatchFrom::After(token), ..orders })?;
/// let second = changes.try_next()?.expect("an insert was committed");
/// assert_eq!(second.get_document("documentKey")?, &*rawdoc! { "_id": 2 });
/// assert!(changes.try_next()?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ChangeStream {
    committer: Arc<Committer>,
    /// Among those who wait for a commit.
    waiting_as: u64,
    collection: Option<String>,
    filter: Filter,
    full_document: FullDocument,
    /// Events before that time are passed over.
    not_before: Option<Timestamp>,
    /// Behind the last event that was looked at.
    place: Token,
    end: End,
}

/// Whether there is more to come.
enum End {
    /// There may be.
    Open,
    /// The collection has been dropped, at this moment, which is still to be told.
    Dropped(Moment),
    /// There is not.
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
            WatchFrom::After(token) => Some(Token::decode(token)?),
            WatchFrom::Now | WatchFrom::At(_) => None,
        };
        let state = committer.with_log()?;
        let (place, not_before) = match (from, &watch.from) {
            (Some(place), _) => {
                state.log.check(&state.view, &place)?;
                (place, None)
            }
            (None, WatchFrom::At(time)) => (state.log.before(&state.view, *time)?, Some(*time)),
            (None, _) => (state.log.end(), None),
        };
        Ok(ChangeStream {
            committer: Arc::clone(committer),
            waiting_as: committer.watchers().register(),
            collection: watch.collection.clone(),
            filter,
            full_document: watch.full_document,
            not_before,
            place,
            end: End::Open,
        })
    }

    /// The next event, or `None` if none is committed before the timeout is over.
    ///
    /// # Errors
    /// As [`try_next`](ChangeStream::try_next).
    pub fn next(&mut self, timeout: Duration) -> Result<Option<RawDocumentBuf>> {
        let deadline = Instant::now().checked_add(timeout);
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
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
                    Some(Some(left)) if !left.is_zero() => thread::park_timeout(left),
                    Some(_) => return Ok(None),
                }
            }
        }
    }

    /// The next event, or `None` if none is committed yet.
    ///
    /// # Errors
    /// History lost: events have been dropped from the log that this has not read. I/O, damaged file. The same error
    /// comes again, and no event is lost by it.
    pub fn try_next(&mut self) -> Result<Option<RawDocumentBuf>> {
        loop {
            match self.end {
                End::Open => {}
                End::Dropped(moment) => {
                    self.end = End::Over;
                    let shown = Event::invalidate().show(&self.place, moment, None)?;
                    return Ok(self.filter.matches(&shown)?.then_some(shown));
                }
                End::Over => return Ok(None),
            }
            let state = self.committer.state();
            let after = state.log.after(&state.view, &self.place)?;
            let Some((event, moment, place)) = after else {
                // What was committed before the store failed comes first.
                return self.committer.failure().map_or(Ok(None), Err);
            };
            let is_asked_for = self.not_before.is_none_or(|time| moment.cluster >= time)
                && match &self.collection {
                    Some(name) => event.collection()? == name,
                    None => true,
                };
            if is_asked_for {
                let looked_up = self.look_up(&state, &event)?;
                let shown = event.show(&place, moment, looked_up.as_ref())?;
                let is_wanted = self.filter.matches(&shown)?;
                self.place = place;
                if self.collection.is_some() && event.is_drop()? {
                    self.end = End::Dropped(moment);
                }
                if is_wanted {
                    return Ok(Some(shown));
                }
            }
            self.place = place;
        }
    }

    /// Whether [`try_next`](ChangeStream::try_next) has something to look at: an event, which the filter may not want,
    /// or an error. If not, the task is woken once it has.
    ///
    /// This is what an asynchronous program waits with.
    pub fn poll_committed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let watchers = self.committer.watchers();
        // Before looking, so that no commit falls in between.
        watchers.wait(self.waiting_as, context.waker());
        let state = self.committer.state();
        let is_open = matches!(self.end, End::Open);
        if !is_open || state.log.goes_on(&self.place) || self.committer.failure().is_some() {
            watchers.leave(self.waiting_as);
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Whether there is nothing more to come, because the collection has been dropped and that has been told.
    pub fn is_over(&self) -> bool {
        matches!(self.end, End::Over)
    }

    /// Where this is in the history of the database: behind the last event that it has given, and behind those after it
    /// that the filter did not want.
    pub fn resume_token(&self) -> RawDocumentBuf {
        self.place.encode()
    }

    /// The document of an update as it is in `state`, where that is asked for; null if it is gone.
    fn look_up(&self, state: &State, event: &Event) -> Result<Option<RawBson>> {
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
        let mut found = find::run(state.reading(), event.collection()?, &by_id)?;
        let document = found.next().transpose()?;
        Ok(Some(document.map_or(RawBson::Null, RawBson::Document)))
    }
}

impl Drop for ChangeStream {
    fn drop(&mut self) {
        self.committer.watchers().leave(self.waiting_as);
    }
}

impl std::fmt::Debug for ChangeStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChangeStream")
            .field("collection", &self.collection)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
