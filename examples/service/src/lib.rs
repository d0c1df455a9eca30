#![doc = include_str!("../README.md")]

mod error;
mod extract;
pub mod models;
mod routes;
pub mod seed;

use std::io;

use axum::middleware::map_response;
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

/// Answers requests until `stop` is cancelled and all requests in progress are answered.
///
/// # Errors
///
/// Errors of the listener.
pub async fn serve(listener: TcpListener, db: Db, stop: CancellationToken) -> io::Result<()> {
    let stopped = stop.clone().cancelled_owned();
    let routes = routes::all()
        .layer(map_response(odm::axum::problem_details))
        .layer(TraceLayer::new_for_http())
        .with_state(App { db, stop });
    axum::serve(listener, routes)
        .with_graceful_shutdown(stopped)
        .await
}
