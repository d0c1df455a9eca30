//! The server: its options, and the loop that accepts connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use odm_engine::Database;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, ToSocketAddrs};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{self, MissedTickBehavior};

use crate::connection;
use crate::cursor::Cursors;
use crate::error::{CommandError, code};
use crate::namespace::Namespaces;
use crate::scram::Credentials;
use crate::session::Sessions;
use crate::snapshot::Snapshots;
#[cfg(feature = "tls")]
use crate::tls::TlsIdentity;

/// The name of the database of clients, unless the application sets a name.
const DEFAULT_DATABASE_NAME: &str = "odm";

/// The default of [`ServerBuilder::max_connections`].
const DEFAULT_MAX_CONNECTIONS: usize = 1_000;

/// The operations of the engine that run at once. Further operations wait.
const MAX_OPERATIONS: usize = 64;

/// The memory of all received messages, in KiB. Further messages wait.
const MAX_REQUEST_KIB: usize = 256 << 10;

/// The memory of all replies, in KiB. Further replies wait.
const MAX_REPLY_KIB: usize = 256 << 10;

/// How often cursors, sessions and transactions expire.
const EXPIRY_PERIOD: Duration = Duration::from_secs(1);

/// The pause after a failed accept, for example because the process has too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A server that offers a database of the engine by MongoDB's wire protocol, on a TCP port.
///
/// The server is read-only, unless [`allow_writes`](ServerBuilder::allow_writes) is called.
///
/// ```
/// use odm_engine::Database;
/// use odm_wire::Server;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let database = Database::memory(); // or the database of a running application
/// let server = Server::builder(database).bind("127.0.0.1:0").await?;
/// println!("mongosh {}", server.url());
/// let running = tokio::spawn(server.run());
/// // …
/// running.abort(); // closes the port and all connections
/// # Ok(())
/// # }
/// ```
pub struct Server {
    listener: TcpListener,
    state: Arc<ServerState>,
}

/// The options of a [`Server`].
#[derive(Clone)]
#[must_use = "a server accepts connections after `bind` and `run`"]
pub struct ServerBuilder {
    database: Database,
    name: String,
    allows_writes: bool,
    user: Option<(String, String)>,
    advertised: Option<String>,
    max_connections: usize,
    #[cfg(feature = "tls")]
    tls: Option<TlsIdentity>,
}

/// The state that all connections share.
pub(crate) struct ServerState {
    pub(crate) database: Database,
    pub(crate) namespaces: Namespaces,
    pub(crate) allows_writes: bool,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) advertised: Option<String>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<TlsIdentity>,
    pub(crate) cursors: Cursors,
    pub(crate) sessions: Sessions,
    pub(crate) snapshots: Snapshots,
    /// Permits of operations of the engine.
    pub(crate) operations: Arc<Semaphore>,
    /// Permits of KiB of received messages.
    pub(crate) request_memory: Arc<Semaphore>,
    /// Permits of KiB of replies. Not the permits of `request_memory`: a request keeps its memory while it waits for an operation,
    /// and an operation does not end before its reply has memory, so the two would wait for each other.
    pub(crate) reply_memory: Arc<Semaphore>,
    /// Permits of connections.
    pub(crate) connections: Arc<Semaphore>,
    pub(crate) max_connections: usize,
    pub(crate) total_connections: AtomicI64,
    next_reply: AtomicI32,
    pub(crate) started: Instant,
}

impl Server {
    /// Returns the options of a server for `database`, with their defaults.
    pub fn builder(database: Database) -> ServerBuilder {
        ServerBuilder {
            database,
            name: DEFAULT_DATABASE_NAME.to_owned(),
            allows_writes: false,
            user: None,
            advertised: None,
            max_connections: DEFAULT_MAX_CONNECTIONS,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// Returns the address of the port.
    ///
    /// # Errors
    /// I/O.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the URL for clients on this machine, with the main database, without user and password. Encrypted connections add
    /// `tls=true`.
    pub fn url(&self) -> String {
        let address = self
            .local_addr()
            .map(|address| match address.ip().is_unspecified() {
                true => format!("127.0.0.1:{}", address.port()),
                false => address.to_string(),
            });
        let address = self
            .state
            .advertised
            .clone()
            .or(address.ok())
            .unwrap_or_default();
        #[cfg(feature = "tls")]
        let options = match self.state.tls {
            Some(_) => "?tls=true",
            None => "",
        };
        #[cfg(not(feature = "tls"))]
        let options = "";
        let database = self.state.namespaces.main_database();
        format!("mongodb://{address}/{database}{options}")
    }

    /// Accepts connections until the future is dropped. The end closes all connections and aborts their transactions.
    pub async fn run(self) {
        let mut connections = JoinSet::new();
        let mut expiry = time::interval(EXPIRY_PERIOD);
        expiry.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let permit = Arc::clone(&self.state.connections).try_acquire_owned();
                        // As on MongoDB, a connection over the limit is closed at once.
                        if let Ok(permit) = permit {
                            let state = Arc::clone(&self.state);
                            connections.spawn(async move {
                                connection::serve(stream, state).await;
                                drop(permit);
                            });
                        }
                    }
                    Err(_) => time::sleep(ACCEPT_PAUSE).await,
                },
                _ = expiry.tick() => self.state.expire(),
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

impl ServerBuilder {
    /// Sets the name of the *main database*: the database with the collections of the file. The default is `odm`.
    ///
    /// Clients can use further databases. Their collections are in the same file, with names such as `@test/users`.
    pub fn database_name(mut self, name: impl Into<String>) -> ServerBuilder {
        self.name = name.into();
        self
    }

    /// Allows clients to write. Writes bypass the models of `odm`: no validation, no hooks, and no derived data.
    pub fn allow_writes(mut self) -> ServerBuilder {
        self.allows_writes = true;
        self
    }

    /// Requires clients to authenticate as this user, by SCRAM-SHA-256. An address other than loopback needs a user.
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> ServerBuilder {
        self.user = Some((name.into(), password.into()));
        self
    }

    /// Sets the address, such as `db.example.org:27017`, under which clients reach the server. Drivers connect to this address
    /// after the first message. The default is the address to which the client has connected.
    pub fn advertise(mut self, address: impl Into<String>) -> ServerBuilder {
        self.advertised = Some(address.into());
        self
    }

    /// Sets the maximum number of connections. The default is 1,000. Further connections are closed at once.
    pub fn max_connections(mut self, max: usize) -> ServerBuilder {
        self.max_connections = max.min(Semaphore::MAX_PERMITS);
        self
    }

    /// Encrypts all connections by TLS, with a certificate.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, identity: TlsIdentity) -> ServerBuilder {
        self.tls = Some(identity);
        self
    }

    /// Opens the port.
    ///
    /// # Errors
    /// The address is in use or not available. An address other than loopback has no [user](ServerBuilder::user). The name of the
    /// database, the user or the password is not valid.
    pub async fn bind(self, address: impl ToSocketAddrs) -> io::Result<Server> {
        let listener = TcpListener::bind(address).await?;
        let bound = listener.local_addr()?;
        if self.user.is_none() && !bound.ip().is_loopback() {
            return Err(invalid(format!(
                "everyone who can reach {bound} could read the database; set a user, or listen on 127.0.0.1"
            )));
        }
        Ok(Server {
            listener,
            state: Arc::new(self.into_state()?),
        })
    }

    /// Serves one client on a stream, until the client closes the stream. For fuzz targets. Not part of the public interface.
    #[doc(hidden)]
    pub async fn serve_stream(self, stream: impl AsyncRead + AsyncWrite) -> io::Result<()> {
        let state = Arc::new(self.into_state()?);
        connection::serve_in_memory(stream, &state).await
    }

    pub(crate) fn into_state(self) -> io::Result<ServerState> {
        let namespaces = Namespaces::new(&self.name).map_err(|error| invalid(error.to_string()))?;
        let credentials = match self.user {
            Some((name, password)) => Some(Credentials::new(&name, &password).map_err(invalid)?),
            None => None,
        };
        Ok(ServerState {
            allows_writes: self.allows_writes && !self.database.is_read_only(),
            database: self.database,
            namespaces,
            credentials,
            advertised: self.advertised,
            #[cfg(feature = "tls")]
            tls: self.tls,
            cursors: Cursors::default(),
            sessions: Sessions::default(),
            snapshots: Snapshots::default(),
            operations: Arc::new(Semaphore::new(MAX_OPERATIONS)),
            request_memory: Arc::new(Semaphore::new(MAX_REQUEST_KIB)),
            reply_memory: Arc::new(Semaphore::new(MAX_REPLY_KIB)),
            connections: Arc::new(Semaphore::new(self.max_connections)),
            max_connections: self.max_connections,
            total_connections: AtomicI64::new(0),
            next_reply: AtomicI32::new(1),
            started: Instant::now(),
        })
    }
}

impl ServerState {
    /// Returns the id of the next reply.
    pub(crate) fn next_reply_id(&self) -> i32 {
        self.next_reply.fetch_add(1, Ordering::Relaxed)
    }

    /// Refuses a write on a read-only server.
    ///
    /// # Errors
    /// The server is read-only.
    pub(crate) fn ensure_allows_writes(&self, operation: &str) -> Result<(), CommandError> {
        if self.allows_writes {
            return Ok(());
        }
        let message = format!(
            "`{operation}` is refused: the server is read-only. Start the server with `--write`, or with `allow_writes`"
        );
        Err(CommandError::new(code::ILLEGAL_OPERATION, message))
    }

    /// Closes unused cursors, ends unused sessions and snapshots, and aborts old transactions.
    fn expire(&self) {
        let now = Instant::now();
        self.cursors.expire(now);
        self.snapshots.expire(now);
        for (session, number) in self.sessions.expire(now) {
            self.cursors.close_in_transaction(session, number);
        }
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Received messages keep their memory while they wait for an operation, and an operation waits for the memory of its reply.
    #[tokio::test]
    async fn a_large_reply_needs_no_memory_of_received_messages() {
        let database = Database::memory();
        let large = rawdoc! { "_id": 1, "text": "x".repeat(1 << 20) };
        let inserted = database.insert("c", vec![large]).unwrap();
        inserted.into_result().unwrap();
        let state = Server::builder(database).into_state().unwrap();
        let state = Arc::new(state);
        let all = u32::try_from(MAX_REQUEST_KIB).unwrap();
        let _received = state.request_memory.try_acquire_many(all).unwrap();
        let (mut client, stream) = tokio::io::duplex(4 << 20);
        let body = rawdoc! { "find": "c", "$db": "odm" };
        let length = i32::try_from(16 + 5 + body.as_bytes().len()).unwrap();
        let header = [length, 1, 0, 2013, 0].map(i32::to_le_bytes).concat();
        let message = [&header[..], &[0], body.as_bytes()].concat();
        client.write_all(&message).await.unwrap();
        // The end of the input would cancel the query.
        let exchange = async {
            let mut length = [0; 4];
            client.read_exact(&mut length).await.unwrap();
            assert!(i32::from_le_bytes(length) > 1 << 20);
        };
        let exchange = time::timeout(Duration::from_secs(20), exchange);
        tokio::select! {
            exchanged = exchange => exchanged.expect("no reply"),
            served = connection::serve_in_memory(stream, &state) => panic!("{served:?}"),
        }
    }
}
