//! Writes that give the document back, in the same atomic step.

use std::{marker::PhantomData, pin::Pin};

use bson::RawDocument;

use super::{
    delete::{Delete, DeleteHow},
    target::{ById, ToOne},
    update::{How, Update},
};
use crate::{
    Error, Result,
    document::Document,
    error,
    projection::{self, Projection, ProjectionOf},
};

/// An update that gives the document back; made by [`Update::returning_after`] and [`Update::returning_before`].
///
/// A document that does not fit the model, or the projection, is an error of kind [`Decode`](crate::ErrorKind::Decode) that
/// says that the write was carried out.
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
#[must_use = "an update happens when it is awaited"]
pub struct ReturningUpdate<T: Document, K = ById, P = T> {
    update: Update<T, K>,
    return_new: bool,
    of: PhantomData<fn() -> P>,
}

impl<T: Document, K: ToOne> ReturningUpdate<T, K> {
    pub(super) fn new(update: Update<T, K>, return_new: bool) -> Self {
        Self {
            update,
            return_new,
            of: PhantomData,
        }
    }

    /// Gives only the fields of a [`Projection`].
    pub fn select<P: ProjectionOf<T>>(self) -> ReturningUpdate<T, K, P> {
        ReturningUpdate {
            update: self.update,
            return_new: self.return_new,
            of: PhantomData,
        }
    }
}

impl<T: Document, K: ToOne, P: Projection<Of = T>> IntoFuture for ReturningUpdate<T, K, P> {
    type Output = Result<K::Returned<P>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let how = How::FindAndModify {
                projection: projection::to_raw::<P>(&[])?,
                return_new: self.return_new,
            };
            let found = self.update.perform(how).await?.found();
            let found = found.as_deref().map(decoded::<P>).transpose()?;
            K::returned(found).map_err(error::of_model::<T>)
        })
    }
}

/// A delete that gives the document back as it was; made by [`Delete::returning`].
///
/// It gives an [`Outcome`](super::Outcome) with a condition and without, because deleting what is not there is no error.
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
#[must_use = "a delete happens when it is awaited"]
pub struct ReturningDelete<T: Document, K = ById, P = T> {
    delete: Delete<T, K>,
    of: PhantomData<fn() -> P>,
}

impl<T: Document, K: ToOne> ReturningDelete<T, K> {
    pub(super) fn new(delete: Delete<T, K>) -> Self {
        Self {
            delete,
            of: PhantomData,
        }
    }

    /// Gives only the fields of a [`Projection`].
    pub fn select<P: ProjectionOf<T>>(self) -> ReturningDelete<T, K, P> {
        ReturningDelete {
            delete: self.delete,
            of: PhantomData,
        }
    }
}

impl<T: Document, K: ToOne, P: Projection<Of = T>> IntoFuture for ReturningDelete<T, K, P> {
    type Output = Result<super::Outcome<P>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let how = DeleteHow::Returning(projection::to_raw::<P>(&[])?);
            let (_, found) = self.delete.perform(how).await?;
            Ok(found.as_deref().map(decoded::<P>).transpose()?.into())
        })
    }
}

/// A document that a write gave back.
pub(super) fn decoded<P: Projection<Of: Document>>(raw: &RawDocument) -> Result<P> {
    P::from_document(raw, &<P::Of as Document>::MODEL).map_err(Error::behind_a_write)
}
