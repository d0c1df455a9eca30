//! The command line tool `odm`, which works on files of the embedded engine without a schema.
//!
//! ```no_run
//! let code = odm_cli::run(["odm", "stats", "shop.odm"]);
//! # let _ = code;
//! ```
//!
//! Commands that only read open the file by [`Database::open_read_only`](odm_engine::Database::open_read_only), so the file stays
//! unchanged. No other process may write the file meanwhile.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | a problem: a damaged file, a missing collection, a failed restore |
//! | 2 | wrong arguments: an unknown option, a filter that is not valid |
//! | 3 | the file cannot be opened: in use, missing, of a different program, of a newer format |

mod arguments;
mod command;
mod dump_format;
mod extended_json;
mod failure;
mod output;
mod text;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;
use failure::Failure;
use output::Output;

/// Runs the tool with the arguments of a process, starting with the name of the program. Writes to the standard output and the
/// standard error.
pub fn run(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Ignore the error: without an output, the exit code is all that is left.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(failure::USAGE_CODE));
        }
    };
    let mut output = Output::new(arguments.json);
    let done = command::run(arguments.command, &mut output).and_then(|()| output.finish());
    match done {
        // The reader of a pipe has seen enough.
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(failure) => {
            // The results before the failure come first.
            let _ = output.finish();
            eprintln!("odm: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
