//! The typed language: what an application sees.

pub mod decode;
pub mod edit;
pub mod enums;
pub mod filled;
pub mod filter;
pub mod find;
pub mod relation;
pub mod schema;
pub mod transaction;
pub mod write;
