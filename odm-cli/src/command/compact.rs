use std::fs::File;
use std::path::Path;

use odm_engine::Database;
use serde_json::json;

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::text::format_bytes;

pub(super) fn run(file: &Path, output: &mut Output) -> Result<()> {
    // Tells a file that is missing or may not be written from a failed compaction, which are both errors of I/O.
    let access = File::options().read(true).write(true).open(file);
    access.map_err(|error| Failure::Open(format!("cannot open {}: {error}", file.display())))?;
    let report = Database::compact_file(file)?;
    if output.is_json() {
        return output.json_line(&json!({
            "bytesBefore": report.bytes_before,
            "bytesAfter": report.bytes_after,
        }));
    }
    let [before, after] = [report.bytes_before, report.bytes_after].map(format_bytes);
    output.line(format_args!(
        "{}: {before} before, {after} after",
        file.display()
    ))
}
