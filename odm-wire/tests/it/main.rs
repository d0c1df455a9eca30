//! Tests of the server by the official driver and by hostile clients.

mod authentication;
mod collations;
mod comparison;
mod driver;
mod hostile;
mod namespaces;
mod read_only;
#[cfg(feature = "tls")]
mod tls;

use std::io;
use std::net::SocketAddr;

use mongodb::Client;
use odm_engine::Database;
use odm_wire::{Server, ServerBuilder};
use tokio::task::JoinHandle;

/// A server in this process, which ends with the test.
struct TestServer {
    address: SocketAddr,
    url: String,
    task: JoinHandle<()>,
}

impl TestServer {
    /// Starts a server that allows writes to a database in memory.
    async fn writable() -> TestServer {
        TestServer::start(Server::builder(Database::memory()).allow_writes()).await
    }

    async fn start(builder: ServerBuilder) -> TestServer {
        let started = TestServer::try_start(builder, "127.0.0.1:0").await;
        started.expect("a free port")
    }

    async fn try_start(builder: ServerBuilder, address: &str) -> io::Result<TestServer> {
        let server = builder.bind(address).await?;
        Ok(TestServer {
            address: server.local_addr()?,
            url: server.url(),
            task: tokio::spawn(server.run()),
        })
    }

    async fn client(&self) -> Client {
        let client = Client::with_uri_str(&self.url).await;
        client.expect("the URL is valid")
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
