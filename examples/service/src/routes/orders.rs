//! Orders: a transaction over the stock of several products.

use std::time::Duration;

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::{get, post},
};
use odm::prelude::*;

use crate::{
    ApiError, App,
    extract::{Json, Path},
    models::{Customer, NewOrder, NewOrderLine, Order, Product, Tenant, TenantSession},
};

/// The time limit of an order, with all attempts after conflicts with concurrent orders.
const ORDER_LIMIT: Duration = Duration::from_secs(10);

/// Returns the routes of this file.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/orders", post(create))
        .route("/orders/{id}", get(show))
}

/// The body of `POST /orders`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateOrder {
    #[serde(with = "odm::json")]
    customer: Ref<Customer>,
    lines: Vec<CreateLine>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateLine {
    #[serde(with = "odm::json")]
    product: Ref<Product>,
    quantity: u32,
}

/// Stores an order, if all products are in stock. Otherwise the transaction is aborted, and no stock changes.
async fn create(
    State(app): State<App>,
    tenant: Tenant,
    Json(request): Json<CreateOrder>,
) -> Result<impl IntoResponse, ApiError> {
    // After a conflict the closure runs again, so the closure borrows the request.
    let order = app
        .db
        .transaction(async |tx| place_order(&tx.scope(&tenant), &request).await);
    let order = order.timeout(ORDER_LIMIT).await?;
    let location = [(header::LOCATION, format!("/orders/{}", order.id))];
    Ok((StatusCode::CREATED, location, Json(order)))
}

/// Takes the pieces out of the stock, and inserts the order. The insert fills the names, the prices and the total.
async fn place_order(shop: &TenantSession, request: &CreateOrder) -> Result<Order, ApiError> {
    for line in &request.lines {
        let pieces = i64::from(line.quantity);
        let taken = shop
            .update::<Product>(line.product)
            .when(|p| p.stock().gte(line.quantity))
            .inc(|p| p.stock(), -pieces)
            .await?;
        if !taken.is_applied() {
            return Err(ApiError::SoldOut(line.product));
        }
    }
    let lines = request.lines.iter().map(|line| NewOrderLine {
        product: line.product,
        quantity: line.quantity,
    });
    let order = shop.insert(NewOrder {
        id: ObjectId::new(),
        customer: request.customer,
        placed: DateTime::now(),
        lines: lines.collect(),
    });
    Ok(order.await?)
}

/// The answer to `GET /orders/{id}`.
#[derive(Debug, Serialize)]
struct OrderDetails {
    order: Order,
    customer: Link<Customer>,
}

async fn show(
    shop: TenantSession,
    Path(id): Path<ObjectId>,
) -> Result<Json<OrderDetails>, ApiError> {
    let (order, customer) = shop.get::<Order>(id).with(|o| o.customer()).await?;
    Ok(Json(OrderDetails { order, customer }))
}
