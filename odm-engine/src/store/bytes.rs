use std::ops::Deref;
use std::sync::Arc;

use redb::OwnedAccessGuard;

use super::redb::SEAL_LENGTH;

/// A key or a value that was read: shared with the store, not copied from it.
pub(crate) enum Bytes {
    Shared(Arc<[u8]>),
    /// A slice of a page, which stays in memory for as long as this lives.
    Page(OwnedAccessGuard<&'static [u8]>),
    /// The same, with a checksum behind it.
    Sealed(OwnedAccessGuard<&'static [u8]>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Shared(bytes) => bytes,
            Bytes::Page(guard) => guard.value(),
            Bytes::Sealed(guard) => {
                let sealed = guard.value();
                let plain = sealed.len().saturating_sub(SEAL_LENGTH);
                sealed.get(..plain).unwrap_or_default()
            }
        }
    }
}
