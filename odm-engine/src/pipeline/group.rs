//! `$group`: one document for each value of an expression, with accumulated values of the group's documents.
//!
//! ```text
//! { "$group": { "_id": "$a", "total": { "$sum": "$b" } } }
//! in:  { "_id": 1, "a": "x", "b": 1 }
//! in:  { "_id": 2, "a": "y", "b": 5 }
//! in:  { "_id": 3, "a": "x", "b": 2 }
//! out: { "_id": "x", "total": 3 }
//! out: { "_id": "y", "total": 5 }
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use bson::raw::{CString, cstr};
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::stages::StageCall;
use super::{
    CollectionSource, DocumentIterator, MAX_STAGE_BYTES, PipelineStage, StageOperator,
    too_much_memory,
};
use crate::accumulator::{Accumulator, AccumulatorSpec};
use crate::collation::ValueOrder;
use crate::direction::Direction;
use crate::document::append_field;
use crate::expression::{Computation, Environment};
use crate::key::value::encode_collated;
use crate::{Error, Result, value};

/// The grouping expression and the outputs of `$group`.
#[derive(Debug)]
pub(super) struct GroupStage {
    pub(super) id: Computation,
    /// The field of an `_id` document with a single field. Such an `_id` is null if its value is missing, like an `_id` that is
    /// not a document.
    pub(super) single_id_field: Option<CString>,
    pub(super) outputs: GroupOutputs,
    /// The order of values, which decides whether two documents have equal groups.
    pub(super) order: ValueOrder,
}

/// The accumulated fields of a group.
#[derive(Debug, Default)]
pub(super) struct GroupOutputs(Vec<(Box<str>, AccumulatorSpec)>);

/// The accumulators of one group.
pub(super) struct GroupAccumulators {
    id: RawBson,
    accumulators: Vec<Box<dyn Accumulator>>,
    bytes: usize,
}

pub(super) fn parse_group(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    let RawBsonRef::Document(fields) = call.operand else {
        return Err(Error::with_server_code(
            15947,
            "$group takes a document of fields",
        ));
    };
    let environment = &call.context.environment;
    let (mut id, mut single_id_field, mut outputs) = (None, None, GroupOutputs::default());
    for (name, value) in value::fields(fields) {
        if name != "_id" {
            outputs.add_output(name, value, environment)?;
            continue;
        }
        if id.is_some() {
            return Err(Error::with_server_code(
                15948,
                "$group can have only one _id",
            ));
        }
        check_id(value)?;
        single_id_field = single_field(value);
        id = Some(Computation::parse(value, environment)?);
    }
    let id = id.ok_or_else(|| Error::with_server_code(15955, "$group needs an _id to group by"))?;
    Ok(vec![PipelineStage::from_operator(GroupStage {
        id,
        single_id_field,
        outputs,
        order: environment.order().clone(),
    })])
}

/// Returns the field of an `_id` document with a single field.
fn single_field(id: RawBsonRef<'_>) -> Option<CString> {
    let mut fields = value::fields(id.as_document()?);
    match (fields.next(), fields.next()) {
        (Some((name, _)), None) if !name.starts_with('$') => CString::try_from(name).ok(),
        _ => None,
    }
}

/// Refuses `{ field: 1 }`, which looks like a projection.
fn check_id(id: RawBsonRef<'_>) -> Result<()> {
    let is_flag = |(_, value): (&str, RawBsonRef<'_>)| {
        let is_number = value::Number::from_bson(value).is_some();
        is_number || matches!(value, RawBsonRef::Boolean(_))
    };
    let is_operator = |fields: &RawDocument| {
        value::fields(fields)
            .next()
            .is_some_and(|(name, _)| name.starts_with('$'))
    };
    match id {
        RawBsonRef::Document(fields)
            if !is_operator(fields) && value::fields(fields).any(is_flag) =>
        {
            let message = "the _id of $group cannot include fields by 1 or true; write '$field'";
            Err(Error::with_server_code(17390, message))
        }
        _ => Ok(()),
    }
}

impl StageOperator for GroupStage {
    fn run_stage(
        self: Box<Self>,
        documents: DocumentIterator,
        _: &Arc<dyn CollectionSource>,
    ) -> Result<DocumentIterator> {
        let mut positions = HashMap::new();
        let mut groups: Vec<GroupAccumulators> = Vec::new();
        let mut bytes = 0;
        for document in documents {
            let document = document?;
            let id = self.group_id(&document)?;
            let mut key = Vec::new();
            let value = id.as_raw_bson_ref();
            encode_collated(value, Direction::Ascending, self.order.collator(), &mut key)?;
            let position = match positions.get(&key) {
                Some(position) => *position,
                None => {
                    bytes += 2 * key.len() + 64;
                    groups.push(self.outputs.start_group(id)?);
                    positions.insert(key, groups.len() - 1);
                    groups.len() - 1
                }
            };
            if let Some(group) = groups.get_mut(position) {
                group.add_document(&self.outputs, &document, &mut bytes)?;
            }
            if bytes > MAX_STAGE_BYTES {
                return Err(too_much_memory("$group", "match fewer documents before it"));
            }
        }
        let outputs = self.outputs;
        Ok(Box::new(
            groups
                .into_iter()
                .map(move |group| group.into_document(&outputs, None)),
        ))
    }
}

impl GroupStage {
    fn group_id(&self, document: &RawDocument) -> Result<RawBson> {
        let id = self
            .id
            .evaluate(document)?
            .into_bson()
            .unwrap_or(RawBson::Null);
        Ok(match (&self.single_id_field, id) {
            (Some(field), RawBson::Document(mut id)) if id.is_empty() => {
                id.append(field, RawBsonRef::Null);
                id.into()
            }
            (_, id) => id,
        })
    }
}

impl GroupOutputs {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the accumulator of a field.
    ///
    /// # Errors
    /// See [`AccumulatorSpec::parse`].
    pub(super) fn add_output(
        &mut self,
        name: &str,
        value: RawBsonRef<'_>,
        environment: &Arc<Environment>,
    ) -> Result<()> {
        let accumulation = AccumulatorSpec::parse(name, value, environment)?;
        self.0.push((name.into(), accumulation));
        Ok(())
    }

    /// Begins a group.
    ///
    /// # Errors
    /// Invalid arguments of accumulators.
    pub(super) fn start_group(&self, id: RawBson) -> Result<GroupAccumulators> {
        let empty = RawDocumentBuf::new();
        let root = match &id {
            RawBson::Document(id) => id,
            _ => &empty,
        };
        let started = self
            .0
            .iter()
            .map(|(_, accumulation)| accumulation.start_group(root));
        Ok(GroupAccumulators {
            accumulators: started.collect::<Result<_>>()?,
            id,
            bytes: 0,
        })
    }
}

impl GroupAccumulators {
    /// Adds a document to the group, and updates the number of held bytes.
    ///
    /// # Errors
    /// Errors of the operands; values that an accumulator does not accept.
    pub(super) fn add_document(
        &mut self,
        outputs: &GroupOutputs,
        document: &RawDocument,
        total_bytes: &mut usize,
    ) -> Result<()> {
        let mut bytes = 0;
        for ((_, accumulation), accumulator) in outputs.0.iter().zip(&mut self.accumulators) {
            accumulation.add_document(&mut **accumulator, document)?;
            bytes += accumulator.held_bytes();
        }
        *total_bytes = total_bytes.saturating_sub(self.bytes) + bytes;
        self.bytes = bytes;
        Ok(())
    }

    /// Returns the document of the group, with its own `_id` or with `id`.
    ///
    /// # Errors
    /// Currently infallible.
    pub(super) fn into_document(
        self,
        outputs: &GroupOutputs,
        id: Option<RawBson>,
    ) -> Result<RawDocumentBuf> {
        let mut output = RawDocumentBuf::new();
        output.append(cstr!("_id"), id.unwrap_or(self.id));
        for ((name, _), accumulator) in outputs.0.iter().zip(self.accumulators) {
            let value = accumulator.into_value().unwrap_or(RawBson::Null);
            append_field(&mut output, name, value);
        }
        Ok(output)
    }
}
