//! `$function`, `$meta`: operators that the engine does not support.
//!
//! ```text
//! { "$function": { "body": "function() { return 1 }", "args": [], "lang": "js" } } → error
//! { "$meta": "textScore" } → error
//! ```

use bson::RawBsonRef;

use crate::expression::Expression;
use crate::expression::call::OperatorCall;
use crate::{Error, Result, value};

/// MongoDB's kinds of document metadata, sorted.
const METADATA_KINDS: &[&str] = &[
    "geoNearDistance",
    "geoNearPoint",
    "indexKey",
    "randVal",
    "recordId",
    "searchHighlights",
    "searchScore",
    "searchScoreDetails",
    "sortKey",
    "textScore",
    "timeseriesBucketMaxTime",
    "timeseriesBucketMinTime",
];

pub(super) fn parse_function(_call: &OperatorCall<'_>) -> Result<Expression> {
    let message = "$function is not supported: the engine does not run JavaScript";
    Err(Error::not_supported(message))
}

pub(super) fn parse_meta(call: &OperatorCall<'_>) -> Result<Expression> {
    let RawBsonRef::String(name) = call.operand else {
        let type_name = value::type_name(call.operand);
        let message = format!("$meta takes the name of metadata, not {type_name}");
        return Err(Error::with_server_code(17307, message));
    };
    if METADATA_KINDS.binary_search(&name).is_err() {
        let message = format!("unknown metadata '{name}' in $meta");
        return Err(Error::with_server_code(17308, message));
    }
    let message = format!("$meta is not supported: the engine has no metadata '{name}'");
    Err(Error::not_supported(message))
}

#[cfg(test)]
mod tests {
    use super::METADATA_KINDS;

    #[test]
    fn the_names_are_sorted() {
        assert!(METADATA_KINDS.is_sorted());
    }
}
