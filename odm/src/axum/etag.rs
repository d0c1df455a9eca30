//! The version of a document as an entity tag.

use axum_core::{
    extract::FromRequestParts,
    response::{IntoResponseParts, ResponseParts},
};
use http::{HeaderValue, header, request::Parts};

use crate::Problem;

/// The header `ETag` of an answer: the `version` of a document, in quotes.
///
/// A client sends the text back in the header `If-Match`, and [`IfMatch`] reads the text.
///
/// ```
/// # use axum_core::response::IntoResponse;
/// use odm::axum::ETag;
///
/// let response = (ETag(7), "a document of version 7").into_response();
/// assert_eq!(response.headers()["etag"], "\"7\"");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ETag(pub i64);

impl IntoResponseParts for ETag {
    type Error = std::convert::Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Self::Error> {
        let tag = HeaderValue::try_from(format!("\"{}\"", self.0));
        // Digits and quotes are valid in a header.
        parts
            .headers_mut()
            .extend(tag.map(|tag| (header::ETAG, tag)));
        Ok(parts)
    }
}

/// The header `If-Match` of a request: the `version` that a document must have for a change.
///
/// The value is `None` without the header, and for `If-Match: *`. Any other text than one [`ETag`] is answered by the status 400.
///
/// Make the version a condition of the update. Then the database compares the version in the same step as the change:
///
/// ```
/// use odm::{axum::IfMatch, prelude::*};
/// # #[derive(Debug, Serialize, Deserialize, Document)]
/// # #[document(collection = "notes", version)]
/// # struct Note { #[serde(rename = "_id")] id: i64, text: String, version: i64 }
/// # #[derive(Schema)] #[schema(models(Note))] struct Notes;
///
/// async fn rewrite(
///     db: &odm::Database<Notes>,
///     id: i64,
///     IfMatch(version): IfMatch,
///     text: &str,
/// ) -> odm::Result<bool> {
///     let update = db.update::<Note>(id).when(|n| version.map(|version| n.version().eq(version)));
///     Ok(update.set(|n| n.text(), text).await?.is_applied())
/// }
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// # let db = odm::Database::open("memory:").await?;
/// # db.insert(NewNote { id: 7, text: "buy nails".into() }).await?;
///
/// assert!(rewrite(&db, 7, IfMatch(Some(1)), "buy screws").await?);
/// assert!(!rewrite(&db, 7, IfMatch(Some(1)), "buy glue").await?); // the version is 2
/// # assert!(rewrite(&db, 7, IfMatch(None), "buy glue").await?);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IfMatch(pub Option<i64>);

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let mut values = parts.headers.get_all(header::IF_MATCH).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(Self(None)),
            (Some(value), None) => parse_tag(value).ok_or_else(invalid_tag),
            // Several headers are a list of tags.
            (Some(_), Some(_)) => Err(invalid_tag()),
        }
    }
}

/// Parses `*` or a strong entity tag with a version. `If-Match` compares strong tags only, and a weak tag begins with `W/`.
fn parse_tag(value: &HeaderValue) -> Option<IfMatch> {
    let text = value.to_str().ok()?.trim();
    if text == "*" {
        return Some(IfMatch(None));
    }
    let text = text.strip_prefix('"')?.strip_suffix('"')?;
    let version: i64 = text.parse().ok()?;
    // A tag is compared as a text: `+7` and `007` are other tags than `7`.
    (version.to_string() == text).then_some(IfMatch(Some(version)))
}

fn invalid_tag() -> Problem {
    Problem::new(
        400,
        "the header `If-Match` must be the `ETag` of one document, such as \"7\" in quotes",
    )
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::{FromRequestParts, IfMatch};

    async fn if_match(values: &[&str]) -> Result<Option<i64>, u16> {
        let mut request = Request::builder();
        for value in values {
            request = request.header("if-match", *value);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        let tag = IfMatch::from_request_parts(&mut parts, &()).await;
        tag.map(|IfMatch(version)| version)
            .map_err(|problem| problem.status)
    }

    #[tokio::test]
    async fn one_strong_tag_is_a_version() {
        assert_eq!(if_match(&[]).await, Ok(None));
        assert_eq!(if_match(&["*"]).await, Ok(None));
        assert_eq!(if_match(&["\"7\""]).await, Ok(Some(7)));
        for invalid in [
            "7",
            "\"seven\"",
            "W/\"7\"",
            "\"7\", \"8\"",
            "\"\"",
            "\"7",
            "\"+7\"",
            "\"007\"",
        ] {
            assert_eq!(if_match(&[invalid]).await, Err(400), "{invalid}");
        }
        assert_eq!(if_match(&["\"7\"", "\"8\""]).await, Err(400));
    }
}
