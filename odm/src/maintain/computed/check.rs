//! Whether computed fields are what they are to be, and what is done where they are not.

use bson::{Bson, RawBson, RawBsonRef, RawDocumentBuf};

use super::{as_found, evaluate, stages};
use crate::{
    Result,
    access::{Access, also},
    backend::operation::{Change, Update},
    error,
    maintain::{link::linked::by_id, narrow, stored::raw},
    query::same,
    schema::{Model, upgrade},
};

/// A field that is not what it is to be.
#[derive(Debug, Clone)]
pub(crate) struct Miscomputed {
    pub(crate) path: &'static str,
    pub(crate) holds: Bson,
    /// None if it has no room for that.
    pub(crate) is: Option<Bson>,
}

/// The fields of a document that are not what they are to be.
pub(crate) fn miscomputed(model: &Model, stored: &RawDocumentBuf) -> Result<Vec<Miscomputed>> {
    if model.computed.is_empty() {
        return Ok(Vec::new());
    }
    let current = upgrade::current(model, stored)?;
    let mut now = current.clone().into_owned();
    let mut found = Vec::new();
    for field in model.computed {
        let is = evaluate::value(field, &now).ok();
        let holds = current.get(field.stored).map_err(error::encode)?;
        if let Some(is) = &is {
            let is = raw(is)?;
            if holds.is_some_and(|holds| is_same(holds, is.as_raw_bson_ref())) {
                continue;
            }
            // What is computed from it is to be what it is then.
            now = super::with(&now, field.stored, is)?;
        }
        found.push(Miscomputed {
            path: field.stored,
            holds: holds
                .map_or(Ok(Bson::Null), Bson::try_from)
                .map_err(error::encode)?,
            is,
        });
    }
    Ok(found)
}

/// The signs of a zero and of what is no number are nobody's business.
fn is_same(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> bool {
    match (a, b) {
        (RawBsonRef::Double(a), RawBsonRef::Double(b)) => a == b || a.is_nan() && b.is_nan(),
        (a, b) => same(a, b),
    }
}

/// Computes the fields of a document again, if one still holds what was found; tells whether there was something to write.
pub(crate) async fn compute_again(
    access: &Access,
    model: &'static Model,
    document: &RawBson,
    path: &str,
    holds: &Bson,
) -> Result<bool> {
    let fields: Vec<_> = model.computed.iter().map(|field| field.stored).collect();
    let mut filter = by_id(document)?;
    also(&mut filter, path, as_found(holds)?)?;
    narrow(access, model, &mut filter, false).await?;
    let update = Update {
        collection: model.collection.into(),
        filter,
        change: Change::Pipeline(stages(model, &fields)?),
        multi: false,
        upsert: false,
    };
    access.told().writes();
    let done = access.executor().update(update).await;
    let done = done.map_err(|error| error::of(model)(super::said(error)))?;
    Ok(done.modified > 0)
}
