//! `$out`: replaces the content of a collection by the documents.
//!
//! ```json
//! { "$out": "totals" }
//! ```

use bson::RawBsonRef;

use super::output::{self, PipelineOutput};
use super::stages::StageCall;
use crate::{Error, Result, value};

/// A parsed `$out`.
#[derive(Debug)]
pub(crate) struct Out {
    pub(crate) collection: String,
}

pub(super) fn parse_out(call: &StageCall<'_>) -> Result<PipelineOutput> {
    output::check_place(call)?;
    match call.operand {
        RawBsonRef::String(collection) => Ok(PipelineOutput::Out(Out {
            collection: collection.to_owned(),
        })),
        RawBsonRef::Document(_) => Err(Error::not_supported(
            "$out cannot write into another database: its operand is the name of a collection",
        )),
        operand => {
            let message = format!(
                "$out only supports a string or object argument, but found {}",
                value::type_name(operand)
            );
            Err(Error::with_server_code(16990, message))
        }
    }
}
