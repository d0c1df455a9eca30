//! Models: the traits and types of documents, the conversion from and to BSON, validation and hooks.

pub(crate) mod caseless;
pub(crate) mod decode;
pub mod derive_support;
pub mod document;
pub(crate) mod edited;
pub mod hook;
pub(crate) mod ids;
pub mod json;
pub mod legacy_uuid;
pub mod native;
pub mod projection;
pub(crate) mod stored;
pub(crate) mod text_token;
pub(crate) mod validation;
pub(crate) mod value_order;
