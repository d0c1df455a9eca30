//! Sums of contributions: the states of counts, sums and averages.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};

use super::child::ContributionDelta;
use crate::{
    Error, ErrorKind, Result, error,
    metadata::rollup::{STATE_COUNT, STATE_SUM},
    schema::{Model, Rollup, RollupKind},
};

/// The sum of the contributions to one rollup, or the change of such a sum.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ContributionSum {
    sum: i128,
    /// The number of contributions.
    count: i64,
}

/// Sums of contributions, by stored name of the rollup.
pub(super) type RollupSums = BTreeMap<String, ContributionSum>;

/// Adds the contribution of a child to sums.
pub(super) fn add_values(sums: &mut RollupSums, values: &Document) {
    for (field, value) in values {
        let sum = sums.entry(field.clone()).or_default();
        sum.sum += i128::from(value.as_i64().unwrap_or(0));
        sum.count += 1;
    }
}

impl ContributionSum {
    /// Returns the change of a sum.
    pub(super) fn change_of(rollup: &Rollup, deltas: &[ContributionDelta<'_>]) -> Self {
        let mut change = Self::default();
        let value_in = |values: &Document| values.get_i64(rollup.stored).ok();
        for delta in deltas {
            if let Some(old) = value_in(&delta.old_values) {
                change.sum -= i128::from(old);
                change.count -= 1;
            }
            let new = delta.new.and_then(|new| value_in(&new.values));
            if let Some(new) = new {
                change.sum += i128::from(new);
                change.count += 1;
            }
        }
        change
    }

    /// Returns the increments of the state of a rollup, by path.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) on overflow.
    pub(super) fn increments(self, parent_model: &Model, rollup: &Rollup) -> Result<Document> {
        let path = rollup.state_path();
        let sum = self.checked(parent_model, rollup)?;
        let increments = match rollup.kind {
            RollupKind::Average(_) => vec![
                (format!("{path}.{STATE_COUNT}"), self.count),
                (format!("{path}.{STATE_SUM}"), sum),
            ],
            _ => vec![(path, sum)],
        };
        let increments = increments.into_iter().filter(|(_, change)| *change != 0);
        Ok(increments
            .map(|(path, change)| (path, change.into()))
            .collect())
    }

    /// Returns the state of a rollup with these contributions.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) on overflow.
    pub(super) fn to_state(self, parent_model: &Model, rollup: &Rollup) -> Result<Bson> {
        let sum = self.checked(parent_model, rollup)?;
        Ok(match rollup.kind {
            RollupKind::Average(_) => doc! { STATE_COUNT: self.count, STATE_SUM: sum }.into(),
            _ => sum.into(),
        })
    }

    fn checked(self, parent_model: &Model, rollup: &Rollup) -> Result<i64> {
        let Self { sum, .. } = self;
        i64::try_from(sum).map_err(|_| {
            let value = match rollup.kind {
                RollupKind::Average(_) => "sum of the values of",
                _ => "sum",
            };
            let message = format!(
                "the {value} `{}` would be {sum}, which does not fit into an `i64`: store smaller values in the children",
                rollup.stored
            );
            error::naming_model(parent_model)(Error::new(ErrorKind::Invalid, message))
        })
    }
}
