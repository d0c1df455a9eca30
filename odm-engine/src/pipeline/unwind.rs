//! `$unwind`: a document for each element of an array.
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

use super::stages::Call;
use super::{Documents, Operator, Source, Stage, nested};
use crate::path::Path;
use crate::{Error, Result, value};

#[derive(Debug)]
struct Unwind {
    path: Path,
    /// Where the position of the element goes.
    index: Option<Path>,
    /// Whether a document without elements is passed on.
    preserve: bool,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Vec<Stage>> {
    let refused = |code, what: &str| Error::server(code, format!("$unwind takes {what}"));
    let (mut path, mut index, mut preserve) = (None, None, false);
    match call.operand {
        RawBsonRef::String(text) => path = Some(text),
        RawBsonRef::Document(arguments) => {
            for (name, argument) in value::fields(arguments) {
                match (name, argument) {
                    ("path", RawBsonRef::String(text)) => path = Some(text),
                    ("path", _) => return Err(refused(28808, "a string as its 'path'")),
                    ("includeArrayIndex", RawBsonRef::String(text)) if !text.is_empty() => {
                        if text.starts_with('$') {
                            let what = "an 'includeArrayIndex' without '$' in front";
                            return Err(refused(28822, what));
                        }
                        index = Some(nested::field_path(text)?);
                    }
                    ("includeArrayIndex", _) => {
                        return Err(refused(28810, "a name as its 'includeArrayIndex'"));
                    }
                    ("preserveNullAndEmptyArrays", RawBsonRef::Boolean(flag)) => preserve = flag,
                    ("preserveNullAndEmptyArrays", _) => {
                        let what = "a boolean as its 'preserveNullAndEmptyArrays'";
                        return Err(refused(28809, what));
                    }
                    (other, _) => return Err(refused(28811, &format!("no argument '{other}'"))),
                }
            }
        }
        _ => return Err(refused(15981, "a path or a document of arguments")),
    }
    let path = path.filter(|path| !path.is_empty());
    let path = path.ok_or_else(|| refused(28812, "a path"))?;
    let Some(path) = path.strip_prefix('$') else {
        return Err(refused(28818, "a path with '$' in front"));
    };
    if path.contains('\0') {
        return Err(refused(16419, "a path without a null byte"));
    }
    Ok(vec![Stage::operator(Unwind {
        path: nested::field_path(path)?,
        index,
        preserve,
    })])
}

impl Operator for Unwind {
    fn run(self: Box<Self>, documents: Documents, _: &Arc<dyn Source>) -> Result<Documents> {
        let unwind = Arc::new(*self);
        Ok(Box::new(documents.flat_map(
            move |document| match document {
                Ok(document) => unwind.elements(document),
                Err(error) => Box::new(std::iter::once(Err(error))),
            },
        )))
    }
}

impl Unwind {
    /// The documents that one becomes.
    fn elements(self: &Arc<Self>, document: RawDocumentBuf) -> Documents {
        let found = nested::get(&document, &self.path);
        let (without, kept) = match found {
            Some(RawBsonRef::Array(array)) if !array.is_empty() => {
                let items: Vec<_> = value::items(array).map(RawBson::from).collect();
                let unwind = Arc::clone(self);
                return Box::new((0_i64..).zip(items).map(move |(position, item)| {
                    unwind.output(&document, Some(item.as_raw_bson_ref()), Some(position))
                }));
            }
            Some(RawBsonRef::Array(_)) => (true, None),
            Some(RawBsonRef::Null | RawBsonRef::Undefined) | None => (true, found),
            Some(value) => (false, Some(value)),
        };
        if without && !self.preserve {
            return Box::new(std::iter::empty());
        }
        let output = if without && kept.is_none() {
            self.output(&document, None, None)
        } else {
            self.indexed(&document, None)
        };
        Box::new(std::iter::once(output))
    }

    fn output(
        &self,
        document: &RawDocumentBuf,
        element: Option<RawBsonRef<'_>>,
        position: Option<i64>,
    ) -> Result<RawDocumentBuf> {
        if element.is_none() && nested::get(document, &self.path).is_none() {
            return self.indexed(document, position);
        }
        let unwound = nested::with(document, &self.path, element)?;
        self.indexed(&unwound, position)
    }

    fn indexed(&self, document: &RawDocumentBuf, position: Option<i64>) -> Result<RawDocumentBuf> {
        match &self.index {
            None => Ok(document.clone()),
            Some(index) => {
                let position = position.map_or(RawBsonRef::Null, RawBsonRef::Int64);
                nested::with(document, index, Some(position))
            }
        }
    }
}
