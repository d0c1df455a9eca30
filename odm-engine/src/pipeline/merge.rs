//! `$merge`: writes each document into a collection that may have a matching document.
//!
//! ```json
//! { "$merge": { "into": "totals", "on": "day", "whenMatched": "replace", "whenNotMatched": "insert" } }
//! ```

use bson::{RawArray, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use super::output::{self, PipelineOutput};
use super::stages::StageCall;
use super::{lookup, nested, stages};
use crate::collation::ValueOrder;
use crate::document::append_field;
use crate::error::code;
use crate::expression::{Computation, Environment, check_bindable};
use crate::path::Path;
use crate::{Error, Result, value};

/// The variable of the document that the pipeline writes.
const NEW_VARIABLE: &str = "new";

/// A parsed `$merge`.
#[derive(Debug)]
pub(crate) struct Merge {
    pub(crate) collection: String,
    /// The fields by which documents match.
    pub(crate) on: Vec<Path>,
    /// Whether documents match by `_id` because the stage names no fields.
    pub(crate) has_default_on: bool,
    pub(crate) when_matched: WhenMatched,
    pub(crate) when_not_matched: WhenNotMatched,
}

/// The treatment of a document that matches.
#[derive(Debug)]
pub(crate) enum WhenMatched {
    Replace,
    /// The fields of the new document replace the fields of the existing document.
    Merge,
    KeepExisting,
    Fail,
    Pipeline {
        stages: Vec<RawDocumentBuf>,
        /// The variables of the stages, computed from the new document.
        variables: Vec<(Box<str>, Computation)>,
    },
}

/// The treatment of a new document without a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenNotMatched {
    Insert,
    Discard,
    Fail,
}

/// The arguments of `$merge` before parsing.
#[derive(Default)]
struct MergeArguments<'a> {
    into: Option<&'a str>,
    on: Option<Vec<&'a str>>,
    variables: Option<&'a RawDocument>,
    when_matched: Option<RawBsonRef<'a>>,
    when_not_matched: Option<&'a str>,
}

pub(super) fn parse_merge(call: &StageCall<'_>) -> Result<PipelineOutput> {
    output::check_place(call)?;
    let arguments = match call.operand {
        RawBsonRef::String(collection) => MergeArguments {
            into: Some(collection),
            ..MergeArguments::default()
        },
        RawBsonRef::Document(arguments) => MergeArguments::parse(arguments)?,
        operand => {
            let message = format!(
                "$merge requires a string or object argument, but found {}",
                value::type_name(operand)
            );
            return Err(Error::with_server_code(code::TYPE_MISMATCH, message));
        }
    };
    let Some(collection) = arguments.into else {
        let message = "$merge needs 'into', the name of a collection";
        return Err(Error::with_server_code(code::MISSING_FIELD, message));
    };
    let when_matched = arguments.parse_when_matched(call)?;
    let when_not_matched = arguments.parse_when_not_matched()?;
    let keeps = matches!(when_matched, WhenMatched::KeepExisting | WhenMatched::Fail);
    if keeps && when_not_matched != WhenNotMatched::Insert {
        let message =
            "$merge with 'whenMatched: keepExisting' or 'fail' needs 'whenNotMatched: insert'";
        return Err(Error::with_server_code(51181, message));
    }
    Ok(PipelineOutput::Merge(Merge {
        collection: collection.to_owned(),
        has_default_on: arguments.on.is_none(),
        on: parse_on(arguments.on.unwrap_or_else(|| vec!["_id"]))?,
        when_matched,
        when_not_matched,
    }))
}

fn parse_on(paths: Vec<&str>) -> Result<Vec<Path>> {
    if paths.is_empty() {
        let message = "If explicitly specifying $merge 'on', must include at least one field";
        return Err(Error::with_server_code(51187, message));
    }
    let mut on: Vec<Path> = Vec::with_capacity(paths.len());
    for path in paths {
        let path = nested::field_path(path)?;
        if on.contains(&path) {
            let message = format!("Found a duplicate field '{}'", path.as_str());
            return Err(Error::with_server_code(31465, message));
        }
        on.push(path);
    }
    Ok(on)
}

impl<'a> MergeArguments<'a> {
    fn parse(document: &'a RawDocument) -> Result<MergeArguments<'a>> {
        let wrong_type = |code: i32, name: &str, expected: &str, value: RawBsonRef<'_>| {
            let message = format!(
                "'{name}' of $merge must be {expected}, but found {}",
                value::type_name(value)
            );
            Err(Error::with_server_code(code, message))
        };
        let mut arguments = MergeArguments::default();
        for (name, value) in value::fields(document) {
            match (name, value) {
                ("into", RawBsonRef::String(collection)) => arguments.into = Some(collection),
                ("into", RawBsonRef::Document(namespace)) => {
                    arguments.into = Some(parse_namespace(namespace)?);
                }
                ("into", value) => return wrong_type(51178, name, "a string or an object", value),
                ("on", RawBsonRef::String(path)) => arguments.on = Some(vec![path]),
                ("on", RawBsonRef::Array(paths)) => arguments.on = Some(parse_paths(paths)?),
                ("on", value) => return wrong_type(51186, name, "a string or an array", value),
                ("let", RawBsonRef::Document(variables)) => arguments.variables = Some(variables),
                ("let", value) => return wrong_type(code::TYPE_MISMATCH, name, "an object", value),
                ("whenMatched", value) => arguments.when_matched = Some(value),
                ("whenNotMatched", RawBsonRef::String(mode)) => {
                    arguments.when_not_matched = Some(mode);
                }
                ("whenNotMatched", value) => {
                    return wrong_type(code::TYPE_MISMATCH, name, "a string", value);
                }
                (other, _) => {
                    let message = format!("BSON field '$merge.{other}' is an unknown field.");
                    return Err(Error::with_server_code(code::UNKNOWN_FIELD, message));
                }
            }
        }
        Ok(arguments)
    }

    fn parse_when_matched(&self, call: &StageCall<'_>) -> Result<WhenMatched> {
        let mode = match self.when_matched {
            None => "merge",
            Some(RawBsonRef::String(mode)) => mode,
            Some(RawBsonRef::Array(stages)) => return self.parse_pipeline(stages, call),
            Some(value) => {
                let message = format!(
                    "'whenMatched' of $merge must be a string or an array, but found {}",
                    value::type_name(value)
                );
                return Err(Error::with_server_code(51191, message));
            }
        };
        if self.variables.is_some() {
            let message = format!("Cannot use 'let' variables with 'whenMatched: {mode}' mode");
            return Err(Error::with_server_code(51199, message));
        }
        match mode {
            "replace" => Ok(WhenMatched::Replace),
            "merge" => Ok(WhenMatched::Merge),
            "keepExisting" => Ok(WhenMatched::KeepExisting),
            "fail" => Ok(WhenMatched::Fail),
            other => Err(unknown_mode("whenMatched", other)),
        }
    }

    fn parse_pipeline(&self, array: &RawArray, call: &StageCall<'_>) -> Result<WhenMatched> {
        let environment = &call.context.environment;
        let stages = lookup::parse_stages(array)?;
        // As on MongoDB, the names of the stages are checked even if no document matches.
        for stage in &stages {
            if let Some((name, _)) = value::fields(stage).next() {
                stages::check_name(name)?;
            }
        }
        let mut variables = Vec::new();
        for (name, value) in self.variables.into_iter().flat_map(value::fields) {
            if name == NEW_VARIABLE {
                if value != RawBsonRef::String("$$ROOT") {
                    let message = "'let' may not define a value for the reserved 'new' variable other than '$$ROOT'";
                    return Err(Error::with_server_code(51273, message));
                }
                continue;
            }
            check_bindable(name)?;
            variables.push((name.into(), Computation::parse(value, environment)?));
        }
        Ok(WhenMatched::Pipeline {
            stages: stages.into_iter().map(ToOwned::to_owned).collect(),
            variables,
        })
    }

    fn parse_when_not_matched(&self) -> Result<WhenNotMatched> {
        match self.when_not_matched.unwrap_or("insert") {
            "insert" => Ok(WhenNotMatched::Insert),
            "discard" => Ok(WhenNotMatched::Discard),
            "fail" => Ok(WhenNotMatched::Fail),
            other => Err(unknown_mode("whenNotMatched", other)),
        }
    }
}

/// Reads `{ coll: "name" }`.
fn parse_namespace(namespace: &RawDocument) -> Result<&str> {
    let mut collection = None;
    for (name, value) in value::fields(namespace) {
        match (name, value) {
            ("coll", RawBsonRef::String(name)) => collection = Some(name),
            ("db", _) => {
                let message =
                    "$merge cannot write into another database: 'into' is the name of a collection";
                return Err(Error::not_supported(message));
            }
            ("coll", _) => {
                let message = "'into.coll' of $merge must be a string";
                return Err(Error::with_server_code(code::TYPE_MISMATCH, message));
            }
            (other, _) => {
                let message = format!("BSON field 'into.{other}' is an unknown field.");
                return Err(Error::with_server_code(code::UNKNOWN_FIELD, message));
            }
        }
    }
    collection.filter(|name| !name.is_empty()).ok_or_else(|| {
        let message = "'into' of $merge must specify a 'coll' that is not empty";
        Error::with_server_code(5_786_801, message)
    })
}

fn parse_paths(paths: &RawArray) -> Result<Vec<&str>> {
    let paths = value::items(paths).map(|path| {
        path.as_str().ok_or_else(|| {
            let message = format!(
                "$merge 'on' array elements must be strings, but found {}",
                value::type_name(path)
            );
            Error::with_server_code(51134, message)
        })
    });
    paths.collect()
}

fn unknown_mode(name: &str, mode: &str) -> Error {
    Error::bad_value(format!(
        "'{mode}' is not a valid value of '{name}' in $merge"
    ))
}

impl Merge {
    /// Returns the filter of the document that matches `document`.
    ///
    /// # Errors
    /// A field of `on` is missing, null or an array.
    pub(crate) fn matching_filter(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        let mut filter = RawDocumentBuf::new();
        for path in &self.on {
            let value = match nested::value_at(document, path) {
                None | Some(RawBsonRef::Null | RawBsonRef::Undefined) => {
                    let message = format!(
                        "$merge write error: 'on' field '{}' cannot be missing, null, undefined or an array",
                        path.as_str()
                    );
                    return Err(Error::with_server_code(51132, message));
                }
                Some(RawBsonRef::Array(_)) => {
                    let message = format!(
                        "$merge write error: 'on' field '{}' is an array",
                        path.as_str()
                    );
                    return Err(Error::with_server_code(51185, message));
                }
                Some(value) => RawBson::from(value),
            };
            append_field(&mut filter, path.as_str(), rawdoc! { "$eq": value });
        }
        Ok(filter)
    }

    /// Returns the stages that update a matching document; `None` if the document stays. The stages read the new document as `$$new`.
    pub(crate) fn update_stages(&self) -> Option<Vec<RawDocumentBuf>> {
        match &self.when_matched {
            WhenMatched::Replace => Some(vec![rawdoc! { "$replaceWith": "$$new" }]),
            WhenMatched::Merge => {
                let merged = rawdoc! { "$mergeObjects": ["$$ROOT", "$$new"] };
                Some(vec![rawdoc! { "$replaceWith": merged }])
            }
            WhenMatched::Pipeline { stages, .. } => Some(stages.clone()),
            WhenMatched::KeepExisting | WhenMatched::Fail => None,
        }
    }

    /// Returns the environment of the update: with the time and the variables of the command, the variables of `let`, and `$$new`. As
    /// on MongoDB, the update compares strings byte by byte, and only `let` follows the collation of the command.
    ///
    /// # Errors
    /// An expression of `let` fails.
    pub(crate) fn update_environment(
        &self,
        document: &RawDocument,
        of_command: &Environment,
    ) -> Result<Environment> {
        let mut environment = of_command.clone().with_order(ValueOrder::default());
        if let WhenMatched::Pipeline { variables, .. } = &self.when_matched {
            for (name, computation) in variables {
                let value = computation.evaluate(document)?.into_bson();
                environment.set_variable(name, value);
            }
        }
        let new = RawBson::Document(document.to_owned());
        environment.set_variable(NEW_VARIABLE, Some(new));
        Ok(environment)
    }
}
