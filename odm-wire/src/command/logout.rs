//! `{ logout: 1 }`: ends the authentication of the connection.

use bson::RawDocumentBuf;

use super::{Access, Command};
use crate::arguments::Arguments;
use crate::dispatch::InlineCall;
use crate::error::Result;

pub(super) const COMMAND: Command = Command::inline("logout", Access::Anyone, run);

fn run(call: InlineCall<'_>, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    arguments.accept(&["logout"]);
    arguments.finish()?;
    call.connection.is_authenticated = call.server.credentials.is_none();
    call.connection.authentication = None;
    Ok(RawDocumentBuf::new())
}
