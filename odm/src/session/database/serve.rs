//! `Database::serve`: serves the embedded database over MongoDB's wire protocol.

use std::{fmt, io};

use crate::{
    Error, ErrorKind, Result,
    schema::Schema,
    session::{
        database::Database,
        task::{self, Task},
    },
};

/// A port on which shells, tools and drivers of MongoDB look into a database. Dropping the server closes the port and all
/// connections.
#[must_use = "dropping the server closes the port"]
pub struct DatabaseServer {
    url: String,
    task: Task<()>,
}

impl DatabaseServer {
    /// Returns the URL for clients on this machine, such as `mongodb://127.0.0.1:27017/odm`.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl fmt::Debug for DatabaseServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseServer")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Drop for DatabaseServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<S: Schema> Database<S> {
    /// Lets the shells, tools and drivers of MongoDB look into the embedded database of this process, on a loopback address. Port 0
    /// is any free port.
    ///
    /// Clients can read all documents of all scopes, and cannot write. For writes, other addresses, users and encryption, use the
    /// crate `odm-wire` with the database of [`backend::Engine::database`](crate::backend::Engine::database).
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Debug, Serialize, Deserialize, Document)]
    /// # #[document(collection = "parts")]
    /// # struct Part { #[serde(rename = "_id")] id: i64 }
    /// # #[derive(Schema)] #[schema(models(Part))] struct Shop;
    /// # type Db = odm::Database<Shop>;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// let db = Db::open("memory:").await?;
    /// let server = db.serve("127.0.0.1:0").await?;
    /// println!("look with: mongosh {}", server.url());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Unsupported`](ErrorKind::Unsupported) on MongoDB, for a malformed address, and for an address other than loopback.
    /// - [`Io`](ErrorKind::Io) if the address is in use or not available.
    pub async fn serve(&self, address: impl Into<String>) -> Result<DatabaseServer> {
        let database = self.backend().engine_database().ok_or_else(|| {
            let message =
                "only the embedded engine is served: connect to the MongoDB server itself";
            Error::new(ErrorKind::Unsupported, message)
        })?;
        let address = address.into();
        let builder = odm_wire::Server::builder(database);
        let bound = task::spawn(async move {
            let bound = builder.bind(&address).await;
            bound.map_err(|error| bind_error(&address, error))
        });
        let server = bound.await??;
        Ok(DatabaseServer {
            url: server.url(),
            task: task::spawn(server.run()),
        })
    }
}

fn bind_error(address: &str, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::InvalidInput {
        let message = format!(
            "cannot serve on {address}: the address is `127.0.0.1:port`; for other addresses and users, use the crate `odm-wire`"
        );
        return Error::new(ErrorKind::Unsupported, message).with_source(error);
    }
    let message = format!("cannot listen on {address}: {error}");
    Error::new(ErrorKind::Io, message).with_source(error)
}
