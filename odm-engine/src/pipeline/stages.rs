//! The stages by name.

use std::sync::Arc;

use bson::RawBsonRef;

use super::{Stage, add_fields, r#match, project};
use crate::expression::Environment;
use crate::{Error, Result};

/// `{ name: operand }`, not yet understood.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    /// The stage, as `$match`.
    pub(super) name: &'a str,
    pub(super) operand: RawBsonRef<'a>,
    pub(super) environment: &'a Arc<Environment>,
}

/// How a stage reads its operand. Some are several simpler ones.
pub(super) type Parser = fn(&Call<'_>) -> Result<Vec<Stage>>;

/// The stages, sorted by name.
pub(super) const STAGES: &[(&str, Parser)] = &[
    ("$addFields", add_fields::parse),
    ("$match", r#match::parse),
    ("$project", project::parse),
    ("$set", add_fields::parse),
];

/// What MongoDB has and the engine has not, sorted.
const NOT_SUPPORTED: &[&str] = &[
    "$changeStream",
    "$collStats",
    "$currentOp",
    "$densify",
    "$fill",
    "$geoNear",
    "$graphLookup",
    "$indexStats",
    "$listLocalSessions",
    "$listSessions",
    "$merge",
    "$out",
    "$planCacheStats",
    "$search",
    "$searchMeta",
    "$setWindowFields",
];

/// The parser of a stage.
///
/// # Errors
/// There is no such stage (code 40324), or none that the engine supports.
pub(super) fn find(name: &str) -> Result<Parser> {
    let at = STAGES.binary_search_by_key(&name, |(known, _)| known);
    if let Some((_, parse)) = at.ok().and_then(|at| STAGES.get(at)) {
        return Ok(*parse);
    }
    if NOT_SUPPORTED.binary_search(&name).is_ok() {
        let message = format!("the pipeline stage {name} is not supported");
        return Err(Error::not_supported(message));
    }
    let message = format!("unrecognized pipeline stage name: '{name}'");
    Err(Error::unknown_operator(40324, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registries_are_sorted() {
        assert!(STAGES.is_sorted_by(|(a, _), (b, _)| a < b));
        assert!(NOT_SUPPORTED.is_sorted());
    }
}
