//! The reasons for the stages of a write.

use std::sync::{Mutex, PoisonError};

use super::{Footprint, maintainer::MAINTAINERS};
use crate::{backend::operation::Stage, session::access::ModelAccess};

/// The reasons for the stages of a write that is explained.
#[derive(Debug, Default)]
pub(crate) struct WriteExplanation {
    reasons: Mutex<Vec<(Stage, String)>>,
}

impl WriteExplanation {
    /// Adds the reasons for the stages that a write request runs, each reason once.
    pub(super) fn add_reasons(&self, access: ModelAccess<'_>, footprint: &Footprint<'_>) {
        let mut known = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        for kind in MAINTAINERS {
            for reason in kind.reasons(access, footprint) {
                let entry = (kind.stage(), reason);
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
