//! Options of a database.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use super::Database;
use crate::{
    Error, ErrorKind, Result,
    backend::{self, Backend, Observed},
    pending::{
        background::DEFAULT_FAN_OUTS,
        lease::{DEFAULT_LEASE_DURATION, Lease},
    },
    schema::{Schema, SyncIndexes},
    session::{Session, access::Access},
    write::WriterState,
};

/// The default of [`DatabaseOptions::slow_operations`].
const DEFAULT_SLOW_OPERATION: Duration = Duration::from_millis(100);

/// The options of a database: [`Database::options`] returns the defaults.
///
/// ```
/// # use odm::prelude::*;
/// use odm::IndexCheck;
/// use std::time::Duration;
///
/// # #[derive(Debug, Serialize, Deserialize, Document)]
/// # #[document(collection = "parts")]
/// # struct Part { #[serde(rename = "_id")] id: i64, #[index] name: String }
/// # #[derive(Schema)] #[schema(models(Part))] struct Shop;
/// # type Db = odm::Database<Shop>;
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// let options = Db::options()
///     .check_indexes(IndexCheck::Fail)
///     .slow_operations(Duration::from_millis(50));
/// let error = options.open("memory:").await.unwrap_err();
/// assert_eq!(error.kind(), odm::ErrorKind::MissingIndex);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
#[must_use = "options have an effect when a database is opened with them"]
pub struct DatabaseOptions<S> {
    index_check: IndexCheck,
    slow_operations: Duration,
    background_fan_outs: usize,
    lease: Lease,
    panics_on_n_plus_one: bool,
    schema: PhantomData<fn() -> S>,
}

/// The comparison of declared indexes with the database at [`open`](DatabaseOptions::open).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexCheck {
    /// A missing index of an existing collection is a warning in the log, target `odm::indexes`. An insert into a model whose
    /// unique index is missing is an error of kind [`MissingIndex`](ErrorKind::MissingIndex).
    #[default]
    Warn,
    /// A missing index is an error of kind [`MissingIndex`](ErrorKind::MissingIndex). For programs whose indexes a deployment
    /// creates.
    Fail,
    /// No comparison: no request at `open`, and inserts without the unique index.
    Off,
}

impl<S: Schema> DatabaseOptions<S> {
    pub(super) fn new() -> Self {
        Self {
            index_check: IndexCheck::default(),
            slow_operations: DEFAULT_SLOW_OPERATION,
            background_fan_outs: DEFAULT_FAN_OUTS,
            lease: Lease::new(DEFAULT_LEASE_DURATION),
            panics_on_n_plus_one: false,
            schema: PhantomData,
        }
    }

    /// Sets the comparison of declared indexes with the database. The default is [`IndexCheck::Warn`].
    pub fn check_indexes(mut self, check: IndexCheck) -> Self {
        self.index_check = check;
        self
    }

    /// Sets the duration from which a backend operation is logged as slow: a warning with the target `odm::operation`. The
    /// default is 100 milliseconds. `Duration::MAX` logs no slow operations.
    pub fn slow_operations(mut self, at_least: Duration) -> Self {
        self.slow_operations = at_least;
        self
    }

    /// Sets the number of background fan-outs that run at once, by this process for this database. Further fan-outs wait for their
    /// turn. The default is 4. 0 counts as 1.
    ///
    /// A fan-out writes the changed values of a source into the copies. More fan-outs at once are done earlier if the database has
    /// free capacity, and slow other writes down.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "parts")]
    /// # struct Part { #[serde(rename = "_id")] id: i64, name: String }
    /// # #[derive(Schema)] #[schema(models(Part))] struct Shop;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// let db = odm::Database::<Shop>::options().background_fan_outs(1).open("memory:").await?;
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    pub fn background_fan_outs(mut self, at_once: usize) -> Self {
        self.background_fan_outs = at_once.max(1);
        self
    }

    /// Sets the lease on the pending work that this process records. The default is 5 seconds. A duration below 1 second counts as
    /// 1 second, and a duration above 1 day as 1 day.
    ///
    /// A write records follow-up work in a document, with the end of the lease. The process renews the lease of long work after a
    /// quarter of the time. Other processes leave the work alone until the lease ends, and then take over: the process may have
    /// ended. With a short lease, work continues sooner after a crash. A long lease suits processes that may pause for seconds, and
    /// machines with different clocks. The stored end of the lease counts, so processes can have different leases.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "parts")]
    /// # struct Part { #[serde(rename = "_id")] id: i64, name: String }
    /// # #[derive(Schema)] #[schema(models(Part))] struct Shop;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// let options = odm::Database::<Shop>::options().pending_lease(Duration::from_secs(30));
    /// let db = options.open("memory:").await?;
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    pub fn pending_lease(mut self, duration: Duration) -> Self {
        self.lease = Lease::new(duration);
        self
    }

    /// Panics at an N+1 query, for tests.
    #[cfg(feature = "testing")]
    pub(crate) fn panic_on_n_plus_one(mut self, panics: bool) -> Self {
        self.panics_on_n_plus_one = panics;
        self
    }

    /// Opens the database of a URL, as [`Database::open`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`Database::open`]. [`MissingIndex`](ErrorKind::MissingIndex) with [`IndexCheck::Fail`].
    pub async fn open(self, url: impl AsRef<str>) -> Result<Database<S>> {
        let backend = backend::open(url.as_ref()).await?;
        self.open_backend(backend).await
    }

    /// Opens a database on a backend, with the same comparison of indexes as [`open`](Self::open).
    ///
    /// # Errors
    ///
    /// [`MissingIndex`](ErrorKind::MissingIndex) with [`IndexCheck::Fail`], and errors of the backend.
    pub async fn open_backend(self, backend: Arc<dyn Backend>) -> Result<Database<S>> {
        let index_check = self.index_check;
        let database = self.with_backend(backend);
        check_indexes(&database, index_check).await?;
        // A failure here is no failure of `open`: the user may lack the right to read this collection alone.
        for backfill in database.backfills().await.unwrap_or_default() {
            tracing::warn!(target: "odm", model = backfill.model, "{backfill}");
        }
        Ok(database)
    }

    /// Creates a database on a backend, without any request.
    pub(crate) fn with_backend(self, backend: Arc<dyn Backend>) -> Database<S> {
        let observed = Arc::new(Observed::new(backend.clone(), self.slow_operations));
        let state = WriterState::new(self.lease, self.background_fan_outs);
        let access = Access::of_database::<S>(observed, state);
        let access = match self.panics_on_n_plus_one {
            true => access.panicking_on_n_plus_one(),
            false => access,
        };
        Database {
            session: Session::new(access),
            backend,
        }
    }
}

/// Compares the declared indexes with the indexes of the database.
async fn check_indexes<S: Schema>(database: &Database<S>, check: IndexCheck) -> Result<()> {
    if check == IndexCheck::Off {
        return Ok(());
    }
    let access = database.session.access();
    let declared = SyncIndexes::new::<S>(access.backend());
    declared.warn_of_scopes_without_index();
    let missing = declared.find_missing();
    let missing = match (missing.await, check) {
        (Ok(missing), _) => missing,
        (Err(error), IndexCheck::Fail) => return Err(error),
        // The user may lack the right to list indexes.
        (Err(error), _) => {
            tracing::debug!(target: "odm::indexes", %error, "cannot compare the indexes");
            return Ok(());
        }
    };
    if check == IndexCheck::Fail && !missing.is_empty() {
        let message = format!(
            "the database lacks declared indexes; run `db.sync_indexes().await`:\n{missing}"
        );
        return Err(Error::new(ErrorKind::MissingIndex, message));
    }
    missing.warn_for_existing_collections();
    access.shared_state().missing_unique_indexes().set(missing);
    Ok(())
}

impl<S> Clone for DatabaseOptions<S> {
    fn clone(&self) -> Self {
        Self {
            schema: PhantomData,
            ..*self
        }
    }
}

impl<S> fmt::Debug for DatabaseOptions<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseOptions")
            .field("index_check", &self.index_check)
            .field("slow_operations", &self.slow_operations)
            .field("background_fan_outs", &self.background_fan_outs)
            .finish_non_exhaustive()
    }
}
