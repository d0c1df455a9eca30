//! `$sample`: a given number of random documents.
//!
//! ```text
//! { "$sample": { "size": 2 } }
//! in:  { "_id": 1 }
//! out: { "_id": 1 }
//! ```

use std::sync::Arc;

use bson::RawBsonRef;
use rand::Rng;
use rand::seq::SliceRandom;

use super::stages::StageCall;
use super::{
    CollectionSource, DocumentIterator, MAX_STAGE_BYTES, PipelineStage, StageOperator,
    too_much_memory,
};
use crate::value::Number;
use crate::{Error, Result, value};

#[derive(Debug)]
struct SampleStage {
    size: usize,
}

pub(super) fn parse_sample(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    let RawBsonRef::Document(arguments) = call.operand else {
        return Err(Error::with_server_code(
            28745,
            "$sample takes a document with 'size'",
        ));
    };
    let mut size = None;
    for (name, argument) in value::fields(arguments) {
        if name != "size" {
            let message = format!("$sample has no argument '{name}'");
            return Err(Error::with_server_code(28748, message));
        }
        let number = Number::from_bson(argument).and_then(Number::truncated_long);
        let number = number.ok_or_else(|| {
            Error::with_server_code(28746, "the 'size' of $sample must be a number")
        })?;
        let number = usize::try_from(number);
        size = Some(number.map_err(|_| {
            Error::with_server_code(28747, "the 'size' of $sample must not be negative")
        })?);
    }
    let size = size.ok_or_else(|| Error::with_server_code(28749, "$sample needs 'size'"))?;
    Ok(vec![PipelineStage::from_operator(SampleStage { size })])
}

impl StageOperator for SampleStage {
    fn run_stage(
        self: Box<Self>,
        documents: DocumentIterator,
        _: &Arc<dyn CollectionSource>,
    ) -> Result<DocumentIterator> {
        let mut random = rand::rng();
        let mut sample = Vec::new();
        let mut bytes = 0;
        for (position, document) in documents.enumerate() {
            let document = document?;
            if sample.len() < self.size {
                bytes += document.as_bytes().len();
                sample.push(document);
            } else if let Some(slot) = sample.get_mut(random.random_range(0..=position)) {
                // Reservoir sampling: every document so far is held with the same probability.
                bytes = bytes + document.as_bytes().len() - slot.as_bytes().len();
                *slot = document;
            }
            if bytes > MAX_STAGE_BYTES {
                return Err(too_much_memory("$sample", "ask for fewer documents"));
            }
        }
        sample.shuffle(&mut random);
        Ok(Box::new(sample.into_iter().map(Ok)))
    }
}
