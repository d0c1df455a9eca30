//! `{ getParameter: 1, featureCompatibilityVersion: 1 }`: parameters of the server.

use bson::{RawDocumentBuf, rawdoc};

use super::{Access, Command};
use crate::arguments::Arguments;
use crate::dispatch::InlineCall;
use crate::error::{CommandError, Result, code};

pub(super) const COMMAND: Command = Command::inline("getParameter", Access::Read, run);

fn run(_: InlineCall<'_>, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    let all = arguments.value("getParameter");
    let is_all = all == Some(bson::RawBson::String("*".to_owned()));
    let is_requested = arguments.value("featureCompatibilityVersion").is_some();
    if !(is_all || is_requested) || arguments.finish().is_err() {
        let message = "no option found to get; the server has only `featureCompatibilityVersion`";
        return Err(CommandError::new(code::INVALID_OPTIONS, message));
    }
    Ok(rawdoc! { "featureCompatibilityVersion": { "version": "6.0" } })
}
