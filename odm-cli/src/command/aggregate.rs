use std::path::Path;

use odm_engine::Aggregate;

use super::{open_collection, print_documents};
use crate::extended_json::parse_documents;
use crate::failure::Result;
use crate::output::Output;

pub(super) fn run(
    file: &Path,
    collection: &str,
    pipeline: &str,
    output: &mut Output,
) -> Result<()> {
    let aggregate = Aggregate {
        pipeline: parse_documents("pipeline", pipeline)?,
        ..Aggregate::default()
    };
    let database = open_collection(file, collection)?;
    print_documents(database.aggregate(collection, &aggregate)?, output)
}
