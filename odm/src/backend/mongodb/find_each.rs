//! Reads by many keys, in one aggregation.

use ::mongodb::{
    ClientSession, Database,
    action::Action,
    bson::{Bson, Document, doc},
};
use bson::RawBson;

use super::{
    cursor::{FULL_BATCH, Opened},
    decode, error, limit, milliseconds,
};
use crate::{Error, ErrorKind, Result, backend::operation::FindEach};

/// See [`Executor::find_each`](crate::backend::Executor::find_each).
pub(super) async fn find_each(
    database: &Database,
    find: FindEach,
    session: &mut ClientSession,
) -> Result<Opened> {
    if find.keys.is_empty() || find.limit == Some(0) {
        return Ok(Opened::empty());
    }
    let action = database
        .aggregate(pipeline(&find)?)
        .batch_size(FULL_BATCH)
        .optional(find.max_time, |action, max_time| {
            action.max_time(milliseconds(max_time))
        });
    let opened = match action.session(&mut *session).batch().await {
        Ok(rest) => Opened::new(rest, session).await,
        Err(failure) => Err(needs_documents(error::from_driver(failure))),
    };
    opened.map_err(|error| error.with_collection(find.collection))
}

/// An older server knows everything else that this library sends.
fn needs_documents(error: Error) -> Error {
    match error.is_unsupported() && error.message().contains("$documents") {
        true => Error::new(
            ErrorKind::Unsupported,
            "to read the documents that refer to each of several others (`with_children`) needs MongoDB 5.1 or later: this server has \
             no `$documents`",
        )
        .with_source(error),
        false => error,
    }
}

/// A `$lookup` from the keys into the collection.
///
/// The server adds the equality with the key to the inner pipeline and plans that like any query, with index, order and
/// limit; and it takes in the `$unwind`, so no array of all documents of a key is ever built.
fn pipeline(find: &FindEach) -> Result<Vec<Document>> {
    let keys = find.keys.iter().enumerate();
    let keys = keys.map(|(position, key)| key_document(position, key));
    let keys = keys.collect::<Result<Vec<_>>>()?;

    let mut inner = Vec::new();
    if !find.filter.is_empty() {
        inner.push(doc! { "$match": decode(&find.filter)? });
    }
    if let Some(sort) = &find.sort {
        inner.push(doc! { "$sort": decode(sort)? });
    }
    if let Some(n) = find.limit {
        inner.push(doc! { "$limit": limit(n) });
    }
    if let Some(projection) = &find.projection {
        inner.push(doc! { "$project": decode(projection)? });
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

/// The key as a literal, because a string with a dollar would be an expression here.
fn key_document(position: usize, key: &RawBson) -> Result<Document> {
    let invalid = |message: &str| Error::new(ErrorKind::Invalid, message);
    if key.as_array().is_some() {
        return Err(invalid(
            "an array cannot be a key: it would stand for its elements",
        ));
    }
    let position = i32::try_from(position).map_err(|_| invalid("too many keys in one query"))?;
    let value = Bson::try_from(key.clone()).map_err(crate::error::encode)?;
    Ok(doc! { "key": position, "value": { "$literal": value } })
}
