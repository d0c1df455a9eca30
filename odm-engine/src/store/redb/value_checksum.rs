//! Checksums of single values.
//!
//! A stored value ends with a checksum: the last 4 bytes (big-endian) of the value's XXH3 hash, seeded with the XXH3 hash of the
//! key. So a read detects a damaged value, and also a value stored under a wrong key.

use twox_hash::XxHash3_64;

use crate::error::{Error, Result};
use crate::key;

/// The length of a checksum in bytes.
pub(in crate::store) const CHECKSUM_BYTES: usize = 4;

/// Whether the value under `key` has a checksum, in a file with value checksums.
pub(super) fn has_checksum(is_sealed: bool, key: &[u8]) -> bool {
    is_sealed && !key::is_format_version(key)
}

/// Writes the value and its checksum into `room`. The length of `room` is the sum of both lengths.
pub(super) fn write_with_checksum(key: &[u8], value: &[u8], room: &mut [u8]) {
    let (plain, checksum) = room.split_at_mut(value.len());
    plain.copy_from_slice(value);
    checksum.copy_from_slice(&compute_checksum(key, value));
}

/// Verifies the checksum at the end of a stored value.
///
/// # Errors
/// Damaged.
pub(super) fn verify_checksum(key: &[u8], sealed: &[u8]) -> Result<()> {
    match sealed.split_last_chunk() {
        Some((value, checksum)) if *checksum == compute_checksum(key, value) => Ok(()),
        _ => Err(Error::damaged(format!(
            "{} does not match its checksum",
            key::describe_content(key)
        ))),
    }
}

fn compute_checksum(key: &[u8], value: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let [_, _, _, _, checksum @ ..] =
        XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(key), value).to_be_bytes();
    checksum
}
