//! Customers.

use axum::{
    Router,
    http::StatusCode,
    routing::{patch, post},
};
use odm::prelude::*;

use crate::{
    ApiError, App,
    extract::{Json, Path},
    models::{Customer, NewCustomer, TenantSession},
};

/// Returns the routes of this file.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/customers", post(create))
        .route("/customers/{id}", patch(rename))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateCustomer {
    email: String,
    name: String,
}

async fn create(
    shop: TenantSession,
    Json(request): Json<CreateCustomer>,
) -> Result<(StatusCode, Json<Customer>), ApiError> {
    let CreateCustomer { email, name } = request;
    let id = ObjectId::new();
    let customer = shop.insert(NewCustomer { id, email, name }).await?;
    Ok((StatusCode::CREATED, Json(customer)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RenameCustomer {
    name: String,
}

/// Changes the name of a customer. The copies of the name in reviews follow: `#[denormalize(from = author.name)]`.
async fn rename(
    shop: TenantSession,
    Path(id): Path<ObjectId>,
    Json(request): Json<RenameCustomer>,
) -> Result<Json<Customer>, ApiError> {
    let renamed = shop.update::<Customer>(id).set(|c| c.name(), request.name);
    Ok(Json(renamed.returning_after().await?))
}
