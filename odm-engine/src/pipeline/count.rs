//! `$count`: how many documents there are, as one document; none if there are none.
//!
//! ```text
//! { "$count": "total" }
//! in:  { "_id": 1 }
//! in:  { "_id": 2 }
//! out: { "total": 2 }
//! ```

use std::sync::Arc;

use bson::{RawBson, RawBsonRef, RawDocumentBuf};

use super::stages::Call;
use super::{Documents, Operator, Source, Stage};
use crate::document::append;
use crate::{Error, Result};

#[derive(Debug)]
struct Count {
    field: Box<str>,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Vec<Stage>> {
    let refused = |code, why: &str| Error::server(code, format!("the field of $count {why}"));
    let RawBsonRef::String(field) = call.operand else {
        return Err(refused(40156, "is a string"));
    };
    if field.is_empty() {
        return Err(refused(40157, "has a name"));
    }
    if field.starts_with('$') {
        return Err(refused(40158, "does not start with '$'"));
    }
    if field.contains('\0') {
        return Err(refused(40159, "has no null byte"));
    }
    if field.contains('.') {
        return Err(refused(40160, "has no dot in it"));
    }
    Ok(vec![Stage::operator(Count {
        field: field.into(),
    })])
}

impl Operator for Count {
    fn run(self: Box<Self>, documents: Documents, _: &Arc<dyn Source>) -> Result<Documents> {
        let mut count = 0_i64;
        for document in documents {
            document?;
            count += 1;
        }
        let counted = (count > 0).then(|| {
            let mut output = RawDocumentBuf::new();
            let count = i32::try_from(count).map_or(RawBson::Int64(count), RawBson::Int32);
            append(&mut output, &self.field, count);
            Ok(output)
        });
        Ok(Box::new(counted.into_iter()))
    }
}
