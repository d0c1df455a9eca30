//! Changing a document, or inserting it where there is none.

use std::{marker::PhantomData, pin::Pin};

use bson::Bson;

use super::{
    insert::as_stored,
    returning::decoded,
    target::{ById, WithId, to_raw},
    update::{Prepared, Update, Updated},
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{Count, Insert},
    document::Document,
    error,
    field::Path,
    maintain::Plan,
    query::{Node, encode, same},
    retry,
    schema::Model,
};

/// An update of the document with an id, or its insertion if there is none; made by [`Update::or_insert`].
///
/// Exactly one of both happens, whoever else does the same at the same time: what is inserted is the given document, to
/// which the changes of the update are not applied. The answer, an [`Upserted`], says which it was. With a condition
/// ([`Update::when`]) it is an [`Outcome`](super::Outcome) of that: a document that is there and does not meet the condition
/// is neither changed nor inserted.
///
/// It costs one operation if the document is there, and two if it is not; a condition or a bounded array that grows costs
/// another one where the update did not apply, and so does a model with a soft delete or a scope.
///
/// It fails with [`Invalid`](ErrorKind::Invalid) if the document has another id, or the update changes a field inside of an
/// enum's variant (a document of another variant could be neither changed nor inserted),
/// [`DuplicateKey`](ErrorKind::DuplicateKey) if another document has the value of a unique index, or the one with the id is
/// deleted by a mark or of another scope, and otherwise as an update and as an insert.
///
/// ```
/// # use odm::prelude::*;
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "counters")]
/// # struct Counter { #[serde(rename = "_id")] id: String, n: i64 }
/// # #[derive(Schema)] #[schema(models(Counter))] struct Site;
/// # async fn example(db: odm::Database<Site>) -> odm::Result<()> {
/// let invoice = db
///     .update::<Counter>("invoices")
///     .inc(|c| c.n(), 1)
///     .or_insert(Counter { id: "invoices".into(), n: 1 })
///     .returning_after()
///     .await?
///     .into_inner();
/// println!("invoice number {}", invoice.n);
/// # Ok(())
/// # }
/// ```
#[must_use = "an update happens when it is awaited"]
pub struct Upsert<T: Document, K = ById, R = Counts> {
    update: Update<T, K>,
    document: Result<T>,
    return_new: bool,
    of: PhantomData<fn() -> R>,
}

/// What an [`Upsert`] did.
#[must_use = "which of both an upsert did is what one wants to know"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upserted<T, U = Updated> {
    /// There was no document with the id; this one is stored now.
    Inserted(T),
    /// There was one, and it has been changed.
    Updated(U),
}

impl<T, U> Upserted<T, U> {
    /// Whether the document was inserted.
    #[must_use]
    pub fn is_inserted(&self) -> bool {
        matches!(self, Self::Inserted(_))
    }
}

impl<T> Upserted<T, T> {
    /// The document, whichever it was.
    #[must_use]
    pub fn into_inner(self) -> T {
        match self {
            Self::Inserted(document) | Self::Updated(document) => document,
        }
    }
}

/// An upsert that tells what it did.
#[derive(Debug)]
pub struct Counts;

/// An upsert that gives the document too.
#[derive(Debug)]
pub struct Documents;

impl<T: Document, K: WithId> Upsert<T, K> {
    pub(super) fn new(update: Update<T, K>, document: Result<T>) -> Self {
        Self {
            update,
            document,
            return_new: true,
            of: PhantomData,
        }
    }

    /// Gives the document as it is then.
    pub fn returning_after(self) -> Upsert<T, K, Documents> {
        self.returning(true)
    }

    /// Gives the document as it was before it was updated, or as it was inserted.
    pub fn returning_before(self) -> Upsert<T, K, Documents> {
        self.returning(false)
    }

    fn returning(self, return_new: bool) -> Upsert<T, K, Documents> {
        Upsert {
            update: self.update,
            document: self.document,
            return_new,
            of: PhantomData,
        }
    }
}

/// What an upsert answers about an update.
pub trait Answer<T: Document>: Sized + Send + 'static {
    /// The answer.
    type Updated: Send;

    #[doc(hidden)]
    fn update<K: WithId>(
        update: &Prepared<T, K>,
        return_new: bool,
    ) -> impl Future<Output = Result<Option<Self::Updated>>> + Send;
}

impl<T: Document> Answer<T> for Counts {
    type Updated = Updated;
    async fn update<K: WithId>(update: &Prepared<T, K>, _: bool) -> Result<Option<Updated>> {
        let done = update.count(false).await?;
        Ok(Some(done).filter(|done| done.applied()))
    }
}

impl<T: Document> Answer<T> for Documents {
    type Updated = T;
    async fn update<K: WithId>(update: &Prepared<T, K>, return_new: bool) -> Result<Option<T>> {
        let found = update.find_and_modify(None, return_new).await?;
        found.as_deref().map(decoded).transpose()
    }
}

impl<T: Document, K: WithId, R: Answer<T>> IntoFuture for Upsert<T, K, R> {
    type Output = Result<K::Returned<Upserted<T, R::Updated>>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut document = self.document.map_err(error::of_model::<T>)?;
            let done = run::<T, K, R>(self.update, &mut document, self.return_new).await?;
            let done = match done {
                Done::Updated(updated) => Some(Upserted::Updated(updated)),
                Done::Inserted => Some(Upserted::Inserted(document)),
                Done::NotApplied => None,
            };
            K::returned(done).map_err(error::of_model::<T>)
        })
    }
}

enum Done<U> {
    Updated(U),
    Inserted,
    NotApplied,
}

/// How often both are tried before a conflict is reported. A further time is only needed where somebody else has
/// inserted the document, and deleted it again, in between.
const ATTEMPTS: u32 = 100;

/// Each of both is atomic, and neither happens where the other would have been right: an update finds no document that
/// is not there, and an insert is refused where one is. So whichever is done decides.
async fn run<T: Document, K: WithId, R: Answer<T>>(
    update: Update<T, K>,
    document: &mut T,
    return_new: bool,
) -> Result<Done<R::Updated>> {
    if update.is_of_a_variant() {
        return Err(of_a_variant::<T>());
    }
    let raw = as_stored(document)?;
    let update = update.prepare()?;
    refuse_another_id(update.target.id(), document)?;
    let mut attempt = 1;
    loop {
        match R::update(&update, return_new).await {
            Ok(Some(updated)) => return Ok(Done::Updated(updated)),
            Ok(None) => {}
            // The insert that was refused has ended the transaction, which is to be run again.
            Err(error) if error.kind() == ErrorKind::TransactionOver && attempt > 1 => {
                return Err(conflict::<T>());
            }
            Err(error) => return Err(error),
        }
        if is_there_but_otherwise(&update).await? {
            return Ok(Done::NotApplied);
        }
        refuse_another_variant(&update).await?;
        if is_out_of_sight(&update).await? {
            return Err(out_of_sight::<T>(document));
        }
        let insert = Insert {
            collection: T::COLLECTION.into(),
            documents: vec![raw.clone()],
            ordered: true,
        };
        let inserted = Plan::new(&T::MODEL, insert)?
            .run(update.access.clone())
            .await;
        match inserted.map_err(Error::without_inserted) {
            Ok(_) => return Ok(Done::Inserted),
            Err(error) if !error.is_duplicate_key() => return Err(error),
            // It may be the key of another document, or both documents may have both keys in common.
            Err(error) if error.index() != Some("_id_") => {
                let by_id = update.target.by_id_alone()?;
                if !update.is_there(by_id).await.unwrap_or(false) {
                    return Err(error);
                }
            }
            Err(_) if attempt >= ATTEMPTS => return Err(conflict::<T>()),
            Err(_) => {}
        }
        if attempt > 1 {
            retry::pause(attempt).await;
        }
        attempt += 1;
    }
}

/// Refuses an id that belongs to a document of another variant of the model's enum: it could be neither changed nor
/// inserted, however often that is tried.
async fn refuse_another_variant<T: Document, K: WithId>(update: &Prepared<T, K>) -> Result<()> {
    let Some((field, value)) = T::MODEL.tag else {
        return Ok(());
    };
    let is_another = Node::Test(Path::ROOT.then(field), "$ne", value.into());
    let count = Count {
        collection: T::COLLECTION.into(),
        filter: to_raw::<T>(update.target.by_id_alone()?.and(is_another))?,
        limit: Some(1),
    };
    // The documents of all variants are asked.
    let all = Model {
        tag: None,
        ..T::MODEL
    };
    if update.access.count(&all, count).await? == 0 {
        return Ok(());
    }
    let message = "the `_id` is that of a document of another variant, which is no document of this model: nothing was written";
    let error = error::of_model::<T>(Error::new(ErrorKind::DuplicateKey, message)).with_path(field);
    let id = match update.target.id().map(encode) {
        Some(Ok(id)) => Bson::try_from(id).ok(),
        _ => None,
    };
    Err(match id {
        Some(id) => error
            .with_index("_id_", bson::doc! { "_id": id.clone() })
            .with_id(id),
        None => error,
    })
}

/// Whether the document is there and does not meet the condition.
///
/// Without this look, a document that does not meet it could only be told from none by an insert that fails, and in a
/// transaction nothing may fail.
async fn is_there_but_otherwise<T: Document, K: WithId>(update: &Prepared<T, K>) -> Result<bool> {
    match update.condition() {
        Node::All => Ok(false),
        condition => {
            let otherwise = Node::Not(Box::new(condition));
            let by_id = update.target.by_id_alone()?;
            update.is_there(by_id.and(otherwise)).await
        }
    }
}

/// Whether a document has the id that no update may find: a deleted one, or one of another scope. Both would go on for
/// ever.
async fn is_out_of_sight<T: Document, K: WithId>(update: &Prepared<T, K>) -> Result<bool> {
    let count = Count {
        collection: T::COLLECTION.into(),
        filter: to_raw::<T>(update.target.by_id_alone()?)?,
        limit: Some(1),
    };
    update.access.hides(&T::MODEL, count).await
}

fn refuse_another_id<T: Document>(id: Option<&T::Id>, document: &T) -> Result<()> {
    let is_same = match id {
        None => false,
        Some(id) => same(
            encode(id)?.as_raw_bson_ref(),
            encode(document.id())?.as_raw_bson_ref(),
        ),
    };
    if is_same {
        return Ok(());
    }
    let message = "the document to insert has another `_id` than the update is for";
    let error = Error::new(ErrorKind::Invalid, message).with_path("_id");
    Err(error::of_model::<T>(error))
}

/// Of a document that is there, with another variant, neither would be done: and that is all an upsert promises.
fn of_a_variant<T: Document>() -> Error {
    let message = "an upsert changes nothing inside of an enum's variant: a document whose value is of another variant would \
                   be neither changed nor inserted; set the enum as a whole, or update and insert apart";
    error::of_model::<T>(Error::new(ErrorKind::Invalid, message))
}

fn out_of_sight<T: Document>(document: &T) -> Error {
    let message = "a document has the `_id` that cannot be reached from here, so that none can be updated and none inserted: \
                   it is deleted (`restore` it, or delete it `permanently`), or belongs to somebody else";
    let error = Error::new(ErrorKind::DuplicateKey, message).with_path("_id");
    error::of_model::<T>(match bson::serialize_to_bson(document.id()) {
        Ok(id) => error.with_id(id),
        Err(_) => error,
    })
}

fn conflict<T: Document>() -> Error {
    let message = "another write inserted the document first, and nothing was written: try again";
    error::of_model::<T>(Error::new(ErrorKind::Conflict, message))
}
