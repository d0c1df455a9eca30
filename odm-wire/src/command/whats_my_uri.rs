//! `{ whatsmyuri: 1 }`: the address of the client.

use bson::{RawDocumentBuf, rawdoc};

use super::{Access, Command};
use crate::arguments::Arguments;
use crate::dispatch::InlineCall;
use crate::error::Result;

pub(super) const COMMAND: Command = Command::inline("whatsmyuri", Access::Anyone, run);

fn run(call: InlineCall<'_>, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    arguments.accept(&["whatsmyuri"]);
    arguments.finish()?;
    Ok(rawdoc! { "you": call.connection.peer.to_string() })
}
