//! MongoDB, through its official driver.
//!
//! The driver's futures are not safe to drop: one that is dropped half-way can leave a connection or a session in a
//! state that a later operation trips over. So every call of the driver runs in a task of its own ([`task`]), which goes
//! on to its end whatever happens to the future that waits for it. A dropped read ends soon on the server
//! ([`read`]).

mod aggregate;
mod bulk_write;
mod collection;
mod connect;
mod cursor;
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
mod read;
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

use ::mongodb::{Client, ClientSession, Database, bson::Document};
use bson::{Bson, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::operation::{
    Aggregate, BulkWrite, BulkWritten, Count, Delete, Deleted, Distinct, Explain, Find,
    FindAndModify, FindEach, FindSeveral, Index, Insert, ShardKey, Update, Updated, Watch,
};
use super::{
    Backend, BoxFuture, Capabilities, ChangeCursor, Cursor, Executor, Transaction, drain,
    no_cluster,
};
use crate::{Error, ErrorKind, Result};
use cursor::{Batches, Opened};
use distinct::Values;
use read::Killer;

/// A database on a MongoDB server, replica set or sharded cluster.
///
/// Writes are acknowledged when a majority of the replica set (or the one server that there is) has them in its journal; a
/// transaction reads a snapshot. Reads come from the primary, with data that a majority of the replica set has: a copy must not come
/// from a change that a new primary does not have. `readPreference`, `readConcernLevel`, `maxStalenessSeconds` and `readPreferenceTags`
/// apply to [`Backend::client_reads`] and to [`watch`](Backend::watch) alone. The guide's page on MongoDB has a table of all options of
/// the URL. The driver retries a read, or a write of one document, once after the loss of a connection or of a primary.
///
/// [`Executor::find_each`] needs MongoDB 5.1 or later, everything else 5.0. It runs as one aggregation, a `$lookup` from
/// the keys, which uses an index on the path, and one on the path and the sort's fields also for order and limit.
///
/// Any error in a transaction ends the transaction, because MongoDB itself ends it.
#[derive(Clone)]
pub struct MongoDb {
    database: Database,
    /// The same database with the read options of the URL.
    client_reads: Database,
    /// The same database with connections for transactions alone.
    transactions: Database,
    capabilities: Capabilities,
    killer: Arc<Killer>,
    /// Whether change streams can send events in fragments, as far as is known.
    has_split: Arc<AtomicBool>,
}

impl MongoDb {
    /// Connects to the server that a `mongodb://` or `mongodb+srv://` URL names, and asks it what it can do.
    ///
    /// It waits 5 seconds for the server, or as long as `serverSelectionTimeoutMS` in the URL says.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](ErrorKind::InvalidUrl) if the URL is malformed, names no database, or has an option that is not supported;
    /// [`Connection`](ErrorKind::Connection) if the server cannot be reached.
    pub async fn connect(url: &str) -> Result<Self> {
        let connected = connect::connect(url).await?;
        Ok(Self {
            database: connected.database,
            client_reads: connected.client_reads,
            transactions: connected.transactions,
            capabilities: connected.capabilities,
            killer: Arc::new(Killer::new(connected.options)),
            has_split: Arc::new(AtomicBool::new(true)),
        })
    }

    fn client(&self) -> &Client {
        self.database.client()
    }

    /// Runs a read in a session of its own: a closure is given the database and the session, and gives the latter back.
    async fn read<T, F>(
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
        read::read(self.client(), &self.killer, max_time, read).await
    }

    /// The cursor of such a read.
    async fn open<F>(
        &self,
        max_time: Option<Duration>,
        read: impl FnOnce(Database, ClientSession) -> F + Send + 'static,
    ) -> Result<Box<dyn Cursor>>
    where
        F: Future<Output = (Result<Opened>, ClientSession)> + Send + 'static,
    {
        let (opened, session) = self.read(max_time, read).await?;
        Ok(opened.in_own_session(session, &self.killer, max_time))
    }

    async fn open_find(&self, find: Find, batches: Batches) -> Result<Box<dyn Cursor>> {
        self.open(find.max_time, move |database, mut session| async move {
            let opened = find::find(&database, find, batches, &mut session).await;
            (opened, session)
        })
        .await
    }

    async fn open_aggregate(
        &self,
        aggregate: Aggregate,
        batches: Batches,
    ) -> Result<Box<dyn Cursor>> {
        self.open(
            aggregate.max_time,
            move |database, mut session| async move {
                let opened =
                    aggregate::aggregate(&database, aggregate, batches, &mut session).await;
                (opened, session)
            },
        )
        .await
    }
}

impl fmt::Debug for MongoDb {
    /// Leaves out the client, whose options hold the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoDb")
            .field("database", &self.database.name())
            .field("capabilities", &self.capabilities)
            .finish_non_exhaustive()
    }
}

impl Executor for MongoDb {
    fn find(&self, find: Find) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        Box::pin(self.open_find(find, Batches::Usual))
    }

    fn find_all(&self, find: Find) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move { drain(self.open_find(find, Batches::Full).await?).await })
    }

    fn explain(&self, find: Find) -> BoxFuture<'_, Result<Explain>> {
        Box::pin(async move {
            let explained = self.read(find.max_time, move |database, mut session| async move {
                let explained = explain::explain(&database, find, &mut session).await;
                (explained, session)
            });
            Ok(explained.await?.0)
        })
    }

    fn aggregate(&self, aggregate: Aggregate) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        Box::pin(self.open_aggregate(aggregate, Batches::Usual))
    }

    fn aggregate_all(&self, aggregate: Aggregate) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move { drain(self.open_aggregate(aggregate, Batches::Full).await?).await })
    }

    fn find_each(&self, find: FindEach) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        Box::pin(
            self.open(find.max_time, move |database, mut session| async move {
                let opened = find_each::find_each(&database, find, &mut session).await;
                (opened, session)
            }),
        )
    }

    fn find_several(&self, find: FindSeveral) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        Box::pin(
            self.open(find.max_time(), move |database, mut session| async move {
                let opened = find_several::find_several(&database, find, &mut session).await;
                (opened, session)
            }),
        )
    }

    fn count(&self, count: Count) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let counted = self.read(count.max_time, move |database, mut session| async move {
                let counted = find::count(&database, count, &mut session).await;
                (counted, session)
            });
            Ok(counted.await?.0)
        })
    }

    fn distinct(&self, distinct: Distinct) -> BoxFuture<'_, Result<Vec<RawBson>>> {
        Box::pin(async move {
            let max_time = distinct.max_time;
            let asked = distinct.clone();
            let values = self.read(max_time, move |database, mut session| async move {
                let values = distinct::distinct(&database, &asked, &mut session).await;
                (values, session)
            });
            if let Values::All(values) = values.await?.0 {
                return Ok(values);
            }
            let groups = self.open(max_time, move |database, mut session| async move {
                let groups = distinct::groups(&database, &distinct, &mut session).await;
                (groups, session)
            });
            let groups = drain(groups.await?).await?;
            groups.iter().map(distinct::value_of).collect()
        })
    }

    fn insert(&self, insert: Insert) -> BoxFuture<'_, Result<()>> {
        let database = self.database.clone();
        Box::pin(task::finish(async move {
            insert::insert(&database, insert, None).await
        }))
    }

    fn update(&self, update: Update) -> BoxFuture<'_, Result<Updated>> {
        let database = self.database.clone();
        Box::pin(task::finish(async move {
            update::update(&database, update, None).await
        }))
    }

    fn delete(&self, delete: Delete) -> BoxFuture<'_, Result<Deleted>> {
        let database = self.database.clone();
        Box::pin(task::finish(async move {
            delete::delete(&database, delete, None).await
        }))
    }

    fn find_and_modify(
        &self,
        modify: FindAndModify,
    ) -> BoxFuture<'_, Result<Option<RawDocumentBuf>>> {
        let database = self.database.clone();
        Box::pin(task::finish(async move {
            find_and_modify::find_and_modify(&database, modify, None).await
        }))
    }

    /// Writes of one kind to one collection that stand together go as one command of up to 100,000 writes and 16 MiB, and
    /// in a bulk without order those that stand apart too. Such a command is not tried again by the driver.
    ///
    /// A command says of several deletes only how many documents they deleted together. So a delete whose result depends on
    /// that goes by itself, and in a transaction, which a refused write would end, an update does so too.
    fn bulk_write(&self, bulk: BulkWrite) -> BoxFuture<'_, Result<BulkWritten>> {
        let database = self.database.clone();
        Box::pin(task::finish(async move {
            Ok(bulk_write::bulk_write(&database, bulk, None).await)
        }))
    }
}

impl Backend for MongoDb {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn client_reads(&self) -> Option<Arc<dyn Executor>> {
        Some(Arc::new(Self {
            database: self.client_reads.clone(),
            ..self.clone()
        }))
    }

    fn list_collections(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        let database = self.database.clone();
        Box::pin(task::finish(
            async move { collection::list(&database).await },
        ))
    }

    fn create_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        let (database, name) = (self.database.clone(), name.to_owned());
        Box::pin(task::finish(async move {
            collection::create(&database, &name).await
        }))
    }

    fn drop_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        let (database, name) = (self.database.clone(), name.to_owned());
        Box::pin(task::finish(async move {
            collection::drop(&database, &name).await
        }))
    }

    fn list_indexes<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Vec<Index>>> {
        let (database, collection) = (self.database.clone(), collection.to_owned());
        Box::pin(task::finish(async move {
            index::list(&database, &collection).await
        }))
    }

    fn create_indexes<'a>(
        &'a self,
        collection: &'a str,
        indexes: Vec<Index>,
    ) -> BoxFuture<'a, Result<()>> {
        let (database, collection) = (self.database.clone(), collection.to_owned());
        Box::pin(task::finish(async move {
            index::create(&database, &collection, indexes).await
        }))
    }

    /// Needs MongoDB 5.1 to add expiry to an index without.
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
        Box::pin(task::finish(async move {
            index::set_expiry(&database, &collection, &index, after).await
        }))
    }

    fn drop_index<'a>(&'a self, collection: &'a str, name: &'a str) -> BoxFuture<'a, Result<()>> {
        let (database, collection, name) = (
            self.database.clone(),
            collection.to_owned(),
            name.to_owned(),
        );
        Box::pin(task::finish(async move {
            index::drop(&database, &collection, &name).await
        }))
    }

    /// As the configuration of the cluster says, which the user of the URL has to be allowed to read.
    fn shard_key_of<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Option<ShardKey>>> {
        let (database, collection) = (self.database.clone(), collection.to_owned());
        let sharding = self.capabilities.sharding;
        Box::pin(async move {
            match sharding {
                false => Err(no_cluster(&collection)),
                true => {
                    task::finish(async move { shard::key_of(&database, &collection).await }).await
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
                false => Err(no_cluster(&collection)),
                true => {
                    let shard = async move { shard::shard(&database, &collection, key).await };
                    task::finish(shard).await
                }
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        let clients = [self.client().clone(), self.transactions.client().clone()];
        let killer = Arc::clone(&self.killer);
        Box::pin(task::finish(async move {
            // Cursors and sessions are not waited for: they may be kept for long.
            for client in clients {
                client.shutdown().immediate(true).await;
            }
            killer.close().await;
            Ok(())
        }))
    }

    fn begin(&self) -> BoxFuture<'_, Result<Arc<dyn Transaction>>> {
        Box::pin(async move {
            if !self.capabilities.transactions {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "a standalone MongoDB server has no transactions: run it as a replica set, if only of one member",
                ));
            }
            let (database, killer) = (self.transactions.clone(), Arc::clone(&self.killer));
            task::finish(async move { transaction::begin(database, killer).await }).await
        })
    }

    fn watch(&self, watch: Watch) -> BoxFuture<'_, Result<Box<dyn ChangeCursor>>> {
        Box::pin(async move {
            if !self.capabilities.change_streams {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "a standalone MongoDB server has no change streams: run it as a replica set, if only of one member",
                ));
            }
            let source = watch::Source {
                database: self.database.clone(),
                reads: self.client_reads.selection_criteria().cloned(),
                has_split: Arc::clone(&self.has_split),
            };
            task::finish(watch::watch(source, watch)).await
        })
    }
}

/// A filter or another small document as the driver wants it.
///
/// The server takes a field that stands twice in a document, but the driver's documents hold each once. Losing a
/// condition would be silent, so that is refused.
fn decode(document: &RawDocument) -> Result<Document> {
    let decoded = Document::try_from(document).map_err(crate::error::encode)?;
    if !has_all(&decoded, document) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "MongoDB's driver cannot send a document in which a field or an operator stands twice: use `$and`",
        ));
    }
    Ok(decoded)
}

/// Whether what was decoded has each field of a document, at every depth.
fn has_all(decoded: &Document, document: &RawDocument) -> bool {
    let mut fields = 0;
    let values = document.iter().flatten().inspect(|_| fields += 1);
    let mut values = values.map(|(name, value)| (decoded.get(name.as_str()), value));
    let inside = values.all(|(decoded, value)| decoded.is_some_and(|own| has_all_of(own, value)));
    inside && fields == decoded.len()
}

fn has_all_of(decoded: &Bson, value: RawBsonRef<'_>) -> bool {
    match (decoded, value) {
        (Bson::Document(decoded), RawBsonRef::Document(document)) => has_all(decoded, document),
        (Bson::JavaScriptCodeWithScope(decoded), RawBsonRef::JavaScriptCodeWithScope(code)) => {
            has_all(&decoded.scope, code.scope)
        }
        (Bson::Array(decoded), RawBsonRef::Array(array)) => {
            // A long list of ids has nothing to look into.
            let has_fields = |value: &Bson| {
                matches!(
                    value,
                    Bson::Document(_) | Bson::Array(_) | Bson::JavaScriptCodeWithScope(_)
                )
            };
            let mut elements = decoded.iter().zip(array.into_iter().flatten());
            !decoded.iter().any(has_fields)
                || elements.all(|(decoded, value)| has_all_of(decoded, value))
        }
        _ => true,
    }
}

/// A limit as MongoDB wants it. It takes 0 for "no limit", so the caller has answered that one already.
fn limit(limit: u64) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A time limit as MongoDB wants it, in whole milliseconds. It takes 0 for none, so the least limit is one.
fn milliseconds(max_time: Duration) -> Duration {
    let milliseconds = max_time.as_nanos().div_ceil(1_000_000);
    let milliseconds = u64::try_from(milliseconds).unwrap_or(u64::MAX);
    Duration::from_millis(milliseconds.clamp(1, i32::MAX.unsigned_abs().into()))
}

/// The session of a write, where there is one.
type Session<'a> = Option<&'a mut ClientSession>;

#[cfg(test)]
mod tests {
    use bson::{RawArrayBuf, doc, rawdoc};

    use super::*;

    #[test]
    fn no_condition_is_lost_at_any_depth() {
        let mut twice = rawdoc! { "$gt": 1 };
        twice.append(bson::raw::cstr!("$gt"), 2);
        let mut two_types = rawdoc! { "a": { "$gt": 1 } };
        two_types.append(bson::raw::cstr!("a"), 2);
        let mut list = RawArrayBuf::new();
        list.push(rawdoc! { "a": twice.clone() });
        for lost in [
            twice.clone(),
            two_types,
            rawdoc! { "a": twice },
            rawdoc! { "$or": list },
        ] {
            let refused = decode(&lost).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unsupported);
        }
        let all = doc! { "a": { "$in": [1, "b", null, ["c", { "d": 1 }]] }, "$or": [{ "a": 1 }, { "a": 1 }] };
        assert_eq!(
            decode(&RawDocumentBuf::try_from(&all).unwrap()).unwrap(),
            all
        );
    }
}
