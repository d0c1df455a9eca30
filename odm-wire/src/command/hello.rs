//! `{ hello: 1 }` and `{ isMaster: 1 }`: the kind and the limits of the server.
//!
//! The server is the primary of a replica set with one member, because drivers use transactions and change streams only there.

use bson::{DateTime, RawArrayBuf, RawDocumentBuf, raw::cstr, rawdoc};

use super::sasl::{self, SaslStart};
use super::{Access, Command};
use crate::arguments::Arguments;
use crate::dispatch::InlineCall;
use crate::error::{CommandError, Result};
use crate::message::MAX_MESSAGE_BYTES;
use crate::scram;
use crate::session::SESSION_TIMEOUT_MINUTES;

pub(super) const HELLO: Command = Command::inline("hello", Access::Anyone, run_hello);
pub(super) const IS_MASTER: Command =
    Command::inline("isMaster", Access::Anyone, run_is_master).with_aliases(&["ismaster"]);

/// The maximum size of a document, as on MongoDB.
pub(super) const MAX_DOCUMENT_BYTES: i32 = 16 << 20;

/// The maximum number of writes in a command, as on MongoDB.
pub(super) const MAX_WRITES: i32 = 100_000;

/// The wire version of MongoDB 6.0.
const WIRE_VERSION: i32 = 17;

/// The name of the replica set.
pub(super) const SET_NAME: &str = "odm";

/// Whether a command is one that drivers send as the first message, in the format of old servers.
pub(crate) fn is_hello(command: &Command) -> bool {
    command.name == HELLO.name || command.name == IS_MASTER.name
}

fn run_hello(call: InlineCall<'_>, arguments: Arguments) -> Result<RawDocumentBuf> {
    run(call, arguments, "hello")
}

fn run_is_master(call: InlineCall<'_>, arguments: Arguments) -> Result<RawDocumentBuf> {
    run(call, arguments, "isMaster")
}

fn run(call: InlineCall<'_>, mut arguments: Arguments, name: &str) -> Result<RawDocumentBuf> {
    if arguments.value("topologyVersion").is_some() {
        let message = "the server has no topology version, so a client cannot wait for a change";
        return Err(CommandError::bad_value(message));
    }
    let mechanisms_of = arguments.text("saslSupportedMechs")?;
    let speculative = arguments.document("speculativeAuthenticate")?;
    // The remaining arguments announce abilities of the client, such as compression. Newer drivers announce more abilities, so an
    // unknown argument is no error. The reply lists the abilities that the server has.
    let server = call.server;
    let address = server.advertised.clone();
    let address = address.unwrap_or_else(|| call.connection.local.to_string());
    let mut reply = rawdoc! {};
    if name == "isMaster" {
        reply.append(cstr!("ismaster"), true);
    } else {
        reply.append(cstr!("isWritablePrimary"), true);
    }
    reply.append(cstr!("helloOk"), true);
    reply.append(cstr!("secondary"), false);
    let hosts: RawArrayBuf = [address.as_str()].into_iter().collect();
    reply.append(cstr!("hosts"), hosts);
    reply.append(cstr!("setName"), SET_NAME);
    reply.append(cstr!("setVersion"), 1);
    reply.append(cstr!("primary"), address.as_str());
    reply.append(cstr!("me"), address.as_str());
    reply.append(cstr!("maxBsonObjectSize"), MAX_DOCUMENT_BYTES);
    let max_message = i32::try_from(MAX_MESSAGE_BYTES).unwrap_or(i32::MAX);
    reply.append(cstr!("maxMessageSizeBytes"), max_message);
    reply.append(cstr!("maxWriteBatchSize"), MAX_WRITES);
    reply.append(cstr!("localTime"), DateTime::now());
    let minutes = i32::try_from(SESSION_TIMEOUT_MINUTES).unwrap_or(i32::MAX);
    reply.append(cstr!("logicalSessionTimeoutMinutes"), minutes);
    let id = i32::try_from(call.connection.id).unwrap_or(i32::MAX);
    reply.append(cstr!("connectionId"), id);
    reply.append(cstr!("minWireVersion"), 0);
    reply.append(cstr!("maxWireVersion"), WIRE_VERSION);
    reply.append(cstr!("readOnly"), !server.allows_writes);
    if mechanisms_of.is_some() && server.credentials.is_some() {
        // The same for unknown users, so that a client cannot find out the names of users.
        let mechanisms: RawArrayBuf = [scram::MECHANISM].into_iter().collect();
        reply.append(cstr!("saslSupportedMechs"), mechanisms);
    }
    if let (Some(start), Some(_)) = (speculative, &server.credentials)
        && let Ok(started) = SaslStart::parse(Arguments::nested("saslStart", &start)?)
            .and_then(|start| sasl::start(call.connection, server, start))
    {
        reply.append(cstr!("speculativeAuthenticate"), started);
    }
    Ok(reply)
}
