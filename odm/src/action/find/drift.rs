//! How snapshots differ from what they were taken of.

use std::{collections::VecDeque, marker::PhantomData, pin::Pin};

use bson::{Bson, DateTime, RawBson};
use futures_util::{StreamExt, stream};

use super::{Find, Rows};
use crate::{
    Result,
    access::Access,
    backend::Cursor,
    decode,
    document::Document,
    error,
    maintain::{drifted, snapshots},
    schema::Schema,
    soft_delete::Sight,
};

/// A snapshot that is not as what it was taken of is now; found by [`Find::drift`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Drift {
    /// The `_id` of the document that has the snapshot.
    pub id: Bson,
    /// Where it is in the document, as it is stored: `lines.0.price`.
    pub path: String,
    /// What was taken.
    pub taken: Bson,
    /// What the source has now; none if the source is not there any more, or out of sight.
    pub now: Option<Bson>,
    /// The model of the source.
    pub source_model: &'static str,
    /// The `_id` of the source: the one that is remembered with `origin`, and otherwise what the reference leads to.
    pub source: Bson,
    /// When it was taken; none if that is not remembered, for which the snapshot says `origin`.
    pub taken_at: Option<DateTime>,
}

/// The snapshots of the documents of a query that are not as their sources are now; made by [`Find::drift`].
///
/// It gives all of them when it is awaited, and one after the other by [`stream`](Self::stream).
#[must_use = "nothing is read until it is awaited or streamed"]
pub struct FindDrift<S, T: Document, C> {
    find: Find<S, T, T, (), C>,
}

impl<S: Schema, T: Document, C> Find<S, T, T, (), C> {
    /// The snapshots in the documents that match, `#[snapshot(from = …)]`, which are not as what they were taken of is now. Those
    /// that are the same are left out, and so are those of no source.
    ///
    /// The documents are read in batches, and for each batch the sources: one query for each model that these are of. A source that
    /// the session does not see is as one that is gone. A [limit](Self::limit) is one of documents.
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
    ///     println!("{}: {} was taken, and is {:?} now", drift.path, drift.taken, drift.now);
    /// #   assert_eq!((drift.path.as_str(), drift.now, drift.taken_at.is_some()), ("price", Some(30_i64.into()), true));
    /// }
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    pub fn drift(mut self) -> FindDrift<S, T, C> {
        // A stale document would seem to differ from the source.
        self.access = self.access.reading_from_primary();
        FindDrift { find: self }
    }
}

impl<S: Schema, T: Document, C> FindDrift<S, T, C> {
    /// One after the other, read in batches. It ends behind an error.
    pub fn stream(self) -> Rows<Drift> {
        let start = State::<S, T>::Start(self.find.checked());
        Rows(Box::pin(stream::unfold(start, State::next).fuse()))
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

enum State<S, T: Document> {
    Start(Find<S, T>),
    Open(Open<T>),
    Over,
}

struct Open<T> {
    access: Access,
    cursor: Box<dyn Cursor>,
    ready: VecDeque<Drift>,
    of: PhantomData<fn() -> T>,
}

impl<S: Schema, T: Document> State<S, T> {
    async fn next(self) -> Option<(Result<Drift>, Self)> {
        let failed = |error| Some((Err(error::of_model::<T>(error)), Self::Over));
        let mut open = match self {
            Self::Over => return None,
            Self::Open(open) => open,
            Self::Start(find) => match Open::start(find).await {
                Ok(open) => open?,
                Err(error) => return failed(error),
            },
        };
        while open.ready.is_empty() {
            match open.fill().await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return failed(error),
            }
        }
        let drift = open.ready.pop_front()?;
        Some((Ok(drift), Self::Open(open)))
    }
}

impl<T: Document> Open<T> {
    /// Opens the query; none if the documents have no snapshots.
    async fn start<S: Schema>(find: Find<S, T>) -> Result<Option<Self>> {
        let Some(projection) = snapshots(&T::MODEL)? else {
            return Ok(None);
        };
        let ask = crate::backend::operation::Find {
            projection,
            ..find.to_operation()?
        };
        Ok(Some(Self {
            cursor: find.access.find(&T::MODEL, ask).await?,
            // Whether sources are seen is not said by whether the documents are.
            access: find.access.seeing(Sight::Present),
            ready: VecDeque::new(),
            of: PhantomData,
        }))
    }

    async fn fill(&mut self) -> Result<bool> {
        let batch = self.cursor.next_batch().await?;
        if batch.is_empty() {
            return Ok(false);
        }
        self.access.told().had(batch.len() as u64);
        for drifted in drifted(&self.access, &T::MODEL, &batch).await? {
            let id = batch.get(drifted.document).and_then(|raw| decode::id(raw));
            let id = id.map_or(Ok(Bson::Null), |id| Bson::try_from(RawBson::from(id)));
            self.ready.push_back(Drift {
                id: id.map_err(error::encode)?,
                path: drifted.path,
                taken: drifted.taken,
                now: drifted.now,
                source_model: drifted.source.name,
                source: drifted.id,
                taken_at: drifted.at,
            });
        }
        Ok(true)
    }
}
