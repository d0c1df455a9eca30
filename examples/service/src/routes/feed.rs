//! The feed: changes of products as server-sent events.

use std::future::ready;

use axum::{
    Router,
    extract::State,
    http::HeaderMap,
    response::sse::{self, KeepAlive, Sse},
    routing::get,
};
use futures_util::{Stream, StreamExt, stream};
use odm::{
    ResumeToken,
    watch::{Change, Event},
};

use crate::{
    ApiError, App,
    models::{Product, Tenant},
};

/// The header in which a browser sends the id of the last event after a lost connection.
const LAST_EVENT_ID: &str = "last-event-id";

/// Returns the routes of this file.
pub(super) fn routes() -> Router<App> {
    Router::new().route("/feed", get(feed))
}

/// Streams the changes from now on, or after the change of `Last-Event-ID`. The feed neither loses nor repeats a change.
///
/// A session of a tenant cannot watch, so the feed watches all tenants and filters. A delete event contains the `_id` alone. The
/// feed omits deletes, because the filter cannot tell the tenant of a deleted product.
async fn feed(
    State(app): State<App>,
    tenant: Tenant,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, axum::Error>>>, ApiError> {
    let last = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok());
    let last = last.map(str::parse::<ResumeToken>).transpose()?;
    let changes = app
        .db
        .all_scopes()
        .watch::<Product>()
        .filter(|p| p.tenant().eq(&tenant))
        .after(last)
        .await?;
    // The first event has an id and no data. A client that loses the connection before the first change continues from here.
    let start = sse::Event::default().id(changes.token().to_string());
    let events = changes.into_stream().filter_map(|change| {
        // After an error that ends the stream, the client connects again, after the last change.
        let change =
            change.inspect_err(|error| tracing::warn!(%error, "a change is missing in a feed"));
        ready(change.ok().and_then(to_event))
    });
    let events = stream::once(ready(Ok(start))).chain(events);
    let events = events.take_until(app.stop.cancelled_owned());
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

/// Returns the event of an insert or an update. The position after the change is the id of the event.
fn to_event(change: Change<Product>) -> Option<Result<sse::Event, axum::Error>> {
    let (name, product) = match change.event {
        Event::Inserted(product) => ("inserted", product),
        Event::Updated {
            document: Some(product),
            ..
        } => ("updated", product),
        _ => return None,
    };
    let event = sse::Event::default().id(change.token.to_string());
    Some(event.event(name).json_data(product))
}
