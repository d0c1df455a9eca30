//! Following what happens to the documents of a model.

mod change;
mod token;

use std::{collections::VecDeque, marker::PhantomData, pin::Pin};

use bson::{DateTime, RawDocumentBuf, Timestamp};
use futures_core::Stream;
use futures_util::stream;

pub use change::{Change, Event, UpdatedFields};
pub use token::{IntoResumeToken, ResumeToken};

use crate::{
    Error, ErrorKind, Result, Session,
    access::Access,
    backend::{
        ChangeCursor,
        operation::{self, FullDocument, WatchFrom},
    },
    document::Document,
    error,
    field::{FromPath, Path},
    query::{Filter, IntoFilter, Node, document},
    schema::{Contains, Schema},
    scope::AllScopes,
};

impl<S: Schema> Session<S, AllScopes> {
    /// Follows the changes of the documents of a model whoever they belong to, as [`Database::watch`](crate::Database::watch)
    /// does for a model without a scope.
    ///
    /// There is none for one scope alone: a deletion does not tell whose the document was. With a
    /// [`filter`](Watch::filter) the other changes are those of one.
    ///
    /// # Errors
    ///
    /// Those of [`Watch`], and [`Unsupported`](ErrorKind::Unsupported) in a transaction, which follows nothing.
    pub fn watch<T: Document>(&self) -> Watch<T>
    where
        S: Contains<T, AllScopes>,
    {
        Watch::new(self.access.clone())
    }
}

/// Follows the changes of the documents of a model; made by [`Database::watch`](crate::Database::watch) and, for models with a
/// scope, [`Session::watch`].
///
/// Awaited, it returns [`Changes`]: every change of every process that is committed from then on, once and in the order of the
/// commits. Updates of the library's metadata alone are left out. A standalone MongoDB server has no change streams: the error is of
/// kind [`Unsupported`](ErrorKind::Unsupported).
#[must_use = "nothing is followed until it is awaited"]
pub struct Watch<T: Document> {
    access: Access,
    condition: Node,
    has_documents: bool,
    from: WatchFrom,
    of: PhantomData<fn() -> T>,
}

/// Where a change has its document.
const DOCUMENT: &str = "fullDocument";

impl<T: Document> Watch<T> {
    pub(crate) fn new(access: Access) -> Self {
        Self {
            access,
            condition: Node::All,
            has_documents: false,
            from: WatchFrom::Now,
            of: PhantomData,
        }
    }

    /// Only changes of documents that meet the condition, looked at as [`with_documents`](Self::with_documents) gives them. It is made of the
    /// fields that it is given: another filter is an error of kind [`Unsupported`](ErrorKind::Unsupported).
    ///
    /// A document that has been deleted cannot be looked at: its deletion is told whatever it was like, and so are updates of it
    /// that are read only then.
    pub fn filter<F: IntoFilter<T>>(mut self, condition: impl FnOnce(T::Fields) -> F) -> Self {
        let fields = T::Fields::from_path(Path::ROOT.then(DOCUMENT));
        if let Some(filter) = condition(fields).into_filter() {
            self.condition = self.condition.and(filter.into_node());
            self.has_documents = true;
        }
        self
    }

    /// Gives the document with each update too: as it is when the change is read, which may be later than the update.
    ///
    /// That costs a read for each update.
    pub fn with_documents(mut self) -> Self {
        self.has_documents = true;
        self
    }

    /// Begins behind the change that has this token: what was committed meanwhile is not missed. With `None` it begins now.
    ///
    /// It fails with [`HistoryLost`](ErrorKind::HistoryLost) if the database does not remember what was there; then read
    /// the documents again, and watch from before that.
    pub fn after(mut self, token: impl IntoResumeToken) -> Self {
        if let Some(token) = token.into_resume_token() {
            self.from = WatchFrom::After(token.into_raw());
        }
        self
    }

    /// Begins with the first change of this second or later.
    pub fn since(mut self, time: DateTime) -> Self {
        let seconds = time.timestamp_millis().div_euclid(1_000);
        self.from = WatchFrom::At(Timestamp {
            time: u32::try_from(seconds.max(0)).unwrap_or(u32::MAX),
            increment: 0,
        });
        self
    }

    fn to_operation(&self) -> Result<operation::Watch> {
        if let Some((_, tag)) = T::MODEL.tag {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "a deletion does not tell of which variant the document was, so `{tag}` cannot be watched alone: watch \
                     the enum"
                ),
            ));
        }
        if self.access.unit().is_some() {
            let message = "a transaction follows no changes: watch by the database";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if !is_of_changes(&self.condition) {
            let message = "a filter that was made before is one of documents, and not of what changes tell: make it of the fields that `filter` \
                           gives";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let kinds = bson::rawdoc! { "$in": ["insert", "update", "replace", "delete"] };
        let mut filter = document("operationType", kinds)?;
        let condition = Filter::<T>::from_node(self.condition.clone()).to_raw()?;
        if !condition.is_empty() {
            let gone = bson::rawdoc! { "fullDocument": { "$eq": null } };
            let mut either = bson::RawArrayBuf::new();
            either.push(gone);
            either.push(condition);
            filter.append(bson::raw::cstr!("$or"), either);
        }
        Ok(operation::Watch {
            collection: Some(T::COLLECTION.into()),
            filter,
            from: self.from.clone(),
            full_document: match self.has_documents {
                true => FullDocument::UpdateLookup,
                false => FullDocument::Default,
            },
        })
    }
}

impl<T: Document> IntoFuture for Watch<T> {
    type Output = Result<Changes<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let operation = self.to_operation().map_err(error::of_model::<T>)?;
            let cursor = self.access.backend().watch(operation).await;
            let cursor = cursor.map_err(error::of_model::<T>)?;
            Ok(Changes {
                token: cursor.resume_token(),
                cursor,
                ready: VecDeque::new(),
                of: PhantomData,
            })
        })
    }
}

/// The changes of the documents of a model, one after the other.
#[must_use = "changes are read by `next`"]
pub struct Changes<T: Document> {
    cursor: Box<dyn ChangeCursor>,
    ready: VecDeque<RawDocumentBuf>,
    /// Behind the last change that was given.
    token: RawDocumentBuf,
    of: PhantomData<fn() -> T>,
}

impl<T: Document> Changes<T> {
    /// The next change: it waits until there is one. None if the collection has been dropped.
    ///
    /// A document that does not fit the model is an error in the place of its change, and the next call returns the next change. The same
    /// is true for a change of more than 16 MB on a MongoDB before 6.0.9. Any other error ends the stream: the next call returns `None`.
    /// Watch again [after](Watch::after) the [token](Self::token) then.
    ///
    /// Dropping the wait loses no change.
    pub async fn next(&mut self) -> Option<Result<Change<T>>> {
        loop {
            while self.ready.is_empty() {
                match self.cursor.next_batch().await {
                    Ok(events) if events.is_empty() => return None,
                    Ok(events) => self.ready.extend(events),
                    Err(error) => return Some(Err(error::of_model::<T>(error))),
                }
            }
            let event = self.ready.pop_front()?;
            let token = event.get_document("_id").map_err(change::malformed);
            let change = token.and_then(|token| {
                self.token = token.to_owned();
                Change::read(&event)
            });
            if let Some(change) = change.transpose() {
                return Some(change.map_err(error::of_model::<T>));
            }
        }
    }

    /// Where this is: for [`Watch::after`], in another process too.
    ///
    /// It is behind the last change that was given and, where nothing is waiting to be given, behind what the filter did
    /// not want.
    #[must_use]
    pub fn token(&self) -> ResumeToken {
        ResumeToken::new(match self.ready.is_empty() {
            true => self.cursor.resume_token(),
            false => self.token.clone(),
        })
    }

    /// The changes as a [`Stream`], which ends where [`next`](Self::next) gives none.
    pub fn into_stream(self) -> impl Stream<Item = Result<Change<T>>> + Send {
        stream::unfold(self, |mut changes| async move {
            Some((changes.next().await?, changes))
        })
    }
}

/// Whether a condition is one on the documents of changes, wherever it names a place.
fn is_of_changes(condition: &Node) -> bool {
    let is_inside = |path: &Path| path.to_string().split('.').next() == Some(DOCUMENT);
    match condition {
        Node::All | Node::Expression(_) | Node::Refused(_) => true,
        Node::Test(path, ..) | Node::Variant(path, _) | Node::Element(path, _) => is_inside(path),
        Node::And(all) | Node::Or(all) => all.iter().all(is_of_changes),
        Node::Not(one) => is_of_changes(one),
    }
}
