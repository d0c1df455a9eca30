//! `{ dbStats: 1 }`: the sizes of a database. Reads all collections of the database.

use bson::{RawDocumentBuf, rawdoc};

use super::coll_stats::take_scale;
use super::{Command, long};
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::Result;

pub(super) const COMMAND: Command = Command::read("dbStats", run).with_aliases(&["dbstats"]);

fn run(operation: &Operation, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    arguments.accept(&["dbStats", "freeStorage"]);
    let scale = take_scale(&mut arguments)?;
    arguments.finish()?;
    let database = operation.options.database.as_str();
    let (mut collections, mut documents, mut bytes) = (0_u64, 0, 0);
    let (mut indexes, mut index_bytes) = (0, 0);
    for (_, name) in operation.collections(database)? {
        // A collection may have been dropped in between.
        if let Some(sizes) = operation.database().collection_stats(&name)? {
            collections += 1;
            documents += sizes.documents;
            bytes += sizes.document_bytes;
            indexes += sizes.indexes.len() as u64;
            index_bytes += sizes
                .indexes
                .iter()
                .map(|index| index.entry_bytes)
                .sum::<u64>();
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "an average is not exact")]
    let average = if documents == 0 {
        0.0
    } else {
        bytes as f64 / documents as f64
    };
    Ok(rawdoc! {
        "db": database,
        "collections": long(collections),
        "views": 0_i64,
        "objects": long(documents),
        "avgObjSize": average,
        "dataSize": long(bytes / scale),
        "storageSize": long(bytes / scale),
        "indexes": long(indexes),
        "indexSize": long(index_bytes / scale),
        "totalSize": long((bytes + index_bytes) / scale),
        "scaleFactor": long(scale),
    })
}
