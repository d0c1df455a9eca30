//! The insert of a document that is counted nowhere and copied from nothing.

use std::time::Instant;

use odm::Database;

use super::{
    Sizes,
    hand::Hand,
    model::{self, Derived},
};
use crate::{contender::Result, measure};

/// Measures inserts of one document.
pub(super) async fn compare(db: &Database<Derived>, hand: &impl Hand, sizes: Sizes) -> Result<()> {
    let ids = |round: usize| -> Result<std::ops::Range<i64>> {
        let first = i64::try_from(round)? * sizes.inserts;
        Ok(first..first + sizes.inserts)
    };
    let count = u32::try_from(sizes.inserts)?;
    measure::turns(
        "plain insert",
        sizes.rounds,
        async |round| {
            let ids = ids(round)?;
            let start = Instant::now();
            for id in ids {
                db.insert(model::entry(id)).await?;
            }
            Ok(start.elapsed() / count)
        },
        async |round| {
            let ids = ids(round)?;
            let start = Instant::now();
            for id in ids {
                hand.insert(model::entry(id)).await?;
            }
            Ok(start.elapsed() / count)
        },
    )
    .await
}
