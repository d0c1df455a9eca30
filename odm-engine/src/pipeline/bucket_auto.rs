//! `$bucketAuto`: a fixed number of buckets with similar numbers of documents.
//!
//! ```text
//! { "$bucketAuto": { "groupBy": "$a", "buckets": 2 } }
//! in:  { "a": 4 }
//! in:  { "a": 1 }
//! in:  { "a": 2 }
//! in:  { "a": 3 }
//! out: { "_id": { "min": 1, "max": 3 }, "count": 2 }
//! out: { "_id": { "min": 3, "max": 4 }, "count": 2 }
//!
//! { "$bucketAuto": { "groupBy": "$a", "buckets": 1, "granularity": "1-2-5" } }
//! in:  { "a": 3 }
//! in:  { "a": 15 }
//! out: { "_id": { "min": 2.0, "max": 20.0 }, "count": 2 }
//! ```

mod granularity;

use std::iter::Peekable;
use std::sync::Arc;
use std::vec::IntoIter;

use bson::raw::cstr;
use bson::{RawBson, RawBsonRef, RawDocumentBuf};

use super::bucket::{count_outputs, parse_group_by, read_outputs};
use super::group::{GroupAccumulators, GroupOutputs};
use super::stages::StageCall;
use super::{
    CollectionSource, DocumentIterator, MAX_STAGE_BYTES, PipelineStage, StageOperator,
    too_much_memory,
};
use crate::collation::ValueOrder;
use crate::expression::Computation;
use crate::value::{self, Number};
use crate::{Error, Result};

use granularity::Granularity;

#[derive(Debug)]
struct BucketAutoStage {
    by: Computation,
    count: usize,
    granularity: Option<Granularity>,
    outputs: GroupOutputs,
    order: ValueOrder,
}

pub(super) fn parse_bucket_auto(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    let RawBsonRef::Document(arguments) = call.operand else {
        let message = "$bucketAuto takes a document of arguments";
        return Err(Error::with_server_code(40240, message));
    };
    let environment = &call.context.environment;
    let (mut by, mut count, mut granularity, mut outputs) = (None, None, None, None);
    for (name, argument) in value::fields(arguments) {
        match (name, argument) {
            ("groupBy", argument) => by = Some(parse_group_by(argument, 40239, call)?),
            ("buckets", argument) => count = Some(read_count(argument)?),
            ("granularity", RawBsonRef::String(name)) => {
                granularity = Some(Granularity::from_name(name)?);
            }
            ("granularity", _) => {
                let message = "the 'granularity' of $bucketAuto must be a string";
                return Err(Error::with_server_code(40261, message));
            }
            ("output", argument) => outputs = Some(read_outputs(argument, 40244, environment)?),
            (other, _) => {
                let message = format!("$bucketAuto has no argument '{other}'");
                return Err(Error::with_server_code(40245, message));
            }
        }
    }
    let (Some(by), Some(count)) = (by, count) else {
        let message = "$bucketAuto needs 'groupBy' and 'buckets'";
        return Err(Error::with_server_code(40246, message));
    };
    Ok(vec![PipelineStage::from_operator(BucketAutoStage {
        by,
        count,
        granularity,
        order: environment.order().clone(),
        outputs: match outputs.filter(|outputs| !outputs.is_empty()) {
            Some(outputs) => outputs,
            None => count_outputs(environment)?,
        },
    })])
}

fn read_count(argument: RawBsonRef<'_>) -> Result<usize> {
    let rejection = |code, expected: &str| {
        let message = format!("the 'buckets' of $bucketAuto must be {expected}");
        Error::with_server_code(code, message)
    };
    let number = Number::from_bson(argument).ok_or_else(|| rejection(40241, "a number"))?;
    let count = number
        .whole_long()
        .and_then(|count| i32::try_from(count).ok());
    let count = count.ok_or_else(|| rejection(40242, "a 32-bit integer"))?;
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(rejection(40243, "greater than 0")),
    }
}

/// A document with its value of the `groupBy` expression.
type ValuedDocument = (RawBson, RawDocumentBuf);

/// A builder that fills buckets in the order of the values.
struct BucketFiller<'b> {
    stage: &'b BucketAutoStage,
    remaining: Peekable<IntoIter<ValuedDocument>>,
    /// The target number of documents in a bucket. Equal values stay in one bucket.
    size: usize,
}

struct AutoBucket {
    accumulated: GroupAccumulators,
    min: RawBson,
    max: RawBson,
}

impl StageOperator for BucketAutoStage {
    fn run_stage(
        self: Box<Self>,
        documents: DocumentIterator,
        _: &Arc<dyn CollectionSource>,
    ) -> Result<DocumentIterator> {
        let mut valued: Vec<ValuedDocument> = Vec::new();
        let mut bytes = 0;
        for document in documents {
            let document = document?;
            let value = self
                .by
                .evaluate(&document)?
                .into_bson()
                .unwrap_or(RawBson::Null);
            bytes += document.as_bytes().len() + size_of::<ValuedDocument>();
            if bytes > MAX_STAGE_BYTES {
                return Err(too_much_memory(
                    "$bucketAuto",
                    "match fewer documents before it",
                ));
            }
            valued.push((value, document));
        }
        valued.sort_by(|(a, _), (b, _)| {
            let (a, b) = (a.as_raw_bson_ref(), b.as_raw_bson_ref());
            self.order.compare(a, b)
        });
        let size = (valued.len() as f64 / self.count as f64).round() as usize;
        let mut filling = BucketFiller {
            stage: &self,
            remaining: valued.into_iter().peekable(),
            size: size.max(1),
        };
        let mut buckets = Vec::new();
        let mut previous = None;
        for number in 1..=self.count {
            let Some(bucket) = filling.next_bucket(number == self.count, previous.as_ref())? else {
                break;
            };
            previous = self.granularity.is_some().then(|| bucket.max.clone());
            buckets.push(bucket.into_document(&self.outputs)?);
        }
        Ok(Box::new(buckets.into_iter().map(Ok)))
    }
}

impl BucketFiller<'_> {
    /// Returns the next bucket, if documents remain. With a granularity, the bucket begins where the previous bucket ends.
    fn next_bucket(
        &mut self,
        is_last: bool,
        previous: Option<&RawBson>,
    ) -> Result<Option<AutoBucket>> {
        let Some((first, document)) = self.remaining.next() else {
            return Ok(None);
        };
        let min = match (&self.stage.granularity, previous) {
            (Some(_), Some(previous)) => previous.clone(),
            (Some(granularity), None) => granularity.round_down(&first)?,
            (None, _) => first.clone(),
        };
        let mut bucket = AutoBucket {
            accumulated: self.stage.outputs.start_group(RawBson::Null)?,
            min,
            max: first.clone(),
        };
        bucket.add_document(first, &document, &self.stage.outputs)?;
        let mut count = 1;
        while count < self.size || is_last {
            let Some((value, document)) = self.remaining.next() else {
                break;
            };
            bucket.add_document(value, &document, &self.stage.outputs)?;
            count += 1;
        }
        self.complete_bucket(&mut bucket)?;
        Ok(Some(bucket))
    }

    /// Adds the remaining documents that belong to the bucket, and sets the end of the bucket.
    fn complete_bucket(&mut self, bucket: &mut AutoBucket) -> Result<()> {
        let outputs = &self.stage.outputs;
        let Some(granularity) = &self.stage.granularity else {
            let max = bucket.max.clone();
            let equal = |(value, _): &ValuedDocument| {
                let order = &self.stage.order;
                order.equal(value.as_raw_bson_ref(), max.as_raw_bson_ref())
            };
            while let Some((value, document)) = self.remaining.next_if(equal) {
                bucket.add_document(value, &document, outputs)?;
            }
            if let Some((next, _)) = self.remaining.peek() {
                bucket.max = next.clone();
            }
            return Ok(());
        };
        let end = granularity.round_up(&bucket.max)?;
        let is_below = |(value, _): &ValuedDocument| {
            value::compare(value.as_raw_bson_ref(), end.as_raw_bson_ref()).is_lt()
        };
        while let Some((value, document)) = self.remaining.next_if(is_below) {
            bucket.add_document(value, &document, outputs)?;
        }
        let is_zero = Number::from_bson(end.as_raw_bson_ref()).is_some_and(Number::is_zero);
        bucket.max = match self.remaining.peek() {
            // Zero has no next step: the bucket ends below the next value.
            Some((next, _)) if is_zero => granularity.round_down(next)?,
            _ => end,
        };
        Ok(())
    }
}

impl AutoBucket {
    fn add_document(
        &mut self,
        value: RawBson,
        document: &RawDocumentBuf,
        outputs: &GroupOutputs,
    ) -> Result<()> {
        self.max = value;
        // Ignore the size of the accumulators: all documents are held in memory and are larger.
        self.accumulated.add_document(outputs, document, &mut 0)
    }

    fn into_document(self, outputs: &GroupOutputs) -> Result<RawDocumentBuf> {
        let mut id = RawDocumentBuf::new();
        id.append(cstr!("min"), self.min);
        id.append(cstr!("max"), self.max);
        self.accumulated.into_document(outputs, Some(id.into()))
    }
}
