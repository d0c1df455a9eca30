use std::ops::Deref;
use std::sync::Arc;

use redb::OwnedAccessGuard;

use super::redb::VALUE_CHECKSUM_BYTES;

/// A key or a value read from the store, without a copy.
pub(crate) enum StoredBytes {
    Shared(Arc<[u8]>),
    /// A slice of a redb page. The guard keeps the page in memory.
    Page(OwnedAccessGuard<&'static [u8]>),
    /// A slice of a redb page that ends with a checksum.
    PageWithChecksum(OwnedAccessGuard<&'static [u8]>),
}

impl Deref for StoredBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            StoredBytes::Shared(bytes) => bytes,
            StoredBytes::Page(guard) => guard.value(),
            StoredBytes::PageWithChecksum(guard) => {
                let sealed = guard.value();
                let plain = sealed.len().saturating_sub(VALUE_CHECKSUM_BYTES);
                sealed.get(..plain).unwrap_or_default()
            }
        }
    }
}
