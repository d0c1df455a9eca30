//! From a URL to a database.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ::mongodb::{
    Client, Database,
    bson::{Document, doc},
    event::{EventHandler, sdam::SdamEvent},
    options::{ClientOptions, DatabaseOptions, ReadConcern, ReadPreference, SelectionCriteria},
};

use super::{error, task, url_options};
use crate::{Error, ErrorKind, Result, backend::Capabilities};

/// How long to wait for a server that the URL says nothing about.
///
/// Only for the first contact: a server that was there gets the driver's 30 seconds to come back, which is more than the
/// election of a new primary takes.
const PATIENCE: Duration = Duration::from_secs(5);

/// A database with what its server can do.
pub(super) struct Connected {
    /// Reads from the primary, with data of a majority.
    pub(super) database: Database,
    /// Reads by the options of the URL.
    pub(super) client_reads: Database,
    /// The database of transactions, with a separate connection pool. A plain write to a document of an open transaction waits in the
    /// server and keeps the connection. With a shared pool such writes could take every connection, and the commit would have none.
    pub(super) transactions: Database,
    pub(super) capabilities: Capabilities,
    /// For further clients of the same server, with the read preference of the URL.
    pub(super) options: ClientOptions,
}

/// Connects, and finds out what the server can do.
///
/// The driver's client gets the options of internal reads and writes. The read options of the URL are in one database handle alone, so
/// that no other use of the client reads by these options.
pub(super) async fn connect(url: &str) -> Result<Connected> {
    let mut options = parse(url).await?;
    let hosts = hosts(&options);
    let Some(name) = options.default_database.clone() else {
        return Err(Error::new(
            ErrorKind::InvalidUrl,
            format!(
                "the URL names no database: add one behind the host, as in `mongodb://{hosts}/shop`"
            ),
        ));
    };
    url_options::refuse_values(url, &options)?;
    let asked = options.clone();
    options.write_concern = Some(url_options::write_concern(&options));
    options.read_concern = None;
    let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
    options.selection_criteria = Some(primary);
    let patience = options.server_selection_timeout.unwrap_or(PATIENCE);
    let complaint = Complaint::listen(&mut options);

    // The driver starts tasks of its own, in the runtime that it is in.
    let clients = task::finish({
        let options = options.clone();
        async move {
            let client = Client::with_options(options.clone()).map_err(invalid_url)?;
            let apart = Client::with_options(options).map_err(invalid_url)?;
            Ok((client, apart))
        }
    });
    let (client, apart) = clients.await?;
    let database = client.database(&name);
    let hello = {
        let database = database.clone();
        task::finish(async move {
            let hello = database.run_command(doc! { "hello": 1 }).await;
            hello.map_err(error::from_driver)
        })
    };
    let hello = match crate::task::timeout(patience, hello).await {
        Ok(Ok(hello)) => hello,
        Ok(Err(error)) if error.kind() != ErrorKind::Connection => return Err(error),
        failed => {
            let reason = complaint.last();
            let error = Error::new(
                ErrorKind::Connection,
                format!(
                    "cannot reach MongoDB at {hosts}: is it running there, and is the address right?{reason}"
                ),
            );
            return Err(match failed {
                Ok(Err(source)) => error.with_source(source),
                _ => error,
            });
        }
    };
    url_options::refuse_direct(&asked, &hello)?;
    let is_replicated = is_replicated(&hello);
    let capabilities = Capabilities::new(is_replicated)
        .with_change_streams(is_replicated)
        .with_sharding(is_router(&hello));
    let majority = is_replicated.then(ReadConcern::majority);
    let internal = DatabaseOptions::builder()
        .read_concern(majority.clone())
        .build();
    options.selection_criteria = asked.selection_criteria.clone();
    let own = DatabaseOptions::builder()
        .selection_criteria(asked.selection_criteria)
        .read_concern(asked.read_concern.or(majority))
        .build();
    Ok(Connected {
        database: client.database_with_options(&name, internal),
        client_reads: client.database_with_options(&name, own),
        transactions: apart.database(&name),
        capabilities,
        options,
    })
}

/// Whether it is a member of a replica set, or the router of a sharded cluster.
fn is_replicated(hello: &Document) -> bool {
    hello.contains_key("setName") || is_router(hello)
}

/// Whether it is the router of a sharded cluster.
fn is_router(hello: &Document) -> bool {
    hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid")
}

/// The addresses in the URL, without user and password.
fn hosts(options: &ClientOptions) -> String {
    let hosts: Vec<_> = options.hosts.iter().map(ToString::to_string).collect();
    hosts.join(",")
}

async fn parse(url: &str) -> Result<ClientOptions> {
    url_options::refuse_names(url)?;
    let parsed = parse_with_driver(url.to_owned()).await?;
    let Err(failure) = parsed else {
        return parsed.map_err(invalid_url);
    };
    if let Some(error) = url_options::missing_feature(url, &failure.to_string()) {
        return Err(error);
    }
    let Some(without_user) = without_user(url) else {
        return Err(invalid_url(failure));
    };
    // The driver's message may quote any part of the URL, the password too, so the one to show is of a URL without it.
    let parsed = parse_with_driver(without_user).await?;
    Err(match parsed {
        Err(failure) => invalid_url(failure),
        Ok(_) => Error::new(
            ErrorKind::InvalidUrl,
            "the user name or the password in the URL is malformed: the characters `: / ? # [ ] @ %` are written \
             percent-encoded, such as `%40` for `@`",
        ),
    })
}

async fn parse_with_driver(url: String) -> Result<::mongodb::error::Result<ClientOptions>> {
    task::finish(async move { Ok(ClientOptions::parse(url).await) }).await
}

/// The same URL without user and password, if it has them.
fn without_user(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (_, rest) = rest.rsplit_once('@')?;
    Some(format!("{scheme}://{rest}"))
}

fn invalid_url(failure: ::mongodb::error::Error) -> Error {
    match *failure.kind {
        ::mongodb::error::ErrorKind::InvalidArgument { ref message, .. } => Error::new(
            ErrorKind::InvalidUrl,
            format!("not a URL for MongoDB: {message}"),
        ),
        ::mongodb::error::ErrorKind::InvalidTlsConfig { ref message, .. } => Error::new(
            ErrorKind::InvalidUrl,
            format!("the URL's TLS options do not work: {message}"),
        ),
        _ => error::from_driver(failure),
    }
}

/// The last reason that the driver's monitor gave for a server being down.
///
/// The driver tells it together with the timeout of an operation only, which is longer than [`PATIENCE`].
#[derive(Clone, Default)]
struct Complaint(Arc<Mutex<Option<String>>>);

impl Complaint {
    fn listen(options: &mut ClientOptions) -> Self {
        let complaint = Self::default();
        let heard = complaint.clone();
        options.sdam_event_handler = Some(EventHandler::callback(move |event| {
            if let SdamEvent::ServerHeartbeatFailed(failed) = event {
                let mut last = heard.0.lock().unwrap_or_else(PoisonError::into_inner);
                *last = Some(failed.failure.kind.to_string());
            }
        }));
        complaint
    }

    /// In brackets, to be added to a message.
    fn last(&self) -> String {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref()
            .map_or_else(String::new, |reason| format!(" ({reason})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_with_any_character_is_cut_off() {
        for url in [
            "mongodb://alex:se:cret@host/shop",
            "mongodb://alex:s@cret?@host/shop",
            "mongodb://alex:s/e/cret@host/shop",
        ] {
            assert_eq!(without_user(url).as_deref(), Some("mongodb://host/shop"));
        }
        assert_eq!(without_user("mongodb://host/shop"), None);
    }
}
