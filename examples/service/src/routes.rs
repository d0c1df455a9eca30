//! The routes of the service.
//!
//! | route | handler |
//! |---|---|
//! | `GET /health` | [`health`] |
//! | `GET`, `POST /categories`; `DELETE /categories/{slug}` | [`categories`] |
//! | `POST /customers`; `PATCH /customers/{id}` | [`customers`] |
//! | `GET`, `POST /products`; `GET`, `PATCH`, `DELETE /products/{id}` | [`products`] |
//! | `POST /products/{id}/reviews` | [`reviews`] |
//! | `POST /orders`; `GET /orders/{id}` | [`orders`] |
//! | `GET /feed` | [`feed`] |

mod categories;
mod customers;
mod feed;
mod orders;
mod products;
mod reviews;

use std::time::Duration;

use axum::{Router, extract::State, routing::get};
use serde::Serialize;

use crate::{ApiError, App, extract::Json, models::Category};

/// The time limit of the query of a health check.
const HEALTH_LIMIT: Duration = Duration::from_secs(1);

/// Returns all routes.
pub(crate) fn all() -> Router<App> {
    Router::new()
        .route("/health", get(health))
        .merge(categories::routes())
        .merge(customers::routes())
        .merge(products::routes())
        .merge(reviews::routes())
        .merge(orders::routes())
        .merge(feed::routes())
        .fallback(|| async { ApiError::UnknownRoute })
        .method_not_allowed_fallback(|| async { ApiError::UnknownMethod })
}

#[derive(Debug, Serialize)]
struct Health {
    status: &'static str,
}

/// Answers 200 if the database answers a query.
async fn health(State(app): State<App>) -> Result<Json<Health>, ApiError> {
    let all = app.db.all_scopes().max_time(HEALTH_LIMIT);
    all.find::<Category>().exists().await?;
    Ok(Json(Health { status: "ok" }))
}
