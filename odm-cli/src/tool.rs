//! The commands of an application that has the models.

use std::ffi::OsString;
use std::marker::PhantomData;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use odm::Schema;

use crate::arguments::Command;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::runtime::runtime;
use crate::schema::json_schema::ModelSchema;
use crate::{command, finish, schema};

/// The environment variable with the URL of the database.
const URL_VARIABLE: &str = "DATABASE_URL";

/// Runs the commands of an application with the models of the schema `S`, and the commands of the program `odm`. Reads the arguments
/// of the process.
///
/// ```no_run
/// use odm::prelude::*;
///
/// #[derive(Serialize, Deserialize, Document)]
/// #[document(collection = "parts")]
/// struct Part { #[serde(rename = "_id")] id: i64, name: String }
///
/// #[derive(Schema)]
/// #[schema(models(Part))]
/// struct Shop;
///
/// fn main() -> std::process::ExitCode {
///     odm_cli::run::<Shop>() // `shop-admin check --database odm:shop.odm`
/// }
/// ```
pub fn run<S: Schema>() -> ExitCode {
    Tool::<S>::new().run()
}

/// The commands of an application with the models of the schema `S`. [`run`] is the short form.
#[must_use = "no command runs until `run` is called"]
pub struct Tool<S> {
    json_schemas: Vec<ModelSchema>,
    of: PhantomData<fn() -> S>,
}

impl<S: Schema> Tool<S> {
    /// Creates the commands, without JSON Schemas.
    pub fn new() -> Self {
        Self {
            json_schemas: Vec::new(),
            of: PhantomData,
        }
    }

    /// Adds a model to the output of the command `schema`.
    #[cfg(feature = "schemars")]
    pub fn json_schema<T: odm::Document + schemars::JsonSchema>(mut self) -> Self {
        let schema = || schemars::schema_for!(T).to_value();
        self.json_schemas.push((T::MODEL.name, schema));
        self
    }

    /// Runs the command of the arguments of the process. Writes to the standard output and the standard error.
    pub fn run(self) -> ExitCode {
        self.run_with(std::env::args_os())
    }

    /// Runs the command of these arguments, which start with the name of the program.
    pub fn run_with(
        self,
        arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> ExitCode {
        let arguments = match ToolArguments::try_parse_from(arguments) {
            Ok(arguments) => arguments,
            Err(error) => return crate::usage(&error),
        };
        let mut output = Output::new(arguments.json);
        let done = self.run_command(arguments, &mut output);
        finish(done, output)
    }

    fn run_command(&self, arguments: ToolArguments, output: &mut Output) -> Result<()> {
        let command = match arguments.command {
            ToolCommand::Files(command) => return command::run(command, output),
            ToolCommand::Diagram { svg } => return schema::diagram::run(S::MODELS, svg, output),
            ToolCommand::Schema => return schema::json_schema::run(&self.json_schemas, output),
            ToolCommand::Database(command) => command,
        };
        let url = arguments
            .database
            .or_else(|| std::env::var(URL_VARIABLE).ok());
        let url = url.ok_or_else(|| {
            let message =
                format!("name the database with --database URL, or in the variable {URL_VARIABLE}");
            Failure::Usage(message)
        })?;
        runtime()?.block_on(async {
            let database = odm::Database::<S>::open(&url)
                .await
                .map_err(Failure::opening)?;
            let done = schema::run(command, &database, output).await;
            let closed = database.close().await;
            done?;
            Ok(closed?)
        })
    }
}

impl<S: Schema> Default for Tool<S> {
    fn default() -> Self {
        Self::new()
    }
}

/// Works on the database of an application, with its models.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct ToolArguments {
    /// Writes the result as JSON.
    #[arg(long, global = true)]
    json: bool,
    /// The URL of the database: odm:path/to/file or mongodb://host/database. The default is the variable DATABASE_URL.
    #[arg(long, global = true, value_name = "URL")]
    database: Option<String>,
    #[command(subcommand)]
    command: ToolCommand,
}

#[derive(Debug, Subcommand)]
enum ToolCommand {
    #[command(flatten)]
    Database(SchemaCommand),
    /// Prints the models, their references and their derived data, as a Mermaid diagram.
    Diagram {
        /// Prints an SVG image.
        #[arg(long)]
        svg: bool,
    },
    /// Prints the JSON Schema of the models.
    Schema,
    #[command(flatten)]
    Files(Command),
}

/// A command on a database with models.
#[derive(Debug, Subcommand)]
pub(crate) enum SchemaCommand {
    /// Compares all documents with the models. The exit code is 1 if there are findings.
    Check,
    /// Repairs the findings of `check` that the models determine. The exit code is 1 if a finding remains.
    Repair {
        /// Prints the repairs, and writes nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Creates the declared indexes, and reports different and undeclared indexes.
    SyncIndexes {
        /// Prints the changes, and writes nothing.
        #[arg(long)]
        dry_run: bool,
        /// Replaces indexes that differ from their declaration.
        #[arg(long)]
        replace_differing: bool,
        /// Drops indexes that no model declares.
        #[arg(long)]
        drop_undeclared: bool,
    },
    /// Upgrades the documents of older schema versions. The exit code is 1 if a document cannot be upgraded.
    Upgrade {
        /// Counts the outdated documents, and writes nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Prints the pending work. The exit code is 1 if work is pending.
    Pending,
    /// Completes the pending work of processes that have died.
    RunPending {
        /// Prints the pending work, and writes nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Fills derived fields that are new, or that have a changed declaration.
    Backfill {
        /// Prints the fields, and writes nothing. The exit code is 1 if a field needs a backfill.
        #[arg(long)]
        dry_run: bool,
    },
    /// Prints the lengths of the overflow arrays, with a histogram and a proposal.
    Arrays,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        ToolArguments::command().debug_assert();
    }
}
