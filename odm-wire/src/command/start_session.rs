//! `{ startSession: 1 }`: a new session. Drivers choose the ids of sessions themselves.

use bson::{Binary, RawDocumentBuf, rawdoc, spec::BinarySubtype};

use super::{Access, Command};
use crate::arguments::Arguments;
use crate::dispatch::InlineCall;
use crate::error::Result;
use crate::session::SESSION_TIMEOUT_MINUTES;

pub(super) const COMMAND: Command = Command::inline("startSession", Access::Read, run);

fn run(_: InlineCall<'_>, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    arguments.accept(&["startSession"]);
    arguments.finish()?;
    let id: [u8; 16] = rand::random();
    let id = Binary {
        subtype: BinarySubtype::Uuid,
        bytes: id.to_vec(),
    };
    let minutes = i32::try_from(SESSION_TIMEOUT_MINUTES).unwrap_or(i32::MAX);
    Ok(rawdoc! { "id": { "id": id }, "timeoutMinutes": minutes })
}
