//! Derives for `odm`.
