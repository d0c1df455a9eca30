//! Extractors: the parts of a request that handlers take as arguments.
//!
//! [`Json`], [`Path`] and [`Query`] are axum's extractors with problem details as the answer to a malformed request.

use std::time::Duration;

use axum::{
    extract::{FromRequest, FromRequestParts},
    http::{header, request::Parts},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use crate::{
    ApiError, App,
    models::{Tenant, TenantSession},
};

/// The header with the tenant.
const TENANT_HEADER: &str = "x-tenant";

/// The time limit of each read of a request. A slower read is answered by the status 504.
const READ_LIMIT: Duration = Duration::from_secs(5);

/// The body of a request, or the body of an answer.
#[derive(Debug, FromRequest)]
#[from_request(via(axum::Json), rejection(ApiError))]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

/// The parameters in the path of a request.
#[derive(Debug, FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(ApiError))]
pub(crate) struct Path<T>(pub(crate) T);

/// The parameters after the `?` of a request.
#[derive(Debug, FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(ApiError))]
pub(crate) struct Query<T>(pub(crate) T);

/// The version in the header `If-Match: "7"`, if the request has the header.
#[derive(Debug)]
pub(crate) struct IfMatch(pub(crate) Option<i64>);

impl FromRequestParts<App> for IfMatch {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let Some(value) = parts.headers.get(header::IF_MATCH) else {
            return Ok(Self(None));
        };
        let version = value.to_str().ok().map(|text| text.trim_matches('"'));
        let version = version.and_then(|text| text.parse().ok());
        version
            .map(|version| Self(Some(version)))
            .ok_or(ApiError::InvalidIfMatch)
    }
}

/// The tenant of the request. This service trusts the header; take the tenant of the authenticated user in production.
impl FromRequestParts<App> for Tenant {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let name = parts.headers.get(TENANT_HEADER);
        let name = name.and_then(|name| name.to_str().ok());
        name.ok_or(ApiError::InvalidTenant)?.parse()
    }
}

/// A session that reaches the documents of the request's tenant alone. A handler with this argument cannot mix up tenants.
impl FromRequestParts<App> for TenantSession {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let tenant = Tenant::from_request_parts(parts, app).await?;
        Ok(app.db.max_time(READ_LIMIT).scope(&tenant))
    }
}
