//! The error of a route, and the answer to the client.

use axum::{
    extract::rejection::{JsonRejection, PathRejection, QueryRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use odm::{Problem, Ref};

use crate::models::Product;

/// The error of a route.
///
/// Every error is answered by problem details in JSON, as in RFC 9457: `{"status":409,"title":"…"}`.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ApiError {
    /// An error of the database. The crate `odm` chooses the status and the text for the client.
    #[error(transparent)]
    Database(#[from] odm::Error),
    /// The header `x-tenant` is missing or invalid.
    #[error(
        "the header `x-tenant` must contain a tenant: up to 40 lower-case letters, digits, `-` and `_`"
    )]
    InvalidTenant,
    /// The header `If-Match` contains no version.
    #[error("the header `If-Match` must contain the `version` of the product in quotes")]
    InvalidIfMatch,
    /// The document of the URL does not exist.
    #[error("the document does not exist")]
    NotFound,
    /// No category has the slug.
    #[error("there is no category `{0}`")]
    UnknownCategory(String),
    /// The stock of a product is too small for an order.
    #[error("product {0} is not in stock in the ordered quantity")]
    SoldOut(Ref<Product>),
    /// A product does not have the version of `If-Match`.
    #[error("another request has changed the product: read the product again")]
    OutdatedVersion,
    /// axum rejected the path, the query or the body of the request.
    #[error("{text}")]
    Rejected {
        /// The status of the answer.
        status: StatusCode,
        /// The text for the client.
        text: String,
    },
    /// No route has the path.
    #[error("there is no such route")]
    UnknownRoute,
    /// The route has no handler for the method.
    #[error("the route does not support the method")]
    UnknownMethod,
}

impl ApiError {
    /// Returns the status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Database(error) => {
                StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }
            Self::InvalidTenant | Self::InvalidIfMatch => StatusCode::BAD_REQUEST,
            Self::NotFound | Self::UnknownRoute => StatusCode::NOT_FOUND,
            Self::UnknownMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::SoldOut(_) => StatusCode::CONFLICT,
            Self::OutdatedVersion => StatusCode::PRECONDITION_FAILED,
            Self::UnknownCategory(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Rejected { status, .. } => *status,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.status();
        match self {
            // Logs errors of the server, and shows the client no values of documents.
            Self::Database(error) => error.into_response(),
            own => Problem::new(status.as_u16(), own.to_string()).into_response(),
        }
    }
}

macro_rules! from_rejections {
    ($($rejection:ty),*) => {$(
        impl From<$rejection> for ApiError {
            fn from(rejection: $rejection) -> Self {
                Self::Rejected {
                    status: rejection.status(),
                    text: rejection.body_text(),
                }
            }
        }
    )*};
}

from_rejections!(JsonRejection, PathRejection, QueryRejection);
