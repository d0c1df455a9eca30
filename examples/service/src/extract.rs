//! Extractors: the tenant of a request, and the session of the tenant.

use std::time::Duration;

use axum::{extract::FromRequestParts, http::request::Parts};

use crate::{
    ApiError, App,
    models::{Tenant, TenantSession},
};

/// The time limit of each read of a request. A slower read is answered by the status 504.
const READ_LIMIT: Duration = Duration::from_secs(5);

/// The tenant of the request. This service trusts the header; take the tenant of the authenticated user in production.
impl FromRequestParts<App> for Tenant {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let name = parts.headers.get("x-tenant");
        let name = name.and_then(|name| name.to_str().ok());
        name.unwrap_or_default().parse()
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
