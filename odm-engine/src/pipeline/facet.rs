//! `$facet`: several pipelines on the same documents, and what each gives as an array.
//!
//! ```text
//! { "$facet": { "all": [{ "$count": "n" }], "first": [{ "$limit": 1 }] } }
//! in:  { "_id": 1 }
//! in:  { "_id": 2 }
//! out: { "all": [{ "n": 2 }], "first": [{ "_id": 1 }] }
//! ```

use std::sync::Arc;

use bson::{RawArrayBuf, RawBsonRef, RawDocumentBuf};

use super::stages::{self, Call, Context};
use super::{Documents, MEMORY_LIMIT, Operator, Pipeline, Source, Stage, nested, too_much_memory};
use crate::document::append;
use crate::{Error, Result, value};

#[derive(Debug)]
struct Facet(Vec<(Box<str>, Pipeline)>);

pub(super) fn parse(call: &Call<'_>) -> Result<Vec<Stage>> {
    if call.context.is_in_facet {
        return Err(Error::server(40600, "$facet cannot be within $facet"));
    }
    let fields = match call.operand {
        RawBsonRef::Document(fields) if !fields.is_empty() => fields,
        _ => {
            let message = "$facet takes a document of pipelines, one or more";
            return Err(Error::server(40169, message));
        }
    };
    let context = Context {
        is_in_facet: true,
        ..call.context.clone()
    };
    let mut facets = Vec::new();
    for (name, pipeline) in value::fields(fields) {
        check_name(name)?;
        let RawBsonRef::Array(array) = pipeline else {
            let message = format!("'{name}' in $facet is not an array of stages");
            return Err(Error::server(40170, message));
        };
        let mut all = Vec::new();
        for stage in value::items(array) {
            match stage {
                RawBsonRef::Document(stage) => all.push(stage),
                _ => {
                    let message = format!("'{name}' in $facet has a stage that is no document");
                    return Err(Error::server(40171, message));
                }
            }
        }
        // As on MongoDB, before any of them is read.
        for stage in &all {
            let mut fields = value::fields(stage);
            let (Some((name, _)), None) = (fields.next(), fields.next()) else {
                let message = "a stage of a pipeline is a document with exactly one field";
                return Err(Error::server(40323, message));
            };
            stages::find(name)?;
        }
        facets.push((name.into(), Pipeline::parse_in(all, &context)?));
    }
    Ok(vec![Stage::operator(Facet(facets))])
}

fn check_name(name: &str) -> Result<()> {
    let code = if name.is_empty() {
        15998
    } else if name.starts_with('$') {
        16410
    } else if name.contains('.') {
        16412
    } else {
        return nested::field_path(name).map(|_| ());
    };
    let message = format!("'{name}' cannot be the name of a field in $facet");
    Err(Error::server(code, message))
}

impl Operator for Facet {
    fn run(self: Box<Self>, documents: Documents, source: &Arc<dyn Source>) -> Result<Documents> {
        let mut bytes = 0;
        let mut take = |document: &RawDocumentBuf| {
            bytes += document.as_bytes().len();
            if bytes > MEMORY_LIMIT {
                return Err(too_much_memory("$facet", "match fewer documents before it"));
            }
            Ok(())
        };
        let mut all = Vec::new();
        for document in documents {
            let document = document?;
            take(&document)?;
            all.push(document);
        }
        let all: Arc<[_]> = all.into();
        let mut output = RawDocumentBuf::new();
        for (name, pipeline) in self.0 {
            let (shared, mut next) = (Arc::clone(&all), 0);
            let copies = std::iter::from_fn(move || {
                next += 1;
                shared.get(next - 1).cloned().map(Ok)
            });
            let mut array = RawArrayBuf::new();
            for document in pipeline.run(Box::new(copies), source)? {
                let document = document?;
                take(&document)?;
                array.push(document);
            }
            append(&mut output, &name, array);
        }
        Ok(Box::new(std::iter::once(Ok(output))))
    }
}
