//! The error of a route, and the answer to the client.
#![expect(missing_docs, reason = "the text for the client explains a variant")]

use axum::response::{IntoResponse, Response};
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
    #[error("the header `x-tenant` must be a tenant: 1 to 40 of a-z, 0-9, `-` and `_`")]
    InvalidTenant,
    #[error("there is no category `{0}`")]
    UnknownCategory(String),
    #[error("product {0} is not in stock in the ordered quantity")]
    SoldOut(Ref<Product>),
    #[error("another request has changed the product: read the product again")]
    OutdatedVersion,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = match &self {
            // Logs errors of the server, and shows the client no values of documents.
            Self::Database(error) => return error.clone().into_response(),
            Self::InvalidTenant => 400,
            Self::SoldOut(_) => 409,
            Self::OutdatedVersion => 412,
            Self::UnknownCategory(_) => 422,
        };
        Problem::new(status, self.to_string()).into_response()
    }
}
