//! Change streams.
//!
//! A task follows the stream of the driver, which resumes by itself after the loss of a connection or of a primary, and
//! hands its events over. It ends within [`PATIENCE`] once nobody takes them any more.

use std::time::Duration;

use ::mongodb::action::Action;
use ::mongodb::{
    Database,
    bson::{Bson, Document, doc},
    change_stream::{ChangeStream, event::ResumeToken},
    options::{FullDocumentType, SelectionCriteria},
};
use bson::{RawDocument, RawDocumentBuf};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::{decode, error, task};
use crate::{
    Error, ErrorKind, Result,
    backend::{
        BoxFuture, ChangeCursor, Cursor,
        operation::{FullDocument, Watch, WatchFrom},
    },
};

/// How long the server waits for an event before it answers that there is none.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many events wait to be taken.
const AHEAD: usize = 32;

/// MongoDB's number for a resume token without data.
const NO_DATA: i32 = 40647;

/// See [`Backend::watch`](crate::backend::Backend::watch).
pub(super) async fn watch(
    database: &Database,
    watch: Watch,
    reads: Option<SelectionCriteria>,
) -> Result<Box<dyn ChangeCursor>> {
    let Watch { collection, .. } = &watch;
    let named = |error: Error| match collection {
        Some(name) => error.with_collection(&**name),
        None => error,
    };
    let stream = open(database, &watch, reads).await.map_err(named)?;
    let first = stream.resume_token();
    let first = first.ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "this version of MongoDB gives no resume token to begin with: use 4.2 or later",
        )
    })?;
    let token = encode(&first)?;
    let (sender, told) = channel(AHEAD);
    task::spawn(follow(stream, sender))?;
    Ok(Box::new(MongoChanges {
        told,
        token,
        end: None,
    }))
}

async fn open(
    database: &Database,
    watch: &Watch,
    reads: Option<SelectionCriteria>,
) -> Result<ChangeStream<RawDocumentBuf>> {
    let pipeline = match watch.filter.is_empty() {
        true => Vec::new(),
        false => vec![doc! { "$match": decode(&watch.filter)? }],
    };
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
    macro_rules! configured {
        ($action:expr) => {
            $action
                .pipeline(pipeline)
                .batch_size(0)
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
    /// Nothing up to this place.
    Nothing(RawDocumentBuf),
    /// What is watched has been dropped, or the stream has failed.
    End(Option<Error>),
}

async fn follow(mut stream: ChangeStream<RawDocumentBuf>, sender: Sender<Told>) {
    loop {
        let told = match step(&mut stream).await {
            Ok(Some(told)) => told,
            Ok(None) => continue,
            Err(error) => Told::End(Some(error)),
        };
        let is_end = matches!(told, Told::End(_));
        if sender.send(told).await.is_err() || is_end {
            return;
        }
    }
}

async fn step(stream: &mut ChangeStream<RawDocumentBuf>) -> Result<Option<Told>> {
    let event = stream.next_if_any().await.map_err(error::from_driver)?;
    let place = stream.resume_token().as_ref().map(encode).transpose()?;
    Ok(match (event, place) {
        (Some(event), Some(place)) => Some(Told::Event(event, place)),
        (None, _) if !stream.is_alive() => Some(Told::End(None)),
        (None, place) => place.map(Told::Nothing),
        (Some(_), None) => {
            return Err(Error::new(
                ErrorKind::Backend,
                "MongoDB sent an event without a resume token",
            ));
        }
    })
}

struct MongoChanges {
    told: Receiver<Told>,
    /// Behind the events that were handed out.
    token: RawDocumentBuf,
    /// What the task ended with.
    end: Option<Option<Error>>,
}

impl Cursor for MongoChanges {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move {
            let mut events = Vec::new();
            while events.is_empty() {
                match &mut self.end {
                    Some(Some(error)) => return Err(error.clone()),
                    Some(None) => return Ok(events),
                    None => {}
                }
                let mut told = Vec::new();
                // From here on nothing waits, so nothing that was told is lost.
                if self.told.recv_many(&mut told, AHEAD).await == 0 {
                    return Err(Error::new(
                        ErrorKind::Connection,
                        "the Tokio runtime that the watch was begun in has shut down",
                    ));
                }
                for told in told {
                    match told {
                        Told::Event(event, place) => {
                            events.push(event);
                            self.token = place;
                        }
                        Told::Nothing(place) => self.token = place,
                        Told::End(end) => self.end = Some(end),
                    }
                }
            }
            Ok(events)
        })
    }
}

impl ChangeCursor for MongoChanges {
    fn resume_token(&self) -> RawDocumentBuf {
        self.token.clone()
    }
}
