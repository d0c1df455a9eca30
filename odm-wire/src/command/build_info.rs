//! `{ buildInfo: 1 }`: the version.

use bson::{RawDocumentBuf, rawdoc};

use super::{Access, Command};
use crate::arguments::Arguments;
use crate::dispatch::InlineCall;
use crate::error::Result;

/// The version of MongoDB that clients see. The engine is tested against recorded answers of this version.
pub(super) const VERSION: &str = "6.0.5";

pub(super) const COMMAND: Command =
    Command::inline("buildInfo", Access::Anyone, run).with_aliases(&["buildinfo"]);

fn run(_: InlineCall<'_>, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    arguments.accept(&["buildInfo"]);
    arguments.finish()?;
    Ok(rawdoc! {
        "version": VERSION,
        "gitVersion": "",
        "modules": [],
        "versionArray": [6, 0, 5, 0],
        "odm": { "version": env!("CARGO_PKG_VERSION") },
        "bits": 64,
        "debug": cfg!(debug_assertions),
        "maxBsonObjectSize": super::hello::MAX_DOCUMENT_BYTES,
        "storageEngines": ["odm"],
    })
}
