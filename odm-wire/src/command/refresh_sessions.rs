//! `{ refreshSessions: [{ id: … }] }`: keeps sessions open, and their cursors with `noCursorTimeout`.

use bson::RawDocumentBuf;

use super::end_sessions::take_sessions;
use super::{Access, Command};
use crate::arguments::Arguments;
use crate::dispatch::InlineCall;
use crate::error::Result;

pub(super) const COMMAND: Command = Command::inline("refreshSessions", Access::Read, run);

fn run(call: InlineCall<'_>, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    let ids = take_sessions(&mut arguments, "refreshSessions")?;
    arguments.finish()?;
    call.server.sessions.refresh(&ids);
    call.server.cursors.refresh_in_sessions(&ids);
    Ok(RawDocumentBuf::new())
}
