//! `$unwind`: one document for each element of an array.
//!
//! ```text
//! { "$unwind": "$a" }
//! in:  { "_id": 1, "a": [1, 2] }
//! in:  { "_id": 2, "a": [] }
//! in:  { "_id": 3, "a": 5 }
//! out: { "_id": 1, "a": 1 }
//! out: { "_id": 1, "a": 2 }
//! out: { "_id": 3, "a": 5 }
//!
//! { "$unwind": { "path": "$a", "includeArrayIndex": "i", "preserveNullAndEmptyArrays": true } }
//! in:  { "_id": 1, "a": ["x"] }
//! in:  { "_id": 2, "a": [] }
//! out: { "_id": 1, "a": "x", "i": { "$numberLong": "0" } }
//! out: { "_id": 2, "i": null }
//! ```

use std::sync::Arc;

use bson::{RawBson, RawBsonRef, RawDocumentBuf};

use super::stages::StageCall;
use super::{CollectionSource, DocumentIterator, PipelineStage, StageOperator, nested};
use crate::path::Path;
use crate::{Error, Result, value};

#[derive(Debug)]
struct UnwindStage {
    path: Path,
    /// The path for the position of the element.
    index: Option<Path>,
    /// Whether a document without elements is passed on.
    preserve: bool,
}

pub(super) fn parse_unwind(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    let rejection =
        |code, expected: &str| Error::with_server_code(code, format!("$unwind takes {expected}"));
    let (mut path, mut index, mut preserve) = (None, None, false);
    match call.operand {
        RawBsonRef::String(text) => path = Some(text),
        RawBsonRef::Document(arguments) => {
            for (name, argument) in value::fields(arguments) {
                match (name, argument) {
                    ("path", RawBsonRef::String(text)) => path = Some(text),
                    ("path", _) => return Err(rejection(28808, "a string as its 'path'")),
                    ("includeArrayIndex", RawBsonRef::String(text)) if !text.is_empty() => {
                        if text.starts_with('$') {
                            let expected = "an 'includeArrayIndex' without '$' in front";
                            return Err(rejection(28822, expected));
                        }
                        index = Some(nested::field_path(text)?);
                    }
                    ("includeArrayIndex", _) => {
                        return Err(rejection(28810, "a name as its 'includeArrayIndex'"));
                    }
                    ("preserveNullAndEmptyArrays", RawBsonRef::Boolean(flag)) => preserve = flag,
                    ("preserveNullAndEmptyArrays", _) => {
                        let expected = "a boolean as its 'preserveNullAndEmptyArrays'";
                        return Err(rejection(28809, expected));
                    }
                    (other, _) => return Err(rejection(28811, &format!("no argument '{other}'"))),
                }
            }
        }
        _ => return Err(rejection(15981, "a path or a document of arguments")),
    }
    let path = path.filter(|path| !path.is_empty());
    let path = path.ok_or_else(|| rejection(28812, "a path"))?;
    let Some(path) = path.strip_prefix('$') else {
        return Err(rejection(28818, "a path with '$' in front"));
    };
    if path.contains('\0') {
        return Err(rejection(16419, "a path without a null byte"));
    }
    Ok(vec![PipelineStage::from_operator(UnwindStage {
        path: nested::field_path(path)?,
        index,
        preserve,
    })])
}

impl StageOperator for UnwindStage {
    fn run_stage(
        self: Box<Self>,
        documents: DocumentIterator,
        _: &Arc<dyn CollectionSource>,
    ) -> Result<DocumentIterator> {
        let unwind = Arc::new(*self);
        Ok(Box::new(documents.flat_map(
            move |document| match document {
                Ok(document) => unwind.unwind_document(document),
                Err(error) => Box::new(std::iter::once(Err(error))),
            },
        )))
    }
}

impl UnwindStage {
    /// Returns the documents for one input document.
    fn unwind_document(self: &Arc<Self>, document: RawDocumentBuf) -> DocumentIterator {
        let path_value = nested::value_at(&document, &self.path);
        let (is_empty, kept) = match path_value {
            Some(RawBsonRef::Array(array)) if !array.is_empty() => {
                let items: Vec<_> = value::items(array).map(RawBson::from).collect();
                let unwind = Arc::clone(self);
                return Box::new((0_i64..).zip(items).map(move |(position, item)| {
                    unwind.replace_element(&document, Some(item.as_raw_bson_ref()), Some(position))
                }));
            }
            Some(RawBsonRef::Array(_)) => (true, None),
            Some(RawBsonRef::Null | RawBsonRef::Undefined) | None => (true, path_value),
            Some(value) => (false, Some(value)),
        };
        if is_empty && !self.preserve {
            return Box::new(std::iter::empty());
        }
        let output = if is_empty && kept.is_none() {
            self.replace_element(&document, None, None)
        } else {
            self.add_index(&document, None)
        };
        Box::new(std::iter::once(output))
    }

    fn replace_element(
        &self,
        document: &RawDocumentBuf,
        element: Option<RawBsonRef<'_>>,
        position: Option<i64>,
    ) -> Result<RawDocumentBuf> {
        if element.is_none() && nested::value_at(document, &self.path).is_none() {
            return self.add_index(document, position);
        }
        let unwound = nested::with_value(document, &self.path, element)?;
        self.add_index(&unwound, position)
    }

    fn add_index(
        &self,
        document: &RawDocumentBuf,
        position: Option<i64>,
    ) -> Result<RawDocumentBuf> {
        match &self.index {
            None => Ok(document.clone()),
            Some(index) => {
                let position = position.map_or(RawBsonRef::Null, RawBsonRef::Int64);
                nested::with_value(document, index, Some(position))
            }
        }
    }
}
