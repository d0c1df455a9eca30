use std::fs;
use std::path::Path;

use serde_json::json;

use super::open_read_only;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::text::format_bytes;

pub(super) fn run(file: &Path, copy: &Path, output: &mut Output) -> Result<()> {
    open_read_only(file)?.backup(copy)?;
    let metadata = fs::metadata(copy);
    let bytes = metadata
        .map_err(|error| Failure::io("cannot read", copy, &error))?
        .len();
    match output.is_json() {
        true => output.json_line(&json!({ "copy": copy.to_string_lossy(), "bytes": bytes })),
        false => output.line(format_args!("{}: {}", copy.display(), format_bytes(bytes))),
    }
}
