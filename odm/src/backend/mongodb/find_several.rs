//! Several queries in one aggregation.

use ::mongodb::{
    ClientSession, Database,
    action::Action,
    bson::{Document, doc},
};

use super::{
    cursor::{OpenedRead, UNLIMITED_BATCH_DOCUMENTS},
    error,
    read_options::with_read_options,
    to_driver_document, to_driver_limit,
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{FindOperation, FindSeveral},
};

/// Opens the cursor of several queries in one round trip: [`Executor::find_several`](crate::backend::Executor::find_several).
///
/// The first query is the pipeline, and a `$unionWith` appends each further query. The server plans each query separately, with
/// the indexes of its collection. In a transaction MongoDB does not allow `$unionWith`.
pub(super) async fn open_find_several(
    database: &Database,
    find: FindSeveral,
    session: &mut ClientSession,
) -> Result<OpenedRead> {
    let options = find.options()?;
    let finds = find.finds.iter().enumerate();
    let mut finds = finds.filter(|(_, find)| find.limit != Some(0));
    let Some((position, first)) = finds.next() else {
        return Ok(OpenedRead::empty());
    };
    let mut pipeline = query_stages(position, first)?;
    for (position, find) in finds {
        pipeline.push(doc! { "$unionWith": {
            "coll": &*find.collection,
            "pipeline": query_stages(position, find)?,
        } });
    }
    let collection = database.collection::<Document>(&first.collection);
    let action = collection
        .aggregate(pipeline)
        .batch_size(UNLIMITED_BATCH_DOCUMENTS);
    let action = with_read_options!(action, options);
    match action.session(&mut *session).batch().await {
        Ok(rest) => OpenedRead::new(rest, session).await,
        Err(failure) => Err(error::from_driver(failure)),
    }
}

/// Returns the stages of one query. Each output document has the position of its query.
fn query_stages(position: usize, find: &FindOperation) -> Result<Vec<Document>> {
    let position = i32::try_from(position).map_err(|_| {
        Error::new(
            ErrorKind::Invalid,
            "too many queries in one operation: split the operation",
        )
    })?;
    let mut stages = vec![doc! { "$match": to_driver_document(&find.filter)? }];
    if let Some(sort) = &find.sort {
        stages.push(doc! { "$sort": to_driver_document(sort)? });
    }
    if let Some(n) = find.limit {
        stages.push(doc! { "$limit": to_driver_limit(n) });
    }
    if let Some(projection) = &find.projection {
        stages.push(doc! { "$project": to_driver_document(projection)? });
    }
    stages
        .push(doc! { "$replaceWith": { "query": { "$literal": position }, "document": "$$ROOT" } });
    Ok(stages)
}
