//! What can go wrong.

use std::fmt;

/// The result of an operation of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An operation failed.
#[derive(Debug)]
pub struct Error {
    code: Option<i32>,
    message: String,
}

impl Error {
    /// MongoDB's number for this error, where it has one.
    pub fn code(&self) -> Option<i32> {
        self.code
    }

    /// An error that MongoDB has a number for.
    pub(crate) fn server(code: i32, message: impl Into<String>) -> Error {
        Error {
            code: Some(code),
            message: message.into(),
        }
    }

    /// A value that the operation cannot take (MongoDB's code 2).
    pub(crate) fn bad_value(message: impl Into<String>) -> Error {
        Error::server(2, message)
    }

    /// An operator that does not exist.
    pub(crate) fn unknown_operator(code: i32, message: impl Into<String>) -> Error {
        Error::server(code, message)
    }

    /// Something that MongoDB has and the engine refuses.
    pub(crate) fn not_supported(message: impl Into<String>) -> Error {
        Error {
            code: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
