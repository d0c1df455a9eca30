use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::place::Place;

/// Works on files of the embedded engine, without a schema.
///
/// Commands that only read leave the file unchanged. No other process may have the file open for writes.
#[derive(Debug, Parser)]
#[command(name = "odm", version, max_term_width = 100)]
pub(crate) struct Arguments {
    /// Writes the result as JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Prints the sizes of the file, the collections and the indexes. Reads the whole file.
    Stats { file: PathBuf },
    /// Lists the collections.
    Collections { file: PathBuf },
    /// Lists the indexes of all collections, or of one collection.
    Indexes {
        file: PathBuf,
        collection: Option<String>,
    },
    /// Prints the matching documents as relaxed extended JSON, one document on each line.
    Find(FindArguments),
    /// Counts the matching documents.
    Count {
        file: PathBuf,
        collection: String,
        /// A filter in extended JSON, such as '{"age": {"$gt": 30}}'. Matches all documents by default.
        filter: Option<String>,
    },
    /// Shows how a query finds its documents, and what the query costs.
    Explain {
        file: PathBuf,
        collection: String,
        /// A filter in extended JSON.
        filter: String,
    },
    /// Runs an aggregation pipeline.
    Aggregate {
        file: PathBuf,
        collection: String,
        /// An array of stages in extended JSON, such as '[{"$group": {"_id": "$city"}}]'.
        pipeline: String,
    },
    /// Checks all documents and index entries. The exit code is 1 if the file is damaged.
    Validate { file: PathBuf },
    /// Copies the database into a new file.
    Backup { file: PathBuf, copy: PathBuf },
    /// Gives the space of deleted documents back to the file system. Needs room for a second file.
    Compact { file: PathBuf },
    /// Copies a whole database into an empty database: a file to MongoDB, MongoDB to a file, or between databases of a kind.
    /// After a failure, the same command continues.
    Copy(CopyArguments),
    /// Writes the documents and indexes in the form of mongodump: DIRECTORY/DATABASE/COLLECTION.bson.
    Dump(DumpArguments),
    /// Inserts the documents and creates the indexes of a dump of mongodump or of `odm dump`. Checks the whole dump first, in a
    /// temporary database beside the file.
    Restore(RestoreArguments),
    /// Prints all documents of a collection as JSON lines or as CSV.
    Export(ExportArguments),
    /// Serves the file to the shells, tools and drivers of MongoDB, on a port of this machine. Read-only by default.
    Serve(Box<ServeArguments>),
}

#[derive(Debug, Args)]
pub(crate) struct FindArguments {
    pub(crate) file: PathBuf,
    pub(crate) collection: String,
    /// A filter in extended JSON, such as '{"age": {"$gt": 30}}'. Matches all documents by default.
    pub(crate) filter: Option<String>,
    /// The order, such as '{"age": -1}'.
    #[arg(long)]
    pub(crate) sort: Option<String>,
    /// The fields to print, such as '{"name": 1}'.
    #[arg(long)]
    pub(crate) project: Option<String>,
    /// The largest number of documents.
    #[arg(long)]
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct CopyArguments {
    /// The source: a file, or the URL of a MongoDB database. No program may have the file open for writes.
    pub(crate) from: Place,
    /// The target: a file, which is created, or the URL of an empty MongoDB database. No other program may use the target
    /// during the copy.
    pub(crate) to: Place,
    /// Opens no change stream. No program may write the MongoDB source during the copy. A standalone server needs the option.
    #[arg(long)]
    pub(crate) quiescent: bool,
    /// Follows the writes to the MongoDB source until Ctrl-C, and then finishes. Stop the writers before Ctrl-C.
    #[arg(long, conflicts_with = "quiescent")]
    pub(crate) follow: bool,
    /// Leaves out options, indexes and views that the target cannot store.
    #[arg(long)]
    pub(crate) skip_unsupported: bool,
    /// Discards an unfinished copy in the target, and starts at the beginning.
    #[arg(long)]
    pub(crate) restart: bool,
    /// Checks both databases, and prints the collections to copy. Writes nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DumpArguments {
    /// The file, or the URL of a MongoDB database.
    pub(crate) from: Place,
    pub(crate) directory: PathBuf,
    /// Dumps only this collection.
    #[arg(long)]
    pub(crate) collection: Option<String>,
    /// The name of the database, which is a folder of the dump. The default is the name of the file without its extension,
    /// or the name in the URL.
    #[arg(long)]
    pub(crate) database: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArguments {
    /// The file, which is created if it does not exist, or the URL of a MongoDB database.
    pub(crate) to: Place,
    pub(crate) directory: PathBuf,
    /// Drops each collection of the dump before the restore.
    #[arg(long)]
    pub(crate) drop: bool,
    /// Checks the dump as a restore does before the first write, and leaves the file unchanged.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The database to restore, if the dump has several databases.
    #[arg(long)]
    pub(crate) database: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// The file, or the URL of a MongoDB database.
    pub(crate) from: Place,
    pub(crate) collection: String,
    #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
    pub(crate) format: ExportFormat,
    /// The fields as dotted paths, separated by commas, such as `_id,address.city`. CSV needs fields.
    #[arg(long, value_delimiter = ',')]
    pub(crate) fields: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    pub(crate) file: PathBuf,
    /// The address and the port. An address other than loopback needs a user.
    #[arg(long, default_value = "127.0.0.1:27017")]
    pub(crate) listen: SocketAddr,
    /// Allows clients to write. Creates the file if the file does not exist.
    #[arg(long)]
    pub(crate) write: bool,
    /// The name of the database with the collections of the file. The default is the name of the file without its extension.
    #[arg(long)]
    pub(crate) database: Option<String>,
    /// The name of the user. Clients authenticate as this user by SCRAM-SHA-256.
    #[arg(long, requires = "password_file")]
    pub(crate) user: Option<String>,
    /// A file with the password of the user in its first line.
    #[arg(long, requires = "user")]
    pub(crate) password_file: Option<PathBuf>,
    /// A file in the form PEM with the certificate of the server, and certificates of its authorities. Clients connect with
    /// `tls=true`.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// A file in the form PEM with the private key of the certificate.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The address under which clients reach the server, if it differs from the address to which they connect.
    #[arg(long)]
    pub(crate) advertise: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Relaxed extended JSON, one document on each line.
    Jsonl,
    /// Comma-separated values, with a line of the field names first.
    Csv,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }
}
