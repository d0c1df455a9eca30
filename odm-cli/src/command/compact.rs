use std::path::Path;

use odm_engine::Database;
use serde_json::json;

use super::open_read_only;
use crate::failure::Result;
use crate::output::Output;
use crate::text::format_bytes;

pub(super) fn run(file: &Path, output: &mut Output) -> Result<()> {
    // Tells a file that cannot be opened from a failed compaction.
    open_read_only(file)?.close();
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
