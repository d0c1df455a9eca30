//! The routes of the service.

mod categories;
mod customers;
mod feed;
mod orders;
mod products;

use std::{collections::BTreeMap, time::Duration};

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    routing::{delete, get, patch, post},
};

use crate::{App, models::Category};

/// The time limit of the query of a health check.
const HEALTH_LIMIT: Duration = Duration::from_secs(1);

/// Returns all routes.
pub(crate) fn all() -> Router<App> {
    let product = get(products::show)
        .patch(products::change)
        .delete(products::remove);
    Router::new()
        .route("/health", get(health))
        .route(
            "/categories",
            get(categories::list).post(categories::create),
        )
        .route("/categories/{slug}", delete(categories::remove))
        .route("/customers", post(customers::create))
        .route("/customers/{id}", patch(customers::change))
        .route("/products", get(products::list).post(products::create))
        .route("/products/{id}", product)
        .route("/products/{id}/reviews", post(products::review))
        .route("/orders", post(orders::create))
        .route("/orders/{id}", get(orders::show))
        .route("/feed", get(feed::feed))
}

/// Answers 200 if the database answers a query.
async fn health(State(app): State<App>) -> odm::Result<Json<BTreeMap<&'static str, &'static str>>> {
    let all = app.db.all_scopes().max_time(HEALTH_LIMIT);
    all.find::<Category>().exists().await?;
    Ok(Json(BTreeMap::from([("status", "ok")])))
}

/// Returns 204 for a deleted document, or 404 if there was no document.
fn status_of_delete(is_deleted: bool) -> StatusCode {
    match is_deleted {
        true => StatusCode::NO_CONTENT,
        false => StatusCode::NOT_FOUND,
    }
}
