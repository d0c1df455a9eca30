//! `$group`: a document for each value of an expression, with what accumulators make of its documents.
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

use super::stages::Call;
use super::{Documents, MEMORY_LIMIT, Operator, Source, Stage, too_much_memory};
use crate::accumulator::{Accumulation, Accumulator};
use crate::direction::Direction;
use crate::document::append;
use crate::expression::{Computation, Environment};
use crate::key::value::encode;
use crate::{Error, Result, value};

/// What documents are grouped by and what is computed of each group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) id: Computation,
    /// The field of an `_id` that has only one: like an `_id` without fields, it is null where it would be missing.
    pub(super) lone: Option<CString>,
    pub(super) outputs: Outputs,
}

/// The fields that accumulators compute.
#[derive(Debug, Default)]
pub(super) struct Outputs(Vec<(Box<str>, Accumulation)>);

/// The documents of one group, while they come.
pub(super) struct Accumulated {
    id: RawBson,
    accumulators: Vec<Box<dyn Accumulator>>,
    bytes: usize,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(fields) = call.operand else {
        return Err(Error::server(15947, "$group takes a document of fields"));
    };
    let environment = &call.context.environment;
    let (mut id, mut lone, mut outputs) = (None, None, Outputs::default());
    for (name, value) in value::fields(fields) {
        if name != "_id" {
            outputs.add(name, value, environment)?;
            continue;
        }
        if id.is_some() {
            return Err(Error::server(15948, "$group has one _id only"));
        }
        check_id(value)?;
        lone = lone_field(value);
        id = Some(Computation::parse(value, environment)?);
    }
    let id = id.ok_or_else(|| Error::server(15955, "$group needs an _id to group by"))?;
    Ok(vec![Stage::operator(Group { id, lone, outputs })])
}

/// The field of an `_id` that has only one.
fn lone_field(id: RawBsonRef<'_>) -> Option<CString> {
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
            Err(Error::server(17390, message))
        }
        _ => Ok(()),
    }
}

impl Operator for Group {
    fn run(self: Box<Self>, documents: Documents, _: &Arc<dyn Source>) -> Result<Documents> {
        let mut places = HashMap::new();
        let mut groups: Vec<Accumulated> = Vec::new();
        let mut bytes = 0;
        for document in documents {
            let document = document?;
            let id = self.id(&document)?;
            let mut key = Vec::new();
            encode(id.as_raw_bson_ref(), Direction::Ascending, &mut key)?;
            let place = match places.get(&key) {
                Some(place) => *place,
                None => {
                    bytes += 2 * key.len() + 64;
                    groups.push(self.outputs.start(id)?);
                    places.insert(key, groups.len() - 1);
                    groups.len() - 1
                }
            };
            if let Some(group) = groups.get_mut(place) {
                group.add(&self.outputs, &document, &mut bytes)?;
            }
            if bytes > MEMORY_LIMIT {
                return Err(too_much_memory("$group", "match fewer documents before it"));
            }
        }
        let outputs = self.outputs;
        Ok(Box::new(
            groups
                .into_iter()
                .map(move |group| group.finish(&outputs, None)),
        ))
    }
}

impl Group {
    fn id(&self, document: &RawDocument) -> Result<RawBson> {
        let id = self.id.of(document)?.into_bson().unwrap_or(RawBson::Null);
        Ok(match (&self.lone, id) {
            (Some(field), RawBson::Document(mut id)) if id.is_empty() => {
                id.append(field, RawBsonRef::Null);
                id.into()
            }
            (_, id) => id,
        })
    }
}

impl Outputs {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the accumulator of a field.
    ///
    /// # Errors
    /// As [`Accumulation::parse`].
    pub(super) fn add(
        &mut self,
        name: &str,
        value: RawBsonRef<'_>,
        environment: &Arc<Environment>,
    ) -> Result<()> {
        let accumulation = Accumulation::parse(name, value, environment)?;
        self.0.push((name.into(), accumulation));
        Ok(())
    }

    /// Begins a group.
    ///
    /// # Errors
    /// Arguments of accumulators that do not fit.
    pub(super) fn start(&self, id: RawBson) -> Result<Accumulated> {
        let empty = RawDocumentBuf::new();
        let root = match &id {
            RawBson::Document(id) => id,
            _ => &empty,
        };
        let started = self
            .0
            .iter()
            .map(|(_, accumulation)| accumulation.start(root));
        Ok(Accumulated {
            accumulators: started.collect::<Result<_>>()?,
            id,
            bytes: 0,
        })
    }
}

impl Accumulated {
    /// Takes in a document, and keeps count of the bytes that are held.
    ///
    /// # Errors
    /// What the operands fail with; values that the accumulators cannot take.
    pub(super) fn add(
        &mut self,
        outputs: &Outputs,
        document: &RawDocument,
        held: &mut usize,
    ) -> Result<()> {
        let mut bytes = 0;
        for ((_, accumulation), accumulator) in outputs.0.iter().zip(&mut self.accumulators) {
            accumulation.add(&mut **accumulator, document)?;
            bytes += accumulator.bytes();
        }
        *held = held.saturating_sub(self.bytes) + bytes;
        self.bytes = bytes;
        Ok(())
    }

    /// The document of the group, under its own `_id` or another one.
    ///
    /// # Errors
    /// None for now.
    pub(super) fn finish(self, outputs: &Outputs, id: Option<RawBson>) -> Result<RawDocumentBuf> {
        let mut output = RawDocumentBuf::new();
        output.append(cstr!("_id"), id.unwrap_or(self.id));
        for ((name, _), accumulator) in outputs.0.iter().zip(self.accumulators) {
            let value = accumulator.finish().unwrap_or(RawBson::Null);
            append(&mut output, name, value);
        }
        Ok(output)
    }
}
