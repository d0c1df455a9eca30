//! `{ getParameter: 1, featureCompatibilityVersion: 1 }`: parameters of the server.

use bson::{RawBson, RawDocumentBuf, raw::cstr, rawdoc};

use super::{Access, Command};
use crate::arguments::Arguments;
use crate::dispatch::InlineCall;
use crate::error::{CommandError, Result, code};

pub(super) const COMMAND: Command = Command::inline("getParameter", Access::Read, run);

fn run(_: InlineCall<'_>, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    let all = arguments.value("getParameter");
    let is_all = all == Some(RawBson::String("*".to_owned()));
    let mut reply = RawDocumentBuf::new();
    if is_all | arguments.value("enableTestCommands").is_some() {
        reply.append(cstr!("enableTestCommands"), false);
    }
    if is_all | arguments.value("featureCompatibilityVersion").is_some() {
        let version = rawdoc! { "version": "6.0" };
        reply.append(cstr!("featureCompatibilityVersion"), version);
    }
    if reply.is_empty() || arguments.finish().is_err() {
        let message = "no option found to get; the server has only `enableTestCommands` and `featureCompatibilityVersion`";
        return Err(CommandError::new(code::INVALID_OPTIONS, message));
    }
    Ok(reply)
}
