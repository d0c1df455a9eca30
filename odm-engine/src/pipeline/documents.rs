//! `$documents`: the documents of an array, at the beginning of a pipeline without a collection.
//!
//! ```text
//! { "$documents": [{ "a": 1 }, { "a": 2 }] }
//! out: { "a": 1 }
//! out: { "a": 2 }
//! ```

use bson::RawDocumentBuf;

use super::PipelineStage;
use super::stages::StageCall;
use crate::expression::Computation;
use crate::{Error, Result, value};

pub(super) fn parse_documents(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    if call.context.is_in_facet {
        return Err(Error::with_server_code(
            40600,
            "$documents cannot be within $facet",
        ));
    }
    let computation = Computation::parse(call.operand, &call.context.environment)?;
    let root = RawDocumentBuf::new();
    let value = computation.evaluate(&root)?;
    let array = value.as_array().ok_or_else(|| {
        let message = format!("$documents takes an array, not {}", value.type_name());
        Error::with_server_code(5858203, message)
    })?;
    let documents = value::items(array).map(|item| {
        let document = item.as_document().map(ToOwned::to_owned);
        document
            .ok_or_else(|| Error::with_server_code(40228, "$documents takes an array of documents"))
    });
    let documents = documents.collect::<Result<_>>()?;
    Ok(vec![PipelineStage::Documents(documents)])
}
