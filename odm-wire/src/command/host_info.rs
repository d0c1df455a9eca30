//! `{ hostInfo: 1 }`: the machine.

use std::thread;

use bson::{DateTime, RawDocumentBuf, rawdoc};

use super::{Access, Command, number};
use crate::arguments::Arguments;
use crate::dispatch::InlineCall;
use crate::error::Result;

pub(super) const COMMAND: Command =
    Command::inline("hostInfo", Access::Read, run).with_aliases(&["hostinfo"]);

fn run(call: InlineCall<'_>, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    arguments.accept(&["hostInfo"]);
    arguments.finish()?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    Ok(rawdoc! {
        "system": {
            "currentTime": DateTime::now(),
            "hostname": call.connection.local.to_string(),
            "cpuAddrSize": i32::try_from(usize::BITS).unwrap_or(64),
            "numCores": number(cores as u64),
            "cpuArch": std::env::consts::ARCH,
        },
        "os": { "type": std::env::consts::OS, "name": std::env::consts::OS, "version": "" },
        "extra": {},
    })
}
