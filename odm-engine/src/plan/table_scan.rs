//! Refusal of collection scans.

use std::collections::BTreeSet;

use super::conditions::FilterDemands;
use crate::catalog::Collection;
use crate::direction::Direction;
use crate::error::{Error, code};
use crate::filter::FilterExpression;
use crate::sort::Sort;

/// Returns the error for an operation without an index while [`notablescan`] is set.
///
/// [`notablescan`]: crate::Database::set_notablescan
pub(super) fn scan_refused_error(
    collection: &Collection,
    expression: &FilterExpression,
    demands: &FilterDemands<'_>,
    sort: Option<&Sort>,
) -> Error {
    let fields = suggest_index_fields(expression, demands, sort);
    let name = &collection.name;
    let message = if fields.is_empty() {
        format!(
            "notablescan is set, and this operation would read every document of {name}; add a condition on a field"
        )
    } else {
        let fields = fields.join(", ");
        format!(
            "notablescan is set, and no index of {name} fits this operation; create an index on {{ {fields} }}"
        )
    };
    Error::with_server_code(code::NO_QUERY_EXECUTION_PLANS, message)
}

/// Suggests the fields of an index for the operation: fields with single values first, then the fields of the order, then one
/// field with a range.
fn suggest_index_fields(
    expression: &FilterExpression,
    demands: &FilterDemands<'_>,
    sort: Option<&Sort>,
) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut fields = Vec::new();
    let mut add = |path: &str, direction| {
        if seen.insert(path.to_owned()) {
            let sign = if direction == Direction::Ascending {
                "1"
            } else {
                "-1"
            };
            fields.push(format!("{path}: {sign}"));
        }
    };
    let (points, ranges): (Vec<_>, Vec<_>) = demands
        .conditions
        .iter()
        .partition(|condition| condition.bounds.are_points());
    for condition in points {
        add(&condition.path, Direction::Ascending);
    }
    for (path, direction) in sort.into_iter().flat_map(Sort::directed_paths) {
        add(path.as_str(), direction);
    }
    for condition in ranges.iter().take(1) {
        add(&condition.path, Direction::Ascending);
    }
    if fields.is_empty() {
        // No condition bounds an index. An index on the fields of the filter is still the best suggestion.
        let mut paths = Vec::new();
        collect_paths(expression, &mut paths);
        fields.extend(paths.into_iter().map(|path| format!("{path}: 1")));
        fields.dedup();
    }
    fields
}

fn collect_paths(expression: &FilterExpression, paths: &mut Vec<String>) {
    match expression {
        FilterExpression::And(inner)
        | FilterExpression::Or(inner)
        | FilterExpression::Nor(inner) => {
            inner.iter().for_each(|inner| collect_paths(inner, paths));
        }
        FilterExpression::Not(inner) => collect_paths(inner, paths),
        FilterExpression::Field(path, _) if !path.as_str().is_empty() => {
            paths.push(path.as_str().to_owned());
        }
        _ => {}
    }
}
