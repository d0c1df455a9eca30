//! The arrays of a model that overflow: asked wherever their elements are, and looked after.

mod lengths;

use std::{marker::PhantomData, sync::Arc, time::Duration};

use bson::{Bson, Document as BsonDocument, RawDocumentBuf, doc};

pub use lengths::Lengths;

use crate::{
    Result,
    access::{Access, found_by},
    backend::operation::Find,
    document::{Document, OverflowArray, Stored},
    error,
    field::{Elem, FromPath, In, Path, Place, role, shape},
    maintain::{Finished, Folded, anywhere, fold, spill, too_long_or_large},
    overflow::unsorted,
    query::{Filter, IntoFilter, IntoKey},
    settled::Worker,
    soft_delete::Sight,
};

/// The arrays of a model that overflow, to be asked and looked after; made by [`Session::arrays`](crate::Session::arrays).
///
/// [`any`](Self::any) is a condition on elements wherever they are. The others look after the arrays: each may run while the application
/// writes, may be ended at any time, and goes on where it was when it is begun again, as what is done needs nothing any more. They look at
/// the documents of the session's scope ([`all_scopes`](crate::Session::all_scopes) looks at those of all), soft-deleted ones too.
#[must_use = "say what to do: `any`, `fold`, `spill` or `lengths`"]
pub struct Arrays<T> {
    access: Access,
    of: PhantomData<fn() -> T>,
}

/// The fields of one of the elements of an array.
type ElementFields<T, P> = <<<P as Place>::Value as OverflowArray>::Element as Stored>::Fields<
    Elem<T>,
    role::Resident,
    shape::One,
>;

impl<T: Document> Arrays<T> {
    pub(crate) fn new(access: Access) -> Self {
        Self {
            // A soft-deleted document can be restored, so its arrays are looked after too.
            access: access.seeing(Sight::All),
            of: PhantomData,
        }
    }

    /// The condition that one and the same element meets the condition, wherever it is: in the document, or outside of it.
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
    /// It is asked when it is made: one query for elements on their way out of documents, one for those outside, one more for each 1,000
    /// documents that have such, to make sure that they are theirs. No index has the elements: the first looks at all documents, the
    /// second at everything that is outside. The condition then names the documents with such an element outside
    /// of them by their ids, and asks for it in the others. Where elements in documents are enough, a filter by
    /// [`resident`](crate::field::Overflowing::resident) costs nothing beside.
    ///
    /// It is about what is outside of documents now: made once and used again later, it does not find what has gone there meanwhile, and
    /// still finds documents whose element outside of them is gone. An array that is replaced as a whole meanwhile may be missed, and of
    /// one in an order an element that a push lets go from the document meanwhile.
    ///
    /// # Errors
    ///
    /// Those of the backend; [`Invalid`](crate::ErrorKind::Invalid) for an array that does not overflow;
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if more than 100,000 documents have such an element outside of them.
    pub async fn any<P, F>(
        &self,
        array: impl FnOnce(T::Fields) -> P + Send,
        condition: impl FnOnce(ElementFields<T, P>) -> F + Send,
    ) -> Result<Filter<T>>
    where
        P: Place<Scope: In<T>, Value: OverflowArray>,
        F: IntoFilter<Elem<T>>,
    {
        let field = T::MODEL.overflowing(&array(T::fields()).path())?;
        let condition = condition(FromPath::from_path(Path::ROOT)).into_filter();
        let Some(condition) = condition else {
            return Ok(Filter::all());
        };
        let found = anywhere(
            &self.access.again(),
            &T::MODEL,
            field,
            &condition.into_node(),
        )
        .await?;
        Ok(Filter::from_node(found))
    }

    /// Brings the elements of one document back into it, where they fit: where they are no more than three quarters of those that may
    /// be in it, in number and in bytes, so that the next push does not take them out again. Where the model says `gather`, these are
    /// 3 MiB. Tells whether some were brought back: none are of a document that is not there.
    ///
    /// # Errors
    ///
    /// Those of the backend, and [`Conflict`](crate::ErrorKind::Conflict) if others write to the array again and again.
    pub async fn fold_one(&self, id: impl IntoKey<T>) -> Result<bool> {
        let find = found_by(&T::COLLECTION.into(), &id.into_key().to_raw()?);
        let mut is_folded = false;
        for id in self.ids(find).await? {
            for field in T::MODEL.overflows {
                let folded = fold(&self.writing(), &T::MODEL, field, &id).await?;
                is_folded |= folded == Folded::Now;
            }
        }
        Ok(is_folded)
    }

    /// The same for all documents; tells how many arrays were brought back.
    ///
    /// # Errors
    ///
    /// As [`fold_one`](Self::fold_one): once all others are done, that of the first array that could not be.
    pub async fn fold(&self) -> Result<u64> {
        let folded = self.fold_all().await?;
        folded.failed.map_or(Ok(folded.documents), Err)
    }

    async fn fold_all(&self) -> Result<Finished> {
        let mut folded = Finished::default();
        for field in T::MODEL.overflows {
            let outside = doc! { field.header: { "$exists": true } };
            for id in self.matching(&outside).await? {
                match fold(&self.writing(), &T::MODEL, field, &id).await {
                    Ok(done) => folded.documents += u64::from(done == Folded::Now),
                    Err(error) => folded.fail(error)?,
                }
            }
        }
        Ok(folded)
    }

    /// The same in a task of its own, at once and with this pause behind each time, until what is given back is dropped. Its
    /// [progress](Worker::progress) tells how many arrays were brought back.
    ///
    /// Several processes may do so: each array is brought back by one of them. It reads the documents that have elements outside, and no
    /// index leads there: let hours be between two rounds, not seconds.
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
    /// let folding = db.arrays::<Book>().fold_every(Duration::from_secs(3600));
    /// serve(&db).await;
    /// println!("{} arrays are whole again", folding.progress().documents);
    /// # }
    /// ```
    pub fn fold_every(self, pause: Duration) -> Worker {
        let arrays = Arc::new(self);
        Worker::start(pause, move || {
            let arrays = arrays.clone();
            async move { arrays.fold_all().await }
        })
    }

    /// Lets the arrays overflow that are longer or larger in their documents than they should be, and brings those into their order that
    /// are not in it: those of documents that were there before the array was declared so. Tells how many there were.
    ///
    /// # Errors
    ///
    /// As [`fold`](Self::fold).
    pub async fn spill(&self) -> Result<u64> {
        let mut spilled = Finished::default();
        for field in T::MODEL.overflows {
            let too_much = too_long_or_large(field);
            let found = match unsorted(field) {
                Some(unsorted) => doc! { "$or": [too_much, unsorted] },
                None => too_much,
            };
            for id in self.matching(&found).await? {
                match spill(&self.writing(), &T::MODEL, field, &id).await {
                    Ok(done) => spilled.documents += u64::from(done),
                    Err(error) => spilled.fail(error)?,
                }
            }
        }
        spilled.failed.map_or(Ok(spilled.documents), Err)
    }

    /// The way for what brings arrays in or out, which a time limit of the session does not cut off.
    fn writing(&self) -> Access {
        self.access.clone().unlimited()
    }

    async fn matching(&self, filter: &BsonDocument) -> Result<Vec<Bson>> {
        self.ids(found_by(&T::COLLECTION.into(), &raw(filter)?))
            .await
    }

    async fn ids(&self, find: Find) -> Result<Vec<Bson>> {
        let find = Find {
            projection: Some(raw(&doc! { "_id": 1 })?),
            sort: Some(raw(&doc! { "_id": 1 })?),
            ..find
        };
        let found = self.writing().find_all(&T::MODEL, find).await?;
        let ids = found.iter().filter_map(|raw| crate::decode::id(raw));
        let ids = ids.map(|id| Bson::try_from(id).map_err(error::encode));
        ids.collect()
    }
}

fn raw(document: &BsonDocument) -> Result<RawDocumentBuf> {
    RawDocumentBuf::try_from(document).map_err(error::encode)
}
