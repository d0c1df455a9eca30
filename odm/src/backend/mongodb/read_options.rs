//! The options of a read, as options of the driver.

use ::mongodb::options::{ReadPreference as DriverPreference, SelectionCriteria};

use crate::backend::operation::ReadPreference;

/// Adds the time limit, the comment and the read preference to an action of the driver.
macro_rules! with_read_options {
    ($action:expr, $options:expr) => {{
        let options = &$options;
        $action
            .optional(options.max_time, |action, max_time| {
                action.max_time($crate::backend::mongodb::to_driver_max_time(max_time))
            })
            .optional(options.comment.clone(), |action, comment| {
                action.comment(::mongodb::bson::Bson::String(comment))
            })
            .optional(options.read_preference, |action, preference| {
                action.selection_criteria(
                    $crate::backend::mongodb::read_options::to_driver_preference(preference),
                )
            })
    }};
}
pub(super) use with_read_options;

pub(super) fn to_driver_preference(preference: ReadPreference) -> SelectionCriteria {
    let options = None;
    SelectionCriteria::ReadPreference(match preference {
        ReadPreference::Primary => DriverPreference::Primary,
        ReadPreference::PrimaryPreferred => DriverPreference::PrimaryPreferred { options },
        ReadPreference::Secondary => DriverPreference::Secondary { options },
        ReadPreference::SecondaryPreferred => DriverPreference::SecondaryPreferred { options },
        ReadPreference::Nearest => DriverPreference::Nearest { options },
    })
}
