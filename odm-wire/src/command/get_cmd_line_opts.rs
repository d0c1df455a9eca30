//! `{ getCmdLineOpts: 1 }`: the options of the server. Shells ask for them at the start.

use bson::{RawDocumentBuf, rawdoc};

use super::{Access, Command};
use crate::arguments::Arguments;
use crate::dispatch::InlineCall;
use crate::error::Result;

pub(super) const COMMAND: Command =
    Command::inline("getCmdLineOpts", Access::Read, run).with_aliases(&["getcmdlineopts"]);

fn run(call: InlineCall<'_>, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    arguments.accept(&["getCmdLineOpts"]);
    arguments.finish()?;
    let port = i32::from(call.connection.local.port());
    Ok(rawdoc! { "argv": ["odm"], "parsed": { "net": { "port": port } } })
}
