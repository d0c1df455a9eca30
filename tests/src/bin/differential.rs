//! Compares the engine with a real MongoDB server on random operations: see `odm_tests::differential`.

use std::process::ExitCode;

use clap::Parser;
use odm_tests::differential::{self, Options};

fn main() -> ExitCode {
    match differential::run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
