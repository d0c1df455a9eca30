//! The catalog: pages of products, and single products.

use axum::{
    Router,
    http::{HeaderName, StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use odm::{Page, PageToken, prelude::*};

use super::categories;
use crate::{
    ApiError, App,
    extract::{IfMatch, Json, Path, Query},
    models::{Category, NewProduct, Product, Review, TenantSession},
};

/// The number of products on a page, unless the request names another number.
const DEFAULT_PAGE_SIZE: u32 = 20;

/// The maximum number of products on a page.
const MAX_PAGE_SIZE: u32 = 100;

/// The number of reviews in the answer to `GET /products/{id}`.
const LATEST_REVIEWS: u64 = 10;

/// Returns the routes of this file.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/products", get(list).post(create))
        .route("/products/{id}", get(show).patch(change).delete(remove))
}

/// The parameters of `GET /products`.
#[derive(Debug, Deserialize)]
struct ListQuery {
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
async fn list(
    shop: TenantSession,
    Query(query): Query<ListQuery>,
) -> Result<Json<Page<Product>>, ApiError> {
    let category = match &query.category {
        Some(slug) => Some(categories::find_by_slug(&shop, slug).await?),
        None => None,
    };
    let size = query.size.unwrap_or(DEFAULT_PAGE_SIZE);
    // A filter of `None` adds no condition.
    let page = shop
        .find::<Product>()
        .filter(|p| category.as_ref().map(|category| p.category().eq(category)))
        .filter(|p| query.prefix.map(|prefix| p.name().starts_with(&prefix)))
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

/// The body of `POST /products`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateProduct {
    sku: String,
    name: String,
    price: i64,
    stock: u32,
    /// The slug of the category.
    category: String,
}

async fn create(
    shop: TenantSession,
    Json(request): Json<CreateProduct>,
) -> Result<impl IntoResponse, ApiError> {
    let category = categories::find_by_slug(&shop, &request.category).await?;
    let product = shop
        .insert(NewProduct {
            id: ObjectId::new(),
            sku: request.sku,
            name: request.name,
            price: request.price,
            stock: request.stock,
            category: category.to_ref(),
        })
        .await?;
    let location = [(header::LOCATION, format!("/products/{}", product.id))];
    Ok((StatusCode::CREATED, location, etag(&product), Json(product)))
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
async fn show(
    shop: TenantSession,
    Path(id): Path<ObjectId>,
) -> Result<impl IntoResponse, ApiError> {
    let latest = Review::by(|r| r.product()).sort(|r| r.written().desc());
    let (product, category, reviews) = shop
        .get::<Product>(id)
        .with(|p| p.category())
        .with_children(latest.limit(LATEST_REVIEWS))
        .await?;
    let etag = etag(&product);
    let details = ProductDetails {
        product,
        category,
        reviews,
    };
    Ok((etag, Json(details)))
}

/// The body of `PATCH /products/{id}`. A missing field stays unchanged.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeProduct {
    name: Option<String>,
    price: Option<i64>,
    stock: Option<u32>,
}

/// Changes a product in one atomic step, if the product has the version of `If-Match`.
async fn change(
    shop: TenantSession,
    Path(id): Path<ObjectId>,
    IfMatch(version): IfMatch,
    Json(request): Json<ChangeProduct>,
) -> Result<impl IntoResponse, ApiError> {
    let mut update = shop
        .update::<Product>(id)
        .when(|p| version.map(|version| p.version().eq(version)));
    if let Some(name) = request.name {
        update = update.set(|p| p.name(), name);
    }
    if let Some(price) = request.price {
        update = update.set(|p| p.price(), price);
    }
    if let Some(stock) = request.stock {
        update = update.set(|p| p.stock(), stock);
    }
    match update.returning_after().await? {
        Applied(product) => Ok((etag(&product), Json(product))),
        NotApplied => {
            // A missing product is an error here.
            shop.get::<Product>(id).await?;
            Err(ApiError::OutdatedVersion)
        }
    }
}

/// Deletes a product with its reviews. A product with orders is an error of the database: `on_delete = restrict`.
async fn remove(shop: TenantSession, Path(id): Path<ObjectId>) -> Result<StatusCode, ApiError> {
    match shop.delete::<Product>(id).await?.is_applied() {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ApiError::NotFound),
    }
}

/// Returns the header `ETag` with the version of a product, for `If-Match` of the next request.
fn etag(product: &Product) -> [(HeaderName, String); 1] {
    [(header::ETAG, format!("\"{}\"", product.version))]
}
