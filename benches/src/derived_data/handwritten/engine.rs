//! The engine through the backend trait, without models.

use std::sync::Arc;

use odm::{
    backend::{
        Backend, Executor,
        operation::{
            Direction, DocumentChange, FindOperation, Index, InsertOperation, UpdateOperation,
        },
        read_to_end,
    },
    bson::{Document, RawDocumentBuf, doc, serialize_to_raw_document_buf},
};

use super::HandwrittenDatabase;
use crate::{
    contender::Result,
    derived_data::model::{Comment, Entry},
};

#[derive(Clone)]
pub(crate) struct ByEngine(Arc<dyn Backend>);

impl ByEngine {
    pub(crate) async fn open(url: &str) -> Result<Self> {
        Ok(Self(odm::backend::open(url).await?))
    }
}

fn raw(document: &Document) -> Result<RawDocumentBuf> {
    Ok(RawDocumentBuf::try_from(document)?)
}

fn update(
    collection: &'static str,
    filter: &Document,
    update: &Document,
) -> Result<UpdateOperation> {
    Ok(UpdateOperation {
        collection: collection.into(),
        filter: raw(filter)?,
        change: DocumentChange::operators(raw(update)?),
        multi: !filter.contains_key("_id"),
        upsert: false,
        origin: Default::default(),
    })
}

fn insert(collection: &'static str, documents: Vec<RawDocumentBuf>) -> InsertOperation {
    InsertOperation {
        collection: collection.into(),
        documents,
        ordered: true,
        origin: Default::default(),
    }
}

/// Inserts a comment, and then increments the count.
async fn comment_on(executor: &(impl Executor + ?Sized), comment: &Comment) -> odm::Result<()> {
    let post = doc! { "_id": comment.post.id() };
    let encode = || -> Result<_> {
        let comment = serialize_to_raw_document_buf(comment)?;
        let counted = update("posts", &post, &doc! { "$inc": { "comments": 1_i64 } })?;
        Ok((comment, counted))
    };
    let (comment, counted) = encode().map_err(odm::Error::other)?;
    executor.insert(insert("comments", vec![comment])).await?;
    executor.update(counted).await?;
    Ok(())
}

impl HandwrittenDatabase for ByEngine {
    fn name(&self) -> &'static str {
        "engine by hand"
    }

    async fn index(&self, collection: &'static str, field: &'static str) -> Result<()> {
        let index = Index::new(vec![(field.to_owned(), Direction::Ascending)]);
        Ok(self.0.create_indexes(collection, vec![index]).await?)
    }

    async fn load(&self, collection: &'static str, documents: Vec<RawDocumentBuf>) -> Result<()> {
        Ok(self.0.insert(insert(collection, documents)).await?)
    }

    async fn insert(&self, entry: Entry) -> Result<()> {
        let entry = serialize_to_raw_document_buf(&entry)?;
        self.load("entries", vec![entry]).await
    }

    async fn update_fields(
        &self,
        collection: &'static str,
        (field, value): (&'static str, i64),
        fields: Document,
    ) -> Result<u64> {
        let update = update(collection, &doc! { field: value }, &doc! { "$set": fields })?;
        Ok(self.0.update(update).await?.matched)
    }

    async fn comment(&self, comment: Comment) -> Result<()> {
        Ok(comment_on(&*self.0, &comment).await?)
    }

    async fn comment_in_transaction(&self, comment: Comment) -> Result<()> {
        loop {
            let transaction = self.0.begin().await?;
            let done = match comment_on(&*transaction, &comment).await {
                Ok(()) => transaction.commit().await,
                failed => failed,
            };
            match done {
                Err(error) if error.is_conflict() => tokio::task::yield_now().await,
                done => return Ok(done?),
            }
        }
    }

    async fn comments(&self, post: i64) -> Result<i64> {
        let find = FindOperation {
            collection: "posts".into(),
            filter: raw(&doc! { "_id": post })?,
            projection: None,
            sort: None,
            limit: Some(1),
            options: Default::default(),
        };
        let found = read_to_end(self.0.find(find).await?).await?;
        Ok(found.first().ok_or("no post")?.get_i64("comments")?)
    }
}
