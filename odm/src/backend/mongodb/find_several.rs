//! Several queries in one aggregation.

use ::mongodb::{
    ClientSession, Database,
    action::Action,
    bson::{Document, doc},
};

use super::{
    cursor::{FULL_BATCH, Opened},
    decode, error, limit, milliseconds,
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{Find, FindSeveral},
};

/// See [`Executor::find_several`](crate::backend::Executor::find_several).
///
/// The first query is the pipeline, and each further one is put behind it by a `$unionWith`. The server plans each by
/// itself, with the indexes of its collection. In a transaction it has no such stage.
pub(super) async fn find_several(
    database: &Database,
    find: FindSeveral,
    session: &mut ClientSession,
) -> Result<Opened> {
    let max_time = find.max_time();
    let finds = find.finds.iter().enumerate();
    let mut finds = finds.filter(|(_, find)| find.limit != Some(0));
    let Some((position, first)) = finds.next() else {
        return Ok(Opened::empty());
    };
    let mut pipeline = stages(position, first)?;
    for (position, find) in finds {
        pipeline.push(doc! { "$unionWith": {
            "coll": &*find.collection,
            "pipeline": stages(position, find)?,
        } });
    }
    let collection = database.collection::<Document>(&first.collection);
    let action = collection
        .aggregate(pipeline)
        .batch_size(FULL_BATCH)
        .optional(max_time, |action, max_time| {
            action.max_time(milliseconds(max_time))
        });
    match action.session(&mut *session).batch().await {
        Ok(rest) => Opened::new(rest, session).await,
        Err(failure) => Err(error::from_driver(failure)),
    }
}

/// One query, of which each document says where it belongs.
fn stages(position: usize, find: &Find) -> Result<Vec<Document>> {
    let position = i32::try_from(position)
        .map_err(|_| Error::new(ErrorKind::Invalid, "too many queries at once"))?;
    let mut stages = vec![doc! { "$match": decode(&find.filter)? }];
    if let Some(sort) = &find.sort {
        stages.push(doc! { "$sort": decode(sort)? });
    }
    if let Some(n) = find.limit {
        stages.push(doc! { "$limit": limit(n) });
    }
    if let Some(projection) = &find.projection {
        stages.push(doc! { "$project": decode(projection)? });
    }
    stages
        .push(doc! { "$replaceWith": { "query": { "$literal": position }, "document": "$$ROOT" } });
    Ok(stages)
}
