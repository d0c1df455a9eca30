//! `$facet`: several pipelines on the same documents, each with its results as an array.
//!
//! ```text
//! { "$facet": { "all": [{ "$count": "n" }], "first": [{ "$limit": 1 }] } }
//! in:  { "_id": 1 }
//! in:  { "_id": 2 }
//! out: { "all": [{ "n": 2 }], "first": [{ "_id": 1 }] }
//! ```

use std::sync::Arc;

use bson::{RawArrayBuf, RawBsonRef, RawDocumentBuf};

use super::stages::{self, PipelineContext, StageCall};
use super::{
    CollectionSource, DocumentIterator, MAX_STAGE_BYTES, Pipeline, PipelineStage, StageOperator,
    nested, too_much_memory,
};
use crate::document::append_field;
use crate::{Error, Result, value};

#[derive(Debug)]
struct FacetStage(Vec<(Box<str>, Pipeline)>);

pub(super) fn parse_facet(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    if call.context.is_in_facet {
        return Err(Error::with_server_code(
            40600,
            "$facet cannot be within $facet",
        ));
    }
    let fields = match call.operand {
        RawBsonRef::Document(fields) if !fields.is_empty() => fields,
        _ => {
            let message = "$facet takes a document of pipelines, one or more";
            return Err(Error::with_server_code(40169, message));
        }
    };
    let context = PipelineContext {
        is_in_facet: true,
        enclosing_stage: Some("$facet"),
        ..call.context.clone()
    };
    let mut facets = Vec::new();
    for (name, pipeline) in value::fields(fields) {
        check_name(name)?;
        let RawBsonRef::Array(array) = pipeline else {
            let message = format!("'{name}' in $facet is not an array of stages");
            return Err(Error::with_server_code(40170, message));
        };
        let mut stages = Vec::new();
        for stage in value::items(array) {
            match stage {
                RawBsonRef::Document(stage) => stages.push(stage),
                _ => {
                    let message = format!("'{name}' in $facet has a stage that is not a document");
                    return Err(Error::with_server_code(40171, message));
                }
            }
        }
        // As on MongoDB, check all stage names before any stage is parsed.
        for stage in &stages {
            let mut fields = value::fields(stage);
            let (Some((name, _)), None) = (fields.next(), fields.next()) else {
                let message = "a stage of a pipeline is a document with exactly one field";
                return Err(Error::with_server_code(40323, message));
            };
            stages::check_name(name)?;
        }
        facets.push((name.into(), Pipeline::parse_in(stages, &context)?));
    }
    Ok(vec![PipelineStage::from_operator(FacetStage(facets))])
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
    Err(Error::with_server_code(code, message))
}

impl StageOperator for FacetStage {
    fn run_stage(
        self: Box<Self>,
        documents: DocumentIterator,
        source: &Arc<dyn CollectionSource>,
    ) -> Result<DocumentIterator> {
        let mut bytes = 0;
        let mut count_bytes = |document: &RawDocumentBuf| {
            bytes += document.as_bytes().len();
            if bytes > MAX_STAGE_BYTES {
                return Err(too_much_memory("$facet", "match fewer documents before it"));
            }
            Ok(())
        };
        let mut inputs = Vec::new();
        for document in documents {
            let document = document?;
            count_bytes(&document)?;
            inputs.push(document);
        }
        let inputs: Arc<[_]> = inputs.into();
        let mut output = RawDocumentBuf::new();
        for (name, pipeline) in self.0 {
            let (shared, mut next) = (Arc::clone(&inputs), 0);
            let copies = std::iter::from_fn(move || {
                next += 1;
                shared.get(next - 1).cloned().map(Ok)
            });
            let mut array = RawArrayBuf::new();
            for document in pipeline.run(Box::new(copies), source)? {
                let document = document?;
                count_bytes(&document)?;
                array.push(document);
            }
            append_field(&mut output, &name, array);
        }
        Ok(Box::new(std::iter::once(Ok(output))))
    }
}
