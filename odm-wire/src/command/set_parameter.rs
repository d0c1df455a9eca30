//! `{ setParameter: 1, ttlMonitorSleepSecs: 1 }`: how often expired documents are deleted.

use std::time::Duration;

use bson::{RawDocumentBuf, rawdoc};

use super::{Command, long};
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::{CommandError, Result, code};

pub(super) const COMMAND: Command = Command::write("setParameter", run);

fn run(operation: &Operation, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    arguments.accept(&["setParameter"]);
    let seconds = arguments.unsigned("ttlMonitorSleepSecs")?;
    let Some(seconds) = seconds.filter(|seconds| *seconds > 0 && arguments.finish().is_ok()) else {
        let message = "no option found to set; the server has only `ttlMonitorSleepSecs`, from 1";
        return Err(CommandError::new(code::INVALID_OPTIONS, message));
    };
    operation
        .database()
        .set_expiry_period(Duration::from_secs(seconds));
    Ok(rawdoc! { "ttlMonitorSleepSecs": long(seconds) })
}
