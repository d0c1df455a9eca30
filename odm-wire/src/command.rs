//! The commands, one file each.

mod abort_transaction;
mod aggregate;
mod build_info;
mod coll_mod;
mod coll_stats;
pub(crate) mod commit_transaction;
mod connection_status;
mod count;
mod create;
mod create_indexes;
mod db_stats;
mod delete;
mod distinct;
mod drop;
mod drop_database;
mod drop_indexes;
mod end_sessions;
mod explain;
mod find;
mod find_and_modify;
mod get_cmd_line_opts;
mod get_log;
pub(crate) mod get_more;
mod get_parameter;
pub(crate) mod hello;
mod host_info;
mod insert;
mod kill_cursors;
mod list_collections;
mod list_commands;
mod list_databases;
mod list_indexes;
mod list_local_sessions;
mod logout;
mod ping;
mod refresh_sessions;
mod sasl;
mod server_status;
mod set_parameter;
mod start_session;
mod update;
mod validate;
mod whats_my_uri;
mod write;

use bson::{RawBson, RawDocumentBuf};

use crate::arguments::Arguments;
use crate::dispatch::{InlineCall, Operation};
use crate::error::{CommandError, Result, code};

/// A command that clients can call.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// Further names, in lower case: names of earlier servers.
    aliases: &'static [&'static str],
    pub(crate) access: Access,
    /// Whether a transaction can have the command.
    pub(crate) in_transaction: bool,
    /// Whether the command ends a transaction.
    pub(crate) ends_transaction: bool,
    /// Whether the command can read a snapshot outside of a transaction.
    pub(crate) reads_snapshots: bool,
    /// Whether a driver sends the command again after a failure of the network.
    pub(crate) is_retryable: bool,
    pub(crate) run: Run,
}

/// Who may call a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Every client, also before the authentication.
    Anyone,
    /// Authenticated clients.
    Read,
    /// Authenticated clients of a server that allows writes.
    Write,
}

/// How a command runs.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// On the thread of the connection.
    Inline(fn(InlineCall<'_>, Arguments) -> Result<RawDocumentBuf>),
    /// On a thread for blocking work.
    Blocking(fn(&Operation, Arguments) -> Result<RawDocumentBuf>),
    /// As `getMore`, which may wait for events.
    GetMore,
}

impl Command {
    const fn new(name: &'static str, access: Access, run: Run) -> Command {
        Command {
            name,
            aliases: &[],
            access,
            in_transaction: false,
            ends_transaction: false,
            reads_snapshots: false,
            is_retryable: false,
            run,
        }
    }

    /// Returns a command that answers without the engine.
    const fn inline(
        name: &'static str,
        access: Access,
        run: fn(InlineCall<'_>, Arguments) -> Result<RawDocumentBuf>,
    ) -> Command {
        Command::new(name, access, Run::Inline(run))
    }

    const fn read(
        name: &'static str,
        run: fn(&Operation, Arguments) -> Result<RawDocumentBuf>,
    ) -> Command {
        Command::new(name, Access::Read, Run::Blocking(run))
    }

    const fn write(
        name: &'static str,
        run: fn(&Operation, Arguments) -> Result<RawDocumentBuf>,
    ) -> Command {
        Command::new(name, Access::Write, Run::Blocking(run))
    }

    const fn with_aliases(mut self, aliases: &'static [&'static str]) -> Command {
        self.aliases = aliases;
        self
    }

    const fn in_transaction(mut self) -> Command {
        self.in_transaction = true;
        self
    }

    const fn ends_transaction(mut self) -> Command {
        self.in_transaction = true;
        self.ends_transaction = true;
        self
    }

    const fn with_snapshots(mut self) -> Command {
        self.reads_snapshots = true;
        self
    }

    const fn retryable(mut self) -> Command {
        self.is_retryable = true;
        self
    }
}

/// The commands, sorted by name.
const COMMANDS: &[&Command] = &[
    &abort_transaction::COMMAND,
    &aggregate::COMMAND,
    &build_info::COMMAND,
    &coll_mod::COMMAND,
    &coll_stats::COMMAND,
    &commit_transaction::COMMAND,
    &connection_status::COMMAND,
    &count::COMMAND,
    &create::COMMAND,
    &create_indexes::COMMAND,
    &db_stats::COMMAND,
    &delete::COMMAND,
    &distinct::COMMAND,
    &drop::COMMAND,
    &drop_database::COMMAND,
    &drop_indexes::COMMAND,
    &end_sessions::COMMAND,
    &explain::COMMAND,
    &find::COMMAND,
    &find_and_modify::COMMAND,
    &get_cmd_line_opts::COMMAND,
    &get_log::COMMAND,
    &get_more::COMMAND,
    &get_parameter::COMMAND,
    &hello::HELLO,
    &host_info::COMMAND,
    &insert::COMMAND,
    &hello::IS_MASTER,
    &kill_cursors::COMMAND,
    &list_collections::COMMAND,
    &list_commands::COMMAND,
    &list_databases::COMMAND,
    &list_indexes::COMMAND,
    &logout::COMMAND,
    &ping::COMMAND,
    &refresh_sessions::COMMAND,
    &sasl::CONTINUE,
    &sasl::START,
    &server_status::COMMAND,
    &set_parameter::COMMAND,
    &start_session::COMMAND,
    &update::COMMAND,
    &validate::COMMAND,
    &whats_my_uri::COMMAND,
];

/// Commands that a MongoDB server has and this server lacks, sorted by name.
const UNSUPPORTED_COMMANDS: &[&str] = &[
    "applyOps",
    "cloneCollectionAsCapped",
    "compact",
    "convertToCapped",
    "createRole",
    "createUser",
    "currentOp",
    "dropUser",
    "fsync",
    "killOp",
    "mapReduce",
    "profile",
    "renameCollection",
    "replSetGetStatus",
    "shutdown",
    "updateUser",
    "usersInfo",
];

/// Returns a command by its name.
///
/// # Errors
/// The command is unknown or not supported.
pub(crate) fn find(name: &str) -> Result<&'static Command> {
    if let Ok(position) = COMMANDS.binary_search_by_key(&name, |command| command.name)
        && let Some(command) = COMMANDS.get(position)
    {
        return Ok(command);
    }
    let lower = name.to_ascii_lowercase();
    let alias = COMMANDS
        .iter()
        .find(|command| command.aliases.contains(&lower.as_str()));
    if let Some(command) = alias {
        return Ok(command);
    }
    let message = match UNSUPPORTED_COMMANDS.contains(&name) {
        true => format!("no such command: '{name}' (not supported)"),
        false => format!("no such command: '{name}'"),
    };
    Err(CommandError::new(code::COMMAND_NOT_FOUND, message))
}

/// Returns a number as MongoDB does: 32 bits if the number fits.
fn number(number: u64) -> RawBson {
    match i32::try_from(number) {
        Ok(number) => RawBson::Int32(number),
        Err(_) => RawBson::Int64(i64::try_from(number).unwrap_or(i64::MAX)),
    }
}

/// Returns a number of documents or bytes with 64 bits.
fn long(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registries_are_sorted() {
        assert!(COMMANDS.is_sorted_by(|a, b| a.name < b.name));
        assert!(UNSUPPORTED_COMMANDS.is_sorted());
    }

    #[test]
    fn commands_have_one_name_or_known_aliases() {
        assert_eq!(find("find").unwrap().name, "find");
        assert_eq!(find("ismaster").unwrap().name, "isMaster");
        assert_eq!(find("findandmodify").unwrap().name, "findAndModify");
        for unknown in ["FIND", "bulkWrite", "renameCollection", ""] {
            let error = find(unknown).err().unwrap();
            assert_eq!(error.code(), code::COMMAND_NOT_FOUND);
            assert!(error.to_string().starts_with("no such command"));
        }
    }
}
