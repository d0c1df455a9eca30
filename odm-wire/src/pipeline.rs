//! Names of collections in the stages of a pipeline.

use bson::raw::CStr;
use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use crate::dispatch::Operation;
use crate::error::{CommandError, Result};

/// The maximum number of enclosing pipelines, as of the engine. The engine reports deeper pipelines.
const MAX_DEPTH: usize = 25;

/// Replaces the names of collections by their names in the file.
///
/// # Errors
/// An invalid name; a collection of a different database.
pub(crate) fn localize(
    operation: &Operation,
    stages: &[RawDocumentBuf],
) -> Result<Vec<RawDocumentBuf>> {
    if operation.options.database == operation.server.namespaces.main_database() {
        // The names are the names in the file.
        return Ok(stages.to_vec());
    }
    let stages = stages.iter();
    stages
        .map(|stage| localize_stage(operation, stage, MAX_DEPTH))
        .collect()
}

fn localize_stage(
    operation: &Operation,
    stage: &RawDocument,
    depth: usize,
) -> Result<RawDocumentBuf> {
    let mut output = RawDocumentBuf::new();
    for element in stage {
        let (name, operand) = element?;
        let localized = match (name.as_str(), operand) {
            ("$lookup", RawBsonRef::Document(options)) => {
                Some(localize_options(operation, options, "from", depth)?)
            }
            ("$unionWith", RawBsonRef::Document(options)) => {
                Some(localize_options(operation, options, "coll", depth)?)
            }
            ("$unionWith", RawBsonRef::String(collection)) => {
                let name = operation.engine_name(collection)?;
                Some(rawdoc! { "coll": name })
            }
            ("$facet", RawBsonRef::Document(facets)) => {
                Some(localize_facets(operation, facets, depth)?)
            }
            _ => None,
        };
        match localized {
            Some(options) => output.append(name, options),
            None => output.append(name, operand),
        }
    }
    Ok(output)
}

/// Localizes the collection and the pipeline in the options of a stage.
fn localize_options(
    operation: &Operation,
    options: &RawDocument,
    collection_field: &str,
    depth: usize,
) -> Result<RawDocumentBuf> {
    let mut output = RawDocumentBuf::new();
    for element in options {
        let (name, value) = element?;
        match value {
            RawBsonRef::String(collection) if name.as_str() == collection_field => {
                output.append(name, operation.engine_name(collection)?);
            }
            RawBsonRef::Document(_) if name.as_str() == collection_field => {
                let message = "a pipeline cannot read a collection of a different database";
                return Err(CommandError::not_supported(message));
            }
            RawBsonRef::Array(stages) if name.as_str() == "pipeline" => {
                append_pipeline(&mut output, name, operation, stages, depth)?;
            }
            _ => output.append(name, value),
        }
    }
    Ok(output)
}

fn localize_facets(
    operation: &Operation,
    facets: &RawDocument,
    depth: usize,
) -> Result<RawDocumentBuf> {
    let mut output = RawDocumentBuf::new();
    for element in facets {
        match element? {
            (name, RawBsonRef::Array(stages)) => {
                append_pipeline(&mut output, name, operation, stages, depth)?;
            }
            (name, value) => output.append(name, value),
        }
    }
    Ok(output)
}

fn append_pipeline(
    output: &mut RawDocumentBuf,
    name: &CStr,
    operation: &Operation,
    stages: &RawArray,
    depth: usize,
) -> Result<()> {
    let Some(depth) = depth.checked_sub(1) else {
        output.append(name, stages);
        return Ok(());
    };
    let mut localized = RawArrayBuf::new();
    for stage in stages {
        match stage? {
            RawBsonRef::Document(stage) => {
                localized.push(localize_stage(operation, stage, depth)?);
            }
            other => localized.push(RawBson::from(other)),
        }
    }
    output.append(name, localized);
    Ok(())
}
