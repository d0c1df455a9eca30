//! Orders: a transaction over the stock of several products.

use std::time::Duration;

use axum::{
    Json,
    extract::{Path, State},
    http::{StatusCode, header},
    response::IntoResponse,
};
use odm::{ErrorKind, prelude::*};

use crate::{
    ApiError, App,
    models::{Customer, NewOrder, Order, Product, Tenant, TenantSession},
};

/// The time limit of an order, with all attempts after conflicts with concurrent orders.
const ORDER_LIMIT: Duration = Duration::from_secs(10);

/// Stores an order, if all products are in stock. Otherwise the transaction is aborted, and no stock changes.
pub(super) async fn create(
    State(app): State<App>,
    tenant: Tenant,
    Json(new): Json<NewOrder>,
) -> Result<impl IntoResponse, ApiError> {
    // After a conflict the closure runs again, so the closure borrows the request.
    let order = app
        .db
        .transaction(async |tx| place_order(&tx.scope(&tenant), &new).await);
    let order = order.timeout(ORDER_LIMIT).await?;
    let location = [(header::LOCATION, format!("/orders/{}", order.id))];
    Ok((StatusCode::CREATED, location, Json(order)))
}

/// Takes the pieces out of the stock, and inserts the order. The insert fills the names, the prices and the total.
async fn place_order(shop: &TenantSession, new: &NewOrder) -> Result<Order, ApiError> {
    let takes = new.lines.iter().map(|line| {
        let product = shop.update::<Product>(line.product);
        let in_stock = product.when(|p| p.stock().gte(line.quantity));
        in_stock.inc(|p| p.stock(), -i64::from(line.quantity))
    });
    let taken = shop.bulk().add_all(takes).all_or_nothing().await;
    taken.map_err(|error| sold_out(new, error))?;
    Ok(shop.insert(new.clone()).await?)
}

/// Names the product of the first line that did not apply.
fn sold_out(new: &NewOrder, error: odm::Error) -> ApiError {
    let line = error.failures().next().map(|(position, _)| position);
    match line.and_then(|position| new.lines.get(position)) {
        Some(line) if error.kind() == ErrorKind::NotApplied => ApiError::SoldOut(line.product),
        _ => error.into(),
    }
}

/// The answer to `GET /orders/{id}`.
#[derive(Debug, Serialize)]
pub(super) struct OrderDetails {
    order: Order,
    customer: Link<Customer>,
}

pub(super) async fn show(
    shop: TenantSession,
    Path(id): Path<ObjectId>,
) -> odm::Result<Json<OrderDetails>> {
    let (order, customer) = shop.get::<Order>(id).with(|o| o.customer()).await?;
    Ok(Json(OrderDetails { order, customer }))
}
