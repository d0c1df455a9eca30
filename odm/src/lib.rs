//! A typed object-document mapper.
