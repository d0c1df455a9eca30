use std::ops::Deref;
use std::sync::Arc;

use redb::OwnedAccessGuard;

/// A key or a value that was read: shared with the store, not copied from it.
pub(crate) enum Bytes {
    Shared(Arc<[u8]>),
    /// A slice of a page, which stays in memory for as long as this lives.
    Page(OwnedAccessGuard<&'static [u8]>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Shared(bytes) => bytes,
            Bytes::Page(guard) => guard.value(),
        }
    }
}
