//! Finds snapshots that differ from their source documents.

use std::{collections::VecDeque, marker::PhantomData, pin::Pin};

use bson::{Bson, DateTime, RawBson};
use futures_util::{StreamExt, stream};

use super::{Find, Rows};
use crate::{
    Result,
    backend::Cursor,
    error,
    model::{decode, document::Document},
    schema::Schema,
    session::{access::Access, soft_delete::Visibility},
    write::{find_drifted, snapshot_projection},
};

/// A snapshot that differs from the current value of the source; found by [`Find::drift`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Drift {
    /// The `_id` of the document with the snapshot.
    pub id: Bson,
    /// The stored path of the snapshot in the document: `lines.0.price`.
    pub path: String,
    /// The value that the snapshot took.
    pub snapshot: Bson,
    /// The current value of the source; `None` if the source is gone or invisible to the session.
    pub current: Option<Bson>,
    /// The model of the source.
    pub source_model: &'static str,
    /// The `_id` of the source: the stored origin for a snapshot with `origin`, otherwise the target of the reference.
    pub source: Bson,
    /// The time of the snapshot; `None` for a snapshot without `origin`.
    pub snapshot_at: Option<DateTime>,
}

/// A query for the snapshots that differ from their sources; made by [`Find::drift`].
///
/// Awaiting the query returns all results; [`stream`](Self::stream) returns the results in turn.
#[must_use = "a query for drift runs when awaited or streamed"]
pub struct FindDrift<S, T: Document, C> {
    find: Find<S, T, T, (), C>,
}

impl<S: Schema, T: Document, C> Find<S, T, T, (), C> {
    /// Finds the snapshots, `#[snapshot(from = …)]`, in the matching documents that differ from the current values of their
    /// sources. The result leaves out equal snapshots, and snapshots without a source.
    ///
    /// The query reads the documents in batches and, for each batch, the sources: one query per source model. A source that the
    /// session does not see counts as gone. A [limit](Self::limit) counts documents, not snapshots.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "products")]
    /// # struct Product { #[serde(rename = "_id")] id: i64, price: i64 }
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "orders")]
    /// # struct Order {
    /// #     #[serde(rename = "_id")] id: i64,
    /// #     #[reference] product: Ref<Product>,
    /// #     #[snapshot(from = product.price, origin)] price: i64,
    /// # }
    /// # #[derive(Schema)] #[schema(models(Product, Order))] struct Shop;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let db = odm::Database::<Shop>::open("memory:").await?;
    /// let hammer = db.insert(Product { id: 7, price: 25 }).await?;
    /// db.insert(NewOrder { id: 1, product: hammer.to_ref() }).await?;
    /// db.update::<Product>(7).set(|p| p.price(), 30).await?;
    ///
    /// for drift in db.find::<Order>().filter(|o| o.id().eq(1)).drift().await? {
    ///     println!("{}: {} was taken, and is {:?} now", drift.path, drift.snapshot, drift.current);
    /// #   assert_eq!((drift.path.as_str(), drift.current, drift.snapshot_at.is_some()), ("price", Some(30_i64.into()), true));
    /// }
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    pub fn drift(mut self) -> FindDrift<S, T, C> {
        // Read from the primary: a stale document from a secondary would seem to differ from the source.
        self.access = self.access.reading_from_primary();
        FindDrift { find: self }
    }
}

impl<S: Schema, T: Document, C> FindDrift<S, T, C> {
    /// Streams the snapshots, read in batches. The stream ends after an error.
    pub fn stream(self) -> Rows<Drift> {
        let start = DriftState::<S, T>::Start(Box::new(self.find.erase_scope()));
        Rows(Box::pin(
            stream::unfold(start, DriftState::next_drift).fuse(),
        ))
    }
}

impl<S: Schema, T: Document, C> IntoFuture for FindDrift<S, T, C> {
    type Output = Result<Vec<Drift>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        let mut rows = self.stream();
        Box::pin(async move {
            let mut all = Vec::new();
            while let Some(drift) = rows.next().await {
                all.push(drift?);
            }
            Ok(all)
        })
    }
}

enum DriftState<S, T: Document> {
    Start(Box<Find<S, T>>),
    Open(OpenDrift<T>),
    Finished,
}

struct OpenDrift<T> {
    access: Access,
    cursor: Box<dyn Cursor>,
    ready: VecDeque<Drift>,
    marker: PhantomData<fn() -> T>,
}

impl<S: Schema, T: Document> DriftState<S, T> {
    async fn next_drift(self) -> Option<(Result<Drift>, Self)> {
        let failed = |error| Some((Err(error::of_model::<T>(error)), Self::Finished));
        let mut open = match self {
            Self::Finished => return None,
            Self::Open(open) => open,
            Self::Start(find) => match OpenDrift::open_query(*find).await {
                Ok(open) => open?,
                Err(error) => return failed(error),
            },
        };
        while open.ready.is_empty() {
            match open.read_batch().await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return failed(error),
            }
        }
        let drift = open.ready.pop_front()?;
        Some((Ok(drift), Self::Open(open)))
    }
}

impl<T: Document> OpenDrift<T> {
    /// Opens the query; returns `None` if the model has no snapshots.
    async fn open_query<S: Schema>(mut find: Find<S, T>) -> Result<Option<Self>> {
        let Some(projection) = snapshot_projection(&T::MODEL)? else {
            return Ok(None);
        };
        find.resolve_related().await?;
        let query = crate::backend::operation::FindOperation {
            projection,
            ..find.to_operation()?
        };
        Ok(Some(Self {
            cursor: find.access.find(&T::MODEL, query).await?,
            // Soft-deleted documents do not make soft-deleted sources visible.
            access: find.access.with_visibility(Visibility::Present),
            ready: VecDeque::new(),
            marker: PhantomData,
        }))
    }

    async fn read_batch(&mut self) -> Result<bool> {
        let batch = self.cursor.next_batch().await?;
        if batch.is_empty() {
            return Ok(false);
        }
        self.access
            .operation_metrics()
            .add_documents(batch.len() as u64);
        for drift in find_drifted(self.access.to(&T::MODEL), &batch).await? {
            let id = batch
                .get(drift.batch_position)
                .and_then(|raw| decode::stored_id(raw));
            let id = id.map_or(Ok(Bson::Null), |id| Bson::try_from(RawBson::from(id)));
            self.ready.push_back(Drift {
                id: id.map_err(error::from_bson)?,
                path: drift.path,
                snapshot: drift.snapshot,
                current: drift.current,
                source_model: drift.source.name,
                source: drift.id,
                snapshot_at: drift.snapshot_at,
            });
        }
        Ok(true)
    }
}
