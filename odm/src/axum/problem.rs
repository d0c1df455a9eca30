//! Error answers of axum as problem details.

use axum_core::{
    body::Body,
    response::{IntoResponse, Response},
};
use futures_util::TryStreamExt;
use http::{HeaderMap, header};

use crate::Problem;

/// The maximum length of a text that becomes the title of a problem.
const MAX_TITLE_BYTES: usize = 4_096;

/// Turns an error answer with a plain text, or without a body, into problem details: a function for axum's `map_response`.
///
/// axum answers a malformed path, query or body with a plain text, and an unknown route or method with an empty body. A handler
/// can return a bare `StatusCode`. With this layer, clients get `application/problem+json` for all of these, as for an
/// [`Error`](crate::Error):
///
/// ```text
/// Router::new()
///     .route("/products/{id}", get(show))
///     .layer(axum::middleware::map_response(odm::axum::problem_details))
/// ```
///
/// The text becomes the title of the [`Problem`]. Without a text, the title is the phrase of the status, such as `Not Found`. The
/// status and all other headers stay, for example `Allow` of the status 405. Answers with a status below 400 stay unchanged, and
/// so do bodies of other media types, such as HTML and JSON.
///
/// ```
/// # use axum_core::response::IntoResponse;
/// # use http::StatusCode;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let rejection = (StatusCode::UNPROCESSABLE_ENTITY, "missing field `name`").into_response();
/// let answer = odm::axum::problem_details(rejection).await;
/// assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
/// assert_eq!(answer.headers()["content-type"], "application/problem+json");
/// // {"status":422,"title":"missing field `name`"}
/// # }
/// ```
pub async fn problem_details(response: Response) -> Response {
    let status = response.status();
    if !(status.is_client_error() || status.is_server_error()) || !is_text(response.headers()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let phrase = status.canonical_reason().unwrap_or("an error");
    let title = read_text(body).await.unwrap_or_else(|| phrase.to_owned());
    let problem = Problem::new(status.as_u16(), title).into_response();
    let (problem_parts, body) = problem.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.extend(problem_parts.headers);
    Response::from_parts(parts, body)
}

/// Returns whether the body is plain text that is not compressed, or has no media type.
fn is_text(headers: &HeaderMap) -> bool {
    !headers.contains_key(header::CONTENT_ENCODING)
        && headers.get(header::CONTENT_TYPE).is_none_or(|media_type| {
            let media_type = media_type.as_bytes();
            media_type.to_ascii_lowercase().starts_with(b"text/plain")
        })
}

/// Returns the text of a body, or `None` for an empty body, a body that cannot be read, and a body that is too long for a title.
async fn read_text(body: Body) -> Option<String> {
    let mut stream = body.into_data_stream();
    let mut text = Vec::new();
    while let Some(chunk) = stream.try_next().await.ok()? {
        if text.len() + chunk.len() > MAX_TITLE_BYTES {
            return None;
        }
        text.extend_from_slice(&chunk);
    }
    let text = String::from_utf8(text).ok()?;
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    /// Returns the status, the media type, the header `Allow`, and the body.
    async fn answer(response: impl IntoResponse) -> (u16, String, Option<String>, String) {
        let response = problem_details(response.into_response()).await;
        let header = |name| Some(response.headers().get(name)?.to_str().unwrap().to_owned());
        let (media_type, allow) = (header("content-type"), header("allow"));
        let status = response.status().as_u16();
        assert_eq!(header("content-length"), None);
        let body = read_text(response.into_body()).await.unwrap_or_default();
        (status, media_type.unwrap_or_default(), allow, body)
    }

    #[tokio::test]
    async fn plain_texts_and_bare_statuses_become_problems() {
        let (status, media_type, _, body) =
            answer((StatusCode::BAD_REQUEST, "expected a number")).await;
        assert_eq!((status, &*media_type), (400, "application/problem+json"));
        assert_eq!(body, r#"{"status":400,"title":"expected a number"}"#);

        let (.., body) = answer(StatusCode::NOT_FOUND).await;
        assert_eq!(body, r#"{"status":404,"title":"Not Found"}"#);

        let with_headers = [(header::ALLOW, "GET"), (header::CONTENT_LENGTH, "0")];
        let (status, _, allow, body) = answer((StatusCode::METHOD_NOT_ALLOWED, with_headers)).await;
        assert_eq!((status, allow.as_deref()), (405, Some("GET")));
        assert_eq!(body, r#"{"status":405,"title":"Method Not Allowed"}"#);
    }

    #[tokio::test]
    async fn other_answers_stay() {
        let html = [(header::CONTENT_TYPE, "text/html")];
        let (_, media_type, _, body) = answer((StatusCode::NOT_FOUND, html, "<p>gone</p>")).await;
        assert_eq!((&*media_type, &*body), ("text/html", "<p>gone</p>"));

        // A compressed text.
        let compressed = [(header::CONTENT_ENCODING, "gzip")];
        let answer_with_encoding = (StatusCode::NOT_FOUND, compressed, "\u{1f}...");
        let (_, media_type, _, body) = answer(answer_with_encoding).await;
        assert_eq!(
            (&*media_type, &*body),
            ("text/plain; charset=utf-8", "\u{1f}...")
        );

        let (status, media_type, _, body) = answer("fine").await;
        assert_eq!((status, &*body), (200, "fine"));
        assert_eq!(media_type, "text/plain; charset=utf-8");

        let problem = Problem::new(409, "sold out");
        let (.., body) = answer(problem).await;
        assert_eq!(body, r#"{"status":409,"title":"sold out"}"#);
    }

    #[tokio::test]
    async fn a_long_text_is_left_out() {
        let long = "x".repeat(MAX_TITLE_BYTES + 1);
        let (.., body) = answer((StatusCode::BAD_GATEWAY, long)).await;
        assert_eq!(body, r#"{"status":502,"title":"Bad Gateway"}"#);
    }
}
