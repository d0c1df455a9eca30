//! The program `odm`. See the library `odm_cli`.

use std::panic;
use std::process::ExitCode;

fn main() -> ExitCode {
    hide_panics_of_redb();
    odm_cli::run(std::env::args_os())
}

/// Keeps the panics of redb out of the standard error. redb panics on some damaged pages, and the engine turns such a panic into an
/// error, which the program prints.
fn hide_panics_of_redb() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let location = info.location();
        if !location.is_some_and(|location| location.file().contains("redb")) {
            print(info);
        }
    }));
}
