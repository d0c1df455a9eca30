//! `$replaceRoot`, `$replaceWith`: replaces each document by a new document.
//!
//! ```text
//! { "$replaceRoot": { "newRoot": "$a" } }
//! in:  { "_id": 1, "a": { "b": 2 } }
//! out: { "b": 2 }
//!
//! { "$replaceWith": { "c": "$_id" } }
//! in:  { "_id": 1 }
//! out: { "c": 1 }
//! ```

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::stages::StageCall;
use super::{DocumentTransform, PipelineStage};
use crate::expression::Computation;
use crate::{Error, Result, value};

#[derive(Debug)]
struct ReplaceRoot(Computation);

pub(super) fn parse_replace_root(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    let RawBsonRef::Document(arguments) = call.operand else {
        let message = "$replaceRoot takes a document with 'newRoot'";
        return Err(Error::with_server_code(40229, message));
    };
    let mut root = None;
    for (name, argument) in value::fields(arguments) {
        match name {
            "newRoot" => root = Some(argument),
            other => {
                let message = format!("$replaceRoot has no argument '{other}'");
                return Err(Error::with_server_code(40415, message));
            }
        }
    }
    let missing = || Error::with_server_code(40414, "$replaceRoot needs 'newRoot'");
    replace_by(call, root.ok_or_else(missing)?)
}

pub(super) fn parse_replace_with(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    replace_by(call, call.operand)
}

fn replace_by(call: &StageCall<'_>, root: RawBsonRef<'_>) -> Result<Vec<PipelineStage>> {
    let root = Computation::parse(root, &call.context.environment)?;
    Ok(vec![PipelineStage::from_transform(ReplaceRoot(root))])
}

impl DocumentTransform for ReplaceRoot {
    fn transform_document(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        let root = self.0.evaluate(document)?;
        match root.as_document() {
            Some(root) => Ok(root.to_owned()),
            None => {
                let type_name = root.type_name();
                let message = format!("'newRoot' must be a document, not {type_name}");
                Err(Error::with_server_code(40228, message))
            }
        }
    }
}
