//! What an application writes by itself where nothing keeps its copies and counts.

pub(crate) mod driver;
pub(crate) mod engine;

use odm::bson::{Document, RawDocumentBuf};

use super::model::{Comment, Entry};
use crate::contender::Result;

/// A database without a mapper.
pub(crate) trait Hand: Clone + Send + Sync + 'static {
    /// What it is called in the results.
    fn name(&self) -> &'static str;

    /// Creates an index.
    async fn index(&self, collection: &'static str, field: &'static str) -> Result<()>;

    /// Inserts documents in one call.
    fn load(
        &self,
        collection: &'static str,
        documents: Vec<RawDocumentBuf>,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Inserts one, durably.
    fn insert(&self, entry: Entry) -> impl Future<Output = Result<()>> + Send;

    /// Sets fields of the documents in which a field has a value, durably, and tells how many there are.
    async fn set(
        &self,
        collection: &'static str,
        found_by: (&'static str, i64),
        fields: Document,
    ) -> Result<u64>;

    /// Inserts a comment, and then counts it.
    fn comment(&self, comment: Comment) -> impl Future<Output = Result<()>> + Send;

    /// Inserts and counts it in a transaction, again and again until it conflicts with no other one.
    fn comment_together(&self, comment: Comment) -> impl Future<Output = Result<()>> + Send;

    /// How many comments a post has.
    async fn comments(&self, post: i64) -> Result<i64>;
}
