//! The typed language: what an application sees.

pub mod aggregate;
pub mod bulk;
pub mod decode;
pub mod edit;
pub mod elements;
pub mod enums;
pub mod expression;
pub mod filled;
pub mod filter;
pub mod find;
pub mod hooks;
pub mod injection;
pub mod native;
pub mod outcome;
pub mod page;
pub mod places;
pub mod projection;
pub mod relation;
pub mod schema;
pub mod storm;
pub mod transaction;
pub mod upsert;
pub mod validation;
pub mod variants;
pub mod write;
