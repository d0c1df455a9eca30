//! Search and maintenance of the overflow arrays of a model.

mod lengths;

use std::{marker::PhantomData, sync::Arc, time::Duration};

use bson::{Bson, Document as BsonDocument, RawDocumentBuf, doc};

pub use lengths::Lengths;
pub(crate) use lengths::measure_lengths;

use crate::{
    Result,
    backend::operation::FindOperation,
    error,
    language::{
        field::{Elem, FromPath, Path, Place, SameScope, role, shape},
        query::{Filter, IntoFilter, IntoKey},
    },
    model::document::{Document, OverflowArray, Stored},
    overflow::{
        capacity::too_long_or_large, element_search::any_element_condition, unsorted_filter,
    },
    pending::{Worker, expired::RecoveryReport},
    session::{
        access::{Access, find_matching},
        soft_delete::Visibility,
    },
    write::{FoldOutcome, fold_array, spill_array},
};

/// The overflow arrays of a model: search by element, and maintenance. Made by [`Session::arrays`](crate::Session::arrays).
///
/// [`any`](Self::any) is a filter on resident and spilled elements. The remaining methods maintain the arrays. Maintenance can
/// run while the application writes, and can stop at any time: a later call continues with the remaining arrays. Maintenance
/// covers the documents of the session's scope, soft-deleted documents included. [`all_scopes`](crate::Session::all_scopes)
/// covers every scope.
#[must_use = "nothing happens until a method such as `any`, `fold`, `spill` or `lengths` is called"]
pub struct Arrays<T> {
    access: Access,
    of: PhantomData<fn() -> T>,
}

/// The fields of an array element.
type ElementFields<T, P> = <<<P as Place>::Value as OverflowArray>::Element as Stored>::Fields<
    Elem<T>,
    role::Resident,
    shape::One,
>;

impl<T: Document> Arrays<T> {
    pub(crate) fn new(access: Access) -> Self {
        Self {
            // A soft-deleted document can be restored, so maintenance includes soft-deleted documents.
            access: access.with_visibility(Visibility::All),
            of: PhantomData,
        }
    }

    /// Returns a filter for the documents in which one element of the array meets the whole condition. The element may be resident
    /// or spilled.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "sales")]
    /// # struct Book {
    /// #     #[serde(rename = "_id")] id: i64,
    /// #     title: String,
    /// #     #[embed(overflow(after = 50, into = "extra_sales", owner = "book_id"))] customers: Overflow<String>,
    /// # }
    /// # #[derive(Schema)] #[schema(models(Book))] struct Shop;
    /// # async fn example(db: odm::Database<Shop>) -> odm::Result<()> {
    /// let bought = db.arrays::<Book>().any(|b| b.customers(), |customer| customer.eq("user777")).await?;
    /// let books = db.find::<Book>().filter(|b| bought & b.title().starts_with("Harry")).all().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// The spilled elements are searched when this future is awaited. The first query reads tails and blocks, and scans all
    /// documents. The second query scans all chunks. Further queries read the matching owners, up to 1,000 at a time. No index
    /// covers the elements. The returned filter names the owners of matching chunks by id, and tests the resident elements of all
    /// other documents. If the resident elements are enough, a filter by [`resident`](crate::field::OverflowPlace::resident) has
    /// no extra cost.
    ///
    /// The filter is a snapshot of the spilled elements. A later use of the filter misses elements that were spilled since, and
    /// still matches documents with a removed spilled element. Two concurrent writes can hide a match: the replacement of a whole
    /// array, and a push that spills the element from a sorted array.
    ///
    /// # Errors
    ///
    /// - [`Invalid`](crate::ErrorKind::Invalid) for an array that is not an overflow array.
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) if more than 100,000 documents have a matching spilled element.
    /// - Errors of the backend.
    pub async fn any<P, F>(
        &self,
        array: impl FnOnce(T::Fields) -> P + Send,
        condition: impl FnOnce(ElementFields<T, P>) -> F + Send,
    ) -> Result<Filter<T>>
    where
        P: Place<Scope: SameScope<T>, Value: OverflowArray>,
        F: IntoFilter<Elem<T>>,
    {
        let field = T::MODEL.require_overflow_at(&array(T::fields()).path())?;
        let condition = condition(FromPath::from_path(Path::ROOT)).into_filter();
        let Some(condition) = condition else {
            return Ok(Filter::all());
        };
        let has_element = any_element_condition(
            self.access.for_repeat().to(&T::MODEL),
            field,
            &condition.into_node(),
        )
        .await?;
        Ok(Filter::from_node(has_element))
    }

    /// Moves the spilled elements of one document back into the document, if all elements fit. Returns whether an array was
    /// folded.
    ///
    /// An array fits if it takes at most three quarters of its limits, in elements and in bytes. So the next push does not spill
    /// again. With `inline` on the model, the byte limit is 3 MiB. Without a document, the result is false.
    ///
    /// # Errors
    ///
    /// - [`Conflict`](crate::ErrorKind::Conflict) if concurrent writes change the array during every attempt.
    /// - Errors of the backend.
    pub async fn fold_one(&self, id: impl IntoKey<T>) -> Result<bool> {
        let find = find_matching(T::COLLECTION, &id.into_key().to_raw()?);
        let mut is_folded = false;
        for id in self.find_ids(find).await? {
            for field in T::MODEL.overflows {
                let folded = fold_array(self.write_access().to(&T::MODEL), field, &id).await?;
                is_folded |= folded == FoldOutcome::Folded;
            }
        }
        Ok(is_folded)
    }

    /// Folds the arrays of all documents. Returns the number of folded arrays.
    ///
    /// # Errors
    ///
    /// The error of the first array that could not be folded, after all arrays were tried: see [`fold_one`](Self::fold_one).
    pub async fn fold(&self) -> Result<u64> {
        let folded = self.fold_all().await?;
        folded.first_error.map_or(Ok(folded.recovered), Err)
    }

    /// Folds the arrays of all documents. An array that cannot be folded does not stop the rest.
    async fn fold_all(&self) -> Result<RecoveryReport> {
        let mut folded = RecoveryReport::default();
        for field in T::MODEL.overflows {
            let has_manifest = doc! { field.manifest: { "$exists": true } };
            for id in self.matching_ids(&has_manifest).await? {
                match fold_array(self.write_access().to(&T::MODEL), field, &id).await {
                    Ok(outcome) => folded.recovered += u64::from(outcome == FoldOutcome::Folded),
                    Err(error) => folded.record_error(error)?,
                }
            }
        }
        Ok(folded)
    }

    /// Folds the arrays of all documents in a background task: now, and again after each `pause`, until the returned worker is
    /// dropped. [`progress`](Worker::progress) has the number of folded arrays.
    ///
    /// Several processes can run such a task: each array is folded by one process. The task reads all documents with spilled
    /// elements, without an index. Choose a pause of hours, not seconds.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "sales")]
    /// # struct Book {
    /// #     #[serde(rename = "_id")] id: i64,
    /// #     #[embed(overflow(after = 50, into = "extra_sales", owner = "book_id"))] customers: Overflow<String>,
    /// # }
    /// # #[derive(Schema)] #[schema(models(Book))] struct Shop;
    /// # async fn serve(db: &odm::Database<Shop>) {}
    /// # async fn example(db: odm::Database<Shop>) {
    /// let folding = db.arrays::<Book>().spawn_fold_worker(Duration::from_secs(3600));
    /// serve(&db).await;
    /// println!("{} arrays were folded", folding.progress().documents);
    /// # }
    /// ```
    pub fn spawn_fold_worker(self, pause: Duration) -> Worker {
        let arrays = Arc::new(self);
        Worker::start(pause, move || {
            let arrays = arrays.clone();
            async move { arrays.fold_all().await }
        })
    }

    /// Spills the arrays that have too many or too large resident elements, and sorts unsorted arrays. Returns the number of changed
    /// arrays.
    ///
    /// Documents that are older than the declaration of the array need this call.
    ///
    /// # Errors
    ///
    /// The same as [`fold`](Self::fold).
    pub async fn spill(&self) -> Result<u64> {
        let mut spilled = RecoveryReport::default();
        for field in T::MODEL.overflows {
            let too_long = too_long_or_large(field);
            let filter = match unsorted_filter(field) {
                Some(unsorted) => doc! { "$or": [too_long, unsorted] },
                None => too_long,
            };
            for id in self.matching_ids(&filter).await? {
                match spill_array(self.write_access().to(&T::MODEL), field, &id).await {
                    Ok(outcome) => spilled.recovered += u64::from(outcome),
                    Err(error) => spilled.record_error(error)?,
                }
            }
        }
        spilled.first_error.map_or(Ok(spilled.recovered), Err)
    }

    /// Returns the access for the writes of the maintenance. A time limit of the session does not apply.
    fn write_access(&self) -> Access {
        self.access.clone().without_time_limit()
    }

    /// Returns the ids of the documents that match the filter.
    async fn matching_ids(&self, filter: &BsonDocument) -> Result<Vec<Bson>> {
        self.find_ids(find_matching(T::COLLECTION, &to_raw_document(filter)?))
            .await
    }

    /// Returns the ids of the documents that the query finds.
    async fn find_ids(&self, find: FindOperation) -> Result<Vec<Bson>> {
        let find = FindOperation {
            projection: Some(to_raw_document(&doc! { "_id": 1 })?),
            sort: Some(to_raw_document(&doc! { "_id": 1 })?),
            ..find
        };
        let documents = self.write_access().find_all(&T::MODEL, find).await?;
        let ids = documents
            .iter()
            .filter_map(|raw| crate::model::decode::stored_id(raw));
        let ids = ids.map(|id| Bson::try_from(id).map_err(error::from_bson));
        ids.collect()
    }
}

/// Converts a document into raw BSON.
fn to_raw_document(document: &BsonDocument) -> Result<RawDocumentBuf> {
    RawDocumentBuf::try_from(document).map_err(error::from_bson)
}
