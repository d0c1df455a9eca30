//! Change streams.
//!
//! A task follows the stream of the driver, which resumes by itself after the loss of a connection or of a primary, and
//! hands its events over. The task ends within [`PATIENCE`] after the receiver is dropped.
//!
//! An event can be larger than the 16 MiB of a reply: that of an update that sets 9 MiB, with the document of 9 MiB. A server that
//! has `$changeStreamSplitLargeEvent` (7.0, and 6.0 from 6.0.9 on) sends it in fragments, which are put together here. On an older
//! server the event is an error, and the stream continues after it: [`Follower::pass_large`].

mod fragments;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ::mongodb::action::Action;
use ::mongodb::{
    Database,
    bson::{Bson, Document, doc},
    change_stream::{ChangeStream, event::ResumeToken},
    options::{FullDocumentType, SelectionCriteria},
};
use bson::{RawDocument, RawDocumentBuf};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::{decode, error};
use crate::{
    Error, ErrorKind, Result,
    backend::{
        BoxFuture, ChangeCursor, Cursor,
        operation::{FullDocument, Watch, WatchFrom},
    },
    task,
};
use fragments::Fragments;

/// How long the server waits for an event before it answers that there is none.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many events wait to be taken.
const AHEAD: usize = 32;

/// MongoDB's number for a resume token without data.
const NO_DATA: i32 = 40647;

/// MongoDB's number for a stage that the server does not have.
const UNKNOWN_STAGE: i32 = 40324;

/// MongoDB's number for a document that is larger than a reply may be.
const TOO_LARGE: i32 = 10334;

/// The stage that splits events which are too large for one reply. It is the last one.
const SPLIT: &str = "$changeStreamSplitLargeEvent";

/// Where change streams are opened.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) database: Database,
    /// The read preference of the URL. A change stream gives what a majority has, on any member.
    pub(super) reads: Option<SelectionCriteria>,
    /// Whether the server has [`SPLIT`], as far as is known: it is asked for until the server refuses it.
    pub(super) has_split: Arc<AtomicBool>,
}

/// See [`Backend::watch`](crate::backend::Backend::watch).
pub(super) async fn watch(source: Source, watch: Watch) -> Result<Box<dyn ChangeCursor>> {
    let named = |error: Error| match &watch.collection {
        Some(name) => error.with_collection(&**name),
        None => error,
    };
    let stream = open(&source, &watch, Reading::Whole).await;
    let stream = stream.map_err(named)?;
    let first = stream.resume_token();
    let first = first.ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "this version of MongoDB gives no resume token to begin with: use 4.2 or later",
        )
    })?;
    let token = encode(&first)?;
    let (sender, told) = channel(AHEAD);
    let follower = Follower {
        source,
        watch,
        stream,
        fragments: Fragments::default(),
        place: token.clone(),
        careful: None,
    };
    // It hands over the error that ends it.
    drop(task::spawn(follower.follow(sender)));
    Ok(Box::new(MongoChanges {
        told,
        ready: VecDeque::new(),
        token,
        is_over: false,
    }))
}

/// How the events are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// As they are.
    Whole,
    /// One event for each reply: an event that is too large does not hold back the events before it.
    OneByOne,
    /// One event for each reply, with the small fields only.
    Headers,
}

/// The fields of an event that are always small.
const HEADER: [&str; 5] = [
    "operationType",
    "clusterTime",
    "wallTime",
    "ns",
    "documentKey",
];

async fn open(
    source: &Source,
    watch: &Watch,
    reading: Reading,
) -> Result<ChangeStream<RawDocumentBuf>> {
    let mut pipeline = match watch.filter.is_empty() {
        true => Vec::new(),
        false => vec![doc! { "$match": decode(&watch.filter)? }],
    };
    if reading == Reading::Headers {
        let mut header = Document::new();
        header.extend(HEADER.map(|name| (name.to_owned(), 1.into())));
        pipeline.push(doc! { "$project": header });
    }
    let mut splitting = pipeline.clone();
    if source.has_split.load(Ordering::Relaxed) {
        splitting.push(doc! { SPLIT: {} });
        match open_with(source, watch, splitting, reading).await {
            Err(error)
                if error.code() == Some(UNKNOWN_STAGE) && error.message().contains(SPLIT) =>
            {
                source.has_split.store(false, Ordering::Relaxed);
            }
            opened => return opened,
        }
    }
    open_with(source, watch, pipeline, reading).await
}

async fn open_with(
    source: &Source,
    watch: &Watch,
    pipeline: Vec<Document>,
    reading: Reading,
) -> Result<ChangeStream<RawDocumentBuf>> {
    let (after, at) = match &watch.from {
        WatchFrom::Now => (None, None),
        WatchFrom::After(token) => (Some(resume_token(token)?), None),
        WatchFrom::At(time) => (None, Some(*time)),
    };
    let full_document = match watch.full_document {
        FullDocument::Default => None,
        FullDocument::UpdateLookup => Some(FullDocumentType::UpdateLookup),
    };
    // An empty first batch comes with a token.
    let batch_size = match reading {
        Reading::Whole => 0,
        Reading::OneByOne | Reading::Headers => 1,
    };
    let Source {
        database, reads, ..
    } = source;
    let reads = reads.clone();
    macro_rules! configured {
        ($action:expr) => {
            $action
                .pipeline(pipeline)
                .batch_size(batch_size)
                .max_await_time(PATIENCE)
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

/// The driver's form of a token. The server takes one without data for none, so that is refused.
fn resume_token(token: &RawDocument) -> Result<ResumeToken> {
    if !token.get_str("_data").is_ok_and(|data| !data.is_empty()) {
        return Err(Error::new(
            ErrorKind::Invalid,
            "a resume token is a document with the string _data, as events and cursors give it",
        )
        .with_code(NO_DATA));
    }
    ::mongodb::bson::deserialize_from_bson(Bson::Document(decode(token)?))
        .map_err(crate::error::encode)
}

fn encode(token: &ResumeToken) -> Result<RawDocumentBuf> {
    ::mongodb::bson::serialize_to_raw_document_buf(token).map_err(crate::error::encode)
}

/// What the task hands over.
enum Told {
    /// An event, and the place behind it.
    Event(RawDocumentBuf, RawDocumentBuf),
    /// An event that cannot be sent, and the place behind it.
    Passed(Error, RawDocumentBuf),
    /// Nothing up to this place.
    Nothing(RawDocumentBuf),
    /// What is watched has been dropped, or the stream has failed.
    End(Option<Error>),
}

/// The task's side of a watch.
struct Follower {
    source: Source,
    watch: Watch,
    stream: ChangeStream<RawDocumentBuf>,
    fragments: Fragments,
    /// The resume token after the last event that was handed over.
    place: RawDocumentBuf,
    /// The number of events that are still to be read one by one, because one of them is too large.
    careful: Option<u32>,
}

/// The most events that are read one by one. The document of an update is looked up when the event is read, so an event that was too
/// large can become smaller.
const CAREFUL: u32 = 1_000;

impl Follower {
    async fn follow(mut self, sender: Sender<Told>) {
        loop {
            let told = match self.step().await {
                Ok(Some(told)) => told,
                Ok(None) => continue,
                Err(error) => Told::End(Some(error)),
            };
            match &told {
                Told::Event(_, place) | Told::Passed(_, place) | Told::Nothing(place) => {
                    self.place.clone_from(place);
                }
                Told::End(_) => {}
            }
            let is_end = matches!(told, Told::End(_));
            if sender.send(told).await.is_err() || is_end {
                return;
            }
        }
    }

    async fn step(&mut self) -> Result<Option<Told>> {
        self.careful = match self.careful {
            Some(0) => {
                self.stream = self.reopen(Reading::Whole).await?;
                None
            }
            careful => careful,
        };
        let event = match self.stream.next_if_any().await.map_err(error::from_driver) {
            Err(error) if error.code() == Some(TOO_LARGE) => {
                return self.pass_large(error).await;
            }
            event => event?,
        };
        let place = self
            .stream
            .resume_token()
            .as_ref()
            .map(encode)
            .transpose()?;
        Ok(match (event, place) {
            (Some(event), Some(place)) => {
                self.careful = self.careful.map(|left| left - 1);
                let event = self.fragments.add(event)?;
                event.map(|event| Told::Event(event, place))
            }
            (None, _) if !self.stream.is_alive() => Some(Told::End(None)),
            // Fragments are of an event that is not handed over yet.
            (None, place) if self.fragments.is_empty() => place.map(Told::Nothing),
            (None, _) => None,
            (Some(_), None) => {
                return Err(Error::new(
                    ErrorKind::Backend,
                    "MongoDB sent an event without a resume token",
                ));
            }
        })
    }

    /// Continues after a batch with an event that is too large. Reads the events of the batch again, one by one, and passes over the
    /// large event with an error.
    async fn pass_large(&mut self, error: Error) -> Result<Option<Told>> {
        if self.careful.is_none() {
            self.careful = Some(CAREFUL);
            match self.reopen(Reading::OneByOne).await {
                Err(error) if error.code() == Some(TOO_LARGE) => {}
                opened => {
                    self.stream = opened?;
                    return Ok(None);
                }
            }
        }
        let mut headers = self.reopen(Reading::Headers).await?;
        let header = loop {
            if let Some(header) = headers.next_if_any().await.map_err(error::from_driver)? {
                break header;
            }
            if !headers.is_alive() {
                return Err(error);
            }
        };
        let place = header.get_document("_id").map_err(crate::error::encode)?;
        let place = place.to_owned();
        self.watch.from = WatchFrom::After(place.clone());
        self.stream = open(&self.source, &self.watch, Reading::Whole).await?;
        self.careful = None;
        Ok(Some(Told::Passed(too_large(&header, error), place)))
    }

    /// Opens the watch again after the last event that was handed over.
    async fn reopen(&mut self, reading: Reading) -> Result<ChangeStream<RawDocumentBuf>> {
        self.watch.from = WatchFrom::After(self.place.clone());
        open(&self.source, &self.watch, reading).await
    }
}

/// The error in the place of an event that the server cannot send.
fn too_large(header: &RawDocument, error: Error) -> Error {
    let message = "a change is larger than 16 MB, and this MongoDB cannot send it: read its document; the changes behind it follow \
                   (MongoDB 7.0, or 6.0.9, sends such changes)";
    let mut large = Error::new(ErrorKind::Backend, message).with_code(TOO_LARGE);
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

struct MongoChanges {
    told: Receiver<Told>,
    /// What was told and is not handed out yet.
    ready: VecDeque<Told>,
    /// Behind the events that were handed out.
    token: RawDocumentBuf,
    is_over: bool,
}

impl MongoChanges {
    /// Takes the events at the front of the queue, and advances the token past them.
    fn take_events(&mut self) -> Vec<RawDocumentBuf> {
        let mut events = Vec::new();
        while let Some(told) = self.ready.pop_front() {
            match told {
                Told::Event(event, place) => {
                    events.push(event);
                    self.token = place;
                }
                Told::Nothing(place) => self.token = place,
                other @ (Told::Passed(..) | Told::End(_)) => {
                    self.ready.push_front(other);
                    break;
                }
            }
        }
        events
    }
}

impl Cursor for MongoChanges {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move {
            while !self.is_over {
                let events = self.take_events();
                if !events.is_empty() {
                    return Ok(events);
                }
                match self.ready.pop_front() {
                    Some(Told::Passed(error, place)) => {
                        self.token = place;
                        return Err(error);
                    }
                    Some(Told::End(end)) => {
                        self.is_over = true;
                        return end.map_or(Ok(Vec::new()), Err);
                    }
                    _ => {}
                }
                let mut told = Vec::new();
                // From here on nothing waits, so nothing that was told is lost.
                if self.told.recv_many(&mut told, AHEAD).await == 0 {
                    self.is_over = true;
                    return Err(Error::new(
                        ErrorKind::Connection,
                        "the Tokio runtime that the watch was begun in has shut down",
                    ));
                }
                self.ready.extend(told);
            }
            Ok(Vec::new())
        })
    }
}

impl ChangeCursor for MongoChanges {
    fn resume_token(&self) -> RawDocumentBuf {
        self.token.clone()
    }
}
