//! The typed language: what an application sees.

pub mod aggregate;
pub mod decode;
pub mod edit;
pub mod filled;
pub mod filter;
pub mod find;
pub mod page;
pub mod projection;
pub mod relation;
pub mod schema;
pub mod transaction;
pub mod write;
