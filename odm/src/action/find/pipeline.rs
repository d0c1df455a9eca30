//! Aggregation stages of the caller after a typed query.

use bson::{Bson, Document as BsonDocument, RawDocumentBuf};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::de::DeserializeOwned;

use super::{Find, Rows};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{AggregateOperation, ReadOptions},
    error,
    language::query::{limit_stage, single_field_document, sort_to_raw},
    model::{decode, document::Document, projection::Projection},
    relation::Joins,
    schema::{Model, Schema},
    session::access::Access,
};

impl<S: Schema, T: Document, C> Find<S, T, T, (), C> {
    /// Runs the matching documents, sorted and limited, through raw aggregation stages. The rows decode into a type of the
    /// caller.
    ///
    /// Use `pipeline` for aggregations that the typed language does not have. The filter, the sort and the limit of the query
    /// come first and are checked as usual. Field names in the stages are not checked. Put user input into the typed filter, or
    /// into a stage as a value after `$literal` or `$eq`. Never use input as a field name, or as a document in the place of an
    /// operator.
    ///
    /// A stage that writes (`$out`, `$merge`) is an error: every write goes through the write path of this crate.
    /// `$changeStream`, which never ends, and any stage that only describes the server (`$collStats`, `$currentOp`, …) are errors
    /// too. A stage that reads another collection (`$lookup`, `$graphLookup`, `$unionWith`) may read the collections of the
    /// schema. Models with a [soft delete](crate::SoftDelete) or a [scope](crate::scope) are excluded, as the stage would read
    /// deleted documents and the documents of other tenants. Chunk documents and the internal collections of this crate are
    /// excluded for the same reason.
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
    pub fn pipeline(self, stages: impl IntoIterator<Item = BsonDocument>) -> Pipeline {
        let aggregate = (|| {
            let mut pipeline = match_stage(&self)?;
            if let Some(sort) = sort_to_raw(&self.sort)? {
                pipeline.push(single_field_document("$sort", sort)?);
            }
            pipeline.extend(limit_stage(self.limit)?);
            for stage in stages {
                ensure_stage_allowed::<S>(&stage, &self.access)?;
                pipeline.push(RawDocumentBuf::try_from(&stage).map_err(error::from_bson)?);
            }
            Ok(to_aggregate::<T>(pipeline, self.read_options()))
        })();
        Pipeline {
            access: self.access,
            aggregate: aggregate.map_err(error::of_model::<T>),
            model: &T::MODEL,
        }
    }
}

/// A query followed by raw stages; made by [`Find::pipeline`].
#[must_use = "a pipeline runs when `all_as` or `stream_as` is called"]
pub struct Pipeline {
    access: Access,
    aggregate: Result<AggregateOperation>,
    model: &'static Model,
}

impl Pipeline {
    /// Returns all rows.
    ///
    /// # Errors
    ///
    /// Errors of the backend; [`Decode`](ErrorKind::Decode) for the first row that does not fit `R`;
    /// [`Unsupported`](ErrorKind::Unsupported) for a stage that is not allowed.
    pub async fn all_as<R: DeserializeOwned>(self) -> Result<Vec<R>> {
        let rows = self
            .access
            .aggregate_all(self.model, self.aggregate?)
            .await?;
        let rows = rows
            .iter()
            .map(|row| decode::decode_row(row).map_err(error::naming_model(self.model)));
        rows.collect()
    }

    /// Streams the rows, read in batches. A row that does not fit `R` is an error in its place.
    pub fn stream_as<R: DeserializeOwned + Send + 'static>(self) -> Rows<R> {
        let name = error::naming_model(self.model);
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
                Ok(batch) => batch.iter().map(|row| decode::decode_row(row)).collect(),
                Err(error) => vec![Err(error)],
            };
            stream::iter(rows)
        });
        Rows(Box::pin(rows.map(move |row| row.map_err(name)).fuse()))
    }
}

/// Builds the aggregate operation on the collection of `T`.
pub(super) fn to_aggregate<T: Document>(
    pipeline: Vec<RawDocumentBuf>,
    options: ReadOptions,
) -> AggregateOperation {
    AggregateOperation {
        collection: T::COLLECTION.into(),
        pipeline,
        variables: RawDocumentBuf::new(),
        options,
    }
}

/// Returns the stages that select the documents of a query. The stages sort only if a limit makes the order decide which
/// documents are selected.
pub(super) fn selecting_stages<S: Schema, T: Document, C>(
    find: &Find<S, T, T, (), C>,
) -> Result<Vec<RawDocumentBuf>> {
    let mut stages = match_stage(find)?;
    if find.limit.is_some()
        && let Some(sort) = sort_to_raw(&find.sort)?
    {
        stages.push(single_field_document("$sort", sort)?);
    }
    stages.extend(limit_stage(find.limit)?);
    Ok(stages)
}

pub(super) fn match_stage<S: Schema, T: Document, P: Projection<Of = T>, J: Joins<P>, C>(
    find: &Find<S, T, P, J, C>,
) -> Result<Vec<RawDocumentBuf>> {
    if find.access.reads_current_copies() {
        let message = "an aggregate in the database reads the stored copies: leave out `current`, or call `db.wait_for_pending()` first";
        return Err(error::of_model::<T>(Error::new(
            ErrorKind::Unsupported,
            message,
        )));
    }
    let filter = find.raw_filter()?;
    // Add no empty `$match`: some stages must come first.
    if filter.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![single_field_document("$match", filter)?])
}

/// The stages that a pipeline may use. Each stage transforms documents, and reads only collections that its fields name.
const ALLOWED_STAGES: [&str; 27] = [
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

/// Returns an error for a stage that may write, or may read hidden documents.
///
/// Both checks are allow lists: a new stage of a later server, or a collection outside the schema, is an error.
fn ensure_stage_allowed<S: Schema>(stage: &BsonDocument, access: &Access) -> Result<()> {
    let mut reads = StageCollections::default();
    reads.visit_stage(stage)?;
    for name in reads.collections {
        if let Some(problem) = unreadable_reason::<S>(name, access) {
            return Err(Error::new(ErrorKind::Unsupported, problem));
        }
    }
    Ok(())
}

/// Returns the reason why a stage may not read the collection, or `None` if the stage may.
fn unreadable_reason<S: Schema>(collection: &str, access: &Access) -> Option<String> {
    let mut models = S::MODELS.iter();
    let Some(model) = models.find(|model| model.collection == collection) else {
        return Some(format!(
            "a stage reads the collection `{collection}`, which belongs to no model of the schema: use `Database::backend`"
        ));
    };
    access.has_restrictions(model).then(|| {
        format!(
            "a stage reads the collection `{collection}`, which has documents that this query must not see: soft-deleted, of another \
             scope, or of another model; query `{}` separately, or join with `with`",
            model.name,
        )
    })
}

/// The foreign collections that stages read.
#[derive(Default)]
struct StageCollections<'s> {
    collections: Vec<&'s str>,
}

impl<'s> StageCollections<'s> {
    fn visit_stage(&mut self, stage: &'s BsonDocument) -> Result<()> {
        for (name, fields) in stage {
            if !ALLOWED_STAGES.contains(&name.as_str()) {
                let message = match name.as_str() {
                    "$out" | "$merge" => {
                        "the pipeline of a query can only read; write with `update_many` or `insert_many`"
                    }
                    "$changeStream" => "the stage never ends; use `watch`",
                    _ => "the stage is not in the list of allowed stages; use `Database::backend`",
                };
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!("the stage `{name}` is not allowed: {message}"),
                ));
            }
            match (name.as_str(), fields) {
                ("$unionWith", Bson::String(collection)) => self.collections.push(collection),
                ("$unionWith", Bson::Document(fields)) => self.visit_source("coll", fields)?,
                ("$lookup" | "$graphLookup", Bson::Document(fields)) => {
                    self.visit_source("from", fields)?
                }
                ("$facet", Bson::Document(pipelines)) => {
                    for pipeline in pipelines.values() {
                        self.visit_pipeline(pipeline)?;
                    }
                }
                // All other stages neither name a collection nor contain stages.
                _ => {}
            }
        }
        Ok(())
    }

    /// Records the collection that a stage names, and visits the stages that run on the collection.
    fn visit_source(&mut self, field: &str, fields: &'s BsonDocument) -> Result<()> {
        match fields.get(field) {
            Some(Bson::String(collection)) => self.collections.push(collection),
            // Without a collection, the inner stages produce their own documents: `$documents`.
            None if fields.contains_key("pipeline") => {}
            _ => {
                let message = format!("a stage must name its collection in `{field}`, as a string");
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        }
        match fields.get("pipeline") {
            Some(pipeline) => self.visit_pipeline(pipeline),
            None => Ok(()),
        }
    }

    fn visit_pipeline(&mut self, stages: &'s Bson) -> Result<()> {
        for stage in stages.as_array().into_iter().flatten() {
            if let Bson::Document(stage) = stage {
                self.visit_stage(stage)?;
            }
        }
        Ok(())
    }
}
