//! `$bucket`: one document for each non-empty range between boundaries.
//!
//! ```text
//! { "$bucket": { "groupBy": "$a", "boundaries": [0, 10, 20], "default": "other" } }
//! in:  { "a": 1 }
//! in:  { "a": 5 }
//! in:  { "a": 10 }
//! in:  { "a": 20 }
//! out: { "_id": 0, "count": 2 }
//! out: { "_id": 10, "count": 1 }
//! out: { "_id": "other", "count": 1 }
//! ```

use std::sync::Arc;

use bson::{RawBson, RawBsonRef, RawDocumentBuf, rawdoc};

use super::group::{GroupAccumulators, GroupOutputs};
use super::stages::StageCall;
use super::{
    CollectionSource, DocumentIterator, MAX_STAGE_BYTES, PipelineStage, StageOperator,
    too_much_memory,
};
use crate::collation::ValueOrder;
use crate::expression::{Computation, Environment};
use crate::{Error, Result, value};

#[derive(Debug)]
struct BucketStage {
    by: Computation,
    /// The boundaries in ascending order. Each boundary except the last begins a bucket.
    boundaries: Vec<RawBson>,
    /// The `_id` of the default bucket.
    default: Option<RawBson>,
    outputs: GroupOutputs,
    order: ValueOrder,
}

pub(super) fn parse_bucket(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    let RawBsonRef::Document(arguments) = call.operand else {
        return Err(Error::with_server_code(
            40201,
            "$bucket takes a document of arguments",
        ));
    };
    let environment = &call.context.environment;
    let (mut by, mut boundaries, mut default, mut outputs) = (None, None, None, None);
    for (name, argument) in value::fields(arguments) {
        match name {
            "groupBy" => by = Some(parse_group_by(argument, 40202, call)?),
            "boundaries" => boundaries = Some(read_boundaries(argument, environment)?),
            "default" => default = Some(parse_constant(argument, environment, 40195, "default")?),
            "output" => outputs = Some(read_outputs(argument, 40196, environment)?),
            other => {
                let message = format!("$bucket has no argument '{other}'");
                return Err(Error::with_server_code(40197, message));
            }
        }
    }
    let (Some(by), Some(boundaries)) = (by, boundaries) else {
        let message = "$bucket needs 'groupBy' and 'boundaries'";
        return Err(Error::with_server_code(40198, message));
    };
    if let (Some(default), Some(first), Some(last)) =
        (&default, boundaries.first(), boundaries.last())
    {
        let compare = |bound: &RawBson| {
            let (default, bound) = (default.as_raw_bson_ref(), bound.as_raw_bson_ref());
            environment.order().compare(default, bound)
        };
        if compare(first).is_ge() && compare(last).is_lt() {
            let message = "the 'default' of $bucket must lie outside of the boundaries";
            return Err(Error::with_server_code(40199, message));
        }
    }
    Ok(vec![PipelineStage::from_operator(BucketStage {
        by,
        boundaries,
        default,
        outputs: outputs.map_or_else(|| count_outputs(environment), Ok)?,
        order: environment.order().clone(),
    })])
}

/// Parses the expression that assigns documents to buckets.
pub(super) fn parse_group_by(
    argument: RawBsonRef<'_>,
    code: i32,
    call: &StageCall<'_>,
) -> Result<Computation> {
    let is_valid = match argument {
        RawBsonRef::String(path) => path.starts_with('$'),
        RawBsonRef::Document(_) => true,
        _ => false,
    };
    if !is_valid {
        let message = format!(
            "the 'groupBy' of {} must be a path or an expression",
            call.name
        );
        return Err(Error::with_server_code(code, message));
    }
    Computation::parse(argument, &call.context.environment)
}

/// Parses the accumulators of the argument `output`.
pub(super) fn read_outputs(
    argument: RawBsonRef<'_>,
    code: i32,
    environment: &Arc<Environment>,
) -> Result<GroupOutputs> {
    let RawBsonRef::Document(fields) = argument else {
        return Err(Error::with_server_code(
            code,
            "'output' must be a document of accumulators",
        ));
    };
    let mut outputs = GroupOutputs::default();
    for (name, value) in value::fields(fields) {
        if name == "_id" {
            return Err(Error::with_server_code(
                15948,
                "an output of a bucket cannot be named _id",
            ));
        }
        outputs.add_output(name, value, environment)?;
    }
    Ok(outputs)
}

/// Returns the default output of buckets: the number of documents.
pub(super) fn count_outputs(environment: &Arc<Environment>) -> Result<GroupOutputs> {
    let mut outputs = GroupOutputs::default();
    let count = rawdoc! { "$sum": 1 };
    outputs.add_output("count", RawBsonRef::Document(&count), environment)?;
    Ok(outputs)
}

fn parse_constant(
    argument: RawBsonRef<'_>,
    environment: &Arc<Environment>,
    code: i32,
    argument_name: &str,
) -> Result<RawBson> {
    let computation = Computation::parse(argument, environment)?;
    match computation.constant_value() {
        Some(value) => Ok(value.into_bson().unwrap_or(RawBson::Null)),
        None => {
            let message = format!("the '{argument_name}' of $bucket must be constant");
            Err(Error::with_server_code(code, message))
        }
    }
}

fn read_boundaries(
    argument: RawBsonRef<'_>,
    environment: &Arc<Environment>,
) -> Result<Vec<RawBson>> {
    let RawBsonRef::Array(array) = argument else {
        return Err(Error::with_server_code(
            40200,
            "the 'boundaries' of $bucket must be an array",
        ));
    };
    let boundaries: Vec<_> = value::items(array)
        .map(|item| parse_constant(item, environment, 40191, "boundaries"))
        .collect::<Result<_>>()?;
    if boundaries.len() < 2 {
        let message = "the 'boundaries' of $bucket must be two or more";
        return Err(Error::with_server_code(40192, message));
    }
    for pair in boundaries.windows(2) {
        let [bound, next] = pair else { continue };
        let (bound, next) = (bound.as_raw_bson_ref(), next.as_raw_bson_ref());
        if value::type_rank(bound) != value::type_rank(next) {
            let message = "the 'boundaries' of $bucket must all be of one type";
            return Err(Error::with_server_code(40193, message));
        }
        if environment.order().compare(bound, next).is_ge() {
            let message = "the 'boundaries' of $bucket must ascend";
            return Err(Error::with_server_code(40194, message));
        }
    }
    Ok(boundaries)
}

impl StageOperator for BucketStage {
    fn run_stage(
        self: Box<Self>,
        documents: DocumentIterator,
        _: &Arc<dyn CollectionSource>,
    ) -> Result<DocumentIterator> {
        // One bucket for each boundary. The bucket of the last boundary is the default bucket.
        let mut buckets: Vec<Option<GroupAccumulators>> = Vec::new();
        buckets.resize_with(self.boundaries.len(), || None);
        let mut bytes = 0;
        for document in documents {
            let document = document?;
            let (position, id) = self.bucket_position(&document)?;
            let Some(bucket) = buckets.get_mut(position) else {
                continue;
            };
            let bucket = match bucket {
                Some(bucket) => bucket,
                None => bucket.insert(self.outputs.start_group(id.clone())?),
            };
            bucket.add_document(&self.outputs, &document, &mut bytes)?;
            if bytes > MAX_STAGE_BYTES {
                return Err(too_much_memory(
                    "$bucket",
                    "match fewer documents before it",
                ));
            }
        }
        let default_bucket = buckets.pop().flatten();
        let is_first = self.is_default_first();
        let mut ordered: Vec<_> = buckets.into_iter().flatten().collect();
        if let Some(default_bucket) = default_bucket {
            let position = if is_first { 0 } else { ordered.len() };
            ordered.insert(position, default_bucket);
        }
        let outputs = self.outputs;
        Ok(Box::new(
            ordered
                .into_iter()
                .map(move |bucket| bucket.into_document(&outputs, None)),
        ))
    }
}

impl BucketStage {
    /// Returns the position of a document's bucket, and the bucket's `_id`.
    fn bucket_position(&self, document: &RawDocumentBuf) -> Result<(usize, &RawBson)> {
        let by = self.by.evaluate(document)?;
        // A missing value sorts below null.
        let above = self.boundaries.partition_point(|bound| {
            let bound = crate::expression::Value::Borrowed(bound.as_raw_bson_ref());
            bound.compare(&by, &self.order).is_le()
        });
        let last = self.boundaries.len() - 1;
        if let Some(position) = above.checked_sub(1).filter(|position| *position < last)
            && let Some(id) = self.boundaries.get(position)
        {
            return Ok((position, id));
        }
        match &self.default {
            Some(default) => Ok((last, default)),
            None => {
                let message = "a document lies outside of the boundaries of $bucket; set a \
                               'default'";
                Err(Error::with_server_code(40066, message))
            }
        }
    }

    fn is_default_first(&self) -> bool {
        match (&self.default, self.boundaries.first()) {
            (Some(default), Some(first)) => {
                let (default, first) = (default.as_raw_bson_ref(), first.as_raw_bson_ref());
                self.order.compare(default, first).is_lt()
            }
            _ => false,
        }
    }
}
