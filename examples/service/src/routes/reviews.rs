//! Reviews of products.

use axum::{Router, http::StatusCode, routing::post};
use odm::prelude::*;

use crate::{
    ApiError, App,
    extract::{Json, Path},
    models::{Customer, NewReview, Review, TenantSession},
};

/// Returns the routes of this file.
pub(super) fn routes() -> Router<App> {
    Router::new().route("/products/{id}/reviews", post(create))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateReview {
    #[serde(with = "odm::json")]
    author: Ref<Customer>,
    stars: i64,
    text: String,
}

/// Stores a review. The insert fills the copy of the author's name, and updates the count and the sum of the product.
async fn create(
    shop: TenantSession,
    Path(product): Path<ObjectId>,
    Json(request): Json<CreateReview>,
) -> Result<(StatusCode, Json<Review>), ApiError> {
    let review = NewReview {
        id: ObjectId::new(),
        product: Ref::new(product),
        author: request.author,
        stars: request.stars,
        text: request.text,
        written: DateTime::now(),
    };
    Ok((StatusCode::CREATED, Json(shop.insert(review).await?)))
}
