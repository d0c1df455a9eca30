//! A typed object-document mapper: relations for documents, on an embedded engine or on MongoDB.

pub mod backend;
mod error;

pub use error::{Error, ErrorKind, Result};
