//! Customers.

use axum::{Json, extract::Path, http::StatusCode};
use odm::prelude::*;

use crate::models::{Customer, NewCustomer, TenantSession};

pub(super) async fn create(
    shop: TenantSession,
    Json(new): Json<NewCustomer>,
) -> odm::Result<(StatusCode, Json<Customer>)> {
    Ok((StatusCode::CREATED, Json(shop.insert(new).await?)))
}

/// The body of `PATCH /customers/{id}`. A missing field stays unchanged.
#[derive(Debug, Patch)]
#[patch(of = Customer)]
#[serde(deny_unknown_fields)]
pub(super) struct CustomerPatch {
    name: Option<String>,
}

/// Changes a customer. The copies of the name in reviews follow: `#[denormalize(from = author.name)]`.
pub(super) async fn change(
    shop: TenantSession,
    Path(id): Path<ObjectId>,
    Json(patch): Json<CustomerPatch>,
) -> odm::Result<Json<Customer>> {
    let changed = shop.update::<Customer>(id).apply(patch);
    Ok(Json(changed.returning_after().await?))
}
