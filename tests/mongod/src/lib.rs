//! A real MongoDB for the tests.
//!
//! `MONGODB_URI` names a server to use. Without it, or for the kind that it is not, a `mongod` is started: the one on the
//! `PATH`, or one that is downloaded into the target directory. Every test process has its own, on free ports, and
//! they end with the process however that ends.

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
pub use trio::Trio;

/// The name of the replica set of one that [`Kind::ReplicaSet`] starts.
const REPLICA_SET: &str = "odm";

/// How long a server may take to become the primary of its replica set.
const ELECTION: Duration = Duration::from_secs(60);

/// What kind of server it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One server by itself, without transactions.
    Standalone,
    /// A replica set, if only of one member, or a sharded cluster.
    ReplicaSet,
}

/// A server.
#[derive(Debug)]
pub struct Server {
    /// Everything before and behind the name of the database.
    uri: (String, String),
    kind: Kind,
    /// None if it was there before the tests.
    process: Option<Process>,
}

/// The standalone server of this test process.
///
/// # Panics
///
/// If none can be had, saying what to do.
pub async fn standalone() -> &'static Server {
    static SERVER: OnceCell<Result<Server, String>> = OnceCell::const_new();
    shared(&SERVER, Kind::Standalone).await
}

/// The replica set of this test process.
///
/// # Panics
///
/// If none can be had, saying what to do.
pub async fn replica_set() -> &'static Server {
    static SERVER: OnceCell<Result<Server, String>> = OnceCell::const_new();
    shared(&SERVER, Kind::ReplicaSet).await
}

impl Server {
    /// Starts a server of one's own, to be killed and restarted at will.
    ///
    /// # Errors
    ///
    /// If none can be had, what to do.
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
            let admin = direct(server.port()?).await?;
            let member = format!("127.0.0.1:{}", server.port()?);
            let config = doc! { "_id": REPLICA_SET, "members": [{ "_id": 0, "host": member }] };
            let admin = admin.database("admin");
            let initiate = admin.run_command(doc! { "replSetInitiate": config });
            initiate.await.map_err(|error| error.to_string())?;
            server.until_primary().await?;
        }
        Ok(server)
    }

    /// The URL of a database on it.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let (before, behind) = &self.uri;
        format!("{before}{database}{behind}")
    }

    /// The URL of a database that no other test uses.
    #[must_use]
    pub fn fresh_url(&self) -> String {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        self.url(&format!("odm_test_{}_{next}", std::process::id()))
    }

    /// What kind of server it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether it was there before the tests, so that they have to clean up behind themselves.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.process.is_none()
    }

    /// Kills it as a crash would. What it has on disk stays, for [`restart`](Self::restart).
    ///
    /// # Errors
    ///
    /// If it was not started here.
    pub fn kill(&mut self) -> Result<(), String> {
        let process = self.process.as_mut().ok_or("not started by the tests")?;
        process.kill()
    }

    /// Starts it again after [`kill`](Self::kill), on the same port and files.
    ///
    /// # Errors
    ///
    /// If it was not started here, or does not start again.
    pub async fn restart(&mut self) -> Result<(), String> {
        let process = self.process.as_mut().ok_or("not started by the tests")?;
        process.restart()?;
        match self.kind {
            Kind::Standalone => Ok(()),
            Kind::ReplicaSet => self.until_primary().await,
        }
    }

    /// A server that was there before the tests.
    async fn at(uri: &str) -> Result<Self, String> {
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
            uri: split(uri),
            kind,
            process: None,
        })
    }

    async fn until_primary(&self) -> Result<(), String> {
        let client = direct(self.port()?).await?;
        let deadline = Instant::now() + ELECTION;
        loop {
            if says(&client, "isWritablePrimary").await {
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

/// A client of this one server, whether it is a primary or not.
async fn direct(port: u16) -> Result<Client, String> {
    let uri = format!("mongodb://127.0.0.1:{port}/?directConnection=true");
    let client = Client::with_uri_str(uri).await;
    client.map_err(|error| error.to_string())
}

/// Whether a server says so of itself.
async fn says(client: &Client, what: &str) -> bool {
    let admin = client.database("admin");
    let hello = admin.run_command(doc! { "hello": 1 }).await;
    hello.is_ok_and(|hello| hello.get_bool(what).unwrap_or(false))
}

async fn shared(server: &'static OnceCell<Result<Server, String>>, kind: Kind) -> &'static Server {
    let server = server.get_or_init(|| async {
        if let Ok(uri) = env::var("MONGODB_URI") {
            let server = Server::at(&uri).await?;
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

/// What is before and what is behind the name of the database, which is cut out.
fn split(uri: &str) -> (String, String) {
    let (address, options) = uri.split_once('?').unwrap_or((uri, ""));
    let (scheme, rest) = address.split_once("://").unwrap_or(("mongodb", address));
    let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
    // With another database in the URL, the user would be looked for in that one.
    let source = match database {
        "" => "admin",
        database => database,
    };
    let options = match options {
        options if !hosts.contains('@') || options.contains("authSource") => options.to_owned(),
        "" => format!("authSource={source}"),
        options => format!("{options}&authSource={source}"),
    };
    let behind = if options.is_empty() {
        options
    } else {
        format!("?{options}")
    };
    (format!("{scheme}://{hosts}/"), behind)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_database_is_put_into_any_uri() {
        for (uri, before, behind) in [
            ("mongodb://a", "mongodb://a/", ""),
            ("mongodb://a,b/x?w=1", "mongodb://a,b/", "?w=1"),
            ("mongodb://u:p@a/", "mongodb://u:p@a/", "?authSource=admin"),
            (
                "mongodb+srv://u:p@a/x?w=1",
                "mongodb+srv://u:p@a/",
                "?w=1&authSource=x",
            ),
        ] {
            assert_eq!(split(uri), (before.to_owned(), behind.to_owned()));
        }
    }
}
