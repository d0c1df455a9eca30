//! A change stream over several models.

use std::{marker::PhantomData, pin::Pin};

use bson::{Bson, DateTime, RawBson, RawDocument, RawDocumentBuf};
use futures_core::Stream;
use futures_util::stream;

use super::{
    Change, IntoResumeToken, ResumeToken,
    change::{self, ChangedPaths},
    events::{Events, WatchOptions, ensure_whole},
};
use crate::{
    Error, ErrorKind, Result, Session, error,
    model::{decode, document::Document},
    schema::{Contains, Model, Schema},
    session::{
        access::Access,
        scope::{AllScopes, Unscoped},
    },
};

impl<S: Schema> Session<S, AllScopes> {
    /// Watches the documents of all models in all scopes, as [`Database::watch_all`](crate::Database::watch_all) does for the
    /// models without a scope.
    ///
    /// # Errors
    ///
    /// - [`Unsupported`](ErrorKind::Unsupported) in a transaction.
    /// - The errors of [`WatchAll`].
    pub fn watch_all(&self) -> WatchAll<S, AllScopes> {
        WatchAll::new(self.access.clone(), S::MODELS.to_vec())
    }
}

/// A change stream over several models, with one token. Made by [`Database::watch_all`](crate::Database::watch_all) and, with the
/// models that have a scope, by [`Session::watch_all`].
///
/// Awaiting returns [`AnyChangeStream`]: every change that any process commits from then on, once, in the order of the commits.
/// Updates of the library's metadata alone are left out, and so are the documents that the library stores for itself.
///
/// # Errors
///
/// The awaited watch fails with
///
/// - [`Unsupported`](ErrorKind::Unsupported) on a standalone MongoDB server, which has no change streams, in a transaction,
///   and for the model of a single variant of an enum,
/// - [`HistoryLost`](ErrorKind::HistoryLost) if the database has discarded the changes after the token of
///   [`after`](Self::after),
/// - errors of the backend.
#[must_use = "a watch does nothing until awaited"]
pub struct WatchAll<S, C = Unscoped> {
    access: Access,
    /// The models to watch by default.
    all: Vec<&'static Model>,
    /// The models that were named.
    named: Vec<&'static Model>,
    options: WatchOptions,
    of: PhantomData<fn() -> (S, C)>,
}

impl<S: Schema> WatchAll<S> {
    pub(crate) fn of_unscoped(access: Access) -> Self {
        let models = S::MODELS.iter().copied();
        let unscoped = models.filter(|model| model.scope.is_none());
        Self::new(access, unscoped.collect())
    }
}

impl<S: Schema, C> WatchAll<S, C> {
    fn new(access: Access, all: Vec<&'static Model>) -> Self {
        Self {
            access,
            all,
            named: Vec::new(),
            options: WatchOptions::default(),
            of: PhantomData,
        }
    }

    /// Restricts the stream to a model. A further call adds a further model.
    pub fn of<T: Document>(mut self) -> Self
    where
        S: Contains<T, C>,
    {
        self.named.push(&T::MODEL);
        self
    }

    /// Includes the document with each update, as [`Watch::with_documents`](super::Watch::with_documents) does.
    ///
    /// Each update costs an additional read.
    pub fn with_documents(mut self) -> Self {
        self.options.looks_up_documents = true;
        self
    }

    /// Starts after the change with this token, so that no committed change is missed. With `None`, the stream starts now. The
    /// token comes from a `watch_all` of the same database, and the model of its change is watched: MongoDB does not find other
    /// tokens.
    ///
    /// # Errors
    ///
    /// [`HistoryLost`](ErrorKind::HistoryLost) if the database has discarded the changes after the token, or does not find the
    /// token. Read the documents again, and watch from a point before that read.
    pub fn after(mut self, token: impl IntoResumeToken) -> Self {
        self.options.start_after(token);
        self
    }

    /// Starts with the first change in this second or later.
    pub fn since(mut self, time: DateTime) -> Self {
        self.options.start_since(time);
        self
    }
}

impl<S: Schema, C: 'static> IntoFuture for WatchAll<S, C> {
    type Output = Result<AnyChangeStream<S, C>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let models = match self.named.is_empty() {
                true => self.all,
                false => self.named,
            };
            if models.is_empty() {
                let message =
                    "every model of the schema has a scope: use `db.all_scopes().watch_all()`";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            let condition = RawDocumentBuf::new();
            let events = self.options.open(&self.access, None, &models, condition);
            Ok(AnyChangeStream {
                events: events.await?,
                models,
                of: PhantomData,
            })
        })
    }
}

/// The changes of the documents of several models, in order.
#[must_use = "a change stream does nothing until `next` is awaited"]
pub struct AnyChangeStream<S, C = Unscoped> {
    events: Events,
    models: Vec<&'static Model>,
    of: PhantomData<fn() -> (S, C)>,
}

impl<S: Schema, C: 'static> AnyChangeStream<S, C> {
    /// Waits for the next change. Returns `None` if the database was dropped.
    ///
    /// # Errors
    ///
    /// A change of more than 16 MB on a MongoDB server before 6.0.9 is an error in place of the change, and the next call
    /// continues. Every other error ends the stream: later calls return `None`. In that case, watch again
    /// [after](WatchAll::after) the last [token](Self::token).
    ///
    /// This method is cancel safe: dropping the future loses no change.
    pub async fn next(&mut self) -> Option<Result<AnyChange<S, C>>> {
        loop {
            let event = self.events.next().await?;
            let change = event.and_then(|event| self.to_change(event));
            if let Some(change) = change.transpose() {
                return Some(change);
            }
        }
    }

    /// Returns the current position of the stream, for [`WatchAll::after`] in this or another process.
    ///
    /// The position is after the last returned change. If no change is waiting to be returned, the position is also after the
    /// changes of other collections.
    #[must_use]
    pub fn token(&self) -> ResumeToken {
        self.events.token()
    }

    /// Converts the changes into a [`Stream`], which ends when [`next`](Self::next) returns `None`.
    pub fn into_stream(self) -> impl Stream<Item = Result<AnyChange<S, C>>> + Send {
        stream::unfold(self, |mut changes| async move {
            Some((changes.next().await?, changes))
        })
    }

    /// Parses an event. Returns `None` if the event changed the library's metadata alone.
    fn to_change(&self, event: RawDocumentBuf) -> Result<Option<AnyChange<S, C>>> {
        let name = field(&event, "ns")?.get_str("coll");
        let name = name.map_err(change::malformed_event)?;
        let mut models = self.models.iter().filter(|model| model.collection == name);
        let Some(collection) = models.clone().next().map(|model| model.collection) else {
            return Ok(None);
        };
        if matches!(event.get_str("operationType"), Ok("update")) {
            let paths = ChangedPaths::from_description(field(&event, "updateDescription")?)?;
            if models.all(|model| paths.is_metadata(model)) {
                return Ok(None);
            }
        }
        let id = decode::stored_id(field(&event, "documentKey")?).map(RawBson::from);
        let id = id.ok_or_else(change::missing_id)?;
        Ok(Some(AnyChange {
            collection,
            id: Bson::try_from(id).map_err(error::from_bson)?,
            time: change::time_of(&event)?,
            token: ResumeToken::new(field(&event, "_id")?.to_owned()),
            event,
            of: PhantomData,
        }))
    }
}

fn field<'e>(event: &'e RawDocument, name: &str) -> Result<&'e RawDocument> {
    event.get_document(name).map_err(change::malformed_event)
}

/// A change of one document of any model. [`of`](Self::of) returns the typed change.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AnyChange<S, C = Unscoped> {
    /// The collection of the document.
    pub collection: &'static str,
    /// The `_id` of the document.
    pub id: Bson,
    /// The time of the commit, by the clock of the database.
    pub time: DateTime,
    /// The position after this change, for [`WatchAll::after`].
    pub token: ResumeToken,
    event: RawDocumentBuf,
    of: PhantomData<fn() -> (S, C)>,
}

impl<S: Schema, C> AnyChange<S, C> {
    /// Returns the change of a document of the model `T`. Returns `None` if the document is in the collection of another model.
    ///
    /// # Errors
    ///
    /// - [`Decode`](ErrorKind::Decode) if the document does not fit the model.
    /// - [`Unsupported`](ErrorKind::Unsupported) for the model of a single variant of an enum.
    pub fn of<T: Document>(&self) -> Result<Option<Change<T>>>
    where
        S: Contains<T, C>,
    {
        ensure_whole(&T::MODEL).map_err(error::of_model::<T>)?;
        if self.collection != T::COLLECTION {
            return Ok(None);
        }
        Change::from_event(&self.event).map_err(error::of_model::<T>)
    }
}
