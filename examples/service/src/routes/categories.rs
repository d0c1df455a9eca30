//! Categories of products.

use axum::{Json, extract::Path, http::StatusCode};

use crate::models::{Category, NewCategory, TenantSession};

/// The maximum number of listed categories.
const MAX_LISTED: u64 = 1_000;

pub(super) async fn list(shop: TenantSession) -> odm::Result<Json<Vec<Category>>> {
    let categories = shop.find::<Category>().sort(|c| c.slug().asc());
    Ok(Json(categories.limit(MAX_LISTED).all().await?))
}

pub(super) async fn create(
    shop: TenantSession,
    Json(new): Json<NewCategory>,
) -> odm::Result<(StatusCode, Json<Category>)> {
    Ok((StatusCode::CREATED, Json(shop.insert(new).await?)))
}

/// Deletes a category. A category with products is an error of the database: `on_delete = restrict`.
pub(super) async fn remove(
    shop: TenantSession,
    Path(slug): Path<String>,
) -> odm::Result<StatusCode> {
    let deleted = shop.delete_first::<Category>(|c| c.slug().eq(slug)).await?;
    Ok(super::status_of_delete(deleted.is_applied()))
}
