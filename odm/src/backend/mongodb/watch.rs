//! Change streams.
//!
//! A task follows the stream of the driver and sends the events through a channel. The driver resumes the stream after the loss
//! of a connection or of a primary. The task ends within [`MAX_AWAIT_TIME`] after the receiver is dropped.
//!
//! An event can be larger than the 16 MiB of a reply: for example an update that sets 9 MiB, with the whole document of 9 MiB. A
//! server with `$changeStreamSplitLargeEvent` (7.0, and 6.0 from 6.0.9 on) sends the event in fragments, which this module joins.
//! On an older server the event is an error, and the stream continues after the event: [`StreamFollower::skip_large_event`].

mod fragments;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ::mongodb::{
    Database,
    action::Action,
    bson::{Bson, Document, Timestamp, doc},
    change_stream::{ChangeStream, event::ResumeToken},
    options::{FullDocumentType, SelectionCriteria},
};
use bson::{RawDocument, RawDocumentBuf};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use fragments::EventFragments;

use super::{error, to_driver_document};
use crate::{
    Error, ErrorKind, Result,
    backend::{
        BoxFuture, ChangeCursor, Cursor,
        operation::{FullDocument, WatchFrom, WatchOperation},
    },
    session::task,
};

/// The time that the server waits for an event before it sends an empty batch.
const MAX_AWAIT_TIME: Duration = Duration::from_secs(1);

/// The number of messages that wait in the channel.
const MAX_QUEUED_MESSAGES: usize = 32;

/// MongoDB's code for a resume token without data.
const INVALID_TOKEN_CODE: i32 = 40647;

/// MongoDB's code for an unknown stage.
const UNKNOWN_STAGE_CODE: i32 = 40324;

/// MongoDB's code for a document that exceeds the size of a reply.
const EVENT_TOO_LARGE_CODE: i32 = 10334;

/// The stage that splits events which are too large for one reply. MongoDB requires the last position in the pipeline.
const SPLIT_STAGE: &str = "$changeStreamSplitLargeEvent";

/// The database and options from which change streams are opened.
#[derive(Clone)]
pub(super) struct WatchSource {
    pub(super) database: Database,
    /// The read preference of the URL. Any member returns only events that a majority has.
    pub(super) reads: Option<SelectionCriteria>,
    /// Whether the server has [`SPLIT_STAGE`]: assumed until the server rejects the stage.
    pub(super) may_split_events: Arc<AtomicBool>,
}

/// Opens a change stream: [`Backend::watch`](crate::backend::Backend::watch).
pub(super) async fn open_watch(
    source: WatchSource,
    mut watch: WatchOperation,
) -> Result<Box<dyn ChangeCursor>> {
    let stream = start_stream(&source, &mut watch).await;
    let stream = stream.map_err(|error| match &watch.collection {
        Some(name) => error.with_collection(&**name),
        None => error,
    })?;
    let first = stream.resume_token();
    let first = first.ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "this MongoDB version sends no resume token at the start of a change stream: use MongoDB 4.2 or later",
        )
    })?;
    let token = token_from_driver(&first)?;
    let (sender, receiver) = channel(MAX_QUEUED_MESSAGES);
    let follower = StreamFollower {
        source,
        watch,
        stream,
        fragments: EventFragments::default(),
        last_token: token.clone(),
        single_reads_left: None,
    };
    // No caller waits for the task: it sends the error that ends it through the channel.
    drop(task::spawn(follower.run_follower(sender)));
    Ok(Box::new(MongoChangeCursor {
        messages: receiver,
        ready: VecDeque::new(),
        token,
        is_over: false,
    }))
}

async fn start_stream(
    source: &WatchSource,
    watch: &mut WatchOperation,
) -> Result<ChangeStream<RawDocumentBuf>> {
    if watch.from == WatchFrom::Now
        && let Some(time) = committed_time(&source.database, watch.collection.as_deref()).await?
    {
        watch.from = WatchFrom::At(next_tick(time));
    }
    open_stream(source, watch, EventReadMode::Whole).await
}

/// Returns the time of the last write that a majority has. Returns `None` for a server without a replica set.
///
/// By default, MongoDB starts a stream after the newest timestamp of a write. At that moment, a concurrent write with an earlier
/// timestamp may not be visible yet: the stream would miss the write, and so would a read right after the start. All writes up to
/// the time of a majority are visible.
async fn committed_time(
    database: &Database,
    collection: Option<&str>,
) -> Result<Option<Timestamp>> {
    // The collection does not matter, and may be missing. The user may read the watched collection.
    let read = doc! {
        "find": collection.unwrap_or("none"), "limit": 1, "singleBatch": true, "projection": { "_id": 1 },
        "readConcern": { "level": "majority" },
    };
    let read = database.run_command(read).await;
    let reply = read.map_err(error::from_driver)?;
    Ok(reply.get_timestamp("operationTime").ok())
}

fn next_tick(time: Timestamp) -> Timestamp {
    match time.increment.checked_add(1) {
        Some(increment) => Timestamp { increment, ..time },
        None => Timestamp {
            time: time.time.saturating_add(1),
            increment: 0,
        },
    }
}

/// The mode in which events are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventReadMode {
    /// Complete events, in batches.
    Whole,
    /// One complete event per reply, so that a large event does not block the events before it.
    OneByOne,
    /// One event per reply, with its small fields only.
    Headers,
}

/// The fields of an event that are always small.
const HEADER_FIELDS: [&str; 5] = [
    "operationType",
    "clusterTime",
    "wallTime",
    "ns",
    "documentKey",
];

async fn open_stream(
    source: &WatchSource,
    watch: &WatchOperation,
    reading: EventReadMode,
) -> Result<ChangeStream<RawDocumentBuf>> {
    let mut pipeline = match watch.filter.is_empty() {
        true => Vec::new(),
        false => vec![doc! { "$match": to_driver_document(&watch.filter)? }],
    };
    if reading == EventReadMode::Headers {
        let mut header = Document::new();
        header.extend(HEADER_FIELDS.map(|name| (name.to_owned(), 1.into())));
        pipeline.push(doc! { "$project": header });
    }
    let mut splitting = pipeline.clone();
    if source.may_split_events.load(Ordering::Relaxed) {
        splitting.push(doc! { SPLIT_STAGE: {} });
        match open_stream_with(source, watch, splitting, reading).await {
            Err(error)
                if error.code() == Some(UNKNOWN_STAGE_CODE)
                    && error.message().contains(SPLIT_STAGE) =>
            {
                source.may_split_events.store(false, Ordering::Relaxed);
            }
            opened => return opened,
        }
    }
    open_stream_with(source, watch, pipeline, reading).await
}

async fn open_stream_with(
    source: &WatchSource,
    watch: &WatchOperation,
    pipeline: Vec<Document>,
    reading: EventReadMode,
) -> Result<ChangeStream<RawDocumentBuf>> {
    let (after, at) = match &watch.from {
        WatchFrom::Now => (None, None),
        WatchFrom::After(token) => (Some(to_driver_token(token)?), None),
        WatchFrom::At(time) => (None, Some(*time)),
    };
    let full_document = match watch.full_document {
        FullDocument::Default => None,
        FullDocument::UpdateLookup => Some(FullDocumentType::UpdateLookup),
    };
    // Request an empty first batch, which has a resume token.
    let batch_size = match reading {
        EventReadMode::Whole => 0,
        EventReadMode::OneByOne | EventReadMode::Headers => 1,
    };
    let WatchSource {
        database, reads, ..
    } = source;
    let reads = reads.clone();
    macro_rules! configured {
        ($action:expr) => {
            $action
                .pipeline(pipeline)
                .batch_size(batch_size)
                .max_await_time(MAX_AWAIT_TIME)
                .optional(reads, |action, reads| action.selection_criteria(reads))
                .optional(after, |action, token| action.start_after(token))
                .optional(at, |action, time| action.start_at_operation_time(time))
                .optional(full_document, |action, full| action.full_document(full))
                .await
                .map_err(error::from_driver)?
                .with_type()
        };
    }
    Ok(match &watch.collection {
        Some(name) => configured!(database.collection::<Document>(name).watch()),
        None => configured!(database.watch()),
    })
}

/// Converts a resume token to the driver's type. Rejects a token without data, because the server would ignore the token.
fn to_driver_token(token: &RawDocument) -> Result<ResumeToken> {
    if !token.get_str("_data").is_ok_and(|data| !data.is_empty()) {
        return Err(Error::new(
            ErrorKind::Invalid,
            "invalid resume token: expected a document with the string `_data`, as events and cursors return it",
        )
        .with_code(INVALID_TOKEN_CODE));
    }
    ::mongodb::bson::deserialize_from_bson(Bson::Document(to_driver_document(token)?))
        .map_err(crate::error::from_bson)
}

fn token_from_driver(token: &ResumeToken) -> Result<RawDocumentBuf> {
    ::mongodb::bson::serialize_to_raw_document_buf(token).map_err(crate::error::from_bson)
}

/// A message from the task to the cursor.
enum WatchMessage {
    /// An event, and the resume token after the event.
    Event(RawDocumentBuf, RawDocumentBuf),
    /// An event that the server cannot send, and the resume token after the event.
    TooLarge(Error, RawDocumentBuf),
    /// No event up to this resume token.
    Progress(RawDocumentBuf),
    /// The end of the stream: the watched collection or database was dropped, or the stream failed.
    End(Option<Error>),
}

/// The task that follows a change stream.
struct StreamFollower {
    source: WatchSource,
    watch: WatchOperation,
    stream: ChangeStream<RawDocumentBuf>,
    fragments: EventFragments,
    /// The resume token after the last message.
    last_token: RawDocumentBuf,
    /// The number of events that are still to be read individually, because an event was too large.
    single_reads_left: Option<u32>,
}

/// The maximum number of events that are read individually.
///
/// The server looks up the document of an update when the event is read, so an event that was too large can become smaller.
const MAX_SINGLE_EVENT_READS: u32 = 1_000;

impl StreamFollower {
    async fn run_follower(mut self, sender: Sender<WatchMessage>) {
        loop {
            let message = match self.next_message().await {
                Ok(Some(message)) => message,
                Ok(None) => continue,
                Err(error) => WatchMessage::End(Some(error)),
            };
            match &message {
                WatchMessage::Event(_, place)
                | WatchMessage::TooLarge(_, place)
                | WatchMessage::Progress(place) => {
                    self.last_token.clone_from(place);
                }
                WatchMessage::End(_) => {}
            }
            let is_end = matches!(message, WatchMessage::End(_));
            if sender.send(message).await.is_err() || is_end {
                return;
            }
        }
    }

    async fn next_message(&mut self) -> Result<Option<WatchMessage>> {
        self.single_reads_left = match self.single_reads_left {
            Some(0) => {
                self.stream = self.reopen_stream(EventReadMode::Whole).await?;
                None
            }
            key => key,
        };
        let event = match self.stream.next_if_any().await.map_err(error::from_driver) {
            Err(error) if error.code() == Some(EVENT_TOO_LARGE_CODE) => {
                return self.skip_large_event(error).await;
            }
            event => event?,
        };
        let place = self
            .stream
            .resume_token()
            .as_ref()
            .map(token_from_driver)
            .transpose()?;
        Ok(match (event, place) {
            (Some(event), Some(place)) => {
                self.single_reads_left = self.single_reads_left.map(|remaining| remaining - 1);
                let event = self.fragments.push_event(event)?;
                event.map(|event| WatchMessage::Event(event, place))
            }
            (None, _) if !self.stream.is_alive() => Some(WatchMessage::End(None)),
            // The fragments so far belong to an event that was not sent yet. A token between fragments would skip the event.
            (None, place) if self.fragments.is_empty() => place.map(WatchMessage::Progress),
            (None, _) => None,
            (Some(_), None) => {
                return Err(Error::new(
                    ErrorKind::Backend,
                    "MongoDB sent an event without a resume token",
                ));
            }
        })
    }

    /// Continues after a batch with an event that is too large.
    ///
    /// Reads the events of the batch again, individually, and skips the large event with an error.
    async fn skip_large_event(&mut self, error: Error) -> Result<Option<WatchMessage>> {
        if self.single_reads_left.is_none() {
            self.single_reads_left = Some(MAX_SINGLE_EVENT_READS);
            match self.reopen_stream(EventReadMode::OneByOne).await {
                Err(error) if error.code() == Some(EVENT_TOO_LARGE_CODE) => {}
                opened => {
                    self.stream = opened?;
                    return Ok(None);
                }
            }
        }
        let mut headers = self.reopen_stream(EventReadMode::Headers).await?;
        let header = loop {
            if let Some(header) = headers.next_if_any().await.map_err(error::from_driver)? {
                break header;
            }
            if !headers.is_alive() {
                return Err(error);
            }
        };
        let place = header
            .get_document("_id")
            .map_err(crate::error::from_bson)?;
        let place = place.to_owned();
        self.watch.from = WatchFrom::After(place.clone());
        self.stream = open_stream(&self.source, &self.watch, EventReadMode::Whole).await?;
        self.single_reads_left = None;
        Ok(Some(WatchMessage::TooLarge(
            too_large_event(&header, error),
            place,
        )))
    }

    /// Reopens the stream after the last message.
    async fn reopen_stream(
        &mut self,
        reading: EventReadMode,
    ) -> Result<ChangeStream<RawDocumentBuf>> {
        self.watch.from = WatchFrom::After(self.last_token.clone());
        open_stream(&self.source, &self.watch, reading).await
    }
}

/// Returns the error in the place of an event that the server cannot send.
fn too_large_event(header: &RawDocument, error: Error) -> Error {
    let message = "an event is larger than 16 MB, and this MongoDB version cannot send the event: read the changed document \
                   instead. The next events follow. MongoDB 7.0 and 6.0.9 can send large events";
    let mut large = Error::new(ErrorKind::Backend, message).with_code(EVENT_TOO_LARGE_CODE);
    let collection = header.get_document("ns").and_then(|ns| ns.get_str("coll"));
    if let Ok(collection) = collection {
        large = large.with_collection(collection);
    }
    let id = header
        .get_document("documentKey")
        .and_then(|key| key.get("_id"));
    if let Ok(Some(id)) = id
        && let Ok(id) = Bson::try_from(id)
    {
        large = large.with_id(id);
    }
    large.with_source(error)
}

/// A change stream of MongoDB, which receives the messages of its task.
struct MongoChangeCursor {
    messages: Receiver<WatchMessage>,
    /// The received messages that were not returned yet.
    ready: VecDeque<WatchMessage>,
    /// The resume token after the last returned event.
    token: RawDocumentBuf,
    is_over: bool,
}

impl MongoChangeCursor {
    /// Takes the events at the front of the queue, and advances the token past them.
    fn take_events(&mut self) -> Vec<RawDocumentBuf> {
        let mut events = Vec::new();
        while let Some(message) = self.ready.pop_front() {
            match message {
                WatchMessage::Event(event, place) => {
                    events.push(event);
                    self.token = place;
                }
                WatchMessage::Progress(place) => self.token = place,
                last @ (WatchMessage::TooLarge(..) | WatchMessage::End(_)) => {
                    self.ready.push_front(last);
                    break;
                }
            }
        }
        events
    }
}

impl Cursor for MongoChangeCursor {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move {
            while !self.is_over {
                let events = self.take_events();
                if !events.is_empty() {
                    return Ok(events);
                }
                match self.ready.pop_front() {
                    Some(WatchMessage::TooLarge(error, place)) => {
                        self.token = place;
                        return Err(error);
                    }
                    Some(WatchMessage::End(end)) => {
                        self.is_over = true;
                        return end.map_or(Ok(Vec::new()), Err);
                    }
                    _ => {}
                }
                let mut messages = Vec::new();
                // No await follows until the messages are in the queue, so a dropped future loses no messages.
                if self
                    .messages
                    .recv_many(&mut messages, MAX_QUEUED_MESSAGES)
                    .await
                    == 0
                {
                    self.is_over = true;
                    return Err(Error::new(
                        ErrorKind::Connection,
                        "the change stream has ended: the Tokio runtime in which it was opened has shut down",
                    ));
                }
                self.ready.extend(messages);
            }
            Ok(Vec::new())
        })
    }
}

impl ChangeCursor for MongoChangeCursor {
    fn resume_token(&self) -> RawDocumentBuf {
        self.token.clone()
    }
}
