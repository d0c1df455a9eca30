//! `{ endSessions: [{ id: … }] }`: ends sessions. Their transactions are aborted, and their cursors are closed.

use bson::RawDocumentBuf;

use super::{Access, Command};
use crate::arguments::Arguments;
use crate::dispatch::InlineCall;
use crate::error::Result;
use crate::request::parse_session_id;
use crate::session::SessionId;

pub(super) const COMMAND: Command = Command::inline("endSessions", Access::Read, run);

fn run(call: InlineCall<'_>, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    let ids = take_sessions(&mut arguments, "endSessions")?;
    arguments.finish()?;
    call.server.sessions.end(&ids);
    call.server.cursors.close_in_sessions(&ids);
    Ok(RawDocumentBuf::new())
}

/// Takes a list of sessions.
pub(super) fn take_sessions(arguments: &mut Arguments, name: &str) -> Result<Vec<SessionId>> {
    let ids = arguments.required_documents(name)?;
    ids.iter().map(|id| parse_session_id(id)).collect()
}
