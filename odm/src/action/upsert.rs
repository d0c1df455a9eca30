//! Changing a document, or inserting it where there is none.

use std::{marker::PhantomData, pin::Pin};

use bson::{Bson, RawDocument, RawDocumentBuf};

use super::{
    bulk::{BulkReport, BulkResult},
    insert::{as_stored, insert, store},
    returning::decoded,
    target::{ById, Target, WithId, to_raw},
    update::{Done, How, Prepared, Update, Updated, is_there},
};
use crate::{
    Error, ErrorKind, Result,
    access::Access,
    backend::{BoxFuture, operation::Count},
    decode,
    document::{Document, Draft},
    error,
    field::Path,
    maintain::{Sources, resolve},
    query::{Node, encode, encode_unchecked},
    retry,
    schema::Model,
    unit,
};

/// An update of the document with an id, or its insertion if there is none; made by [`Update::or_insert`].
///
/// Exactly one of both happens, whoever else does the same at the same time: what is inserted is the given document, to
/// which the changes of the update are not applied. The answer, an [`Upserted`], says which it was. With a condition
/// ([`Update::when`]) it is an [`Outcome`](super::Outcome) of that: a document that is there and does not meet the condition
/// is neither changed nor inserted.
///
/// It costs one operation if the document is there, and two if it is not; a condition or a bounded array that grows costs
/// another one where the update did not apply, and so does a model with a soft delete, a scope or a shard key.
///
/// It fails with [`Invalid`](ErrorKind::Invalid) if the document has another id or shard key, or the update changes a field inside of an
/// enum's variant (a document of another variant could be neither changed nor inserted),
/// [`DuplicateKey`](ErrorKind::DuplicateKey) if another document has the value of a unique index, or the one with the id is
/// deleted by a mark, of another scope or with another shard key, and otherwise as an update and as an insert.
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
    document: Result<Draft<T>>,
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
    pub(super) fn new(update: Update<T, K>, document: Result<Draft<T>>) -> Self {
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
    fn how(return_new: bool) -> How;

    #[doc(hidden)]
    fn of(done: Done) -> Result<Self::Updated>;
}

impl<T: Document> Answer<T> for Counts {
    type Updated = Updated;
    fn how(_: bool) -> How {
        How::Count
    }

    fn of(done: Done) -> Result<Updated> {
        Ok(done.counted())
    }
}

impl<T: Document> Answer<T> for Documents {
    type Updated = T;
    fn how(return_new: bool) -> How {
        How::FindAndModify {
            projection: None,
            return_new,
        }
    }

    fn of(done: Done) -> Result<T> {
        match done.found() {
            Some(found) => decoded(&found),
            None => Err(conflict::<T>()),
        }
    }
}

impl<T: Document, K: WithId, R: Answer<T>> IntoFuture for Upsert<T, K, R> {
    type Output = Result<K::Returned<Upserted<T, R::Updated>>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let how = R::how(self.return_new);
            let document = self.document.map_err(error::of_model::<T>)?;
            let done = match run::<T, K>(self.update, document, how).await? {
                Upsertion::Updated(done) => Some(Upserted::Updated(R::of(done)?)),
                Upsertion::Inserted(document) => Some(Upserted::Inserted(document)),
                Upsertion::NotApplied => None,
            };
            K::returned(done).map_err(error::of_model::<T>)
        })
    }
}

impl<T: Document, K: WithId> Upsert<T, K> {
    /// As one write of a bulk.
    pub(super) async fn counted(self) -> Result<BulkReport> {
        let document = self.document.map_err(error::of_model::<T>)?;
        let mut report = BulkReport {
            results: vec![BulkResult::Applied],
            ..BulkReport::default()
        };
        match run::<T, K>(self.update, document, How::Count).await? {
            Upsertion::Updated(done) => {
                let done = done.counted();
                (report.matched, report.modified) = (done.matched, done.modified);
            }
            Upsertion::Inserted(_) => report.inserted = 1,
            Upsertion::NotApplied => report.results = vec![BulkResult::NotApplied],
        }
        Ok(report)
    }

    pub(super) fn access(&self) -> &Access {
        &self.update.access
    }
}

enum Upsertion<T> {
    Updated(Done),
    Inserted(T),
    NotApplied,
}

/// How often both are tried before a conflict is reported. A further time is only needed where somebody else has
/// inserted the document, and deleted it again, in between.
const ATTEMPTS: u32 = 100;

/// Each of both is atomic, and neither happens where the other would have been right: an update finds no document that
/// is not there, and an insert is refused where one is. So whichever is done decides.
async fn run<T: Document, K: WithId>(
    update: Update<T, K>,
    document: Draft<T>,
    how: How,
) -> Result<Upsertion<T>> {
    if update.is_of_a_variant() {
        return Err(of_a_variant::<T>());
    }
    refuse_number::<T>()?;
    let (mut documents, _) = resolve(&update.access, vec![document]).await?;
    let Some(mut document) = documents.pop() else {
        return Err(conflict::<T>());
    };
    document.refuse_partial().map_err(error::of_model::<T>)?;
    refuse_another_key(&update.target, &document)?;
    let condition = update.condition()?;
    if T::HAS_HOOKS {
        // A further attempt begins with what was given: hooks change it.
        let raw = encode_unchecked(&document).map_err(error::of_model::<T>)?;
        return with_hooks(update, condition, raw, how).await;
    }
    let raw = as_stored(&mut document)?;
    let target = update.target.clone();
    let update = Updating::Prepared(Box::new((update.prepare()?, target)));
    let done = attempt(&update, &condition, &raw, &how).await?;
    Ok(done.unwrap_or_else(|| {
        document.keep_inside(&raw);
        Upsertion::Inserted(document)
    }))
}

/// An object, so that of a model without hooks nothing of it is compiled.
fn with_hooks<T: Document, K: WithId>(
    update: Update<T, K>,
    condition: Node,
    raw: RawDocumentBuf,
    how: How,
) -> BoxFuture<'static, Result<Upsertion<T>>> {
    Box::pin(async move {
        let access = update.access.clone();
        let work = |access: Access| {
            let (mut update, condition) = (update.clone(), &condition);
            let (raw, how) = (&raw, &how);
            update.access = access;
            async move { attempt(&Updating::Hooked(Box::new(update)), condition, raw, how).await }
        };
        match access.together(unit::ATTEMPTS, work).await? {
            Some(done) => Ok(done),
            None => Err(conflict::<T>()),
        }
    })
}

/// Nobody knows the id of a document that is numbered when it is inserted.
fn refuse_number<T: Document>() -> Result<()> {
    let Some(number) = T::MODEL.number else {
        return Ok(());
    };
    let message = "the framework numbers the document when it is inserted, so it would not be the one that the update is about: \
                   `insert` it, or `update` one that is there";
    let error = Error::new(ErrorKind::Unsupported, message).with_path(number);
    Err(error::of_model::<T>(error))
}

/// The update of an upsert.
enum Updating<T: Document, K> {
    Prepared(Box<(Prepared, Target<T, K>)>),
    /// One whose hooks run at each attempt.
    Hooked(Box<Update<T, K>>),
}

impl<T: Document, K: WithId> Updating<T, K> {
    fn target(&self) -> (&Access, &Target<T, K>) {
        match self {
            Self::Prepared(both) => (&both.0.access, &both.1),
            Self::Hooked(update) => (&update.access, &update.target),
        }
    }

    async fn update(&self, how: &How) -> Result<Option<Done>> {
        let done = match self {
            Self::Prepared(both) => both.0.perform(how).await,
            // What is not there is inserted.
            Self::Hooked(update) => match Update::clone(update).perform(how.clone()).await {
                Err(error) if error.is_not_found() => return Ok(None),
                done => done,
            },
        };
        Ok(Some(done?).filter(Done::is_applied))
    }

    /// Gives the document where hooks may have changed it.
    async fn insert(&self, raw: &RawDocumentBuf) -> Result<Option<T>> {
        let (access, _) = self.target();
        if let Self::Hooked(_) = self {
            let document = Draft::of(decode::encoded(raw)?);
            return Ok(insert(access.clone(), vec![document]).await?.pop());
        }
        let documents = vec![raw.clone()];
        store(access.clone(), &T::MODEL, documents, Sources::default()).await?;
        Ok(None)
    }
}

/// None if the document was inserted as it was given.
async fn attempt<T: Document, K: WithId>(
    update: &Updating<T, K>,
    condition: &Node,
    raw: &RawDocumentBuf,
    how: &How,
) -> Result<Option<Upsertion<T>>> {
    let (access, target) = update.target();
    let mut attempt = 1;
    loop {
        match update.update(how).await {
            Ok(Some(done)) => return Ok(Some(Upsertion::Updated(done))),
            Ok(None) => {}
            // The insert that was refused has ended the transaction, which is to be run again.
            Err(error) if error.kind() == ErrorKind::TransactionOver && attempt > 1 => {
                return Err(conflict::<T>());
            }
            Err(error) => return Err(error),
        }
        if is_there_but_otherwise(access, target, condition).await? {
            return Ok(Some(Upsertion::NotApplied));
        }
        refuse_another_variant(access, target).await?;
        if is_out_of_sight(access, target).await? {
            return Err(out_of_sight::<T>(raw));
        }
        let inserted = update.insert(raw).await;
        match inserted.map_err(Error::without_inserted) {
            Ok(document) => return Ok(document.map(Upsertion::Inserted)),
            Err(error) if !error.is_duplicate_key() => return Err(error),
            // It may be the key of another document, or both documents may have both keys in common.
            Err(error) if error.index() != Some("_id_") => {
                if !is_there(access, &T::MODEL, target.named()?)
                    .await
                    .unwrap_or(false)
                {
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
async fn refuse_another_variant<T: Document, K: WithId>(
    access: &Access,
    target: &Target<T, K>,
) -> Result<()> {
    let Some((field, value)) = T::MODEL.tag else {
        return Ok(());
    };
    let is_another = Node::Test(Path::ROOT.then(field), "$ne", value.into());
    let count = Count {
        collection: T::COLLECTION.into(),
        filter: to_raw(&T::MODEL, &target.named()?.and(is_another))?,
        limit: Some(1),
        max_time: None,
    };
    // The documents of all variants are asked.
    let all = Model {
        tag: None,
        ..T::MODEL
    };
    if access.count(&all, count).await? == 0 {
        return Ok(());
    }
    let message = "the `_id` is that of a document of another variant, which is no document of this model: nothing was written";
    let error = error::of_model::<T>(Error::new(ErrorKind::DuplicateKey, message)).with_path(field);
    let id = match target.id().map(encode) {
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
async fn is_there_but_otherwise<T: Document, K: WithId>(
    access: &Access,
    target: &Target<T, K>,
    condition: &Node,
) -> Result<bool> {
    match condition {
        Node::All => Ok(false),
        condition => {
            let otherwise = Node::Not(Box::new(condition.clone()));
            is_there(access, &T::MODEL, target.named()?.and(otherwise)).await
        }
    }
}

/// Whether a document has the id that no update may find: a deleted one, one of another scope or with another shard key. All
/// would go on for ever.
async fn is_out_of_sight<T: Document, K: WithId>(
    access: &Access,
    target: &Target<T, K>,
) -> Result<bool> {
    let (id, shard) = target.named_by()?;
    let count = Count {
        collection: T::COLLECTION.into(),
        filter: to_raw(&T::MODEL, &id)?,
        limit: Some(1),
        max_time: None,
    };
    access
        .hides(&T::MODEL, count, to_raw(&T::MODEL, &shard)?)
        .await
}

/// The document is the one that the update is for: it has the id, and what is known of the shard key.
fn refuse_another_key<T: Document, K: WithId>(target: &Target<T, K>, document: &T) -> Result<()> {
    let own = document.routed_key();
    let (id, shard) = target.named_by().map_err(error::of_model::<T>)?;
    let to_raw = |node: &Node| to_raw(&T::MODEL, node);
    let error = if to_raw(&id)? != to_raw(&own.by_id()?)? {
        let message = "the document to insert has another `_id` than the update is for";
        Error::new(ErrorKind::Invalid, message).with_path("_id")
    } else if !matches!(shard, Node::All) && to_raw(&shard)? != to_raw(&own.by_shard())? {
        let message = "the document to insert has another shard key than the update is for";
        Error::new(ErrorKind::Invalid, message)
    } else {
        return Ok(());
    };
    Err(error::of_model::<T>(error))
}

/// Of a document that is there, with another variant, neither would be done: and that is all an upsert promises.
fn of_a_variant<T: Document>() -> Error {
    let message = "an upsert changes nothing inside of an enum's variant: a document whose value is of another variant would \
                   be neither changed nor inserted; set the enum as a whole, or update and insert apart";
    error::of_model::<T>(Error::new(ErrorKind::Invalid, message))
}

fn out_of_sight<T: Document>(document: &RawDocument) -> Error {
    let message = "a document has the `_id` that cannot be reached from here, so that none can be updated and none inserted: \
                   it is deleted (`restore` it, or delete it `permanently`), belongs to somebody else, or has another shard key";
    let error = Error::new(ErrorKind::DuplicateKey, message).with_path("_id");
    error::of_model::<T>(match decode::id(document).map(Bson::try_from) {
        Some(Ok(id)) => error.with_id(id),
        _ => error,
    })
}

fn conflict<T: Document>() -> Error {
    let message = "another write inserted the document first, and nothing was written: try again";
    error::of_model::<T>(Error::new(ErrorKind::Conflict, message))
}
