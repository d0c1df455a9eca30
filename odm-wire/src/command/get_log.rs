//! `{ getLog: "startupWarnings" }`: the lines of a log. Shells ask for the warnings at the start. The server keeps no log.

use bson::{RawDocumentBuf, rawdoc};

use super::{Access, Command};
use crate::arguments::Arguments;
use crate::dispatch::InlineCall;
use crate::error::{CommandError, Result, code};

pub(super) const COMMAND: Command = Command::inline("getLog", Access::Read, run);

fn run(_: InlineCall<'_>, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    let log = arguments.required_text("getLog")?;
    arguments.finish()?;
    match log.as_str() {
        "*" => Ok(rawdoc! { "names": ["global", "startupWarnings"] }),
        "global" | "startupWarnings" => Ok(rawdoc! { "totalLinesWritten": 0, "log": [] }),
        _ => Err(CommandError::new(
            code::ILLEGAL_OPERATION,
            format!("No log named '{log}'"),
        )),
    }
}
