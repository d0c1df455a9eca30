//! Names of collections in the stages of a pipeline.

use bson::raw::CStr;
use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use crate::dispatch::Operation;
use crate::error::{CommandError, Result, code};

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
    let is_main = operation.options.database == operation.server.namespaces.main_database();
    let mut localized = match is_main {
        // The names are the names in the file.
        true => stages.to_vec(),
        false => {
            let stages = stages.iter();
            let stages = stages.map(|stage| localize_stage(operation, stage, MAX_DEPTH));
            stages.collect::<Result<_>>()?
        }
    };
    // Only the last stage can write.
    if let Some(last) = localized.last_mut() {
        *last = localize_output(operation, last)?;
    }
    Ok(localized)
}

/// Localizes the collection that `$out` or `$merge` writes, which can be in a different database.
fn localize_output(operation: &Operation, stage: &RawDocument) -> Result<RawDocumentBuf> {
    let own = operation.options.database.as_str();
    Ok(match stage.iter().next().transpose()? {
        Some((name, RawBsonRef::String(collection))) if name.as_str() == "$out" => {
            rawdoc! { "$out": OUT.engine_name(operation, own, collection)? }
        }
        Some((name, RawBsonRef::Document(target))) if name.as_str() == "$out" => {
            let (database, collection) = parse_out_target(target)?;
            rawdoc! { "$out": OUT.engine_name(operation, database, collection)? }
        }
        Some((name, RawBsonRef::String(collection))) if name.as_str() == "$merge" => {
            rawdoc! { "$merge": MERGE.engine_name(operation, own, collection)? }
        }
        Some((name, RawBsonRef::Document(options))) if name.as_str() == "$merge" => {
            rawdoc! { "$merge": localize_merge(operation, options)? }
        }
        _ => stage.to_owned(),
    })
}

/// Reads `{ db: "shop", coll: "totals" }`.
fn parse_out_target(target: &RawDocument) -> Result<(&str, &str)> {
    let names = (target.get("db")?, target.get("coll")?);
    let ((Some(database), Some(collection)), 2) = (names, target.iter().count()) else {
        let message =
            "If an object is passed to $out it must have exactly 2 fields: 'db' and 'coll'";
        return Err(CommandError::new(16994, message));
    };
    match (database.as_str(), collection.as_str()) {
        (Some(database), Some(collection)) => Ok((database, collection)),
        _ => {
            let message = "'db' and 'coll' of $out must be strings";
            Err(CommandError::new(13111, message))
        }
    }
}

/// Replaces `into` in the options of `$merge`.
fn localize_merge(operation: &Operation, options: &RawDocument) -> Result<RawDocumentBuf> {
    let own = operation.options.database.as_str();
    let mut output = RawDocumentBuf::new();
    for element in options {
        match element? {
            (name, RawBsonRef::String(collection)) if name.as_str() == "into" => {
                output.append(name, MERGE.engine_name(operation, own, collection)?);
            }
            (name, RawBsonRef::Document(target)) if name.as_str() == "into" => {
                output.append(name, localize_merge_target(operation, target)?);
            }
            (name, value) => output.append(name, value),
        }
    }
    Ok(output)
}

/// Replaces `{ db: "shop", coll: "totals" }` by `{ coll: … }`. The engine reports all other fields.
fn localize_merge_target(operation: &Operation, target: &RawDocument) -> Result<RawDocumentBuf> {
    let database = match target.get("db")? {
        None => operation.options.database.as_str(),
        Some(RawBsonRef::String(database)) => database,
        Some(_) => {
            let message = "'into.db' of $merge must be a string";
            return Err(CommandError::new(code::TYPE_MISMATCH, message));
        }
    };
    let mut output = RawDocumentBuf::new();
    for element in target {
        match element? {
            (name, _) if name.as_str() == "db" => {}
            (name, RawBsonRef::String(collection))
                if name.as_str() == "coll" && !collection.is_empty() =>
            {
                output.append(name, MERGE.engine_name(operation, database, collection)?);
            }
            (name, value) => output.append(name, value),
        }
    }
    Ok(output)
}

/// A stage that writes, with MongoDB's codes for collections that it cannot write.
struct OutputStage {
    name: &'static str,
    special_collection: i32,
    internal_database: i32,
}

const OUT: OutputStage = OutputStage {
    name: "$out",
    special_collection: 17385,
    internal_database: 31321,
};

const MERGE: OutputStage = OutputStage {
    name: "$merge",
    special_collection: 31319,
    internal_database: 31320,
};

impl OutputStage {
    fn engine_name(
        &self,
        operation: &Operation,
        database: &str,
        collection: &str,
    ) -> Result<String> {
        if collection.starts_with("system.") {
            let message = format!("Cannot {} to special collection: {collection}", self.name);
            return Err(CommandError::new(self.special_collection, message));
        }
        if matches!(database, "admin" | "config" | "local") {
            let message = format!("Cannot {} to internal database: {database}", self.name);
            return Err(CommandError::new(self.internal_database, message));
        }
        let namespaces = &operation.server.namespaces;
        namespaces.engine_name(database, collection)
    }
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
