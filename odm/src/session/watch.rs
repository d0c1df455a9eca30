//! Typed change streams.

mod all;
mod change;
mod events;
mod token;

use std::{marker::PhantomData, pin::Pin};

use bson::DateTime;
use futures_core::Stream;
use futures_util::stream;

pub use all::{AnyChange, AnyChangeStream, WatchAll};
pub use change::{Change, Event, UpdatedFields};
pub use token::{IntoResumeToken, ResumeToken};

use crate::{
    Error, ErrorKind, Result, Session, error,
    language::{
        field::{FromPath, Path},
        query::{Filter, FilterNode, IntoFilter},
    },
    model::document::Document,
    schema::{Contains, Schema},
    session::{access::Access, scope::AllScopes},
};
use events::{Events, WatchOptions};

impl<S: Schema> Session<S, AllScopes> {
    /// Watches the documents of a model in all scopes, as [`Database::watch`](crate::Database::watch) does for a model without a
    /// scope.
    ///
    /// A session of a single scope cannot watch: a delete event does not contain the scope of the document. Use a
    /// [`filter`](Watch::filter) for inserts and updates of a single scope.
    ///
    /// # Errors
    ///
    /// - [`Unsupported`](ErrorKind::Unsupported) in a transaction.
    /// - The errors of [`Watch`].
    pub fn watch<T: Document>(&self) -> Watch<T>
    where
        S: Contains<T, AllScopes>,
    {
        Watch::new(self.access.clone())
    }
}

/// A change stream over the documents of a model. Made by [`Database::watch`](crate::Database::watch) and, for models with a
/// scope, by [`Session::watch`].
///
/// Awaiting returns [`ChangeStream`]: every change that any process commits from then on, once, in the order of the commits.
/// Updates of the library's metadata alone are left out.
///
/// # Errors
///
/// The awaited watch fails with
///
/// - [`Unsupported`](ErrorKind::Unsupported) on a standalone MongoDB server, which has no change streams, in a transaction, and for
///   the model of a single variant of an enum,
/// - [`HistoryLost`](ErrorKind::HistoryLost) if the database has discarded the changes after the token of [`after`](Self::after),
/// - errors of the backend.
#[must_use = "a watch does nothing until awaited"]
pub struct Watch<T: Document> {
    access: Access,
    condition: FilterNode,
    options: WatchOptions,
    of: PhantomData<fn() -> T>,
}

/// The field of a change event with the document.
const FULL_DOCUMENT: &str = "fullDocument";

impl<T: Document> Watch<T> {
    pub(crate) fn new(access: Access) -> Self {
        Self {
            access,
            condition: FilterNode::All,
            options: WatchOptions::default(),
            of: PhantomData,
        }
    }

    /// Restricts the stream to documents that meet the condition. The condition is tested on the documents of
    /// [`with_documents`](Self::with_documents).
    ///
    /// The condition must use the fields that the closure receives. A filter made elsewhere is an error of kind
    /// [`Unsupported`](ErrorKind::Unsupported).
    ///
    /// Deletes cannot be filtered, because a deleted document cannot be read. The same applies to an update that is read after
    /// the document was deleted.
    pub fn filter<F: IntoFilter<T>>(mut self, condition: impl FnOnce(T::Fields) -> F) -> Self {
        let fields = T::Fields::from_path(Path::ROOT.subfield(FULL_DOCUMENT));
        if let Some(filter) = condition(fields).into_filter() {
            self.condition = self.condition.and(filter.into_node());
            self.options.looks_up_documents = true;
        }
        self
    }

    /// Includes the document with each update, as stored when the change is read. A later write may have changed the document
    /// again.
    ///
    /// Each update costs an additional read.
    pub fn with_documents(mut self) -> Self {
        self.options.looks_up_documents = true;
        self
    }

    /// Starts after the change with this token, so that no committed change is missed. With `None`, the stream starts now.
    ///
    /// # Errors
    ///
    /// [`HistoryLost`](ErrorKind::HistoryLost) if the database has discarded the changes after the token. Read the documents
    /// again, and watch from a point before that read.
    pub fn after(mut self, token: impl IntoResumeToken) -> Self {
        self.options.start_after(token);
        self
    }

    /// Starts with the first change in this second or later.
    pub fn since(mut self, time: DateTime) -> Self {
        self.options.start_since(time);
        self
    }

    async fn open(self) -> Result<Events> {
        if !is_on_change_document(&self.condition) {
            let message = "the filter was not made from the fields of the change event: build the filter from the fields that the closure of \
                           `filter` receives";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let condition = Filter::<T>::from_node(self.condition).to_raw()?;
        self.options
            .open(&self.access, Some(T::COLLECTION), &[&T::MODEL], condition)
            .await
    }
}

impl<T: Document> IntoFuture for Watch<T> {
    type Output = Result<ChangeStream<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let events = self.open().await.map_err(error::of_model::<T>)?;
            Ok(ChangeStream {
                events,
                of: PhantomData,
            })
        })
    }
}

/// The changes of the documents of a model, in order.
#[must_use = "a change stream does nothing until `next` is awaited"]
pub struct ChangeStream<T: Document> {
    events: Events,
    of: PhantomData<fn() -> T>,
}

impl<T: Document> ChangeStream<T> {
    /// Waits for the next change. Returns `None` if the collection was dropped.
    ///
    /// # Errors
    ///
    /// A document that does not fit the model is an error in place of its change, and the next call continues. The same applies
    /// to a change of more than 16 MB on a MongoDB server before 6.0.9. Every other error ends the stream: later calls return
    /// `None`. In that case, watch again [after](Watch::after) the last [token](Self::token).
    ///
    /// This method is cancel safe: dropping the future loses no change.
    pub async fn next(&mut self) -> Option<Result<Change<T>>> {
        loop {
            let event = self.events.next().await?;
            let change = event.and_then(|event| Change::from_event(&event));
            if let Some(change) = change.transpose() {
                return Some(change.map_err(error::of_model::<T>));
            }
        }
    }

    /// Returns the current position of the stream, for [`Watch::after`] in this or another process.
    ///
    /// The position is after the last returned change. If no change is waiting to be returned, the position is also after the
    /// changes that the filter has excluded.
    #[must_use]
    pub fn token(&self) -> ResumeToken {
        self.events.token()
    }

    /// Converts the changes into a [`Stream`], which ends when [`next`](Self::next) returns `None`.
    pub fn into_stream(self) -> impl Stream<Item = Result<Change<T>>> + Send {
        stream::unfold(self, |mut changes| async move {
            Some((changes.next().await?, changes))
        })
    }
}

/// Returns whether every path of a condition is in the document of a change event.
fn is_on_change_document(condition: &FilterNode) -> bool {
    let is_inside = |path: &Path| path.to_string().split('.').next() == Some(FULL_DOCUMENT);
    match condition {
        // Rendering returns the error of a condition on related documents.
        FilterNode::All
        | FilterNode::Expression(_)
        | FilterNode::Related(_)
        | FilterNode::Invalid(_) => true,
        FilterNode::Test(path, ..)
        | FilterNode::Variant(path, _)
        | FilterNode::Element(path, _) => is_inside(path),
        FilterNode::And(all) | FilterNode::Or(all) => all.iter().all(is_on_change_document),
        FilterNode::Not(one) => is_on_change_document(one),
    }
}
