//! The reasons for the stages of a write.

use std::sync::{Mutex, PoisonError};

use super::{Footprint, computed, copy, link, overflow, rollup};
use crate::{access::Access, backend::operation::Stage, schema::Model};

/// The reasons for the stages of a write that is explained.
#[derive(Debug, Default)]
pub(crate) struct WriteExplanation {
    reasons: Mutex<Vec<(Stage, String)>>,
}

impl WriteExplanation {
    /// Adds the reasons for the stages that a write request runs, each reason once.
    pub(super) fn add_reasons(
        &self,
        access: &Access,
        model: &'static Model,
        footprint: &Footprint<'_>,
    ) {
        let stages = [
            (Stage::COPIES, copy::copy_reasons(access, model, footprint)),
            (
                Stage::ROLLUPS,
                rollup::rollup_reasons(access, model, footprint),
            ),
            (
                Stage::REFERENCES,
                link::reference_reasons(access, model, footprint),
            ),
            (Stage::ARRAYS, overflow::array_reasons(model, footprint)),
            (
                Stage::COMPUTED,
                computed::computed_reasons(model, footprint),
            ),
        ];
        let mut known = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        for (stage, reasons) in stages {
            for reason in reasons {
                let entry = (stage, reason);
                if !known.contains(&entry) {
                    known.push(entry);
                }
            }
        }
    }

    /// Returns the reasons, in the order of the stages.
    pub(crate) fn reasons(&self) -> Vec<(Stage, String)> {
        let reasons = self.reasons.lock();
        reasons.unwrap_or_else(PoisonError::into_inner).clone()
    }
}
