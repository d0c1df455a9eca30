//! Positional `$`: reduces an array to the element that the filter matched.
//!
//! ```json
//! { "results.$": 1 }
//! ```

use bson::raw::CStr;
use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::path::{Path, PathPart};
use crate::{Error, Result, value};

/// Returns the document with the first array on the path reduced to the element at the position.
///
/// # Errors
/// The filter matched no array element (code 51246), or the array is too short (code 51247).
pub(super) fn only_matched(
    path: &Path,
    document: &RawDocument,
    position: Option<usize>,
) -> Result<RawDocumentBuf> {
    reduce_document(path.parts(), document, position)
}

fn reduce_document(
    parts: &[PathPart],
    document: &RawDocument,
    position: Option<usize>,
) -> Result<RawDocumentBuf> {
    let mut output = RawDocumentBuf::new();
    let (part, rest) = match parts.split_first() {
        Some((part, rest)) => (Some(part), rest),
        None => (None, parts),
    };
    for element in document.iter_elements().map_while(|element| element.ok()) {
        let Ok(value) = element.value() else { break };
        let key: &CStr = element.key();
        if part.is_none_or(|part| part.name() != key.as_str()) {
            output.append(key, value);
            continue;
        }
        let reduced = match value {
            RawBsonRef::Array(array) => {
                let position = position.ok_or_else(|| {
                    Error::with_server_code(
                        51246,
                        "positional '$' needs a filter that matches through an array element",
                    )
                })?;
                let item = value::items(array).nth(position).ok_or_else(|| {
                    Error::with_server_code(
                        51247,
                        "positional '$' is used on a shorter array than the array that the filter matched",
                    )
                })?;
                RawBson::Array([item].into_iter().collect::<RawArrayBuf>())
            }
            RawBsonRef::Document(inner) => {
                RawBson::Document(reduce_document(rest, inner, position)?)
            }
            value => RawBson::from(value),
        };
        output.append(key, reduced);
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn only_the_element_at_the_position_stays() {
        let document = rawdoc! { "a": { "b": [1, 2], "c": 3 } };
        let reduced = |position| only_matched(&Path::new("a.b"), &document, position);
        assert_eq!(
            reduced(Some(1)).unwrap(),
            rawdoc! { "a": { "b": [2], "c": 3 } }
        );
        assert_eq!(reduced(None).unwrap_err().code(), Some(51246));
        assert_eq!(reduced(Some(2)).unwrap_err().code(), Some(51247));
    }
}
