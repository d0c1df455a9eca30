//! The catalog: pages of products, single products, and their reviews.

use axum::{
    Json,
    extract::{Path, Query},
    http::{StatusCode, header},
    response::IntoResponse,
};
use odm::{
    Page, PageToken,
    axum::{ETag, IfMatch},
    prelude::*,
};

use crate::{
    ApiError,
    models::{Category, Customer, NewProduct, NewReview, Product, Review, TenantSession},
};

/// The number of products on a page, unless the request names another number.
const DEFAULT_PAGE_SIZE: u32 = 20;

/// The maximum number of products on a page.
const MAX_PAGE_SIZE: u32 = 100;

/// The number of reviews in the answer to `GET /products/{id}`.
const LATEST_REVIEWS: u64 = 10;

/// The parameters of `GET /products`.
#[derive(Debug, Deserialize)]
pub(super) struct ListQuery {
    /// The slug of a category.
    category: Option<String>,
    /// The beginning of the name, with upper and lower case.
    prefix: Option<String>,
    min_price: Option<i64>,
    max_price: Option<i64>,
    #[serde(default)]
    sort: SortBy,
    size: Option<u32>,
    /// The `next` of the previous page.
    after: Option<PageToken>,
    /// The `previous` of the next page.
    before: Option<PageToken>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SortBy {
    #[default]
    Name,
    Price,
    Newest,
}

/// Returns a page. The tokens of the next and the previous page are valid for the same filter and order only.
pub(super) async fn list(
    shop: TenantSession,
    Query(query): Query<ListQuery>,
) -> Result<Json<Page<Product>>, ApiError> {
    let category = match &query.category {
        Some(slug) => Some(find_category(&shop, slug).await?),
        None => None,
    };
    let size = query.size.unwrap_or(DEFAULT_PAGE_SIZE);
    // A filter of `None` adds no condition.
    let page = shop
        .find::<Product>()
        .filter(|p| category.map(|category| p.category().eq(category)))
        .filter(|p| query.prefix.map(|prefix| p.name().starts_with(prefix)))
        .filter(|p| query.min_price.map(|min| p.price().gte(min)))
        .filter(|p| query.max_price.map(|max| p.price().lte(max)))
        .sort(|p| match query.sort {
            SortBy::Name => p.name().asc(),
            SortBy::Price => p.price().asc(),
            SortBy::Newest => p.created_at().desc(),
        })
        .page(size.clamp(1, MAX_PAGE_SIZE))
        .after(query.after)
        .before(query.before)
        .await?;
    Ok(Json(page))
}

/// The body of `POST /products`: a product with the slug of its category.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateProduct {
    sku: String,
    name: String,
    price: i64,
    stock: u32,
    category: String,
}

pub(super) async fn create(
    shop: TenantSession,
    Json(request): Json<CreateProduct>,
) -> Result<impl IntoResponse, ApiError> {
    let category = find_category(&shop, &request.category).await?;
    let new = NewProduct {
        sku: request.sku,
        name: request.name,
        price: request.price,
        stock: request.stock,
        category,
    };
    let product = shop.insert(new).await?;
    let location = [(header::LOCATION, format!("/products/{}", product.id))];
    let version = ETag(product.version);
    Ok((StatusCode::CREATED, location, version, Json(product)))
}

/// The answer to `GET /products/{id}`.
#[derive(Debug, Serialize)]
struct ProductDetails {
    product: Product,
    category: Link<Category>,
    /// The latest reviews first.
    reviews: Vec<Review>,
}

/// Returns a product with its category and the latest reviews: three operations of the database.
pub(super) async fn show(
    shop: TenantSession,
    Path(id): Path<ObjectId>,
) -> odm::Result<impl IntoResponse> {
    let latest = Review::by(|r| r.product()).sort(|r| r.written().desc());
    let (product, category, reviews) = shop
        .get::<Product>(id)
        .with(|p| p.category())
        .with_children(latest.limit(LATEST_REVIEWS))
        .await?;
    let version = ETag(product.version);
    let details = ProductDetails {
        product,
        category,
        reviews,
    };
    Ok((version, Json(details)))
}

/// The body of `PATCH /products/{id}`. A missing field stays unchanged.
#[derive(Debug, Patch)]
#[patch(of = Product)]
#[serde(deny_unknown_fields)]
pub(super) struct ProductPatch {
    name: Option<String>,
    price: Option<i64>,
    stock: Option<u32>,
}

/// Changes a product in one atomic step, if the product has the version of `If-Match`.
pub(super) async fn change(
    shop: TenantSession,
    Path(id): Path<ObjectId>,
    IfMatch(version): IfMatch,
    Json(patch): Json<ProductPatch>,
) -> Result<impl IntoResponse, ApiError> {
    let update = shop
        .update::<Product>(id)
        .when(|p| version.map(|version| p.version().eq(version)))
        .apply(patch);
    match update.returning_after().await? {
        Applied(product) => Ok((ETag(product.version), Json(product))),
        NotApplied => {
            // A missing product is an error here.
            shop.get::<Product>(id).await?;
            Err(ApiError::OutdatedVersion)
        }
    }
}

/// Deletes a product with its reviews. A product with orders is an error of the database: `on_delete = restrict`.
pub(super) async fn remove(
    shop: TenantSession,
    Path(id): Path<ObjectId>,
) -> odm::Result<StatusCode> {
    let deleted = shop.delete::<Product>(id).await?;
    Ok(super::status_of_delete(deleted.is_applied()))
}

/// The body of `POST /products/{id}/reviews`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateReview {
    #[serde(with = "odm::json")]
    author: Ref<Customer>,
    stars: i64,
    text: String,
}

/// Stores a review. The insert fills the copy of the author's name, and updates the count and the sum of the product.
pub(super) async fn review(
    shop: TenantSession,
    Path(product): Path<ObjectId>,
    Json(request): Json<CreateReview>,
) -> odm::Result<(StatusCode, Json<Review>)> {
    let new = NewReview {
        product: Ref::new(product),
        author: request.author,
        stars: request.stars,
        text: request.text,
    };
    Ok((StatusCode::CREATED, Json(shop.insert(new).await?)))
}

/// Returns the category with a slug.
async fn find_category(shop: &TenantSession, slug: &str) -> Result<Ref<Category>, ApiError> {
    let category = shop.find::<Category>().filter(|c| c.slug().eq(slug));
    match category.first().await? {
        Some(category) => Ok(category.to_ref()),
        None => Err(ApiError::UnknownCategory(slug.to_owned())),
    }
}
