use std::path::Path;

use serde_json::json;

use super::open_read_only;
use crate::failure::Result;
use crate::output::Output;

pub(super) fn run(file: &Path, output: &mut Output) -> Result<()> {
    let names = open_read_only(file)?.list_collections()?;
    if output.is_json() {
        return output.json_line(&json!(names));
    }
    names.iter().try_for_each(|name| output.line(name))
}
