//! `$bucketAuto`: a number of buckets with about as many documents each.
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

use super::bucket::{counting, grouping, read_outputs};
use super::group::{Accumulated, Outputs};
use super::stages::Call;
use super::{Documents, MEMORY_LIMIT, Operator, Source, Stage, too_much_memory};
use crate::expression::Computation;
use crate::value::{self, Number};
use crate::{Error, Result};

use granularity::Granularity;

#[derive(Debug)]
struct BucketAuto {
    by: Computation,
    count: usize,
    granularity: Option<Granularity>,
    outputs: Outputs,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(arguments) = call.operand else {
        let message = "$bucketAuto takes a document of arguments";
        return Err(Error::server(40240, message));
    };
    let environment = &call.context.environment;
    let (mut by, mut count, mut granularity, mut outputs) = (None, None, None, None);
    for (name, argument) in value::fields(arguments) {
        match (name, argument) {
            ("groupBy", argument) => by = Some(grouping(argument, 40239, call)?),
            ("buckets", argument) => count = Some(read_count(argument)?),
            ("granularity", RawBsonRef::String(name)) => {
                granularity = Some(Granularity::named(name)?);
            }
            ("granularity", _) => {
                let message = "the 'granularity' of $bucketAuto is a string";
                return Err(Error::server(40261, message));
            }
            ("output", argument) => outputs = Some(read_outputs(argument, 40244, environment)?),
            (other, _) => {
                let message = format!("$bucketAuto has no argument '{other}'");
                return Err(Error::server(40245, message));
            }
        }
    }
    let (Some(by), Some(count)) = (by, count) else {
        let message = "$bucketAuto needs 'groupBy' and 'buckets'";
        return Err(Error::server(40246, message));
    };
    Ok(vec![Stage::operator(BucketAuto {
        by,
        count,
        granularity,
        outputs: match outputs.filter(|outputs| !outputs.is_empty()) {
            Some(outputs) => outputs,
            None => counting(environment)?,
        },
    })])
}

fn read_count(argument: RawBsonRef<'_>) -> Result<usize> {
    let refused = |code, what: &str| {
        let message = format!("the 'buckets' of $bucketAuto are {what}");
        Error::server(code, message)
    };
    let number = Number::from_bson(argument).ok_or_else(|| refused(40241, "a number"))?;
    let count = number.whole().and_then(|count| i32::try_from(count).ok());
    let count = count.ok_or_else(|| refused(40242, "a whole number of 32 bits"))?;
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(refused(40243, "more than 0")),
    }
}

/// A document with the value it is put into a bucket by.
type Valued = (RawBson, RawDocumentBuf);

/// The buckets, while they are filled in the order of the values.
struct Filling<'b> {
    stage: &'b BucketAuto,
    left: Peekable<IntoIter<Valued>>,
    /// How many documents a bucket has, but for equal values.
    size: usize,
}

struct Bucket {
    accumulated: Accumulated,
    min: RawBson,
    max: RawBson,
}

impl Operator for BucketAuto {
    fn run(self: Box<Self>, documents: Documents, _: &Arc<dyn Source>) -> Result<Documents> {
        let mut all: Vec<Valued> = Vec::new();
        let mut bytes = 0;
        for document in documents {
            let document = document?;
            let value = self.by.of(&document)?.into_bson().unwrap_or(RawBson::Null);
            bytes += document.as_bytes().len() + size_of::<Valued>();
            if bytes > MEMORY_LIMIT {
                return Err(too_much_memory(
                    "$bucketAuto",
                    "match fewer documents before it",
                ));
            }
            all.push((value, document));
        }
        all.sort_by(|(a, _), (b, _)| value::compare(a.as_raw_bson_ref(), b.as_raw_bson_ref()));
        let size = (all.len() as f64 / self.count as f64).round() as usize;
        let mut filling = Filling {
            stage: &self,
            left: all.into_iter().peekable(),
            size: size.max(1),
        };
        let mut buckets = Vec::new();
        let mut previous = None;
        for number in 1..=self.count {
            let Some(bucket) = filling.next(number == self.count, previous.as_ref())? else {
                break;
            };
            previous = self.granularity.is_some().then(|| bucket.max.clone());
            buckets.push(bucket.finish(&self.outputs)?);
        }
        Ok(Box::new(buckets.into_iter().map(Ok)))
    }
}

impl Filling<'_> {
    /// The next bucket, if there are documents left. With a granularity it begins where the previous one ends.
    fn next(&mut self, is_last: bool, previous: Option<&RawBson>) -> Result<Option<Bucket>> {
        let Some((first, document)) = self.left.next() else {
            return Ok(None);
        };
        let min = match (&self.stage.granularity, previous) {
            (Some(_), Some(previous)) => previous.clone(),
            (Some(granularity), None) => granularity.round_down(&first)?,
            (None, _) => first.clone(),
        };
        let mut bucket = Bucket {
            accumulated: self.stage.outputs.start(RawBson::Null)?,
            min,
            max: first.clone(),
        };
        bucket.add(first, &document, &self.stage.outputs)?;
        let mut count = 1;
        while count < self.size || is_last {
            let Some((value, document)) = self.left.next() else {
                break;
            };
            bucket.add(value, &document, &self.stage.outputs)?;
            count += 1;
        }
        self.close(&mut bucket)?;
        Ok(Some(bucket))
    }

    /// Takes in what belongs to the bucket besides, and sets where it ends.
    fn close(&mut self, bucket: &mut Bucket) -> Result<()> {
        let outputs = &self.stage.outputs;
        let Some(granularity) = &self.stage.granularity else {
            let max = bucket.max.clone();
            let equal =
                |(value, _): &Valued| value::equal(value.as_raw_bson_ref(), max.as_raw_bson_ref());
            while let Some((value, document)) = self.left.next_if(equal) {
                bucket.add(value, &document, outputs)?;
            }
            if let Some((next, _)) = self.left.peek() {
                bucket.max = next.clone();
            }
            return Ok(());
        };
        let end = granularity.round_up(&bucket.max)?;
        let below = |(value, _): &Valued| {
            value::compare(value.as_raw_bson_ref(), end.as_raw_bson_ref()).is_lt()
        };
        while let Some((value, document)) = self.left.next_if(below) {
            bucket.add(value, &document, outputs)?;
        }
        let is_zero = Number::from_bson(end.as_raw_bson_ref()).is_some_and(Number::is_zero);
        bucket.max = match self.left.peek() {
            // Zero has no step above it: the bucket ends below the next value.
            Some((next, _)) if is_zero => granularity.round_down(next)?,
            _ => end,
        };
        Ok(())
    }
}

impl Bucket {
    fn add(&mut self, value: RawBson, document: &RawDocumentBuf, outputs: &Outputs) -> Result<()> {
        self.max = value;
        // The documents themselves, which are held until now, are more than what is made of them.
        self.accumulated.add(outputs, document, &mut 0)
    }

    fn finish(self, outputs: &Outputs) -> Result<RawDocumentBuf> {
        let mut id = RawDocumentBuf::new();
        id.append(cstr!("min"), self.min);
        id.append(cstr!("max"), self.max);
        self.accumulated.finish(outputs, Some(id.into()))
    }
}
