//! Parts of a web service on axum that depend on the database (feature `axum`).
//!
//! | item | use |
//! |---|---|
//! | [`Error`], [`Problem`](crate::Problem) | results of handlers: problem details as in RFC 9457 |
//! | [`problem_details`] | a layer: every other error answer, such as a rejected body, becomes problem details too |
//! | [`ETag`], [`IfMatch`] | the `version` of a document in the headers of an answer and of a request |
//! | [`Feed`], [`LastEventId`] | a change stream as server-sent events, and the position after a lost connection |
//! | [`shutdown_signal`] | the end of the process, for axum's graceful shutdown |
//!
//! The page "Web services" of the book shows a service.

mod etag;
mod feed;
mod problem;
mod signal;

use axum_core::extract::FromRequestParts;
use http::request::Parts;

pub use etag::{ETag, IfMatch};
pub use feed::Feed;
pub use problem::problem_details;
pub use signal::shutdown_signal;

use crate::{Error, ResumeToken};

/// The header `Last-Event-ID` of a request: the last change that a client of a feed has received.
///
/// A browser sends the header after a lost connection, if the events of the feed have ids. The value is the text of a
/// [`ResumeToken`], and `None` without the header, so [`Watch::after`](crate::watch::Watch::after) accepts both.
///
/// An invalid token is an error of kind `Invalid`: the status 400. [`Feed`] has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastEventId(pub Option<ResumeToken>);

impl<S: Sync> FromRequestParts<S> for LastEventId {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        let Some(id) = parts.headers.get("last-event-id") else {
            return Ok(Self(None));
        };
        // A header that is not a text is no token.
        let token = id.to_str().unwrap_or_default().parse()?;
        Ok(Self(Some(token)))
    }
}
