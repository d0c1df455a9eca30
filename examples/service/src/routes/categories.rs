//! Categories of products.

use axum::{
    Router,
    http::StatusCode,
    routing::{delete, get},
};
use odm::prelude::*;

use crate::{
    ApiError, App,
    extract::{Json, Path},
    models::{Category, NewCategory, TenantSession},
};

/// The maximum number of listed categories.
const MAX_LISTED: u64 = 1_000;

/// Returns the routes of this file.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/categories", get(list).post(create))
        .route("/categories/{slug}", delete(remove))
}

/// Returns the category with a slug.
pub(super) async fn find_by_slug(shop: &TenantSession, slug: &str) -> Result<Category, ApiError> {
    let category = shop.find::<Category>().filter(|c| c.slug().eq(slug));
    let category = category.first().await?;
    category.ok_or_else(|| ApiError::UnknownCategory(slug.to_owned()))
}

async fn list(shop: TenantSession) -> Result<Json<Vec<Category>>, ApiError> {
    let categories = shop.find::<Category>().sort(|c| c.slug().asc());
    Ok(Json(categories.limit(MAX_LISTED).all().await?))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateCategory {
    slug: String,
    name: String,
}

async fn create(
    shop: TenantSession,
    Json(request): Json<CreateCategory>,
) -> Result<(StatusCode, Json<Category>), ApiError> {
    let CreateCategory { slug, name } = request;
    let id = ObjectId::new();
    let category = shop.insert(NewCategory { id, slug, name }).await?;
    Ok((StatusCode::CREATED, Json(category)))
}

/// Deletes a category. A category with products is an error of the database: `on_delete = restrict`.
async fn remove(shop: TenantSession, Path(slug): Path<String>) -> Result<StatusCode, ApiError> {
    match shop.delete_first::<Category>(|c| c.slug().eq(slug)).await? {
        Applied(_) => Ok(StatusCode::NO_CONTENT),
        NotApplied => Err(ApiError::NotFound),
    }
}
