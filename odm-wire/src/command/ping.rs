//! `{ ping: 1 }`: whether the server answers.

use bson::RawDocumentBuf;

use super::{Access, Command};
use crate::arguments::Arguments;
use crate::dispatch::InlineCall;
use crate::error::Result;

pub(super) const COMMAND: Command = Command::inline("ping", Access::Anyone, run);

fn run(_: InlineCall<'_>, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    arguments.accept(&["ping"]);
    arguments.finish()?;
    Ok(RawDocumentBuf::new())
}
