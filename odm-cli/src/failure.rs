use std::fmt;
use std::io;
use std::path::Path;

use odm_engine::{Error, ErrorKind};

use crate::text::escape_controls;

/// The exit code for wrong arguments, as of clap.
pub(crate) const USAGE_CODE: u8 = 2;

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a command ends, and its exit code.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A problem in the data, the file system, or the state of the database.
    Problem(String),
    /// Arguments that are not valid.
    Usage(String),
    /// The file cannot be opened.
    Open(String),
    /// The reader of the output has closed the pipe.
    OutputClosed,
}

impl Failure {
    pub(crate) fn problem(message: impl Into<String>) -> Failure {
        Failure::Problem(message.into())
    }

    /// Returns the failure of an access to a file.
    pub(crate) fn io(action: &str, path: &Path, error: &io::Error) -> Failure {
        Failure::Problem(format!("{action} {}: {error}", path.display()))
    }

    /// Returns the failure of an open of a database.
    pub(crate) fn open(file: &Path, error: &Error) -> Failure {
        match error.kind() {
            ErrorKind::Damaged => Failure::Problem(error.to_string()),
            // The collation rules of an index have changed.
            ErrorKind::ReadOnly => {
                Failure::Open(format!("{error}; run: odm compact {}", file.display()))
            }
            _ => Failure::Open(error.to_string()),
        }
    }

    /// Returns the failure of an open of a database by `odm`.
    pub(crate) fn opening(error: odm::Error) -> Failure {
        let cause = error.cause();
        let engine = cause.and_then(|cause| cause.downcast_ref::<Error>());
        match (error.kind(), engine.map(Error::kind)) {
            (odm::ErrorKind::InvalidUrl, _) => Failure::Usage(error.to_string()),
            (_, Some(ErrorKind::Damaged)) => Failure::Problem(error.to_string()),
            // The collation rules of an index have changed.
            (_, Some(ErrorKind::ReadOnly)) => {
                Failure::Open(format!("{error}; run: odm compact FILE"))
            }
            _ => Failure::Open(error.to_string()),
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::OutputClosed => 0,
            Failure::Problem(_) => 1,
            Failure::Usage(_) => USAGE_CODE,
            Failure::Open(_) => 3,
        }
    }
}

impl fmt::Display for Failure {
    /// Writes the message on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Problem(message) | Failure::Usage(message) | Failure::Open(message) => {
                f.write_str(&escape_controls(&message.replace('\n', " ")))
            }
            Failure::OutputClosed => f.write_str("the output was closed"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error.kind() {
            ErrorKind::BadValue | ErrorKind::NotSupported | ErrorKind::UnknownOperator => {
                Failure::Usage(error.to_string())
            }
            ErrorKind::InUse | ErrorKind::ForeignFile | ErrorKind::NewerFormat => {
                Failure::Open(error.to_string())
            }
            _ => Failure::Problem(error.to_string()),
        }
    }
}

impl From<odm::Error> for Failure {
    fn from(error: odm::Error) -> Failure {
        use odm::ErrorKind;

        match error.kind() {
            ErrorKind::InvalidUrl => Failure::Usage(error.to_string()),
            ErrorKind::Connection | ErrorKind::InUse => Failure::Open(error.to_string()),
            _ => Failure::Problem(error.to_string()),
        }
    }
}

/// Converts an error of the output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Problem(format!("cannot write the output: {error}")),
        }
    }
}
