//! An embedded BSON document store with MongoDB's semantics.
