//! Runs files of recorded MongoDB answers against a backend: see `odm_tests::corpus`.

use std::process::ExitCode;

use clap::Parser;
use odm_tests::corpus::{self, Options};

fn main() -> ExitCode {
    match corpus::run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
