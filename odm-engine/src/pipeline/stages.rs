//! The registry of stages by name.

use std::sync::Arc;

use bson::RawBsonRef;

use super::{
    PipelineStage, add_fields, bucket, bucket_auto, count, documents, facet, group, limit, lookup,
    r#match, output, project, redact, replace_root, sample, skip, sort, sort_by_count, union_with,
    unset, unwind,
};
use crate::expression::Environment;
use crate::{Error, Result};

/// A stage `{ name: operand }` before parsing.
#[derive(Debug, Clone, Copy)]
pub(super) struct StageCall<'a> {
    /// The name of the stage, such as `$match`.
    pub(super) name: &'a str,
    pub(super) operand: RawBsonRef<'a>,
    pub(super) context: &'a PipelineContext,
}

/// The context of a pipeline.
#[derive(Debug, Clone)]
pub(super) struct PipelineContext {
    pub(super) environment: Arc<Environment>,
    pub(super) is_in_facet: bool,
    /// The stage that contains the pipeline; `None` for the pipeline of a command.
    pub(super) enclosing_stage: Option<&'static str>,
    /// The number of enclosing pipelines.
    pub(super) depth: usize,
    /// The number of stages so far, including the stages of enclosing pipelines.
    pub(super) stages: usize,
}

/// The maximum number of stages in a pipeline, including enclosing pipelines. Each stage uses some stack while a document passes.
const MAX_STAGES: usize = 1000;

/// The maximum number of enclosing pipelines.
const MAX_PIPELINE_DEPTH: usize = 20;

/// A function that parses the operand of a stage. Some stages consist of several simpler stages.
pub(super) type StageParser = fn(&StageCall<'_>) -> Result<Vec<PipelineStage>>;

/// The stages, sorted by name.
pub(super) const STAGES: &[(&str, StageParser)] = &[
    ("$addFields", add_fields::parse_add_fields),
    ("$bucket", bucket::parse_bucket),
    ("$bucketAuto", bucket_auto::parse_bucket_auto),
    ("$count", count::parse_count),
    ("$documents", documents::parse_documents),
    ("$facet", facet::parse_facet),
    ("$group", group::parse_group),
    ("$limit", limit::parse_limit),
    ("$lookup", lookup::parse_lookup),
    ("$match", r#match::parse_match),
    ("$project", project::parse_project),
    ("$redact", redact::parse_redact),
    ("$replaceRoot", replace_root::parse_replace_root),
    ("$replaceWith", replace_root::parse_replace_with),
    ("$sample", sample::parse_sample),
    ("$set", add_fields::parse_add_fields),
    ("$skip", skip::parse_skip),
    ("$sort", sort::parse_sort),
    ("$sortByCount", sort_by_count::parse_sort_by_count),
    ("$unionWith", union_with::parse_union_with),
    ("$unset", unset::parse_unset),
    ("$unwind", unwind::parse_unwind),
];

/// The stages that MongoDB has and the engine lacks, sorted.
const UNSUPPORTED_STAGES: &[&str] = &[
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
    "$planCacheStats",
    "$search",
    "$searchMeta",
    "$setWindowFields",
];

impl PipelineContext {
    /// Returns the context of a command's pipeline.
    pub(super) fn new(environment: &Arc<Environment>) -> PipelineContext {
        PipelineContext {
            environment: Arc::clone(environment),
            is_in_facet: false,
            enclosing_stage: None,
            depth: 0,
            stages: 0,
        }
    }

    /// Counts one more stage.
    ///
    /// # Errors
    /// Too many stages.
    pub(super) fn add_stage(&mut self) -> Result<()> {
        self.stages += 1;
        if self.stages > MAX_STAGES {
            let message = format!("a pipeline can have at most {MAX_STAGES} stages");
            return Err(Error::with_server_code(7749501, message));
        }
        Ok(())
    }

    /// Returns the context of a pipeline that a stage of this pipeline contains.
    ///
    /// # Errors
    /// Too many enclosing pipelines.
    pub(super) fn nested_context(&self, stage: &'static str) -> Result<PipelineContext> {
        if self.depth >= MAX_PIPELINE_DEPTH {
            let message = format!("pipelines can nest at most {MAX_PIPELINE_DEPTH} levels deep");
            return Err(Error::with_server_code(232, message));
        }
        Ok(PipelineContext {
            enclosing_stage: Some(stage),
            depth: self.depth + 1,
            ..self.clone()
        })
    }
}

/// Checks the name of a stage.
///
/// # Errors
/// See [`find_parser`].
pub(super) fn check_name(name: &str) -> Result<()> {
    match output::is_output(name) {
        true => Ok(()),
        false => find_parser(name).map(drop),
    }
}

/// Returns the parser of a stage that does not [write](output) its documents.
///
/// # Errors
/// The stage is unknown (code 40324) or not supported.
pub(super) fn find_parser(name: &str) -> Result<StageParser> {
    let position = STAGES.binary_search_by_key(&name, |(known, _)| known);
    if let Some((_, parse)) = position.ok().and_then(|position| STAGES.get(position)) {
        return Ok(*parse);
    }
    if UNSUPPORTED_STAGES.binary_search(&name).is_ok() {
        let message = format!("the pipeline stage {name} is not supported");
        return Err(Error::not_supported(message));
    }
    let message = format!("Unrecognized pipeline stage name: '{name}'");
    Err(Error::unknown_operator(40324, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registries_are_sorted() {
        assert!(STAGES.is_sorted_by(|(a, _), (b, _)| a < b));
        assert!(UNSUPPORTED_STAGES.is_sorted());
    }
}
