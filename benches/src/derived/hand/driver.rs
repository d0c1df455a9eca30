//! MongoDB's driver.

use futures_util::FutureExt;
use mongodb::{
    Client, Collection, Database, IndexModel,
    bson::{Document, RawDocumentBuf, doc},
    options::{Acknowledgment, CollectionOptions, WriteConcern},
};

use super::Hand;
use crate::{
    contender::Result,
    derived::model::{Comment, Entry},
};

#[derive(Clone)]
pub(crate) struct ByDriver {
    client: Client,
    database: Database,
}

impl ByDriver {
    pub(crate) async fn open(url: &str) -> Result<Self> {
        let client = Client::with_uri_str(url).await?;
        let database = client
            .default_database()
            .ok_or("the URL names a database")?;
        Ok(Self { client, database })
    }

    /// A collection whose writes are as durable as odm's.
    fn of<T: Send + Sync>(&self, collection: &str) -> Collection<T> {
        let concern = WriteConcern::builder()
            .w(Acknowledgment::Majority)
            .journal(true)
            .build();
        let options = CollectionOptions::builder().write_concern(concern).build();
        self.database.collection_with_options(collection, options)
    }
}

/// What counts a comment.
fn counted() -> Document {
    doc! { "$inc": { "comments": 1_i64 } }
}

impl Hand for ByDriver {
    fn name(&self) -> &'static str {
        "MongoDB's driver by hand"
    }

    async fn index(&self, collection: &'static str, field: &'static str) -> Result<()> {
        let index = IndexModel::builder().keys(doc! { field: 1 }).build();
        self.of::<Document>(collection).create_index(index).await?;
        Ok(())
    }

    async fn load(&self, collection: &'static str, documents: Vec<RawDocumentBuf>) -> Result<()> {
        self.of::<RawDocumentBuf>(collection)
            .insert_many(documents)
            .await?;
        Ok(())
    }

    async fn insert(&self, entry: Entry) -> Result<()> {
        self.of::<Entry>("entries").insert_one(entry).await?;
        Ok(())
    }

    async fn set(
        &self,
        collection: &'static str,
        (field, value): (&'static str, i64),
        fields: Document,
    ) -> Result<u64> {
        let (filter, update) = (doc! { field: value }, doc! { "$set": fields });
        let collection = self.of::<Document>(collection);
        let done = match field {
            "_id" => collection.update_one(filter, update).await?,
            _ => collection.update_many(filter, update).await?,
        };
        Ok(done.matched_count)
    }

    async fn comment(&self, comment: Comment) -> Result<()> {
        let post = doc! { "_id": comment.post.id() };
        self.of::<Comment>("comments").insert_one(comment).await?;
        self.of::<Document>("posts")
            .update_one(post, counted())
            .await?;
        Ok(())
    }

    async fn comment_together(&self, comment: Comment) -> Result<()> {
        let mut session = self.client.start_session().await?;
        let given = (
            self.of::<Comment>("comments"),
            self.of::<Document>("posts"),
            comment,
        );
        let transaction = session.start_transaction();
        let done = transaction.and_run(given, |session, (comments, posts, comment)| {
            async move {
                comments
                    .insert_one(&*comment)
                    .session(&mut *session)
                    .await?;
                let post = doc! { "_id": comment.post.id() };
                posts.update_one(post, counted()).session(session).await?;
                Ok(())
            }
            .boxed()
        });
        Ok(done.await?)
    }

    async fn comments(&self, post: i64) -> Result<i64> {
        let posts = self.of::<Document>("posts");
        let found = posts.find_one(doc! { "_id": post }).await?;
        Ok(found.ok_or("no post")?.get_i64("comments")?)
    }
}
