//! `{ listCommands: 1 }`: the names of the commands.

use bson::{RawDocumentBuf, raw::CString, rawdoc};

use super::{Access, COMMANDS, Command};
use crate::arguments::Arguments;
use crate::dispatch::InlineCall;
use crate::error::Result;

pub(super) const COMMAND: Command = Command::inline("listCommands", Access::Read, run);

fn run(_: InlineCall<'_>, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    arguments.accept(&["listCommands"]);
    arguments.finish()?;
    let mut commands = RawDocumentBuf::new();
    for command in COMMANDS {
        let requires_auth = command.access != Access::Anyone;
        let writes = command.access == Access::Write;
        let description = rawdoc! { "requiresAuth": requires_auth, "writes": writes };
        commands.append(CString::try_from(command.name)?, description);
    }
    Ok(rawdoc! { "commands": commands })
}
