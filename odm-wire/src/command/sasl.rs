//! `saslStart` and `saslContinue`: the authentication of a client.

use bson::{Binary, RawBson, RawDocumentBuf, rawdoc, spec::BinarySubtype};

use super::{Access, Command};
use crate::arguments::Arguments;
use crate::connection::{Authentication, ConnectionState};
use crate::dispatch::InlineCall;
use crate::error::{CommandError, Result, code};
use crate::scram::{Conversation, MECHANISM};
use crate::server::ServerState;

pub(super) const START: Command = Command::inline("saslStart", Access::Anyone, run_start);
pub(super) const CONTINUE: Command = Command::inline("saslContinue", Access::Anyone, run_continue);

/// The number of the conversation: a connection has one at a time.
const CONVERSATION: i32 = 1;

/// The arguments of `saslStart`.
pub(super) struct SaslStart {
    payload: Vec<u8>,
    skips_empty_exchange: bool,
}

impl SaslStart {
    pub(super) fn parse(mut arguments: Arguments) -> Result<SaslStart> {
        // The database of the user: the server has one user for all databases.
        arguments.accept(&["saslStart", "db", "autoAuthorize"]);
        let mechanism = arguments.required_text("mechanism")?;
        if mechanism != MECHANISM {
            let message = format!(
                "Received authentication for mechanism {mechanism} which is not enabled; use {MECHANISM}"
            );
            return Err(CommandError::new(code::MECHANISM_UNAVAILABLE, message));
        }
        let payload = take_payload(&mut arguments)?;
        let mut skips_empty_exchange = false;
        if let Some(options) = arguments.document("options")? {
            let mut options = Arguments::nested("options", &options)?;
            skips_empty_exchange = options.flag("skipEmptyExchange")?;
            options.finish()?;
        }
        arguments.finish()?;
        Ok(SaslStart {
            payload,
            skips_empty_exchange,
        })
    }
}

fn run_start(call: InlineCall<'_>, arguments: Arguments) -> Result<RawDocumentBuf> {
    start(call.connection, call.server, SaslStart::parse(arguments)?)
}

/// Begins an authentication.
///
/// # Errors
/// The server has no user; a malformed message.
pub(super) fn start(
    connection: &mut ConnectionState,
    server: &ServerState,
    start: SaslStart,
) -> Result<RawDocumentBuf> {
    connection.authentication = None;
    let Some(credentials) = &server.credentials else {
        let message = "Authentication failed: the server has no users; connect without a user";
        return Err(CommandError::new(code::AUTHENTICATION_FAILED, message));
    };
    let (conversation, reply) = Conversation::begin(credentials, &start.payload)?;
    connection.authentication = Some(Authentication {
        conversation: Some(conversation),
        skips_empty_exchange: start.skips_empty_exchange,
    });
    Ok(to_reply(reply, false))
}

fn run_continue(call: InlineCall<'_>, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    arguments.accept(&["saslContinue"]);
    let number = arguments.integer("conversationId")?;
    let payload = take_payload(&mut arguments)?;
    arguments.finish()?;
    // An error ends the authentication.
    let authentication = call.connection.authentication.take();
    let Some(authentication) = authentication.filter(|_| number == Some(CONVERSATION.into()))
    else {
        let message = "No SASL session state found";
        return Err(CommandError::new(code::PROTOCOL_ERROR, message));
    };
    let Some(conversation) = authentication.conversation else {
        // The empty exchange after the proof.
        call.connection.is_authenticated = true;
        return Ok(to_reply(String::new(), true));
    };
    let reply = conversation.finish(&payload)?;
    let is_done = authentication.skips_empty_exchange;
    match is_done {
        true => call.connection.is_authenticated = true,
        false => {
            call.connection.authentication = Some(Authentication {
                conversation: None,
                ..authentication
            });
        }
    }
    Ok(to_reply(reply, is_done))
}

fn take_payload(arguments: &mut Arguments) -> Result<Vec<u8>> {
    match arguments.value("payload") {
        Some(RawBson::Binary(payload)) => Ok(payload.bytes),
        Some(RawBson::String(payload)) => Ok(payload.into_bytes()),
        Some(other) => Err(arguments.wrong_type("payload", &other, "binData")),
        None => Err(arguments.missing("payload")),
    }
}

fn to_reply(payload: String, done: bool) -> RawDocumentBuf {
    let payload = Binary {
        subtype: BinarySubtype::Generic,
        bytes: payload.into_bytes(),
    };
    rawdoc! { "conversationId": CONVERSATION, "done": done, "payload": payload }
}
