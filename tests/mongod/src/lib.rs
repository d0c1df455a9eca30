//! Real MongoDB servers for the tests.
//!
//! The environment variable `MONGODB_URI` names a server. Without the variable, or for a kind of server that the named server is
//! not, the tests start a `mongod`: from the `PATH`, or downloaded into the target directory. Every test process starts servers
//! on free ports. The servers end with the process, also after a kill of the process.

mod binary;
mod process;
mod trio;

use std::{
    env,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use bson::doc;
use mongodb::Client;
use tokio::sync::OnceCell;

use process::Process;
pub use trio::ThreeMemberSet;

/// The name of the replica set with a single member that [`Kind::ReplicaSet`] starts.
const REPLICA_SET: &str = "odm";

/// The maximum time until a server is the primary of the replica set.
const MAX_ELECTION_TIME: Duration = Duration::from_secs(60);

/// The kind of a MongoDB server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A single server without transactions.
    Standalone,
    /// A replica set, also with a single member, or a sharded cluster.
    ReplicaSet,
}

/// A MongoDB server for tests.
#[derive(Debug)]
pub struct Server {
    /// The parts of the URL before and after the name of the database.
    uri: (String, String),
    kind: Kind,
    /// `None` if the server was running before the tests.
    process: Option<Process>,
}

/// Returns the standalone server of this test process.
///
/// # Panics
///
/// If no server is available; the message says how to provide a server.
pub async fn standalone() -> &'static Server {
    static SERVER: OnceCell<Result<Server, String>> = OnceCell::const_new();
    shared_server(&SERVER, Kind::Standalone).await
}

/// Returns the replica set of this test process.
///
/// # Panics
///
/// If no server is available; the message says how to provide a server.
pub async fn replica_set() -> &'static Server {
    static SERVER: OnceCell<Result<Server, String>> = OnceCell::const_new();
    shared_server(&SERVER, Kind::ReplicaSet).await
}

impl Server {
    /// Starts a server for a single test, which can kill and restart the server.
    ///
    /// # Errors
    ///
    /// Returns a message that says how to provide a server, if no server is available.
    pub async fn start(kind: Kind) -> Result<Self, String> {
        let replica_set = (kind == Kind::ReplicaSet).then_some(REPLICA_SET);
        let process =
            tokio::task::spawn_blocking(move || Process::start(&binary::find()?, replica_set));
        let process = process.await.map_err(|error| error.to_string())??;
        let address = format!("mongodb://127.0.0.1:{}/", process.port());
        let options = replica_set.map_or_else(String::new, |name| format!("?replicaSet={name}"));
        let server = Self {
            uri: (address, options),
            kind,
            process: Some(process),
        };
        if kind == Kind::ReplicaSet {
            let admin = connect_directly(server.port()?).await?;
            let member = format!("127.0.0.1:{}", server.port()?);
            let config = doc! { "_id": REPLICA_SET, "members": [{ "_id": 0, "host": member }] };
            let admin = admin.database("admin");
            let initiate = admin.run_command(doc! { "replSetInitiate": config });
            initiate.await.map_err(|error| error.to_string())?;
            server.until_primary().await?;
        }
        Ok(server)
    }

    /// Returns the URL of a database on this server.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let (before, after) = &self.uri;
        format!("{before}{database}{after}")
    }

    /// Returns the URL of a database that no test has used.
    #[must_use]
    pub fn fresh_url(&self) -> String {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        self.url(&format!("odm_test_{}_{next}", std::process::id()))
    }

    /// Returns the kind of this server.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns whether the server was running before the tests, so that the tests must remove their databases.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.process.is_none()
    }

    /// Kills the server like a crash. The files stay on disk for [`restart`](Self::restart).
    ///
    /// # Errors
    ///
    /// Returns an error if the tests did not start this server.
    pub fn kill(&mut self) -> Result<(), String> {
        let process = self.process.as_mut().ok_or("not started by the tests")?;
        process.kill()
    }

    /// Starts the server again after [`kill`](Self::kill), on the same port and with the same files.
    ///
    /// # Errors
    ///
    /// Returns an error if the tests did not start this server, or if the server does not start again.
    pub async fn restart(&mut self) -> Result<(), String> {
        let process = self.process.as_mut().ok_or("not started by the tests")?;
        process.restart()?;
        match self.kind {
            Kind::Standalone => Ok(()),
            Kind::ReplicaSet => self.until_primary().await,
        }
    }

    /// Connects to a server that was running before the tests.
    async fn connect_to_existing(uri: &str) -> Result<Self, String> {
        let failed = |error| format!("MONGODB_URI is set, but its server cannot be used: {error}");
        let client = Client::with_uri_str(uri).await.map_err(failed)?;
        let admin = client.database("admin");
        let hello = admin
            .run_command(doc! { "hello": 1 })
            .await
            .map_err(failed)?;
        let clustered = hello.contains_key("setName") || hello.contains_key("msg");
        let kind = if clustered {
            Kind::ReplicaSet
        } else {
            Kind::Standalone
        };
        Ok(Self {
            uri: split_at_database(uri),
            kind,
            process: None,
        })
    }

    async fn until_primary(&self) -> Result<(), String> {
        let client = connect_directly(self.port()?).await?;
        let deadline = Instant::now() + MAX_ELECTION_TIME;
        loop {
            if hello_flag(&client, "isWritablePrimary").await {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err("the replica set of one did not elect its member".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn port(&self) -> Result<u16, String> {
        let process = self.process.as_ref().ok_or("not started by the tests")?;
        Ok(process.port())
    }
}

/// Returns a client of this server alone, whether the server is a primary or not.
async fn connect_directly(port: u16) -> Result<Client, String> {
    let uri = format!("mongodb://127.0.0.1:{port}/?directConnection=true");
    let client = Client::with_uri_str(uri).await;
    client.map_err(|error| error.to_string())
}

/// Returns whether a field of the server's `hello` answer is true.
async fn hello_flag(client: &Client, what: &str) -> bool {
    let admin = client.database("admin");
    let hello = admin.run_command(doc! { "hello": 1 }).await;
    hello.is_ok_and(|hello| hello.get_bool(what).unwrap_or(false))
}

async fn shared_server(
    server: &'static OnceCell<Result<Server, String>>,
    kind: Kind,
) -> &'static Server {
    let server = server.get_or_init(|| async {
        if let Ok(uri) = env::var("MONGODB_URI") {
            let server = Server::connect_to_existing(&uri).await?;
            if server.kind == kind {
                return Ok(server);
            }
        }
        Server::start(kind).await
    });
    match server.await {
        Ok(server) => server,
        Err(error) => panic!("the tests need a MongoDB ({kind:?}), and none can be had: {error}"),
    }
}

/// Splits a URL into the parts before and after the name of the database, and drops the name.
fn split_at_database(uri: &str) -> (String, String) {
    let (address, options) = uri.split_once('?').unwrap_or((uri, ""));
    let (scheme, rest) = address.split_once("://").unwrap_or(("mongodb", address));
    let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
    // The user is stored in the database of the original URL, and a different database would change where MongoDB looks.
    let source = match database {
        "" => "admin",
        database => database,
    };
    let options = match options {
        options if !hosts.contains('@') || options.contains("authSource") => options.to_owned(),
        "" => format!("authSource={source}"),
        options => format!("{options}&authSource={source}"),
    };
    let after = if options.is_empty() {
        options
    } else {
        format!("?{options}")
    };
    (format!("{scheme}://{hosts}/"), after)
}

#[cfg(test)]
mod tests {
    use super::split_at_database;

    #[test]
    fn split_works_for_every_uri() {
        for (uri, before, after) in [
            ("mongodb://a", "mongodb://a/", ""),
            ("mongodb://a,b/x?w=1", "mongodb://a,b/", "?w=1"),
            ("mongodb://u:p@a/", "mongodb://u:p@a/", "?authSource=admin"),
            (
                "mongodb+srv://u:p@a/x?w=1",
                "mongodb+srv://u:p@a/",
                "?w=1&authSource=x",
            ),
        ] {
            assert_eq!(
                split_at_database(uri),
                (before.to_owned(), after.to_owned())
            );
        }
    }
}
