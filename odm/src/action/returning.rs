//! Writes that return the document from the same atomic step.

use std::{marker::PhantomData, pin::Pin};

use bson::RawDocument;

use super::{
    delete::{Delete, DeleteForm},
    target::{ById, SingleTarget},
    update::{Update, UpdateForm},
};
use crate::{
    Error, Result, error,
    model::{
        document::Document,
        projection::{self, Projection, ProjectionOf},
    },
};

/// An update that returns the document; made by [`Update::returning_after`] and [`Update::returning_before`].
///
/// A document that does not fit the model or the projection is an error of kind [`Decode`](crate::ErrorKind::Decode). The error
/// says that the write happened.
///
/// ```
/// # use odm::prelude::*;
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "jobs", index(state, -priority))]
/// # struct Job { #[serde(rename = "_id")] id: i64, state: String, priority: i64 }
/// # #[derive(Schema)] #[schema(models(Job))] struct Office;
/// # async fn example(db: odm::Database<Office>) -> odm::Result<()> {
/// // However many workers do this, none takes a job that another one has.
/// let next = db
///     .update_first::<Job>(|j| j.state().eq("ready"))
///     .sort(|j| j.priority().desc())
///     .set(|j| j.state(), "running")
///     .returning_after()
///     .await?;
/// if let Applied(job) = next {
///     println!("working on {}", job.id);
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "an update runs when awaited"]
pub struct ReturningUpdate<T: Document, K = ById, P = T> {
    update: Update<T, K>,
    return_new: bool,
    marker: PhantomData<fn() -> P>,
}

impl<T: Document, K: SingleTarget> ReturningUpdate<T, K> {
    pub(super) fn new(update: Update<T, K>, return_new: bool) -> Self {
        Self {
            update,
            return_new,
            marker: PhantomData,
        }
    }

    /// Returns only the fields of a [`Projection`].
    pub fn select<P: ProjectionOf<T>>(self) -> ReturningUpdate<T, K, P> {
        ReturningUpdate {
            update: self.update,
            return_new: self.return_new,
            marker: PhantomData,
        }
    }
}

impl<T: Document, K: SingleTarget, P: Projection<Of = T>> IntoFuture for ReturningUpdate<T, K, P> {
    type Output = Result<K::Returned<P>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let form = UpdateForm::FindAndModify {
                projection: projection::to_raw::<P>(&[])?,
                return_new: self.return_new,
            };
            let document = self.update.run_update(form).await?.into_document();
            let document = document.as_deref().map(decode_returned::<P>).transpose()?;
            K::from_found(document).map_err(error::of_model::<T>)
        })
    }
}

/// A delete that returns the document as the document was before; made by [`Delete::returning`].
///
/// The result is always an [`Outcome`](super::Outcome), even without a condition: a delete of a missing document is no error.
///
/// ```
/// # use odm::prelude::*;
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "codes")]
/// # struct Code { #[serde(rename = "_id")] id: String, used: bool, worth: i64 }
/// # #[derive(Schema)] #[schema(models(Code))] struct Shop;
/// # async fn example(db: odm::Database<Shop>) -> odm::Result<()> {
/// // A code is good once.
/// let code = db.delete::<Code>("SUMMER").when(|c| !c.used().eq(true)).returning().await?.expect_applied()?;
/// println!("{} off", code.worth);
/// # Ok(())
/// # }
/// ```
#[must_use = "a delete runs when awaited"]
pub struct ReturningDelete<T: Document, K = ById, P = T> {
    delete: Delete<T, K>,
    marker: PhantomData<fn() -> P>,
}

impl<T: Document, K: SingleTarget> ReturningDelete<T, K> {
    pub(super) fn new(delete: Delete<T, K>) -> Self {
        Self {
            delete,
            marker: PhantomData,
        }
    }

    /// Returns only the fields of a [`Projection`].
    pub fn select<P: ProjectionOf<T>>(self) -> ReturningDelete<T, K, P> {
        ReturningDelete {
            delete: self.delete,
            marker: PhantomData,
        }
    }
}

impl<T: Document, K: SingleTarget, P: Projection<Of = T>> IntoFuture for ReturningDelete<T, K, P> {
    type Output = Result<super::Outcome<P>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let form = DeleteForm::Returning(projection::to_raw::<P>(&[])?);
            let (_, document) = self.delete.run_delete(form).await?;
            Ok(document
                .as_deref()
                .map(decode_returned::<P>)
                .transpose()?
                .into())
        })
    }
}

/// Decodes a document that a write returned. An error says that the write happened.
pub(super) fn decode_returned<P: Projection<Of: Document>>(raw: &RawDocument) -> Result<P> {
    P::from_document(raw, &<P::Of as Document>::MODEL).map_err(Error::after_committed_write)
}
