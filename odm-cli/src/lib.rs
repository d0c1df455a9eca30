//! The command line tool `odm`, and the same commands for programs with models.
//!
//! [`run_without_models`] is the program `odm`, which works on databases without a schema. [`run`] adds the commands that need the models
//! of an application, such as `check` and `sync-indexes`.
//!
//! ```no_run
//! let code = odm_cli::run_without_models(["odm", "stats", "shop.odm"]);
//! # let _ = code;
//! ```
//!
//! Commands that only read open the file by [`Database::open_read_only`](odm_engine::Database::open_read_only), so the file stays
//! unchanged. No other process may write the file meanwhile.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | a problem: a damaged file, a missing collection, a failed restore, findings of a check |
//! | 2 | wrong arguments: an unknown option, a filter that is not valid |
//! | 3 | the file cannot be opened: in use, missing, of a different program, of a newer format |

mod arguments;
mod command;
mod dump_format;
mod extended_json;
mod failure;
mod output;
mod place;
mod progress;
mod runtime;
mod schema;
mod server;
mod text;
mod tool;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;
use failure::Failure;
use output::Output;
pub use tool::{Tool, run};

/// Runs the program `odm` with the arguments of a process, starting with the name of the program. Writes to the standard output and the
/// standard error.
pub fn run_without_models(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    let mut output = Output::new(arguments.json);
    let done = command::run(arguments.command, &mut output);
    finish(done, output)
}

/// Prints the help, or an error of the arguments.
fn usage(error: &clap::Error) -> ExitCode {
    // Ignore the error: without an output, the exit code is all that is left.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(failure::USAGE_CODE))
}

/// Writes the rest of the output, and returns the exit code.
fn finish(done: failure::Result<()>, mut output: Output) -> ExitCode {
    match done.and_then(|()| output.finish()) {
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
