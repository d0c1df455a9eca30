//! Change streams as server-sent events.

use std::{convert::Infallible, fmt, pin::pin, time::Duration};

use axum_core::{
    body::Body,
    response::{IntoResponse, Response},
};
use futures_util::{
    StreamExt,
    future::{Either, select},
    stream::{self, BoxStream},
};
use http::header;
use serde::Serialize;

use crate::{
    ResumeToken,
    document::Document,
    session::task,
    watch::{Change, ChangeStream, Event},
};

/// The pause after which a feed without changes sends its position, which keeps the connection open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The changes of a model as server-sent events: a response of axum.
///
/// Each event has the position after the change as its id. A browser with an `EventSource` reads the events, and after a lost
/// connection sends the last id as `Last-Event-ID`. With [`LastEventId`](super::LastEventId) the feed continues from there, without
/// a gap and without a repetition:
///
/// ```
/// use odm::{axum::{Feed, LastEventId}, prelude::*, watch::Event};
///
/// # #[derive(Debug, Serialize, Deserialize, Document)]
/// # #[document(collection = "products")]
/// # struct Product { #[serde(rename = "_id")] id: i64, price: i64 }
/// # #[derive(Schema)] #[schema(models(Product))] struct Shop;
/// async fn prices(db: odm::Database<Shop>, LastEventId(last): LastEventId) -> odm::Result<Feed> {
///     let changes = db.watch::<Product>().with_documents().after(last).await?;
///     Ok(Feed::new(changes, |event| match event {
///         Event::Inserted(product) => Some(("inserted", product)),
///         Event::Updated { document, .. } => Some(("updated", document?)),
///         _ => None,
///     }))
/// }
/// ```
///
/// ```text
/// id: IgAAAA…
///
/// id: IgAAAA…
/// event: updated
/// data: {"_id":7,"price":2450}
/// ```
///
/// The feed first sends its position, as an event without data, and again after 15 seconds without a change. So a client that
/// connects again does not depend on old history. After an error of the change stream, the feed logs the error (target
/// `odm::http`); if the stream has ended, the feed ends and the client connects again. After too long, the position is an error of
/// kind `HistoryLost`: the status 410.
///
/// The feed ends when the client closes the connection, and after the future of [`until`](Self::until).
pub struct Feed(BoxStream<'static, Result<String, Infallible>>);

impl Feed {
    /// Returns the feed of a change stream.
    ///
    /// The function returns the name of the event and the data, which the feed sends as JSON, or `None` for a change without an
    /// event. A name has a single line. Data without a JSON form is logged and left out.
    pub fn new<T: Document, D: Serialize>(
        changes: ChangeStream<T>,
        to_event: impl FnMut(Event<T>) -> Option<(&'static str, D)> + Send + 'static,
    ) -> Self {
        Self::with_keep_alive(KEEP_ALIVE, changes, to_event)
    }

    fn with_keep_alive<T: Document, D: Serialize>(
        keep_alive: Duration,
        changes: ChangeStream<T>,
        to_event: impl FnMut(Event<T>) -> Option<(&'static str, D)> + Send + 'static,
    ) -> Self {
        let start = block(&changes.token(), "");
        let blocks = stream::unfold(
            (changes, to_event),
            move |(mut changes, mut to_event)| async move {
                let block = next_block(keep_alive, &mut changes, &mut to_event).await?;
                Some((block, (changes, to_event)))
            },
        );
        let blocks = stream::once(async { start }).chain(blocks);
        Self(blocks.map(Ok).boxed())
    }

    /// Ends the feed when the future completes, for example at the end of the service: a graceful shutdown waits for all answers,
    /// and a feed has no end of its own.
    #[must_use]
    pub fn until(self, end: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(self.0.take_until(end).boxed())
    }
}

/// Waits for the next change with an event, and returns the text of the event. Returns `None` at the end of the stream.
async fn next_block<T: Document, D: Serialize>(
    keep_alive: Duration,
    changes: &mut ChangeStream<T>,
    to_event: &mut impl FnMut(Event<T>) -> Option<(&'static str, D)>,
) -> Option<String> {
    let mut pause = pin!(task::sleep(keep_alive));
    loop {
        // A dropped `next` loses no change.
        let next = match select(pin!(changes.next()), &mut pause).await {
            Either::Left((next, _)) => Some(next?),
            Either::Right(_) => None,
        };
        let change = match next {
            Some(Ok(change)) => change,
            Some(Err(error)) => {
                tracing::warn!(target: "odm::http", %error, "a change is missing in a feed");
                continue;
            }
            None => return Some(block(&changes.token(), "")),
        };
        let Change { event, token, .. } = change;
        let Some((name, data)) = to_event(event) else {
            continue;
        };
        match serde_json::to_string(&data) {
            // JSON without spaces has no line breaks.
            Ok(data) => return Some(block(&token, &format!("event: {name}\ndata: {data}\n"))),
            Err(error) => {
                tracing::error!(target: "odm::http", %error, "a change is missing in a feed: no JSON");
            }
        }
    }
}

/// Returns an event with the position as its id.
fn block(token: &ResumeToken, fields: &str) -> String {
    format!("id: {token}\n{fields}\n")
}

impl IntoResponse for Feed {
    fn into_response(self) -> Response {
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-cache"),
        ];
        (headers, Body::from_stream(self.0)).into_response()
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "engine"))]
mod tests {
    use axum_core::extract::FromRequestParts;
    use futures_util::future::ready;
    use http::Request;

    use super::{super::LastEventId, *};
    use crate::{Database, prelude::*};

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "notes", crate = crate)]
    #[serde(crate = "serde")]
    struct Note {
        #[serde(rename = "_id")]
        id: i64,
        text: String,
    }

    #[derive(Schema)]
    #[schema(models(Note), crate = crate)]
    struct Notes;

    /// Returns the position of the header `Last-Event-ID`.
    async fn last_event_id(id: &str) -> crate::Result<LastEventId> {
        let request = Request::builder().header("last-event-id", id).body(());
        let (mut parts, ()) = request.unwrap().into_parts();
        LastEventId::from_request_parts(&mut parts, &()).await
    }

    /// Returns the feed of the texts of new notes.
    async fn feed(db: &Database<Notes>, LastEventId(last): LastEventId) -> Feed {
        let changes = db.watch::<Note>().after(last).await.unwrap();
        Feed::new(changes, |event| match event {
            Event::Inserted(note) => Some(("inserted", note.text)),
            _ => None,
        })
    }

    #[tokio::test]
    async fn a_feed_continues_after_the_last_event() {
        let db = Database::<Notes>::open("memory:").await.unwrap();
        let text = "two\nlines".to_owned();
        let mut first = feed(&db, LastEventId(None)).await;
        let start = first.0.next().await.unwrap().unwrap();
        let id = start
            .strip_prefix("id: ")
            .unwrap()
            .strip_suffix("\n\n")
            .unwrap();

        db.insert(Note { id: 1, text }).await.unwrap();
        db.delete::<Note>(1).await.unwrap();
        let text = "three".to_owned();
        db.insert(Note { id: 2, text }).await.unwrap();
        let second = feed(&db, last_event_id(id).await.unwrap()).await;
        for mut feed in [first, Feed(second.0.skip(1).boxed())] {
            let inserted = feed.0.next().await.unwrap().unwrap();
            assert!(
                inserted.ends_with("\nevent: inserted\ndata: \"two\\nlines\"\n\n"),
                "{inserted}"
            );
            let inserted = feed.0.next().await.unwrap().unwrap();
            assert!(
                inserted.ends_with("\nevent: inserted\ndata: \"three\"\n\n"),
                "{inserted}"
            );
        }
        let error = last_event_id("seven").await.unwrap_err();
        assert_eq!(error.status(), 400);
    }

    /// A graceful shutdown waits for the end of every feed. A client without changes keeps its position.
    #[tokio::test]
    async fn a_quiet_feed_sends_its_position_until_the_end() {
        let db = Database::<Notes>::open("memory:").await.unwrap();
        let changes = db.watch::<Note>().await.unwrap();
        let pause = Duration::from_millis(1);
        let mut quiet = Feed::with_keep_alive(pause, changes, |_| Some(("changed", "a note")));
        let start = quiet.0.next().await.unwrap().unwrap();
        assert_eq!(quiet.0.next().await.unwrap().unwrap(), start);

        let ended = quiet.until(ready(()));
        let response = ended.into_response();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert!(
            response
                .into_body()
                .into_data_stream()
                .next()
                .await
                .is_none()
        );
    }
}
