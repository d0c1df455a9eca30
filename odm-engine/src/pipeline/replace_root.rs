//! `$replaceRoot`, `$replaceWith`: another document in the place of each.
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

use super::stages::Call;
use super::{Stage, Transform};
use crate::expression::Computation;
use crate::{Error, Result, value};

#[derive(Debug)]
struct ReplaceRoot(Computation);

pub(super) fn parse(call: &Call<'_>) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(arguments) = call.operand else {
        let message = "$replaceRoot takes a document with 'newRoot'";
        return Err(Error::server(40229, message));
    };
    let mut root = None;
    for (name, argument) in value::fields(arguments) {
        match name {
            "newRoot" => root = Some(argument),
            other => {
                let message = format!("$replaceRoot has no argument '{other}'");
                return Err(Error::server(40415, message));
            }
        }
    }
    let missing = || Error::server(40414, "$replaceRoot needs 'newRoot'");
    replacing(call, root.ok_or_else(missing)?)
}

pub(super) fn parse_with(call: &Call<'_>) -> Result<Vec<Stage>> {
    replacing(call, call.operand)
}

fn replacing(call: &Call<'_>, root: RawBsonRef<'_>) -> Result<Vec<Stage>> {
    let root = Computation::parse(root, &call.context.environment)?;
    Ok(vec![Stage::transform(ReplaceRoot(root))])
}

impl Transform for ReplaceRoot {
    fn apply(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        let root = self.0.of(document)?;
        match root.document() {
            Some(root) => Ok(root.to_owned()),
            None => {
                let found = root.type_name();
                let message = format!("'newRoot' must give a document, and gave {found}");
                Err(Error::server(40228, message))
            }
        }
    }
}
