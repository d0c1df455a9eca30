//! `$sample`: some documents by chance, no more than a number.
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

use super::stages::Call;
use super::{Documents, MEMORY_LIMIT, Operator, Source, Stage, too_much_memory};
use crate::value::Number;
use crate::{Error, Result, value};

#[derive(Debug)]
struct Sample {
    size: usize,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(arguments) = call.operand else {
        return Err(Error::server(28745, "$sample takes a document with 'size'"));
    };
    let mut size = None;
    for (name, argument) in value::fields(arguments) {
        if name != "size" {
            let message = format!("$sample has no argument '{name}'");
            return Err(Error::server(28748, message));
        }
        let number = Number::from_bson(argument).and_then(Number::truncated);
        let number = number.ok_or_else(|| Error::server(28746, "'size' is a number"))?;
        let number = usize::try_from(number);
        size = Some(number.map_err(|_| Error::server(28747, "'size' is not below 0"))?);
    }
    let size = size.ok_or_else(|| Error::server(28749, "$sample needs 'size'"))?;
    Ok(vec![Stage::operator(Sample { size })])
}

impl Operator for Sample {
    fn run(self: Box<Self>, documents: Documents, _: &Arc<dyn Source>) -> Result<Documents> {
        let mut random = rand::rng();
        let mut held = Vec::new();
        let mut bytes = 0;
        for (position, document) in documents.enumerate() {
            let document = document?;
            if held.len() < self.size {
                bytes += document.as_bytes().len();
                held.push(document);
            } else if let Some(place) = held.get_mut(random.random_range(0..=position)) {
                // Each document that came so far is as likely to be held as any other.
                bytes = bytes + document.as_bytes().len() - place.as_bytes().len();
                *place = document;
            }
            if bytes > MEMORY_LIMIT {
                return Err(too_much_memory("$sample", "ask for fewer documents"));
            }
        }
        held.shuffle(&mut random);
        Ok(Box::new(held.into_iter().map(Ok)))
    }
}
