//! `$function`, `$meta`: operators that mean nothing here. They are refused.
//!
//! ```text
//! { "$function": { "body": "function() { return 1 }", "args": [], "lang": "js" } } → error
//! { "$meta": "textScore" } → error
//! ```

use bson::RawBsonRef;

use crate::expression::Expression;
use crate::expression::call::Call;
use crate::{Error, Result, value};

/// What MongoDB knows about documents besides their fields, sorted.
const METADATA: &[&str] = &[
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

pub(super) fn parse_function(_call: &Call<'_>) -> Result<Expression> {
    let message = "$function is not supported: there is no JavaScript in this engine";
    Err(Error::not_supported(message))
}

pub(super) fn parse_meta(call: &Call<'_>) -> Result<Expression> {
    let RawBsonRef::String(name) = call.operand else {
        let found = value::type_name(call.operand);
        let message = format!("$meta takes the name of metadata, not {found}");
        return Err(Error::server(17307, message));
    };
    if METADATA.binary_search(&name).is_err() {
        let message = format!("$meta knows no '{name}'");
        return Err(Error::server(17308, message));
    }
    let message = format!("$meta is not supported: documents have no '{name}' in this engine");
    Err(Error::not_supported(message))
}

#[cfg(test)]
mod tests {
    use super::METADATA;

    #[test]
    fn the_names_are_sorted() {
        assert!(METADATA.is_sorted());
    }
}
