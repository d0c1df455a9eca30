//! Reads by many keys, in one aggregation.

use ::mongodb::{
    ClientSession, Database,
    action::Action,
    bson::{Bson, Document, doc},
};
use bson::RawBson;

use super::{
    cursor::{OpenedRead, UNLIMITED_BATCH_DOCUMENTS},
    error,
    read_options::with_read_options,
    to_driver_document, to_driver_limit,
};
use crate::{Error, ErrorKind, Result, backend::operation::FindEach};

/// Opens the cursor of a query for each key: [`Executor::find_each`](crate::backend::Executor::find_each).
pub(super) async fn open_find_each(
    database: &Database,
    find: FindEach,
    session: &mut ClientSession,
) -> Result<OpenedRead> {
    if find.keys.is_empty() || find.limit == Some(0) {
        return Ok(OpenedRead::empty());
    }
    find.options.ensure_no_hint("a query by several keys")?;
    let action = database
        .aggregate(lookup_pipeline(&find)?)
        .batch_size(UNLIMITED_BATCH_DOCUMENTS);
    let action = with_read_options!(action, find.options);
    let opened = match action.session(&mut *session).batch().await {
        Ok(rest) => OpenedRead::new(rest, session).await,
        Err(failure) => Err(describe_missing_stage(error::from_driver(failure))),
    };
    opened.map_err(|error| error.with_collection(find.collection))
}

/// Replaces the error of a server without `$documents`, the only stage of this library that MongoDB 5.0 lacks.
fn describe_missing_stage(error: Error) -> Error {
    match error.is_unsupported() && error.message().contains("$documents") {
        true => Error::new(
            ErrorKind::Unsupported,
            "`with_children` needs MongoDB 5.1 or later: this server has no `$documents` stage",
        )
        .with_source(error),
        false => error,
    }
}

/// Returns the `$lookup` from the keys into the collection.
///
/// The server adds the equality with the key to the inner pipeline, and plans the inner pipeline like any query, with index,
/// order and limit. The server also merges the `$unwind` into the `$lookup`, so it never builds an array of all documents of a
/// key.
fn lookup_pipeline(find: &FindEach) -> Result<Vec<Document>> {
    let keys = find.keys.iter().enumerate();
    let keys = keys.map(|(position, key)| key_document(position, key));
    let keys = keys.collect::<Result<Vec<_>>>()?;

    let mut inner = Vec::new();
    if !find.filter.is_empty() {
        inner.push(doc! { "$match": to_driver_document(&find.filter)? });
    }
    if let Some(sort) = &find.sort {
        inner.push(doc! { "$sort": to_driver_document(sort)? });
    }
    if let Some(n) = find.limit {
        inner.push(doc! { "$limit": to_driver_limit(n) });
    }
    if let Some(projection) = &find.projection {
        inner.push(doc! { "$project": to_driver_document(projection)? });
    }

    Ok(vec![
        doc! { "$documents": keys },
        doc! { "$lookup": {
            "from": &*find.collection,
            "localField": "value",
            "foreignField": &find.path,
            "pipeline": inner,
            "as": "document",
        } },
        doc! { "$unwind": "$document" },
        doc! { "$unset": "value" },
    ])
}

/// Returns a key as a literal. Without `$literal` a string with a dollar would be an expression.
fn key_document(position: usize, key: &RawBson) -> Result<Document> {
    let invalid = |message: &str| Error::new(ErrorKind::Invalid, message);
    if key.as_array().is_some() {
        return Err(invalid(
            "an array cannot be a lookup key: MongoDB would match the elements of the array",
        ));
    }
    let position = i32::try_from(position)
        .map_err(|_| invalid("too many keys in one query: split the query"))?;
    let value = Bson::try_from(key.clone()).map_err(crate::error::from_bson)?;
    Ok(doc! { "key": position, "value": { "$literal": value } })
}
