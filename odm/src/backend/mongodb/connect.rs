//! Connection to a database: by URL, by options of the driver, or by a client of the application.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ::mongodb::{
    Client, Database,
    bson::{Document, doc},
    event::{EventHandler, sdam::SdamEvent},
    options::{
        ClientOptions, DatabaseOptions, ReadConcern, ReadPreference, SelectionCriteria,
        WriteConcern,
    },
};

use super::{cancellation::SessionKiller, error, task, url_options};
use crate::{Error, ErrorKind, Result, backend::Capabilities};

/// The time to wait for the first contact with a server, unless the URL sets a time.
///
/// Later operations wait for the driver's default of 30 seconds, which is more than the election of a new primary takes.
const FIRST_CONTACT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connected database, with the capabilities of its server.
pub(super) struct ConnectedDatabase {
    /// Reads from the primary, with data of a majority.
    pub(super) database: Database,
    /// Reads by the options of the URL.
    pub(super) client_reads: Database,
    /// The database of transactions, with a separate connection pool.
    ///
    /// A plain write to a document of an open transaction waits in the server and occupies a connection. With a shared pool,
    /// waiting writes could take every connection, and the commit would have no connection.
    pub(super) transactions: Database,
    pub(super) capabilities: Capabilities,
    pub(super) session_killer: SessionKiller,
}

/// Connects to the server of a URL, and reads its capabilities.
pub(super) async fn connect_to_url(url: &str) -> Result<ConnectedDatabase> {
    let options = parse_url(url).await?;
    let hosts = host_list(&options);
    let Some(name) = options.default_database.clone() else {
        return Err(Error::new(
            ErrorKind::InvalidUrl,
            format!(
                "the URL has no database name: add a name after the host, as in `mongodb://{hosts}/shop`"
            ),
        ));
    };
    url_options::ensure_supported_names(url)?;
    connect_with_options(options, &name).await
}

/// Connects to a server by options of the driver, and reads the capabilities of the server.
///
/// The driver's client gets the options of internal reads and writes. Only one database handle gets the given read options, so
/// that no other use of the client follows these options.
pub(super) async fn connect_with_options(
    mut options: ClientOptions,
    name: &str,
) -> Result<ConnectedDatabase> {
    url_options::ensure_supported_values(&options)?;
    let hosts = host_list(&options);
    let requested = options.clone();
    options.write_concern = Some(url_options::write_concern(options.write_concern.as_ref()));
    options.read_concern = None;
    let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
    options.selection_criteria = Some(primary);
    let timeout = options
        .server_selection_timeout
        .unwrap_or(FIRST_CONTACT_TIMEOUT);
    let last_failure = LastHeartbeatFailure::subscribe_to(&mut options);

    // The driver starts background tasks in the current runtime, so create the clients in a task of the library's runtime.
    let clients = task::run_to_end({
        let options = options.clone();
        async move {
            let client = Client::with_options(options.clone()).map_err(invalid_url)?;
            let transaction_client = Client::with_options(options).map_err(invalid_url)?;
            Ok((client, transaction_client))
        }
    });
    let (client, transaction_client) = clients.await?;
    let hello = read_hello(client.database(name), timeout, &hosts, &last_failure).await?;
    url_options::ensure_not_direct(&requested, &hello)?;
    options.selection_criteria = requested.selection_criteria.clone();
    let reads = ClientReads {
        selection: requested.selection_criteria,
        concern: requested.read_concern,
    };
    let writes = options.write_concern.clone();
    let killer = SessionKiller::new(options);
    Ok(ConnectedDatabase::new(
        name,
        &client,
        &transaction_client,
        reads,
        writes,
        &hello,
        killer,
    ))
}

/// Uses a client of the application, and reads the capabilities of the server.
pub(super) async fn use_client(client: Client, name: &str) -> Result<ConnectedDatabase> {
    let database = client.database(name);
    let no_failure = LastHeartbeatFailure::default();
    let hosts = "the address of the client";
    let hello = read_hello(database, FIRST_CONTACT_TIMEOUT, hosts, &no_failure).await?;
    let reads = ClientReads {
        selection: client.selection_criteria().cloned(),
        concern: client.read_concern().cloned(),
    };
    let writes = url_options::write_concern(client.write_concern());
    let killer = SessionKiller::of_client(client.clone());
    Ok(ConnectedDatabase::new(
        name,
        &client,
        &client,
        reads,
        Some(writes),
        &hello,
        killer,
    ))
}

/// The options of reads for the application.
struct ClientReads {
    selection: Option<SelectionCriteria>,
    concern: Option<ReadConcern>,
}

impl ConnectedDatabase {
    fn new(
        name: &str,
        client: &Client,
        transaction_client: &Client,
        reads: ClientReads,
        writes: Option<WriteConcern>,
        hello: &Document,
        session_killer: SessionKiller,
    ) -> Self {
        let is_replicated = is_replicated(hello);
        let majority = is_replicated.then(ReadConcern::majority);
        let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
        let internal = DatabaseOptions::builder()
            .selection_criteria(primary)
            .read_concern(majority.clone())
            .write_concern(writes);
        let internal = internal.build();
        let client_reads = DatabaseOptions::builder()
            .selection_criteria(reads.selection)
            .read_concern(reads.concern.or(majority))
            .build();
        Self {
            database: client.database_with_options(name, internal.clone()),
            client_reads: client.database_with_options(name, client_reads),
            transactions: transaction_client.database_with_options(name, internal),
            capabilities: Capabilities::new(is_replicated)
                .with_change_streams(is_replicated)
                .with_sharding(is_router(hello)),
            session_killer,
        }
    }
}

/// Reads the description of the server, within a time limit.
async fn read_hello(
    database: Database,
    timeout: Duration,
    hosts: &str,
    last_failure: &LastHeartbeatFailure,
) -> Result<Document> {
    let hello = task::run_to_end(async move {
        let hello = database.run_command(doc! { "hello": 1 }).await;
        hello.map_err(error::from_driver)
    });
    match crate::session::task::timeout(timeout, hello).await {
        Ok(Ok(hello)) => Ok(hello),
        Ok(Err(error)) if error.kind() != ErrorKind::Connection => Err(error),
        failed => {
            let reason = last_failure.message_suffix();
            let error = Error::new(
                ErrorKind::Connection,
                format!(
                    "cannot reach MongoDB at {hosts}: check that the server is running and the address is right{reason}"
                ),
            );
            Err(match failed {
                Ok(Err(source)) => error.with_source(source),
                _ => error,
            })
        }
    }
}

/// Whether the server is a member of a replica set, or a router of a sharded cluster.
fn is_replicated(hello: &Document) -> bool {
    hello.contains_key("setName") || is_router(hello)
}

/// Whether the server is a router of a sharded cluster.
fn is_router(hello: &Document) -> bool {
    hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid")
}

/// Returns the addresses in the URL, without user and password.
fn host_list(options: &ClientOptions) -> String {
    let hosts: Vec<_> = options.hosts.iter().map(ToString::to_string).collect();
    hosts.join(",")
}

async fn parse_url(url: &str) -> Result<ClientOptions> {
    url_options::ensure_no_rejected_names(url)?;
    let parsed = parse_with_driver(url.to_owned()).await?;
    let Err(failure) = parsed else {
        return parsed.map_err(invalid_url);
    };
    if let Some(error) = url_options::missing_driver_feature(url, &failure.to_string()) {
        return Err(error);
    }
    let Some(without_user) = strip_user(url) else {
        return Err(invalid_url(failure));
    };
    // The driver's message may quote any part of the URL, also the password. So return the message for the URL without the user.
    let parsed = parse_with_driver(without_user).await?;
    Err(match parsed {
        Err(failure) => invalid_url(failure),
        Ok(_) => Error::new(
            ErrorKind::InvalidUrl,
            "the user name or the password in the URL is malformed: percent-encode the characters `: / ? # [ ] @ %`, \
             such as `%40` for `@`",
        ),
    })
}

async fn parse_with_driver(url: String) -> Result<::mongodb::error::Result<ClientOptions>> {
    task::run_to_end(async move { Ok(ClientOptions::parse(url).await) }).await
}

/// Returns the URL without user and password, or `None` if the URL has no user.
fn strip_user(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (_, rest) = rest.rsplit_once('@')?;
    Some(format!("{scheme}://{rest}"))
}

fn invalid_url(failure: ::mongodb::error::Error) -> Error {
    match *failure.kind {
        ::mongodb::error::ErrorKind::InvalidArgument { ref message, .. } => Error::new(
            ErrorKind::InvalidUrl,
            format!("invalid MongoDB URL: {message}"),
        ),
        ::mongodb::error::ErrorKind::InvalidTlsConfig { ref message, .. } => Error::new(
            ErrorKind::InvalidUrl,
            format!("invalid TLS options in the MongoDB URL: {message}"),
        ),
        _ => error::from_driver(failure),
    }
}

/// The last failure of the driver's heartbeat to a server.
///
/// The driver itself reports the failure only with the timeout of an operation, which is longer than the timeout of the first
/// contact.
#[derive(Clone, Default)]
struct LastHeartbeatFailure(Arc<Mutex<Option<String>>>);

impl LastHeartbeatFailure {
    /// Records failures, unless the application has an event handler of its own.
    fn subscribe_to(options: &mut ClientOptions) -> Self {
        let last_failure = Self::default();
        if options.sdam_event_handler.is_some() {
            return last_failure;
        }
        let recorded = last_failure.clone();
        options.sdam_event_handler = Some(EventHandler::callback(move |event| {
            if let SdamEvent::ServerHeartbeatFailed(failed) = event {
                let mut last = recorded.0.lock().unwrap_or_else(PoisonError::into_inner);
                *last = Some(failed.failure.kind.to_string());
            }
        }));
        last_failure
    }

    /// Returns the failure in parentheses, as a suffix of a message.
    fn message_suffix(&self) -> String {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref()
            .map_or_else(String::new, |reason| format!(" ({reason})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_with_special_characters_are_removed() {
        for url in [
            "mongodb://alex:se:cret@host/shop",
            "mongodb://alex:s@cret?@host/shop",
            "mongodb://alex:s/e/cret@host/shop",
        ] {
            assert_eq!(strip_user(url).as_deref(), Some("mongodb://host/shop"));
        }
        assert_eq!(strip_user("mongodb://host/shop"), None);
    }
}
