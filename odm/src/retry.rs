//! How long to wait after a conflict.

use std::time::Duration;

/// The pause after the first conflict; each further one is twice as long, up to [`MAX_PAUSE`], less a random part.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const MAX_PAUSE: Duration = Duration::from_millis(250);

/// Waits after an attempt that met a conflict; attempts are counted from 1.
pub(crate) async fn pause(attempt: u32) {
    tokio::time::sleep(length(attempt)).await;
}

/// Two that collided once must not come back at the same time.
fn length(attempt: u32) -> Duration {
    let full = FIRST_PAUSE
        .saturating_mul(1 << attempt.min(16))
        .min(MAX_PAUSE);
    let spread = bson::oid::ObjectId::new().bytes();
    let part = spread.iter().fold(0_u32, |sum, &byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    full.mul_f64(f64::from(part % 1_000) / 2_000.0 + 0.5)
}
