//! Errors as answers of a web service: the HTTP status, and problem details without internals.

use std::borrow::Cow;

use serde::Serialize;

use super::{Error, ErrorKind};

/// The part of an error that a web service can show to a client: problem details as in RFC 9457.
///
/// The text of an [`Error`] is for the log: it can contain ids, stored values, names of collections and addresses of servers. A
/// problem contains the kind, the paths of rejected fields, and the messages of the application's own validation rules.
///
/// The JSON form has the media type `application/problem+json`. With the feature `axum`, [`Error`] and `Problem` are responses of
/// axum.
///
/// ```
/// # use odm::{Error, ErrorKind};
/// let error = Error::new(ErrorKind::DuplicateKey, "a document with { email: \"ann@example.org\" } exists").with_path("email");
/// let problem = error.to_problem();
/// assert_eq!((problem.status, &*problem.title), (409, "the value exists already"));
/// assert_eq!(problem.path.as_deref(), Some("email"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// The HTTP status: see [`Error::status`].
    pub status: u16,
    /// A short text for the kind of the error.
    pub title: Cow<'static, str>,
    /// The path of the field, with stored field names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The values that break validation rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
}

impl Problem {
    /// Returns a problem of the application, in the same form as the problems of the database.
    #[must_use]
    pub fn new(status: u16, title: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            title: title.into(),
            path: None,
            violations: Vec::new(),
        }
    }
}

/// A value that breaks a validation rule of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Violation {
    /// The path of the value, with stored field names.
    pub path: String,
    /// The message of the rule.
    pub message: String,
}

impl ErrorKind {
    /// Returns the HTTP status with which a web service answers errors of this kind: see [`Error::status`].
    const fn status(self) -> u16 {
        match self {
            Self::Invalid | Self::Encode | Self::InvalidPageToken => 400,
            Self::NotFound => 404,
            Self::DuplicateKey
            | Self::Conflict
            | Self::AlreadyLinked
            | Self::Restricted
            | Self::NotApplied => 409,
            Self::HistoryLost => 410,
            Self::WriteTooLarge => 413,
            Self::Validation | Self::Dangling | Self::TooManyElements => 422,
            Self::Unsupported => 501,
            Self::Connection
            | Self::InUse
            | Self::StillPending
            | Self::TransactionExpired
            | Self::Closed => 503,
            Self::Timeout => 504,
            Self::StorageFull => 507,
            Self::NotUnique
            | Self::Decode
            | Self::MissingIndex
            | Self::Committed
            | Self::InvalidUrl
            | Self::Damaged
            | Self::TransactionOver
            | Self::OutsideTransaction
            | Self::TargetNotEmpty
            | Self::CopyDiffers
            | Self::Io
            | Self::Backend
            | Self::Other => 500,
        }
    }

    /// Returns a text without internals of the server.
    const fn title(self) -> &'static str {
        match self {
            Self::InvalidPageToken => "the page token is invalid",
            Self::NotFound => "the document does not exist",
            Self::DuplicateKey => "the value exists already",
            Self::Conflict => "another write came first",
            Self::AlreadyLinked => "the referenced document is linked already",
            Self::Restricted => "other documents refer to the document",
            Self::NotApplied => "the condition of the write is false",
            Self::HistoryLost => "the changes are no longer available",
            Self::WriteTooLarge => "the write is too large",
            Self::Dangling => "the referenced document does not exist",
            Self::TooManyElements => "an array has no room for another element",
            Self::Encode => "a value cannot be stored",
            Self::Validation => "values break the rules",
            Self::Invalid => "the operation is invalid",
            Self::Unsupported => "the operation is not supported",
            Self::Connection
            | Self::InUse
            | Self::StillPending
            | Self::TransactionExpired
            | Self::Closed => "the service is not available",
            Self::Timeout => "the operation took too long",
            Self::StorageFull => "the storage is full",
            Self::Committed => {
                "the data is stored, but a later step failed: do not repeat the request"
            }
            Self::NotUnique
            | Self::Decode
            | Self::MissingIndex
            | Self::InvalidUrl
            | Self::Damaged
            | Self::TransactionOver
            | Self::OutsideTransaction
            | Self::TargetNotEmpty
            | Self::CopyDiffers
            | Self::Io
            | Self::Backend
            | Self::Other => "an internal error",
        }
    }
}

impl Error {
    /// Returns the HTTP status with which a web service answers the error.
    ///
    /// | status | kinds |
    /// |---|---|
    /// | 400 | `Invalid`, `Encode`, `InvalidPageToken` |
    /// | 404 | `NotFound` |
    /// | 409 | `DuplicateKey`, `Conflict`, `NotApplied`, `AlreadyLinked`, `Restricted` |
    /// | 410 | `HistoryLost` |
    /// | 413 | `WriteTooLarge` |
    /// | 422 | `Validation`, `Dangling`, `TooManyElements` |
    /// | 500 | `NotUnique`, `Decode`, `MissingIndex`, `Committed`, `InvalidUrl`, `Damaged`, `TransactionOver`, `OutsideTransaction`, `TargetNotEmpty`, `CopyDiffers`, `Io`, `Backend`, `Other` |
    /// | 501 | `Unsupported` |
    /// | 503 | `Connection`, `InUse`, `StillPending`, `TransactionExpired`, `Closed` |
    /// | 504 | `Timeout` |
    /// | 507 | `StorageFull` |
    ///
    /// A client can repeat a request after a `Conflict`: nothing was written. After a `Connection` error the outcome of a write is
    /// unknown.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.kind().status()
    }

    /// Returns the part of the error that a web service can show to a client.
    #[must_use]
    pub fn to_problem(&self) -> Problem {
        let violations = self.violations().map(|(path, message)| Violation {
            path: path.to_owned(),
            message: message.to_owned(),
        });
        let is_fault_of_client = self.status() < 500;
        Problem {
            status: self.status(),
            title: self.kind().title().into(),
            path: self
                .path()
                .filter(|_| is_fault_of_client)
                .map(str::to_owned),
            violations: violations.collect(),
        }
    }
}

#[cfg(feature = "axum")]
mod response {
    use axum_core::response::{IntoResponse, Response};
    use http::{HeaderName, HeaderValue, StatusCode, header};

    use super::{Error, ErrorKind, Problem};

    /// A client can repeat the request after a second.
    const RETRY: (HeaderName, HeaderValue) = (header::RETRY_AFTER, HeaderValue::from_static("1"));

    const PROBLEM_JSON: (HeaderName, HeaderValue) = (
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/problem+json"),
    );

    impl IntoResponse for Problem {
        fn into_response(self) -> Response {
            let status = StatusCode::from_u16(self.status);
            let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            // A problem consists of texts and a number, so the serialization cannot fail.
            let body = serde_json::to_vec(&self).unwrap_or_default();
            (status, [PROBLEM_JSON], body).into_response()
        }
    }

    /// Logs errors with a status of 500 and above, and answers with the [`Problem`] of the error. After a conflict, and while
    /// work is pending, the header `Retry-After` tells the client to repeat the request.
    impl IntoResponse for Error {
        fn into_response(self) -> Response {
            if self.status() >= 500 {
                tracing::error!(target: "odm::http", error = %self, "a request failed");
            }
            let problem = self.to_problem();
            match self.kind() {
                ErrorKind::Conflict | ErrorKind::StillPending => ([RETRY], problem).into_response(),
                _ => problem.into_response(),
            }
        }
    }
}

#[cfg(all(test, feature = "axum"))]
mod tests {
    use axum_core::response::IntoResponse;

    use super::{Error, ErrorKind};

    #[test]
    fn an_error_is_a_response() {
        let header = |kind, name| {
            let response = Error::new(kind, "secret text").into_response();
            let value = response.headers().get(name);
            let value = value.map(|value| value.to_str().unwrap().to_owned());
            (response.status().as_u16(), value)
        };
        let problem = Some("application/problem+json".to_owned());
        assert_eq!(
            header(ErrorKind::NotFound, "content-type"),
            (404, problem.clone())
        );
        assert_eq!(header(ErrorKind::Decode, "content-type"), (500, problem));
        assert_eq!(
            header(ErrorKind::Conflict, "retry-after"),
            (409, Some("1".to_owned()))
        );
        assert_eq!(header(ErrorKind::DuplicateKey, "retry-after"), (409, None));
    }
}
