//! Upserts: update a document, or insert the document if none exists.

use std::{marker::PhantomData, pin::Pin};

use bson::{Bson, RawDocument, RawDocumentBuf};

use super::{
    bulk::{BulkReport, BulkResult},
    insert::{encode_for_insert, insert_documents, store_documents},
    returning::decode_returned,
    target::{
        AtMostOneTarget, ById, ByUniqueKey, UniqueKeyTarget, UniqueKeyValues, WriteTarget, to_raw,
    },
    update::{
        PreparedUpdate, Update, UpdateForm, UpdateOutput, Updated, document_exists, find_unchanged,
    },
};
use crate::{
    Error, ErrorKind, Result,
    backend::{BoxFuture, operation::CountOperation},
    error,
    language::{
        field::Path,
        query::{Filter, FilterNode, encode_unchecked, encode_value, unique_key_condition},
    },
    model::{
        decode,
        document::{Document, Draft},
    },
    schema::Model,
    session::{access::Access, retry, soft_delete::Visibility},
    write::{SourceCache, resolve_drafts},
};

/// An update of the document with an id or with the values of a unique index, or an insert if no such document exists; made by
/// [`Update::or_insert`] and [`Session::upsert_by`](crate::Session::upsert_by).
///
/// Exactly one of the two happens, even if other writers upsert the same document concurrently. An insert stores the given
/// document without the changes of the update. The result, an [`Upserted`], says which of the two happened. With a condition
/// ([`Update::when`]) the result is an [`Outcome`](super::Outcome): an existing document that does not meet the condition is
/// neither changed nor replaced.
///
/// An upsert costs one operation if the document exists, otherwise two. A model with a soft delete, a scope or a shard key costs
/// an extra operation for the insert. So does a condition, or a growing array with a `max`, if the update did not apply.
///
/// # Errors
///
/// - [`Invalid`](ErrorKind::Invalid) if the document has another id or shard key than the update.
/// - [`Invalid`](ErrorKind::Invalid) if no unique index has exactly the fields of the key, or if the document has no value for a
///   field of the key.
/// - [`Invalid`](ErrorKind::Invalid) if the update changes a field inside an enum variant: a document with a different variant
///   could be neither changed nor inserted.
/// - [`DuplicateKey`](ErrorKind::DuplicateKey) if another document has the same value in a unique index.
/// - [`DuplicateKey`](ErrorKind::DuplicateKey) if the document with the key is soft-deleted, of another scope, or has another
///   shard key.
/// - The errors of an update and of an insert.
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
#[must_use = "an upsert runs when awaited"]
pub struct Upsert<T: Document, K = ById, R = UpsertCounts> {
    update: Update<T, K>,
    document: Result<Draft<T>>,
    /// The fields of the unique key. Empty for an upsert by id.
    unique_key: Vec<Path>,
    return_new: bool,
    marker: PhantomData<fn() -> R>,
}

/// The result of an [`Upsert`].
#[must_use = "an upsert may have updated or inserted the document"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upserted<T, U = Updated> {
    /// No document had the key; the value is the inserted document.
    Inserted(T),
    /// The document existed and was updated.
    Updated(U),
}

impl<T, U> Upserted<T, U> {
    /// Returns whether the document was inserted.
    #[must_use]
    pub fn is_inserted(&self) -> bool {
        matches!(self, Self::Inserted(_))
    }
}

impl<T> Upserted<T, T> {
    /// Returns the document, inserted or updated.
    #[must_use]
    pub fn into_inner(self) -> T {
        match self {
            Self::Inserted(document) | Self::Updated(document) => document,
        }
    }
}

/// Selects an upsert that returns counts.
#[derive(Debug)]
pub struct UpsertCounts;

/// Selects an upsert that returns the document.
#[derive(Debug)]
pub struct UpsertDocument;

impl<T: Document, K: AtMostOneTarget> Upsert<T, K> {
    pub(super) fn new(update: Update<T, K>, document: Result<Draft<T>>) -> Self {
        Self {
            update,
            document,
            unique_key: Vec::new(),
            return_new: true,
            marker: PhantomData,
        }
    }

    /// Returns the document after the upsert.
    pub fn returning_after(self) -> Upsert<T, K, UpsertDocument> {
        self.returning_document(true)
    }

    /// Returns the document before the update, or the inserted document.
    pub fn returning_before(self) -> Upsert<T, K, UpsertDocument> {
        self.returning_document(false)
    }

    fn returning_document(self, return_new: bool) -> Upsert<T, K, UpsertDocument> {
        Upsert {
            update: self.update,
            document: self.document,
            unique_key: self.unique_key,
            return_new,
            marker: PhantomData,
        }
    }
}

impl<T: Document> Upsert<T, ByUniqueKey> {
    pub(crate) fn by_unique_key(
        access: Access,
        unique_key: Vec<Path>,
        document: Result<Draft<T>>,
    ) -> Self {
        let update = Update::by_condition(access, Filter::all());
        Self {
            unique_key,
            ..Self::new(update, document)
        }
    }

    /// Sets the changes of the existing document. Without changes, an existing document stays as it is.
    ///
    /// A condition, [`Update::when`], makes the result an [`Outcome`](super::Outcome).
    pub fn update<K: UniqueKeyTarget>(
        self,
        change: impl FnOnce(Update<T, ByUniqueKey>) -> Update<T, K>,
    ) -> Upsert<T, K> {
        Upsert {
            update: change(self.update),
            document: self.document,
            unique_key: self.unique_key,
            return_new: self.return_new,
            marker: PhantomData,
        }
    }
}

/// The result type of an upsert that updated a document.
pub trait UpsertOutput<T: Document>: Sized + Send + 'static {
    /// The result of an upsert that updated a document: the counts, or the document.
    type Updated: Send;

    #[doc(hidden)]
    fn update_form(return_new: bool) -> UpdateForm;

    #[doc(hidden)]
    fn from_update(output: UpdateOutput) -> Result<Self::Updated>;
}

impl<T: Document> UpsertOutput<T> for UpsertCounts {
    type Updated = Updated;
    fn update_form(_: bool) -> UpdateForm {
        UpdateForm::Count
    }

    fn from_update(output: UpdateOutput) -> Result<Updated> {
        Ok(output.into_counts())
    }
}

impl<T: Document> UpsertOutput<T> for UpsertDocument {
    type Updated = T;
    fn update_form(return_new: bool) -> UpdateForm {
        UpdateForm::FindAndModify {
            projection: None,
            return_new,
        }
    }

    fn from_update(output: UpdateOutput) -> Result<T> {
        match output.into_document() {
            Some(document) => decode_returned(&document),
            None => Err(insert_conflict::<T>()),
        }
    }
}

impl<T: Document, K: AtMostOneTarget, R: UpsertOutput<T>> IntoFuture for Upsert<T, K, R> {
    type Output = Result<K::Returned<Upserted<T, R::Updated>>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let form = R::update_form(self.return_new);
            let document = self.document.map_err(error::of_model::<T>)?;
            let upserted = run_upsert::<T, K>(self.update, document, &self.unique_key, form);
            let output = match upserted.await? {
                UpsertResult::Updated(output) => Some(Upserted::Updated(R::from_update(output)?)),
                UpsertResult::Inserted(document) => Some(Upserted::Inserted(document)),
                UpsertResult::NotApplied => None,
            };
            K::from_found(output).map_err(error::of_model::<T>)
        })
    }
}

impl<T: Document, K: AtMostOneTarget> Upsert<T, K> {
    /// Runs the upsert as one write of a bulk.
    pub(super) async fn into_report(self) -> Result<BulkReport> {
        let document = self.document.map_err(error::of_model::<T>)?;
        let mut report = BulkReport {
            results: vec![BulkResult::Applied],
            ..BulkReport::default()
        };
        let form = UpdateForm::Count;
        match run_upsert::<T, K>(self.update, document, &self.unique_key, form).await? {
            UpsertResult::Updated(output) => {
                let output = output.into_counts();
                (report.matched, report.modified) = (output.matched, output.modified);
            }
            UpsertResult::Inserted(_) => report.inserted = 1,
            UpsertResult::NotApplied => report.results = vec![BulkResult::NotApplied],
        }
        Ok(report)
    }

    pub(super) fn access(&self) -> &Access {
        &self.update.access
    }
}

enum UpsertResult<T> {
    Updated(UpdateOutput),
    Inserted(T),
    NotApplied,
}

/// The maximum number of attempts before a conflict is returned. A further attempt is needed only if another writer inserts and
/// deletes the document between the update and the insert.
const MAX_UPSERT_ATTEMPTS: u32 = 100;

/// The maximum number of attempts of an upsert by a unique key, before the duplicate key is returned.
const MAX_UNIQUE_KEY_ATTEMPTS: u32 = 10;

/// Updates, and inserts if the update found no document. Both operations are atomic and exclude each other: an update finds no
/// missing document, and an insert of an existing document fails. So the operation that succeeds decides.
async fn run_upsert<T: Document, K: AtMostOneTarget>(
    update: Update<T, K>,
    document: Draft<T>,
    unique_key: &[Path],
    form: UpdateForm,
) -> Result<UpsertResult<T>> {
    let access = update.access.clone();
    let result = try_upsert(update, document, unique_key, form).await;
    result.map_err(|error| access.note_conflict(error))
}

async fn try_upsert<T: Document, K: AtMostOneTarget>(
    mut update: Update<T, K>,
    document: Draft<T>,
    unique_key: &[Path],
    form: UpdateForm,
) -> Result<UpsertResult<T>> {
    if update.changes_inside_variant() {
        return Err(inside_variant_error::<T>());
    }
    let has_id = unique_key
        .iter()
        .any(|path| path.dotted().is_ok_and(|name| name == "_id"));
    if unique_key.is_empty() || has_id {
        ensure_id_is_known::<T>()?;
    }
    let (mut documents, _) = resolve_drafts(&update.access, vec![document]).await?;
    let Some(mut document) = documents.pop() else {
        return Err(insert_conflict::<T>());
    };
    document.ensure_complete().map_err(error::of_model::<T>)?;
    if unique_key.is_empty() {
        ensure_same_key(&update.target, &document)?;
    } else {
        let raw = encode_unchecked(&document).map_err(error::of_model::<T>)?;
        let values = unique_key_condition(&T::MODEL, &T::indexes(), unique_key, &raw);
        let values = values.map_err(error::of_model::<T>)?;
        update.target.set_unique_key(UniqueKeyValues {
            values: values.values,
            covers_hidden_documents: values.covers_hidden_documents,
            is_within_scope: values.is_within_scope,
            shard_key: document.routed_key().shard_condition(),
            fields: unique_key.to_vec(),
        });
    }
    let condition = match is_read_only(&update) {
        true => update.target.extra_condition().clone(),
        false => update.required_condition()?,
    };
    if T::HAS_HOOKS {
        // Hooks change the document, so each attempt starts from the original encoding.
        let raw = encode_unchecked(&document).map_err(error::of_model::<T>)?;
        return upsert_with_hooks(update, condition, raw, form).await;
    }
    let raw = match T::MODEL.is_numbered() {
        // The insert assigns the number.
        true => encode_unchecked(&document).map_err(error::of_model::<T>)?,
        false => encode_for_insert(&mut document)?,
    };
    let update = UpdateStep::new(update)?;
    let outcome = update_or_insert(&update, &condition, &raw, &form).await?;
    Ok(outcome.unwrap_or_else(|| {
        document.keep_resident(&raw);
        UpsertResult::Inserted(document)
    }))
}

/// Boxed as a trait object, so that models without hooks do not compile this code.
fn upsert_with_hooks<T: Document, K: AtMostOneTarget>(
    update: Update<T, K>,
    condition: FilterNode,
    raw: RawDocumentBuf,
    form: UpdateForm,
) -> BoxFuture<'static, Result<UpsertResult<T>>> {
    Box::pin(async move {
        let access = update.access.clone();
        let work = |access: Access| {
            let (mut update, condition) = (update.clone(), &condition);
            let (raw, form) = (&raw, &form);
            update.access = access;
            async move { update_or_insert(&UpdateStep::new(update)?, condition, raw, form).await }
        };
        match access.run_transactional(work).await? {
            Some(outcome) => Ok(outcome),
            None => Err(insert_conflict::<T>()),
        }
    })
}

/// Fails for a model with a generated id, or with a sequence number in the id: the id is unknown before the insert.
fn ensure_id_is_known<T: Document>() -> Result<()> {
    if T::GENERATES_ID {
        let message = "the insert generates the `_id` of this model, so an upsert by `_id` cannot insert a document with the `_id` of the \
                       update: use `upsert_by` with a unique index, or remove `id = auto` from the model";
        let error = Error::new(ErrorKind::Unsupported, message).with_path("_id");
        return Err(error::of_model::<T>(error));
    }
    let Some(number) = T::MODEL.numbered_id_part else {
        return Ok(());
    };
    let message = "the `_id` of this model contains a sequence number that is assigned by the insert, so an upsert cannot know the `_id`: \
                   use `insert`, or `update` an existing document";
    let error = Error::new(ErrorKind::Unsupported, message).with_path(number);
    Err(error::of_model::<T>(error))
}

/// The update of an upsert.
enum UpdateStep<T: Document, K> {
    Prepared(Box<(PreparedUpdate, WriteTarget<T, K>)>),
    /// An update that runs its hooks at each attempt.
    Hooked(Box<Update<T, K>>),
    /// An upsert without changes, which finds the existing document.
    Find(Access, Box<WriteTarget<T, K>>),
}

/// Returns whether the upsert only finds an existing document. An update by id without changes is an error, except after a patch.
fn is_read_only<T: Document, K: AtMostOneTarget>(update: &Update<T, K>) -> bool {
    update.is_unchanged() || (update.is_empty() && update.target.id().is_none())
}

impl<T: Document, K: AtMostOneTarget> UpdateStep<T, K> {
    fn new(update: Update<T, K>) -> Result<Self> {
        if is_read_only(&update) {
            return Ok(Self::Find(update.access, Box::new(update.target)));
        }
        if T::HAS_HOOKS {
            return Ok(Self::Hooked(Box::new(update)));
        }
        let target = update.target.clone();
        Ok(Self::Prepared(Box::new((update.into_prepared()?, target))))
    }

    fn access_and_target(&self) -> (&Access, &WriteTarget<T, K>) {
        match self {
            Self::Prepared(pair) => (&pair.0.access, &pair.1),
            Self::Hooked(update) => (&update.access, &update.target),
            Self::Find(access, target) => (access, target),
        }
    }

    async fn try_update(&self, form: &UpdateForm) -> Result<Option<UpdateOutput>> {
        let outcome = match self {
            Self::Prepared(pair) => pair.0.execute_update(form).await,
            // A missing document is inserted next.
            Self::Hooked(update) => match Update::clone(update).run_update(form.clone()).await {
                Err(error) if error.is_not_found() => return Ok(None),
                outcome => outcome,
            },
            Self::Find(access, target) => find_unchanged(access, target, form).await,
        };
        Ok(Some(outcome?).filter(UpdateOutput::is_applied))
    }

    /// Inserts the document. Returns the stored document if the insert may have changed the document.
    async fn try_insert(&self, raw: &RawDocumentBuf) -> Result<Option<T>> {
        let (access, _) = self.access_and_target();
        if T::HAS_HOOKS || T::MODEL.is_numbered() {
            let document = Draft::of(decode::decode_new(raw)?);
            return Ok(insert_documents(access.clone(), vec![document])
                .await?
                .pop());
        }
        let documents = vec![raw.clone()];
        store_documents(access.clone(), &T::MODEL, documents, SourceCache::default()).await?;
        Ok(None)
    }
}

/// Tries the update and the insert until one of the two applies. Returns `None` if the document was inserted unchanged.
async fn update_or_insert<T: Document, K: AtMostOneTarget>(
    update: &UpdateStep<T, K>,
    condition: &FilterNode,
    raw: &RawDocumentBuf,
    form: &UpdateForm,
) -> Result<Option<UpsertResult<T>>> {
    let (access, target) = update.access_and_target();
    let mut attempt = 1;
    loop {
        match update.try_update(form).await {
            Ok(Some(outcome)) => return Ok(Some(UpsertResult::Updated(outcome))),
            Ok(None) => {}
            // The failed insert has ended the transaction. The conflict makes the caller's transaction run again.
            Err(error) if error.kind() == ErrorKind::TransactionOver && attempt > 1 => {
                return Err(insert_conflict::<T>());
            }
            Err(error) => return Err(error),
        }
        if fails_condition(access, target, condition).await? {
            return Ok(Some(UpsertResult::NotApplied));
        }
        ensure_same_variant(access, target).await?;
        if (target.covers_hidden_documents() || attempt > 1) && is_hidden(access, target).await? {
            return Err(hidden_document_error(target, raw));
        }
        let inserted = update.try_insert(raw).await;
        match inserted.map_err(Error::without_inserted) {
            Ok(document) => return Ok(document.map(UpsertResult::Inserted)),
            Err(error) if !error.is_duplicate_key() => return Err(error),
            // The duplicate may belong to another document. If the document with the key exists as well, retry the update.
            Err(error) if target.may_be_duplicate_of_other(&error) => {
                if !document_exists(access, &T::MODEL, target.key_condition()?)
                    .await
                    .unwrap_or(false)
                {
                    return Err(error);
                }
            }
            // A hook or a conversion has changed the key of the inserted document: the update never finds the duplicate.
            Err(error) if target.id().is_none() && attempt >= MAX_UNIQUE_KEY_ATTEMPTS => {
                return Err(error);
            }
            Err(_) if attempt >= MAX_UPSERT_ATTEMPTS => return Err(insert_conflict::<T>()),
            Err(_) => {}
        }
        if attempt > 1 {
            retry::pause_before_retry("the document was inserted and deleted meanwhile", attempt)
                .await;
        }
        attempt += 1;
    }
}

/// Fails if the document with the key has another variant of the model's enum. Such a document could be neither updated nor
/// inserted, and the upsert would retry in vain.
async fn ensure_same_variant<T: Document, K: AtMostOneTarget>(
    access: &Access,
    target: &WriteTarget<T, K>,
) -> Result<()> {
    let Some((field, value)) = T::MODEL.tag else {
        return Ok(());
    };
    let other_variant = FilterNode::Test(Path::ROOT.subfield(field), "$ne", value.into());
    let count = CountOperation {
        collection: T::COLLECTION.into(),
        filter: to_raw(&T::MODEL, &target.key_condition()?.and(other_variant))?,
        limit: Some(1),
        options: Default::default(),
    };
    // Count the documents of all variants.
    let any_variant = Model {
        tag: None,
        ..T::MODEL
    };
    if access.count(&any_variant, count).await? == 0 {
        return Ok(());
    }
    let key = key_name(target);
    let message = format!(
        "the document with this {key} has another variant and does not belong to this model; nothing was written"
    );
    let error = error::of_model::<T>(Error::new(ErrorKind::DuplicateKey, message)).with_path(field);
    let id = match target.id().map(encode_value) {
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

/// Returns whether the document exists but does not meet the condition.
///
/// Without this check, only a failed insert would show that the document exists, and a failed insert would end the transaction.
async fn fails_condition<T: Document, K: AtMostOneTarget>(
    access: &Access,
    target: &WriteTarget<T, K>,
    condition: &FilterNode,
) -> Result<bool> {
    match condition {
        FilterNode::All => Ok(false),
        condition => {
            let negation = FilterNode::Not(Box::new(condition.clone()));
            document_exists(access, &T::MODEL, target.key_condition()?.and(negation)).await
        }
    }
}

/// Returns whether the document with the key is hidden from the update: soft-deleted, of another scope, or with another shard key.
/// Update and insert would both fail at each attempt.
async fn is_hidden<T: Document, K: AtMostOneTarget>(
    access: &Access,
    target: &WriteTarget<T, K>,
) -> Result<bool> {
    let (id, shard) = target.key_and_shard_conditions()?;
    let mut filter = to_raw(&T::MODEL, &id)?;
    if target.is_within_scope() {
        let with_deleted = access.clone().with_visibility(Visibility::All);
        with_deleted.restrict_filter(&T::MODEL, &mut filter)?;
    }
    let count = CountOperation {
        collection: T::COLLECTION.into(),
        filter,
        limit: Some(1),
        options: Default::default(),
    };
    access
        .hides_match(&T::MODEL, count, to_raw(&T::MODEL, &shard)?)
        .await
}

/// Fails if the document to insert has another id or shard key than the update.
fn ensure_same_key<T: Document, K: AtMostOneTarget>(
    target: &WriteTarget<T, K>,
    document: &T,
) -> Result<()> {
    let document_key = document.routed_key();
    let (id, shard) = target
        .key_and_shard_conditions()
        .map_err(error::of_model::<T>)?;
    let to_raw = |node: &FilterNode| to_raw(&T::MODEL, node);
    let error = if to_raw(&id)? != to_raw(&document_key.id_condition()?)? {
        let message =
            "the document to insert has another `_id` than the update: pass the same `_id` to both";
        Error::new(ErrorKind::Invalid, message).with_path("_id")
    } else if !matches!(shard, FilterNode::All)
        && to_raw(&shard)? != to_raw(&document_key.shard_condition())?
    {
        let message = "the document to insert has another shard key than the update: pass the same shard key to both";
        Error::new(ErrorKind::Invalid, message)
    } else {
        return Ok(());
    };
    Err(error::of_model::<T>(error))
}

/// Returns the error for a change inside an enum variant. For a document with a different variant, neither the update nor the
/// insert would apply.
fn inside_variant_error<T: Document>() -> Error {
    let message = "an upsert cannot change a field inside an enum variant: a document with another variant would be neither \
                   updated nor inserted; set the whole enum, or use `update` and `insert` separately";
    error::of_model::<T>(Error::new(ErrorKind::Invalid, message))
}

/// Returns the name of the target's key in messages.
fn key_name<T: Document, K: AtMostOneTarget>(target: &WriteTarget<T, K>) -> &'static str {
    match target.id() {
        Some(_) => "`_id`",
        None => "unique key",
    }
}

fn hidden_document_error<T: Document, K: AtMostOneTarget>(
    target: &WriteTarget<T, K>,
    document: &RawDocument,
) -> Error {
    let key = key_name(target);
    let message = format!(
        "the document with this {key} is hidden from this session, so the upsert can neither update nor insert: \
         the document is soft-deleted (use `restore`, or delete `permanently`), has another scope, or has another shard key"
    );
    let error = error::of_model::<T>(Error::new(ErrorKind::DuplicateKey, message));
    match (target.id(), decode::stored_id(document).map(Bson::try_from)) {
        (Some(_), Some(Ok(id))) => error.with_path("_id").with_id(id),
        (Some(_), _) => error.with_path("_id"),
        (None, _) => error,
    }
}

fn insert_conflict<T: Document>() -> Error {
    let message = "another write inserted the document first; nothing was written: retry";
    error::of_model::<T>(Error::new(ErrorKind::Conflict, message))
}
