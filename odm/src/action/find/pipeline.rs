//! Pipelines of the caller's own stages behind a typed query.

use bson::{Bson, Document as Stage, RawArrayBuf, RawDocumentBuf};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::de::DeserializeOwned;

use super::{Find, Rows};
use crate::{
    Error, ErrorKind, Result,
    access::Access,
    backend::operation::Aggregate,
    decode,
    document::Document,
    error,
    query::{document, sort_to_raw},
    schema::{Model, Schema},
};

impl<S: Schema, T: Document, C> Find<S, T, T, (), C> {
    /// Runs the documents that match, in their order and up to their limit, through stages that are written out; the rows
    /// are read as a type of the caller's.
    ///
    /// It is the way to what the typed language does not have. The filter, the sort and the limit of the query come
    /// first, checked as ever; the stages are the caller's own, and nothing checks their names. What comes from a
    /// user belongs into the typed filter, or into a stage as a value behind `$literal` or `$eq`: never as a field's name,
    /// and never as a document where an operator could stand.
    ///
    /// A stage that writes (`$out`, `$merge`) is refused: no write goes around the framework. So is `$changeStream`, which
    /// never ends, and any stage that only describes the server (`$collStats`, `$currentOp`, …). A stage that reads another collection
    /// (`$lookup`, `$graphLookup`, `$unionWith`) may read the collections of the schema. Models with a
    /// [soft delete](crate::SoftDelete) or a [scope](crate::scope) are excluded, as the stage would read deleted documents and the
    /// documents of other tenants. Chunk documents and the framework's collections are excluded for the same reason.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "posts")]
    /// # struct Post { #[serde(rename = "_id")] id: i64, author: String, #[embed(max = 9)] tags: Vec<String> }
    /// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
    /// use odm::bson::doc;
    ///
    /// #[derive(Deserialize)]
    /// struct Tag { #[serde(rename = "_id")] name: String, posts: i64 }
    ///
    /// # async fn example(db: odm::Database<Blog>, author: &str) -> odm::Result<()> {
    /// let tags = db
    ///     .find::<Post>()
    ///     .filter(|p| p.author().eq(author))
    ///     .pipeline([
    ///         doc! { "$unwind": "$tags" },
    ///         doc! { "$group": { "_id": "$tags", "posts": { "$sum": 1 } } },
    ///     ])
    ///     .all_as::<Tag>()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn pipeline(self, stages: impl IntoIterator<Item = Stage>) -> Pipeline {
        let aggregate = (|| {
            let mut pipeline = matching(&self)?;
            if let Some(sort) = sort_to_raw(&self.sort)? {
                pipeline.push(document("$sort", sort)?);
            }
            pipeline.extend(limited(self.limit)?);
            for stage in stages {
                refuse::<S>(&stage, &self.access)?;
                pipeline.push(RawDocumentBuf::try_from(&stage).map_err(error::encode)?);
            }
            Ok(of::<T>(pipeline))
        })();
        Pipeline {
            access: self.access,
            aggregate: aggregate.map_err(error::of_model::<T>),
            model: &T::MODEL,
        }
    }
}

/// A query with stages behind it; made by [`Find::pipeline`].
#[must_use = "a pipeline runs when `all_as` or `stream_as` is called"]
pub struct Pipeline {
    access: Access,
    aggregate: Result<Aggregate>,
    model: &'static Model,
}

impl Pipeline {
    /// All rows.
    ///
    /// # Errors
    ///
    /// Those of the backend; [`Decode`](ErrorKind::Decode) for the first row that is no `R`;
    /// [`Unsupported`](ErrorKind::Unsupported) for a stage that writes.
    pub async fn all_as<R: DeserializeOwned>(self) -> Result<Vec<R>> {
        let rows = self
            .access
            .aggregate_all(self.model, self.aggregate?)
            .await?;
        let rows = rows
            .iter()
            .map(|row| decode::row(row).map_err(error::of(self.model)));
        rows.collect()
    }

    /// The rows, one after the other, read in batches. A row that is no `R` is an error in its place.
    pub fn stream_as<R: DeserializeOwned + Send + 'static>(self) -> Rows<R> {
        let name = error::of(self.model);
        let open = async move { self.access.aggregate(self.model, self.aggregate?).await };
        let batches = stream::once(open).and_then(async |cursor| {
            let batches = stream::try_unfold(cursor, |mut cursor| async move {
                let batch = cursor.next_batch().await?;
                Ok::<_, Error>((!batch.is_empty()).then_some((batch, cursor)))
            });
            Ok(batches)
        });
        let rows = batches.try_flatten().flat_map(|batch| {
            let rows = match batch {
                Ok(batch) => batch.iter().map(|row| decode::row(row)).collect(),
                Err(error) => vec![Err(error)],
            };
            stream::iter(rows)
        });
        Rows(Box::pin(rows.map(move |row| row.map_err(name)).fuse()))
    }
}

/// The operation on the collection of `T`.
pub(super) fn of<T: Document>(pipeline: Vec<RawDocumentBuf>) -> Aggregate {
    Aggregate {
        collection: T::COLLECTION.into(),
        pipeline,
        variables: RawDocumentBuf::new(),
        max_time: None,
    }
}

/// The stages that give the documents of a query; their order only where it decides which ones these are.
pub(super) fn chosen<S: Schema, T: Document, C>(
    find: &Find<S, T, T, (), C>,
) -> Result<Vec<RawDocumentBuf>> {
    let mut stages = matching(find)?;
    if find.limit.is_some()
        && let Some(sort) = sort_to_raw(&find.sort)?
    {
        stages.push(document("$sort", sort)?);
    }
    stages.extend(limited(find.limit)?);
    Ok(stages)
}

fn matching<S: Schema, T: Document, C>(find: &Find<S, T, T, (), C>) -> Result<Vec<RawDocumentBuf>> {
    if find.access.is_current() {
        let message = "what is calculated in the database is made of the copies that are there: leave out `current`, or wait by `db.settled()`";
        return Err(error::of_model::<T>(Error::new(
            ErrorKind::Unsupported,
            message,
        )));
    }
    let filter = find.raw_filter()?;
    // Some stages have to be the first.
    if filter.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![document("$match", filter)?])
}

/// The stage of a limit. There is none of 0, so nothing matches then.
pub(super) fn limited(limit: Option<u64>) -> Result<Option<RawDocumentBuf>> {
    let Some(limit) = limit else {
        return Ok(None);
    };
    if limit == 0 {
        let none = document("_id", document("$in", RawArrayBuf::new())?)?;
        return document("$match", none).map(Some);
    }
    document("$limit", i64::try_from(limit).unwrap_or(i64::MAX)).map(Some)
}

/// The stages that a pipeline may have: each transforms documents, and reads no collection but those that its fields name.
const STAGES: [&str; 27] = [
    "$addFields",
    "$bucket",
    "$bucketAuto",
    "$count",
    "$densify",
    "$documents",
    "$facet",
    "$fill",
    "$geoNear",
    "$graphLookup",
    "$group",
    "$limit",
    "$lookup",
    "$match",
    "$project",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
    "$sample",
    "$set",
    "$setWindowFields",
    "$skip",
    "$sort",
    "$sortByCount",
    "$unionWith",
    "$unset",
    "$unwind",
];

/// Refuses a stage that may write, or read what is out of sight.
///
/// Both lists are of what is allowed: a stage that a later server brings, and a collection that the schema does not have, are refused.
fn refuse<S: Schema>(stage: &Stage, access: &Access) -> Result<()> {
    let mut reads = Reads::default();
    reads.stage(stage)?;
    for name in reads.collections {
        if let Some(problem) = out_of_sight::<S>(name, access) {
            return Err(Error::new(ErrorKind::Unsupported, problem));
        }
    }
    Ok(())
}

/// Why a stage may not read a collection; none if it may.
fn out_of_sight<S: Schema>(collection: &str, access: &Access) -> Option<String> {
    let mut models = S::MODELS.iter();
    let Some(model) = models.find(|model| model.collection == collection) else {
        return Some(format!(
            "a stage reads `{collection}`, which is the collection of no model of the schema: read it through `Database::backend`"
        ));
    };
    access.narrows(model).then(|| {
        format!(
            "a stage reads the collection `{collection}`, of which some documents are out of sight here: they are deleted, belong to \
             somebody else or to another model; query `{}` by itself, or join it by `with`",
            model.name,
        )
    })
}

/// The collections that stages read beside their own.
#[derive(Default)]
struct Reads<'s> {
    collections: Vec<&'s str>,
}

impl<'s> Reads<'s> {
    fn stage(&mut self, stage: &'s Stage) -> Result<()> {
        for (name, fields) in stage {
            if !STAGES.contains(&name.as_str()) {
                let message = match name.as_str() {
                    "$out" | "$merge" => "it writes, and a pipeline of a query only reads",
                    "$changeStream" => "it never ends: use `watch`",
                    _ => {
                        "it is not among the stages that a pipeline may have: run it through `Database::backend`"
                    }
                };
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!("the stage {name} cannot be run: {message}"),
                ));
            }
            match (name.as_str(), fields) {
                ("$unionWith", Bson::String(collection)) => self.collections.push(collection),
                ("$unionWith", Bson::Document(fields)) => self.from("coll", fields)?,
                ("$lookup" | "$graphLookup", Bson::Document(fields)) => {
                    self.from("from", fields)?
                }
                ("$facet", Bson::Document(pipelines)) => {
                    for pipeline in pipelines.values() {
                        self.pipeline(pipeline)?;
                    }
                }
                // No other stage names a collection, or has stages.
                _ => {}
            }
        }
        Ok(())
    }

    /// The collection that a stage names, and the stages that it runs there.
    fn from(&mut self, field: &str, fields: &'s Stage) -> Result<()> {
        match fields.get(field) {
            Some(Bson::String(collection)) => self.collections.push(collection),
            // Stages of their own documents: `$documents`.
            None if fields.contains_key("pipeline") => {}
            _ => {
                let message = format!("a stage names its collection in `{field}`, as a string");
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        }
        match fields.get("pipeline") {
            Some(pipeline) => self.pipeline(pipeline),
            None => Ok(()),
        }
    }

    fn pipeline(&mut self, stages: &'s Bson) -> Result<()> {
        for stage in stages.as_array().into_iter().flatten() {
            if let Bson::Document(stage) = stage {
                self.stage(stage)?;
            }
        }
        Ok(())
    }
}
