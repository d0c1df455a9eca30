//! Checksums of single values.
//!
//! A sealed value ends with the last 4 bytes (big-endian) of the XXH3 hash of its bytes, whose seed is the XXH3
//! hash of its key: a value that was damaged, or that has come under another key, is found when it is read.

use twox_hash::XxHash3_64;

use crate::error::{Error, Result};
use crate::key;

/// How much longer a value is when it is sealed.
pub(in crate::store) const LENGTH: usize = 4;

/// Whether the value under `key` is sealed, in a file whose values are.
pub(super) fn applies(is_sealed: bool, key: &[u8]) -> bool {
    is_sealed && !key::is_format(key)
}

/// Writes the value and its seal into `room`, which has the length of both.
pub(super) fn write(key: &[u8], value: &[u8], room: &mut [u8]) {
    let (plain, seal) = room.split_at_mut(value.len());
    plain.copy_from_slice(value);
    seal.copy_from_slice(&sum(key, value));
}

/// Checks the seal of a value.
///
/// # Errors
/// Damaged.
pub(super) fn check(key: &[u8], sealed: &[u8]) -> Result<()> {
    match sealed.split_last_chunk() {
        Some((value, seal)) if *seal == sum(key, value) => Ok(()),
        _ => Err(Error::damaged(format!(
            "{} has another checksum than it was written with",
            key::describe(key)
        ))),
    }
}

fn sum(key: &[u8], value: &[u8]) -> [u8; LENGTH] {
    let [_, _, _, _, seal @ ..] =
        XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(key), value).to_be_bytes();
    seal
}
