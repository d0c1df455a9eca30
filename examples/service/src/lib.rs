//! A shop as a web service: axum in front of `odm`, with a tenant in every request.
//!
//! | module | content |
//! |---|---|
//! | [`models`] | the documents, their indexes, references, derived fields and rules |
//! | `routes` | one file for each resource: the routes and their handlers |
//! | `extract` | the session of the request's tenant, and JSON with problem details |
//! | `error` | [`ApiError`], the error of every handler |
//! | [`seed`] | a small catalog to try the service |
//!
//! The binary `shop` opens the database and calls [`serve`]. The tests call [`serve`] too.

mod error;
mod extract;
pub mod models;
mod routes;
pub mod seed;

use std::io;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_http::trace::TraceLayer;

pub use error::ApiError;
use models::Db;

/// The state that all handlers share. A clone is cheap.
#[derive(Debug, Clone)]
pub(crate) struct App {
    db: Db,
    /// Cancelled when the service stops: open feeds end.
    stop: CancellationToken,
}

/// Returns the routes of the service. Open feeds end when `stop` is cancelled.
pub fn router(db: Db, stop: CancellationToken) -> Router {
    routes::all()
        .layer(TraceLayer::new_for_http())
        .with_state(App { db, stop })
}

/// Answers requests until `stop` is cancelled and all requests in progress are answered.
///
/// # Errors
///
/// Errors of the listener.
pub async fn serve(listener: TcpListener, db: Db, stop: CancellationToken) -> io::Result<()> {
    axum::serve(listener, router(db, stop.clone()))
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}
