//! Handwritten maintenance of copies and counts, without odm models.

pub(crate) mod driver;
pub(crate) mod engine;

use odm::bson::{Document, RawDocumentBuf};

use super::model::{Comment, Entry};
use crate::contender::Result;

/// A database without a mapper.
pub(crate) trait HandwrittenDatabase: Clone + Send + Sync + 'static {
    /// Returns the name in the results.
    fn name(&self) -> &'static str;

    /// Creates an index.
    async fn index(&self, collection: &'static str, field: &'static str) -> Result<()>;

    /// Inserts documents in one call.
    fn load(
        &self,
        collection: &'static str,
        documents: Vec<RawDocumentBuf>,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Inserts a single entry, durably.
    fn insert(&self, entry: Entry) -> impl Future<Output = Result<()>> + Send;

    /// Sets fields of the documents with a value in a field, durably. Returns the number of documents.
    async fn update_fields(
        &self,
        collection: &'static str,
        found_by: (&'static str, i64),
        fields: Document,
    ) -> Result<u64>;

    /// Inserts a comment, and then increments the count.
    fn comment(&self, comment: Comment) -> impl Future<Output = Result<()>> + Send;

    /// Inserts and counts a comment in a transaction, with retries until the transaction has no conflict.
    fn comment_in_transaction(&self, comment: Comment) -> impl Future<Output = Result<()>> + Send;

    /// Returns the number of comments of a post.
    async fn comments(&self, post: i64) -> Result<i64>;
}
