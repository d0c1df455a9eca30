//! `$bucket`: a document for each range between boundaries that has documents.
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

use super::group::{Accumulated, Outputs};
use super::stages::Call;
use super::{Documents, MEMORY_LIMIT, Operator, Source, Stage, too_much_memory};
use crate::expression::{Computation, Environment};
use crate::{Error, Result, value};

#[derive(Debug)]
struct Bucket {
    by: Computation,
    /// In ascending order. All but the last begin a bucket.
    boundaries: Vec<RawBson>,
    /// The `_id` of the bucket for all others.
    default: Option<RawBson>,
    outputs: Outputs,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(arguments) = call.operand else {
        return Err(Error::server(
            40201,
            "$bucket takes a document of arguments",
        ));
    };
    let environment = &call.context.environment;
    let (mut by, mut boundaries, mut default, mut outputs) = (None, None, None, None);
    for (name, argument) in value::fields(arguments) {
        match name {
            "groupBy" => by = Some(grouping(argument, 40202, call)?),
            "boundaries" => boundaries = Some(read_boundaries(argument, environment)?),
            "default" => default = Some(constant(argument, environment, 40195, "default")?),
            "output" => outputs = Some(read_outputs(argument, 40196, environment)?),
            other => {
                let message = format!("$bucket has no argument '{other}'");
                return Err(Error::server(40197, message));
            }
        }
    }
    let (Some(by), Some(boundaries)) = (by, boundaries) else {
        let message = "$bucket needs 'groupBy' and 'boundaries'";
        return Err(Error::server(40198, message));
    };
    if let (Some(default), Some(first), Some(last)) =
        (&default, boundaries.first(), boundaries.last())
    {
        let compare =
            |bound: &RawBson| value::compare(default.as_raw_bson_ref(), bound.as_raw_bson_ref());
        if compare(first).is_ge() && compare(last).is_lt() {
            let message = "the 'default' of $bucket must lie outside of the boundaries";
            return Err(Error::server(40199, message));
        }
    }
    Ok(vec![Stage::operator(Bucket {
        by,
        boundaries,
        default,
        outputs: outputs.map_or_else(|| counting(environment), Ok)?,
    })])
}

/// What documents are put into buckets by.
pub(super) fn grouping(
    argument: RawBsonRef<'_>,
    code: i32,
    call: &Call<'_>,
) -> Result<Computation> {
    let is_fit = match argument {
        RawBsonRef::String(path) => path.starts_with('$'),
        RawBsonRef::Document(_) => true,
        _ => false,
    };
    if !is_fit {
        let message = format!("the 'groupBy' of {} is a path or an expression", call.name);
        return Err(Error::server(code, message));
    }
    Computation::parse(argument, &call.context.environment)
}

/// The accumulators of the argument `output`.
pub(super) fn read_outputs(
    argument: RawBsonRef<'_>,
    code: i32,
    environment: &Arc<Environment>,
) -> Result<Outputs> {
    let RawBsonRef::Document(fields) = argument else {
        return Err(Error::server(
            code,
            "'output' is a document of accumulators",
        ));
    };
    let mut outputs = Outputs::default();
    for (name, value) in value::fields(fields) {
        if name == "_id" {
            return Err(Error::server(15948, "a bucket has one _id only"));
        }
        outputs.add(name, value, environment)?;
    }
    Ok(outputs)
}

/// How many documents there are, for buckets without an `output`.
pub(super) fn counting(environment: &Arc<Environment>) -> Result<Outputs> {
    let mut outputs = Outputs::default();
    let count = rawdoc! { "$sum": 1 };
    outputs.add("count", RawBsonRef::Document(&count), environment)?;
    Ok(outputs)
}

fn constant(
    argument: RawBsonRef<'_>,
    environment: &Arc<Environment>,
    code: i32,
    what: &str,
) -> Result<RawBson> {
    let computation = Computation::parse(argument, environment)?;
    match computation.constant() {
        Some(value) => Ok(value.into_bson().unwrap_or(RawBson::Null)),
        None => {
            let message = format!("the '{what}' of $bucket must be constant");
            Err(Error::server(code, message))
        }
    }
}

fn read_boundaries(
    argument: RawBsonRef<'_>,
    environment: &Arc<Environment>,
) -> Result<Vec<RawBson>> {
    let RawBsonRef::Array(array) = argument else {
        return Err(Error::server(
            40200,
            "the 'boundaries' of $bucket are an array",
        ));
    };
    let boundaries: Vec<_> = value::items(array)
        .map(|item| constant(item, environment, 40191, "boundaries"))
        .collect::<Result<_>>()?;
    if boundaries.len() < 2 {
        let message = "the 'boundaries' of $bucket are two or more";
        return Err(Error::server(40192, message));
    }
    for pair in boundaries.windows(2) {
        let [one, next] = pair else { continue };
        let (one, next) = (one.as_raw_bson_ref(), next.as_raw_bson_ref());
        if value::rank(one) != value::rank(next) {
            let message = "the 'boundaries' of $bucket must all be of one type";
            return Err(Error::server(40193, message));
        }
        if value::compare(one, next).is_ge() {
            let message = "the 'boundaries' of $bucket must ascend";
            return Err(Error::server(40194, message));
        }
    }
    Ok(boundaries)
}

impl Operator for Bucket {
    fn run(self: Box<Self>, documents: Documents, _: &Arc<dyn Source>) -> Result<Documents> {
        // One for each boundary; that of the last one is for what lies outside.
        let mut buckets: Vec<Option<Accumulated>> = Vec::new();
        buckets.resize_with(self.boundaries.len(), || None);
        let mut bytes = 0;
        for document in documents {
            let document = document?;
            let (place, id) = self.place(&document)?;
            let Some(bucket) = buckets.get_mut(place) else {
                continue;
            };
            let bucket = match bucket {
                Some(bucket) => bucket,
                None => bucket.insert(self.outputs.start(id.clone())?),
            };
            bucket.add(&self.outputs, &document, &mut bytes)?;
            if bytes > MEMORY_LIMIT {
                return Err(too_much_memory(
                    "$bucket",
                    "match fewer documents before it",
                ));
            }
        }
        let outside = buckets.pop().flatten();
        let is_first = self.is_default_first();
        let mut all: Vec<_> = buckets.into_iter().flatten().collect();
        if let Some(outside) = outside {
            let place = if is_first { 0 } else { all.len() };
            all.insert(place, outside);
        }
        let outputs = self.outputs;
        Ok(Box::new(
            all.into_iter()
                .map(move |bucket| bucket.finish(&outputs, None)),
        ))
    }
}

impl Bucket {
    /// The bucket of a document, by the position of the boundary that begins it, and its `_id`.
    fn place(&self, document: &RawDocumentBuf) -> Result<(usize, &RawBson)> {
        let by = self.by.of(document)?;
        // What is missing lies below null.
        let above = self.boundaries.partition_point(|bound| {
            let bound = crate::expression::Value::Borrowed(bound.as_raw_bson_ref());
            bound.compare(&by).is_le()
        });
        let last = self.boundaries.len() - 1;
        if let Some(place) = above.checked_sub(1).filter(|place| *place < last)
            && let Some(id) = self.boundaries.get(place)
        {
            return Ok((place, id));
        }
        match &self.default {
            Some(default) => Ok((last, default)),
            None => {
                let message = "a document lies outside of the boundaries of $bucket, and there is no \
                               'default'";
                Err(Error::server(40066, message))
            }
        }
    }

    fn is_default_first(&self) -> bool {
        match (&self.default, self.boundaries.first()) {
            (Some(default), Some(first)) => {
                value::compare(default.as_raw_bson_ref(), first.as_raw_bson_ref()).is_lt()
            }
            _ => false,
        }
    }
}
