//! The stages by name.

use std::sync::Arc;

use bson::RawBsonRef;

use super::{
    Stage, add_fields, bucket, bucket_auto, count, documents, facet, group, limit, lookup, r#match,
    project, redact, replace_root, sample, skip, sort, sort_by_count, union_with, unset, unwind,
};
use crate::expression::Environment;
use crate::{Error, Result};

/// `{ name: operand }`, not yet understood.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    /// The stage, as `$match`.
    pub(super) name: &'a str,
    pub(super) operand: RawBsonRef<'a>,
    pub(super) context: &'a Context,
}

/// Where a pipeline stands.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub(super) environment: Arc<Environment>,
    pub(super) is_in_facet: bool,
    /// How many pipelines are around this one.
    pub(super) depth: usize,
    /// How many stages there are so far, with those around this pipeline.
    pub(super) stages: usize,
}

/// How many stages a pipeline can have, with those around it: each takes some stack while a document passes.
const MAX_STAGES: usize = 1000;

/// How many pipelines can be around another one.
const MAX_DEPTH: usize = 20;

/// How a stage reads its operand. Some are several simpler ones.
pub(super) type Parser = fn(&Call<'_>) -> Result<Vec<Stage>>;

/// The stages, sorted by name.
pub(super) const STAGES: &[(&str, Parser)] = &[
    ("$addFields", add_fields::parse),
    ("$bucket", bucket::parse),
    ("$bucketAuto", bucket_auto::parse),
    ("$count", count::parse),
    ("$documents", documents::parse),
    ("$facet", facet::parse),
    ("$group", group::parse),
    ("$limit", limit::parse),
    ("$lookup", lookup::parse),
    ("$match", r#match::parse),
    ("$project", project::parse),
    ("$redact", redact::parse),
    ("$replaceRoot", replace_root::parse),
    ("$replaceWith", replace_root::parse_with),
    ("$sample", sample::parse),
    ("$set", add_fields::parse),
    ("$skip", skip::parse),
    ("$sort", sort::parse),
    ("$sortByCount", sort_by_count::parse),
    ("$unionWith", union_with::parse),
    ("$unset", unset::parse),
    ("$unwind", unwind::parse),
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

impl Context {
    /// The pipeline of a command.
    pub(super) fn new(environment: &Arc<Environment>) -> Context {
        Context {
            environment: Arc::clone(environment),
            is_in_facet: false,
            depth: 0,
            stages: 0,
        }
    }

    /// One stage more.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn add_stage(&mut self) -> Result<()> {
        self.stages += 1;
        if self.stages > MAX_STAGES {
            let message = format!("a pipeline can have {MAX_STAGES} stages");
            return Err(Error::server(7749501, message));
        }
        Ok(())
    }

    /// A pipeline on another collection within this one.
    ///
    /// # Errors
    /// Too many around it.
    pub(super) fn nested(&self) -> Result<Context> {
        if self.depth >= MAX_DEPTH {
            let message = format!("pipelines can nest {MAX_DEPTH} levels deep");
            return Err(Error::server(232, message));
        }
        Ok(Context {
            depth: self.depth + 1,
            ..self.clone()
        })
    }
}

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
