//! The MongoDB adapter, on the official driver.
//!
//! Dropping a future of the driver is not safe: a connection or a session can stay in a state that makes a later operation fail.
//! So every call of the driver runs in a separate task ([`task`]). The task runs to its end, even if the waiting future is
//! dropped. A dropped read ends soon on the server ([`cancellation`]).

mod aggregate;
mod bulk_write;
mod cancellation;
mod collection;
mod connect;
mod cursor;
mod definition;
mod delete;
mod distinct;
mod error;
mod explain;
mod find;
mod find_and_modify;
mod find_each;
mod find_several;
mod index;
mod insert;
mod read_options;
mod shard;
mod task;
mod transaction;
mod update;
mod url_options;
mod watch;
mod write_command;

use std::{
    fmt,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use ::mongodb::{Client, ClientSession, Database, bson::Document, options::ClientOptions};
use bson::{Bson, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use cancellation::SessionKiller;
use connect::ConnectedDatabase;
use cursor::{BatchSize, OpenedRead};
use distinct::DistinctValues;

use super::{
    Backend, BackendTransaction, BoxFuture, Capabilities, ChangeCursor, Cursor, Executor,
    operation::{
        AggregateOperation, BulkWrite, BulkWriteResult, CollectionDefinition, CountOperation,
        DeleteOperation, DeleteResult, DistinctOperation, Explain, FindAndModify, FindEach,
        FindOperation, FindSeveral, Index, InsertOperation, ShardKey, UpdateOperation,
        UpdateResult, WatchOperation,
    },
    read_to_end, sharding_unsupported,
};
use crate::{Error, ErrorKind, Result};

/// A database on a MongoDB server, replica set or sharded cluster.
///
/// A write is acknowledged when a majority of the replica set (or the standalone server) has the write in its journal. A
/// transaction reads a snapshot. Reads go to the primary and return data that a majority of the replica set has. Otherwise a copy
/// could come from a change that a new primary does not have. `readPreference`, `readConcernLevel`, `maxStalenessSeconds` and
/// `readPreferenceTags` apply to [`Backend::client_reads`] and to [`watch`](Backend::watch) alone. The book's page on MongoDB
/// has a table of all URL options. After the loss of a connection or of a primary, the driver retries a read or a write of one
/// document once.
///
/// [`Executor::find_each`] needs MongoDB 5.1 or later, everything else needs 5.0. `find_each` runs as one aggregation: a
/// `$lookup` from the keys. The lookup uses an index on the path. An index on the path and the sort fields also serves order and
/// limit.
///
/// Any error in a transaction ends the transaction, because MongoDB itself ends the transaction.
#[derive(Clone)]
pub struct MongoDb {
    database: Database,
    /// The same database with the read options of the URL.
    client_reads: Database,
    /// The same database with a separate connection pool for transactions.
    transactions: Database,
    capabilities: Capabilities,
    session_killer: Arc<SessionKiller>,
    /// Whether change streams can send events in fragments, as far as is known.
    may_split_events: Arc<AtomicBool>,
    /// Whether `close` closes the clients.
    owns_clients: bool,
}

impl MongoDb {
    /// Connects to the server of a `mongodb://` or `mongodb+srv://` URL, and reads the capabilities of the server.
    ///
    /// The call waits 5 seconds for the server, or the time of `serverSelectionTimeoutMS` in the URL.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](ErrorKind::InvalidUrl) if the URL is malformed, names no database, or has an option that is not supported.
    /// [`Connection`](ErrorKind::Connection) if the server cannot be reached.
    pub async fn connect(url: &str) -> Result<Self> {
        Ok(Self::new(connect::connect_to_url(url).await?, true))
    }

    fn new(connected: ConnectedDatabase, owns_clients: bool) -> Self {
        Self {
            database: connected.database,
            client_reads: connected.client_reads,
            transactions: connected.transactions,
            capabilities: connected.capabilities,
            session_killer: Arc::new(connected.session_killer),
            may_split_events: Arc::new(AtomicBool::new(true)),
            owns_clients,
        }
    }

    /// Connects to a server by options of the driver: timeouts, pool sizes, credentials, event handlers and everything else that
    /// `ClientOptions` has. The application depends on the crate `mongodb` of the same version.
    ///
    /// ```no_run
    /// use std::{sync::Arc, time::Duration};
    /// use mongodb::options::ClientOptions;
    /// use odm::backend::MongoDb;
    ///
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "parts")]
    /// # struct Part { #[serde(rename = "_id")] id: i64 }
    /// # #[derive(Schema)] #[schema(models(Part))] struct Shop;
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut options = ClientOptions::parse("mongodb://localhost/?replicaSet=rs0").await?;
    /// options.app_name = Some("shop".into());
    /// options.max_pool_size = Some(50);
    /// options.connect_timeout = Some(Duration::from_secs(3));
    /// let backend = MongoDb::with_options(options, "shop").await?;
    /// let db = odm::Database::<Shop>::options().open_backend(Arc::new(backend)).await?;
    /// # let _ = db;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](ErrorKind::InvalidUrl) for a value that would break a guarantee: the book's page on MongoDB lists these
    /// values. [`Connection`](ErrorKind::Connection) if the server cannot be reached.
    pub async fn with_options(options: ClientOptions, database: &str) -> Result<Self> {
        let connected = connect::connect_with_options(options, database).await?;
        Ok(Self::new(connected, true))
    }

    /// Uses a client of the application.
    ///
    /// Every write waits for a majority and the journal, and internal reads go to the primary, whatever the options of the client
    /// are. The other reads of the application follow the client's read preference and read concern. Transactions share the
    /// connections of the client, so give the client more connections than concurrent writes: writes that wait for a transaction
    /// hold connections, and the commit needs one more. [`with_options`](Self::with_options) has a pool of its own for
    /// transactions.
    ///
    /// The client must not use `loadBalanced`, or `directConnection` to a member of a larger replica set.
    ///
    /// [`Database::close`](crate::Database::close) does nothing: the application closes its client.
    ///
    /// # Errors
    ///
    /// [`Connection`](ErrorKind::Connection) if the server cannot be reached within five seconds.
    pub async fn from_client(client: Client, database: &str) -> Result<Self> {
        let connected = connect::use_client(client, database).await?;
        Ok(Self::new(connected, false))
    }

    /// Returns the client of the driver, for operations that `odm` does not have. Writes through the client bypass all
    /// maintenance.
    pub fn client(&self) -> &Client {
        self.database.client()
    }

    /// Returns the database of the driver. Writes through the database bypass all maintenance.
    pub fn driver_database(&self) -> &Database {
        &self.database
    }

    /// Runs a read in a separate session. The closure receives the database and the session, and returns the session with its
    /// result.
    async fn run_read<T, F>(
        &self,
        max_time: Option<Duration>,
        read: impl FnOnce(Database, ClientSession) -> F + Send + 'static,
    ) -> Result<(T, ClientSession)>
    where
        T: Send + 'static,
        F: Future<Output = (Result<T>, ClientSession)> + Send + 'static,
    {
        let database = self.database.clone();
        let read = move |session| read(database, session);
        cancellation::run_in_session(self.client(), &self.session_killer, max_time, read).await
    }

    /// Runs a read in a separate session, and returns a cursor that continues in this session.
    async fn open_cursor<F>(
        &self,
        max_time: Option<Duration>,
        read: impl FnOnce(Database, ClientSession) -> F + Send + 'static,
    ) -> Result<Box<dyn Cursor>>
    where
        F: Future<Output = (Result<OpenedRead>, ClientSession)> + Send + 'static,
    {
        let (opened, session) = self.run_read(max_time, read).await?;
        Ok(opened.in_own_session(session, &self.session_killer, max_time))
    }

    async fn open_find(&self, find: FindOperation, batches: BatchSize) -> Result<Box<dyn Cursor>> {
        self.open_cursor(
            find.options.max_time,
            move |database, mut session| async move {
                let opened = find::open_find(&database, find, batches, &mut session).await;
                (opened, session)
            },
        )
        .await
    }

    async fn open_aggregate(
        &self,
        aggregate: AggregateOperation,
        batches: BatchSize,
    ) -> Result<Box<dyn Cursor>> {
        self.open_cursor(
            aggregate.options.max_time,
            move |database, mut session| async move {
                let opened =
                    aggregate::open_aggregate(&database, aggregate, batches, &mut session).await;
                (opened, session)
            },
        )
        .await
    }
}

impl fmt::Debug for MongoDb {
    /// Omits the client from the output: its options contain the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoDb")
            .field("database", &self.database.name())
            .field("capabilities", &self.capabilities)
            .finish_non_exhaustive()
    }
}

impl Executor for MongoDb {
    fn find(&self, find: FindOperation) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        Box::pin(self.open_find(find, BatchSize::ServerDefault))
    }

    fn find_all(&self, find: FindOperation) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(
            async move { read_to_end(self.open_find(find, BatchSize::FullReplies).await?).await },
        )
    }

    fn explain(&self, find: FindOperation) -> BoxFuture<'_, Result<Explain>> {
        Box::pin(async move {
            let explained = self.run_read(
                find.options.max_time,
                move |database, mut session| async move {
                    let explained = explain::explain_query(&database, find, &mut session).await;
                    (explained, session)
                },
            );
            Ok(explained.await?.0)
        })
    }

    fn aggregate(&self, aggregate: AggregateOperation) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        Box::pin(self.open_aggregate(aggregate, BatchSize::ServerDefault))
    }

    fn aggregate_all(
        &self,
        aggregate: AggregateOperation,
    ) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move {
            read_to_end(
                self.open_aggregate(aggregate, BatchSize::FullReplies)
                    .await?,
            )
            .await
        })
    }

    fn find_each(&self, find: FindEach) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        Box::pin(self.open_cursor(
            find.options.max_time,
            move |database, mut session| async move {
                let opened = find_each::open_find_each(&database, find, &mut session).await;
                (opened, session)
            },
        ))
    }

    fn find_several(&self, find: FindSeveral) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        Box::pin(
            self.open_cursor(find.max_time(), move |database, mut session| async move {
                let opened = find_several::open_find_several(&database, find, &mut session).await;
                (opened, session)
            }),
        )
    }

    fn count(&self, count: CountOperation) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let counted = self.run_read(
                count.options.max_time,
                move |database, mut session| async move {
                    let counted = find::count_documents(&database, count, &mut session).await;
                    (counted, session)
                },
            );
            Ok(counted.await?.0)
        })
    }

    fn distinct(&self, distinct: DistinctOperation) -> BoxFuture<'_, Result<Vec<RawBson>>> {
        Box::pin(async move {
            let max_time = distinct.options.max_time;
            let request = distinct.clone();
            let values = self.run_read(max_time, move |database, mut session| async move {
                let values = distinct::read_distinct(&database, &request, &mut session).await;
                (values, session)
            });
            if let DistinctValues::All(values) = values.await?.0 {
                return Ok(values);
            }
            let groups = self.open_cursor(max_time, move |database, mut session| async move {
                let groups = distinct::open_groups(&database, &distinct, &mut session).await;
                (groups, session)
            });
            let groups = read_to_end(groups.await?).await?;
            groups.iter().map(distinct::group_value).collect()
        })
    }

    fn insert(&self, insert: InsertOperation) -> BoxFuture<'_, Result<()>> {
        let database = self.database.clone();
        Box::pin(task::run_to_end(async move {
            insert::insert_documents(&database, insert, None).await
        }))
    }

    fn update(&self, update: UpdateOperation) -> BoxFuture<'_, Result<UpdateResult>> {
        let database = self.database.clone();
        Box::pin(task::run_to_end(async move {
            update::update_documents(&database, update, None).await
        }))
    }

    fn delete(&self, delete: DeleteOperation) -> BoxFuture<'_, Result<DeleteResult>> {
        let database = self.database.clone();
        Box::pin(task::run_to_end(async move {
            delete::delete_documents(&database, delete, None).await
        }))
    }

    fn find_and_modify(
        &self,
        modify: FindAndModify,
    ) -> BoxFuture<'_, Result<Option<RawDocumentBuf>>> {
        let database = self.database.clone();
        Box::pin(task::run_to_end(async move {
            find_and_modify::find_and_modify(&database, modify, None).await
        }))
    }

    /// Combines adjacent writes of one kind to one collection into one command of up to 100,000 writes and 16 MiB.
    ///
    /// An unordered bulk write also combines writes that are not adjacent. The driver does not retry a combined command.
    ///
    /// The answer to a command has only the total number of deleted documents. So a delete is sent as a single command if its
    /// outcome depends on its own number. In a transaction a failed write would end the transaction, so there the same applies to
    /// updates.
    fn bulk_write(&self, bulk: BulkWrite) -> BoxFuture<'_, Result<BulkWriteResult>> {
        let database = self.database.clone();
        Box::pin(task::run_to_end(async move {
            Ok(bulk_write::bulk_write(&database, bulk, None).await)
        }))
    }
}

impl Backend for MongoDb {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn system_name(&self) -> &'static str {
        "mongodb"
    }

    fn client_reads(&self) -> Option<Arc<dyn Executor>> {
        Some(Arc::new(Self {
            database: self.client_reads.clone(),
            ..self.clone()
        }))
    }

    fn list_collections(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        let database = self.database.clone();
        Box::pin(task::run_to_end(async move {
            collection::list_collections(&database).await
        }))
    }

    fn create_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        let (database, name) = (self.database.clone(), name.to_owned());
        Box::pin(task::run_to_end(async move {
            collection::create_collection(&database, &name).await
        }))
    }

    fn drop_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        let (database, name) = (self.database.clone(), name.to_owned());
        Box::pin(task::run_to_end(async move {
            collection::drop_collection(&database, &name).await
        }))
    }

    fn list_indexes<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Vec<Index>>> {
        let (database, collection) = (self.database.clone(), collection.to_owned());
        Box::pin(task::run_to_end(async move {
            index::list_indexes(&database, &collection).await
        }))
    }

    fn create_indexes<'a>(
        &'a self,
        collection: &'a str,
        indexes: Vec<Index>,
    ) -> BoxFuture<'a, Result<()>> {
        let (database, collection) = (self.database.clone(), collection.to_owned());
        Box::pin(task::run_to_end(async move {
            index::create_indexes(&database, &collection, indexes).await
        }))
    }

    /// Needs MongoDB 5.1 to add an expiry time to an index without one.
    fn set_expiry<'a>(
        &'a self,
        collection: &'a str,
        index: &'a str,
        after: Duration,
    ) -> BoxFuture<'a, Result<()>> {
        let (database, collection, index) = (
            self.database.clone(),
            collection.to_owned(),
            index.to_owned(),
        );
        Box::pin(task::run_to_end(async move {
            index::set_expiry(&database, &collection, &index, after).await
        }))
    }

    fn drop_index<'a>(&'a self, collection: &'a str, name: &'a str) -> BoxFuture<'a, Result<()>> {
        let (database, collection, name) = (
            self.database.clone(),
            collection.to_owned(),
            name.to_owned(),
        );
        Box::pin(task::run_to_end(async move {
            index::drop_index(&database, &collection, &name).await
        }))
    }

    /// Reads the cluster's configuration, so the user of the URL needs permission to read `config.collections`.
    fn shard_key_of<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Option<ShardKey>>> {
        let (database, collection) = (self.database.clone(), collection.to_owned());
        let sharding = self.capabilities.sharding;
        Box::pin(async move {
            match sharding {
                false => Err(sharding_unsupported(&collection)),
                true => {
                    task::run_to_end(
                        async move { shard::shard_key_of(&database, &collection).await },
                    )
                    .await
                }
            }
        })
    }

    /// Before MongoDB 6.0, sharding has to be enabled for the database first: `sh.enableSharding("shop")`.
    fn shard_collection<'a>(
        &'a self,
        collection: &'a str,
        key: ShardKey,
    ) -> BoxFuture<'a, Result<()>> {
        let (database, collection) = (self.database.clone(), collection.to_owned());
        let sharding = self.capabilities.sharding;
        Box::pin(async move {
            match sharding {
                false => Err(sharding_unsupported(&collection)),
                true => {
                    let shard =
                        async move { shard::shard_collection(&database, &collection, key).await };
                    task::run_to_end(shard).await
                }
            }
        })
    }

    fn list_definitions(&self) -> BoxFuture<'_, Result<Vec<CollectionDefinition>>> {
        let database = self.database.clone();
        Box::pin(task::run_to_end(async move {
            definition::list(&database).await
        }))
    }

    fn ensure_definable(&self, definition: &CollectionDefinition) -> Result<()> {
        definition::ensure_definable(definition)
    }

    fn create_defined(&self, definition: CollectionDefinition) -> BoxFuture<'_, Result<()>> {
        let database = self.database.clone();
        Box::pin(task::run_to_end(async move {
            definition::create(&database, definition).await
        }))
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        let clients = [self.client().clone(), self.transactions.client().clone()];
        let owned = clients.into_iter().filter(|_| self.owns_clients);
        let owned: Vec<_> = owned.collect();
        let killer = Arc::clone(&self.session_killer);
        Box::pin(task::run_to_end(async move {
            // Shut down at once instead of waiting for open cursors and sessions, which an application may keep for a long time.
            for client in owned {
                client.shutdown().immediate(true).await;
            }
            killer.close_connections().await;
            Ok(())
        }))
    }

    fn begin(&self) -> BoxFuture<'_, Result<Arc<dyn BackendTransaction>>> {
        Box::pin(async move {
            if !self.capabilities.transactions {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "a standalone MongoDB server has no transactions: run the server as a replica set, which can have a single \
                     member",
                ));
            }
            let (database, killer) = (self.transactions.clone(), Arc::clone(&self.session_killer));
            task::run_to_end(async move { transaction::begin_transaction(database, killer).await })
                .await
        })
    }

    fn watch(&self, watch: WatchOperation) -> BoxFuture<'_, Result<Box<dyn ChangeCursor>>> {
        Box::pin(async move {
            if !self.capabilities.change_streams {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "a standalone MongoDB server has no change streams: run the server as a replica set, which can have a single \
                     member",
                ));
            }
            let source = watch::WatchSource {
                database: self.database.clone(),
                reads: self.client_reads.selection_criteria().cloned(),
                may_split_events: Arc::clone(&self.may_split_events),
            };
            task::run_to_end(watch::open_watch(source, watch)).await
        })
    }
}

/// Converts a filter or another small document to the driver's type.
///
/// The server accepts a repeated field, but the driver's document type keeps only one of the repetitions. To avoid a silently
/// lost condition, this function returns an error for a document with a repeated field.
fn to_driver_document(document: &RawDocument) -> Result<Document> {
    let decoded = Document::try_from(document).map_err(crate::error::from_bson)?;
    if !keeps_every_field(&decoded, document) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "MongoDB's driver cannot send a document that contains a field or an operator twice: combine the conditions with \
             `$and`",
        ));
    }
    Ok(decoded)
}

/// Whether the converted document has every field of the original, at every depth.
fn keeps_every_field(decoded: &Document, document: &RawDocument) -> bool {
    let mut fields = 0;
    let values = document.iter().flatten().inspect(|_| fields += 1);
    let mut values = values.map(|(name, value)| (decoded.get(name.as_str()), value));
    let keeps_all = values.all(|(decoded, value)| {
        decoded.is_some_and(|decoded| keeps_every_field_of_value(decoded, value))
    });
    keeps_all && fields == decoded.len()
}

fn keeps_every_field_of_value(decoded: &Bson, value: RawBsonRef<'_>) -> bool {
    match (decoded, value) {
        (Bson::Document(decoded), RawBsonRef::Document(document)) => {
            keeps_every_field(decoded, document)
        }
        (Bson::JavaScriptCodeWithScope(decoded), RawBsonRef::JavaScriptCodeWithScope(code)) => {
            keeps_every_field(&decoded.scope, code.scope)
        }
        (Bson::Array(decoded), RawBsonRef::Array(array)) => {
            // Skip the comparison for arrays of scalars, such as a long list of ids.
            let has_fields = |value: &Bson| {
                matches!(
                    value,
                    Bson::Document(_) | Bson::Array(_) | Bson::JavaScriptCodeWithScope(_)
                )
            };
            let mut elements = decoded.iter().zip(array.into_iter().flatten());
            !decoded.iter().any(has_fields)
                || elements.all(|(decoded, value)| keeps_every_field_of_value(decoded, value))
        }
        _ => true,
    }
}

/// Converts a limit to MongoDB's type. For MongoDB 0 means "no limit", so the caller has to handle a limit of 0 first.
fn to_driver_limit(limit: u64) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Converts a time limit to whole milliseconds. For MongoDB 0 means "no limit", so the result is at least 1 ms.
fn to_driver_max_time(max_time: Duration) -> Duration {
    let milliseconds = max_time.as_nanos().div_ceil(1_000_000);
    let milliseconds = u64::try_from(milliseconds).unwrap_or(u64::MAX);
    Duration::from_millis(milliseconds.clamp(1, i32::MAX.unsigned_abs().into()))
}

/// The transaction session of a write, if any.
type WriteSession<'a> = Option<&'a mut ClientSession>;

#[cfg(test)]
mod tests {
    use bson::{RawArrayBuf, doc, rawdoc};

    use super::*;

    #[test]
    fn no_condition_is_lost_at_any_depth() {
        let mut duplicate = rawdoc! { "$gt": 1 };
        duplicate.append(bson::raw::cstr!("$gt"), 2);
        let mut two_types = rawdoc! { "a": { "$gt": 1 } };
        two_types.append(bson::raw::cstr!("a"), 2);
        let mut list = RawArrayBuf::new();
        list.push(rawdoc! { "a": duplicate.clone() });
        for document in [
            duplicate.clone(),
            two_types,
            rawdoc! { "a": duplicate },
            rawdoc! { "$or": list },
        ] {
            let error = to_driver_document(&document).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        }
        let all = doc! { "a": { "$in": [1, "b", null, ["c", { "d": 1 }]] }, "$or": [{ "a": 1 }, { "a": 1 }] };
        assert_eq!(
            to_driver_document(&RawDocumentBuf::try_from(&all).unwrap()).unwrap(),
            all
        );
    }
}
