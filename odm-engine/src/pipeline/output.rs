//! The stages that write the documents of a pipeline into a collection: `$merge` and `$out`. Only the last stage of a command's
//! pipeline can be such a stage.

use super::merge::{self, Merge};
use super::out::{self, Out};
use super::stages::StageCall;
use crate::{Error, Result};

/// The writing stages, sorted by name.
const OUTPUT_STAGES: &[(&str, OutputParser)] =
    &[("$merge", merge::parse_merge), ("$out", out::parse_out)];

type OutputParser = fn(&StageCall<'_>) -> Result<PipelineOutput>;

/// A stage that writes the documents of its pipeline.
#[derive(Debug)]
pub(crate) enum PipelineOutput {
    Merge(Merge),
    Out(Out),
}

/// Returns whether a stage writes the documents of its pipeline.
pub(crate) fn is_output(name: &str) -> bool {
    find_parser(name).is_some()
}

/// Returns the parser of a writing stage; `None` for all different stages.
pub(super) fn find_parser(name: &str) -> Option<OutputParser> {
    let position = OUTPUT_STAGES.binary_search_by_key(&name, |(known, _)| known);
    let (_, parse) = OUTPUT_STAGES.get(position.ok()?)?;
    Some(*parse)
}

/// Refuses a writing stage in a nested pipeline.
///
/// # Errors
/// The stage is inside of `$facet` (code 40600), `$lookup` (51047) or `$unionWith` (31441).
pub(super) fn check_place(call: &StageCall<'_>) -> Result<()> {
    let (code, enclosing) = match call.context.enclosing_stage {
        None => return Ok(()),
        Some(enclosing @ "$facet") => (40600, enclosing),
        Some(enclosing @ "$unionWith") => (31441, enclosing),
        Some(enclosing) => (51047, enclosing),
    };
    let message = format!("{} is not allowed within {enclosing}", call.name);
    Err(Error::with_server_code(code, message))
}

impl PipelineOutput {
    fn name(&self) -> &'static str {
        match self {
            PipelineOutput::Merge(_) => "$merge",
            PipelineOutput::Out(_) => "$out",
        }
    }

    /// Returns the error for a stage after the writing stage.
    pub(super) fn not_last_error(&self) -> Error {
        let message = format!(
            "{} can only be the final stage in the pipeline",
            self.name()
        );
        Error::with_server_code(40601, message)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bson::{RawDocumentBuf, rawdoc};

    use super::*;
    use crate::pipeline::Pipeline;

    fn code_of(stages: &[RawDocumentBuf]) -> Option<i32> {
        let stages = stages.iter().map(|stage| &**stage);
        Pipeline::parse(stages, &Arc::default()).unwrap_err().code()
    }

    #[test]
    fn the_registry_is_sorted() {
        assert!(OUTPUT_STAGES.is_sorted_by(|(a, _), (b, _)| a < b));
    }

    #[test]
    fn a_writing_stage_is_the_last_stage_of_a_command() {
        for stage in [rawdoc! { "$out": "o" }, rawdoc! { "$merge": "o" }] {
            let pipeline = || bson::rawbson!([stage.clone()]);
            assert_eq!(code_of(&[stage.clone(), stage.clone()]), Some(40601));
            let facet = rawdoc! { "$facet": { "a": pipeline() } };
            assert_eq!(code_of(&[facet]), Some(40600));
            let lookup = rawdoc! { "$lookup": { "from": "t", "as": "x", "pipeline": pipeline() } };
            assert_eq!(code_of(&[lookup]), Some(51047));
            let union = rawdoc! { "$unionWith": { "coll": "t", "pipeline": pipeline() } };
            assert_eq!(code_of(&[union]), Some(31441));
        }
    }
}
