//! MongoDB's driver.

use futures_util::FutureExt;
use mongodb::{
    Client, Collection, Database, IndexModel,
    bson::{Document, RawDocumentBuf, doc},
    options::{Acknowledgment, CollectionOptions, WriteConcern},
};

use super::HandwrittenDatabase;
use crate::{
    contender::Result,
    derived_data::model::{Comment, Entry},
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

    /// Returns a collection with the same durability as the writes of odm.
    fn durable_collection<T: Send + Sync>(&self, collection: &str) -> Collection<T> {
        let concern = WriteConcern::builder()
            .w(Acknowledgment::Majority)
            .journal(true)
            .build();
        let options = CollectionOptions::builder().write_concern(concern).build();
        self.database.collection_with_options(collection, options)
    }
}

/// Returns the update that counts a comment.
fn count_update() -> Document {
    doc! { "$inc": { "comments": 1_i64 } }
}

impl HandwrittenDatabase for ByDriver {
    fn name(&self) -> &'static str {
        "MongoDB's driver by hand"
    }

    async fn index(&self, collection: &'static str, field: &'static str) -> Result<()> {
        let index = IndexModel::builder().keys(doc! { field: 1 }).build();
        self.durable_collection::<Document>(collection)
            .create_index(index)
            .await?;
        Ok(())
    }

    async fn load(&self, collection: &'static str, documents: Vec<RawDocumentBuf>) -> Result<()> {
        self.durable_collection::<RawDocumentBuf>(collection)
            .insert_many(documents)
            .await?;
        Ok(())
    }

    async fn insert(&self, entry: Entry) -> Result<()> {
        self.durable_collection::<Entry>("entries")
            .insert_one(entry)
            .await?;
        Ok(())
    }

    async fn update_fields(
        &self,
        collection: &'static str,
        (field, value): (&'static str, i64),
        fields: Document,
    ) -> Result<u64> {
        let (filter, update) = (doc! { field: value }, doc! { "$set": fields });
        let collection = self.durable_collection::<Document>(collection);
        let done = match field {
            "_id" => collection.update_one(filter, update).await?,
            _ => collection.update_many(filter, update).await?,
        };
        Ok(done.matched_count)
    }

    async fn comment(&self, comment: Comment) -> Result<()> {
        let post = doc! { "_id": comment.post.id() };
        self.durable_collection::<Comment>("comments")
            .insert_one(comment)
            .await?;
        self.durable_collection::<Document>("posts")
            .update_one(post, count_update())
            .await?;
        Ok(())
    }

    async fn comment_in_transaction(&self, comment: Comment) -> Result<()> {
        let mut session = self.client.start_session().await?;
        let given = (
            self.durable_collection::<Comment>("comments"),
            self.durable_collection::<Document>("posts"),
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
                posts
                    .update_one(post, count_update())
                    .session(session)
                    .await?;
                Ok(())
            }
            .boxed()
        });
        Ok(done.await?)
    }

    async fn comments(&self, post: i64) -> Result<i64> {
        let posts = self.durable_collection::<Document>("posts");
        let found = posts.find_one(doc! { "_id": post }).await?;
        Ok(found.ok_or("no post")?.get_i64("comments")?)
    }
}
